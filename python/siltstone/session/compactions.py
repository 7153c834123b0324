"""The compactions and checkpoints of a session, and the messages behind each summary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from siltstone.compaction.base import Checkpoint, Compactor, State
from siltstone.errors import CompactionNotFoundError, ConfigError, refuse
from siltstone.llm import UsageRecord
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow, Derived, NewCompaction
from siltstone.messages import RawMessage
from siltstone.session.committing import BRANCH, UNDO
from siltstone.session.core import SessionCore
from siltstone.session.policy_history import written_by_run
from siltstone.session.rows import RuleSpan, notes_of, usage_of
from siltstone.session.state import RangeSet, all_derived, covered, line_of, minus, union
from siltstone.tools.base import Tool
from siltstone.tools.context import chronicle


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """A summary that a compaction wrote.

    Attributes:
        text: The text for the model, with its frame. A forgotten summary has a sentence that says so.
        covers: The half-open ranges of sequence numbers that it replaces.
        level: 1 for a summary of messages alone, else one more than the highest summary it replaced.
        redacted: Whether a message that it covered was forgotten.
    """

    text: str
    covers: tuple[tuple[int, int], ...]
    level: int
    redacted: bool


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A compaction in the log, or a branch, which the log has when a host's list rewrites the past.

    A branch has the reason ``"branch"``, no policy, no summary, and level 0. It covers the messages that left
    the view.

    Attributes:
        id: Its id, never reused; the argument of ``expand``.
        parent: The compaction whose view it rewrote; None if it rewrote the plain log. After the undo of a
            branch this may be the id of an internal row, which no record has.
        policy: The policy's name.
        reason: Why it was due.
        covers: The half-open ranges of sequence numbers that the summary replaces; for a branch, the messages
            that left the view.
        level: 1 for a summary of messages alone, else one more than the highest summary it replaced.
        summary: The summary as the model reads it, with its frame.
        tokens_before: Tokens of the view before, by the policy's rule.
        tokens_after: Tokens of the view after.
        messages_before: Messages in the view before.
        messages_after: Messages in the view after.
        usage: Every model call that it cost.
        created_at: The time of its commit, in UTC.
        degraded: Whether the summary was made without the intended model.
        undone: Whether it does not lead to the current view.
        redacted: Whether a message that it covered was forgotten. ``summary`` then says only that.
        summaries: Every summary that it wrote, in order, even one that no view ever showed.
        state: The state that the policy stored with it; None if the policy stored none.
        seconds: How long it took, up to its commit, its model calls included; None where nobody noted it.
        rules: For each stretch of messages of the view that it found, half-open, by which rule they were kept
            (``system``, ``pinned``, ``request``, ``recent``, ``chosen``) or left (``superseded``,
            ``older``, ``outranked``); empty where nobody noted it.
        threshold: The threshold in tokens that was reached; None where it was not due by a number of tokens,
            or nobody noted it.
        reserved_tokens: Tokens beside the history that counted against it: a history of ``threshold -
            reserved_tokens`` reached it.
        context_window: The model's window in tokens then; None where it was unknown, or nobody noted it.
        suspect: Whether the summary is very short for the messages that it replaces.
    """

    id: int
    parent: int | None
    policy: str
    reason: str
    covers: tuple[tuple[int, int], ...]
    level: int
    summary: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    usage: tuple[UsageRecord, ...]
    created_at: datetime
    degraded: bool
    undone: bool
    redacted: bool
    summaries: tuple[SummaryRecord, ...] = ()
    state: State | None = None
    seconds: float | None = None
    rules: tuple[RuleSpan, ...] = ()
    threshold: int | None = None
    reserved_tokens: int = 0
    context_window: int | None = None
    suspect: bool = False

    def __repr__(self) -> str:
        words = [
            self.reason,
            f"{self.tokens_before:,} to {self.tokens_after:,} tokens",
            f"level {self.level}",
        ]
        words += [word for word in ("degraded", "suspect", "undone", "redacted") if getattr(self, word)]
        return f"<CompactionRecord {self.id}: {', '.join(words)}>"


def records(core: SessionCore, *, undone: bool) -> list[CompactionRecord]:
    """The compactions that led to the current view, oldest first; with *undone*, the other ones too."""
    rows, current = core.compactions()
    known = {row.compaction_id: row for row in rows}
    derived = {each.derived_id: each for each in all_derived(core.rows)}
    found = []
    for row in rows:
        was_undone = row.compaction_id not in current
        if _is_shown(row) and (undone or not was_undone):
            parent = None if row.parent is None else known[row.parent].compaction
            brought = [derived[each] for each in row.derived_ids if each in derived]
            found.append(_record(core, row, parent, brought, was_undone))
    return found


def record(core: SessionCore, row: CompactionRow, *, undone: bool) -> CompactionRecord:
    """One compaction."""
    parent = None if row.parent is None else core.rows.compaction(row.parent)
    brought = core.rows.derived(row.derived_ids)
    return _record(core, row, None if parent is None else parent.compaction, brought, undone)


def view_at(core: SessionCore, n: int) -> list[RawMessage]:
    """The view right after the *n*-th compaction; for 0, the history that the first compaction read."""
    rows, current = core.compactions()
    led = [row for row in rows if row.compaction_id in current and _is_shown(row)]
    if type(n) is not int or not 0 <= n <= len(led):
        refuse("n", f"0 to {len(led)}, the compactions of session {core.session_id!r}", n)
    if n > 0:
        return core.view_left_by(led[n - 1].compaction)
    return core.view_before(led[0] if led else None)


def expand(core: SessionCore, compaction_id: int) -> list[dict[str, Any]]:
    """The messages that a compaction replaced, in order, including the messages behind earlier summaries.

    A compaction replaces messages by summaries, or a large message by a shorter text.
    """
    core.check_open()
    rows, _ = core.compactions()
    known = {row.compaction_id: row for row in rows}
    row = known.get(compaction_id)
    if row is None or not _is_shown(row):
        raise CompactionNotFoundError(
            f"session {core.session_id!r} has no compaction {compaction_id!r}", compaction_id=compaction_id
        )
    parent = None if row.parent is None else known[row.parent].compaction
    brought = core.rows.derived(row.derived_ids)
    replaced = [(each.seq, each.seq + 1) for each in brought if each.seq is not None]
    spans = union(_covers(core, row, parent), replaced) if replaced else _covers(core, row, parent)
    return [raw for span in spans for raw in core.log(*span)]


def _is_shown(row: CompactionRow) -> bool:
    """Whether *row* has a record. The internal row of an undo has none."""
    return row.compaction.reason != UNDO


def _covers(core: SessionCore, row: CompactionRow, parent: NewCompaction | None) -> RangeSet:
    """The messages that the summaries of *row* replace; for a branch, the messages that left the view."""
    compaction = row.compaction
    if compaction.reason != BRANCH:
        return compaction.covers
    before = line_of(core.rows, parent, compaction.next_seq)
    return minus(before, line_of(core.rows, compaction, compaction.next_seq))


_SAME_IN_ROW: Final = (
    "policy", "reason", "tokens_before", "tokens_after", "messages_before", "messages_after"
)  # fmt: skip


def _record(
    core: SessionCore, row: CompactionRow, parent: NewCompaction | None, brought: list[Derived], undone: bool
) -> CompactionRecord:
    compaction = row.compaction
    summaries = [each for each in brought if each.kind == "summary"]
    notes = notes_of(compaction)
    threshold, reserved = notes.get("due", (None, 0))
    return CompactionRecord(
        id=row.compaction_id,
        parent=row.parent,
        covers=_covers(core, row, parent),
        level=max((each.level for each in summaries), default=0),
        summary="\n\n".join(each.raw for each in summaries),
        **{name: getattr(compaction, name) for name in _SAME_IN_ROW},
        usage=tuple(usage_of(compaction)),
        created_at=datetime_from(compaction.created_at),
        degraded=any(each.degraded for each in summaries),
        undone=undone,
        redacted=any(each.redacted for each in summaries),
        summaries=tuple(
            SummaryRecord(each.raw, each.covers, each.level, each.redacted) for each in summaries
        ),
        state=json.loads(compaction.state) if compaction.state else None,
        seconds=notes["ms"] / 1e3 if "ms" in notes else None,
        rules=tuple((start, end, rule) for start, end, rule in notes.get("rules", ())),
        threshold=threshold,
        reserved_tokens=reserved,
        context_window=notes.get("window"),
        suspect=bool(notes.get("suspect")),
    )


# The checkpoints of a session whose policy writes them, and the tool that reads them.


def checkpoints(core: SessionCore, policy: Compactor | None) -> list[Checkpoint]:
    """All checkpoints that lead to the current view, oldest first.

    Raises:
        ConfigError: the policy writes none.
    """
    core.check_open()
    if policy is None or not policy.keeps_checkpoints:
        name = "no policy" if policy is None else f"the policy {policy.name!r}"
        raise ConfigError(
            f"session {core.session_id!r} has {name} and no checkpoints: "
            'TieredCompactor(TieredConfig(mode="chronicle")) writes some',
            "policy",
            policy,
        )
    state = core.follow()
    return policy.checkpoints(written_by_run(core.rows, policy.name, state.head))


def chronicle_tool(core: SessionCore, policy: Compactor | None, budget: int) -> Tool:
    """The tool ``chronicle`` of this session alone.

    Raises:
        ConfigError: the policy writes no checkpoints.
    """
    checkpoints(core, policy)
    limit = 1 if policy is None else policy.expand_limit

    def expand(start: int, end: int, most: int) -> list[tuple[int, str, str]]:
        """At most *most* messages from *start* to *end*, without messages that a host has taken back."""
        found: list[tuple[int, str, str]] = []
        for first, last in core.line():
            at = max(first, start)
            while at < min(last, end) and len(found) < most:
                stop = min(last, end, at + most - len(found))
                said = covered(core.rows, [(at, stop)])
                found += [(each.seq, each.role, core.text_of(each.seq) or "") for each in said]
                at = stop
        return found

    return chronicle(
        lambda: checkpoints(core, policy), expand, limit=limit, budget=budget, count=core.view.rule.count_text
    )
