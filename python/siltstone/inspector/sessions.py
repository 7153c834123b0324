"""The page of all sessions, and the page of one: its context over time, and every compaction."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, Self, TypeVar, cast

from siltstone import tokens
from siltstone.errors import SiltstoneError
from siltstone.figures import Mark, Said, TurnTokens, filling, in_context, recall_cost, require_session, told
from siltstone.memory import RecallRecord, SessionInfo
from siltstone.memory.base import Store, sessions_of
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.log import LogState
from siltstone.session import Session
from siltstone.session.committing import UNDO
from siltstone.session.compactions import CompactionRecord

# The store that is inspected, and the sessions of it that were opened for reading.

T = TypeVar("T")
_MOST = 8  #: sessions that are held open
_KEPT = {"context": 1_000}  #: of how many sessions a figure is kept; of anything larger of _MOST


class Subject:
    """A store, open for reading.

    Args:
        name: The name of the store on the pages.
        open_store: Opens it: for reading where its argument is True.
        write: Whether the pages may undo, forget, pin and unpin.
    """

    def __init__(self, name: str, open_store: Callable[[bool], Store], *, write: bool = False) -> None:
        self.name, self.open_store, self.write = name, open_store, write
        self.store = open_store(True)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._kept: dict[str, OrderedDict[str, tuple[object, object]]] = {}
        self._lock = threading.Lock()

    @property
    def short_name(self) -> str:
        """The last part of the name."""
        return self.name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or self.name

    def session(self, session_id: str) -> Session:
        """A session of the store, open for reading. It follows writes of other processes.

        Raises:
            ConfigError: the store has no such session.
        """
        require_session(self.store, session_id)
        with self._lock:
            held = self._sessions.pop(session_id, None)
            if held is None:
                held = Session.open(None, session_id, memory=self.store, preset=None)
            self._sessions[session_id] = held
            while len(self._sessions) > _MOST:
                self._sessions.popitem(last=False)[1].close()
            return held

    def forget_session(self, session_id: str) -> None:
        """Lets go of a session that could not be read: it is opened anew when it is next asked for."""
        with self._lock:
            held = self._sessions.pop(session_id, None)
        if held is not None:
            with suppress(SiltstoneError):
                held.close()

    def kept(self, session_id: str, what: str, version: object, make: Callable[[], T]) -> T:
        """The result of *make*, kept as long as the session is at *version*."""
        with self._lock:
            known = self._kept.setdefault(what, OrderedDict()).get(session_id)
        if known is not None and known[0] == version:
            return cast("T", known[1])
        made = make()
        with self._lock:
            held = self._kept[what]
            held[session_id] = (version, made)
            while len(held) > _KEPT.get(what, _MOST):
                held.popitem(last=False)
        return made

    def info(self, session_id: str) -> SessionInfo | None:
        """The row of one session in the list of sessions."""
        return next((info for info in sessions_of(self.store) if info.session_id == session_id), None)

    def close(self) -> None:
        """Lets go of the store."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        for held in sessions:
            with suppress(SiltstoneError):
                held.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# The page of all sessions: which there are, filtered and sorted.

PAGE = 50  #: sessions of a page
_RULE = "blocks"  #: how the command line counts a context where nobody says otherwise
_LONG = 1_000  #: messages without a compaction that are not counted anew: the log has their tokens
_NEVER = datetime.min.replace(tzinfo=UTC)

#: By what the list is sorted: the word of the address, the head of the column, and the key.
SORTS: dict[str, tuple[str, Callable[[SessionInfo], Any]]] = {
    "active": ("Last activity", lambda each: each.last_at or _NEVER),
    "name": ("Session", lambda each: each.session_id),
    "messages": ("Messages", lambda each: each.messages),
    "tokens": ("Tokens", lambda each: each.tokens),
    "entries": ("Entries", lambda each: each.entries),
    "compactions": ("Compactions", lambda each: each.compactions),
}


def listing(
    subject: Subject,
    words: str = "",
    namespace: str | None = None,
    sort: str = "active",
    *,
    is_up: bool = False,
    start: int = 0,
    page: int = PAGE,
) -> SimpleNamespace:
    """A page of the sessions of a store: those whose id or title has *words*.

    It has:
        sessions: The sessions of the page.
        found: The number of sessions that were found.
        known: The number of sessions of the store.
        namespaces: All namespaces of the store.
        start: The place of the first session of the page.
        before, after: Where the page before begins, and the next one; None where there is none.
        sort, is_up: By what the sessions are sorted, and whether upwards.
        contexts: Of each session of the page: the tokens in context now; None if they cannot be read.
        namespace, words: What was asked for.
    """
    known = list(sessions_of(subject.store))
    sort = sort if sort in SORTS else "active"
    wanted = words.casefold().strip()
    found = [
        each
        for each in known
        if (namespace is None or each.namespace == namespace)
        and (wanted in each.session_id.casefold() or wanted in each.title.casefold())
    ]
    found.sort(key=SORTS[sort][1], reverse=not is_up)
    start = max(0, min(start, max(0, (len(found) - 1) // page * page)))
    end = start + page
    return SimpleNamespace(
        sessions=found[start:end],
        found=len(found),
        known=len(known),
        namespaces=sorted({each.namespace for each in known}),
        start=start,
        before=None if start == 0 else max(0, start - page),
        after=end if end < len(found) else None,
        sort=sort,
        is_up=is_up,
        contexts={each.session_id: _context(subject, each) for each in found[start:end]},
        namespace=namespace,
        words=words,
    )


def _context(subject: Subject, info: SessionInfo) -> int | None:
    if not info.compactions and info.messages > _LONG:
        return info.tokens
    log = subject.store.open_log(info.session_id)
    try:
        version = log.version()
        return subject.kept(info.session_id, "context", version, lambda: in_context(log, tokens.rule(_RULE)))
    except SiltstoneError:
        return None


# The tokens in context over a session, as the coordinates of a drawing.
#
# Across, a place is a share of the width, so the drawing fits any window; upwards it is in units of 1,000.

_HIGH = 1_000  #: units from the floor to the top
_ROOM = 1.08  #: the height of the drawing, as a multiple of its highest value
_LABELS = 4  #: labels of an axis, about
_NEAR = 0.08  #: of the height: two labels that are nearer lie on one another
_MOST_POINTS = 1_200  #: corners of a line: more are not seen
_RECALLS = 200  #: marks of recalls: more lie on one another
_DIGIT = 6  #: pixels of a digit beside a mark
_APART = 5  #: pixels between two numbers
_WIDTHS = (980, 330)  #: pixels of a wide drawing, and of a narrow one


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis: its place, and what it says."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A compaction, a branch or an undo in the drawing.

    Attributes:
        mark: The compaction, branch or undo.
        x: Its place across, 0..100.
        top: The height of the context before it.
        bottom: The height of the context after it.
        numbered: Whether its number has room beside the other numbers: 0 never, 1 in a wide drawing, 2 in a
            narrow one too.
    """

    mark: Mark
    x: float
    top: float
    bottom: float
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class ChartRecall:
    """A recall in the drawing, with its horizontal place, 0..100."""

    record: RecallRecord
    x: float


def level(mark: Mark) -> int | None:
    """The tokens of a history that reached the threshold of *mark*; None where there was none."""
    return None if mark.threshold is None else max(0, mark.threshold - mark.reserved_tokens)


def chart(
    turns: Sequence[TurnTokens],
    marks: Sequence[Mark],
    window: int | None,
    recalls: Iterable[RecallRecord] = (),
) -> SimpleNamespace | None:
    """The drawing of a session; None where nothing was said.

    It has:
        line: The corners of the line, for ``points``.
        area: The corners of the area below the line.
        marks: The compactions, branches and undos on the way.
        recalls: The recalls that placed a block; of several at one place, the recall with the most tokens.
        across: Labels below: numbers of messages.
        upwards: Labels at the side: tokens.
        window: The height of the window; None where it is not known.
        threshold: The corners of the line of the threshold, for ``points``; empty where none is known.
        last_threshold: Where that line ends: its height, and the tokens of a history that reach it.
    """
    end = max((turn.end for turn in turns), default=0)
    if not end:
        return None
    corners = _thinned(_corners(turns, marks))
    steps = _thresholds(marks, end)
    heights = (*corners, *steps, *((0, mark.tokens_before) for mark in marks))
    most = max(window or 0, 1, *(tokens for _, tokens in heights))
    high = most * _ROOM

    def x(seq: int) -> float:
        return round(100 * seq / end, 3)

    def y(tokens: int) -> float:
        return round(_HIGH - _HIGH * tokens / high, 2)

    lines = [each for each in (window, steps[-1][1] if steps else None) if each is not None]
    points = " ".join(f"{x(seq)},{y(tokens)}" for seq, tokens in corners)
    return SimpleNamespace(
        line=points,
        area=f"0,{_HIGH} {points} {x(corners[-1][0])},{_HIGH}",
        marks=[
            ChartMark(mark, x(mark.seq), y(mark.tokens_before), y(mark.tokens_after), numbered)
            for mark, numbered in zip(marks, _numbered(marks, end), strict=True)
        ],
        recalls=[ChartRecall(each, x(each.position)) for each in _seen(recalls, end)],
        across=[Tick(x(value), value) for value in _steps(end)],
        upwards=[Tick(y(value), value) for value in _steps(most) if _is_free(value, lines, most)],
        window=None if window is None else y(window),
        threshold=" ".join(f"{x(seq)},{y(tokens)}" for seq, tokens in steps),
        last_threshold=Tick(y(steps[-1][1]), steps[-1][1]) if steps else None,
    )


def _thresholds(marks: Sequence[Mark], end: int) -> list[tuple[int, int]]:
    """Where the line of the threshold turns: up to each compaction stands the threshold that it reached.

    The emergency fit acts at the window, not at the threshold: it counts if nothing else has acted.
    """
    known = [(mark, tokens) for mark in marks if (tokens := level(mark)) is not None]
    found = [(mark, tokens) for mark, tokens in known if mark.reason != "overflow"] or known
    corners: list[tuple[int, int]] = []
    at = 0
    for tokens, stretch in groupby(found, itemgetter(1)):
        last = [mark.seq for mark, _ in stretch][-1]
        corners += [(at, tokens), (last, tokens)]
        at = last
    return [*corners[:-1], (end, corners[-1][1])] if corners else []


def _numbered(marks: Sequence[Mark], end: int) -> list[int]:
    """Of each mark whether its number has room, as in ``ChartMark``. An undo has none in the list."""
    found = [0] * len(marks)
    for rank, width in enumerate(_WIDTHS, start=1):
        free = float("-inf")
        for place, mark in enumerate(marks):
            half, at = len(str(mark.id)) * _DIGIT / 2, width * mark.seq / end
            if mark.reason != UNDO and found[place] == rank - 1 and at - half >= free:
                found[place], free = rank, at + half + _APART
    return found


def _corners(turns: Sequence[TurnTokens], marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Where the line turns: at the end of each turn, and at each compaction."""
    found: list[tuple[int, int]] = [(0, 0)]
    waiting = list(marks)
    for turn in turns:
        while waiting and waiting[0].seq <= turn.end:
            mark = waiting.pop(0)
            found += [(mark.seq, mark.tokens_before), (mark.seq, mark.tokens_after)]
        found.append((turn.end, turn.context))
    for mark in waiting:
        found += [(mark.seq, mark.tokens_before), (mark.seq, mark.tokens_after)]
    return found


def _thinned(corners: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most so many corners: of a stretch its lowest and its highest."""
    if len(corners) <= _MOST_POINTS:
        return corners
    step = -(-len(corners) * 2 // _MOST_POINTS)
    found: list[tuple[int, int]] = []
    for start in range(0, len(corners), step):
        stretch = corners[start : start + step]
        ends = {stretch.index(min(stretch, key=_tokens)), stretch.index(max(stretch, key=_tokens))}
        found += [stretch[place] for place in sorted(ends)]
    return [corners[0], *found, corners[-1]]


def _seen(recalls: Iterable[RecallRecord], end: int) -> list[RecallRecord]:
    """Of each stretch of the drawing the recall that placed the most, in order."""
    found: dict[int, RecallRecord] = {}
    for each in recalls:
        place = each.position * _RECALLS // end
        if each.tokens and (place not in found or found[place].tokens < each.tokens):
            found[place] = each
    return [found[place] for place in sorted(found)]


def _tokens(corner: tuple[int, int]) -> int:
    return corner[1]


def _is_free(value: int, lines: Sequence[int], most: int) -> bool:
    """Whether a label has room beside the *lines* of the window and of the threshold."""
    return all(value == line or abs(value - line) > most * _NEAR for line in lines)


def _steps(most: int) -> Iterable[int]:
    """Round numbers up to *most*, about as many as there is room for."""
    raw = max(1, most / _LABELS)
    unit = 10 ** (len(str(int(raw))) - 1)
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return range(step, most + 1, step)


# The page of one session: its context over time, the parts of the context now, and every compaction.

RULE = "blocks"  #: how the command line counts a context where nobody says otherwise
COMPACTIONS_A_PAGE = 200  #: turns of a page


def story(
    subject: Subject,
    session_id: str,
    window: int | None = None,
    start: int = 0,
    page: int | None = COMPACTIONS_A_PAGE,
) -> SimpleNamespace:
    """The story of a session, with the turns of a page; None for *page* means all turns.

    It has:
        turns: The turns of the page, the newest first.
        all_turns: The number of turns.
        marks: The compactions, branches and undos that led to the current view, oldest first.
        records: Every compaction and branch, the newest first; those that were taken back too.
        chart: The drawing; None for a session without messages.
        bands: The tokens in context, by category.
        filling: The sum of the bands.
        window: The window in tokens; None if it is unknown.
        is_learned: The window is the provider's own, from one of its errors.
        limits: What providers told of their limits, for each model.
        is_noted: The window is the one that the last compaction noted.
        most: The most tokens that a turn left in context.
        start: The place of the first turn of the page, from the newest.
        waits: Seconds from the last message that each compaction read to its commit.
        recalls: The recalls that the log has, the newest first.
        recalled: How many recalls placed a block, its tokens in the middle, and the seconds in the middle.
        cost: What these recalls added to requests.
    """
    session = subject.session(session_id)
    log = subject.store.open_log(session_id)
    state = log.state()
    said = subject.kept(session_id, "said", state.redactions, Said)
    turns, marks = subject.kept(session_id, "turns", state.version, lambda: told(log, said))
    learned = session.context_window
    rule = tokens.rule(RULE)
    records = session.compactions(undone=True)
    noted = next((each.context_window for each in records[::-1] if each.context_window is not None), None)
    known = window or learned or noted
    recalls = session.recalls(MOST_RECALLS)
    bands, full = filling(session, known, rule, state.next_seq, recalls)
    newest = turns[::-1]
    placed = [each for each in recalls if each.tokens]
    return SimpleNamespace(
        turns=newest[start:] if page is None else newest[start : start + page],
        all_turns=len(turns),
        marks=marks,
        records=records[::-1],
        chart=chart(turns, marks, known, recalls),
        bands=bands,
        filling=full,
        window=known,
        is_learned=window is None and learned is not None,
        limits=session.limits,
        is_noted=window is None and learned is None and noted is not None,
        most=max((turn.context for turn in turns), default=0),
        start=start,
        waits=_waits(subject, session_id, state, records),
        recalls=recalls,
        recalled=(len(placed), _middle(placed, "tokens"), _middle(placed, "seconds")),
        cost=recall_cost(log, marks, recalls, said),
    )


def _middle(recalls: list[RecallRecord], figure: str) -> float:
    """The figure in the middle of those of *recalls*; 0 where there is none."""
    known = sorted(getattr(each, figure) for each in recalls)
    return known[len(known) // 2] if known else 0


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
