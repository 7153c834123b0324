"""Reads messages of the OpenAI chat completions API, and of OpenClaw, which has calls as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from siltstone.messages.dialects import base
from siltstone.messages.message import Dialect, Message, Part, RawMessage, RepairedMessage, Role, as_fields

NAME: Final[Dialect] = "openai.chat"

#: The roles of OpenClaw's own messages, each with the field that it cannot be without.
OWN: Final[dict[str, str]] = {
    "custom": "content", "bashExecution": "command",
    "compactionSummary": "summary", "branchSummary": "summary",
}  # fmt: skip

#: The roles of this dialect, each with the common role. ``function`` is the older name of ``tool``,
#: ``toolResult`` that of OpenClaw, which shows a model messages of its own as the user's.
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "toolResult": "tool",
    **dict.fromkeys(OWN, "user"),
}

#: Block types that no other dialect has.
TYPES = frozenset({"image_url", "input_audio", "file", "refusal", "video_url"})

#: Block types of a call in OpenClaw. It has Anthropic's ``tool_use`` as well.
CALLS = frozenset({"toolCall", "toolUse", "functionCall"})

#: Why an answer of OpenClaw ended, if its calls were not run and get no results.
_BROKEN_OFF = ("error", "aborted")

_PLAIN = 2  # the number of fields of a message with only a role and a content

#: Keys of a message that no other dialect has.
KEYS = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning"}
)


def read(fields: base.Fields) -> tuple[Role, tuple[Part, ...]]:
    """The role and the parts of a message."""
    role = ROLES[fields["role"]]
    content = content_of(fields)
    if role == "tool":
        return role, base.result_parts(*answered(fields), content, "content", is_error=failed(fields))
    if role != "assistant":
        return role, base.read_content(content, "content", _read_block)
    if len(fields) == _PLAIN and content is not None:
        return role, base.read_content(content, "content", _read_block)
    said = () if content is None else base.read_content(content, "content", _read_block)
    if fields.get("stopReason") in _BROKEN_OFF:
        said = tuple(
            Part("other", each.arguments or "") if each.kind == "tool_call" else each for each in said
        )
    known = {part.call_id for part in said if part.kind == "tool_call"}
    calls = (call for call in _calls(fields) if call.call_id not in known)
    return role, (*_reasoning(fields), *said, *_voice(fields), *calls)


def content_of(fields: base.Fields) -> Any:
    """The content of a message; of OpenClaw's own ones a summary, or a command that the user ran.

    One that OpenClaw keeps from the model has none: nobody finds or summarises it.
    """
    content, role = fields.get("content"), fields["role"]
    if role in OWN and fields.get("excludeFromContext") is True:
        return ""
    if content is not None or role not in OWN:  # a forgotten message has a content, whatever its role
        return content
    said = base.string(fields, OWN[role], role)
    if role != "bashExecution":
        return said
    ended = "(cancelled)" if fields.get("cancelled") else f"(exit code {fields.get('exitCode') or 0})"
    return f"Ran `{said}` {ended}\n{fields.get('output') or '(no output)'}"


def answered(fields: base.Fields) -> tuple[str | None, str | None]:
    """The id of the call that a result answers, and the name of its tool."""
    if fields["role"] == "toolResult":
        call_id, name = fields.get("toolCallId") or fields.get("toolUseId"), fields.get("toolName")
    else:
        call_id, name = fields.get("tool_call_id"), fields.get("name") or fields.get("tool_name")
    return base.identifier(call_id), base.identifier(name)


def failed(fields: base.Fields) -> bool:
    """Whether a result says that its tool failed; only OpenClaw's can."""
    return fields["role"] == "toolResult" and fields.get("isError") is True


def called(block: base.Fields) -> tuple[str | None, str | None, str]:
    """The id, the name and the arguments of a call that is a block."""
    arguments = block.get("input") if block.get("arguments") is None else block["arguments"]
    return (
        base.identifier(block.get("id")),
        base.identifier(block.get("name")),
        base.arguments_text(arguments),
    )


def _read_block(kind: str, block: base.Fields, path: str) -> Iterable[Part]:
    if kind == "refusal":
        return (Part("text", base.string(block, "refusal", path)),)
    if kind in CALLS or kind == "tool_use":
        return (Part("tool_call", "", *called(block)),)
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        return (Part("reasoning", block["thinking"], size=base.opaque_size(block, "thinkingSignature")),)
    return base.known_parts(kind, block)


def _reasoning(fields: base.Fields) -> Iterable[Part]:
    """The reasoning of compatible servers, under ``reasoning_content`` or ``reasoning``."""
    for key in ("reasoning_content", "reasoning"):
        text = fields.get(key)
        if isinstance(text, str):
            return (Part("reasoning", text),)
    return ()


def _voice(fields: base.Fields) -> Iterable[Part]:
    refusal = fields.get("refusal")
    if isinstance(refusal, str):
        yield Part("text", refusal)
    audio = as_fields(fields.get("audio"))
    if audio is not None:
        yield from base.known_parts("audio", audio)
        if isinstance(audio.get("transcript"), str):
            yield Part("other", audio["transcript"])


def _calls(fields: base.Fields) -> Iterable[Part]:
    calls = fields.get("tool_calls")
    if calls is not None and not isinstance(calls, (list, tuple)):
        raise base.Malformed("tool_calls", "a list of calls", calls)
    for place, item in enumerate(calls or ()):
        call = as_fields(item)
        if call is None:
            raise base.Malformed(f"tool_calls[{place}]", "a call", item)
        yield _call(call, f"tool_calls[{place}]")
    legacy = fields.get("function_call")
    if legacy is not None:
        function = as_fields(legacy)
        if function is None:
            raise base.Malformed("function_call", "a call", legacy)
        yield _call({"function": function}, "function_call")


def _call(call: base.Fields, path: str) -> Part:
    """A call of any type. Its name and arguments stand under the key that is named as the type."""
    kind = call.get("type")
    if not isinstance(kind, str):
        kind = "function"
    called = as_fields(call.get(kind))
    if called is None:
        raise base.Malformed(f"{path}.{kind}", "what is called", call.get(kind))
    name = base.identifier(called.get("name"))
    arguments = called.get("input") if kind == "custom" else called.get("arguments")
    return Part("tool_call", "", base.identifier(call.get("id")), name, base.arguments_text(arguments))


# The rules of the OpenAI chat completions API.
#
# Roles may follow each other in any order, and rules may stand anywhere. The provider refuses a call if its
# results do not follow directly, before any other message.


def check(history: base.Placed, pending_ok: bool) -> Iterator[base.Finding]:
    """The findings, in no order."""
    ledger = base.Ledger()
    for position, message in history:
        if message.role != "tool":
            yield from ledger.close()
        if not message.parts:
            yield base.Finding(position, "empty-content", f"the {message.role} message has no content")
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                yield from ledger.answer(position, part, results)
                results += 1
    if not pending_ok:
        yield from ledger.close()


# Repairs an OpenAI chat history.


def is_healed(message: Message, finding: base.Finding) -> bool:  # noqa: ARG001 - each dialect has its own answer
    """Whether :func:`mend` repairs *finding*: all faults of calls and results."""
    return finding.rule in base.HEALED


def mend(
    raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: base.Faults
) -> list[RawMessage]:
    """The history with complete exchanges; a quotation stands after the exchange of its result."""
    mended: list[RawMessage] = []
    missing: list[RawMessage] = []
    quotes: list[RawMessage] = []
    start = waits = 0
    for position, (raw, message) in enumerate(zip(raws, messages, strict=True)):
        found = faults.get(position, ())
        if message is None:
            mended.append(raw)
        elif message.role != "tool":
            mended += (*missing, *quotes)
            start, quotes = len(mended), []
            missing = [_no_result(message, finding) for finding in found]
            waits = len(base.calls_of(message)) - len(missing)
            mended.append(raw)
        elif found:
            quotes += base.quotations(message, found)
        else:
            waits -= 1
            mended.append(raw)
    if waits > 0:  # calls still wait for their results: no message may stand after them
        mended[start:start] = quotes
        return [*mended, *missing]
    return [*mended, *missing, *quotes]


def _no_result(message: Message, finding: base.Finding) -> RepairedMessage:
    part = base.nth_call(message, finding)
    fields = as_fields(message.raw) or {}
    if not fields.get("tool_calls") and fields.get("function_call") is None:
        text = [{"type": "text", "text": base.NO_RESULT}]
        ids = {"toolCallId": part.call_id, "toolName": part.name}
        return RepairedMessage(role="toolResult", **ids, content=text, isError=True)
    if part.call_id is not None:
        return RepairedMessage(role="tool", tool_call_id=part.call_id, content=base.NO_RESULT)
    if fields.get("function_call") is not None:
        return RepairedMessage(role="function", name=part.name, content=base.NO_RESULT)
    return RepairedMessage(role="tool", tool_name=part.name, content=base.NO_RESULT)
