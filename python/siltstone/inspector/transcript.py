"""Messages as a page shows them: their parts, folded if they are long, and the state of each message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from siltstone._native import matching_lines
from siltstone.errors import ConfigError, SiltstoneError, StoreCorruptError
from siltstone.figures import PLACINGS, difference, why
from siltstone.memory.base import Store
from siltstone.memory.convert import message_of
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.log import CompactionRow, LogRow, SessionLog, ancestors
from siltstone.messages import Message, Part, decode, summary_level
from siltstone.session import Session
from siltstone.session.committing import UNDO
from siltstone.session.counters import CompactionClock
from siltstone.session.rows import derived_item

PAGE = 100  #: messages of a page
SHORT = 700  #: characters of a text that are shown before it is unfolded
_LINES = 12  #: lines of it
MOST = 20_000  #: characters of a text that a page has; the page of the message has all of them
_MOST_CHANGES = 50  #: compactions that the page of a message looks into, the newest
_LEFT = "Now it is in no request: a branch, a restart of the host or a policy without a summary left it out."
_FATES = {
    "kept": "Kept as it was", "shortened": "Shortened", "summarised": "Summarised",
    "left": "Left out without a summary ({})",
}  # fmt: skip
_NAMES = {
    "text": "",
    "reasoning": "reasoning",
    "tool_call": "calls",
    "tool_result": "result",
    "compaction": "the provider's summary",
    "other": "other",
}


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a message.

    Attributes:
        kind: The kind of the part.
        title: The title above its text; empty for plain text.
        text: Its text, or the beginning of one that is too long for a page.
        beginning: The text that is shown while it is folded; empty if the text is short.
        length: The number of its characters.
        call_id: The id that ties a call to its result.
        is_error: The tool failed.
    """

    kind: str
    title: str
    text: str
    beginning: str
    length: int
    call_id: str | None = None
    is_error: bool = False

    @property
    def is_cut(self) -> bool:
        """The text goes on."""
        return self.length > len(self.text)


@dataclass(frozen=True, slots=True)
class Shown:
    """A message.

    Attributes:
        seq: Its number; None for a summary.
        role: The role of the speaker.
        dialect: The dialect of its message.
        provenance: Its origin.
        parts: Its parts.
        tokens: Its size in tokens; None if it is unknown.
        created_at: The time of its append, in milliseconds since 1970; None if it is unknown.
        where: Its state now: ``in context``, ``shortened``, ``summarised``, ``left`` or ``forgotten``.
        by: The compaction that took it out of the context, or shortened it.
        is_pinned: It is pinned.
        level: The level of a summary.
        covers: The messages that a summary replaces.
        damage: The fault of a message that cannot be read.
    """

    seq: int | None
    role: str
    dialect: str
    provenance: str
    parts: tuple[ShownPart, ...]
    tokens: int | None = None
    created_at: int | None = None
    where: str = ""
    by: int | None = None
    is_pinned: bool = False
    level: int = 0
    covers: tuple[tuple[int, int], ...] = ()
    damage: str = ""


@dataclass(frozen=True, slots=True)
class ViewPage:
    """A part of a view: its messages, how many the view has, and where the part begins."""

    messages: tuple[Shown, ...]
    length: int
    start: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where the messages of a log stand in the current view.

    Attributes:
        spans: The messages that are in context unchanged.
        shortened: For each message that a shorter text replaces: the compaction that wrote the text.
        line: The rows that led to the view, the oldest first.
        pins: The pinned messages.
        end: The number of messages.
    """

    spans: tuple[tuple[int, int], ...]
    shortened: dict[int, int]
    line: tuple[CompactionRow, ...]
    pins: frozenset[int]
    end: int

    def where(self, seq: int) -> tuple[str, int | None]:
        """Where message *seq* stands, and the compaction that took it there."""
        if any(start <= seq < end for start, end in self.spans):
            return "in context", None
        if seq in self.shortened:
            return "shortened", self.shortened[seq]
        for row in self.line:
            if any(start <= seq < end for start, end in row.compaction.covers):
                return "summarised", row.compaction_id
        return "left", None


def places(log: SessionLog) -> Places:
    """Where every message of *log* stands."""
    state = log.state()
    clock = CompactionClock.from_json(state.clock, "")
    pins = frozenset(clock.pins)
    if state.head is None:
        return Places(((0, state.next_seq),), {}, (), pins, state.next_seq)
    head = state.head.compaction
    spans = [piece for piece in head.view if isinstance(piece, tuple)]
    texts = log.derived([piece for piece in head.view if isinstance(piece, int)])
    brought = {derived: row.compaction_id for row in log.compactions() for derived in row.derived_ids}
    shortened = {
        each.seq: brought.get(each.derived_id, state.head.compaction_id)
        for each in texts
        if each.seq is not None
    }
    spans.append((head.next_seq, state.next_seq))
    return Places(tuple(spans), shortened, tuple(ancestors(log, state.head))[::-1], pins, state.next_seq)


def log_page(log: SessionLog, start: int, end: int, most: int = MOST) -> list[Shown]:
    """The messages of a log from *start* up to *end*; one that cannot be read says so in its place."""
    known = places(log)
    return [_located(each, known) for each in _rows(log, start, min(end, known.end), most)]


def _located(each: Shown, known: Places) -> Shown:
    if each.seq is None or each.damage:
        return each
    where, by = known.where(each.seq)
    if each.provenance == "placeholder":
        where = "forgotten"
    return replace(each, where=where, by=by, is_pinned=each.seq in known.pins)


def _rows(log: SessionLog, start: int, end: int, most: int) -> Iterable[Shown]:
    try:
        rows: Sequence[LogRow] = log.read(start, end)
    except StoreCorruptError as error:
        if end - start == 1:
            yield Shown(start, "unknown", "any", "damaged", (), damage=str(error))
            return
        for seq in range(start, end):
            yield from _rows(log, seq, seq + 1, most)
        return
    for row in rows:
        yield of_row(row, most)


def of_row(row: LogRow, most: int = MOST) -> Shown:
    """A message of the log."""
    parts: tuple[ShownPart, ...]
    try:
        message = message_of(row)
    except SiltstoneError as error:
        return Shown(
            row.seq, row.role, row.dialect, row.provenance, (), row.tokens, row.created_at, damage=str(error)
        )
    parts = shown(message, most).parts
    return Shown(row.seq, row.role, row.dialect, row.provenance, parts, row.tokens, row.created_at)


def one_message(log: SessionLog, seq: int) -> tuple[Shown, str] | None:
    """Message *seq* with all of its text, and its JSON; None where there is none."""
    if not 0 <= seq < log.state().next_seq:
        return None
    (row,) = log.read(seq, seq + 1)
    known = places(log)
    raw = json.dumps(decode(row.raw), ensure_ascii=False, indent=2)
    return _located(of_row(row, len(row.raw)), known), raw


def found_in(log: SessionLog, grep: str) -> list[Shown]:
    """The first messages of a log with a line that matches the regular expression *grep*.

    Raises:
        ConfigError: *grep* is no regular expression.
    """
    matching_lines("", grep)
    known, found = places(log), list[Shown]()
    for start in range(0, known.end, PAGE):
        for each in _rows(log, start, min(start + PAGE, known.end), MOST):
            text = "\n".join(part.text for part in each.parts)
            if text and matching_lines(text, grep):
                found.append(_located(each, known))
                if len(found) == PAGE:
                    return found
    return found


class Became(NamedTuple):
    """A thing that happened to a message, and the compaction that did it."""

    said: str
    compaction: int | None = None


def became_of(session: Session, store: Store, message: Shown) -> list[Became]:
    """Why an agent sees a message, or does not: compactions and their rules, its entry, its recalls."""
    seq, told = message.seq, list[Became]()
    if seq is None:
        return told
    for record in session.compactions()[-_MOST_CHANGES:]:
        fate = next((each for each in difference(session, store, record.id).fates if each.seq == seq), None)
        if fate is not None:
            by = f" by the rule “{fate.rule}”" if fate.rule else ""
            kind = _FATES[fate.kind].format(record.reason)
            told.append(Became(f"{kind}{by} ({why(record) or record.reason}):", record.id))
    told.append(Became(f"Now it is {message.where}." if message.where != "left" else _LEFT))
    held = store.entries(session.session_id, overlaps=(seq, seq + 1)).entries
    ids = {each.entry_id for each in held}
    said = f"A search finds it as entry {', '.join(map(str, sorted(ids)))}." if ids else (
        "A search finds it: it is in context." if message.where == "in context" else
        "No entry was made of it, or the entry has left: no search finds it."
    )  # fmt: skip
    told.append(Became(said))
    for recalled in session.recalls(MOST_RECALLS) if ids else ():
        for each in recalled.candidates:
            if each.entry_id in ids:
                placed = f"Recall before message {recalled.position}: {PLACINGS[each.placing]}"
                told.append(Became(f"{placed}, with the score {each.score:.3f}."))
    return told


def view_page(log: SessionLog, n: int | None, start: int, end: int, most: int = MOST) -> ViewPage:
    """A part of the view that the *n*-th compaction left; for 0 of the history that the first one read.

    Args:
        log: The log of the session.
        n: The number of the view, as for ``Session.view_at``; None for the current view.
        start: The first message of the part, by its place in the view.
        end: The place after the last message of the part.
        most: Characters of a text at most.

    Raises:
        ConfigError: there is no such view.
    """
    state = log.state()
    led = [row for row in ancestors(log, state.head) if row.compaction.reason != UNDO][::-1]
    if n is not None and n > len(led):
        raise ConfigError(f"the session has {len(led)} views that a compaction left, not {n}", "view", n)
    if n is None:
        head = None if state.head is None else state.head.compaction
        pieces = [] if head is None else [*head.view]
        pieces.append((0 if head is None else head.next_seq, state.next_seq))
    elif n == 0:
        pieces = [(0, led[0].compaction.next_seq if led else state.next_seq)]
    else:
        pieces = [*led[n - 1].compaction.view]
    places_of = [place for piece in pieces for place in _places(piece)]
    known = places(log)
    found = [_located(each, known) for place in places_of[start:end] for each in _at(log, place, most)]
    return ViewPage(tuple(found), len(places_of), start)


def _places(piece: object) -> Iterable[int]:
    """The messages of a piece of a view by their numbers; a derived text by minus its id."""
    if isinstance(piece, tuple):
        return range(*piece)
    return (-piece,) if isinstance(piece, int) else ()


def _at(log: SessionLog, place: int, most: int) -> Iterable[Shown]:
    if place >= 0:
        return _rows(log, place, place + 1, most)
    return [shown(derived_item(each), most) for each in log.derived([-place])]


def shown(message: Message, most: int = MOST) -> Shown:
    """*message* as a page shows it."""
    parts = tuple(_part(part, most) for part in message.parts)
    is_summary = message.provenance == "compaction_summary"
    return Shown(
        None if is_summary else message.seq,
        message.role,
        message.dialect,
        message.provenance,
        parts,
        level=summary_level(message) if is_summary else 0,
        covers=message.covers,
    )


def _part(part: Part, most: int) -> ShownPart:
    title, text = _NAMES.get(part.kind, part.modality or part.kind), part.text
    if part.kind == "tool_call":
        title, text = f"calls {part.name or 'a tool'}", _spread(part.arguments or "")
    elif part.kind == "tool_result":
        title = "result" if not part.name else f"result of {part.name}"
    elif part.kind == "blob":
        title = part.modality or "blob"
    return ShownPart(part.kind, title, text[:most], _beginning(text), len(text), part.call_id, part.is_error)


def _beginning(text: str) -> str:
    """The beginning of *text*, which is shown while it is folded; empty for a short text."""
    lines = text[: SHORT + 1].split("\n")
    if len(text) <= SHORT and len(lines) <= _LINES + 2:
        return ""
    return "\n".join(lines[:_LINES])[:SHORT].rstrip()


def _spread(arguments: str) -> str:
    """Arguments as JSON that people read; as they are where they are none."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict) and len(value) == 1 and all(isinstance(each, str) for each in value.values()):
        ((name, only),) = value.items()
        return f"{name}: {only}"
    return json.dumps(value, ensure_ascii=False, indent=2)
