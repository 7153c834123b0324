"""Validates rewrites: refuses one that loses, changes, splits or invents a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from siltstone import messages as chat
from siltstone.compaction.base import (
    Compaction,
    CompactionError,
    Compactor,
    Skip,
    Substitute,
    Trigger,
    rules_in_force,
)
from siltstone.compaction.rewrite import covered, joined
from siltstone.errors import InvalidMessageError
from siltstone.hooks import Guidance, HookError
from siltstone.llm import LAST_RESORT, Completion, Flow
from siltstone.messages import History, Message
from siltstone.messages.legality import sendable
from siltstone.messages.message import RULE_ROLES, SAID, as_fields
from siltstone.tokens import TokenRule


def validate(
    history: Sequence[Message],
    compaction: Compaction,
    content: str,
    trigger: Trigger | None = None,
    request_rule: chat.RequestRule = chat.is_request,
) -> None:
    """Checks *compaction* against the *history* that it rewrites.

    *content* is the framed text of the new summary, with or without its mark.

    The pinned messages of *trigger* must be retained. In a ``layered`` rewrite earlier summaries may stay,
    and there may be several new summaries or none; *content* is the text of the last one. The messages that
    they cover must be discarded.

    The user's newest request must be retained while its turn is in flight; *request_rule* decides which text
    beside tool results is a request.

    Messages are compared by identity, so equal messages are never confused.

    Raises:
        CompactionError: with reason ``rewrite_invalid``, for the first fault found.
    """
    fault = next(_faults(history, compaction, content, trigger, request_rule), None)
    if fault is not None:
        raise CompactionError(
            f"the rewrite is not valid: {fault}", reason="rewrite_invalid", usage=compaction.usage
        )


def _faults(
    history: Sequence[Message],
    compaction: Compaction,
    content: str,
    trigger: Trigger | None,
    request_rule: chat.RequestRule,
) -> Iterator[str]:
    """All checks in order. A later check may rely on the earlier ones, so only the first fault is valid."""
    places = _Places(history)
    retained, discarded = places.of(compaction.retained), places.of(compaction.discarded)
    for messages, positions in ((compaction.retained, retained), (compaction.discarded, discarded)):
        if -1 in positions:
            yield f"message {messages[positions.index(-1)].seq} is not one of the history"
    yield from _disorder(retained, discarded)
    yield from _holes(len(history), retained, discarded, bool(compaction.substitutes))
    read, stays = chat.as_history(history, request_rule), set(retained)
    alone = _without_ties(places, compaction)
    if discarded and not compaction.layered:
        yield from _kept_summaries(read, stays)
    yield from _losses(read, stays, alone)
    pinned = read.positions_of(trigger.pins) if trigger is not None else []
    yield from _outdated(read, stays, pinned)
    for at in pinned:
        if at not in stays:
            yield f"message {history[at].seq} is pinned and is discarded"
    for substitute in compaction.substitutes:
        yield from _false_substitute(places, substitute, stays, pinned, alone)
    if compaction.layered:
        yield from _false_layers(places, read, compaction, content)
        return
    if not discarded:
        yield from _without_summary(places, compaction, retained)
        return
    yield from _misplaced(places, compaction, retained, discarded[0])
    yield from _false_summary(compaction, discarded[0], content)


class _Places:
    """The positions of messages in a history. Messages are compared by identity."""

    def __init__(self, history: Sequence[Message]) -> None:
        self._history = history
        self._known: dict[int, int] | None = None

    def of(self, messages: Sequence[Message]) -> list[int]:
        """The position of each message; -1 for a message that is not in the history."""
        if isinstance(messages, chat.Excerpt) and messages.history is self._history:
            return messages.positions
        if not messages:
            return []  # the table reads every message, which takes longer than all the rest of a compaction
        if self._known is None:
            self._known = {id(message): at for at, message in enumerate(self._history)}
        return [self._known.get(id(message), -1) for message in messages]

    def of_view(self, compaction: Compaction) -> list[int]:
        """The positions of a view. A substitute has the position of its original."""
        found = self.of(compaction.messages)
        if compaction.substitutes:
            originals = self.of([each.original for each in compaction.substitutes])
            known = {id(each.message): at for each, at in zip(compaction.substitutes, originals, strict=True)}
            for place, at in enumerate(found):
                if at < 0:
                    found[place] = known.get(id(compaction.messages[place]), -1)
        return found


def _disorder(retained: list[int], discarded: list[int]) -> Iterator[str]:
    for what, positions in (("retained", retained), ("discarded", discarded)):
        if positions == sorted(set(positions)):
            continue
        for one, following in pairwise(positions):
            if following <= one:
                yield f"position {following} follows position {one} in what is {what}"


def _holes(length: int, retained: list[int], discarded: list[int], cut: bool) -> Iterator[str]:
    if not discarded and not cut:
        yield "nothing is discarded"
    if sorted(retained + discarded) == list(range(length)):
        return
    for position in sorted(set(retained) & set(discarded)):
        yield f"position {position} is both retained and discarded"
    for position in sorted(set(range(length)) - set(retained) - set(discarded)):
        yield f"position {position} is neither retained nor discarded"


def _kept_summaries(history: History, stays: set[int]) -> Iterator[str]:
    for at in history.summaries:
        if at in stays:
            yield f"the earlier summary at position {at} is retained"


def _losses(history: History, stays: set[int], alone: set[int]) -> Iterator[str]:
    for at in sorted(rules_in_force(history)):
        if at not in stays:
            yield f"the {history[at].role} message at position {at} is discarded"
    bound = stays - alone
    for start, end in history.outline.closed(list(bound)):
        for at in range(start, end):
            if at not in bound:
                yield f"the group of positions {_group_of(history, at)} is split"
    for at in history.outline.pending:
        if at not in stays:
            yield f"the group of positions {_group_of(history, at)} has a pending call and is discarded"
    newest = history.outline.requests[-1] if history.outline.in_flight else None
    if newest is not None and newest not in stays:
        yield f"the user's newest request at position {newest} is discarded, and it is not answered yet"


def _outdated(history: History, stays: set[int], pinned: Sequence[int]) -> Iterator[str]:
    for at in sorted(stays.intersection(history.rules) - rules_in_force(history) - set(pinned)):
        yield f"the superseded {history[at].role} message at position {at} is retained"


def _group_of(history: History, position: int) -> tuple[int, ...]:
    return next(group.positions for group in chat.groups(history) if position in group.positions)


def _without_ties(places: _Places, compaction: Compaction) -> set[int]:
    """The positions of originals whose substitutes neither call nor answer: their groups may leave."""
    cut = [
        each.original for each in compaction.substitutes if _ties(each.original) and not _ties(each.message)
    ]
    return set(places.of(cut))


def _false_substitute(
    places: _Places, substitute: Substitute, stays: set[int], pinned: Sequence[int], alone: set[int]
) -> Iterator[str]:
    """Checks a substitute: it has the place, the words, and all ties or no ties of its original."""
    original, message = substitute.original, substitute.message
    (at,) = places.of([original])
    if at not in stays:
        yield f"message {message.seq} stands for one that is not retained"
    if at in pinned or original.provenance not in SAID or original.role in RULE_ROLES:
        yield f"message {original.seq} may not be cut: it is pinned, carries rules or was not said"
    if not isinstance(message.raw, chat.SubstituteMessage) or message.provenance != "substitute":
        yield f"message {message.seq} is a {type(message.raw).__name__}, not a SubstituteMessage"
    if message.seq != original.seq or message.role != original.role:
        yield f"message {message.seq} of {message.role!r} stands for {original.seq} of {original.role!r}"
    if at not in alone and _ties(message) != _ties(original):
        yield f"message {message.seq} calls or answers otherwise than its original"
    words = [part.text for part in message.parts if part.kind == "text"]
    if original.role == "user" and any(
        part.text not in words for part in original.parts if part.kind == "text"
    ):
        yield f"message {message.seq} has not the user's words"


def _ties(message: Message) -> list[tuple[str, str | None]]:
    return [(part.kind, part.call_id) for part in message.parts if part.kind in ("tool_call", "tool_result")]


def _without_summary(places: _Places, compaction: Compaction, retained: list[int]) -> Iterator[str]:
    if places.of_view(compaction) != retained:
        yield "the view is not the retained messages, and nothing is discarded"
    if compaction.summary or compaction.covers:
        yield "nothing is discarded, and there is a summary"


def _misplaced(places: _Places, compaction: Compaction, retained: list[int], place: int) -> Iterator[str]:
    """Checks that the view is the retained messages, with the summary at *place*.

    *place* is the position of the first discarded message.
    """
    view = places.of_view(compaction)
    if len(view) != len(retained) + 1:
        yield f"{len(view)} messages are not the {len(retained)} retained and one summary"
    if view[:place] + view[place + 1 :] != retained:
        yield f"the view is not the retained messages with one summary at position {place}"


def _false_summary(compaction: Compaction, place: int, content: str) -> Iterator[str]:
    summary, covers = compaction.messages[place], covered(compaction.discarded)
    yield from _no_summary(summary)
    yield from _other_text(compaction, summary, content)
    if compaction.covers != covers or summary.covers != covers or summary.seq != covers[0][0]:
        yield f"the summary covers {summary.covers}, the discarded messages are {covers}"


def _false_layers(places: _Places, history: History, compaction: Compaction, content: str) -> Iterator[str]:
    """Checks the new summaries.

    Their ranges ascend and have only discarded messages; each stands in the place of its first message.
    """
    view, covers = places.of_view(compaction), covered(compaction.discarded)
    made = [message for message, at in zip(compaction.messages, view, strict=True) if at < 0]
    for message in made:
        yield from _no_summary(message)
        if not message.text.strip():
            yield f"the summary of number {message.seq} is blank"
        if not message.covers or message.seq != message.covers[0][0]:
            yield f"a summary of number {message.seq} covers {message.covers}"
    spans = [span for message in made for span in message.covers]
    if any(other[0] < one[1] for one, other in pairwise(spans)):
        yield f"the new summaries cover {spans}: the ranges must ascend and be disjoint"
    if compaction.covers != covers or joined([*covers, *spans]) != covers:
        yield f"the new summaries cover {spans}, the discarded messages are {covers}"
    if view != _layers(history, set(places.of(compaction.retained)), made):
        yield "the view is not the retained messages, with each summary where its first message stood"
    if made:
        yield from _other_text(compaction, made[-1], content)
    elif compaction.summary:
        yield "there is a summary's text, and no summary in the view"


def _layers(history: History, stays: set[int], made: list[Message]) -> list[int]:
    """The expected positions of a view: the retained ones, and -1 at the first message of a new summary."""
    if not made:
        return sorted(stays)
    view: list[int] = []
    waiting = list(made)
    for at in range(len(history)):
        if at in stays:
            view.append(at)
            continue
        seq = history[at].seq
        for summary in waiting:
            if any(start <= seq < end for start, end in summary.covers):
                view.append(-1)
                waiting.remove(summary)
                break
    return view


def _no_summary(message: Message) -> Iterator[str]:
    if not isinstance(message.raw, chat.SummaryMessage):
        yield f"the summary is a {type(message.raw).__name__}, not a SummaryMessage"
        return
    if message.role not in chat.SUMMARY_ROLES or message.raw.get("role") != message.role:
        yield f"the summary's role is {message.role!r}, not 'user' or 'assistant'"
    if message.provenance != "compaction_summary":
        yield f"the summary's provenance is {message.provenance!r}"


def _other_text(compaction: Compaction, summary: Message, content: str) -> Iterator[str]:
    if not compaction.summary.strip() or not chat.unmarked(content).endswith(compaction.summary):
        yield "the summary is blank, or not what its frame holds"
    mark = chat.read_mark(summary.text)
    is_whole = summary.raw.get("content") == summary.text  # type: ignore[union-attr]
    if mark is None or not is_whole or chat.unmarked(summary.text) != chat.unmarked(content):
        yield "the summary message does not hold the framed summary and its mark"
    elif mark.covers != summary.covers:
        yield f"the summary covers {summary.covers}, its mark says {mark.covers}"


# Applies the answers of hooks to triggers and rewrites, and checks that a rewrite may be sent.


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
    before = len(chat.validate_history(compaction.messages))
    found = chat.validate_history(messages)
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
    found = chat.validate_history(compaction.messages if repaired is None else repaired.messages)
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
        message = chat.read_message(raw, compaction.messages[-1].seq + 1 + place)
    except (InvalidMessageError, TypeError) as error:
        raise HookError(f"on_after_compact gave what is no message: {error}") from error
    if fields is None or not chat.opens_turn(message):
        raise HookError(f"on_after_compact may give user messages, got one of role {message.role!r}")
    return replace(message, raw=chat.InjectedMessage(fields), provenance="injected_context")


# A dry run of a policy: its flow gets made-up answers instead of answers of a model or curator.

_HALVINGS = 12  # sizes of made-up summaries: the full budget, a half of it, a quarter ...


def dry_run(policy: Compactor, history: Sequence[Message], trigger: Trigger) -> tuple[int, Compaction | Skip]:
    """The number of requests to a model, and the rewrite.

    Each made-up summary fills its whole budget. If the history does not shrink with it, the run is repeated
    with a half of the budget, then with a quarter, and so on.
    """
    requests = 0
    result: Compaction | Skip = Skip("nothing_to_discard")
    for halving in range(_HALVINGS):
        requests, result = _run(policy.flow(history, trigger), 2**halving)
        if isinstance(result, Compaction) or result.reason != "no_reduction":
            break
    return requests, result


def _run(flow: Flow[Compaction | Skip], divisor: int) -> tuple[int, Compaction | Skip]:
    requests = 0
    try:
        request = next(flow)
        while True:
            requests += request.curator is None and request.rank != LAST_RESORT
            request = flow.send(Completion("word" * max(1, request.max_tokens // divisor)))
    except StopIteration as stop:
        return requests, stop.value
    except CompactionError as error:
        return requests, Skip(error.reason, str(error))
    finally:
        flow.close()
