"""LangChain and LangGraph: an agent middleware, a store of items, and a chat model that writes summaries."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from operator import attrgetter
from typing import Any, Final
from uuid import uuid4

from siltstone.adapters.base import Ready, at_once, done, requires
from siltstone.adapters.host import HostDialect, HostHistory
from siltstone.adapters.pool import MOST_OPEN, Pool, Source
from siltstone.errors import ToolError
from siltstone.index import Bm25Index
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.memory.base import FactRow, sessions_of
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES
from siltstone.stores import MemoryStore, SimpleMemoryStore
from siltstone.tools.base import Tool

# Reads and writes messages of LangChain.

with requires("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core import messages as theirs
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.config import get_config
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime
    from langgraph.store import base as graphs


SOURCE: Final = "lc_source"  #: the key by which LangChain itself marks a summary
SUMMARY: Final = "summarization"
RECALLED: Final = "siltstone.recalled_context"

_SOURCES: Final[dict[Provenance, str]] = {
    "compaction_summary": SUMMARY,
    "recalled_context": RECALLED,
    "injected_context": "siltstone.injected_context",
}
_KINDS: Final = (
    (theirs.HumanMessage, "user"),
    (theirs.AIMessage, "assistant"),
    (theirs.ToolMessage, "tool"),
    (theirs.SystemMessage, "system"),
    (theirs.FunctionMessage, "function"),
)
_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
_FIELDS: Final = attrgetter("__dict__")

#: Types of blocks that repeat a call in ``tool_calls``, each with its key for the id of the call.
_CALL_BLOCKS: Final = {
    **dict.fromkeys(("tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call"), "id"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "call_id"),
}
_NOT_SENT: Final = frozenset({SOURCE, "tool_calls"})  # keys of additional_kwargs


class LangChainDialect(HostDialect[theirs.BaseMessage]):
    """Messages of langchain-core, with the parts that are sent to a model.

    Ids, ``response_metadata``, ``usage_metadata`` and artifacts belong to the host: no model sees them, and a
    framework may set them at any time. They stay with the host's object, and with its form in the log.
    """

    name = "langchain"

    def read(self, message: theirs.BaseMessage) -> Sequence[dict[str, Any]]:
        """*message* in the dialect of OpenAI's chat API; blocks of content stay as they are."""
        fields: dict[str, Any] = {"role": _role(message)}
        if isinstance(message, theirs.ToolMessage):
            fields["tool_call_id"] = message.tool_call_id
        if message.name:
            fields["name"] = message.name
        calls = _calls(message) if isinstance(message, theirs.AIMessage) else []
        fields["content"] = _content(message.content, {call["id"] for call in calls})
        if calls:
            fields["tool_calls"] = calls
        if isinstance(message, theirs.ToolMessage) and message.status == "error":
            fields["status"] = "error"
        beside = message.additional_kwargs.items()
        if sent := {key: _plain(value) for key, value in beside if key not in _NOT_SENT}:
            fields["additional_kwargs"] = sent
        return (fields,)

    def write(
        self, fields: Mapping[str, Any], provenance: Provenance, original: theirs.BaseMessage | None
    ) -> theirs.AnyMessage:
        """A message with *fields* and a new id. A cut result keeps the artifact of its original."""
        content = fields.get("content")
        if isinstance(original, theirs.ToolMessage):
            return original.model_copy(update={"content": content, "id": str(uuid4())})
        beside = dict(fields.get("additional_kwargs") or {})
        if provenance in _SOURCES:
            beside[SOURCE] = _SOURCES[provenance]
        named: dict[str, Any] = {
            "content": "" if content is None else content,
            "additional_kwargs": beside,
            "id": str(uuid4()),
        }
        if fields.get("name"):
            named["name"] = fields["name"]
        match fields.get("role"):
            case "assistant":
                valid, invalid = _written_calls(fields.get("tool_calls") or ())
                return theirs.AIMessage(**named, tool_calls=valid, invalid_tool_calls=invalid)
            case "tool":
                status = "error" if fields.get("status") == "error" else "success"
                return theirs.ToolMessage(
                    **named, tool_call_id=fields.get("tool_call_id") or "", status=status
                )
            case "function":
                return theirs.FunctionMessage(**named)
            case "system":
                return theirs.SystemMessage(**named)
            case "developer":
                beside["__openai_role__"] = "developer"  # langchain-openai's own mark of the role
                return theirs.SystemMessage(**named)
        return theirs.HumanMessage(**named)

    def kept(self, message: theirs.BaseMessage) -> Any:
        """LangChain's own form of *message*, without empty fields or an artifact that is no JSON."""
        fields = {**_FIELDS(message), **(message.__pydantic_extra__ or {})}  # model_dump takes 200 us
        data = {key: value for key, value in fields.items() if value or value == 0}
        artifact = data.pop("artifact", None)
        if artifact is not None and _plain(artifact) == artifact:
            data["artifact"] = artifact
        return {"type": message.type, "data": _plain(data)}

    def restored(self, kept: Any) -> theirs.BaseMessage:
        """The message of LangChain's own form."""
        (message,) = theirs.messages_from_dict([{**kept, "data": {"content": "", **kept["data"]}}])
        return message

    def identity(self, message: theirs.BaseMessage) -> str | None:
        """The id by which LangGraph knows the message."""
        known: str | None = message.id
        return known

    def said(self, messages: Sequence[theirs.BaseMessage]) -> list[Any]:
        """The fields of each message, without the artifact of a tool, which no model sees."""
        return [
            fields if fields.get("artifact") is None else {**fields, "artifact": None}
            for fields in map(_FIELDS, messages)
        ]

    def usage(self, message: theirs.BaseMessage) -> Any:
        """The ``usage_metadata`` of an answer."""
        return message.usage_metadata if isinstance(message, theirs.AIMessage) else None


def _role(message: theirs.BaseMessage) -> str:
    """The role of OpenAI's chat API."""
    for kind, role in _KINDS:
        if isinstance(message, kind):
            return role
    said = message.role if isinstance(message, theirs.ChatMessage) else message.type
    return said if said in RULE_ROLES else _ROLES.get(said, "user")


def _calls(message: theirs.AIMessage) -> list[dict[str, Any]]:
    calls = [
        _call(call["id"], call["name"], json.dumps(_plain(call["args"]), ensure_ascii=False))
        for call in message.tool_calls
    ]
    return calls + [
        _call(each["id"], each["name"], each["args"] or "") for each in message.invalid_tool_calls
    ]


def _call(call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name or "", "arguments": arguments}}


def _content(content: Any, calls: set[Any]) -> Any:
    """*content* without the blocks that repeat a call."""
    if isinstance(content, str):
        return content
    return [_plain(each) for each in content if not _repeats(each, calls)]


def _repeats(block: Any, calls: set[Any]) -> bool:
    if not isinstance(block, Mapping):
        return False
    key = _CALL_BLOCKS.get(str(block.get("type")))
    return key is not None and block.get(key) in calls


def _plain(value: Any) -> Any:
    """*value* as plain JSON; a value that JSON cannot carry becomes its text."""
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _written_calls(calls: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Calls whose arguments are an object, and the other calls. LangChain keeps them in two lists."""
    valid, invalid = list[Any](), list[Any]()
    for call in calls:
        function = call.get("function") or {}
        named = {"name": function.get("name"), "id": call.get("id")}
        text = function.get("arguments") or ""
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            valid.append({**named, "args": arguments, "type": "tool_call"})
        else:
            invalid.append({**named, "args": text, "error": None, "type": "invalid_tool_call"})
    return valid, invalid


# A chat model of LangChain as the model that writes summaries.


def summariser(model: BaseChatModel) -> Callable[[CompletionRequest], Completion]:
    """*model* as the ``model`` of a session: it writes summaries, which do not appear in the user's stream.

    The call inherits the callbacks of its run, so callbacks that count usage count it too
    (``get_usage_metadata_callback``, tracers). It has the tag that keeps its tokens out of LangGraph's
    streams, and the metadata of LangChain's own summaries.
    """

    def ask(request: CompletionRequest) -> Completion:
        return _completion(_bound(model, request).invoke(_messages(request), config=_config()), request)

    return ask


def async_summariser(model: BaseChatModel) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """:func:`summariser`, for an ``AsyncSession``. The cancellation of the task ends the call."""

    async def ask(request: CompletionRequest) -> Completion:
        answer = await _bound(model, request).ainvoke(_messages(request), config=_config())
        return _completion(answer, request)

    return ask


def _bound(model: BaseChatModel, request: CompletionRequest) -> Any:
    return model.bind(stop=list(request.stop)) if request.stop else model


def _messages(request: CompletionRequest) -> Sequence[theirs.BaseMessage]:
    messages: Sequence[theirs.BaseMessage] = theirs.convert_to_messages(list(request.messages))
    return messages


def _config() -> RunnableConfig:
    return {"tags": [TAG_NOSTREAM], "metadata": {"lc_source": "summarization"}, "run_name": "siltstone"}


def _completion(answer: theirs.AIMessage, request: CompletionRequest) -> Completion:
    counted = answer.usage_metadata
    details = answer.response_metadata
    usage = None
    if counted is not None:
        cached = (counted.get("input_token_details") or {}).get("cache_read") or 0
        usage = UsageRecord(
            model=str(details.get("model_name") or details.get("model") or ""),
            input_tokens=counted["input_tokens"],
            output_tokens=counted["output_tokens"],
            cached_tokens=cached,
            purpose=request.purpose,
        )
    stopped = details.get("stop_reason") or details.get("finish_reason")
    return Completion(answer.text, usage, None if stopped is None else str(stopped))


# The agent middleware: memory and compaction for ``create_agent``.


NS_SEPARATOR = "|"  # separates the graphs in LangGraph's checkpoint_ns
CHECKPOINTER = "__pregel_checkpointer"  # LangGraph's key for the checkpointer of a running graph
NS_END = ":"  # separates a node's name from the id of its run
_ID = attrgetter("id")
MOST_NESTED = 1_000  # the maximum number of remembered threads, and of runs inside other graphs


class SiltstoneMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    By default the graph's state keeps every message, and the model sees the session's view. Summaries are
    ``HumanMessage`` with LangChain's own mark, ``additional_kwargs["lc_source"] == "summarization"``.
    Recalled text is only in the request.

    Args:
        session: The session of the agent's only thread; or a store, or a function that opens the session of
            a conversation. The name of a conversation is LangGraph's ``thread_id``; for an agent inside
            another graph, with the place of the agent in that graph. Its sessions are closed by
            :meth:`close`.
        rewrite_state: Whether a compaction also shortens the messages in the graph's state.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    def __init__(
        self,
        session: Source,
        *,
        rewrite_state: bool = False,
        tools: bool = True,
        most_open: int = MOST_OPEN,
        **options: Any,
    ) -> None:
        super().__init__()
        self._pool = Pool(session, LangChainDialect(), most_open=most_open, options=options, tools=tools)
        self._savers: OrderedDict[str, Any] = OrderedDict()  # by thread: the checkpointer that has an answer
        self.rewrite_state = rewrite_state
        self._nested: OrderedDict[tuple[str, str], str] = OrderedDict()  # runs inside other graphs
        self.tools = [self._tool(each) for each in self._pool.tools()] if tools else []

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """With ``rewrite_state``: compacts if a compaction is due, and shortens the state."""
        update: dict[str, Any] | None = at_once(self._before(state["messages"], waits=False))
        return update

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """:meth:`before_model`, awaited."""
        return await self._before(state["messages"], waits=True)

    async def _before(self, messages: Any, *, waits: bool) -> dict[str, Any] | None:
        if not self.rewrite_state or not messages:
            return None
        stored = _identified(messages)
        async with self._pool.door(self._conversation(stored), _place()[0], waits=waits) as door:
            back = self._goes_back(stored)
            return _rewritten(await done(door.prepare(stored, goes_back=back, waits=waits)), stored)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Sends the session's view, or a smaller view after the provider refused it as too large."""
        return at_once(self._wrapped(request, handler, waits=False))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """:meth:`wrap_model_call`, awaited."""
        return await self._wrapped(request, handler, waits=True)

    async def _wrapped(self, request: ModelRequest[Any], handler: Callable[..., Any], *, waits: bool) -> Any:
        stored = _identified(request.state["messages"]) or request.messages
        async with self._pool.door(self._conversation(stored), _place()[0], waits=waits) as door:
            door.model, back = request.model, self._goes_back(stored)
            ready = await done(door.prepare(stored, request.messages, goes_back=back, waits=waits))
            while True:
                try:
                    return await done(handler(request.override(messages=ready.messages)))
                except Exception as error:  # it is raised again by a step that cannot help
                    ready = await done(door.recover(error, ready, waits=waits))

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Gives the final answer to the session."""
        at_once(self._after(state["messages"], waits=False))

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """:meth:`after_agent`, awaited."""
        await self._after(state["messages"], waits=True)

    async def _after(self, messages: Any, *, waits: bool) -> None:
        stored = _identified(messages)
        self._goes_back(stored)
        async with self._pool.door(self._conversation(stored), _place()[0], waits=waits) as door:
            await done(door.observe(stored, waits=waits))

    def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        self._pool.close()

    async def aclose(self) -> None:
        """:meth:`close`, for async sessions too."""
        await self._pool.aclose()

    def _goes_back(self, messages: Sequence[theirs.AnyMessage]) -> bool:
        """Whether a list without answers is an earlier checkpoint of a thread that has answers already.

        Without a checkpointer, or with a new one, it is the list of a host that begins anew.
        """
        thread, saver = _place()[0], (get_config().get("configurable") or {}).get(CHECKPOINTER)
        if thread is None or saver is None:
            return False
        known = self._savers.get(thread)
        if any(isinstance(each, theirs.AIMessage) for each in messages):
            self._savers[thread] = saver
            if len(self._savers) > MOST_NESTED:
                self._savers.popitem(last=False)
        return known is saver

    def _conversation(self, messages: Sequence[theirs.AnyMessage] = ()) -> str | None:
        """The id of the running conversation; None without a thread.

        An agent inside another graph has its own list of messages. It is identified by its place and its
        first message, because an agent that is called as a tool begins anew each time, and may run several
        times at once.
        """
        thread, outer = _place()
        if thread is None or not outer:
            return thread
        if messages and (thread, outer) not in self._nested:
            names = "/".join(part.partition(NS_END)[0] for part in outer.split(NS_SEPARATOR))
            first = "" if self.rewrite_state else f"/{messages[0].id}"  # a summary may replace it
            self._nested[thread, outer] = f"{thread}/{names}{first}"
            if len(self._nested) > MOST_NESTED:
                self._nested.popitem(last=False)
        return self._nested.get((thread, outer), f"{thread}/{outer}")

    def _tool(self, tool: Tool) -> BaseTool:
        def call(**arguments: Any) -> str:
            return str(at_once(answer(arguments, waits=False)))

        async def acall(**arguments: Any) -> str:
            return await answer(arguments, waits=True)

        async def answer(arguments: dict[str, Any], *, waits: bool) -> str:
            async with self._pool.door(self._conversation(), _place()[0], waits=waits) as door:
                own = getattr(door.session, tool.name)
                return await asyncio.to_thread(_called, own, arguments) if waits else _called(own, arguments)

        return StructuredTool.from_function(
            func=call,
            coroutine=acall,
            name=tool.name,
            description=tool.description,
            args_schema=tool.definition()["function"]["parameters"],
            infer_schema=False,
            handle_tool_error=True,
        )


def _called(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The answer of *tool*. An error becomes a ``ToolException``, whose text the model reads."""
    try:
        return tool.run(tool.read(arguments))
    except ToolError as error:
        raise ToolException(str(error)) from error


def _place() -> tuple[str | None, str]:
    """The id of the running thread, and the namespace of the outer graphs; empty for the outermost graph."""
    configurable = get_config().get("configurable") or {}
    thread = configurable.get("thread_id")
    outer = str(configurable.get("checkpoint_ns") or "").rpartition(NS_SEPARATOR)[0]
    return None if thread is None else str(thread), outer


def _identified(messages: list[theirs.AnyMessage]) -> list[theirs.AnyMessage]:
    """*messages*, each with an id, by which LangGraph identifies them."""
    if None in map(_ID, messages):
        for message in messages:
            if message.id is None:
                message.id = str(uuid4())
    return messages


def _rewritten(ready: Ready[theirs.AnyMessage], stored: list[theirs.AnyMessage]) -> dict[str, Any] | None:
    """The update that turns the state into the view; None if the state is already the view."""
    history = ready.history
    if HostHistory.is_same(history, stored):
        return None
    return {"messages": [theirs.RemoveMessage(id=REMOVE_ALL_MESSAGES), *history]}


# LangGraph's store over a store of siltstone: items by namespace and key, with a search by words.


Namespace = tuple[str, ...]

PREFIX: Final = "langgraph:"  #: the prefix of the ids of namespace sessions; the namespace as JSON follows
CURRENT: Final = "item"  #: the state of a kept item; the digest of its key follows
DELETED: Final = "deleted item"  #: that of a deleted one, with the digest as well

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
}


class SiltstoneStore(graphs.BaseStore):
    """A ``BaseStore`` for ``create_agent(store=...)``, LangMem and nodes of a graph. It needs no API key.

    Values are JSON objects. Namespaces are compared label by label, so a tenant never sees a namespace that
    only begins with the same letters. A search with a query gives the items that share words with it, best
    first, with a score in 0..1. The ``index`` of a put names the fields that are searched; False leaves the
    item out. Items do not expire: LangGraph itself refuses a ``ttl``.

    Several processes may use one store. In a batch, reads come before writes, as in LangGraph's own stores.

    Args:
        store: The store of the items, which you close yourself. It may also hold conversations.
    """

    def __init__(self, store: MemoryStore | SimpleMemoryStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[graphs.Op]) -> list[Any]:
        """Runs *ops*. Returns the result of each read, and None for each write.

        Raises:
            InvalidEntryError: a namespace has more than 1,013 bytes of JSON.
            StoreError: the store could not read or write. Either all writes of a namespace are made, or none.
        """
        asked = list(ops)
        results = [None if isinstance(op, graphs.PutOp) else self._read(op) for op in asked]
        writes: dict[Namespace, dict[str, graphs.PutOp]] = {}
        for op in asked:
            if isinstance(op, graphs.PutOp):
                writes.setdefault(op.namespace, {})[op.key] = op  # the last write counts
        for namespace, puts in writes.items():
            self._write(namespace, puts)
        return results

    async def abatch(self, ops: Iterable[graphs.Op]) -> list[Any]:
        """:meth:`batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: graphs.Op) -> Any:
        if isinstance(op, graphs.GetOp):
            rows = self._current(_session(op.namespace), op.key)
            return _item(op.namespace, rows[-1])[0] if rows else None
        if isinstance(op, graphs.SearchOp):
            return self._search(op)
        if isinstance(op, graphs.ListNamespacesOp):
            return self._list(op)
        raise graphs.InvalidNamespaceError(f"an operation of type {type(op).__name__} is unknown")

    def _write(self, namespace: Namespace, puts: Mapping[str, graphs.PutOp]) -> None:
        session = _session(namespace)
        rows: list[tuple[int | None, str, str, str]] = []
        for key, op in puts.items():
            current, deleted = _state(CURRENT, key), _state(DELETED, key)
            ids: list[int | None] = [row[0] for row in self._current(session, key)]
            if not ids and op.value is not None:
                ids = [row[0] for row in self._store.facts(session, deleted) if row[3] == key]
            *others, own = ids or [None]
            rows += [(each, key, deleted, "{}") for each in others]  # two processes wrote it at once
            if op.value is not None:
                rows.append((own, key, current, json.dumps({"value": op.value, "index": op.index})))
            elif own is not None:
                rows.append((own, key, deleted, "{}"))
        if rows:
            self._store.put_facts(session, rows)

    def _current(self, session: str, key: str) -> list[FactRow]:
        """The rows of the item *key*, oldest first. The last one counts.

        The store finds rows by their state, so no row of another key is read.
        """
        return sorted(row for row in self._store.facts(session, _state(CURRENT, key)) if row[3] == key)

    def _items(self, namespace: Namespace) -> list[tuple[graphs.Item, Any]]:
        """The items of *namespace*, each with the fields that are searched."""
        rows = self._store.facts(_session(namespace))
        found = {row[3]: _item(namespace, row) for row in rows if _is_current(row)}
        return list(found.values())

    def _search(self, op: graphs.SearchOp) -> list[graphs.SearchItem]:
        found = [
            (item, index)
            for namespace in self._namespaces()
            if namespace[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
            for item, index in self._items(namespace)
            if _matches(item.value, op.filter or {})
        ]
        chosen: list[tuple[graphs.Item, float | None]]
        if not op.query:
            chosen = [(item, None) for item, _ in found]
        else:
            texts = Bm25Index()
            texts.add([_text(item.value, index) for item, index in found])
            ids, scores = texts.search(op.query, min(op.offset + op.limit, len(found)) or 1)
            chosen = [(found[int(i)][0], float(score)) for i, score in zip(ids, scores, strict=True)]
        return [
            graphs.SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in chosen[op.offset : op.offset + op.limit]
        ]

    def _list(self, op: graphs.ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            for namespace in self._namespaces()
            if all(_is_named(namespace, each) for each in conditions)
            and any(map(_is_current, self._store.facts(_session(namespace))))
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    def _namespaces(self) -> Iterator[Namespace]:
        """The namespaces that ever held an item."""
        for each in sessions_of(self._store):
            if each.session_id.startswith(PREFIX):
                yield tuple(json.loads(each.session_id.removeprefix(PREFIX)))


def _session(namespace: Namespace) -> str:
    return PREFIX + json.dumps(list(namespace), ensure_ascii=False, separators=(",", ":"))


def _state(state: str, key: str) -> str:
    """*state* of the item *key*. A digest, because a store may limit the length of what it finds rows by."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{state} {digest}"


def _is_current(row: FactRow) -> bool:
    return row[2].partition(" ")[0] == CURRENT


def _item(namespace: Namespace, row: FactRow) -> tuple[graphs.Item, Any]:
    """The item of a row, and its fields that are searched."""
    _, _, _, key, body, created_at, changed_at = row
    kept = json.loads(body)
    item = graphs.Item(
        value=kept["value"],
        key=key,
        namespace=namespace,
        created_at=_time(created_at),
        updated_at=_time(changed_at),
    )
    return item, kept["index"]


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def _text(value: Any, index: Any) -> str:
    """The searched text of *value*: all of its texts, the texts of some fields, or none."""
    if index is False:
        return ""
    if not isinstance(index, list):
        return "\n".join(_texts(value))
    return "\n".join(
        text for path in index for text in graphs.get_text_at_path(value, graphs.tokenize_path(path))
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _matches(value: Any, wanted: Any) -> bool:
    """Whether *value* matches *wanted*: equal values, or LangGraph's operators."""
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compares(value, str(name), other) for name, other in wanted.items())
        has = isinstance(value, Mapping)
        return has and all(_matches(value.get(key), each) for key, each in wanted.items())
    return bool(value == (list(wanted) if isinstance(wanted, tuple) else wanted))


def _compares(value: Any, name: str, other: Any) -> bool:
    compare = _COMPARED.get(name)
    if compare is None:
        raise ValueError(f"unsupported operator {name!r}; known are {', '.join(_COMPARED)}")
    try:
        return bool(compare(value, other))
    except (TypeError, ValueError):  # an item without the field, or with a text in it
        return False


def _is_named(namespace: Namespace, condition: graphs.MatchCondition) -> bool:
    path: Sequence[str] = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
