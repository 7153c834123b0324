"""Cuts tool results that are too large.

A cut result keeps its head and its tail. A line between them tells the number of tokens that were cut, and
how to read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from siltstone.compaction.base import Compaction, Substitute, Trigger
from siltstone.compaction.clip import near_end
from siltstone.messages import Excerpt, History, Message, read_substitute, with_result_texts
from siltstone.messages.message import SAID
from siltstone.tokens import TokenRule

__all__ = [
    "CLAMPED",
    "clamp",
    "clamp_result",
    "clamped_alone",
    "tokens_cut",
    "with_substitutes",
]

CLAMPED = "clamped"  #: the kind of a substitute that is a cut result

SHORTEST_TEXT = 40  # code points: the minimum part of each text that is kept

# As the note is written, and no longer: a tool may print anything that looks like one.
_CUT = re.compile(r"^\[… ([0-9]{1,3}(?:,[0-9]{3}){0,4}) tokens cut\b", re.MULTILINE)


def clamp(
    history: Iterable[tuple[int, Message]], tokens: int, token_rule: TokenRule, trigger: Trigger
) -> dict[int, Substitute]:
    """Substitutes for the messages with results that are larger than *tokens*, by position.

    Args:
        history: Messages with their positions.
        tokens: The maximum tokens of one message with results.
        token_rule: The token rule.
        trigger: Its pinned messages are not cut. Its ``reader`` is named as the tool that reads the cut
            part. If its caller keeps no substitutes, the result is empty.
    """
    found: dict[int, Substitute] = {}
    if not trigger.keeps_substitutes:
        return found
    for at, message in history:
        if message.said is None and message.provenance in SAID and not trigger.holds(message):
            cut = clamp_result(message, tokens, token_rule, trigger.reader)
            if cut is not None:
                found[at] = Substitute(message, cut)
    return found


def clamp_result(message: Message, tokens: int, token_rule: TokenRule, reader: str = "") -> Message | None:
    """*message* with its results cut, so that it has at most *tokens*; None if it needs no cut.

    None also if no cut makes it smaller. Each text keeps at least ``SHORTEST_TEXT`` code points, and words
    and media beside the results are not cut. So the message may stay larger than *tokens*.
    """
    if message.said is not None or not any(part.kind == "tool_result" for part in message.parts):
        return None  # true for most messages, so the tokens are not counted
    before = token_rule.count([message])
    if before <= tokens:
        return None
    texts: list[str] = []

    def seen(text: str) -> str:
        texts.append(text)
        return ""

    if with_result_texts(message, seen) is None or not texts:
        return None
    low, high = SHORTEST_TEXT, max(map(len, texts))
    cut = _cut_to(message, low, token_rule, reader)
    while low + 1 < high:
        middle = (low + high) // 2
        longer = _cut_to(message, middle, token_rule, reader)
        if longer is not None and token_rule.count([longer]) <= tokens:
            low, cut = middle, longer
        else:
            high = middle
    return cut if cut is not None and token_rule.count([cut]) < before else None


def tokens_cut(text: str) -> int:
    """The tokens that earlier cuts took out of *text*, by the notes in it; a new cut adds to them."""
    return sum(int(earlier[1].replace(",", "")) for earlier in _CUT.finditer(text))


def clamped_alone(history: Sequence[Message], substitutes: Mapping[int, Substitute]) -> Compaction:
    """A rewrite that discards nothing: the *substitutes* replace their originals, by position."""
    retained = _whole(history)
    return Compaction(
        messages=with_substitutes(retained, substitutes.values()),
        retained=retained,
        discarded=(),
        summary="",
        covers=(),
        level=0,
        substitutes=tuple(substitutes[at] for at in sorted(substitutes)),
    )


def with_substitutes(messages: Sequence[Message], substitutes: Iterable[Substitute]) -> Sequence[Message]:
    """*messages* with each original replaced by its substitute."""
    by_original = {id(each.original): each.message for each in substitutes}
    if not by_original:
        return messages
    if not isinstance(messages, Excerpt):
        return tuple(by_original.get(id(message), message) for message in messages)
    pieces: list[tuple[int, int] | Message] = []
    history = messages.history
    seqs = {message.seq for message in by_original.values()}
    places = [at for at in history.positions_of(seqs) if id(history[at]) in by_original]
    for piece in messages.pieces:
        if isinstance(piece, Message):
            pieces.append(piece)
            continue
        start, end = piece
        for at in places:
            if start <= at < end:
                pieces += [(start, at)] if start < at else []
                pieces.append(by_original[id(history[at])])
                start = at + 1
        pieces += [(start, end)] if start < end else []
    return Excerpt(history, pieces)


def _whole(history: Sequence[Message]) -> Sequence[Message]:
    return Excerpt(history, [(0, len(history))]) if isinstance(history, History) else tuple(history)


def _cut_to(message: Message, length: int, token_rule: TokenRule, reader: str) -> Message | None:
    """*message* with each text of its results cut to about *length* code points."""
    handle = f'; {reader}("m{message.seq}") reads them' if reader else ""
    fields = with_result_texts(message, lambda text: _cut_text(text, length, token_rule, handle))
    return None if fields is None else read_substitute(message, fields, CLAMPED)


def _cut_text(text: str, length: int, token_rule: TokenRule, handle: str) -> str:
    """The head of *text* (two thirds of *length*), a line about the cut part, and the tail (one third)."""
    if len(text) <= length:
        return text
    head = near_end(text, length * 2 // 3)
    tail = _line_start(text, len(text) - (length - length * 2 // 3))
    middle = text[head:tail]
    tokens = token_rule.count_text(middle) + tokens_cut(middle)
    note = f"[… {tokens:,} tokens cut{handle} …]"
    cut = f"{text[:head].rstrip()}\n{note}\n{text[tail:]}"
    return cut if len(cut) < len(text) else text


def _line_start(text: str, start: int) -> int:
    """The first beginning of a line in the first quarter of the text after *start*; else *start*."""
    end = start + (len(text) - start) // 4
    found = text.find("\n", start, end)
    return start if found < 0 else found + 1
