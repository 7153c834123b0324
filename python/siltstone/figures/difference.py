"""The decision of one compaction on each message of the view before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from siltstone import tokens
from siltstone.errors import CompactionNotFoundError
from siltstone.figures.turns import Mark
from siltstone.memory.base import Store
from siltstone.memory.log import CompactionRow, Derived, LogRow, NewCompaction, SessionLog
from siltstone.memory.paging import entries_of, rows_at
from siltstone.session import CompactionRecord, Session
from siltstone.session.rows import derived_item, sizes_of

__all__ = ["REASONS", "RULES", "Change", "Fate", "FateKind", "Share", "difference", "why"]

#: Why a compaction was due, in words.
REASONS = {
    "history_tokens": "the history had reached the threshold",
    "input_tokens": "the last request had reached the threshold",
    "forecast": "the next request was expected to reach the threshold",
    "bytes": "the request had reached the threshold in bytes",
    "fraction": "a share of the window had been reached",
    "count": "there were too many messages",
    "overflow": "the request did not fit the window",
    "manual": "it was asked for",
    "model": "the model asked for it",
    "branch": "the host's list had changed its past",
}
#: By which rule a message was kept or left, in words.
RULES = {
    "system": "a rule of the system that is in force",
    "pinned": "it is pinned",
    "request": "the request that is worked on",
    "recent": "among the newest, which stay",
    "chosen": "chosen by the policy",
    "superseded": "a later version of the rule is in force",
    "older": "older than what stays",
    "outranked": "the policy chose others",
}
_RULE = "blocks"  #: how texts are counted whose tokens no compaction noted

FateKind: TypeAlias = Literal["kept", "shortened", "summarised", "left"]
"""``kept``: it is in the view as it was. ``shortened``: a shorter text stands in its place. ``summarised``: a
summary stands for it. ``left``: no text of the view stands for it; the log has it."""


def why(record: CompactionRecord | Mark) -> str:
    """Why a compaction was due, in words, with the threshold that was reached; empty for other reasons."""
    said = REASONS.get(record.reason, "")
    if not said or record.threshold is None:
        return said
    beside = f", {record.reserved_tokens:,} of them beside the history" if record.reserved_tokens else ""
    joined = " of " if said.endswith(("the threshold", "the window")) else ": "
    return f"{said}{joined}{record.threshold:,} tokens{beside}"


@dataclass(frozen=True, slots=True)
class Fate:
    """The decision on one message.

    Attributes:
        row: The message, as the log has it.
        kind: The kind of the decision.
        is_archived: Whether a search finds it, or a part of it.
        rule: The rule of the decision, one of ``RULES``; empty if the log does not have it.
        tokens: Its size in the view before: of the message, or of the shorter text in its place.
    """

    row: LogRow
    kind: FateKind
    is_archived: bool
    rule: str
    tokens: int

    @property
    def seq(self) -> int:
        """Its number."""
        return self.row.seq


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a view: so many messages or summaries, and their tokens."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Change:
    """One compaction.

    Attributes:
        record: The record of the compaction in the log.
        fates: Each message of the view before, in order.
        earlier: How many messages had left before, for which its summary stands as well.
        before: The summaries and shorter texts of the view before.
        after: The summaries and shorter texts of the view after.
        sizes: The tokens of these texts, by their ids.
    """

    record: CompactionRecord
    fates: tuple[Fate, ...]
    earlier: int
    before: tuple[Derived, ...]
    after: tuple[Derived, ...]
    sizes: Mapping[int, int]

    @property
    def shares_before(self) -> dict[str, Share]:
        """The parts of the view before, by the decision on them, in the order of the view.

        ``replaced``: summaries that are not in the view after. ``summaries``: summaries that stayed. The rest
        are messages, by their ``FateKind``.
        """
        stayed = {each.derived_id for each in self.after}
        old = [("summaries" if each.derived_id in stayed else "replaced", each) for each in self.before]
        parts = [(kind, self.sizes[each.derived_id]) for kind, each in old if each.kind == "summary"]
        parts += [(fate.kind, fate.tokens) for fate in self.fates]
        return _shares(("replaced", "summaries", "summarised", "left", "shortened", "kept"), parts)

    @property
    def shares_after(self) -> dict[str, Share]:
        """The parts of the view after, in its order.

        ``new`` summaries, ``summaries`` that stayed, and messages ``shortened`` by it or ``kept``.
        """
        known = {each.derived_id for each in self.before}
        parts = [
            (_kind_after(each, is_new=each.derived_id not in known), self.sizes[each.derived_id])
            for each in self.after
            if each.kind == "summary" or each.derived_id not in known
        ]
        parts += [(fate.kind, fate.tokens) for fate in self.fates if fate.kind == "kept"]
        return _shares(("new", "summaries", "shortened", "kept"), parts)

    @property
    def gone(self) -> list[Fate]:
        """The messages that left the view with it."""
        return [fate for fate in self.fates if fate.kind in ("summarised", "left")]

    @property
    def kept(self) -> list[Fate]:
        """The messages that stayed."""
        return [fate for fate in self.fates if fate.kind in ("kept", "shortened")]


def difference(session: Session, store: Store, compaction_id: int) -> Change:
    """The decisions of compaction *compaction_id* of *session*.

    Raises:
        CompactionNotFoundError: the session has no such compaction.
    """
    records = {record.id: record for record in session.compactions(undone=True)}
    record = records.get(compaction_id)
    if record is None:
        raise CompactionNotFoundError(
            f"session {session.session_id!r} has no compaction {compaction_id}", compaction_id=compaction_id
        )
    log = store.open_log(session.session_id)
    rows = {row.compaction_id: row for row in log.compactions()}
    row = rows[compaction_id]
    parent = None if row.parent is None else rows.get(row.parent)
    before, after = _texts(log, parent), _texts(log, row)
    seqs = _before(parent, before, row.compaction.next_seq)
    shown = _numbers(piece for piece in row.compaction.view if isinstance(piece, tuple))
    known = {each.derived_id for each in before}
    replaced = {each.seq: each.derived_id not in known for each in after if each.seq is not None}
    new = [each for each in after if each.kind == "summary" and each.derived_id not in known]
    brought = _numbers(span for each in new for span in each.covers)

    def kind(seq: int) -> FateKind:
        if seq in replaced:
            return "shortened" if replaced[seq] else "kept"
        if seq in shown:
            return "kept"
        return "summarised" if seq in brought else "left"

    found = _archived(store, session.session_id, seqs)
    rules = {seq: rule for start, end, rule in record.rules for seq in range(start, end)}
    rule = tokens.rule(_RULE)
    noted = {text: size for each in rows.values() for text, size in sizes_of(each).items()}
    sizes = {
        each.derived_id: noted.get(each.derived_id) or rule.count([derived_item(each)])
        for each in (*before, *after)
    }
    stood = {each.seq: sizes[each.derived_id] for each in before if each.seq is not None}
    fates = tuple(
        Fate(
            each,
            kind(each.seq),
            each.seq in found,
            rules.get(each.seq, ""),
            stood.get(each.seq, each.tokens),
        )
        for each in rows_at(log, seqs)
    )
    covered = _numbers(record.covers)
    gone = {fate.seq for fate in fates if fate.kind in ("summarised", "left")}
    return Change(record, fates, len(covered - gone), before, after, sizes)


def _kind_after(text: Derived, *, is_new: bool) -> str:
    if text.kind != "summary":
        return "shortened"
    return "new" if is_new else "summaries"


def _shares(order: Sequence[str], parts: Iterable[tuple[str, int]]) -> dict[str, Share]:
    """The parts by their kinds, in *order*; none is empty."""
    found: dict[str, list[int]] = {}
    for kind, size in parts:
        found.setdefault(kind, []).append(size)
    return {kind: Share(len(found[kind]), sum(found[kind])) for kind in order if kind in found}


def _texts(log: SessionLog, row: CompactionRow | None) -> tuple[Derived, ...]:
    """The derived texts of the view that *row* left, in their order."""
    ids = [] if row is None else [piece for piece in _view(row.compaction) if isinstance(piece, int)]
    return tuple(log.derived(ids)) if ids else ()


def _view(row: NewCompaction) -> list[object]:
    return [*row.view]


def _before(parent: CompactionRow | None, texts: tuple[Derived, ...], end: int) -> list[int]:
    """The numbers of the messages that the view before shows, as they are or shortened, in order."""
    if parent is None:
        return [*range(end)]
    spans = [piece for piece in parent.compaction.view if isinstance(piece, tuple)]
    shortened = {each.seq for each in texts if each.seq is not None}
    return sorted(_numbers([*spans, (parent.compaction.next_seq, end)]) | shortened)


def _archived(store: Store, session_id: str, seqs: list[int]) -> set[int]:
    """The numbers of *seqs* whose messages became an entry."""
    if not seqs:
        return set()
    entries = entries_of(store, session_id, (seqs[0], seqs[-1] + 1))
    return _numbers((entry.source_range.start, entry.source_range.end) for entry in entries)


def _numbers(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {seq for start, end in spans for seq in range(start, end)}
