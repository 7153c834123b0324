"""The page of one compaction: what it found, what it did with each message, and what it left."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from siltstone.figures.difference import Change, Fate, difference, why
from siltstone.inspector.subject import Subject
from siltstone.memory.log import Derived
from siltstone.messages import in_words, unmarked
from siltstone.session import CompactionRecord
from siltstone.session.rows import derived_item, message_of
from siltstone.values import dataclass, replace

__all__ = ["ChangeBlock", "ChangeLine", "ChangePage", "DiffLine", "TextBox", "change_page"]

_SHORT = 150  #: characters of a message that a row shows
_MOST_LINES = 400  #: lines of a difference that are shown
_GONE = ("summarised", "left")
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
    """

    id: int
    kind: str
    text: str
    covers: tuple[tuple[int, int], ...]
    level: int
    is_new: bool
    redacted: bool


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A message of the view before, or a summary of it.

    Attributes:
        fate: The message, and what became of it; None for a summary.
        words: What it says, shortened.
        role: Who speaks.
        decision: One of ``FateKind``, or ``folded in`` for a summary that a new one replaced.
        shorter: The text that stands in its place now.
        is_pinned: The message is pinned now.
    """

    fate: Fate | None
    words: str
    role: str
    decision: str
    shorter: TextBox | None = None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """A stretch of lines about which the same was decided.

    Attributes:
        lines: The lines, in order.
        decision: What was decided about all of them.
        rule: By which rule; empty where the log does not tell.
        summaries: The new summaries, beside the first stretch that they stand for.
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
        """The tokens of its messages."""
        return sum(fate.row.tokens for fate in self.messages)

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
        blocks: The three columns, stretch by stretch.
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
    blocks: tuple[ChangeBlock, ...]
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
        why(record),
        tuple(_blocks(change, pins)),
        led.index(record.id) + 1 if record.id in led else None,
        records[place - 1] if place else None,
        records[place + 1] if place + 1 < len(records) else None,
        tuple(_diff(parent, record)),
        counts,
        sizes,
        sum(each.input_tokens for each in record.usage),
        sum(each.output_tokens for each in record.usage),
    )


def _blocks(change: Change, pins: frozenset[int]) -> list[ChangeBlock]:
    """The stretches of the view before, in its order; new summaries beside the first that left."""
    known = {each.derived_id for each in change.before}
    left = {each.derived_id for each in change.after}
    new = [each for each in change.after if each.derived_id not in known]
    shorter = {each.seq: _box(each, is_new=True) for each in new if each.kind == "substitute"}
    lines: list[tuple[int, ChangeLine]] = []
    for each in change.before:
        if each.kind == "summary":  # it stands where the first message stood that it stands for
            decision = "kept" if each.derived_id in left else "folded in"
            line = ChangeLine(None, _cut(unmarked(each.raw)), "summary", decision)
            lines.append((each.covers[0][0] if each.covers else -1, line))
    for fate in change.fates:
        words, role = _words(fate)
        box, is_pinned = shorter.get(fate.seq), fate.seq in pins
        lines.append((fate.seq, ChangeLine(fate, words, role, fate.kind, box, is_pinned=is_pinned)))
    lines.sort(key=lambda each: each[0])
    waiting = tuple(_box(each, is_new=True) for each in new if each.kind == "summary")
    found: list[ChangeBlock] = []
    for (decision, rule), stretch in groupby(_ruled(line for _, line in lines), lambda each: each[1:]):
        block = ChangeBlock(tuple(line for line, *_ in stretch), decision, rule)
        if block.is_gone and waiting:
            block, waiting = replace(block, summaries=waiting), ()
        found.append(block)
    return found if not waiting else [*found, ChangeBlock((), "new", summaries=waiting)]


def _ruled(lines: Iterable[ChangeLine]) -> Iterator[tuple[ChangeLine, str, str]]:
    """Each line with its decision and the rule; a summary goes with the line before it."""
    rule = ""
    for line in lines:
        if line.fate is not None:
            rule = line.fate.rule
        yield line, _stretch(line.decision), rule


def _stretch(decision: str) -> str:
    """A summary that was folded in left together with the messages behind it."""
    return "summarised" if decision == "folded in" else decision


def _box(each: Derived, *, is_new: bool) -> TextBox:
    text = unmarked(each.raw) if each.kind == "summary" else in_words(derived_item(each))
    return TextBox(each.derived_id, each.kind, text, each.covers, each.level, is_new, each.redacted)


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
