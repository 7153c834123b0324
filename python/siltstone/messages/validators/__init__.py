"""Finds messages that a provider would refuse; one file for each dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from siltstone.errors import InvalidMessageError
from siltstone.messages.message import Dialect, Message, RawMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.read import read_message
from siltstone.messages.validators import anthropic, openai_chat, openai_responses
from siltstone.messages.validators.base import Finding, Placed, Rule

__all__ = ["Finding", "Rule", "dialect_of", "validate_history"]

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
