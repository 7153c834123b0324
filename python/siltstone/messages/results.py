"""Reads the tool results of a message, and writes the message with changed results, or without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from siltstone.messages.dialects.pairs import OUTPUTS
from siltstone.messages.message import Message, SubstituteMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.read import read_message

__all__ = ["read_substitute", "with_result_texts", "with_results", "words_alone"]

_RESULT_ROLES: Final = frozenset({"tool", "function"})
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
