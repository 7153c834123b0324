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
from siltstone.session.core import Core

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
    identifiers: bool
    dry_run: bool


def forgetting(
    core: Core, policy: Compactor | None, *, renew: bool, **criteria: Unpack[Criteria]
) -> Flow[ForgetReport]:
    """Forgets, lets go of it in this memory, and with *renew* asks for summaries of what is left."""
    core.check_open()
    report = core.store.forget(session_id=core.session_id, **criteria)
    if report.dry_run:
        return report
    core.refresh()
    renewed = 0
    if renew and isinstance(policy, Resummarizer):
        renewed = yield from _renew(core, policy)
    return replace(report, renewed=renewed)


def _renew(core: Core, policy: Resummarizer) -> Flow[int]:
    """Gives every compaction whose summary was forgotten a new one; how many have one now.

    Where no model gives one, the summary stays as it is: a sentence that says what happened.
    """
    renewed, made = 0, dict[tuple[tuple[int, int], ...], str]()
    for row in core.lineage()[0]:
        left = core.covered(row.compaction)
        if not row.redacted or not left:
            continue
        redactions = core.redactions
        try:
            content = made.get(row.compaction.covers)  # a branch repeats the summary that its view has
            if content is None:
                content, usage = yield from policy.resummarize(left, core.context_window)
                core.charge(usage)
                made[row.compaction.covers] = content
            renewed += core.renew(row.compaction_id, content, redactions)
        except (CompactionError, ModelError, StoreConflictError) as error:
            core.charge(getattr(error, "usage", ()))
            _log.warning("a summary of session %r stays forgotten: %s", core.session_id, error)
            break
    return renewed
