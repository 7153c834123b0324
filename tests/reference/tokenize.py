"""Text to words, by the rules ``words-1`` and ``whitespace``."""

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["separator", "mark", "letter", "cjk"]

# Where Han, kana and Hangul lie; part of the rule.
CJK = [
    (0x1100, 0x11FF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035), (0x3038, 0x303C),
    (0x3041, 0x30FF), (0x3131, 0x318E), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xA960, 0xA97F), (0xAC00, 0xD7A3), (0xD7B0, 0xD7FF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0xFFA0, 0xFFDC), (0x16FE3, 0x16FE3), (0x16FF2, 0x16FF6), (0x1AFF0, 0x1AFFF), (0x1B000, 0x1B16F),
    (0x20000, 0x2FFFF), (0x30000, 0x3FFFF),
]  # fmt: skip

# Symbols that Unicode counts as alphabetic: letters in circles and squares.
ALPHABETIC_SYMBOLS = [(0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)]


def words(text: str) -> list[str]:
    """The words of *text* by ``words-1``."""
    found: list[str] = []
    for run_kind, run in _runs(repaired(text)):
        if run_kind == "cjk" and len(run) > 1:
            found += [first + second for first, second in pairwise(run)]
        else:
            found.append(run)
    return found


def whitespace_words(text: str) -> list[str]:
    """The texts between white space, their ASCII letters in lower case."""
    # str.split() also splits at U+001C to U+001F, which are not White_Space.
    spaced = "".join(" " if c.isspace() and not "\x1c" <= c <= "\x1f" else c for c in repaired(text))
    return ["".join(c.lower() if c.isascii() else c for c in word) for word in spaced.split(" ") if word]


@cache
def kind(c: str) -> Kind:
    """The effect of the code point *c* on a word."""
    category = unicodedata.category(c)
    if category.startswith("M"):
        return "mark"
    if not category.startswith(("L", "N")) and not _lies_in(c, ALPHABETIC_SYMBOLS):
        return "separator"
    return "cjk" if _lies_in(c, CJK) else "letter"


def lower(c: str) -> str:
    """The lower case of one code point, one code point long."""
    return "σ" if c == "ς" else c.lower()[0]


def repaired(text: str) -> str:
    """*text* as the core reads it: surrogates paired where they pair, U+FFFD where they do not."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _runs(text: str) -> Iterator[tuple[Kind, str]]:
    """Runs of letters and runs of CJK, each with the marks that follow it, in lower case."""
    current: Kind = "separator"
    kinds: list[Kind] = []
    for c in text:
        found = kind(c)
        current = current if found == "mark" else found
        kinds.append(current)
    for run_kind, run in groupby(zip(kinds, text, strict=True), key=lambda pair: pair[0]):
        if run_kind != "separator":
            yield run_kind, "".join(lower(c) for _, c in run)


def _lies_in(c: str, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= ord(c) <= last for first, last in ranges)
