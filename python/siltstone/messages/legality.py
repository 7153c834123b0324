"""Finds messages that a provider would refuse, and repairs a history that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

from siltstone.errors import InvalidMessageError
from siltstone.messages.dialects import anthropic, openai_chat, openai_responses
from siltstone.messages.dialects.base import Finding as Finding, Placed, Quotation, Rule as Rule
from siltstone.messages.message import (
    REFERENCE,
    RULE_ROLES,
    Dialect,
    Message,
    PartKind,
    RawMessage,
    as_fields,
)
from siltstone.messages.read import read_message

# Counts the calls and results of a history that have lost their counterpart.


def broken_tool_groups(history: Iterable[RawMessage | Message]) -> int:
    """The number of messages with a result without an earlier call, or with a call that can get no result.

    A provider refuses such a history. A call may lack its result only at the very end, where only results
    and further calls of the same answer follow it. This function checks :func:`groups`, so it shares no code
    with it: it looks only at ids and positions.
    """
    messages = [_as_message(item, place) for place, item in enumerate(history)]
    called: set[object] = set()
    referred = False
    broken: set[int] = set()
    unanswered: dict[object, int] = {}
    for place, message in enumerate(messages):
        for part in message.parts:
            key = part.call_id or ("named", part.name)
            if part.kind == "tool_call":
                if key in unanswered and part.call_id:
                    broken.add(unanswered[key])
                called.add(key)
                unanswered[key] = place
            elif part.kind == "tool_result":
                unanswered.pop(key, None)
                if key not in called and not referred:
                    broken.add(place)
            elif part.kind == "other" and part.name == REFERENCE:
                referred = True  # the reference may stand for any call
    end = _start_of_last_exchange(messages)
    return len(broken | {place for place in unanswered.values() if place < end})


def _start_of_last_exchange(messages: list[Message]) -> int:
    """The place of the calls that the trailing results belong to."""
    place = len(messages)
    while place > 0 and _is(messages[place - 1], "tool_result"):
        place -= 1
    while place > 0 and (_is(messages[place - 1], "tool_call") or _is_item(messages[place - 1])):
        place -= 1
    return place


def _is(message: Message, kind: PartKind) -> bool:
    """Whether *message* is of the assistant and has calls, or of another role and has results."""
    if (message.role == "assistant") != (kind == "tool_call"):
        return False
    return any(part.kind == kind for part in message.parts)


def _is_item(message: Message) -> bool:
    """Whether *message* is one item of an assistant's answer; other items may stand before it."""
    return message.role == "assistant" and message.dialect == "openai.responses"


def _as_message(item: RawMessage | Message, place: int) -> Message:
    return item if isinstance(item, Message) else read_message(item, place)


# Finds messages that a provider would refuse; one file for each dialect.

_CHECKS: Final[Mapping[str, Callable[[Placed, bool], Iterator[Finding]]]] = {
    "any": openai_chat.check,
    "openai.chat": openai_chat.check,
    "openai.responses": openai_responses.check,
    "anthropic": anthropic.check,
}


def validate_history(
    raws: Iterable[RawMessage | Message], dialect: Dialect | None = None, *, pending_ok: bool = True
) -> list[Finding]:
    """The messages of a history that the provider would refuse, by position; an empty list for a legal one.

    Consecutive messages of one role are legal in every dialect. Time is linear.

    Args:
        raws: The messages as they would be sent, or messages that are already read.
        dialect: The dialect whose rules apply; by default the dialect of the first distinctive message.
        pending_ok: Whether calls of the last answer may still wait for their results, and the answer may be
            unfinished. Give False for a history that is about to be sent.

    Raises:
        InvalidMessageError: there is no such dialect.
    """
    findings: list[Finding] = []
    history = list(_read(raws, findings))
    held = dialect or dialect_of(message for _, message in history)
    check = _CHECKS.get(held)
    if check is None:
        known = ", ".join(map(repr, _CHECKS))
        raise InvalidMessageError(f"unknown dialect {held!r}; known are {known}", dialect=held)
    findings += _foreign(history, held)
    findings += check(history, pending_ok)
    return sorted(findings, key=lambda finding: finding.position)


def _read(raws: Iterable[RawMessage | Message], findings: list[Finding]) -> Iterator[tuple[int, Message]]:
    """The messages that can be read; the others become *findings*."""
    for position, raw in enumerate(raws):
        if isinstance(raw, Message):
            yield position, raw
            continue
        try:
            yield position, read_message(raw, position)
        except InvalidMessageError as error:
            findings.append(Finding(position, "malformed", str(error)))


def dialect_of(history: Iterable[Message]) -> Dialect:
    """The dialect of the first distinctive message; OpenAI chat if all messages are plain."""
    return next((message.dialect for message in history if _is_telling(message)), "openai.chat")


def _foreign(history: Placed, dialect: Dialect) -> Iterator[Finding]:
    for position, message in history:
        if message.dialect != dialect and dialect != "any" and _is_telling(message):
            said = f"it is a message of {message.dialect}, in a history of {dialect}"
            yield Finding(position, "foreign", said)


def _is_telling(message: Message) -> bool:
    """Whether the dialect of *message* is certain. A plain ``developer`` message belongs to two dialects."""
    if message.dialect == "any":
        return False
    if message.role != "developer" or message.dialect != "openai.chat":
        return True
    fields: Mapping[str, Any] = as_fields(message.raw) or {}
    return not isinstance(fields.get("content"), str)


# Repairs a history whose calls and results do not match; one file for each dialect.

_MENDERS: Final[dict[Dialect, ModuleType]] = {
    "any": openai_chat,
    "openai.chat": openai_chat,
    "openai.responses": openai_responses,
    "anthropic": anthropic,
}

#: Rules about a result that leaves a request, because its call is not there to be answered.
_LEAVING: Final = frozenset({"orphan-result", "duplicate-result"})

# A removed call may leave its reasoning or its output alone. The next pass repairs these; two more are spare.
_PASSES = 4


@dataclass(frozen=True, slots=True)
class Repaired:
    """A history in which every call and every result has its other half.

    Attributes:
        messages: The history. An unchanged message is the same object.
        findings: The faults that were repaired, by their position in the given list.
    """

    messages: list[Any]
    findings: tuple[Finding, ...]


def repair(raws: Iterable[RawMessage | Message], dialect: Dialect | None = None) -> Repaired:
    """Makes a history legal whose calls and results do not match.

    - A result without a call, a result after its exchange, and a second result become a user message that
      quotes the result as untrusted text, cut at 1,024 code points. Text beside it stays.
    - A call that can no longer get a result gets an artificial one that says so. If no such result is
      possible (a screenshot), the call is removed. Calls of the last answer may still wait.
    - A result that stands after other content of its turn is moved before this content.
    - A Responses call with the id of a call that still waits is removed: an output could not tell which of
      the two it answers.
    - Reasoning without the item that it led to is removed as a whole; it is never edited.

    Nothing else is changed. A legal history is returned as it is; so a second repair changes nothing.

    Args:
        raws: The messages as they would be sent, or messages that are already read; these are not read again.
        dialect: As for :func:`validate_history`.

    Raises:
        InvalidMessageError: there is no such dialect.
    """
    return _repaired(list(raws), dialect, pending_ok=True)


def sendable(history: Sequence[Message]) -> Repaired | None:
    """*history* in a form that its provider takes; None if no repair is needed.

    As :func:`repair`, and so that nothing waits: the calls of the last answer get an artificial result too.
    Results without a call, and second results, are left out instead of quoted, because the log has them. They
    are quoted if nothing else is left, or if an answer of the assistant would begin a history of Anthropic.

    The calls and results decide the dialect: a framework may have blocks of another one in its messages, such
    as the reasoning of a model. If they are of several dialects, the history is left alone: nobody can send
    it as it is. OpenClaw can, which has the calls of every dialect and one form of results.
    """
    if not (loose := [message for message in history if message.said is None]):
        return None  # no call, no result and no reasoning can be without its counterpart
    tied = [message for message in loose if _is_tied(message)]
    answers = [message for message in tied if any(part.kind == "tool_result" for part in message.parts)]
    roles = {(as_fields(message.raw) or {}).get("role") for message in answers}
    is_hosted = roles == {"toolResult"}
    dialect = openai_chat.NAME if is_hosted else dialect_of(tied or history)
    found = validate_history(history, dialect, pending_ok=False)
    mender = _MENDERS[dialect]
    foreign = (each for each in found if each.rule == "foreign" and _is_tied(history[each.position]))
    if not any(_is_healed(mender, history, each) for each in found) or (any(foreign) and not is_hosted):
        return None
    repaired = _repaired(list(history), dialect, pending_ok=False)
    kept = [raw for raw in repaired.messages if not (isinstance(raw, Quotation) and raw.rule in _LEAVING)]
    first = next((role for raw in kept if (role := read_message(raw, 0).role) not in RULE_ROLES), None)
    if first is None or (first == "assistant" and dialect == "anthropic"):
        return repaired
    return Repaired(kept, repaired.findings)


def _repaired(given: list[RawMessage | Message], dialect: Dialect | None, *, pending_ok: bool) -> Repaired:
    messages = [item.raw if isinstance(item, Message) else item for item in given]
    places = {id(raw): place for place, raw in enumerate(messages)}
    reader = _Reader(item for item in given if isinstance(item, Message))
    healed: list[Finding] = []
    for _ in range(_PASSES):
        read = [reader.read(raw, place) for place, raw in enumerate(messages)]
        held = dialect or dialect_of(message for message in read if message is not None)
        mender = _MENDERS.get(held, openai_chat)
        readable = [raw if message is None else message for raw, message in zip(messages, read, strict=True)]
        faulty = validate_history(readable, held, pending_ok=pending_ok)
        found = [each for each in faulty if _is_healed(mender, read, each)]
        if not found:
            break
        placed = [(places.get(id(messages[each.position])), each) for each in found]
        healed += [replace(each, position=place) for place, each in placed if place is not None]
        faults: dict[int, list[Finding]] = {}
        for each in found:
            faults.setdefault(each.position, []).append(each)
        messages = mender.mend(messages, read, faults)
    return Repaired(messages, tuple(sorted(healed, key=lambda each: each.position)))


def _is_tied(message: Message) -> bool:
    """Whether *message* has a call or a result."""
    return any(part.kind in ("tool_call", "tool_result") for part in message.parts)


def _is_healed(mender: ModuleType, read: Sequence[Message | None], finding: Finding) -> bool:
    message = read[finding.position]
    return message is not None and bool(mender.is_healed(message, finding))


class _Reader:
    """Reads each message only once, for any number of passes."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._read: dict[int, tuple[RawMessage, Message | None]] = {}  # raws are held: ids stay valid
        for message in messages:
            self._read[id(message.raw)] = message.raw, message

    def read(self, raw: RawMessage, place: int) -> Message | None:
        """The message of *raw*; None if it cannot be read. A repair leaves such a message where it is."""
        known = self._read.get(id(raw))
        if known is None:
            known = self._read[id(raw)] = raw, _readable(raw, place)
        return known[1]


def _readable(raw: RawMessage, place: int) -> Message | None:
    try:
        return read_message(raw, place)
    except InvalidMessageError:
        return None
