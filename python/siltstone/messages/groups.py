"""Groups: messages that must stay together, such as a tool call and its result."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.messages.message import REFERENCE, SAID, Dialect, Message, Part, RequestRule, as_fields


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that are retained or discarded as a whole.

    Attributes:
        positions: Their positions in the history, ascending; other messages may lie between them.
        pending: Whether a call among them has no result yet.
    """

    positions: tuple[int, ...]
    pending: bool = False


def groups(history: Sequence[Message]) -> list[Group]:
    """The groups of a history, in the order of their first messages; every message is in exactly one.

    A call, all its results and the reasoning bound to it are one group. A result belongs to the latest call
    before it with its id, so an id may be used again. A result without a call belongs to the latest reference
    before it, which may stand for its call. These join groups: a message with several calls, unknown parts
    with the same id or with the id of a call, and adjacent items with calls. An assistant message with only
    reasoning is bound to the assistant messages directly after it. Any other message is a group of its own.
    Time is linear.
    """
    links = _Links(len(history))
    calls = _Calls()
    sharing: dict[str, int] = {}  # id: the position of the latest unknown part with it
    reference: int | None = None
    for position, message in enumerate(history):
        for part in message.parts:
            bound: int | None = None
            if part.kind == "tool_call":
                calls.open(call_key(part), position)
            elif part.kind == "tool_result":
                bound = calls.answer(call_key(part))
                bound = reference if bound is None else bound
            elif part.kind == "other" and part.call_id is not None:
                bound = calls.called_at(part.call_id, sharing.get(part.call_id))
                sharing[part.call_id] = position
            elif part.kind == "other" and part.name == REFERENCE:
                reference = position
            if bound is not None:
                links.join(bound, position)
    _bind_reasoning(history, links)
    _bind_parallel_items(history, links)
    return links.groups(calls.waiting())


def unanswered(history: Sequence[Message]) -> bool:
    """Whether a call in *history* has no result in it."""
    calls = _Calls()
    for position, message in enumerate(history):
        for part in message.parts:
            if part.kind == "tool_call":
                calls.open(call_key(part), position)
            elif part.kind == "tool_result":
                calls.answer(call_key(part))
    return bool(calls.waiting())


def call_key(part: Part) -> Hashable:
    """The key that ties a result to its call: the id, or the tool's name if the dialect has no ids."""
    return part.call_id if part.call_id is not None else (part.name,)


class _Calls:
    """The calls seen so far, by key, each with its position and whether it was answered."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, deque[list[int]]] = {}
        self._waiting: dict[int, int] = {}  # position: calls in it without a result

    def open(self, key: Hashable, position: int) -> None:
        """Takes a call. It replaces an earlier call with its key; waiting calls without ids form a queue."""
        queue = self._by_key.setdefault(key, deque())
        if not isinstance(key, tuple) or (queue and not queue[0][1]):
            queue.clear()
        queue.append([position, 1])
        self._waiting[position] = self._waiting.get(position, 0) + 1

    def answer(self, key: Hashable) -> int | None:
        """Takes a result. Returns the position of its call, or None."""
        queue = self._by_key.get(key)
        if not queue:
            return None
        call = queue[0] if len(queue) == 1 else queue.popleft()
        position, waits = call
        if waits:
            call[1] = 0
            self._waiting[position] -= 1
        return position

    def called_at(self, call_id: str, otherwise: int | None) -> int | None:
        """The position of the latest call with that id. The call is not marked as answered."""
        queue = self._by_key.get(call_id)
        return queue[-1][0] if queue else otherwise

    def waiting(self) -> set[int]:
        """The positions of the messages that have a call without a result."""
        return {position for position, count in self._waiting.items() if count}


class _Links:
    """Disjoint sets of positions. The first position of a set identifies it."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def join(self, one: int, other: int) -> None:
        one, other = sorted((self._first(one), self._first(other)))
        self._parents[other] = one

    def _first(self, position: int) -> int:
        parents = self._parents
        while parents[position] != position:
            parents[position] = parents[parents[position]]  # path halving: later searches are shorter
            position = parents[position]
        return position

    def groups(self, waiting: set[int]) -> list[Group]:
        members: dict[int, list[int]] = {}
        for position in range(len(self._parents)):
            members.setdefault(self._first(position), []).append(position)
        return [Group(tuple(positions), not waiting.isdisjoint(positions)) for positions in members.values()]


def _bind_reasoning(history: Sequence[Message], links: _Links) -> None:
    """Joins an assistant message with only reasoning to the rest of the same answer.

    Some transcripts have one message for each block of an answer. The reasoning is signed for the whole
    answer, so the provider refuses a call without its reasoning.
    """
    bound = False
    for position, message in enumerate(history):
        if message.role != "assistant":
            bound = False
            continue
        if bound:
            links.join(position - 1, position)
        bound = bound or is_reasoning_only(message)


def _bind_parallel_items(history: Sequence[Message], links: _Links) -> None:
    """Joins adjacent calls that are separate items, because the model made them in one answer."""
    before = False
    for position, message in enumerate(history):
        calls = message.dialect == "openai.responses" and any(p.kind == "tool_call" for p in message.parts)
        if calls and before:
            links.join(position - 1, position)
        before = calls


def is_reasoning(message: Message) -> bool:
    """Whether *message* has only reasoning."""
    return bool(message.parts) and all(part.kind == "reasoning" for part in message.parts)


def is_reasoning_only(message: Message) -> bool:
    """Whether *message* has reasoning and nothing else, except empty text parts."""
    reasons = False
    for part in message.parts:
        if part.kind == "reasoning":
            reasons = True
        elif part.kind != "text" or part.text:
            return False
    return reasons


# Finds the turns of a history, and tells whether the newest turn is still going on.

REMINDER_TAGS: Final = ("<system-reminder>",)
"""The first words of a host's own texts beside tool results."""

ITEMS: Final[Dialect] = "openai.responses"
_INJECTED = frozenset({"injected_context", "recalled_context"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and all messages up to the next one, as half-open positions in the history.

    Attributes:
        start: Its first message: the request, or the first of the injected messages directly before it.
        end: The position after its last message.
        request: The user message that the turn answers.
    """

    start: int
    end: int
    request: int


def is_request(text: str) -> bool:
    """Whether *text*, beside tool results, is from the user: it does not begin with a reminder tag.

    The tags are ``REMINDER_TAGS``.
    """
    return not text.lstrip().startswith(REMINDER_TAGS)


def opens_turn(message: Message, rule: RequestRule = is_request) -> bool:
    """Whether *message* is a user's request.

    A user message without tool results is a request. A user message with tool results is a request if it
    also has a text that is the user's by *rule*. Tool results alone are not a request.
    """
    if message.role != "user" or message.provenance not in SAID:
        return False
    if message.said is not None:
        return True
    if all(part.kind != "tool_result" for part in message.parts):
        return bool((as_fields(message.raw) or {}).get("role", "user") == "user")  # or it is a host's own
    return any(part.kind == "text" and part.text.strip() and rule(part.text) for part in message.parts)


def turns(history: Sequence[Message], rule: RequestRule = is_request) -> list[Turn]:
    """The turns of a history, in order. Messages before the first turn belong to none.

    Args:
        history: The messages.
        rule: Decides which text beside tool results is a request.
    """
    requests = [position for position, message in enumerate(history) if opens_turn(message, rule)]
    starts = [_start(history, request) for request in requests]
    ends = [*starts[1:], len(history)]
    return [Turn(*turn) for turn in zip(starts, ends, requests, strict=False)]


def _start(history: Sequence[Message], request: int) -> int:
    start = request
    while start > 0 and history[start - 1].provenance in _INJECTED:
        start -= 1
    return start


def in_flight(history: Sequence[Message], rule: RequestRule = is_request) -> bool:
    """Whether the newest turn is still going on.

    A turn is over if the history ends with an assistant message without pending calls. Injected messages at
    the end do not count. A history without a turn has no turn in flight.
    """
    if not any(opens_turn(message, rule) for message in reversed(history)):
        return False
    end = len(history)
    while history[end - 1].provenance in _INJECTED:
        end -= 1
    spoken = history if end == len(history) else history[:end]

    return spoken[-1].role != "assistant" or unanswered(_last_answer(spoken))


def _last_answer(history: Sequence[Message]) -> Sequence[Message]:
    """The assistant's last answer: one message, or in the Responses API all items at the end."""
    start = len(history) - 1
    while start > 0 and history[start - 1].role == "assistant" and history[start - 1].dialect == ITEMS:
        start -= 1
    return history[start:]
