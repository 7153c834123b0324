"""The tool results of a message, and the calls and results of siltstone's own tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

from siltstone.messages.dialects.base import OUTPUTS, without_inline_data
from siltstone.messages.groups import call_key
from siltstone.messages.message import Message, Part, SubstituteMessage, as_fields
from siltstone.messages.read import read_message

_RESULT_ROLES: Final = frozenset({"tool", "function", "toolResult"})
_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text"})


def with_result_texts(message: Message, change: Callable[[str], str]) -> dict[str, Any] | None:
    """The fields of *message* with each text of its tool results changed; None if nothing changes.

    Everything else stays: ids, words beside the results, media, the order of blocks. Results inside a message
    of the assistant come from the provider, and may be signed; they are never changed.
    """
    return with_results(message, lambda text, _: change(text))


def with_results(message: Message, change: Callable[[str, str | None], str]) -> dict[str, Any] | None:
    """Like :func:`with_result_texts`, with the call's id for *change*; None if the dialect has no ids."""
    if message.role == "assistant" or all(part.kind != "tool_result" for part in message.parts):
        return None
    fields = as_fields(message.raw)
    if fields is None:
        return None
    one = next((part.call_id for part in message.parts if part.kind == "tool_result"), None)

    def of_one(text: str) -> str:
        return change(text, one)

    if fields.get("role") in _RESULT_ROLES:
        changed = {**fields, "content": _changed(fields.get("content"), of_one)}
    elif fields.get("type") in OUTPUTS:
        changed = (
            {**fields, "output": _changed(fields["output"], of_one)} if "output" in fields else {**fields}
        )
    else:
        changed = {**fields, "content": [_block(item, change) for item in fields.get("content") or ()]}
    return None if changed == fields else changed


def words_alone(message: Message) -> dict[str, Any] | None:
    """The fields of a user *message* with its words, without the results beside them.

    None if it has no words, or no results.
    """
    fields = as_fields(message.raw)
    content = fields.get("content") if fields is not None and message.role == "user" else None
    if not isinstance(content, list | tuple):
        return None
    words = [item for item in content if not _is_result(item)]
    if len(words) == len(content) or not words:
        return None
    return {"role": "user", "content": words}


def without_bodies(message: Message, note: str) -> dict[str, Any] | None:
    """The fields of *message* with the text *note* in the place of each inline picture, sound or file.

    None if it has none. What an assistant made stays, since it may be signed.
    """
    fields = as_fields(message.raw)
    if fields is None or message.role == "assistant" or all(part.kind != "blob" for part in message.parts):
        return None
    kind = "input_text" if message.dialect == "openai.responses" else "text"

    def light(content: Any) -> Any:
        return [item(each) for each in content] if isinstance(content, list | tuple) else content

    def item(block: Any) -> Any:
        inner = as_fields(block)
        if inner is not None and _is_result(block):
            return {**inner, "content": light(inner.get("content"))}
        return {"type": kind, "text": note} if inner and without_inline_data(inner)[1] else block

    changed = {**fields, **{key: light(fields[key]) for key in ("content", "output") if key in fields}}
    return None if changed == fields else changed


def read_substitute(original: Message, fields: Mapping[str, Any], kind: str) -> Message:
    """The message with *fields* that replaces *original*; *kind* is the policy's name for such substitutes.

    Raises:
        InvalidMessageError: *fields* are not a message.
    """
    return read_message(SubstituteMessage(fields, kind), original.seq, dialect=original.dialect)


def _block(item: Any, change: Callable[[str, str | None], str]) -> Any:
    fields = as_fields(item) if _is_result(item) else None
    if fields is None:
        return item
    call_id = fields.get("tool_use_id")
    return {**fields, "content": _changed(fields.get("content"), lambda text: change(text, call_id))}


def _is_result(item: Any) -> bool:
    fields = None if isinstance(item, str) else as_fields(item)
    return fields is not None and fields.get("type") == "tool_result"


def _changed(content: Any, change: Callable[[str], str]) -> Any:
    """The content of a result with its texts changed; everything else stays."""
    if isinstance(content, str):
        return change(content)
    if not isinstance(content, list | tuple):
        return content
    return [_changed_text(item, change) for item in content]


def _changed_text(item: Any, change: Callable[[str], str]) -> Any:
    if isinstance(item, str):
        return change(item)
    fields = as_fields(item)
    if fields is None or fields.get("type") not in _TEXT_BLOCKS or not isinstance(fields.get("text"), str):
        return item
    return {**fields, "text": change(fields["text"])}


# Finds the calls and results of siltstone's own tools.
#
# Their results quote earlier messages. If they were indexed too, a search would find the results of earlier
# searches instead of the messages, and each result would contain the results before it.

GET_NAME: Final = "memory_get"  #: the tool by which a model reads a message that is cut
OWN_TOOLS: Final[frozenset[str]] = frozenset(
    {
        "chronicle",
        "context_compact",
        "memory_forget",
        GET_NAME,
        "memory_save",
        "memory_search",
        "memory_stats",
        "summary_expand",
    }
)
"""The names of the tools of a session, and of the further tools of the MCP server."""

# The prefix of a host: `mcp__siltstone__memory_search`, `siltstone.memory_search`, `siltstone_memory_search`.
# A single underscore also separates the words of a name, so there the prefix must end with `siltstone_`.
_PREFIX: Final = re.compile(r"(?:.*(?:__|[.:/-])|.*siltstone_)", re.DOTALL | re.IGNORECASE)


def names_own_tool(name: str | None, tools: Iterable[str] = OWN_TOOLS) -> bool:
    """Whether *name* is the name of one of *tools*, possibly with a prefix of the host."""
    if not name:
        return False
    return any(name.endswith(tool) and _is_prefix(name[: -len(tool)]) for tool in tools if tool)


def _is_prefix(text: str) -> bool:
    return not text or _PREFIX.fullmatch(text) is not None


_NO_PLACES: Final[frozenset[int]] = frozenset()


class OwnTools:
    """Walks over messages in their order, and finds the parts that are calls and results of *tools*.

    A call is known by its tool's name; a result by its call, which is the latest call before it with its id,
    as in :func:`~siltstone.messages.groups`. If no call was seen, the name in the result decides.
    """

    def __init__(self, tools: Iterable[str] = OWN_TOOLS) -> None:
        self._tools = frozenset(tools)
        self._calls: dict[Hashable, bool] = {}  # key of a call: whether its tool is ours

    def parts_of(self, message: Message) -> frozenset[int]:
        """The places of the parts of the next message that belong to *tools*."""
        if message.said is not None:  # one text is no call and no result
            return _NO_PLACES
        ties = ((place, part, _TIED.get(part.kind)) for place, part in enumerate(message.parts))
        return frozenset(place for place, part, judge in ties if judge is not None and judge(self, part))

    def _called(self, part: Part) -> bool:
        own = self._calls[call_key(part)] = names_own_tool(part.name, self._tools)
        return own

    def _answered(self, part: Part) -> bool:
        known = self._calls.get(call_key(part))
        return names_own_tool(part.name, self._tools) if known is None else known

    def _shared(self, part: Part) -> bool:
        return part.call_id is not None and self._calls.get(part.call_id, False)


_TIED: Final[dict[str, Callable[[OwnTools, Part], bool]]] = {
    "tool_call": OwnTools._called,
    "tool_result": OwnTools._answered,
    "other": OwnTools._shared,
    "blob": OwnTools._shared,  # media in a result
}
