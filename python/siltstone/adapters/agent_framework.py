"""Microsoft Agent Framework: a chat middleware, and a chat client that writes summaries."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from siltstone.adapters.base import acalled_tool, begun_again, requires
from siltstone.adapters.host import HostDialect, blocks_of
from siltstone.adapters.pool import MOST_OPEN, Pool, Source, named_by_host
from siltstone.errors import ConfigError
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES
from siltstone.tools.base import Tool

# Reads and writes messages of Agent Framework.

with requires("agent-framework"):
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        Content,
        FunctionInvocationContext,
        FunctionTool,
        Message,
        ResponseStream,
        SupportsChatGetResponse,
        UsageDetails,
        add_usage_details,
    )


ORIGIN: Final = {"origin": "siltstone"}  #: in ``additional_properties`` of messages that siltstone wrote


class AgentFrameworkDialect(HostDialect[Message]):
    """Messages of Agent Framework in Anthropic's dialect.

    Ids of messages, ``additional_properties`` and raw representations belong to the host. They are not sent
    to a model, and stay with the host's object; its form in the log has them too, without the raw
    representations.
    """

    name = "agent-framework"

    def read(self, message: Message) -> Sequence[dict[str, Any]]:
        """*message* in Anthropic's dialect."""
        role = message.role if message.role in ("assistant", *RULE_ROLES) else "user"
        # The framework sets the agent's name on its messages only at the end of the run.
        named = {"name": message.author_name} if message.author_name and message.role == "user" else {}
        content = message.contents
        if role in RULE_ROLES or (role == "user" and len(content) == 1 and content[0].type == "text"):
            return ({"role": role, **named, "content": message.text},)
        return ({"role": role, **named, "content": [_read(each) for each in content]},)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Message | None) -> Message:
        """A message with *fields*."""
        blocks = blocks_of(fields.get("content"))
        if provenance == "substitute" and original is not None:
            return _with_results(original, blocks)
        role = str(fields.get("role") or "user")
        if any(each.get("type") == "tool_result" for each in blocks):
            role = "tool"
        beside = None if provenance == "original" else dict(ORIGIN)
        contents = [_written(each) for each in blocks]
        return Message(role, contents, author_name=fields.get("name"), additional_properties=beside)

    def kept(self, message: Message) -> Any:
        """The framework's own form of *message*."""
        return message.to_dict(exclude_none=True)

    def restored(self, kept: Any) -> Message:
        """The message of the framework's own form."""
        return Message.from_dict(kept)

    def identity(self, message: Message) -> str | None:
        """The id of the message, if its service gave it one."""
        known: str | None = message.message_id
        return known

    def said(self, messages: Sequence[Message]) -> list[Any]:
        """The fields of the contents of each message, without raw representations of the provider's SDK."""
        return [
            (
                each.role,
                each.role == "user" and each.author_name,
                [_said(content) for content in each.contents],
            )
            for each in messages
        ]


def _said(content: Content) -> Any:
    """The fields of *content* that are sent to a model. The most frequent types are read cheaply."""
    match content.type:
        case "text" | "text_reasoning":
            return content.type, content.text, content.protected_data
        case "function_call":
            return content.type, content.call_id, content.name, content.arguments
        case "function_result":
            items = [(each.type, each.text, each.uri) for each in content.items or ()]
            return content.type, content.call_id, items, content.exception is None
    return content.to_dict()


def _read(content: Content) -> dict[str, Any]:
    match content.type:
        case "text":
            return {"type": "text", "text": content.text or ""}
        case "text_reasoning":
            signed = {} if content.protected_data is None else {"signature": content.protected_data}
            return {"type": "thinking", "thinking": content.text or "", **signed}
        case "function_call":
            called = {"id": content.call_id or "", "name": content.name or ""}
            return {"type": "tool_use", **called, "input": _arguments(content.arguments)}
        case "function_result":
            return _result(content)
        case "data" | "uri" if (medium := _medium(content)) is not None:
            return medium
    return {"type": content.type, "text": content.text or "", "value": content.to_dict()}


def _arguments(given: Any) -> Any:
    """The arguments of a call as an object; broken JSON of the model stays as a text under ``input``."""
    if not isinstance(given, str):
        return dict(given or {})
    try:
        found = json.loads(given)
    except ValueError:
        return {"input": given}
    return found if isinstance(found, dict) else {"input": given}


def _result(content: Content) -> dict[str, Any]:
    items = [_read(each) for each in content.items or ()]
    is_text = len(items) == 1 and items[0].keys() == {"type", "text"}
    block = {"type": "tool_result", "tool_use_id": content.call_id or ""}
    error = {} if content.exception is None else {"is_error": True}
    return {**block, "content": items[0]["text"] if is_text else items, **error}


def _medium(content: Content) -> dict[str, Any] | None:
    """An image or a document; None for a medium of another kind."""
    kind = (content.media_type or "").split("/")[0]
    if kind not in ("image", "audio", "video", "application", "text"):
        return None
    uri = content.uri or ""
    head, comma, data = uri.partition(";base64,")
    if head.startswith("data:") and comma:
        source = {"type": "base64", "media_type": content.media_type, "data": data}
    else:
        source = {"type": "url", "url": uri, "media_type": content.media_type}
    return {"type": kind if kind in ("image", "audio", "video") else "document", "source": source}


def _written(block: Mapping[str, Any]) -> Content:
    source = block.get("source")
    match block.get("type"):
        case "thinking":
            return Content.from_text_reasoning(
                text=block.get("thinking") or "", protected_data=block.get("signature")
            )
        case "tool_use":
            name = block.get("name") or ""
            return Content.from_function_call(block.get("id") or "", name, arguments=block.get("input"))
        case "tool_result":
            items = [_written(each) for each in blocks_of(block.get("content"))]
            failed = "the tool failed" if block.get("is_error") else None
            return Content.from_function_result(
                block.get("tool_use_id") or "", result=items, exception=failed
            )
        case _ if isinstance(source, Mapping) and "data" in source:
            uri = f"data:{source.get('media_type')};base64,{source['data']}"
            return Content.from_uri(uri, media_type=source.get("media_type"))
        case _ if isinstance(source, Mapping):
            return Content.from_uri(source.get("url") or "", media_type=source.get("media_type"))
        case _ if isinstance(block.get("value"), Mapping):
            return Content.from_dict(block["value"])
    return Content.from_text(str(block.get("text", "")))


def _with_results(original: Message, blocks: Sequence[Mapping[str, Any]]) -> Message:
    """*original* with the changed results in *blocks*."""
    changed = {each["tool_use_id"]: each for each in blocks if each.get("type") == "tool_result"}
    contents = [_written(each) for each in blocks]  # without results only the words stay
    if changed:
        contents = [_replaced(each, changed.get(each.call_id or "")) for each in original.contents]
    return Message(
        original.role,
        contents,
        author_name=original.author_name,
        additional_properties=original.additional_properties,
    )


def _replaced(content: Content, block: Mapping[str, Any] | None) -> Content:
    if content.type != "function_result" or block is None or block == _result(content):
        return content
    written = _written(block)
    written.id, written.exception = content.id, content.exception
    written.additional_properties = content.additional_properties
    return written


# A chat client of Agent Framework as the model that writes summaries.


def summariser(client: SupportsChatGetResponse) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*client* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the agent's run.

    Chat clients need an event loop, so the session must be async. The client must not have the middleware of
    the same session: each summary would ask for another, and no check prevents it. Give the middleware to the
    agent, not to its client.
    """

    async def ask(request: CompletionRequest) -> Completion:
        options: dict[str, Any] = {"max_tokens": request.max_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.stop:
            options["stop"] = list(request.stop)
        messages = [Message(each["role"], [str(each["content"])]) for each in request.messages]
        answer = await client.get_response(messages, options=options)
        counted: dict[str, Any] = dict(answer.usage_details or {})
        usage = UsageRecord(
            model=answer.model or "",
            input_tokens=counted.get("input_token_count") or 0,
            output_tokens=counted.get("output_token_count") or 0,
            cached_tokens=counted.get("cache_read_input_token_count") or 0,
            purpose=request.purpose,
        )
        reason = answer.finish_reason
        return Completion(answer.text, usage if counted else None, None if reason is None else str(reason))

    return ask


# The chat middleware: memory and compaction for an ``Agent``.


_ATTRIBUTION = "_attribution"  # the framework's key for the provider that added a message to a request


class SiltstoneMiddleware(ChatMiddleware):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    ::

        memory = SiltstoneMiddleware(session)
        agent = Agent(client, middleware=[memory], tools=memory.tools)

    The history of an ``AgentSession`` keeps every message, and the model sees the session's view. Recalled
    text is only in the request. The cost of siltstone's own model calls is in the usage of the run. If the
    provider refuses a request as too large, a smaller one is sent, at most twice; of a stream, until
    its first content.

    Args:
        session: The session of the agent's only conversation; or a store, or a function that opens the
            session of a conversation. The name of a conversation is the ``session_id`` of the
            ``AgentSession``. Its sessions are closed by :meth:`close`.
        context_from: The ``source_id`` of context providers whose messages are only in one request, and are
            not stored.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    def __init__(
        self, session: Source, *, context_from: Iterable[str] = (), most_open: int = MOST_OPEN, **options: Any
    ) -> None:
        self._pool = Pool(session, AgentFrameworkDialect(), most_open=most_open, options=options)
        self._context_from = frozenset(context_from)

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools for the agent: ``memory_search`` and ``memory_get``."""
        return [self._tool(each) for each in self._pool.tools()]

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Sends the session's view, and gives the answer to the session.

        Raises:
            ConfigError: the service keeps the conversation, so a request has only the new messages.
        """
        if (kept := (context.options or {}).get("conversation_id")) is not None:
            raise ConfigError(
                f"the service keeps conversation {kept!r}, and is sent only what is new, so siltstone cannot "
                'compact it; run the agent with default_options={"store": False}',
                "conversation_id",
                kept,
            )
        request: list[Any] = list(context.messages)
        stored = [each for each in request if _source(each) not in self._context_from]
        name = None if context.session is None else context.session.session_id
        used = list[UsageRecord]()

        async def ended(response: ChatResponse[Any]) -> ChatResponse[Any]:
            if not _calls_tools(response):  # the framework gives a call its id later, for the next request
                async with self._pool.door(name, named_by_host(name)) as door:
                    await door.observe([*stored, *response.messages], waits=True)
            for each in used:
                response.usage_details = add_usage_details(response.usage_details, _counted(each))
            return response

        async with self._pool.door(name, named_by_host(name)) as door:
            door.model = (context.options or {}).get("model_id") or context.client
            ready = await door.prepare(stored, request, waits=True)
            while True:
                used += ready.usage
                context.messages = ready.messages
                try:
                    await call_next()
                except Exception as error:
                    ready = await door.recover(error, ready, waits=True)  # raises the error if it cannot help
                else:
                    break

        async def recover(error: Exception) -> None:
            nonlocal ready
            async with self._pool.door(name, named_by_host(name)) as door:
                ready = await door.recover(error, ready, waits=True)  # raises the error if it cannot help
            used.extend(ready.usage)
            context.messages = ready.messages

        async def send() -> Any:
            await call_next()
            return aiter(cast("Any", context.result))

        if context.stream:
            context.stream_result_hooks.append(ended)
            stream: Any = context.result
            again = begun_again(aiter(stream), send, recover)  # when nobody holds the session any more
            context.result = ResponseStream(again, finalizer=stream._finalizer)
        elif isinstance(context.result, ChatResponse):
            context.result = await ended(context.result)

    async def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        await self._pool.aclose()

    def _tool(self, tool: Tool) -> FunctionTool:
        async def call(ctx: FunctionInvocationContext, **arguments: Any) -> str:
            name = None if ctx.session is None else ctx.session.session_id
            async with self._pool.door(name, named_by_host(name)) as door:
                return await acalled_tool(getattr(door.session, tool.name), arguments)

        schema = tool.definition()["function"]["parameters"]
        return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=schema)


def _source(message: Message) -> Any:
    return (message.additional_properties.get(_ATTRIBUTION) or {}).get("source_id")


def _calls_tools(response: ChatResponse[Any]) -> bool:
    return any(each.type == "function_call" for message in response.messages for each in message.contents)


def _counted(record: UsageRecord) -> UsageDetails:
    return UsageDetails(
        input_token_count=record.input_tokens,
        output_token_count=record.output_tokens,
        total_token_count=record.input_tokens + record.output_tokens,
    )
