"""The OpenAI Agents SDK: a session that keeps each request within the window, and finds what left it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from siltstone.adapters.base import AnySession, Door, Ready, called, called_tool, requires
from siltstone.adapters.host import HostMessage
from siltstone.messages import FORGOTTEN, Provenance, encode, read_message
from siltstone.tools import Tool
from siltstone.usage import UsageRecord

with requires("openai-agents"):
    from agents import FunctionTool, Model, ModelProvider, MultiProvider, RunConfig, Usage
    from agents.run_config import CallModelData, ModelInputData
    from agents.usage import InputTokensDetails

__all__ = ["RecoveringModel", "SiltstoneSession"]

Item = dict[str, Any]


class SiltstoneSession:
    """What the Runner takes as ``session=``: it reads and writes the conversation of a session of siltstone.

    ``run_config`` is the other half: with it the view is made before every model call, within a run as well,
    and a request that the provider refuses as too large is sent again smaller. Use both::

        memory = SiltstoneSession(session)
        await Runner.run(agent, "Hello", session=memory, run_config=memory.run_config())

    Every item stays in the log of the session. What is recalled is a part of one request alone, and is
    stored by nobody. The tokens of the session's summaries are added to the usage of the run.

    Args:
        session: The session of this conversation. It stays yours to close.
    """

    session_settings: Any = None

    def __init__(self, session: AnySession) -> None:
        self.session = session
        self.session_id = session.session_id
        self._door = Door(session, _Items(self))
        self._known: list[Item] = []  # the list that the session was told of last
        self._stored: list[Item] = []  # what the Runner has stored of it
        self._usage: Any = None  # of the run that is under way
        self._counted = 0  # its requests that the session knows of

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools for the agent: ``memory_search`` where the session has a memory, and ``memory_get``."""
        return [_tool(each) for each in self.session.tools if each.name in ("memory_search", "memory_get")]

    def run_config(self, **settings: Any) -> RunConfig:
        """A ``RunConfig`` with *settings*, whose model calls are prepared by the session.

        A model, and the models of a provider, are wrapped by :class:`RecoveringModel`. Of an agent with a
        model object of its own wrap that.
        """
        model, provider = settings.pop("model", None), settings.pop("model_provider", None)
        return RunConfig(
            call_model_input_filter=self.before_model_call,
            model=RecoveringModel(model, self) if isinstance(model, Model) else model,
            model_provider=_Provider(MultiProvider() if provider is None else provider, self),
            **settings,
        )

    async def get_items(self, limit: int | None = None, wrapper: Any = None) -> list[Item]:
        """What is in view; the newest *limit* of it. The log has all."""
        self._enter(wrapper)
        view = await called(self.session, self.session.history)
        if all(map(_is_forgotten, view)):
            view = []
        self._stored = [each.live if isinstance(each, HostMessage) else dict(each) for each in view]
        self._known = list(self._stored)
        return list(self._stored if limit is None else self._stored[max(0, len(self._stored) - limit) :])

    async def add_items(self, items: list[Item], wrapper: Any = None) -> None:
        """Adds what was said. What a model call has already told of is not added twice."""
        self._enter(wrapper)
        if not self._stored and not self._known:
            await self.get_items()
        self._stored += items
        if not _begins(self._known, self._stored):
            await self._observe(self._stored)

    async def pop_item(self, wrapper: Any = None) -> Item | None:
        """Takes the newest item back. It leaves the view, and no search finds it."""
        items = await self.get_items(wrapper=wrapper)
        if not items:
            return None
        last = items.pop()
        if items:
            self._stored = items
            await self._observe(items)
        else:
            await self.clear_session()
        return last

    async def clear_session(self, wrapper: Any = None) -> None:
        """Forgets what was said in this session, for ever: in the log, the memory and the files."""
        self._enter(wrapper)
        await called(self.session, self.session.forget, start=0)
        self._stored, self._known = [], []

    async def run_compaction(self, args: Any = None, wrapper: Any = None) -> None:
        """Compacts between two turns, so that the next one does not wait for it.

        The Runner calls it after each answer; then it compacts where that is due. With ``{"force": True}`` it
        compacts in any case.
        """
        self._enter(wrapper)
        if (args or {}).get("force"):
            self._charge((await called(self.session, self.session.compact)).usage)
        elif (await called(self.session, self.session.plan)).compacts:
            prepared = await called(self.session, self.session.prepare, recall=False)
            self._charge(record for outcome in prepared.outcomes for record in outcome.usage)

    async def before_model_call(self, data: CallModelData[Any]) -> ModelInputData:
        """``RunConfig.call_model_input_filter``: what to send in the place of what the Runner has."""
        items = data.model_data.input
        ready = await self._door.aprepare(items)
        self._known = list(items)
        self._charge(ready.usage)
        return ModelInputData(input=ready.messages, instructions=data.model_data.instructions)

    async def recover(self, error: Exception) -> list[Item]:
        """A smaller request, after the provider refused one as too large; raises *error* where it is none."""
        ready: Ready[Item] = await self._door.arecover(error)
        self._charge(ready.usage)
        return ready.messages

    def last_usage(self) -> Any:
        """What the provider counted for the newest request of the run, once; None where it is known."""
        entries = [] if self._usage is None else self._usage.request_usage_entries
        new, self._counted = entries[self._counted :], len(entries)
        return new[-1] if new else None

    async def _observe(self, items: Sequence[Item]) -> None:
        await self._door.aobserve(items)
        self._known = list(items)

    def _enter(self, wrapper: Any) -> None:
        if wrapper is not None and wrapper.usage is not self._usage:
            self._usage, self._counted = wrapper.usage, len(wrapper.usage.request_usage_entries)

    def _charge(self, records: Iterable[UsageRecord]) -> None:
        """Adds the calls of ours to the usage of the run."""
        if self._usage is None:
            return
        for record in records:
            self._usage.add(_usage(record))
        self._counted = len(self._usage.request_usage_entries)


class RecoveringModel(Model):
    """A model that is asked again with a smaller request where its provider refuses one as too large.

    Args:
        model: The model.
        memory: Whose session makes the smaller request, twice at most.
    """

    def __init__(self, model: Model, memory: SiltstoneSession) -> None:
        self._model, self._memory = model, memory

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        """The model's response."""
        while True:
            try:
                return await self._model.get_response(system_instructions, input, *args, **kwargs)
            except Exception as error:
                input = await self._memory.recover(error)  # noqa: A001

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """The model's events. A request that is refused after its first event is not sent again."""
        while True:
            began = False
            try:
                async for event in self._model.stream_response(system_instructions, input, *args, **kwargs):
                    began = True
                    yield event
            except Exception as error:
                if began:
                    raise
                input = await self._memory.recover(error)  # noqa: A001
            else:
                return

    async def close(self) -> None:
        """Closes the model."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """The model's own."""
        return self._model.get_retry_advice(request)


class _Provider(ModelProvider):
    def __init__(self, provider: ModelProvider, memory: SiltstoneSession) -> None:
        self._provider, self._memory = provider, memory

    def get_model(self, model_name: str | None) -> Model:
        return RecoveringModel(self._provider.get_model(model_name), self._memory)

    async def aclose(self) -> None:
        await self._provider.aclose()


class _Items:
    """Items of the Responses API: a session reads them as they are."""

    def __init__(self, memory: SiltstoneSession) -> None:
        self._memory = memory

    def read(self, message: Item) -> Sequence[Item]:
        return (message,)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Item | None) -> Item:  # noqa: ARG002
        return dict(fields)

    def part(self, message: Item, pieces: Sequence[int]) -> Item:  # noqa: ARG002
        return message

    def said(self, messages: Sequence[Item]) -> list[Any]:
        return list(messages)

    def usage(self, message: Item) -> Any:
        is_output = message.get("role", "assistant") == "assistant" and "output" not in message
        return self._memory.last_usage() if is_output else None


def _tool(tool: Tool) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:  # noqa: ARG001
        return called_tool(tool, arguments or "{}")

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _usage(record: UsageRecord) -> Usage:
    return Usage(
        requests=1,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        total_tokens=record.input_tokens + record.output_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=record.cached_tokens, cache_write_tokens=0),
    )


def _is_forgotten(item: Item) -> bool:
    return all(part.text in (None, "", FORGOTTEN) for part in read_message(item, 0).parts)


def _begins(known: Sequence[Item], stored: Sequence[Item]) -> bool:
    """Whether *known* begins with *stored*: it was all said already."""
    return len(stored) <= len(known) and all(
        one == other or encode(one) == encode(other) for one, other in zip(stored, known, strict=False)
    )
