"""A smaller request, after the provider refused one as too large."""

from __future__ import annotations

from siltstone.compaction.base import Compactor, OverflowRetrier, Trigger, shapes_request
from siltstone.engine import rescue
from siltstone.errors import ContextOverflowError
from siltstone.llm import Steps
from siltstone.outcome import Compacted, Outcome
from siltstone.overflow import is_context_overflow
from siltstone.session.boundary import compaction, prepared
from siltstone.session.core import SessionCore
from siltstone.session.prepared import Prepared
from siltstone.session.state import SessionState

__all__ = ["MOST_RETRIES", "recovery", "sent_tokens"]

MOST_RETRIES = 2  #: smaller requests after one refused request; after that the caller gets the error

# The size of the view after the emergency fit, in quarters of the size before: at the first retry, when the
# policy could not help, and at a later retry.
AFTER_POLICY = 3
AT_LAST = 2


def recovery(
    core: SessionCore, policy: Compactor | None, error: Exception, retries: int
) -> Steps[tuple[SessionState, Prepared]]:
    """A smaller request, after a request was refused with *error*.

    Args:
        core: The session.
        policy: Its policy.
        error: The exception of the provider's client.
        retries: How often this request was made smaller before.

    Returns:
        The state of the session, and the answer for that state. The view is never larger than the window.

    Raises:
        Exception: *error* itself: it is no overflow, there is no policy, the retries are used up, or the
            messages that must stay cannot be made smaller.
    """
    core.check_open()
    retrier = isinstance(policy, OverflowRetrier)
    most = policy.overflow_retries if isinstance(policy, OverflowRetrier) else MOST_RETRIES
    if policy is None or retries >= most or not is_context_overflow(error):
        raise error
    outcomes: list[Outcome] = []
    at = max(core.follow().clock.boundary - 1, 0)
    if shapes_request(policy):
        outcomes.append((yield from _smaller(core, policy, AT_LAST if retries else AFTER_POLICY, at, error)))
    elif retries == 0 or retrier:
        trigger = Trigger(
            "overflow",
            tokens=_tokens(core, policy) + core.reserved_tokens,
            context_window=core.context_window,
            reserved_tokens=core.reserved_tokens,
        )
        try:
            outcomes.append((yield from compaction(core, policy, trigger, at)))
        except ContextOverflowError as refused:
            raise error from refused
    if not any(isinstance(outcome, Compacted) for outcome in outcomes):
        quarters = AT_LAST if retries else AFTER_POLICY
        outcomes.append((yield from _smaller(core, policy, quarters, at, error)))
    window = core.context_window
    while window is not None and _tokens(core, policy) + core.reserved_tokens > window:
        outcomes.append((yield from _smaller(core, policy, 4, at, error)))
    state = core.state
    return state, prepared(core, state, outcomes, policy)


def sent_tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the last request: the view, or the part of it that a shaped request showed."""
    return core.requests.sent_tokens(core.follow().view.sendable().recounted(policy.token_rule))


def _tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the view as it is sent."""
    return core.state.view.sendable().recounted(policy.token_rule).tokens


def _smaller(
    core: SessionCore, policy: Compactor, quarters: int, at: int, error: Exception
) -> Steps[Compacted]:
    """The emergency fit's compaction to *quarters* / 4 of the last request, or to the window if smaller."""
    tokens, window = _tokens(core, policy), core.context_window
    aim = max(1, min(tokens, sent_tokens(core, policy)) * quarters // 4)
    if window is not None:
        aim = min(aim, max(1, window - core.reserved_tokens))
    added = max(0, tokens - core.state.view.recounted(policy.token_rule).tokens)  # by the repair of the view
    fit = rescue(tokens - added, policy, aim, added)
    if fit is None:
        raise error
    try:
        outcome = yield from compaction(core, *fit, at, is_emergency=True)
    except ContextOverflowError as refused:
        raise error from refused
    if not isinstance(outcome, Compacted):
        raise error
    return outcome
