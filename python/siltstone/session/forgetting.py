"""Forgetting in a session: messages are removed, and summaries are written again without them."""

from __future__ import annotations

import logging
from dataclasses import replace

from siltstone.compaction.base import CompactionError, Compactor
from siltstone.errors import ModelError, StoreConflictError
from siltstone.llm import Flow
from siltstone.memory.entry import ForgetCriteria, ForgetReport
from siltstone.memory.log import Derived
from siltstone.session.archiving import write_anew
from siltstone.session.core import SessionCore
from siltstone.session.learning import forget_progress
from siltstone.session.state import all_derived, covered

_log = logging.getLogger("siltstone")

REACH = 16  #: summaries that left the view and are still written again: an undo may show them


def forgetting(
    core: SessionCore, policy: Compactor | None, criteria: ForgetCriteria, *, renew: bool
) -> Flow[ForgetReport]:
    """Forgets in store, memory and files. With *renew*, asks a model for new summaries."""
    core.check_open()
    core.follow()
    known = core.knowing.facts.facts() if core.knowing.keeps_facts else ()
    report = core.store.forget(session_id=core.session_id, **criteria)
    if report.dry_run:
        return report
    core.follow()
    if report.facts:
        forget_progress(core, known)
    write_anew(core)
    renewed = 0
    try:
        if renew and policy is not None:
            renewed = yield from _renew(core, policy)
    finally:
        core.catch_up()
    return replace(report, renewed=renewed)


def _worth_renewing(core: SessionCore) -> list[Derived]:
    """The forgotten summaries, oldest first, without summaries too old to be shown again by an undo."""
    state = core.follow()
    shown = {item.derived_id for item in state.view if item.derived_id is not None}
    once = {piece for row in core.rows.compactions() for piece in row.compaction.view if type(piece) is int}
    gone = [each for each in all_derived(core.rows) if each.redacted and each.kind == "summary"]
    passed = [each.derived_id for each in gone if each.derived_id in once and each.derived_id not in shown]
    left = set(passed[: max(0, len(passed) - REACH)])
    return [each for each in gone if each.derived_id not in left]


def _renew(core: SessionCore, policy: Compactor) -> Flow[int]:
    """Gives forgotten summaries a new text. Returns how many have one now.

    Of the summaries that have left the view, only the newest ``REACH`` are written again, because each costs
    a model call over all its messages. If a model call fails, the rest keep the sentence that says that their
    text was forgotten.
    """
    renewed = 0
    for summary in _worth_renewing(core):
        left = covered(core.rows, summary.covers)
        if not left:
            continue
        read = core.follow().version
        try:
            writing = policy.resummarize(left, core.context_window)
            if writing is None:
                break
            content, usage = yield from writing
            core.charge(usage)
            version = core.follow().version
            if version.redactions != read.redactions:  # the model may have read what is forgotten now
                raise StoreConflictError(
                    "more was forgotten while the model wrote; the next forget() asks it again",
                    session_id=core.session_id,
                )
            renewed += core.renew(summary.derived_id, content, version)
        except (CompactionError, ModelError, StoreConflictError) as error:
            core.charge(getattr(error, "usage", ()))
            _log.warning("a summary of session %r stays forgotten: %s", core.session_id, error)
            break
    return renewed
