"""The page of one compaction: what it found, what it did with each message, and what it left."""

from __future__ import annotations

import difflib
import re

from siltstone.figures.difference import REASONS, Change, Fate, difference
from siltstone.inspector.subject import Subject
from siltstone.memory.log import Derived
from siltstone.messages import in_words, unmarked
from siltstone.session import CompactionRecord
from siltstone.session.rows import derived_item, message_of
from siltstone.values import dataclass

__all__ = ["ChangePage", "ChangeRow", "DiffLine", "TextBox", "change_page"]

_SHORT = 150  #: characters of a message that a row shows
_MOST_LINES = 400  #: lines of a difference that are shown
_CALL = re.compile(r"\[(call|result) \S+: ")  #: ids tell nothing here


@dataclass(frozen=True, slots=True)
class TextBox:
    """A summary, or the shorter text that stands for a message.

    Attributes:
        id: Its id.
        kind: ``summary`` or ``substitute``.
        text: What the model reads.
        covers: The messages that it stands for.
        level: Of a summary: 1 for one of messages alone.
        is_new: The compaction brought it.
        redacted: Something that it stood for was forgotten.
        tokens: What it counts, about.
    """

    id: int
    kind: str
    text: str
    covers: tuple[tuple[int, int], ...]
    level: int
    is_new: bool
    redacted: bool


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A line of the three columns.

    Attributes:
        fate: The message, and what became of it; None for a summary of the view before.
        words: What it says, shortened.
        role: Who speaks.
        box: Of a summary of the view before: itself.
        stays: Of such a summary: whether it is in the view after.
        after: The new texts that stand beside this line in the view after.
        rows: How many lines these reach over; 0 where a line above has them.
        is_pinned: The message is pinned now.
    """

    fate: Fate | None
    words: str
    role: str
    box: TextBox | None = None
    stays: bool = False
    after: tuple[TextBox, ...] = ()
    rows: int = 1
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference: ``+`` it is new, ``-`` it is gone, a blank it stayed, ``@`` lines between."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A compaction.

    Attributes:
        change: What it did.
        why: Why it was due, in words; empty where there is no more to say than its name.
        rows: The three columns, line by line.
        number: Its place among the compactions that led to the current view, from 1; None if undone.
        previous: The one before it in the list; None for the first.
        following: The one after it.
        diff: How its summary differs from that of the one before; empty where there is none.
        counts: How many messages became what.
        sizes: The tokens of these.
        sent: Tokens sent to models.
        received: Tokens received.
    """

    change: Change
    why: str
    rows: tuple[ChangeRow, ...]
    number: int | None
    previous: CompactionRecord | None
    following: CompactionRecord | None
    diff: tuple[DiffLine, ...]
    counts: dict[str, int]
    sizes: dict[str, int]
    sent: int
    received: int


def change_page(subject: Subject, session_id: str, compaction_id: int, pins: frozenset[int]) -> ChangePage:
    """The page of compaction *compaction_id*.

    Raises:
        CompactionNotFoundError: the session has no such compaction.
    """
    session = subject.session(session_id)
    change = difference(session, subject.store, compaction_id)
    record = change.record
    records = session.compactions(undone=True)
    place = next(at for at, each in enumerate(records) if each.id == record.id)
    led = [each.id for each in records if not each.undone]
    parent = next((each for each in records if each.id == record.parent), None)
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for fate in change.fates:
        counts[fate.kind] = counts.get(fate.kind, 0) + 1
        sizes[fate.kind] = sizes.get(fate.kind, 0) + fate.row.tokens
    return ChangePage(
        change,
        REASONS.get(record.reason, ""),
        tuple(_rows(change, pins)),
        led.index(record.id) + 1 if record.id in led else None,
        records[place - 1] if place else None,
        records[place + 1] if place + 1 < len(records) else None,
        tuple(_diff(parent, record)),
        counts,
        sizes,
        sum(each.input_tokens for each in record.usage),
        sum(each.output_tokens for each in record.usage),
    )


def _rows(change: Change, pins: frozenset[int]) -> list[ChangeRow]:
    """The lines: earlier summaries, then the messages, and the new texts beside what they stand for."""
    known = {each.derived_id for each in change.before}
    left = {each.derived_id for each in change.after}
    new = [each for each in change.after if each.derived_id not in known]
    summaries = [_box(each, is_new=True) for each in new if each.kind == "summary"]
    shorter = {each.seq: _box(each, is_new=True) for each in new if each.kind == "substitute"}
    found = [
        ChangeRow(None, _words_of(each), "summary", _box(each, is_new=False), each.derived_id in left)
        for each in change.before
        if each.kind == "summary"
    ]
    for fate in change.fates:
        box = shorter.get(fate.seq)
        found.append(
            ChangeRow(fate, *_words(fate), after=() if box is None else (box,), is_pinned=fate.seq in pins)
        )
    return _beside(found, summaries)


def _beside(rows: list[ChangeRow], summaries: list[TextBox]) -> list[ChangeRow]:
    """*rows* with the new summaries beside the first stretch of lines that left for them."""
    at, placed = 0, False
    found: list[ChangeRow] = []
    while at < len(rows):
        end = at
        while end < len(rows) and _left(rows[end]):
            end += 1
        if end == at:
            found.append(rows[at])
            at += 1
            continue
        for place in range(at, end):
            row = rows[place]
            after = tuple(summaries) if place == at and not placed else ()
            found.append(_with(row, after, end - at if place == at else 0))
        placed, at = True, end
    return found


def _left(row: ChangeRow) -> bool:
    """Whether nothing of its own stands for it in the view after."""
    return not row.stays if row.fate is None else row.fate.kind in ("summarised", "left")


def _with(row: ChangeRow, after: tuple[TextBox, ...], rows: int) -> ChangeRow:
    return ChangeRow(row.fate, row.words, row.role, row.box, row.stays, after, rows, row.is_pinned)


def _box(each: Derived, *, is_new: bool) -> TextBox:
    text = unmarked(each.raw) if each.kind == "summary" else in_words(derived_item(each))
    return TextBox(each.derived_id, each.kind, text, each.covers, each.level, is_new, each.redacted)


def _words_of(each: Derived) -> str:
    return _cut(unmarked(each.raw))


def _words(fate: Fate) -> tuple[str, str]:
    message = message_of(fate.row)
    return _cut(_CALL.sub(r"[\1 ", in_words(message))), message.role


def _cut(text: str) -> str:
    words = " ".join(text[: _SHORT * 4].split())
    return words if len(words) <= _SHORT else f"{words[:_SHORT].rstrip()}…"


def _diff(parent: CompactionRecord | None, record: CompactionRecord) -> list[DiffLine]:
    """The lines by which the summary differs from that of the compaction before."""
    if parent is None or not parent.summary or not record.summary or parent.redacted or record.redacted:
        return []
    old, new = (unmarked(each.summary).splitlines() for each in (parent, record))
    found = []
    for text in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:_MOST_LINES]:
        sign = text[:1] if text[:1] in "+- @" else " "
        found.append(DiffLine(sign, "" if sign == "@" else text[1:]))
    return found
