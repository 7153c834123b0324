"""Writes a block of recalled text, within a budget, so that no text in it can pose as another part."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from siltstone._native import BlockOptions, BlockWriter, RecallConditions, RecallContext, Recalled
from siltstone.messages.recalled_block import TAGS, frame, parse_block
from siltstone.recall.base import Detail, FactLine, RecallBlock
from siltstone.tokens import TextMeasure

__all__ = [
    "WRITER",
    "BlockOptions",
    "BlockWriter",
    "RecallConditions",
    "RecallContext",
    "Recalled",
    "block_of",
    "block_options",
    "build_block",
    "lines",
    "parse_block",
    "safe",
    "written",
]

_KNOWLEDGE_PERCENT: Final = 30  #: of the cap; details have the rest

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_AHEAD: Final = 64  #: characters behind a bracket in which a tag's name may be hidden
_LINES: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_BREAKS: Final = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_HEADER: Final = re.compile(r"(?m)^(?=\s*\[\d{4}-\d\d-\d\d \d\d:\d\d [^\]\n]*\])")
#: The characters that can be dangerous: nearly all texts have none of them.
_SPECIAL: Final = "<＜﹤‹⟨〈〈˂ᐸ❮❰[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ANY_SPECIAL: Final = re.compile(f"[{re.escape(_SPECIAL)}]")
_WORD: Final = re.compile(r"[^\w-]+")
#: Letters of other scripts that look like letters of our tags.
_LOOK_ALIKES: Final = str.maketrans("аеорсԁіӏıοκωγ‐‑‒–—−", "aeopcdilioxwy------")
#: The invisible characters of ASCII: blanks and controls.
_UNSEEN: Final = dict.fromkeys([*range(0x21), 0x7F])
_BRACKETS: Final = re.compile("[<＜﹤‹⟨〈〈˂ᐸ❮❰]")


def build_block(
    facts: Sequence[FactLine],
    details: Sequence[Detail],
    cap: int,
    count: Callable[[str], int],
    *,
    framed: bool = False,
    cut: bool = False,
) -> RecallBlock:
    """The block of *facts* and *details*, with at most *cap* tokens by *count*.

    Facts may take 30 % of the cap, details the rest. Each part is filled by score until an item does not fit,
    and has at least one item. If the whole is over the cap, the details with the lowest scores are dropped,
    then all facts, then everything. Details are written oldest first.

    Args:
        facts: The facts. Of equal scores the earlier one comes first.
        details: The details.
        cap: The most tokens.
        count: Counts the tokens of a text.
        framed: Whether a sentence before the block explains it, within the cap.
        cut: Whether a detail that is larger than the details' budget is cut to it, and marked.
    """
    options = block_options(cap, count, framed=framed, cut=cut)
    return written(facts, details, "", options)


def block_options(
    cap: int,
    count: Callable[[str], int],
    *,
    framed: bool,
    cut: bool,
    measure: TextMeasure | None = None,
    excerpt: Callable[[str, str, int], str] | None = None,
) -> BlockOptions:
    """The options of a block, for the core.

    Args:
        cap: The most tokens.
        count: Counts the tokens of a text.
        framed: Whether a sentence before the block explains it.
        cut: Whether a detail that is too large is cut.
        measure: The rule that *count* implements, if the core knows it.
        excerpt: Called with query, text and a number of tokens; returns the best part of the text. With it
            no detail takes more than half of the tokens that are left.
    """
    return BlockOptions(cap, cap * _KNOWLEDGE_PERCENT // 100, count, measure, excerpt, framed, cut)


def written(
    facts: Sequence[FactLine], details: Sequence[Detail], query: str, options: BlockOptions, below: int = 0
) -> RecallBlock:
    """The block of *facts* and *details*; too large details are cut to the part that fits *query*.

    *below* is the number of details that scored too little.
    """
    rows = [_row(each) for each in details]
    text, tokens, known, said, considered = WRITER.write(query, lines(facts), rows, options)
    return block_of(text, tokens, known, said, considered, below, is_any=bool(facts or details))


def block_of(
    text: str, tokens: int, known: int, said: int, considered: str, below: int, *, is_any: bool
) -> RecallBlock:
    """A written block; *is_any* says whether there were facts or details."""
    if text:
        return RecallBlock(text, tokens, known, said, considered=considered, below=below)
    reason = "no_room" if is_any else "no_hits"
    return RecallBlock(reason=reason, considered=considered, below=below)


def lines(facts: Sequence[FactLine]) -> list[str]:
    """*facts* as lines of a block, the best first."""
    return [_fact(fact) for fact in sorted(facts, key=lambda fact: -fact.score)]


def safe(content: str) -> str:
    """*content*, escaped so that it can neither close the block nor pose as a part of it.

    A bracket before the name of one of our tags becomes ``&lt;``, however the name is disguised, and a line
    that looks like the beginning of a detail gets a backslash. Everything else stays.
    """
    if _ANY_SPECIAL.search(content) is None:
        return content

    def bracket(found: re.Match[str]) -> str:
        return "&lt;" if _names_a_tag(content[found.end() : found.end() + _AHEAD]) else found[0]

    escaped = _BRACKETS.sub(bracket, content)
    escaped = _BREAKS.sub("\n", escaped)  # every line end that some reader recognizes becomes one
    return _HEADER.sub(lambda _: "\\", escaped)


def _names_a_tag(behind: str) -> bool:
    """Whether *behind* begins with the name of a tag, after invisible characters are removed."""
    if behind.isascii():
        return behind.lower().translate(_UNSEEN).lstrip("/\\").startswith(TAGS)
    folded = unicodedata.normalize("NFKC", behind).casefold().translate(_LOOK_ALIKES)
    seen = "".join(
        char for char in unicodedata.normalize("NFD", folded)
        if not char.isspace() and unicodedata.category(char) not in {"Cf", "Cc", "Mn", "Me", "Cn", "Co"}
    )  # fmt: skip
    return seen.lstrip("/⁄∕\\").startswith(TAGS)


def _fact(fact: FactLine) -> str:
    return f"- [{_word(fact.type)}] {_LINES.sub(' ', safe(fact.content)).strip()}"


@lru_cache(maxsize=64)
def _word(text: str) -> str:
    return _WORD.sub("_", text).strip("_") or "unknown"


def _row(detail: Detail) -> tuple[str, float, str, int, int]:
    """*detail* with its time in milliseconds since 1970."""
    content, score, role, moment, entry_id = detail
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        moment = (aware - _EPOCH) // _MILLISECOND
    return content, score, role, moment, entry_id


WRITER: Final = BlockWriter(_SPECIAL, safe, _word, frame)
