"""pydantic-ai: a capability, and a model that writes summaries."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Generic

from siltstone.adapters.base import Ready, acalled_tool, requires
from siltstone.adapters.host import HostDialect, HostHistory, blocks_of, text_block
from siltstone.adapters.pool import MOST_OPEN, Pool, Source, named_by_host
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES
from siltstone.tools.base import Tool

# Reads and writes messages of pydantic-ai.

with requires("pydantic-ai"):
    from pydantic_ai import RunContext, messages as theirs
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.direct import model_request
    from pydantic_ai.models import KnownModelName, Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import Tool as PydanticTool
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RequestUsage
    from typing_extensions import TypeVar  # with a default: an agent without dependencies names none


_PARTS: Final = attrgetter("parts")
ORIGIN: Final = {"origin": "siltstone"}  #: metadata of parts that siltstone wrote; it is not sent to a model

#: Fields of a part that a provider needs beside its content.
_BOUND: Final = ("id", "provider_name", "provider_details")
_ERRORS: Final = frozenset({"failed", "retried"})
_MEDIA: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "document"}


class PydanticAIDialect(HostDialect[theirs.ModelMessage]):
    """Messages of pydantic-ai in Anthropic's dialect, with the parts that are sent to a model.

    A request may hold a system prompt, a summary, results of tools and texts of the user together. They leave
    a history separately, so each is a piece. The framework also merges two requests in a row, when it is
    given its messages again: the pieces stay the same. Timestamps, usage, ids of runs and ``metadata`` belong
    to the host, and stay with the host's object, and with its form in the log.
    """

    name = "pydantic-ai"

    def read(self, message: theirs.ModelMessage) -> Sequence[dict[str, Any]]:
        """A response as one dict; a request as one dict for each run of parts of one kind."""
        if isinstance(message, theirs.ModelResponse):
            blocks = [block for part in message.parts for block in _response_block(part)]
            return ({"role": "assistant", "content": blocks},)
        found = [_request_piece(kind, parts) for kind, parts in _runs(message)]
        return found or ({"role": "user", "content": ""},)  # a run that continues without a prompt

    def write(
        self, fields: Mapping[str, Any], provenance: Provenance, original: theirs.ModelMessage | None
    ) -> theirs.ModelMessage:
        """A request or a response with *fields*."""
        content = fields.get("content")
        if provenance == "compaction_summary":
            return theirs.ModelRequest(
                parts=[theirs.CompactionPart(content=_text(content), metadata=dict(ORIGIN))]
            )
        if fields.get("role") == "assistant":
            return theirs.ModelResponse(parts=[_response_part(block) for block in blocks_of(content)])
        if fields.get("role") in RULE_ROLES:
            return theirs.ModelRequest(parts=[theirs.SystemPromptPart(_text(content), metadata=dict(ORIGIN))])
        if provenance == "substitute" and isinstance(original, theirs.ModelRequest):
            return _with_results(original, blocks_of(content))
        if provenance == "original" or any(
            block.get("type") == "tool_result" for block in blocks_of(content)
        ):
            return theirs.ModelRequest(parts=_request_parts(content))
        return theirs.ModelRequest(
            parts=[theirs.UserPromptPart([theirs.TextContent(_text(content), metadata=dict(ORIGIN))])]
        )

    def part(self, message: theirs.ModelMessage, pieces: Sequence[int]) -> theirs.ModelMessage:
        """*message* with only some of its runs of parts."""
        runs = list(_runs(message)) if isinstance(message, theirs.ModelRequest) else []
        return replace(message, parts=[part for place in pieces for part in runs[place][1]])

    def joined(self, parts: Sequence[theirs.ModelMessage]) -> theirs.ModelMessage:
        """One message with the parts of all."""
        return replace(parts[0], parts=[part for each in parts for part in each.parts])

    def kept(self, message: theirs.ModelMessage) -> Any:
        """pydantic-ai's own form of *message*."""
        (form,) = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True)
        return form

    def restored(self, kept: Any) -> theirs.ModelMessage:
        """The message of pydantic-ai's own form."""
        (message,) = theirs.ModelMessagesTypeAdapter.validate_python([kept])
        return message

    def said(self, messages: Sequence[theirs.ModelMessage]) -> list[Any]:
        """For each part the values that are read from it, if they are few; else all its fields."""
        return [
            _said_by(parts[0]) if len(parts) == 1 else [_said_by(part) for part in parts]
            for parts in map(_PARTS, messages)
        ]

    def usage(self, message: theirs.ModelMessage) -> Any:
        """The usage of a response; None if the provider counted nothing."""
        if isinstance(message, theirs.ModelResponse) and message.usage.input_tokens:
            return message.usage
        return None


def _said_by(part: Any) -> Any:
    if type(part) is theirs.UserPromptPart:
        return part.content
    if type(part) is theirs.TextPart:
        return part.content, part.id, part.provider_name, part.provider_details
    return part.__dict__


def _runs(message: theirs.ModelRequest) -> Iterable[tuple[str, list[Any]]]:
    """The parts of *message* as runs: system prompts, results of tools, or a single other part."""
    kind, run = "", list[Any]()
    for part in message.parts:
        of = _kind(part)
        if run and (of != kind or of in ("summary", "said")):
            yield kind, run
            run = []
        kind = of
        run.append(part)
    if run:
        yield kind, run


def _kind(part: Any) -> str:
    if isinstance(part, theirs.CompactionPart):
        return "summary"
    if isinstance(part, theirs.SystemPromptPart):
        return "rule" if getattr(part, "scope", "conversation") == "conversation" else "said"
    if _is_result(part):
        return "results"
    if part.part_kind in ("user-prompt", "retry-prompt", "retry-feedback", "speech"):
        return "said"
    return "rule"  # instructions, and changes of tools and capabilities: the framework reads them again


def _is_result(part: Any) -> bool:
    """Whether *part* answers a call."""
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and bool(part.tool_name))


def _request_piece(kind: str, parts: Sequence[Any]) -> dict[str, Any]:
    if kind == "rule":
        texts = [each.content for each in parts if isinstance(getattr(each, "content", None), str)]
        return {"role": "system", "content": "\n\n".join(texts)}
    if kind == "summary":
        return {"role": "user", "content": parts[0].content or ""}
    if isinstance(parts[0], theirs.UserPromptPart) and isinstance(parts[0].content, str):
        return {"role": "user", "content": parts[0].content}
    return {"role": "user", "content": [block for part in parts for block in _request_block(part)]}


def _request_block(part: Any) -> Iterable[dict[str, Any]]:
    if isinstance(part, theirs.UserPromptPart):
        for item in [part.content] if isinstance(part.content, str) else part.content:
            yield from _user_block(item)
    elif _is_result(part):
        yield _result(part)
    elif part.part_kind in ("retry-prompt", "retry-feedback"):
        yield text_block(part.model_response())
    else:
        yield text_block(getattr(part, "content", None) or getattr(part, "transcript", None) or "")


def _result(part: Any) -> dict[str, Any]:
    is_return = isinstance(part, theirs.ToolReturnPart)
    text = part.model_response_str(wrap_if_error=False) if is_return else part.model_response()
    media = [block for each in (part.files if is_return else ()) for block in _user_block(each)]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": part.tool_call_id,
        "content": [text_block(text), *media] if media else text,
        "name": part.tool_name,
    }
    if not is_return or part.outcome in _ERRORS:
        block["is_error"] = True
    return block


def _user_block(item: Any) -> Iterable[dict[str, Any]]:
    if isinstance(item, str):
        yield text_block(item)
    elif isinstance(item, theirs.TextContent):
        yield text_block(item.content)
    elif isinstance(item, theirs.BinaryContent):
        yield _inline(item)
    elif item.kind in _MEDIA:
        yield {"type": _MEDIA[item.kind], "source": {"type": "url", "url": item.url}}
    elif isinstance(item, theirs.UploadedFile):
        yield {"type": "document", "source": {"type": "file", "file_id": item.file_id}}
    # A cache point has no content, and moves from turn to turn.


def _inline(item: theirs.BinaryContent) -> dict[str, Any]:
    kind = item.media_type.split("/")[0]
    return {
        "type": kind if kind in ("image", "audio", "video") else "document",
        "source": {
            "type": "base64",
            "media_type": item.media_type,
            "data": base64.b64encode(item.data).decode(),
        },
    }


def _response_block(part: Any) -> Iterable[dict[str, Any]]:
    bound = {key: value for key in _BOUND if (value := getattr(part, key, None)) is not None}
    if isinstance(part, theirs.TextPart):
        yield {**text_block(part.content), **bound}
    elif isinstance(part, theirs.ThinkingPart):
        signed = {} if part.signature is None else {"signature": part.signature}
        yield {"type": "thinking", "thinking": part.content, **signed, **bound}
    elif isinstance(part, theirs.ToolCallPart):
        yield _call("tool_use", part, bound)
    elif isinstance(part, theirs.NativeToolCallPart):
        yield _call("server_tool_use", part, bound)
    elif isinstance(part, theirs.NativeToolReturnPart):
        kind = f"{part.tool_name}_tool_result"
        yield {"type": kind, "tool_use_id": part.tool_call_id, "content": part.model_response_str(), **bound}
    elif isinstance(part, theirs.CompactionPart):
        yield {"type": "compaction", "content": part.content, **bound}
    elif part.part_kind == "file":
        yield _inline(part.content)
    else:
        yield {"type": part.part_kind, "text": getattr(part, "transcript", None) or ""}


def _call(kind: str, part: Any, bound: Mapping[str, Any]) -> dict[str, Any]:
    called = part.args if isinstance(part.args, Mapping) else part.args_as_json_str()
    if isinstance(called, str):
        try:
            called = json.loads(called)
        except ValueError:  # broken JSON of the model stays as a text
            called = {"input": part.args}
    block = {"type": kind, "id": part.tool_call_id, "name": part.tool_name, "input": called}
    return {**block, **({"provider": dict(bound)} if bound else {})}


def _text(content: Any) -> str:
    return "\n".join(str(each.get("text", "")) for each in blocks_of(content))


def _request_parts(content: Any) -> list[Any]:
    parts: list[Any] = []
    said: list[Any] = []
    for block in blocks_of(content):
        if block.get("type") == "tool_result":
            parts.append(
                theirs.ToolReturnPart(
                    tool_name=block.get("name") or "",
                    content=_text(block.get("content")),
                    tool_call_id=block.get("tool_use_id") or "",
                    outcome="failed" if block.get("is_error") else "success",
                )
            )
        else:
            said.append(_user_content(block))
    if isinstance(content, str):
        return [theirs.UserPromptPart(content)]
    if parts and len(said) == 1 and isinstance(said[0], str):
        return [*parts, theirs.UserPromptPart(said[0])]
    return [*parts, theirs.UserPromptPart(said)] if said else parts


def _user_content(block: Mapping[str, Any]) -> Any:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        return theirs.BinaryContent(data=base64.b64decode(source["data"]), media_type=source["media_type"])
    if source.get("type") == "url" and block.get("type") == "image":
        return theirs.ImageUrl(source["url"])
    if source.get("type") == "url":
        return theirs.DocumentUrl(source["url"])
    return str(block.get("text", ""))


def _response_part(block: Mapping[str, Any]) -> Any:
    bound = {key: block[key] for key in _BOUND if key in block}
    match block.get("type"):
        case "thinking":
            return theirs.ThinkingPart(block.get("thinking") or "", signature=block.get("signature"), **bound)
        case "tool_use" | "server_tool_use" as kind:
            called = {"tool_name": block.get("name") or "", "args": block.get("input")}
            part = theirs.ToolCallPart if kind == "tool_use" else theirs.NativeToolCallPart
            return part(**called, tool_call_id=block.get("id") or "", **(block.get("provider") or {}))
        case "compaction":
            return theirs.CompactionPart(content=block.get("content"), **bound)
        case str() as kind if kind.endswith("_tool_result"):
            named = {"tool_name": kind.removesuffix("_tool_result"), "content": _parsed(block.get("content"))}
            return theirs.NativeToolReturnPart(**named, tool_call_id=block.get("tool_use_id") or "", **bound)
    return theirs.TextPart(str(block.get("text", "")), **bound)


def _parsed(content: Any) -> Any:
    """The value of JSON text, as the result of a provider's tool; any other text as it is."""
    try:
        value = json.loads(content)
    except (TypeError, ValueError):
        return content
    return value if isinstance(value, dict | list) else content


def _with_results(original: theirs.ModelRequest, blocks: Sequence[Mapping[str, Any]]) -> theirs.ModelRequest:
    """*original* with the texts of the results in *blocks*."""
    texts = {each["tool_use_id"]: _text(each.get("content")) for each in blocks if "tool_use_id" in each}
    if not texts:  # without results only the words stay
        return theirs.ModelRequest(parts=_request_parts(blocks))
    parts = [
        replace(part, content=texts[part.tool_call_id])
        if isinstance(part, theirs.ToolReturnPart) and part.tool_call_id in texts
        else part
        for part in original.parts
    ]
    return replace(original, parts=parts)


# A model of pydantic-ai as the model that writes summaries.


def summariser(model: Model | KnownModelName | str) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*model* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the user's run.

    Models of pydantic-ai need an event loop, so the session must be async.
    """

    async def ask(request: CompletionRequest) -> Completion:
        settings = ModelSettings(max_tokens=request.max_tokens)
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.stop:
            settings["stop_sequences"] = list(request.stop)
        messages = [_message(each) for each in request.messages]
        answer = await model_request(model, messages, model_settings=settings)
        usage = UsageRecord(
            model=answer.model_name or "",
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            cached_tokens=answer.usage.cache_read_tokens,
            purpose=request.purpose,
        )
        return Completion(answer.text or "", usage, answer.finish_reason)

    return ask


def _message(said: Mapping[str, Any]) -> theirs.ModelMessage:
    text = str(said["content"])
    match said["role"]:
        case "assistant":
            return theirs.ModelResponse(parts=[theirs.TextPart(text)])
        case "system":
            return theirs.ModelRequest(parts=[theirs.SystemPromptPart(text)])
    return theirs.ModelRequest.user_text_prompt(text)


# The capability: memory and compaction for an ``Agent``.


try:
    from pydantic_ai.exceptions import RetryModelRequest as _Retry
except ImportError:  # before 2.64 a hook cannot ask for a second attempt
    _Retry = None


DepsT = TypeVar("DepsT", default=Any)

MOST_RUNS = 1_000  #: the number of runs whose newest request is remembered


@dataclass(init=False)
class SiltstoneCapability(AbstractCapability[DepsT], Generic[DepsT]):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    By default the history of a run keeps every message, and the model sees the session's view. A summary is a
    ``CompactionPart`` in a request of its own. Recalled text is only in the request. The cost of siltstone's
    own model calls is in the run's usage.

    Args:
        session: The session of the agent's only conversation; or a store, or a function that opens the
            session of a conversation. The name of a conversation is the ``conversation_id``. Its sessions are
            closed by :meth:`close`.
        rewrite_history: Whether a compaction also shortens the history that the run returns.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    session: Source
    rewrite_history: bool
    tools: bool

    def __init__(
        self,
        session: Source,
        *,
        rewrite_history: bool = False,
        tools: bool = True,
        most_open: int = MOST_OPEN,
        **options: Any,
    ) -> None:
        super().__init__()
        self.session, self.rewrite_history, self.tools = session, rewrite_history, tools
        self._pool = Pool(session, PydanticAIDialect(), most_open=most_open, options=options, tools=tools)
        self._sent: OrderedDict[str, Ready[theirs.ModelMessage]] = OrderedDict()  # by run: the newest request
        self._smaller: dict[str, list[theirs.ModelMessage]] = {}  # by run: what replaces a refused request

    async def before_model_request(
        self, ctx: RunContext[DepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replaces the history by the session's view in this request."""
        stored = list(ctx.messages)
        async with self._pool.door(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            door.model = ctx.model
            ready = await door.prepare(stored, request_context.messages, waits=True)
        self._account(ctx, ready)
        request_context.messages = ready.messages
        self._sent[_run(ctx)] = ready
        while len(self._sent) > MOST_RUNS:  # of runs that were cancelled
            self._sent.popitem(last=False)
        if self.rewrite_history and not HostHistory.is_same(history := ready.history, stored):
            ctx.messages[:] = history
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[DepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Sends a smaller request, if the provider refused the last one as too large."""
        smaller = self._smaller.pop(_run(ctx), None)
        if smaller is not None:
            request_context.messages = smaller
        return request_context

    async def on_model_request_error(
        self,
        ctx: RunContext[DepsT],
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        error: Exception,
    ) -> theirs.ModelResponse:
        """Asks for another attempt with a smaller request, if the provider refused this one as too large.

        Before pydantic-ai 2.64 there is no second attempt, and the error goes to the caller.
        """
        if _Retry is None:
            raise error
        async with self._pool.door(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            refused = self._sent[_run(ctx)]
            ready = await door.recover(error, refused, waits=True)  # raises *error* if it cannot help
        self._account(ctx, ready)
        self._smaller[_run(ctx)] = ready.messages
        if self.rewrite_history:
            ctx.messages[:] = ready.history
        raise _Retry

    async def after_run(self, ctx: RunContext[DepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Gives the final answer to the session."""
        self._sent.pop(_run(ctx), None)
        async with self._pool.door(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            await door.observe(result.all_messages(), waits=True)
        return result

    def get_toolset(self) -> FunctionToolset[DepsT] | None:
        """The tools ``memory_search`` and ``memory_get``."""
        return FunctionToolset([self._tool(each) for each in self._pool.tools()]) if self.tools else None

    async def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        await self._pool.aclose()

    def _tool(self, tool: Tool) -> PydanticTool[DepsT]:
        made: PydanticTool[DepsT] = PydanticTool.from_schema(
            self._caller(tool.name),
            name=tool.name,
            description=tool.description,
            json_schema=tool.definition()["function"]["parameters"],
            takes_ctx=True,
        )
        return made

    def _caller(self, name: str) -> Callable[..., Any]:
        async def call(ctx: RunContext[DepsT], **arguments: Any) -> str:
            async with self._pool.door(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
                return await acalled_tool(getattr(door.session, name), arguments)

        return call

    def _account(self, ctx: RunContext[DepsT], ready: Ready[theirs.ModelMessage]) -> None:
        """Adds the cost of siltstone's own model calls to the usage of the run."""
        for each in ready.usage:
            ctx.usage.incr(
                RequestUsage(
                    input_tokens=each.input_tokens,
                    output_tokens=each.output_tokens,
                    cache_read_tokens=each.cached_tokens,
                )
            )


def _run(ctx: RunContext[Any]) -> str:
    return str(ctx.run_id)
