"""Strands Agents: a plugin, and a model that writes summaries."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from siltstone.adapters.base import Door, begun_again, requires
from siltstone.adapters.host import HostDialect, blocks_of, text_block
from siltstone.adapters.pool import MOST_OPEN, Pool, Source
from siltstone.errors import ToolError
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.messages import Provenance
from siltstone.tools.base import Tool

# Reads and writes messages of Strands.

with requires("strands"):
    from strands.hooks import AfterInvocationEvent
    from strands.middleware import InvokeModelContext, InvokeModelStage
    from strands.models import Model
    from strands.plugins import Plugin
    from strands.tools import PythonAgentTool
    from strands.types.event_loop import Usage
    from strands.types.session import decode_bytes_values, encode_bytes_values


Message = dict[str, Any]

_MEDIA: Final = frozenset({"image", "document", "video", "audio"})


class StrandsDialect(HostDialect[Message]):
    """Messages of Strands, which have the form of Bedrock, in Anthropic's dialect.

    ``metadata`` and ``tracking_id`` belong to the host, and cache points have no content. They stay with the
    host's object, and with its form in the log.
    """

    name = "strands"

    def read(self, message: Message) -> Sequence[dict[str, Any]]:
        """*message* in Anthropic's dialect."""
        blocks = [block for each in message["content"] for block in _read(each)]
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and message["role"] == "user":
            return ({"role": "user", "content": blocks[0]["text"]},)
        return ({"role": message["role"], "content": blocks},)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Message | None) -> Message:
        """A message with *fields*."""
        blocks = blocks_of(fields.get("content"))
        if provenance == "substitute" and original is not None:
            return _with_results(original, blocks)
        role = "assistant" if fields.get("role") == "assistant" else "user"
        return {"role": role, "content": [_written(each) for each in blocks]}

    def kept(self, message: Message) -> Any:
        """*message* as Strands' own session managers write it, with bytes in base64."""
        return encode_bytes_values(message)

    def restored(self, kept: Any) -> Message:
        """The message that was written."""
        message: Message = decode_bytes_values(kept)
        return message

    def identity(self, message: Message) -> str | None:
        """The ``tracking_id``."""
        return message.get("tracking_id")

    def said(self, messages: Sequence[Message]) -> list[Any]:
        """The role and the blocks of each message."""
        return [(each["role"], each["content"]) for each in messages]

    def usage(self, message: Message) -> Any:
        """The provider's usage for an answer; None if it is unknown."""
        used = (message.get("metadata") or {}).get("usage") or {}
        if not used.get("inputTokens"):
            return None
        return {
            "input_tokens": used["inputTokens"],
            "output_tokens": used.get("outputTokens", 0),
            "cache_read_input_tokens": used.get("cacheReadInputTokens", 0),
            "cache_creation_input_tokens": used.get("cacheWriteInputTokens", 0),
        }


def alternating(messages: Iterable[Message]) -> list[Message]:
    """*messages* with consecutive messages of one role joined, because Bedrock requires alternating roles."""
    found = list[Message]()
    for each in messages:
        if found and found[-1]["role"] == each["role"]:
            found[-1] = {"role": each["role"], "content": [*found[-1]["content"], *each["content"]]}
        else:
            found.append(each)
    return found


def _read(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """*block* in Anthropic's dialect; nothing for a cache point."""
    for kind, value in block.items():
        if kind == "text":
            yield text_block(value)
        elif kind == "toolUse":
            bound = {key: each for key, each in value.items() if key not in ("toolUseId", "name", "input")}
            called = {"id": value["toolUseId"], "name": value["name"], "input": value["input"]}
            yield {"type": "tool_use", **called, **({"provider": _plain(bound)} if bound else {})}
        elif kind == "toolResult":
            yield _result(value)
        elif kind == "reasoningContent":
            yield _thought(value)
        elif kind in _MEDIA:
            yield _medium(kind, value)
        elif kind != "cachePoint":
            yield {"type": kind, "text": _text_of(value), "value": _plain(value)}


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    content = list[dict[str, Any]]()
    for each in result["content"]:
        if "json" in each:
            said = text_block(json.dumps(_plain(each["json"]), ensure_ascii=False))
            content.append({**said, "format": "json"})
        else:
            content += _read(each)
    is_text = len(content) == 1 and content[0].keys() == {"type", "text"}
    block = {"type": "tool_result", "tool_use_id": result["toolUseId"]}
    error = {"is_error": True} if result.get("status") == "error" else {}
    return {**block, "content": content[0]["text"] if is_text else content, **error}


def _thought(value: Mapping[str, Any]) -> dict[str, Any]:
    if "redactedContent" in value:
        return {"type": "redacted_thinking", "data": base64.b64encode(value["redactedContent"]).decode()}
    thought = value.get("reasoningText") or {}
    signed = {"signature": thought["signature"]} if thought.get("signature") else {}
    return {"type": "thinking", "thinking": thought.get("text") or "", **signed}


def _medium(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    source, bound = value.get("source") or {}, {"format": value.get("format")}
    more = {key: _plain(each) for key, each in value.items() if key not in ("source", "format")}
    if "bytes" in source:
        said = {"type": "base64", "media_type": f"{kind}/{value.get('format')}"}
        said["data"] = base64.b64encode(source["bytes"]).decode()
    else:
        said = {"type": "url", "url": str((source.get("location") or {}).get("uri") or "")}
        bound["source"] = _plain(source)
    return {"type": kind, "source": said, "provider": {**bound, **more}}


def _text_of(value: Any) -> str:
    """The texts of a block of another kind."""
    if isinstance(value, Mapping):
        texts = [
            each if key == "text" and isinstance(each, str) else _text_of(each) for key, each in value.items()
        ]
        return "\n".join(each for each in texts if each)
    if isinstance(value, list):
        return "\n".join(text for each in value if (text := _text_of(each)))
    return ""


def _plain(value: Any) -> Any:
    """*value* as plain JSON, with bytes as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _written(block: Mapping[str, Any]) -> dict[str, Any]:
    """*block* in the form of Strands."""
    match block.get("type"):
        case "tool_use":
            bound = dict(block.get("provider") or {})
            called = {"toolUseId": block.get("id") or "", "name": block.get("name") or ""}
            return {"toolUse": {**called, "input": block.get("input"), **bound}}
        case "tool_result":
            status = "error" if block.get("is_error") else "success"
            content = [_written_result(each) for each in blocks_of(block.get("content"))]
            return {
                "toolResult": {
                    "toolUseId": block.get("tool_use_id") or "",
                    "status": status,
                    "content": content,
                }
            }
        case "thinking":
            signed = {"signature": block["signature"]} if "signature" in block else {}
            return {"reasoningContent": {"reasoningText": {"text": block.get("thinking") or "", **signed}}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": _bytes(block.get("data"))}}
        case str() as kind if kind in _MEDIA and isinstance(block.get("source"), Mapping):
            source = block["source"]
            said = {"source": {"bytes": _bytes(source["data"])}} if "data" in source else {}
            return {kind: {**said, **dict(block.get("provider") or {})}}
        case str() as kind if "value" in block:
            return {kind: block["value"]}
    return {"text": str(block.get("text", ""))}


def _written_result(block: Mapping[str, Any]) -> dict[str, Any]:
    if block.get("format") == "json":
        return {"json": json.loads(block["text"])}
    return _written(block)


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text))
    except binascii.Error:
        return b""


def _with_results(original: Message, blocks: Sequence[Mapping[str, Any]]) -> Message:
    """*original* with the changed results in *blocks*, and without its id."""
    anonymous = {key: each for key, each in original.items() if key != "tracking_id"}
    changed = {each["tool_use_id"]: each for each in blocks if each.get("type") == "tool_result"}
    if not changed:  # without results only the words stay
        return {**anonymous, "content": [_written(each) for each in blocks]}
    content = list[dict[str, Any]]()
    for block in original["content"]:
        result = block.get("toolResult")
        said = changed.get(result["toolUseId"]) if result else None
        content.append(block if said is None or said == _result(result) else _written(said))
    return {**anonymous, "content": content}


# A model of Strands as the model that writes summaries.


def summariser(model: Model) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*model* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the agent's run.

    Models of Strands need an event loop, so the session must be async.
    """

    async def ask(request: CompletionRequest) -> Completion:
        system = "\n\n".join(str(each["content"]) for each in request.messages if each["role"] == "system")
        messages: Any = alternating(
            {"role": each["role"], "content": [{"text": str(each["content"])}]}
            for each in request.messages
            if each["role"] != "system"
        )
        text, used, reason = "", dict[str, Any](), None
        async for event in model.stream(messages, None, system or None):
            text += event.get("contentBlockDelta", {}).get("delta", {}).get("text") or ""
            reason = event.get("messageStop", {}).get("stopReason") or reason
            used = dict(event.get("metadata", {}).get("usage") or used)
        record = UsageRecord(
            model=str(dict(model.get_config() or {}).get("model_id") or ""),
            input_tokens=used.get("inputTokens", 0),
            output_tokens=used.get("outputTokens", 0),
            cached_tokens=used.get("cacheReadInputTokens", 0),
            purpose=request.purpose,
        )
        return Completion(text, record if used else None, reason)

    return ask


# The plugin: memory and compaction for an ``Agent``.


DEFAULT_AGENT = "default"  #: the ``agent_id`` of an agent that was given none


class SiltstonePlugin(Plugin):
    """Sends the session's view instead of an agent's messages, and gives the model ``memory_search``.

    ::

        agent = Agent(plugins=[SiltstonePlugin(session)], conversation_manager=NullConversationManager())

    The agent's own list keeps every message, and so does the log of the session. Without a
    ``conversation_manager`` Strands drops the oldest messages from its own list; the session keeps them.
    Recalled text is only in the request. The cost of siltstone's own model calls is in the agent's metrics.
    If the provider refuses a request as too large, a smaller one is sent, at most twice.

    Args:
        session: The session of the agent's conversation, which you close yourself; or a store, or a function
            that opens the session of a conversation, for a plugin of many agents. The name of a conversation
            is the id of the agent's session manager, and its ``agent_id`` if that is not the default. These
            sessions are closed by :meth:`close`. An agent that is called as a function runs in a thread with
            its own loop, so it needs a ``Session``. ``invoke_async`` and ``stream_async`` also take an
            ``AsyncSession``.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    name = "siltstone"

    def __init__(
        self, session: Source, *, tools: bool = True, most_open: int = MOST_OPEN, **options: Any
    ) -> None:
        super().__init__()
        self._pool = Pool(session, StrandsDialect(), most_open=most_open, options=options, tools=tools)
        self._has_tools = tools

    def init_agent(self, agent: Any) -> None:
        """Registers the middleware, the hook and the tools with *agent*. Strands calls it."""
        agent.add_middleware(InvokeModelStage, self._invoke)
        agent.add_hook(self._ended, AfterInvocationEvent)
        for tool in self._pool.tools() if self._has_tools else ():
            agent.tool_registry.register_tool(self._tool(tool, _conversation(agent)))

    def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        self._pool.close()

    async def aclose(self) -> None:
        """:meth:`close`, for async sessions too."""
        await self._pool.aclose()

    async def _invoke(
        self, context: InvokeModelContext, next_fn: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Runs a model call with the session's view."""
        stored: list[Any] = list(context.agent.messages)
        name = _conversation(context.agent)
        async with self._pool.door(name, name) as door:
            async for event in self._called(door, stored, context, next_fn):
                yield event

    async def _called(
        self,
        door: Door[Message],
        stored: list[Message],
        context: InvokeModelContext,
        next_fn: Callable[[InvokeModelContext], AsyncIterator[Any]],
    ) -> AsyncIterator[Any]:
        door.model = dict(context.agent.model.get_config() or {}).get("model_id")
        ready = await door.prepare(stored, list(context.messages), waits=True)
        self._charge(context.agent, ready.usage)

        async def recover(error: Exception) -> None:
            nonlocal ready
            ready = await door.recover(error, ready, waits=True)
            self._charge(context.agent, ready.usage)

        def stream() -> AsyncIterator[Any]:
            request: Any = alternating(ready.messages)
            return next_fn(context.replace(messages=request))

        async for event in begun_again(stream(), stream, recover):
            yield event

    async def _ended(self, event: AfterInvocationEvent) -> None:
        """Gives the final answer to the session."""
        name = _conversation(event.agent)
        async with self._pool.door(name, name) as door:
            await door.observe(list(event.agent.messages), waits=True)

    def _charge(self, agent: Any, records: Iterable[UsageRecord]) -> None:
        for record in records:
            used = Usage(
                inputTokens=record.input_tokens,
                outputTokens=record.output_tokens,
                totalTokens=record.input_tokens + record.output_tokens,
                cacheReadInputTokens=record.cached_tokens,
            )
            agent.event_loop_metrics.update_usage(used)

    def _tool(self, tool: Tool, name: str | None) -> PythonAgentTool:
        async def call(tool_use: Any, **_kwargs: Any) -> Any:
            status = "success"
            async with self._pool.door(name, name) as door:
                own = getattr(door.session, tool.name)
                try:
                    text = await asyncio.to_thread(lambda: own.run(own.read(tool_use["input"])))
                except ToolError as error:
                    status, text = "error", str(error)
            return {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]}

        schema: Any = tool.definition()["function"]["parameters"]
        spec: Any = {"name": tool.name, "description": tool.description, "inputSchema": {"json": schema}}
        return PythonAgentTool(tool.name, spec, call)


def _conversation(agent: Any) -> str | None:
    """The name of the agent's conversation in the host; None if it has none."""
    manager = getattr(agent, "_session_manager", None)
    session_id, agent_id = getattr(manager, "session_id", None), getattr(agent, "agent_id", None)
    named = [str(each) for each in (session_id, agent_id) if each and each != DEFAULT_AGENT]
    return "/".join(named) or None
