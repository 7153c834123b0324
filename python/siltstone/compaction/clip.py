"""Cutting a text to a number of tokens without cutting a character, or a sentence where that is near."""

from __future__ import annotations

from siltstone.patterns import pattern
from siltstone.tokens import TokenRule

__all__ = ["MARK", "clip", "head_and_tail", "near_end"]

MARK = "[…]"  #: where something was left out

_SENTENCE_END = pattern(r"[.!?](?=\s)|[。！？]|\n")


def clip(text: str, tokens: int, token_rule: TokenRule) -> str:
    """*text*, at most *tokens* by *token_rule*; what was cut shows as ``[…]``.

    It ends with the last line or sentence that begins in the last quarter of what fits, else with the
    last word there, else with the last code point that fits. Empty where not even the mark fits.
    """
    if token_rule.count_text(text) <= tokens:
        return text
    tail = f"\n{MARK}"
    low, high = 0, len(text)
    while low < high:  # the longest prefix that fits together with the mark
        middle = (low + high + 1) // 2
        if token_rule.count_text(text[:middle] + tail) <= tokens:
            low = middle
        else:
            high = middle - 1
    if low == 0:
        return MARK if token_rule.count_text(MARK) <= tokens else ""
    return text[: near_end(text, low)].rstrip() + tail


def head_and_tail(text: str, length: int, indent: str = "") -> str:
    """*text*, at most about *length* code points of it: two thirds from its head, one from its tail.

    What begins a line only because of the cut has *indent* before it.
    """
    if len(text) <= length:
        return text
    head = length * 2 // 3
    tail = length - head
    left_out = f"{MARK} {len(text) - length} characters left out {MARK}"
    return f"{text[:head]}\n{indent}{left_out}\n{indent}{text[len(text) - tail :]}"


def near_end(text: str, end: int) -> int:
    """A good place to cut at or before *end*, no further back than a quarter of it."""
    start = end - end // 4
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end)]
    if ends:
        return ends[-1]
    space = max(text.rfind(" ", start, end), text.rfind("\t", start, end))
    return space if space > 0 else end
