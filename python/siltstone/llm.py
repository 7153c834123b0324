"""How a policy asks for a completion, and the two places that call a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from siltstone.errors import ModelError
from siltstone.usage import UsageRecord

__all__ = [
    "AsyncModel",
    "Completion",
    "CompletionRequest",
    "Flow",
    "Model",
    "Purpose",
    "UsageRecord",
    "call",
    "call_async",
    "run",
    "run_async",
]

T = TypeVar("T")

Purpose: TypeAlias = Literal["summary", "merge"]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a policy wants of a model.

    Attributes:
        messages: Plain ``{"role", "content": str}`` messages. The last one is the instruction;
            those before it are the material.
        max_tokens: The most tokens the answer may have.
        purpose: What the call is for.
        tools: Tool definitions to send along; empty unless the request reuses a live prefix.
        prefix_preserving: The messages begin with the live request, for the provider's cache.
        deadline: Seconds the caller should allow, or None.
    """

    messages: Sequence[dict[str, Any]]
    max_tokens: int
    purpose: Purpose = "summary"
    tools: tuple[Any, ...] = ()
    prefix_preserving: bool = False
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer.

    Attributes:
        text: The answer's text.
        usage: What it cost, where the model says.
        stop_reason: Why the model stopped, as the provider calls it.
    """

    text: str
    usage: UsageRecord | None = None
    stop_reason: str | None = None


Flow: TypeAlias = Generator[CompletionRequest, Completion, T]
"""A policy at work: yields requests, is sent completions, returns its result. It does no I/O."""

Model: TypeAlias = Callable[[CompletionRequest], "Completion | str"]
AsyncModel: TypeAlias = Callable[[CompletionRequest], "Awaitable[Completion | str] | Completion | str"]


def call(model: Model | None, request: CompletionRequest) -> Completion:
    """The model's answer to *request*.

    Raises:
        ModelError: no model was given, it raised, or its answer is not text.
    """
    request = _spelled_out(request)
    try:
        answer = _given(model)(request)
    except Exception as error:
        raise _failed(error) from error
    return _checked(answer)


async def call_async(model: AsyncModel | None, request: CompletionRequest) -> Completion:
    """Like :func:`call`; a model that answers with an awaitable is awaited."""
    request = _spelled_out(request)
    try:
        answer = _given(model)(request)
        if isinstance(answer, Awaitable):
            answer = await answer
    except Exception as error:
        raise _failed(error) from error
    return _checked(answer)


def run(flow: Flow[T], model: Model | None) -> T:
    """Drives *flow* to its end, asking *model* for each completion it wants.

    A failure of the model is thrown into the flow, so that it can clean up or fall back.
    """
    try:
        request = next(flow)
        while True:
            try:
                completion = call(model, request)
            except ModelError as error:
                request = flow.throw(error)
            else:
                request = flow.send(completion)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()


async def run_async(flow: Flow[T], model: AsyncModel | None) -> T:
    """Like :func:`run`, for an async caller."""
    try:
        request = next(flow)
        while True:
            try:
                completion = await call_async(model, request)
            except ModelError as error:
                request = flow.throw(error)
            else:
                request = flow.send(completion)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()


def _spelled_out(request: CompletionRequest) -> CompletionRequest:
    """*request* with its messages as a list, which every SDK takes: a policy may give them lazily."""
    return replace(request, messages=list(request.messages))


def _given(model: Callable[[CompletionRequest], T] | None) -> Callable[[CompletionRequest], T]:
    if model is None:
        raise ModelError("the policy asked for a summary, but no model was given; pass model=")
    return model


def _failed(error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    return ModelError(f"the model raised {type(error).__name__}: {error}", error_class=type(error).__name__)


def _checked(answer: object) -> Completion:
    if isinstance(answer, str):
        return Completion(answer)
    if isinstance(answer, Completion) and isinstance(answer.text, str):
        return answer
    raise ModelError(f"the model must answer with a str or a Completion, got {type(answer).__name__}")
