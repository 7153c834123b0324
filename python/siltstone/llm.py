"""Requests of policies to models, and the functions that call a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from siltstone import hooks
from siltstone.errors import ModelError, explains, refuse
from siltstone.hooks import started
from siltstone.messages import MaterialItem, well_formed

T = TypeVar("T")

Purpose: TypeAlias = Literal["summary", "merge", "facts", "extraction", "selection"]

LAST_RESORT = -1
"""The rank of the model that needs no network, for a policy whose models have all failed."""

EXTRACTIVE = "extractive"
"""The name of that model in records of usage."""


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """The cost of one of siltstone's model calls, or of several, in tokens.

    Attributes:
        model: The model's name; empty if the caller's callable did not report it.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cached_tokens: The part of ``input_tokens`` that the provider read from its cache.
        purpose: The purpose of the call.
    """

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    purpose: str = "summary"


def total_usage(records: Iterable[UsageRecord]) -> UsageRecord:
    """The sum of *records*; it names the model if all records have the same."""
    records = tuple(records)
    models = {record.model for record in records}
    return UsageRecord(
        model=models.pop() if len(models) == 1 else "",
        input_tokens=sum(record.input_tokens for record in records),
        output_tokens=sum(record.output_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        purpose="total",
    )


@explains
@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request of a policy to a model.

    Attributes:
        messages: Plain ``{"role", "content": str}`` messages. The last one is the instruction;
            those before it are the material. With ``prefix_preserving`` the material is the history
            itself, the caller's own objects. A single message is a plain text to be continued: a base
            model takes its content as the prompt, a chat model as it stands. For a worker with tools the
            instruction is a system message and comes first; its calls and their results are in the form of
            Chat Completions, and ``said`` beside calls is that of its ``Completion``.
        max_tokens: The maximum tokens of the answer.
        purpose: The purpose of the call.
        tools: Tool definitions to send along, in the provider's form: the tools of a reused live prefix, or
            the tools that the answer may call.
        prefix_preserving: Whether the messages begin with the live request, for the provider's cache.
        deadline: Seconds that the answer may take, or None for no limit. After that the call is given up: an
            async model is cancelled; a sync one goes on in a thread of its own, and its late answer is
            ignored.
        delay: Seconds to wait before the call, because the same call has just failed.
        rank: The number of the caller's model to ask, from 0; ``LAST_RESORT`` for the extractive model.
        curator: A function of the caller that answers in place of every model, and costs nothing. A dry run
            calls neither it nor a model.
        stop: Texts at which the provider shall end the answer; none by default. A model without this feature
            may ignore them.
        temperature: The sampling temperature of the answer, 0..2; None leaves it to the provider.
        material: The parts of the messages to summarise: speakers, texts, calls and results of tools, earlier
            summaries. ``messages`` show them as text. A model that selects lines reads these parts; they may
            be made only when they are first read. None: it reads all messages but the last, as plain texts.
        part_of: The work to which the call belongs, for ``siltstone.telemetry``; models ignore it.
    """

    messages: Sequence[dict[str, Any]]
    max_tokens: int
    purpose: Purpose = "summary"
    tools: tuple[Any, ...] = ()
    prefix_preserving: bool = False
    deadline: float | None = None
    rank: int = 0
    delay: float = 0.0
    curator: Callable[[CompletionRequest], str] | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    material: Sequence[MaterialItem] | None = None
    part_of: hooks.Watched = hooks.UNWATCHED

    def __post_init__(self) -> None:
        if isinstance(self.stop, str) or not all(isinstance(each, str) and each for each in self.stop):
            refuse("stop", "texts that are not empty", self.stop)
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            refuse("temperature", "None or in 0..2", self.temperature)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in the answer of a model, to a request that offered tools.

    Attributes:
        name: The tool's name.
        arguments: Its arguments, as the model gave them: an object, or its JSON text, which may be broken.
        id: The id that ties a result to the call; empty if the provider has no ids.
    """

    name: str
    arguments: str | Mapping[str, Any] | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer.

    Attributes:
        text: The answer's text.
        usage: Its usage, if the model reports it.
        stop_reason: The reason why the model stopped, in the provider's word.
        tool_calls: Its tool calls, in order; empty unless the request offered tools.
        said: The answer as messages in the form of its provider, which gets it back before the results of its
            calls: it may have signed reasoning. Empty if the text and the calls are enough.
    """

    text: str
    usage: UsageRecord | None = None
    stop_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    said: tuple[Mapping[str, Any], ...] = ()


Flow: TypeAlias = Generator[CompletionRequest, Completion, T]
"""A running policy: yields requests, receives completions, and returns its result. It does no I/O."""


@dataclass(frozen=True, slots=True)
class Landing:
    """A signal that a background attempt is ready for its commit. The next boundary drives it on."""


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The end of a flow. A StopIteration cannot cross a future, so its value is carried here."""

    result: T


Asked: TypeAlias = CompletionRequest | hooks.HookCall | Landing
"""What a flow around a policy waits for."""

Steps: TypeAlias = Generator[Asked, Any, T]
"""A flow around a policy: it also yields calls of the caller's hooks, and receives their answers."""

Model: TypeAlias = Callable[[CompletionRequest], "Completion | str"]
AsyncModel: TypeAlias = Callable[[CompletionRequest], "Awaitable[Completion | str] | Completion | str"]
Models: TypeAlias = Model | Sequence[Model]
"""A model, or several: the first is asked, and the next one if it fails."""
AsyncModels: TypeAlias = AsyncModel | Sequence[AsyncModel]


def call(model: Models | None, request: CompletionRequest) -> Completion:
    """The answer to *request*, from the model that ``request.rank`` names.

    Raises:
        ModelError: the model raised, or its answer is no text; or there is no model with that rank, and
            then the error has ``exhausted`` set.
    """
    chosen: Model = request.curator or _ranked(model, request.rank)
    if request.delay > 0:
        sleep(request.delay)
    asked = _spelled_out(request)
    with request.part_of.during(), hooks.watch_model_call(chosen, request) as watched:
        try:
            answer = chosen(asked) if request.deadline is None else _by(chosen, asked, request.deadline)
        except Exception as error:
            raise _failed(error) from error
        completion = _checked(answer)
        watched.completed(completion)
    return completion


async def call_async(model: AsyncModels | None, request: CompletionRequest) -> Completion:
    """Like :func:`call`; an awaitable answer is awaited, up to the deadline."""
    chosen: AsyncModel = request.curator or _ranked(model, request.rank)
    if request.delay > 0:
        await sleep_async(request.delay)
    asked = _spelled_out(request)
    with request.part_of.during(), hooks.watch_model_call(chosen, request) as watched:
        try:
            answer = await _in_time(_asked_async(chosen, asked), request.deadline)
        except Exception as error:
            raise _failed(error) from error
        completion = _checked(answer)
        watched.completed(completion)
    return completion


def _by(model: Model, request: CompletionRequest, deadline: float) -> object:
    """The answer of a sync model within *deadline* seconds. A later one is ignored."""
    try:
        return started(model, request, "siltstone-model").result(deadline)
    except TimeoutError as error:
        if str(error):  # the model's own
            raise
        raise TimeoutError(f"no answer within {deadline:g} s") from None


async def _asked_async(model: AsyncModel, request: CompletionRequest) -> object:
    """The answer of *model*. A sync model runs in a thread of its own, and never blocks the event loop."""
    if hooks.gives_coroutine(model):
        answer: object = model(request)
    else:
        import asyncio

        answer = await asyncio.wrap_future(started(model, request, "siltstone-model"))
    return await answer if isinstance(answer, Awaitable) else answer


def sleep(seconds: float) -> None:
    """Waits before a call is repeated. A test with its own clock replaces this function."""
    import time

    time.sleep(seconds)


async def sleep_async(seconds: float) -> None:
    """Like :func:`sleep`, on the event loop."""
    import asyncio  # takes longer to import than all of siltstone; whoever awaits has it already

    await asyncio.sleep(seconds)


def answer(model: Models | None, asked: Asked) -> Any:
    """The completion of the model, or the answer of the hook; None for a landing.

    Raises:
        ModelError: as :func:`call`.
        HookError: the hook raised, or took too long.
    """
    if isinstance(asked, Landing):
        return None
    return hooks.ask(asked) if isinstance(asked, hooks.HookCall) else call(model, asked)


async def answer_async(model: AsyncModels | None, asked: Asked) -> Any:
    """Like :func:`answer`; a model or a hook that is async is awaited."""
    if isinstance(asked, Landing):
        return None
    return await (hooks.ask_async(asked) if isinstance(asked, hooks.HookCall) else call_async(model, asked))


def run(flow: Steps[T], model: Models | None) -> T:
    """Drives *flow* to its end: asks *model* for each completion, and calls its hooks.

    A failure of either is thrown into the flow, so that it can clean up or fall back.
    """
    try:
        asked = next(flow)
        while True:
            try:
                said = answer(model, asked)
            except (ModelError, hooks.HookError) as error:
                asked = flow.throw(error)
            else:
                asked = flow.send(said)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()


def relayed(flow: Flow[T], answer: Callable[[CompletionRequest], Flow[Completion]]) -> Flow[T]:
    """*flow* as a part of another flow: *answer* passes each of its requests on, and gives the completion."""
    try:
        request = next(flow)
        while True:
            try:
                completion = yield from answer(request)
            except ModelError as error:
                request = flow.throw(error)
            else:
                request = flow.send(completion)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()


async def run_async(
    flow: Steps[T],
    model: AsyncModels | None,
    step: Callable[[Callable[[], Asked | Ended[T]]], Awaitable[Asked | Ended[T]]] | None = None,
    asked: Asked | Ended[T] | None = None,
) -> T:
    """Like :func:`run`, for an async caller.

    Args:
        flow: See :func:`run`.
        model: See :func:`run`.
        step: Makes each step of the flow, in a thread for example; None makes it here.
        asked: What the first step has come to, if it was made already.
    """
    step = step or _here
    try:
        asked = asked or await step(partial(advanced, partial(next, flow)))
        while not isinstance(asked, Ended):
            try:
                said = await answer_async(model, asked)
            except (ModelError, hooks.HookError) as error:
                asked = await step(partial(advanced, partial(flow.throw, error)))
            else:
                asked = await step(partial(advanced, partial(flow.send, said)))
        return asked.result
    finally:
        flow.close()


def advanced(step: Callable[[], Asked]) -> Asked | Ended[Any]:
    """What *step* of a flow comes to: what it asks for next, or its end. Messages to send are written.

    A policy may give a lazy sequence of messages, and to write thousands of them would stop an event loop.
    """
    try:
        asked = step()
    except StopIteration as stop:
        return Ended(stop.value)
    return _spelled_out(asked) if isinstance(asked, CompletionRequest) else asked


async def _here(step: Callable[[], T]) -> T:
    return step()


def _spelled_out(request: CompletionRequest) -> CompletionRequest:
    """*request* with its messages as a list, as every SDK needs them. A policy may give a lazy sequence."""
    return replace(request, messages=list(request.messages))


def _ranked(
    model: Callable[[CompletionRequest], T] | Sequence[Callable[[CompletionRequest], T]] | None, rank: int
) -> Callable[[CompletionRequest], T]:
    if model is None:
        given: Sequence[Callable[[CompletionRequest], T]] = ()
    elif isinstance(model, Sequence):
        given = model
    else:
        given = (model,)
    if 0 <= rank < len(given):
        return given[rank]
    if not given:
        message = "the policy asked for a summary, but no model was given; pass model="
    else:
        message = f"the policy asked for model {rank}; there are {len(given)}"
    raise ModelError(message, exhausted=True)


async def _in_time(answer: Awaitable[T], deadline: float | None) -> T:
    """Awaits *answer* for *deadline* seconds at most."""
    import asyncio  # takes longer to import than all of siltstone; whoever awaits has it already

    limit = asyncio.timeout(deadline)
    try:
        async with limit:
            return await answer
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {deadline:g} s") from None


def _failed(error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    return ModelError(f"the model raised {type(error).__name__}: {error}", error_class=type(error).__name__)


def _checked(answer: object) -> Completion:
    """*answer* as a completion of well formed text: lone surrogates could not be stored."""
    if isinstance(answer, str):
        return Completion(well_formed(answer))
    if isinstance(answer, Completion) and isinstance(answer.text, str):
        for called in answer.tool_calls:
            if not isinstance(called, ToolCall):
                raise ModelError(f"tool_calls must be ToolCall objects, got {type(called).__name__}")
        usage = answer.usage if isinstance(answer.usage, UsageRecord) else None  # or it is estimated
        return replace(answer, text=well_formed(answer.text), usage=usage)
    raise ModelError(f"the model must answer with a str or a Completion, got {type(answer).__name__}")


# Steps that are written once, for callers that wait and for those that do not.


def at_once(step: Any) -> Any:
    """The result of *step*, which waits for nothing, for a caller that does not wait."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a step of a sync call waits for an event loop")


async def done(made: Any) -> Any:
    """The result of a call that was *made*: what an ``AsyncSession`` gives is awaited."""
    return await made if isawaitable(made) else made
