"""Converts messages from one dialect to another, and lists every loss."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from siltstone.errors import ConversionLossError, InvalidMessageError
from siltstone.messages.conversion.neutral import Block, Call, Losses, Neutral, Result, Text
from siltstone.messages.conversion.reading import READERS, is_plain
from siltstone.messages.conversion.writing import WRITERS
from siltstone.messages.message import Dialect, RawMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.read import detect, validate

__all__ = ["Converted", "Loss", "convert"]

_log = logging.getLogger("siltstone")


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of a message that has no equal in the other dialect.

    Attributes:
        position: The message's position in the given list.
        part: The part: a key, or a block with its place and type.
        why: The reason of the loss, or the replacement of the part.
    """

    position: int
    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A history in another dialect.

    Attributes:
        messages: The history. A message that is equal in both dialects is the same object.
        losses: Parts that are missing or changed; empty for a conversion that can be reversed.
    """

    messages: list[Any]
    losses: tuple[Loss, ...]


def convert(
    messages: Iterable[RawMessage],
    to: Dialect,
    *,
    dialect: Dialect | None = None,
    on_loss: Literal["drop", "warn", "error"] = "drop",
) -> Converted:
    """*messages* in the dialect *to*, and all losses.

    Texts, calls, results, images and documents have a form in every dialect. Calls and results stay
    together: adjacent calls become one message if the dialect requires it, and late results are moved to
    their call. Reasoning, files by their id, and blocks that only one provider knows are lost, because they
    are bound to their provider. A history that is already in the dialect *to* keeps its objects.

    Args:
        messages: A history, of one dialect or several.
        to: ``"openai.chat"``, ``"openai.responses"`` or ``"anthropic"``.
        dialect: The dialect of all messages; by default it is detected for each message.
        on_loss: ``"drop"``: losses are only in the result. ``"warn"``: each is logged as well. ``"error"``:
            the first is raised, and nothing is returned.

    Raises:
        InvalidMessageError: one of *messages* is not a message, or there is no such dialect.
        ConversionLossError: with ``on_loss="error"``. Carries ``loss``.
    """
    writer = WRITERS.get(to)
    if writer is None:
        known = ", ".join(map(repr, WRITERS))
        raise InvalidMessageError(f"unknown dialect {to!r} to convert to; known are {known}", dialect=to)
    raws = list(messages)
    found = [_dialect(raw, place, dialect) for place, raw in enumerate(raws)]
    if all(each in (to, "any") for each in found):
        return Converted(raws, ())
    losses = Losses()
    read = [
        each
        for place, (raw, own) in enumerate(zip(raws, found, strict=True))
        for each in _read(raw, place, own, losses)
    ]
    if to != "openai.responses":
        read = _gathered(read, losses)
    if to == "anthropic":
        read = _with_ids_of_their_own(read, losses)
    written = writer(read, losses)
    told = tuple(Loss(*each) for each in sorted(losses.found, key=lambda each: each[0]))
    for loss in told:
        said = f"message {loss.position}: {loss.part} is lost in {to}: {loss.why}"
        if on_loss == "error":
            raise ConversionLossError(said, loss=loss)
        if on_loss == "warn":
            _log.warning(said)
    return Converted(written, told)


def _dialect(raw: RawMessage, place: int, dialect: Dialect | None) -> Dialect:
    validate(raw, index=place, dialect=dialect)
    fields = as_fields(raw) or {}
    if is_plain(fields):
        return "any"
    found = dialect or detect(raw)
    return "openai.chat" if found == "any" else found  # a list of text blocks is written anew


def _read(raw: RawMessage, place: int, dialect: Dialect, losses: Losses) -> list[Neutral]:
    fields = as_fields(raw) or {}
    if dialect == "any":
        return [Neutral(place, fields["role"], (Text(fields["content"]),), raw)]
    return READERS[dialect](raw, place, losses)


def _gathered(messages: Sequence[Neutral], losses: Losses) -> list[Neutral]:
    """*messages* with adjacent calls as one message, and with their results directly after it."""
    merged = _side_by_side(messages)
    results: dict[str, list[int]] = {}
    for at, message in enumerate(merged):
        if message.role == "tool":
            results.setdefault(_answers(message), []).append(at)
    taken: set[int] = set()
    gathered: list[Neutral] = []
    for at, message in enumerate(merged):
        if at in taken:
            continue
        gathered.append(message)
        calls = [block.call_id for block in message.blocks if isinstance(block, Call)]
        found = [place for call_id in calls if (place := _next(results, call_id, at, taken)) is not None]
        for offset, place in enumerate(sorted(found)):
            if place != at + 1 + offset:
                losses.add(merged[place].place, "place", "the result is moved to its call")
            taken.add(place)
            gathered.append(merged[place])
    return gathered


def _with_ids_of_their_own(messages: Sequence[Neutral], losses: Losses) -> list[Neutral]:
    """*messages* with a different id for each call: Anthropic allows an id only once in a history."""
    used: set[str] = set()
    current: dict[str, str] = {}

    def renamed(block: Block, place: int) -> Block:
        if isinstance(block, Call):
            fresh, number = block.call_id, 2
            while fresh in used:
                fresh, number = f"{block.call_id}-{number}", number + 1
            used.add(fresh)
            current[block.call_id] = fresh
            place = block.place
        elif not isinstance(block, Result) or block.call_id not in current:
            return block
        fresh = current[block.call_id]
        if fresh != block.call_id:
            losses.add(place, "id", f"{block.call_id!r} is already that of another call, so it is {fresh!r}")
        return replace(block, call_id=fresh)

    return [
        replace(message, blocks=tuple(renamed(block, message.place) for block in message.blocks))
        for message in messages
    ]


def _side_by_side(messages: Sequence[Neutral]) -> list[Neutral]:
    merged: list[Neutral] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.raw is None and _calls_only(message) and _calls(last):
            merged[-1] = Neutral(last.place, "assistant", (*last.blocks, *message.blocks))
        else:
            merged.append(message)
    return merged


def _next(results: dict[str, list[int]], call_id: str, at: int, taken: set[int]) -> int | None:
    return next((place for place in results.get(call_id, ()) if place > at and place not in taken), None)


def _answers(message: Neutral) -> str:
    block = message.blocks[0]
    return block.call_id if isinstance(block, Result) else ""


def _calls(message: Neutral) -> bool:
    return any(isinstance(block, Call) for block in message.blocks)


def _calls_only(message: Neutral) -> bool:
    return bool(message.blocks) and all(isinstance(block, Call) for block in message.blocks)
