"""Groups and turns by their rules, over messages that were read: the slow twin of the core's outline."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

from siltstone.messages import Group, Message, RequestRule, Turn, is_request, opens_turn
from siltstone.messages.groups import call_key, is_reasoning_only
from siltstone.messages.message import REFERENCE

_ITEMS = "openai.responses"
_INJECTED = frozenset({"injected_context", "recalled_context"})


def groups(history: Sequence[Message]) -> list[Group]:
    """As ``siltstone.messages.groups``."""
    owners = list(range(len(history)))  # of each position the first one of its group

    def join(one: int, other: int) -> None:
        first, last = sorted((owners[one], owners[other]))
        owners[:] = [first if owner == last else owner for owner in owners]

    waiting = _bind_results(history, join)
    bound = False  # an answer of which some transcripts have one message for each block
    for position, message in enumerate(history):
        is_answer = message.role == "assistant"
        if bound and is_answer:
            join(position - 1, position)
        bound = is_answer and (bound or is_reasoning_only(message))
    for before, position in pairwise(range(len(history))):  # calls that are items of one answer
        if _is_call(history[before]) and _is_call(history[position]):
            join(before, position)
    members = [tuple(at for at in range(len(owners)) if owners[at] == owner) for owner in sorted({*owners})]
    return [Group(positions, not waiting.isdisjoint(positions)) for positions in members]


def _bind_results(history: Sequence[Message], join: Callable[[int, int], None]) -> set[int]:
    """Joins results and what shares an id with their calls; the positions with a call that waits."""
    calls, sharing, reference = _Calls(), dict[str, int](), None
    for position, message in enumerate(history):
        for part in message.parts:
            found: int | None = None
            if part.kind == "tool_call":
                calls.open(call_key(part), position)
            elif part.kind == "tool_result":
                found = calls.answer(call_key(part))
                found = reference if found is None else found
            elif part.kind == "other" and part.call_id is not None:
                found = calls.called_at(part.call_id, sharing.get(part.call_id))
                sharing[part.call_id] = position
            elif part.kind == "other" and part.name == REFERENCE:
                reference = position
            if found is not None:
                join(found, position)
    return calls.waiting()


def _is_call(message: Message) -> bool:
    return message.dialect == _ITEMS and any(part.kind == "tool_call" for part in message.parts)


class _Calls:
    """The calls seen so far, by key, each with its position and whether it waits for its result."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, deque[list[int]]] = {}
        self._all: list[list[int]] = []

    def open(self, key: Hashable, position: int) -> None:
        """A call replaces an earlier one with its key; waiting calls without ids form a queue."""
        queue = self._by_key.setdefault(key, deque())
        if not isinstance(key, tuple) or (queue and not queue[0][1]):
            queue.clear()
        queue.append([position, 1])
        self._all.append(queue[-1])

    def answer(self, key: Hashable) -> int | None:
        queue = self._by_key.get(key)
        if not queue:
            return None
        call = queue[0] if len(queue) == 1 else queue.popleft()
        call[1] = 0
        return call[0]

    def called_at(self, call_id: str, otherwise: int | None) -> int | None:
        queue = self._by_key.get(call_id)
        return queue[-1][0] if queue else otherwise

    def waiting(self) -> set[int]:
        return {position for position, waits in self._all if waits}


def turns(history: Sequence[Message], rule: RequestRule = is_request) -> list[Turn]:
    """As ``siltstone.messages.turns``."""
    requests = [position for position, message in enumerate(history) if opens_turn(message, rule)]
    starts = [_start(history, request) for request in requests]
    return [Turn(*each) for each in zip(starts, [*starts[1:], len(history)], requests, strict=False)]


def _start(history: Sequence[Message], request: int) -> int:
    while request > 0 and history[request - 1].provenance in _INJECTED:
        request -= 1
    return request


def in_flight(history: Sequence[Message], rule: RequestRule = is_request) -> bool:
    """As ``siltstone.messages.in_flight``."""
    if not any(opens_turn(message, rule) for message in history):
        return False
    end = len(history)
    while history[end - 1].provenance in _INJECTED:
        end -= 1
    start = end - 1
    while start > 0 and history[start - 1].role == "assistant" and history[start - 1].dialect == _ITEMS:
        start -= 1
    return history[end - 1].role != "assistant" or bool(_bind_results(history[start:end], lambda *_: None))
