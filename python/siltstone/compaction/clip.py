"""Cuts a text to a number of tokens, at the end of a sentence or word if one is near."""

from __future__ import annotations

import re

from siltstone.tokens import TokenRule

__all__ = ["MARK", "clip", "head_and_tail", "near_end"]

MARK = "[…]"  #: the mark of a part that was left out

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]|\n")


def clip(text: str, tokens: int, token_rule: TokenRule) -> str:
    """*text* cut to at most *tokens* by *token_rule*; ``[…]`` marks the cut part.

    The cut is at the last end of a line or sentence in the last quarter of the part that fits, else at the
    last end of a word there, else at the last code point that fits. Empty if not even the mark fits.
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
    """About *length* code points of *text*: two thirds from its head, one third from its tail.

    Lines that begin only because of the cut have *indent* before them.
    """
    if len(text) <= length:
        return text
    head = length * 2 // 3
    tail = length - head
    left_out = f"{MARK} {len(text) - length} characters left out {MARK}"
    return f"{text[:head]}\n{indent}{left_out}\n{indent}{text[len(text) - tail :]}"


def near_end(text: str, end: int) -> int:
    """The best place to cut in the last quarter before *end*: a sentence's end, else a space, else *end*."""
    start = end - end // 4
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end)]
    if ends:
        return ends[-1]
    space = max(text.rfind(" ", start, end), text.rfind("\t", start, end))
    return space if space > 0 else end
