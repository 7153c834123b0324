"""What to do when the provider found the request too large after all."""

from __future__ import annotations

from siltstone.compaction.base import Compactor, Trigger
from siltstone.engine import rescue
from siltstone.errors import ContextOverflowError
from siltstone.llm import Steps
from siltstone.outcome import Compacted, Outcome
from siltstone.overflow import is_context_overflow
from siltstone.session.boundary import Prepared, compaction, prepared
from siltstone.session.core import Core

__all__ = ["MOST_RETRIES", "recovery"]

MOST_RETRIES = 2  #: of one request: then the provider's error is the caller's

# What the emergency net leaves of the view, in quarters: where the policy could not help, and where its
# help was not enough.
AFTER_POLICY = 3
AT_LAST = 2


def recovery(core: Core, policy: Compactor | None, error: Exception, retries: int) -> Steps[Prepared]:
    """A smaller request in the place of one that was refused with *error*.

    Args:
        core: The session.
        policy: Its policy.
        error: What the provider's client raised.
        retries: How often this request was made smaller before.

    Raises:
        Exception: *error* itself: it is no overflow, there is no policy, or the retries are used up, or
            what must stay cannot be made smaller.
    """
    core.check_open()
    if policy is None or retries >= MOST_RETRIES or not is_context_overflow(error):
        raise error
    outcomes: list[Outcome] = []
    at = max(core.cadence.boundary - 1, 0)
    if retries == 0:
        trigger = Trigger(
            "overflow",
            tokens=core.view.recounted(policy.token_rule).tokens + core.reserved_tokens,
            context_window=core.context_window,
            reserved_tokens=core.reserved_tokens,
        )
        outcomes.append((yield from compaction(core, policy, trigger, at)))
    if not any(isinstance(outcome, Compacted) for outcome in outcomes):
        tokens = core.view.recounted(policy.token_rule).tokens
        quarters = AT_LAST if retries else AFTER_POLICY
        net = rescue(tokens, policy, max(1, tokens * quarters // 4))
        if net is None:
            raise error
        try:
            outcome = yield from compaction(core, *net, at, is_net=True)
        except ContextOverflowError as refused:
            raise error from refused
        if not isinstance(outcome, Compacted):
            raise error
        outcomes.append(outcome)
    return prepared(core, outcomes, policy)
