"""Sends a request to the agent's own model, and sends a smaller one if the provider finds it too large."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from siltstone.compaction.base import Compactor, OverflowRetrier
from siltstone.errors import ConfigError, ContextOverflowError
from siltstone.messages import RawMessage, read_message
from siltstone.overflow import is_context_overflow
from siltstone.session.prepared import Prepared
from siltstone.session.recovery import MOST_RETRIES

__all__ = ["CONTINUE_PROMPT", "Answer", "again", "check_call", "ended", "most_retries"]

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


def check_call(call: object) -> None:
    """Checks the function that sends a request.

    Raises:
        ConfigError: it is none. A text is no question: it is appended as a message.
    """
    if not callable(call):
        raise ConfigError(
            f"ask needs a function that sends messages to your model, got {call!r}; append a question first: "
            'session.append({"role": "user", "content": "..."})',
            field="call",
            value=call,
        )


def most_retries(policy: Compactor | None) -> int:
    """The number of times that a request may be sent again under *policy*."""
    return policy.overflow_retries if isinstance(policy, OverflowRetrier) else MOST_RETRIES


def again(prepared: Prepared) -> list[Any]:
    """The messages of a request that is sent again: the model is told to go on."""
    return [*prepared.messages, {"role": "user", "content": CONTINUE_PROMPT}]


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
