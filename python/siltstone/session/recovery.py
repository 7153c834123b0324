"""A smaller request, after a provider refused one as too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Final, Generic, TypeVar

from siltstone.compaction.base import Compactor, Trigger
from siltstone.engine import Compacted, Lighten, Outcome, rescue
from siltstone.errors import ConfigError, ContextOverflowError, refuse
from siltstone.limits import is_context_overflow, request_bytes_of
from siltstone.llm import Steps, done
from siltstone.messages import RawMessage, read_message
from siltstone.refusals import refusal_of
from siltstone.session.boundary import Prepared, can_hold, check_fit, compaction, prepared
from siltstone.session.core import SessionCore
from siltstone.session.state import SessionState

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
    refusal = refusal_of(error)
    if policy is None or retries >= most_retries(policy) or refusal is None:
        raise error
    outcomes: list[Outcome] = []
    at, core.is_asked = max(core.follow().clock.boundary - 1, 0), True
    if refusal.kind == "bytes":
        outcomes.append((yield from _lighter(core, policy, refusal.limit, retries, at)))
    if any(isinstance(outcome, Compacted) for outcome in outcomes):
        pass
    elif policy.shapes_request:
        outcomes.append((yield from _smaller(core, policy, AT_LAST if retries else AFTER_POLICY, at, error)))
    elif retries == 0 or policy.overflow_retries is not None:
        window, beside = core.room
        tokens = _tokens(core, policy) + beside
        trigger = Trigger("overflow", tokens=tokens, context_window=window, reserved_tokens=beside)
        try:
            outcomes.append((yield from compaction(core, policy, trigger, at)))
        except ContextOverflowError as refused:
            raise error from refused
    if not any(isinstance(outcome, Compacted) for outcome in outcomes):
        quarters = AT_LAST if retries else AFTER_POLICY
        outcomes.append((yield from _smaller(core, policy, quarters, at, error)))
    window, beside = core.room
    while window is not None and _tokens(core, policy) + beside > window:
        outcomes.append((yield from _smaller(core, policy, 4, at, error)))
    state = core.state
    return state, prepared(core, state, outcomes, policy)


def learn(core: SessionCore, policy: Compactor, error: Exception) -> None:
    """Learns from *error* how large a request may be: until the next answer, and for the model.

    The limit that the provider names is kept in its own tokens. It is not kept if it is no smaller than the
    window, if a larger request was accepted by a model that nobody names (then another model has answered),
    or if the messages that must stay are larger. If the provider counted more tokens in the request than we
    did, the next request keeps to a part of the limit. A request that is mostly media teaches nothing.

    Raises:
        Exception: *error* itself, if the messages that must stay are larger than the limit.
    """
    said = refusal_of(error)
    if said is None or said.kind != "tokens" or said.limit is None or core.follow().view.is_mostly_media():
        return
    given, clock, limit = core.given_window, core.clock, said.limit
    sent, answer = sent_tokens(core, policy) + core.reserved_tokens, said.answer or 0
    if answer <= core.reserved_tokens:
        answer = 0  # its room is a part of our own count
    by_our_count = limit - answer
    if said.total:
        by_our_count = max(1, by_our_count * sent // max(1, said.total - answer))
    try:
        check_fit(core, policy, max(limit, by_our_count))
    except ContextOverflowError as refused:
        error.add_note(str(refused))
        raise error from refused
    if clock.agent_model or clock.accepted <= limit:  # else another model has answered
        learned, ours = clock.known(), sent - core.reserved_tokens
        if said.total and ours:
            theirs = max(1, said.total - answer)
            counted = learned.counted(ours, theirs, policy.token_rule.name, core.reserved_tokens)
            learned = counted if counted.fixed < limit else learned  # no message would fit beside that
        if (given is None or limit < given) and can_hold(core, policy, limit):
            learned = learned._replace(tokens=limit, source="the provider's refusal", window=given or 0)
        if clock.known() != learned:
            core.learn_limit(learned)
    if can_hold(core, policy, min(limit, by_our_count)):
        core.refused_window = min(limit, by_our_count)


def sent_tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the last request: the view, or the part of it that a shaped request showed."""
    return core.requests.sent_tokens(core.follow().view.sendable().recounted(policy.token_rule))


def _tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the view as it is sent."""
    return core.state.view.sendable().recounted(policy.token_rule).tokens


def _lighter(
    core: SessionCore, policy: Compactor, limit: int | None, retries: int, at: int
) -> Steps[Outcome]:
    """A compaction to the *limit* in bytes, or to the one of the model's provider, else to half the request.

    At a later retry every body leaves that may.
    """
    sent, known = core.follow().view.bytes, limit or request_bytes_of(core.clock.agent_model)
    most = 0 if retries else known if known is not None and known < sent else sent // 2
    trigger = Trigger("bytes", "emergency", _tokens(core, policy), context_window=core.context_window)
    return (yield from compaction(core, Lighten(most, policy.token_rule), trigger, at, is_emergency=True))


def _smaller(
    core: SessionCore, policy: Compactor, quarters: int, at: int, error: Exception
) -> Steps[Compacted]:
    """The emergency fit's compaction to *quarters* / 4 of the last request, or to the window if smaller."""
    tokens, (window, beside) = _tokens(core, policy), core.room
    aim = max(1, min(tokens, sent_tokens(core, policy)) * quarters // 4)
    if window is not None:
        aim = min(aim, max(1, window - beside))
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


# Sends a request to the agent's own model, and sends a smaller one if the provider finds it too large.

T = TypeVar("T")

CONTINUE_PROMPT: Final = "Continue where you left off. Older context has been compacted."
"""The message that tells the model that its request was too large and is sent again."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The result of a request.

    Attributes:
        value: The call's result; None if every request was too large.
        partial: The assistant's last text, if every request was too large; else empty.
        retries: The number of requests after the first.
        prepared: The answer of ``prepare`` or ``recover`` whose messages were sent last.
    """

    value: T | None
    partial: str
    retries: int
    prepared: Prepared

    @property
    def is_partial(self) -> bool:
        """Whether the provider refused every request as too large."""
        return bool(self.partial)


def most_retries(policy: Compactor | None) -> int:
    """The number of times that a request may be sent again under *policy*."""
    own = None if policy is None else policy.overflow_retries
    return MOST_RETRIES if own is None else own


async def asked(session: Any, call: Callable[[list[Any]], Any], *, waits: bool) -> Answer[Any]:
    """``ask`` of a session, whose *call* is awaited if it *waits*."""
    if not callable(call):  # a text is no question: it is appended as a message
        raise ConfigError(
            f"ask needs a function that sends messages to your model, got {call!r}; append a question first: "
            'session.append({"role": "user", "content": "..."})',
            "call",
            call,
        )
    prepared = await done(session.prepare())
    messages, retries = prepared.messages, 0
    while True:
        try:
            answer = call(messages)
            if waits and not isawaitable(answer):
                refuse("call", "an async function", call)
            return Answer(await answer if waits else answer, "", retries, prepared)
        except Exception as error:
            try:
                prepared = await done(session.recover(error))
            except Exception as refused:
                if refused is not error:
                    raise
                return ended(error, retries, session._calls.policy, prepared, session.history())
        retries += 1
        messages = [*prepared.messages, {"role": "user", "content": CONTINUE_PROMPT}]


def ended(
    error: Exception,
    retries: int,
    policy: Compactor | None,
    prepared: Prepared,
    history: Iterable[RawMessage],
) -> Answer[Any]:
    """The answer when no smaller request can be made after *error*: the assistant's last text.

    Raises:
        Exception: *error* itself, if it is no overflow, or if retries are left but nothing can be discarded.
        ContextOverflowError: the assistant has said nothing. Carries ``attempts``.
    """
    if not is_context_overflow(error) or retries < most_retries(policy):
        raise error
    for raw in reversed(list(history)):
        message = read_message(raw, 0)
        if message.role == "assistant" and message.text.strip():
            return Answer(None, message.text, retries, prepared)
    attempts = retries + 1
    raise ContextOverflowError(
        f"the provider found {attempts} requests too large, and the assistant has said nothing: {error}",
        attempts=attempts,
    ) from error
