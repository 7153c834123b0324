"""Appends a large tool result: the log gets all of it, the view its head and tail, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from siltstone.compaction.base import Compaction
from siltstone.engine import offloading
from siltstone.llm import Steps
from siltstone.messages import RawMessage, RecalledMessage
from siltstone.outcome import Compacted, Failed, Outcome
from siltstone.session.boundary import attempted
from siltstone.session.committing import Entering, commit
from siltstone.session.concurrency import TRIES, Call
from siltstone.session.core import SessionCore
from siltstone.session.state import SessionState
from siltstone.tokens import TokenRule

__all__ = ["offload"]


def offload(
    core: SessionCore, call: Call, raw: RawMessage, tokens: int, rule: TokenRule, usage: Any
) -> Steps[range]:
    """Appends *raw*, and shows at most *tokens* of its results. Tries again if another worker was faster.

    A message that is small enough, or has no result, is appended as it is. If the cut fails, the message is
    appended uncut, so that it is never lost.
    """

    def begin() -> tuple[SessionState, Entering] | range:
        core.check_open()
        state = core.followed()
        if call.write_id and (answer := core.appended_before(call, 1)):
            return answer
        items = core.measured([raw], state)
        state.view.check_answers(items)
        return state, Entering(items, state.version, usage, call)

    for _ in range(0 if isinstance(raw, RecalledMessage) else TRIES):
        begun = core.locked(begin)
        if isinstance(begun, range):
            return begun
        state, entering = begun
        outcome = yield from _attempt(core, state, entering, tokens, rule)
        if isinstance(outcome, Compacted):
            return range(state.end, state.end + 1)
        if not (isinstance(outcome, Failed) and outcome.reason == "stale"):
            break
    return core.append((raw,), usage, call)


def _attempt(
    core: SessionCore, state: SessionState, entering: Entering, tokens: int, rule: TokenRule
) -> Steps[Outcome]:
    """One attempt to append the entering messages and cut them, in one transaction. No hook is asked."""
    read = replace(state, view=state.view.extended(entering.items))
    policy, trigger = offloading(state.end, tokens, rule)
    at = max(state.clock.boundary - 1, 0)

    def write(result: Compaction, before: int, after: int) -> int:
        return commit(
            core,
            result,
            read=read.view,
            redactions=state.version.redactions,
            at=at,
            policy=policy,
            trigger=trigger,
            tokens=(before, after),
            entering=entering,
        )

    return (yield from attempted(core, read, policy, trigger, at, is_emergency=True, commit=write))
