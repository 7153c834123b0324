"""Sizes of a text, and the estimates of tokens that are made from them."""

import json
import math
import re
from pathlib import Path


def text_size(text: str) -> tuple[int, int]:
    """Bytes of UTF-8, a lone surrogate counting three, and code points."""
    return len(text.encode("utf-8", "surrogatepass")), len(text)


def json_size(value: object) -> tuple[int, int]:
    """Bytes and code points of *value* as compact JSON without ASCII escapes."""
    return text_size(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def bytes_over_four(size: tuple[int, int]) -> int:
    """Rule ``bytes/4``: a quarter of the bytes, rounded down."""
    return math.floor(size[0] / 4)


def chars_over_three(size: tuple[int, int]) -> int:
    """Rule ``chars/3``: a third of the code points, rounded up."""
    return math.ceil(size[1] / 3)


_SOURCE = (Path(__file__).parents[2] / "rust/core/src/tokens.rs").read_text()
_FAMILIES = re.findall(r'"([^"]*)"', _SOURCE.split("const FAMILIES")[1].split("];")[0])
_PLAIN = [json.loads(row) for row in re.findall(r"\[-?\d+(?:, -?\d+){12}\]", _SOURCE)]
_SCRIPTS = [
    (int(start.replace("_", ""), 16), json.loads(row))
    for start, row in re.findall(r"\((0x[0-9A-F_]+), (\[[\d, ]+\])\),", _SOURCE)
]


def _kind(char: str) -> str:
    if char > "\x7f":
        return "wide"
    if char.isalpha():
        return "letter"
    return "digit" if char.isdigit() else "space" if char == " " else "line" if char in "\n\r\t" else "sign"


def weight(text: str, rule: str = "blocks") -> int:
    """The weights of the characters of *text* together, in 64ths of a token."""
    family = _FAMILIES.index(rule)
    names = ["letter", "word", "capital", "capitals", "hump", "mixed", "digit", "number"]
    names += ["sign", "same", "spaces", "line", "lines"]
    one = dict(zip(names, _PLAIN[family], strict=True))
    total, before = 0, " "
    for char in text:
        kind, last = _kind(char), _kind(before)
        if kind == "letter":
            total += one["letter"] + (one["word"] if last != "letter" else 0)
            total += one["capital"] if char.isupper() else 0
            total += one["capitals"] if char.isupper() and last == "letter" and before.isupper() else 0
            total += one["hump"] if char.isupper() and last == "letter" and before.islower() else 0
            total += one["mixed"] if last == "digit" else 0
        elif kind == "digit":
            total += one["digit"] + (one["number"] if last != "digit" else 0)
            total += one["mixed"] if last == "letter" else 0
        elif kind == "sign":
            total += one["sign"] + (one["same"] if char == before else 0)
        elif kind == "space":
            total += one["spaces"] if before == " " else 0
        elif kind == "line":
            total += one["lines"] if last == "line" else one["line"]
        elif ord(char) < 0x10000:
            total += [row for start, row in _SCRIPTS if start <= ord(char)][-1][family]
        else:
            is_picture = ord(char) >> 12 == 0x1F
            total += _SCRIPTS[-1 if is_picture else -2][1][family]
        before = char
    return total


def tokens(text: str, rule: str = "blocks") -> int:
    """The tokens of a text by the weights of its characters, but at least one."""
    weighed = weight(text, rule)
    by_rule = max(text_size(text)[0] // 4, weighed // 64) if rule == "blocks" else math.ceil(weighed / 64)
    return max(1, by_rule) if text else 0


def json_tokens(value: object, rule: str = "weights") -> int:
    """The tokens of *value* as JSON: texts, keys and numbers by their weights, 16 for a mark or a quote."""
    return math.ceil(_json_weight(value, rule) / 64)


def _json_weight(value: object, rule: str) -> int:
    if isinstance(value, str):
        return weight(value, rule) + 2 * 16
    if isinstance(value, dict):
        marks = 2 + max(0, 2 * len(value) - 1)
        keys = [key if isinstance(key, str) else json.dumps(key) for key in value]
        return marks * 16 + sum(_json_weight(each, rule) for each in [*keys, *value.values()])
    if isinstance(value, list | tuple):
        return (2 + max(0, len(value) - 1)) * 16 + sum(_json_weight(each, rule) for each in value)
    return weight(json.dumps(value), rule)
