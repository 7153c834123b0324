"""Repairs a history whose calls and results do not match; one file for each dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

from siltstone.errors import InvalidMessageError
from siltstone.messages.message import RULE_ROLES, Dialect, Message, RawMessage
from siltstone.messages.read import read_message
from siltstone.messages.repairs import anthropic, openai_chat, openai_responses
from siltstone.messages.repairs.fence import Quotation
from siltstone.messages.validators import Finding, dialect_of, validate_history

__all__ = ["Repaired", "repair", "sendable"]

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
    it as it is.
    """
    tied = [message for message in history if _is_tied(message)]
    dialect = dialect_of(tied or history)
    found = validate_history(history, dialect, pending_ok=False)
    mender = _MENDERS[dialect]
    if not any(_is_healed(mender, history, each) for each in found) or any(
        each.rule == "foreign" and _is_tied(history[each.position]) for each in found
    ):
        return None
    repaired = _repaired(list(history), dialect, pending_ok=False)
    kept = [raw for raw in repaired.messages if not (isinstance(raw, Quotation) and raw.rule in _LEAVING)]
    speakers = (role for raw in kept if (role := read_message(raw, 0).role) not in RULE_ROLES)
    first = next(speakers, None)
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
