"""The turns of a session in tokens, and the compactions, branches and undos up to its current view."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from siltstone.figures.reading import log_rows
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow, LogRow, SessionLog
from siltstone.messages import decode, opens_turn, read_message
from siltstone.session.rows import threshold_of

__all__ = ["Mark", "Said", "TurnTokens", "told"]


#: How a request that is a plain text begins, as the log has it.
_PLAIN = ('{"role":"user","content":"', '{"role": "user", "content": "')


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """A turn. Messages before the first request are turn 0.

    Attributes:
        turn: Its number.
        start: Its first message.
        end: The number after its last message.
        tokens: The tokens of its messages.
        context: The tokens in context after it.
    """

    turn: int
    start: int
    end: int
    tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A compaction, a branch or an undo, which stands before message *seq*.

    Attributes:
        id: The id of the compaction.
        seq: The first message behind it.
        reason: Why it was due.
        tokens_before: Tokens of the view before, by the policy's rule.
        tokens_after: Tokens of the view after.
        created_at: The time of its commit, in UTC, as ISO 8601.
        threshold: The threshold in tokens that was reached; None where there was none, or nobody noted it.
        reserved_tokens: Tokens beside the history that counted against it.
    """

    id: int
    seq: int
    reason: str
    tokens_before: int
    tokens_after: int
    created_at: str
    threshold: int | None = None
    reserved_tokens: int = 0


class Said:
    """The tokens of each message of a log, and whether the message opens a turn, for the timeline.

    A log only grows, so the next call reads only the new messages. Safe for several threads.
    """

    def __init__(self) -> None:
        self._messages: list[tuple[int, bool]] = []
        self._lock = threading.Lock()

    def up_to_now(self, log: SessionLog) -> list[tuple[int, bool]]:
        """The messages of *log*, in order; always of the same log."""
        with self._lock:
            for row in log_rows(log, len(self._messages), None):
                self._messages.append((row.tokens, _opens_turn(row)))
            return self._messages[:]


def told(log: SessionLog, said: Said | None = None) -> tuple[list[TurnTokens], list[Mark]]:
    """The turns of a log, and the compactions, branches and undos up to its current view, oldest first.

    *said* has the messages that earlier calls have read.
    """
    line_of_rows = list(_line(log))
    marks = [
        Mark(
            row.compaction_id,
            row.compaction.next_seq,
            row.compaction.reason,
            row.compaction.tokens_before,
            row.compaction.tokens_after,
            datetime_from(row.compaction.created_at).isoformat(),
            *threshold_of(row.compaction),
        )
        for row in line_of_rows
    ]
    turns: list[TurnTokens] = []
    number = start = tokens = context = end = 0
    waiting = list(marks)
    for seq, (size, is_request) in enumerate((said or Said()).up_to_now(log)):
        while waiting and waiting[0].seq <= seq:
            context = waiting.pop(0).tokens_after
        if is_request:
            if seq > start:
                turns.append(TurnTokens(number, start, seq, tokens, context))
            number, start, tokens = number + 1, seq, 0
        tokens, context, end = tokens + size, context + size, seq + 1
    if waiting:
        context = waiting[-1].tokens_after
    if end > start:
        turns.append(TurnTokens(number, start, end, tokens, context))
    return turns, marks


def _opens_turn(row: LogRow) -> bool:
    if row.provenance == "original" and row.raw.startswith(_PLAIN):
        return True  # as most are: no tool result is a plain text
    return row.role == "user" and opens_turn(read_message(decode(row.raw), row.seq))


def _line(log: SessionLog) -> Iterator[CompactionRow]:
    """The rows that led to the current view, oldest first."""
    rows = {row.compaction_id: row for row in log.compactions()}
    head, found = log.state().head, []
    at = None if head is None else head.compaction_id
    while at in rows:
        found.append(rows[at])
        at = rows[at].parent
    return reversed(found)
