"""The page of one compaction: the view before, the decision on each message, and the view after."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from types import SimpleNamespace

from siltstone.figures import Change, Fate, difference, why
from siltstone.inspector.sessions import Subject
from siltstone.memory.convert import message_of
from siltstone.memory.log import Derived
from siltstone.messages import in_words, unmarked
from siltstone.session.compactions import CompactionRecord
from siltstone.session.rows import derived_item

_SHORT = 150  #: characters of a message that a row shows
_MOST_LINES = 400  #: lines of a difference that are shown
_GONE = ("summarised", "left", "replaced")
_CALL = re.compile(r"\[(call|result) \S+: ")  #: ids tell nothing here


@dataclass(frozen=True, slots=True)
class TextBox:
    """A summary, or the shorter text that stands for a message.

    Attributes:
        id: Its id.
        kind: ``summary`` or ``substitute``.
        text: The text that the model reads.
        covers: The messages that it replaces.
        level: The level of a summary; 1 if it replaces messages alone.
        is_new: Whether this compaction wrote it.
        redacted: Whether a message that it replaces was forgotten.
        tokens: Its size in tokens.
    """

    id: int
    kind: str
    text: str
    covers: tuple[tuple[int, int], ...]
    level: int
    is_new: bool
    redacted: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A message of the view before, or a summary of it.

    Attributes:
        fate: The message, and the decision on it; None for a summary.
        words: Its text, shortened.
        role: The role of the speaker.
        decision: One of ``FateKind``, or ``replaced`` for a summary that a new summary replaced.
        summary: The summary; None for a message.
        shorter: The shorter text that replaces it now.
        is_pinned: The message is pinned now.
    """

    fate: Fate | None
    words: str
    role: str
    decision: str
    summary: TextBox | None = None
    shorter: TextBox | None = None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """Consecutive lines with the same decision.

    Attributes:
        lines: The lines, in order.
        decision: The decision on all lines.
        rule: The rule of the decision; empty if the log does not have it.
        summaries: The new summaries, beside the summary that they replaced, or the longest stretch.
    """

    lines: tuple[ChangeLine, ...]
    decision: str
    rule: str = ""
    summaries: tuple[TextBox, ...] = ()

    @property
    def is_gone(self) -> bool:
        """Nothing of it is in the view after as it was said, or shorter."""
        return self.decision in _GONE

    @property
    def messages(self) -> list[Fate]:
        """Its messages, without summaries."""
        return [line.fate for line in self.lines if line.fate is not None]

    @property
    def tokens(self) -> int:
        """The tokens of its messages and summaries."""
        sizes = [line.summary.tokens for line in self.lines if line.summary is not None]
        return sum(fate.tokens for fate in self.messages) + sum(sizes)

    @property
    def findable(self) -> int:
        """How many of its messages a search finds."""
        return sum(fate.is_archived for fate in self.messages)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Its messages as ranges."""
        found: list[tuple[int, int]] = []
        for fate in self.messages:
            if found and found[-1][1] == fate.seq:
                found[-1] = (found[-1][0], fate.seq + 1)
            else:
                found.append((fate.seq, fate.seq + 1))
        return tuple(found)


def change_page(
    subject: Subject, session_id: str, compaction_id: int, pins: frozenset[int]
) -> SimpleNamespace:
    """The page of compaction *compaction_id*.

    It has:
        change: The compaction, with the decision on each message.
        why: The reason why it was due, in words; empty if the name says all.
        blocks: The three columns, stretch by stretch.
        number: Its place among the compactions that led to the current view, from 1; None if undone.
        previous: The compaction before it in the list; None for the first.
        following: The compaction after it.
        diff: The lines of the difference between its summary and the summary before; empty if there is none.
        before: The parts of the view before, by the decision on them.
        after: The parts of the view after.
        sent: Tokens sent to models.
        received: Tokens received.

    Raises:
        CompactionNotFoundError: the session has no such compaction.
    """
    session = subject.session(session_id)
    change = difference(session, subject.store, compaction_id)
    record = change.record
    records = session.compactions(undone=True)
    place = next(at for at, each in enumerate(records) if each.id == record.id)
    led = [each.id for each in records if not each.undone]
    return SimpleNamespace(
        change=change,
        why=why(record),
        blocks=_blocks(change, pins),
        number=led.index(record.id) + 1 if record.id in led else None,
        previous=records[place - 1] if place else None,
        following=records[place + 1] if place + 1 < len(records) else None,
        diff=_diff(next((each for each in records if each.id == record.parent), None), record),
        before=change.shares_before,
        after=change.shares_after,
        sent=sum(each.input_tokens for each in record.usage),
        received=sum(each.output_tokens for each in record.usage),
    )


def _blocks(change: Change, pins: frozenset[int]) -> list[ChangeBlock]:
    """The blocks of the view before, in its order, with each new summary beside the messages that left."""
    known = {each.derived_id for each in change.before}
    left = {each.derived_id for each in change.after}
    new = [each for each in change.after if each.derived_id not in known]
    boxes = {each.derived_id: _box(each, change.sizes, is_new=True) for each in new}
    shorter = {each.seq: boxes[each.derived_id] for each in new if each.kind == "substitute"}
    lines: list[tuple[int, ChangeLine]] = []
    for each in change.before:
        if each.kind == "summary":  # it stands where the first message stood that it stands for
            decision = "kept" if each.derived_id in left else "replaced"
            box = _box(each, change.sizes, is_new=False)
            line = ChangeLine(None, _cut(box.text), "summary", decision, box)
            lines.append((each.covers[0][0] if each.covers else -1, line))
    for fate in change.fates:
        words, role = _words(fate)
        line = ChangeLine(fate, words, role, fate.kind, None, shorter.get(fate.seq), fate.seq in pins)
        lines.append((fate.seq, line))
    lines.sort(key=lambda each: each[0])
    waiting = tuple(boxes[each.derived_id] for each in new if each.kind == "summary")
    found: list[ChangeBlock] = []
    for (decision, rule), stretch in groupby((line for _, line in lines), _decided):
        found.append(ChangeBlock(tuple(stretch), decision, rule))
    gone = [place for place, block in enumerate(found) if block.is_gone]
    if waiting and not gone:
        found.append(ChangeBlock((), "new", summaries=waiting))
    elif waiting:
        place = max(gone, key=lambda place: _room(found[place]))
        found[place] = replace(found[place], summaries=waiting)
    return found


def _room(block: ChangeBlock) -> tuple[bool, int]:
    """How well a new summary stands beside a stretch: best beside what it replaced, then the longest."""
    return block.decision == "replaced", len(block.lines)


def _decided(line: ChangeLine) -> tuple[str, str]:
    """The decision on a line, and its rule; each summary has a block of its own."""
    return line.decision, "summary" if line.fate is None else line.fate.rule


def _box(each: Derived, sizes: Mapping[int, int], *, is_new: bool) -> TextBox:
    text = unmarked(each.raw) if each.kind == "summary" else in_words(derived_item(each))
    size = sizes[each.derived_id]
    return TextBox(each.derived_id, each.kind, text, each.covers, each.level, is_new, each.redacted, size)


def _words(fate: Fate) -> tuple[str, str]:
    message = message_of(fate.row)
    return _cut(_CALL.sub(r"[\1 ", in_words(message))), message.role


def _cut(text: str) -> str:
    words = " ".join(text[: _SHORT * 4].split())
    return words if len(words) <= _SHORT else f"{words[:_SHORT].rstrip()}…"


def _diff(parent: CompactionRecord | None, record: CompactionRecord) -> list[dict[str, str]]:
    """The lines by which the summary differs from the summary of the compaction before."""
    if parent is None or not parent.summary or not record.summary or parent.redacted or record.redacted:
        return []
    old, new = (unmarked(each.summary).splitlines() for each in (parent, record))
    found = []
    for text in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:_MOST_LINES]:
        sign = text[:1] if text[:1] in "+- @" else " "
        found.append({"sign": sign, "text": "" if sign == "@" else text[1:]})
    return found
