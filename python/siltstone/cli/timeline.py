"""The command that tells a session turn by turn: what each said, and what was in context after it."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.cli.console import AsJson, line, output, print_json, refusals
from siltstone.cli.looking import SessionId, StorePath, log_rows, plain
from siltstone.cli.stores import opened, require_session
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow, LogRow, SessionLog
from siltstone.messages import decode, opens_turn, read_message
from siltstone.values import asdict, dataclass

__all__ = ["Mark", "TurnTokens", "timeline", "told"]

_BAR, _LEAST_BAR = 60, 8  # columns of the longest bar, by the width of the terminal
_SAID = 44  # columns of what stands before it


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """A turn. What was said before the first request is turn 0.

    Attributes:
        turn: Its number.
        start: Its first message.
        end: One past its last.
        tokens: What its messages have.
        context: What was in context after it.
    """

    turn: int
    start: int
    end: int
    tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A compaction, a branch or an undo, which stands before message *seq*."""

    id: int
    seq: int
    reason: str
    tokens_before: int
    tokens_after: int
    created_at: str


def timeline(store: StorePath, session: SessionId, as_json: AsJson = False) -> None:
    """Tell a session turn by turn, in tokens.

    It shows what was said, what was in context after it, and each compaction.

    Example: siltstone timeline agent-data chat-1
    """
    with refusals(), opened(store, read_only=True) as held:
        require_session(held, session)
        turns, marks = told(held.open_log(session))
    if as_json:
        shown = {"turns": [asdict(each) for each in turns], "compactions": [asdict(each) for each in marks]}
        print_json(plain({"session": session, **shown}))
        return
    most = max([*(turn.context for turn in turns), *(mark.tokens_before for mark in marks)], default=0)
    if turns:
        line(f"{'turn':>4}  {'messages':<13}  {'said':>9}  {'in context':>10}", "bold")
    waiting = list(marks)
    for turn in turns:
        span = f"{turn.start}-{turn.end - 1}"
        said = f"{turn.turn:>4}  {span:<13}  {turn.tokens:>9,}  {turn.context:>10,}"
        line(f"{said}  {_bar(turn.context, most)}".rstrip())
        while waiting and waiting[0].seq <= turn.end:
            line(_told(waiting.pop(0)), "yellow")
    line(f"{len(turns)} turns, {len(marks)} compactions")


def _told(mark: Mark) -> str:
    change = f"{mark.tokens_before:,} to {mark.tokens_after:,} tokens"
    return f"   ▼  compaction {mark.id} before message {mark.seq}: {mark.reason}, {change}"


def _bar(tokens: int, most: int) -> str:
    """*tokens* as a bar, where there is a terminal."""
    if not output.is_terminal or not most:
        return ""
    longest = max(_LEAST_BAR, min(_BAR, output.width - _SAID))
    return "█" * round(longest * tokens / most)


def told(log: SessionLog) -> tuple[list[TurnTokens], list[Mark]]:
    """The turns of a log, and what happened on the way to its current view, oldest first."""
    line_of_rows = list(_line(log))
    marks = [
        Mark(
            row.compaction_id,
            row.compaction.next_seq,
            row.compaction.reason,
            row.compaction.tokens_before,
            row.compaction.tokens_after,
            datetime_from(row.compaction.created_at).isoformat(),
        )
        for row in line_of_rows
    ]
    turns: list[TurnTokens] = []
    number = start = tokens = context = end = 0
    waiting = list(marks)
    for row in log_rows(log, 0, None):
        while waiting and waiting[0].seq <= row.seq:
            context = waiting.pop(0).tokens_after
        if _opens_turn(row):
            if row.seq > start:
                turns.append(TurnTokens(number, start, row.seq, tokens, context))
            number, start, tokens = number + 1, row.seq, 0
        tokens, context, end = tokens + row.tokens, context + row.tokens, row.seq + 1
    if waiting:
        context = waiting[-1].tokens_after
    if end > start:
        turns.append(TurnTokens(number, start, end, tokens, context))
    return turns, marks


def _opens_turn(row: LogRow) -> bool:
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
