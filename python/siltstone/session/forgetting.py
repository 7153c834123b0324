"""Forgetting in a session: what was said goes, and summaries are made anew of what is left."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import TypedDict, Unpack

from siltstone.compaction.base import CompactionError, Compactor, Resummarizer
from siltstone.errors import ModelError, StoreConflictError
from siltstone.llm import Flow
from siltstone.memory.entry import ForgetReport
from siltstone.session.archiving import write_anew
from siltstone.session.core import SessionCore
from siltstone.session.learning import forget_progress
from siltstone.session.loading import all_derived, covered

__all__ = ["Criteria", "forgetting"]

_log = logging.getLogger("siltstone")


class Criteria(TypedDict, total=False):
    """What ``forget`` may be asked for within a session; see ``MemoryStore.forget``."""

    entry_ids: Collection[int] | None
    start: int | None
    end: int | None
    name: str | None
    before: datetime | float | None
    text: str | None
    fact_ids: Collection[str] | None
    identifiers: bool
    dry_run: bool


def forgetting(
    core: SessionCore, policy: Compactor | None, *, renew: bool, **criteria: Unpack[Criteria]
) -> Flow[ForgetReport]:
    """Forgets, lets go of it in this memory, and with *renew* asks for summaries of what is left."""
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
        if renew and isinstance(policy, Resummarizer):
            renewed = yield from _renew(core, policy)
    finally:
        core.catch_up()
    return replace(report, renewed=renewed)


def _renew(core: SessionCore, policy: Resummarizer) -> Flow[int]:
    """Gives every summary that was forgotten a new text; how many have one now.

    Where no model gives one, the summary stays as it is: a sentence that says what happened.
    """
    renewed = 0
    for summary in all_derived(core.rows):
        if not summary.redacted or summary.kind != "summary":
            continue
        left = covered(core.rows, summary.covers)
        if not left:
            continue
        version = core.follow().version
        try:
            content, usage = yield from policy.resummarize(left, core.context_window)
            core.charge(usage)
            version = version if not usage else core.state.version
            renewed += core.renew(summary.derived_id, content, version)
        except (CompactionError, ModelError, StoreConflictError) as error:
            core.charge(getattr(error, "usage", ()))
            _log.warning("a summary of session %r stays forgotten: %s", core.session_id, error)
            break
    return renewed
