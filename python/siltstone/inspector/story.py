"""The page of one session: its context over time, the parts of the context now, and every compaction."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone import tokens
from siltstone.compaction import breakdown
from siltstone.compaction.breakdown import ContextBreakdown
from siltstone.figures.filling import categories
from siltstone.figures.turns import Mark, Said, TurnTokens, told
from siltstone.inspector.chart import Chart, chart
from siltstone.inspector.subject import Subject
from siltstone.memory import RecallRecord
from siltstone.memory.log import LogState
from siltstone.memory.recalled import MOST_RECALLS
from siltstone.messages import read_history
from siltstone.session import CompactionRecord

__all__ = ["PAGE", "RULE", "Story", "story"]

RULE = "blocks"  #: how the command line counts a context where nobody says otherwise
PAGE = 200  #: turns of a page


@dataclass(frozen=True, slots=True)
class Story:
    """The story of a session.

    Attributes:
        turns: The turns of the page, the newest first.
        all_turns: The number of turns.
        marks: The compactions, branches and undos that led to the current view, oldest first.
        records: Every compaction and branch, the newest first; those that were taken back too.
        chart: The drawing; None for a session without messages.
        bands: The tokens in context, by category.
        filling: The sum of the bands.
        window: The window in tokens; None if it is unknown.
        is_learned: The window is the provider's own, from one of its errors.
        is_noted: The window is the one that the last compaction noted.
        most: The most tokens that a turn left in context.
        start: The place of the first turn of the page, from the newest.
        waits: Seconds from the last message that each compaction read to its commit.
        recalls: The recalls that the log has, the newest first.
    """

    turns: tuple[TurnTokens, ...]
    all_turns: int
    marks: tuple[Mark, ...]
    records: tuple[CompactionRecord, ...]
    chart: Chart | None
    bands: dict[str, int]
    filling: ContextBreakdown
    window: int | None
    is_learned: bool
    is_noted: bool
    most: int
    start: int
    waits: dict[int, float]
    recalls: tuple[RecallRecord, ...]

    @property
    def recalled(self) -> tuple[int, int, float]:
        """How many recalls placed a block, its tokens in the middle, and the seconds in the middle."""
        placed = [each for each in self.recalls if each.tokens]
        if not placed:
            return 0, 0, 0.0
        middle = len(placed) // 2
        tokens = sorted(each.tokens for each in placed)[middle]
        return len(placed), tokens, sorted(each.seconds for each in placed)[middle]


def story(
    subject: Subject, session_id: str, window: int | None = None, start: int = 0, page: int | None = PAGE
) -> Story:
    """The story of a session."""
    session = subject.session(session_id)
    log = subject.store.open_log(session_id)
    state = log.state()
    said = subject.kept(session_id, "said", state.redactions, Said)
    turns, marks = subject.kept(session_id, "turns", state.version, lambda: told(log, said))
    learned = session.context_window
    rule = tokens.rule(RULE)
    view = read_history(session.history())
    records = session.compactions(undone=True)
    noted = next((each.context_window for each in records[::-1] if each.context_window is not None), None)
    known = window or learned or noted
    recalls = tuple(session.recalls(MOST_RECALLS))
    full = breakdown(view, known, estimator=rule, messages_seen=state.next_seq)
    newest = turns[::-1]
    return Story(
        tuple(newest[start:] if page is None else newest[start : start + page]),
        len(turns),
        tuple(marks),
        tuple(records[::-1]),
        chart(turns, marks, known, recalls),
        categories(view, rule),
        full,
        known,
        window is None and learned is not None,
        window is None and learned is None and noted is not None,
        max((turn.context for turn in turns), default=0),
        start,
        _waits(subject, session_id, state, records),
        recalls,
    )


def _waits(
    subject: Subject, session_id: str, state: LogState, records: list[CompactionRecord]
) -> dict[int, float]:
    """How long after the last message that it read each compaction was committed, in seconds."""
    log = subject.store.open_log(session_id)
    ends = {row.compaction_id: row.compaction.next_seq for row in log.compactions()}
    found = {}
    for record in records:
        end = min(ends.get(record.id, 0), state.next_seq)
        for row in log.read(end - 1, end) if end else ():
            found[record.id] = max(0.0, record.created_at.timestamp() - row.created_at / 1000)
    return found
