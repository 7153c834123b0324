"""The OpenAI Agents SDK: a session that keeps each request within the window, and finds earlier messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any

from siltstone.adapters.base import (
    AnySession,
    Door,
    Ready,
    acalled_tool,
    begun_again,
    called,
    memory_tools,
    new_items,
    requires,
)
from siltstone.adapters.host import HostDialect, HostMessage
from siltstone.errors import ConfigError
from siltstone.llm import UsageRecord
from siltstone.messages import FORGOTTEN, Provenance, encode, read_message
from siltstone.tools.base import Tool

with requires("openai-agents"):
    from agents import FunctionTool, Model, ModelProvider, MultiProvider, RunConfig, TResponseInputItem, Usage
    from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
    from agents.usage import InputTokensDetails


Item = dict[str, Any]

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})  #: a cut one is sent without its id


class SiltstoneSession:
    """A session for the Runner's ``session=``. It reads and writes the conversation of a siltstone session.

    Use it together with ``run_config``, which prepares the view before every model call of a run, and sends a
    smaller request after the provider refused one as too large::

        memory = SiltstoneSession(session)
        await Runner.run(agent, "Hello", session=memory, run_config=memory.run_config())

    Every item stays in the log of the session. Recalled text is only in one request, and is never stored. The
    tokens of the session's summaries are added to the usage of the run.

    Args:
        session: The session of this conversation, which you close yourself.
    """

    session_settings: Any = None

    def __init__(self, session: AnySession) -> None:
        self.session = session
        self.session_id = session.session_id
        self._door = Door(session, _Items(self), begins=False)
        session._core.is_first_list = False  # its list is read from the session, also after a restart
        self._known: list[Any] = []  # the list that the session got last
        self._stored: list[Any] = []  # the items that the Runner has stored
        self._sent: Ready[Item] | None = None  # the newest request
        self._is_in_use = False  # whether a Runner has called it
        self._usage: Any = None  # the usage of the current run
        self._counted = 0  # the number of its requests whose usage the session knows

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools for the agent: ``memory_get``, and ``memory_search`` if the session has a memory."""
        return [_tool(each) for each in memory_tools(self.session)]

    def run_config(self, **settings: Any) -> RunConfig:
        """A ``RunConfig`` with *settings*; the session prepares its model calls.

        The ``session_settings`` and the ``session_input_callback`` of *settings* hold for every call of the
        run, and so does a ``call_model_input_filter``, which is called first. Items that they leave out or
        change are so in the requests alone: the session keeps every item.

        A model object and the models of a provider are wrapped in :class:`RecoveringModel`. If an agent has a
        model object of its own, wrap it yourself.
        """
        model, provider = settings.pop("model", None), settings.pop("model_provider", None)
        change: CallModelInputFilter | None = settings.pop("call_model_input_filter", None)

        async def prepared(data: CallModelData[Any]) -> ModelInputData:
            given, changed = list(data.model_data.input), data.model_data
            if change is not None:
                wanted = change(data)
                changed = await wanted if isawaitable(wanted) else wanted
            return await self._prepared(given, changed, model or data.agent.model)

        return RunConfig(
            call_model_input_filter=prepared,
            model=RecoveringModel(model, self) if isinstance(model, Model) else model,
            model_provider=_Provider(MultiProvider() if provider is None else provider, self),
            **settings,
        )

    async def get_items(self, limit: int | None = None, wrapper: Any = None) -> list[TResponseInputItem]:
        """The items in view, or the newest *limit* of them. The log has all items."""
        self._enter(wrapper)
        view = await called(self.session, self.session.history)
        if all(map(_is_forgotten, view)):
            view = []
        self._stored = [each.live if isinstance(each, HostMessage) else dict(each) for each in view]
        self._known = list(self._stored)
        return list(self._stored if limit is None else self._stored[max(0, len(self._stored) - limit) :])

    async def add_items(self, items: list[TResponseInputItem], wrapper: Any = None) -> None:
        """Adds items. Items that the session got before a model call are not added twice."""
        self._enter(wrapper)
        if not self._stored and not self._known:
            await self.get_items()
        self._stored = [*self._stored, *items]
        if not _begins(self._known, self._stored):
            await self._observe(self._stored)

    async def pop_item(self, wrapper: Any = None) -> TResponseInputItem | None:
        """Removes the newest item and returns it. It leaves the view, and no search finds it."""
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
        """Forgets all messages of this session for ever: in the log, the memory and the files."""
        self._enter(wrapper)
        await called(self.session, self.session.forget, start=0)
        self._stored, self._known = [], []

    async def run_compaction(self, args: Any = None, wrapper: Any = None) -> None:
        """Compacts between two turns, so that the next turn does not wait for it.

        The Runner calls it after each answer. It compacts if a compaction is due, and with
        ``{"force": True}`` in any case.
        """
        self._enter(wrapper)
        if (args or {}).get("force"):
            self._charge((await called(self.session, self.session.compact)).usage)
        elif (await called(self.session, self.session.plan)).compacts:
            prepared = await called(self.session, self.session.prepare, recall=False)
            self._charge(record for outcome in prepared.outcomes for record in outcome.usage)

    async def _prepared(self, items: Sequence[Item], request: ModelInputData, model: Any) -> ModelInputData:
        """*request* to *model*, made from the Runner's *items*, with the view of the whole conversation."""
        if not self._is_in_use:
            raise ConfigError(
                f"the run has the run_config of session {self.session_id!r} and not the session itself, so "
                "nobody knows what was said before: give it session=memory too. A conversation that the "
                "provider keeps (conversation_id, previous_response_id) cannot have a session",
                field="session",
            )
        stored, self._door.model = self._stored or await self.get_items(), model
        self._known = [*stored, *new_items(stored, items, self._door.dialect)]
        self._sent = await self._door.prepare(self._known, request.input, waits=True)
        self._charge(self._sent.usage)
        return ModelInputData(input=self._sent.messages, instructions=request.instructions)

    async def recover(self, error: Exception) -> list[Item]:
        """A smaller request, after the provider refused a request as too large.

        Raises:
            Exception: *error* itself, if it is not an overflow, or after the last retry.
        """
        if self._sent is None:  # the request is none of this session
            raise error
        self._sent = await self._door.recover(error, self._sent, waits=True)
        self._charge(self._sent.usage)
        return self._sent.messages

    def last_usage(self) -> Any:
        """The provider's usage of the newest request of the run; None if it was returned before."""
        entries = [] if self._usage is None else self._usage.request_usage_entries
        new, self._counted = entries[self._counted :], len(entries)
        return new[-1] if new else None

    async def _observe(self, items: Sequence[Item]) -> None:
        await self._door.observe(items, waits=True)
        self._known = list(items)

    def _enter(self, wrapper: Any) -> None:
        self._is_in_use |= wrapper is not None
        if wrapper is not None and wrapper.usage is not self._usage:
            self._usage, self._counted = wrapper.usage, len(wrapper.usage.request_usage_entries)

    def _charge(self, records: Iterable[UsageRecord]) -> None:
        """Adds the session's own model calls to the usage of the run."""
        if self._usage is None:
            return
        for record in records:
            self._usage.add(_usage(record))
        self._counted = len(self._usage.request_usage_entries)


class RecoveringModel(Model):
    """A model that sends a smaller request, after its provider refused a request as too large.

    Args:
        model: The model.
        memory: The session that makes the smaller requests, by default two at most.
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

    async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        """The model's events. A request that fails after its first content is not sent again."""
        sent = input

        async def recover(error: Exception) -> None:
            nonlocal sent
            sent = await self._memory.recover(error)

        def stream() -> Any:
            return self._model.stream_response(system_instructions, sent, *args, **kwargs)

        async for event in begun_again(stream(), stream, recover):
            yield event

    async def close(self) -> None:
        """Closes the model."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """The retry advice of the model itself."""
        return self._model.get_retry_advice(request)


class _Provider(ModelProvider):
    def __init__(self, provider: ModelProvider, memory: SiltstoneSession) -> None:
        self._provider, self._memory = provider, memory

    def get_model(self, model_name: str | None) -> Model:
        return RecoveringModel(self._provider.get_model(model_name), self._memory)

    async def aclose(self) -> None:
        await self._provider.aclose()


class _Items(HostDialect[Item]):
    """Items of the Responses API, which a session reads without conversion."""

    name = "openai-agents"

    def __init__(self, memory: SiltstoneSession) -> None:
        self._memory = memory

    def read(self, message: Item) -> Sequence[Item]:
        return (message,)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Item | None) -> Item:  # noqa: ARG002
        is_output = provenance == "substitute" and fields.get("type") in _OUTPUTS
        return {key: value for key, value in fields.items() if key != "id" or not is_output}

    def kept(self, message: Item) -> None:
        """None: :meth:`read` gives all of an item."""

    def restored(self, kept: Any) -> Item:
        return dict(kept)

    def identity(self, message: Item) -> str | None:
        """The type and the id of an item: an item of another type may have the same id."""
        return f"{message.get('type')} {message['id']}" if message.get("id") else None

    def said(self, messages: Sequence[Item]) -> list[Any]:
        return list(messages)

    def usage(self, message: Item) -> Any:
        is_output = message.get("role", "assistant") == "assistant" and "output" not in message
        return self._memory.last_usage() if is_output else None


def _tool(tool: Tool) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:  # noqa: ARG001
        return await acalled_tool(tool, arguments)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _usage(record: UsageRecord) -> Usage:
    read, written = record.input_tokens, record.output_tokens
    details = InputTokensDetails(cached_tokens=record.cached_tokens, cache_write_tokens=0)
    counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return Usage(requests=1, input_tokens_details=details, **counts)


def _is_forgotten(item: Item) -> bool:
    return all(part.text in (None, "", FORGOTTEN) for part in read_message(item, 0).parts)


def _begins(known: Sequence[Item], stored: Sequence[Item]) -> bool:
    """Whether *known* begins with *stored*: then the session has all items already."""
    beginning = known[: len(stored)]
    return beginning == stored or list(map(encode, beginning)) == list(map(encode, stored))
