"""Applies the answers of hooks to triggers and rewrites, and checks that a rewrite may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from siltstone.compaction.base import Compaction, CompactionError, Trigger
from siltstone.errors import InvalidMessageError
from siltstone.hooks import Guidance, HookError
from siltstone.messages import InjectedMessage, Message, opens_turn, read_message, validate_history
from siltstone.messages.plain import as_fields
from siltstone.messages.repairs import sendable
from siltstone.tokens import TokenRule

__all__ = ["check_legal", "guided", "injected"]


def guided(trigger: Trigger, said: Any, history: Sequence[Message]) -> tuple[Trigger, str]:
    """*trigger* with the wishes of ``on_before_compact``, and the reason of its veto (empty: no veto).

    Raises:
        HookError: *said* is neither None nor a guidance, or it pins a message that is not in *history*.
    """
    if said is None:
        return trigger, ""
    if not isinstance(said, Guidance):
        raise HookError(f"on_before_compact must give a Guidance or None, got {type(said).__name__}")
    if said.veto:
        return trigger, said.veto if isinstance(said.veto, str) else "on_before_compact said no"
    known = {message.seq for message in history if message.provenance != "compaction_summary"}
    for seq in said.pins:
        if seq not in known:
            raise HookError(f"on_before_compact pins message {seq}, which is not in the history")
    pins = trigger.pins | frozenset(said.pins)
    return replace(trigger, pins=pins, instructions=said.instructions), ""


def injected(compaction: Compaction, said: Any, history: Sequence[Message], rule: TokenRule) -> Compaction:
    """*compaction* with the messages *said* of ``on_after_compact`` at the end of the view.

    Raises:
        HookError: *said* is neither None nor a list of user messages, or the provider would refuse them
            there.
        CompactionError: with them the history would not become smaller.
    """
    if said is None:
        return compaction
    if isinstance(said, str) or not isinstance(said, Sequence):
        raise HookError(f"on_after_compact must give a list of messages or None, got {type(said).__name__}")
    if not said:
        return compaction
    added = tuple(_read(raw, compaction, place) for place, raw in enumerate(said))
    messages = (*compaction.messages, *added)
    before = len(validate_history(compaction.messages))
    found = validate_history(messages)
    if len(found) > before:
        where = next((each for each in found if each.position >= len(compaction.messages)), found[-1])
        raise HookError(f"the provider would refuse what on_after_compact gave: {where.sentence}")
    units = rule.count(history), rule.count(messages)
    if units[1] >= units[0]:
        raise CompactionError(
            f"with what on_after_compact gave, the rewrite has {units[1]} tokens, the history {units[0]}: "
            "it must be smaller",
            reason="no_reduction",
            usage=compaction.usage,
            before=units[0],
            after=units[1],
        )
    return replace(compaction, messages=messages, injected=added)


def check_legal(compaction: Compaction, *, is_sent: bool = True) -> None:
    """Refuses a rewrite that its provider would refuse.

    Args:
        compaction: The rewrite.
        is_sent: Whether it is sent as it is. A session repairs each request, so only the faults count that no
            repair heals.

    Raises:
        CompactionError: ``rewrite_invalid``; it names the first finding and the number of findings.
    """
    repaired = None if is_sent else sendable(compaction.messages)
    found = validate_history(compaction.messages if repaired is None else repaired.messages)
    if found:
        raise CompactionError(
            f"the provider would refuse the rewrite, in {len(found)} places: message {found[0].position}: "
            f"{found[0].sentence} ({found[0].rule}); siltstone.messages.repair heals a history that came so",
            reason="rewrite_invalid",
            usage=compaction.usage,
        )


def _read(raw: Any, compaction: Compaction, place: int) -> Message:
    try:
        fields = as_fields(raw)
        message = read_message(raw, compaction.messages[-1].seq + 1 + place)
    except (InvalidMessageError, TypeError) as error:
        raise HookError(f"on_after_compact gave what is no message: {error}") from error
    if fields is None or not opens_turn(message):
        raise HookError(f"on_after_compact may give user messages, got one of role {message.role!r}")
    return replace(message, raw=InjectedMessage(fields), provenance="injected_context")
