"""A message: a small description of the caller's own object, in the same form for all dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from siltstone.errors import ConfigError, InvalidMessageError, refuse

# Turns an SDK's own object, or a mapping that is not a dict, into a plain dict.


def as_fields(value: object) -> Mapping[str, Any] | None:
    """*value* as a mapping: a mapping itself, or the dump of an SDK's object; None for any other value.

    Raises:
        TypeError: it is an object that should dump itself, and cannot.
    """
    if isinstance(value, Mapping):
        return value
    return _dumped(value)


def as_json_value(value: object) -> Any:
    """The ``default`` hook of the JSON encoder: mappings become dicts, SDK objects become their dumps.

    Raises:
        TypeError: *value* is neither, or cannot dump itself.
    """
    if isinstance(value, Mapping):
        return dict(value)
    fields = _dumped(value)
    if fields is None:
        raise TypeError(f"{type(value).__name__} is not JSON serializable")
    return fields


def _dumped(value: object) -> dict[str, Any] | None:
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        return None
    try:
        # The SDKs themselves send back only the fields that were set. An object that was built by hand may
        # have its type or its role from a default; then the defaults are dumped too.
        fields = dump(mode="json", exclude_unset=True)
        if isinstance(fields, dict) and "type" not in fields and "role" not in fields:
            fields = dump(mode="json", exclude_none=True)
    except Exception as error:
        raise TypeError(f"{type(value).__name__} cannot dump itself: {error}") from error
    return fields if isinstance(fields, dict) else None


# The mark of a summary: the last line of its text, by which it is recognised after any store or network.
#
# The line has the level, the numbers of the covered messages, and a digest of the text before it::
#
#     [Summary level 2, messages 1-40, 43: 9f3ac1d2e4]
#
# The digest also has the role of the message, if it is the assistant's.
# So a summary is still recognised after JSON, a copy or a database, which keep only a role and a text. A
# text that was cut, edited or invented does not match its digest, and is not a summary.

SummaryRole: TypeAlias = Literal["user", "assistant"]
SUMMARY_ROLES: Final[tuple[SummaryRole, ...]] = ("user", "assistant")

_LEAD: Final = "\n\n[Summary level "
_LINE: Final = re.compile(
    r"\[Summary level ([1-9][0-9]{0,8}), messages "
    r"([0-9]{1,18}(?:-[0-9]{1,18})?(?:, [0-9]{1,18}(?:-[0-9]{1,18})?)*): ([0-9a-f]{10})\][ \t\r\n]*"
)


@dataclass(frozen=True, slots=True)
class SummaryMark:
    """The content of the last line of a summary.

    Attributes:
        level: 1 for a summary of messages, else one more than the highest summary it replaced.
        covers: The half-open ranges of sequence numbers that it replaces, ascending and disjoint.
        role: The role of its message.
    """

    level: int
    covers: tuple[tuple[int, int], ...]
    role: SummaryRole = "user"


def marked(text: str, covers: Sequence[tuple[int, int]], level: int, role: SummaryRole = "user") -> str:
    """*text* with its mark as the last line. An older mark is replaced.

    If *covers* are empty, the text gets no mark.
    """
    body = unmarked(text)
    if not covers:
        return body
    ranges = ranges_in_words(covers)
    return f"{body}{_LEAD}{level}, messages {ranges}: {_check(body, level, ranges, role)}]"


def unmarked(text: str) -> str:
    """*text* without its mark. A line that only looks like a mark stays."""
    found = _read(text)
    return text if found is None else found[0]


def read_mark(text: str) -> SummaryMark | None:
    """The mark of *text*; None if there is none, or if its digest does not match the text."""
    found = _read(text)
    return None if found is None else found[1]


def ranges_in_words(ranges: Sequence[tuple[int, int]]) -> str:
    """Half-open ranges in words, with both ends included: ``3-17, 20``."""
    return ", ".join(str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in ranges)


def ascend(covers: Sequence[tuple[int, int]]) -> bool:
    """Whether half-open ranges ascend from 0 on and are disjoint; adjacent ranges need not be joined."""
    last = 0
    for start, end in covers:
        if not last <= start < end:
            return False
        last = end
    return True


def _read(text: str) -> tuple[str, SummaryMark] | None:
    place = text.rfind(_LEAD)
    line = _LINE.fullmatch(text, place + 2) if place >= 0 else None
    if line is None:
        return None
    level, ranges, check = int(line[1]), line[2], line[3]
    body = text[:place]
    role = next((each for each in SUMMARY_ROLES if check == _check(body, level, ranges, each)), None)
    if role is None:
        return None
    covers = tuple(_range(words) for words in ranges.split(", "))
    return (body, SummaryMark(level, covers, role)) if ascend(covers) else None


def _range(words: str) -> tuple[int, int]:
    start, _, last = words.partition("-")
    return int(start), int(last or start) + 1


def _check(body: str, level: int, ranges: str, role: SummaryRole) -> str:
    """The digest of a mark. UTF-16 gives the same bytes before and after JSON, also for lone surrogates."""
    from hashlib import blake2b  # it loads OpenSSL

    of = "" if role == "user" else f"{role}|"
    said = f"{of}{level}|{ranges}|{body}".encode("utf-16-le", "surrogatepass")
    return blake2b(said, digest_size=5, person=b"siltstone-sum").hexdigest()


Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
"""``system`` and ``developer`` carry rules; ``tool`` is OpenAI's role of a tool result."""

PartKind: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "blob", "compaction", "other"]
"""``compaction`` is a summary that the provider made: it is sent back as it came, and never indexed."""

Provenance: TypeAlias = Literal[
    "original",
    "compaction_summary",
    "injected_context",
    "recalled_context",
    "placeholder",
    "repaired",
    "substitute",
]
"""The origin of a message. Only ``original`` messages are indexed. They open turns, and so does a
``substitute``, the shorter text that replaces an original."""

Dialect: TypeAlias = Literal["any", "openai.chat", "openai.responses", "anthropic"]
"""``any`` is a plain ``{"role", "content": str}``, which reads alike in every dialect."""


class LiveObject(Protocol):
    """A message, or a block of one, as an SDK's own object: anything that dumps itself as pydantic does."""

    def model_dump(
        self, *, mode: str = "python", exclude_unset: bool = False, exclude_none: bool = False
    ) -> dict[str, Any]:
        """The object as a dict."""


RawMessage: TypeAlias = Mapping[str, Any] | LiveObject
"""A message as the caller has it. It is never changed, and comes back as the same object."""

RequestRule: TypeAlias = Callable[[str], bool]
"""A function: whether a text beside tool results is from the user, or a reminder of the host."""


RULE_ROLES: Final = frozenset({"system", "developer"})
"""Roles that carry rules: their messages are never discarded while they are in force."""

SAID: Final = frozenset({"original", "substitute"})
"""The provenances of messages of the conversation, whole or cut."""

REFERENCE: Final = "item_reference"
"""The name of an ``other`` part that refers to data which only the provider can read."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message.

    Attributes:
        kind: The kind of the part.
        text: The text that is indexed, counted and shown to a summariser. A blob has a placeholder such as
            ``[image: image/png]``. Reasoning keeps its text, but is never indexed.
        call_id: For a tool call or a tool result, the id that ties them together. Media inside a result are
            separate parts after it, with its id. An ``other`` part with an id belongs to the same group.
        name: For a tool call, the tool's name; for a result too, if the dialect has it there.
        arguments: For a tool call, its arguments as JSON text; a text is kept as received.
        is_error: For a tool result, whether the tool failed.
        modality: For a blob ``image``, ``audio``, ``video`` or ``document``; for an ``other`` part
            ``document`` if it carries inline data.
        size: For a blob, the bytes of inline data as sent (base64), 0 for a reference; for reasoning, the
            bytes of its signature, or of its encrypted or redacted data; for an ``other`` part without a
            text, the bytes of its JSON without inline data.
        duration_ms: For an audio or video blob, its duration in milliseconds, 0 if unknown.
        extent: For a blob with inline data, width and height of a picture in pixels, or the number of pages
            of a PDF; empty if unknown.
        detail: For a picture, the detail in which the model is asked to see it, such as ``low``.
    """

    kind: PartKind
    text: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    is_error: bool = False
    modality: Literal["image", "audio", "video", "document"] | None = None
    size: int = 0
    duration_ms: int = 0
    extent: tuple[int, ...] = ()
    detail: str = ""


class _Said:
    """Slots beside the fields of a message."""

    __slots__ = ("kept", "said")

    said: str | None  #: the text of a message that is one text and nothing else; None of any other message
    kept: dict[Any, Any]  #: values that were made of the message, by whatever its maker knows them by


@dataclass(frozen=True, slots=True)
class Message(_Said):
    """A message with its place in the session.

    Most messages are one text. Such a message is made by :meth:`of_text`, and its parts when they are first
    asked for: a long session is opened in half the time, and its texts stay as they were read, also if the
    caller changes ``raw``.

    Attributes:
        seq: Absolute sequence number, which never changes. A summary has the number of the first message that
            it covers.
        role: The role of the speaker, by the common names of ``Role``.
        parts: Its parts, in order.
        raw: The caller's own object.
        dialect: The dialect of ``raw``.
        provenance: Its origin.
        covers: For a summary, the half-open ranges of sequence numbers that it replaces, ascending and
            disjoint.
    """

    seq: int
    role: Role
    parts: tuple[Part, ...]
    raw: RawMessage
    dialect: Dialect = "any"
    provenance: Provenance = "original"
    covers: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_text(cls, seq: int, role: Role, said: str, raw: RawMessage) -> Message:
        """A message that has *said* one text and nothing else, in the words of every dialect."""
        message = cls.__new__(cls)
        _SET_SEQ(message, seq)
        _SET_ROLE(message, role)
        _SET_SAID(message, said)
        _SET_RAW(message, raw)
        _SET_DIALECT(message, "any")
        _SET_PROVENANCE(message, "original")
        _SET_COVERS(message, ())
        return message

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Makes what a message does not have yet. Two threads that ask at once make equal parts."""
            if name == "said":  # it was made from its parts
                _SET_SAID(self, None)
                return None
            if name == "kept":
                kept: dict[Any, Any] = {}
                _SET_KEPT(self, kept)
                return kept
            if name == "parts" and self.said is not None:
                parts = (Part("text", self.said),)
                _SET_PARTS(self, parts)
                return parts
            raise AttributeError(f"a message has no {name!r}", name=name, obj=self)

    @property
    def text(self) -> str:
        """The texts of its ``text`` parts, joined by line breaks."""
        if self.said is not None:
            return self.said
        return "\n".join(part.text for part in self.parts if part.kind == "text" and part.text)

    def numbered(self, seq: int) -> Message:
        """The same message with the number *seq*."""
        if self.seq == seq:
            return self
        if self.said is not None:
            return Message.of_text(seq, self.role, self.said, self.raw)
        return Message(seq, self.role, self.parts, self.raw, self.dialect, self.provenance, self.covers)


# A checker takes the class's attribute for the value.
_SET_SAID, _SET_KEPT = (getattr(_Said, name).__set__ for name in ("said", "kept"))
_SET_SEQ, _SET_ROLE, _SET_PARTS, _SET_RAW, _SET_DIALECT, _SET_PROVENANCE, _SET_COVERS = (
    getattr(Message, field).__set__ for field in Message.__annotations__
)


class SummaryMessage(dict[str, "Any"]):
    """The raw message of a summary: a plain dict for every SDK, recognised by the last line of its text.

    That line is its mark. It has the level, the covered ranges and a digest of the text. So a summary is
    still recognised after JSON, a copy or a database. A text that only looks like a summary is a message.

    Args:
        text: The text of the message. The mark is added at its end, and replaces an older one.
        covers: The half-open ranges of sequence numbers that it replaces, ascending and disjoint.
        level: 1 for a summary of messages, else one more than the highest summary it replaced.
        role: The role of the message. None: that of the mark in *text*, else ``user``.

    Raises:
        InvalidMessageError: *covers* do not ascend, or are not disjoint.
    """

    def __init__(
        self, text: str, covers: tuple[tuple[int, int], ...], level: int = 1, role: SummaryRole | None = None
    ) -> None:
        if not ascend(covers):
            raise InvalidMessageError(
                f"the ranges a summary covers must ascend and be disjoint, got {covers!r}", key="covers"
            )
        if role is None:
            mark = read_mark(text)
            role = "user" if mark is None else mark.role
        super().__init__(role=role, content=marked(text, covers, level, role))
        self.covers = covers
        self.level = level


class RepairedMessage(dict[str, "Any"]):
    """The raw message that a repair has written: a plain dict for every SDK, recognised by its type.

    It is read with the provenance ``repaired``: it opens no turn and is never indexed.
    """


class SubstituteMessage(dict[str, "Any"]):
    """The raw message that replaces a larger one: a plain dict for every SDK.

    It is read with the provenance ``substitute``: it opens a turn if its original does, and is never indexed.
    After JSON it is an ordinary message.

    Attributes:
        kind: The kind of the replacement: ``clamped``, ``words``, or a policy's own word.
    """

    def __init__(self, fields: Mapping[str, Any], kind: str) -> None:
        super().__init__(fields)
        self.kind = kind


class InjectedMessage(dict[str, "Any"]):
    """The raw message that a hook has added: a plain dict for every SDK, recognised by its type.

    It is read with the provenance ``injected_context``: it opens no turn and is never indexed.
    """


class RecalledMessage(dict[str, "Any"]):
    """The raw message of a recalled block: a plain dict for every SDK, recognised by its type.

    It is read with the provenance ``recalled_context``: it opens no turn, is never indexed, and leaves
    before the next block is placed.
    """

    def __init__(self, text: str) -> None:
        super().__init__(role="user", content=text)


class KeyedSystemMessage(dict[str, "Any"]):
    """A versioned system text: of all texts with one key the highest version holds, the first of equal ones.

    Among equal versions the first is in force. The message is a plain dict for every SDK, recognised by its
    type. Older versions leave with the next compaction, and no summariser reads them. The log of a session
    keeps key and version. JSON text of the host loses them; then it is an ordinary system message, which is
    never discarded.

    Args:
        content: The text.
        key: The name that all versions share.
        version: 1 or more.
    """

    def __init__(self, content: str, key: str, version: int) -> None:
        super().__init__(role="system", content=content)
        if not isinstance(key, str) or not key:
            raise ConfigError(f"key must be a text that is not empty, got {key!r}", field="key", value=key)
        if type(version) is not int or version < 1:
            refuse("version", "an integer >= 1", version)
        self.key = key
        self.version = version


class HostedMessage(dict[str, "Any"]):
    """A message of a host's framework: a plain dict for every SDK, and beside it the framework's own form.

    No model sees that form, no search finds it, and it does not count when messages are compared. The log of
    a session keeps it, so that the framework gets its message back with all ids, times and signatures.

    """

    __slots__ = ("_host",)

    def __init__(self, fields: Mapping[str, Any], host: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._host = host

    @property
    def host(self) -> Mapping[str, Any]:
        """The framework's form as a JSON object; empty if there is none."""
        return self._host


def provenance_of(raw: RawMessage) -> Provenance:
    """The origin of *raw* by its type; ``original`` for any other type."""
    if isinstance(raw, RepairedMessage):
        return "repaired"
    if isinstance(raw, RecalledMessage):
        return "recalled_context"
    if isinstance(raw, SubstituteMessage):
        return "substitute"
    return "injected_context" if isinstance(raw, InjectedMessage) else "original"
