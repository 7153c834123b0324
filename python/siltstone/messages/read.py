"""Reads a caller's message as a ``Message``, and refuses any other value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from siltstone.errors import InvalidMessageError
from siltstone.messages.dialects import anthropic, openai_chat, openai_responses
from siltstone.messages.dialects.base import Malformed
from siltstone.messages.json_text import check_carried, unwritable
from siltstone.messages.message import (
    Dialect,
    Message,
    Part,
    Provenance,
    RawMessage,
    Role,
    as_fields,
    provenance_of,
)

Reader: TypeAlias = Callable[[Mapping[str, Any]], tuple[Role, tuple[Part, ...]]]

_READERS: Final[dict[Dialect, tuple[Reader, dict[str, Role]]]] = {
    # A message that is equal in all dialects is read by the dialect with the most roles.
    "any": (openai_chat.read, openai_chat.ROLES),
    "openai.chat": (openai_chat.read, openai_chat.ROLES),
    "openai.responses": (openai_responses.read, openai_responses.ROLES),
    "anthropic": (anthropic.read, anthropic.ROLES),
}

#: Names of speakers, which frameworks have as the type of a message, without a role.
_SPEAKER_TYPES: Final = frozenset({
    "human", "ai", "user", "assistant", "system", "developer", "tool", "function", "chat", "remove",
    "constructor",
})  # fmt: skip

#: Keys that a block of Bedrock's Converse API has in the place of a type.
_CONVERSE: Final = frozenset({
    "text", "toolUse", "toolResult", "image", "document", "video", "reasoningContent",
})  # fmt: skip

#: Who reads the messages of a framework, by the package of their classes.
_READ_BY: Final = {
    "langchain_core": "siltstone.adapters.langchain reads LangChain's messages; elsewhere give the dicts of "
    "langchain_core.messages.convert_to_openai_messages",
    "pydantic_ai": "siltstone.adapters.pydantic_ai reads the messages of pydantic-ai",
    "agent_framework": "siltstone.adapters.agent_framework reads the messages of Agent Framework",
    "openai": "of an answer, give response.choices[0].message, or the items *response.output",
    "anthropic": 'of an answer, give {"role": "assistant", "content": message.content}',
    "agents": "siltstone.adapters.openai_agents reads the items of a run; elsewhere give the dict of "
    "item.to_input_item()",
}

_PLAIN = 2  # fields of a message that has a role and a content, and nothing else
_CHAT_ROLES: Final = tuple(openai_chat.ROLES.keys() - anthropic.ROLES.keys())  # a role may be unhashable
_NO_DIALECT = frozenset({None, "any"})
_SPEAKERS: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
_CERTAINLY_CARRIED = 1 << 20  #: code points of a text that is within the limit in any spelling


def read_message(
    raw: RawMessage,
    seq: int,
    *,
    dialect: Dialect | None = None,
    provenance: Provenance = "original",
    is_stored: bool = False,
) -> Message:
    """The ``Message`` for a caller's message. *raw* is kept as it is, and never changed.

    Args:
        raw: A dict, any other mapping, or an SDK's own object.
        seq: Its absolute sequence number.
        dialect: Its dialect; by default :func:`detect` decides.
        provenance: Its origin. With ``original`` the type of *raw* decides: a :class:`RepairedMessage` is
            ``repaired``, an :class:`InjectedMessage` is ``injected_context``. This function never reads a
            summary: use :func:`read_history` for a summary in a list, and :func:`read_summary` for a known
            one.
        is_stored: Whether it comes from the log. Its size was checked when it was appended.

    Raises:
        InvalidMessageError: it is not a message; carries ``index`` (*seq*), ``key`` and ``value_type``, or
            ``role``, or ``path``.
        MessageTooLargeError: it is over ``MAX_MESSAGE_BYTES``; carries ``size`` and ``limit``.
    """
    if type(raw) is dict and len(raw) == _PLAIN and provenance == "original" and dialect in _NO_DIALECT:
        said = raw.get("content")
        speaker = _SPEAKERS.get(raw["role"]) if type(raw.get("role")) is str else None
        if speaker is not None and type(said) is str and (is_stored or len(said) <= _CERTAINLY_CARRIED):
            return Message.of_text(seq, speaker, said, raw)
    dialect, role, parts = project(raw, seq, dialect, is_stored=is_stored)
    if provenance == "original":
        provenance = provenance_of(raw)
    return Message(seq, role, parts, raw, dialect, provenance)


def read_summary(raw: RawMessage, covers: tuple[tuple[int, int], ...]) -> Message:
    """The ``Message`` of a known summary that replaces *covers*, at least one range."""
    dialect, role, parts = project(raw, covers[0][0])
    return Message(covers[0][0], role, parts, raw, dialect, "compaction_summary", covers)


def validate(raw: RawMessage, *, index: int = 0, dialect: Dialect | None = None) -> None:
    """Raises the errors of :func:`read_message`, with *index* as the message's place."""
    project(raw, index, dialect)


def detect(raw: RawMessage) -> Dialect:
    """The dialect of one message, by its first distinctive feature; ``any`` if it has none.

    The features are checked in this order: a type instead of a role, or the type of an item (the Responses
    API); a role or a key that only OpenAI chat has; a block type that only one dialect has.

    Raises:
        InvalidMessageError: *raw* is not a mapping, nor an object that dumps itself as one.
    """
    fields = raw if type(raw) is dict else as_fields(raw)
    if fields is None:
        raise _not_a_mapping(raw, "the message")
    return _detect(fields)


def project(
    raw: RawMessage, index: int, dialect: Dialect | None = None, *, is_stored: bool = False
) -> tuple[Dialect, Role, tuple[Part, ...]]:
    """The dialect, the role and the parts of *raw*; *index* is its place, for errors."""
    try:
        return _project(raw, index, dialect, is_stored)
    except Malformed as fault:
        raise _malformed(fault, index) from None
    except InvalidMessageError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise unwritable(raw, name=f"message {index}", index=index) from error


def _project(
    raw: RawMessage, index: int, dialect: Dialect | None, is_stored: bool
) -> tuple[Dialect, Role, tuple[Part, ...]]:
    fields = raw if type(raw) is dict else as_fields(raw)
    if fields is None:
        raise _not_a_mapping(raw, f"message {index}", index=index)
    if not is_stored:
        _check_form(raw, fields, index)
        check_carried(fields, index)
    dialect = dialect or _detect(fields)
    reader, roles = _reader(dialect)
    spoken = fields.get("role")
    is_item = spoken is None and dialect == openai_responses.NAME and openai_responses.item_type(fields)
    if not is_item and (not isinstance(spoken, str) or spoken not in roles):
        raise _unknown_role(spoken, roles, index, _remedy(raw))
    role, parts = reader(fields)
    return dialect, role, parts


def _check_form(raw: RawMessage, fields: Mapping[str, Any], index: int) -> None:
    """Refuses the messages of frameworks, as objects and as dicts: they would be read as something else.

    An item of the Responses API has a type and no role. Types that this version does not know are read, too,
    if they are in a dict, or in an object of the SDK.
    """
    kind, role = fields.get("type"), fields.get("role")
    if role is None and isinstance(kind, str) and kind not in openai_responses.ITEMS:
        is_sdk = type(raw).__module__.partition(".")[0] == "openai"
        is_foreign = raw is not fields and not is_sdk and not isinstance(raw, Mapping)
        if is_foreign or kind in _SPEAKER_TYPES or kind.endswith("MessageChunk") or "lc" in fields:
            raise InvalidMessageError(
                f"message {index} ({type(raw).__name__}) has no role, and no item of the Responses API has "
                f"its type {kind!r}: {_remedy(raw) if is_foreign else _READ_BY['langchain_core']}",
                index=index,
                key="type",
                value_type=type(raw).__name__,
            )
    content = fields.get("content")
    for place, block in enumerate(content if isinstance(content, list | tuple) else ()):
        if type(block) is dict and "type" not in block and not _CONVERSE.isdisjoint(block):
            raise InvalidMessageError(
                f"message {index}: 'content[{place}]' has no type: a text is "
                '{"type": "text", "text": "..."}; siltstone.adapters.strands reads the blocks of Strands',
                index=index,
                key=f"content[{place}].type",
                value_type="dict",
            )


def _remedy(raw: object) -> str:
    """What to give instead of *raw*."""
    named = [each.__module__.partition(".")[0] for each in type(raw).__mro__]
    if isinstance(raw, Mapping) and "parts" in raw:
        named = ["pydantic_ai"]
    known = next((each for each in named if each in _READ_BY), None)
    return _READ_BY[known] if known else 'give a dict such as {"role": "user", "content": "..."}'


def _detect(fields: Mapping[str, Any]) -> Dialect:
    role = fields.get("role")
    if "type" in fields or role is None:
        kind = openai_responses.item_type(fields)
        if kind in openai_responses.ITEMS or (kind and role is None and not _is_block(kind)):
            return openai_responses.NAME
    is_item = role == "developer" and fields.get("type") == "message"
    if (role in _CHAT_ROLES and not is_item) or not openai_chat.KEYS.isdisjoint(fields):
        return openai_chat.NAME
    content = fields.get("content")
    if isinstance(content, (list, tuple)):
        return _detect_blocks(content)
    if not isinstance(content, str):
        return openai_chat.NAME
    return openai_responses.NAME if fields.get("type") == "message" else "any"


def _detect_blocks(blocks: Iterable[object]) -> Dialect:
    found: Dialect = "any"
    for item in blocks:
        block = item if type(item) is dict else as_fields(item)
        kind = None if block is None else block.get("type")
        if block is None or not isinstance(kind, str):
            continue
        if kind in openai_chat.CALLS or "thinkingSignature" in block:  # OpenClaw's, also behind other blocks
            return openai_chat.NAME
        if found != "any" or (kind == "image" and "source" not in block):
            continue
        if kind in anthropic.TYPES or anthropic.is_result(kind):
            found = anthropic.NAME
        elif kind in openai_responses.TYPES:
            found = openai_responses.NAME
        elif kind in openai_chat.TYPES:
            found = openai_chat.NAME
    return found


def _is_block(kind: str) -> bool:
    """Whether *kind* is the type of a block in some dialect. A block alone is not a message."""
    blocks = (anthropic.TYPES, openai_chat.TYPES, openai_responses.TYPES, {"text", "message"})
    return anthropic.is_result(kind) or any(kind in types for types in blocks)


def _reader(dialect: Dialect) -> tuple[Reader, dict[str, Role]]:
    found = _READERS.get(dialect)
    if found is None:
        known = ", ".join(map(repr, _READERS))
        raise InvalidMessageError(f"unknown dialect {dialect!r}; known are {known}", dialect=dialect)
    return found


def _malformed(fault: Malformed, index: int) -> InvalidMessageError:
    value_type = type(fault.value).__name__
    got = "nothing" if fault.value is None else value_type
    return InvalidMessageError(
        f"message {index}: {fault.key!r} must be {fault.expected}, got {got}",
        index=index,
        key=fault.key,
        value_type=value_type,
    )


def _unknown_role(role: object, roles: Iterable[str], index: int, remedy: str) -> InvalidMessageError:
    known = ", ".join(map(repr, sorted(roles)))
    if isinstance(role, str):
        message = f"message {index}: unknown role {role!r}; known are {known}"
    else:
        got = "no role" if role is None else f"a role of type {type(role).__name__}"
        message = f"message {index} is not a message: it has {got}; known are {known}: {remedy}"
    return InvalidMessageError(message, index=index, key="role", role=role, value_type=type(role).__name__)


def _not_a_mapping(raw: object, name: str, **fields: Any) -> InvalidMessageError:
    kind = type(raw).__name__
    if isinstance(raw, list | tuple):
        remedy = "the messages of a list are given one by one, as in append(*messages)"
    else:
        remedy = _remedy(raw)
    return InvalidMessageError(
        f"{name} is not a message: expected a mapping or an SDK's message, got {kind}: {remedy}",
        value_type=kind,
        **fields,
    )
