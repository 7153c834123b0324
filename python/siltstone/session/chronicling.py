"""The checkpoints of a session whose policy writes them, and the tool that reads them."""

from __future__ import annotations

from siltstone.compaction.base import Checkpoint, CheckpointKeeper, Compactor
from siltstone.errors import ConfigError
from siltstone.session.core import SessionCore
from siltstone.session.lineage import written_by_run
from siltstone.session.loading import covered
from siltstone.tools import Tool, chronicle

__all__ = ["checkpoints", "chronicle_tool", "keeps_checkpoints"]


def keeps_checkpoints(policy: Compactor | None) -> bool:
    """Whether *policy* writes checkpoints."""
    return isinstance(policy, CheckpointKeeper) and policy.keeps_checkpoints


def checkpoints(core: SessionCore, policy: Compactor | None) -> list[Checkpoint]:
    """All checkpoints that lead to the current view, oldest first.

    Raises:
        ConfigError: the policy writes none.
    """
    core.check_open()
    if not isinstance(policy, CheckpointKeeper) or not policy.keeps_checkpoints:
        name = "no policy" if policy is None else f"the policy {policy.name!r}"
        raise ConfigError(
            f"session {core.session_id!r} has {name} and no checkpoints: "
            'TieredCompactor(TieredConfig(mode="chronicle")) writes some',
            field="policy",
            value=policy,
        )
    state = core.follow()
    return list(policy.checkpoints(written_by_run(core.rows, policy.name, state.head)))


def chronicle_tool(core: SessionCore, policy: Compactor | None, budget: int) -> Tool:
    """The tool ``chronicle`` of this session alone.

    Raises:
        ConfigError: the policy writes no checkpoints.
    """
    checkpoints(core, policy)
    limit = policy.expand_limit if isinstance(policy, CheckpointKeeper) else 1

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
        lambda: checkpoints(core, policy),
        expand,
        limit=limit,
        budget=budget,
        count=core.view.rule.count_text,
    )
