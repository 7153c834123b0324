"""From one dialect to another, on purpose, and with a list of what was lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from siltstone.errors import ConversionLossError, InvalidMessageError
from siltstone.logs import log as _log
from siltstone.messages.conversion.neutral import Block, Call, Losses, Neutral, Result, Text
from siltstone.messages.conversion.reading import READERS, is_plain
from siltstone.messages.conversion.writing import WRITERS
from siltstone.messages.kinds import Dialect, RawMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.read import detect, validate
from siltstone.values import dataclass, replace

__all__ = ["Converted", "Loss", "convert"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the other dialect cannot say.

    Attributes:
        position: The message's position in the list that was given.
        part: Which part of it: a key, or a block by its place and type.
        why: Why it is lost, or what it became.
    """

    position: int
    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A history in another dialect.

    Attributes:
        messages: The history. What reads alike in both dialects is the same object.
        losses: What is not in it, or not as it was; empty for a conversion that can be taken back.
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
    """*messages* in the dialect *to*, and everything that was lost.

    Texts, calls, results, images and documents have a form in every dialect, and an exchange stays one:
    calls that stand side by side become one message where the dialect wants it, and results that came late
    are moved to their call. Reasoning, files by their id and what only one provider knows are lost: they
    are bound to who made them. What is of the dialect *to* already is the same object.

    Args:
        messages: A history, of one dialect or several.
        to: ``"openai.chat"``, ``"openai.responses"`` or ``"anthropic"``.
        dialect: How to read all of them; found out message by message where not given.
        on_loss: ``"drop"``: losses are in the answer alone. ``"warn"``: each is logged as well.
            ``"error"``: the first is raised, and nothing is given.

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
    return "openai.chat" if found == "any" else found  # blocks of text alone: written anew


def _read(raw: RawMessage, place: int, dialect: Dialect, losses: Losses) -> list[Neutral]:
    fields = as_fields(raw) or {}
    if dialect == "any":
        return [Neutral(place, fields["role"], (Text(fields["content"]),), raw)]
    return READERS[dialect](raw, place, losses)


def _gathered(messages: Sequence[Neutral], losses: Losses) -> list[Neutral]:
    """Calls that stand side by side as one message, and the results of each directly after it."""
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
    """*messages* in which no two calls have one id: in a whole history it may be used once."""
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
