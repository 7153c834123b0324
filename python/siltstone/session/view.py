"""The current view of a session in memory, with its running totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from siltstone.memory.log import ViewItem
from siltstone.messages import Message, RawMessage
from siltstone.tokens import TokenRule, message_bytes, request_bytes

__all__ = ["Item", "View", "view_items"]


@dataclass(frozen=True, slots=True)
class Item:
    """A message of the view, its size by the view's rule, and when it was said (ms since 1970)."""

    message: Message
    units: int
    created_at: int


class View:
    """Messages in order. Appending is O(1), and so is asking for the tokens."""

    def __init__(self, rule: TokenRule, items: Sequence[Item] = ()) -> None:
        self._rule = rule
        self._items = list(items)
        self._raws = [item.message.raw for item in self._items]
        self._units = sum(item.units for item in self._items)
        self._weighed, self._bytes = 0, 0  # the bytes of so many messages, as far as anyone asked

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @property
    def rule(self) -> TokenRule:
        """How this view counts."""
        return self._rule

    @property
    def tokens(self) -> int:
        """The whole view, by its rule."""
        return self._rule.tokens(self._units)

    @property
    def bytes(self) -> int:
        """The whole view in a request, in bytes. Messages are weighed once, when this is first asked."""
        for item in self._items[self._weighed :]:
            self._bytes += message_bytes(item.message)
        self._weighed = len(self._items)
        return request_bytes(self._bytes)

    def tokens_since(self, seq: int) -> int:
        """Messages from *seq* on, by the view's rule. It takes as long as they are many."""
        units = 0
        for item in reversed(self._items):
            if item.message.seq < seq:
                break
            units += item.units
        return self._rule.tokens(units)

    def messages(self) -> list[Message]:
        """The view, as a policy reads it."""
        return [item.message for item in self._items]

    def raws(self) -> list[RawMessage]:
        """The view, as a model is sent it: the caller's own objects, in a new list."""
        return self._raws.copy()

    def extend(self, items: Sequence[Item]) -> None:
        """Appends *items*."""
        self._items += items
        self._raws += [item.message.raw for item in items]
        self._units += sum(item.units for item in items)

    def measured(self, message: Message, created_at: int) -> Item:
        """*message* as an item of this view."""
        return Item(message, self._rule.units(message), created_at)

    def recounted(self, rule: TokenRule) -> View:
        """The same view by another rule."""
        if rule.name == self._rule.name:
            return self
        items = [Item(item.message, rule.units(item.message), item.created_at) for item in self._items]
        return View(rule, items)

    def rewritten(self, messages: Sequence[Message], read: int, created_at: int) -> View:
        """The view after a compaction: *messages*, then whatever was appended after the first *read* items.

        Messages that stay keep their measure; the summary is *created_at*.
        """
        known = {id(item.message): item for item in self._items[:read]}
        items = [known.get(id(message)) or self.measured(message, created_at) for message in messages]
        return View(self._rule, items + self._items[read:])


def view_items(messages: Sequence[Message]) -> tuple[ViewItem, ...]:
    """A view as it is stored: ranges of sequence numbers, and None where the summary stands."""
    items: list[ViewItem] = []
    for message in messages:
        if message.provenance == "compaction_summary":
            items.append(None)
            continue
        last = items[-1] if items else None
        if last is not None and last[1] == message.seq:
            items[-1] = (last[0], message.seq + 1)
        else:
            items.append((message.seq, message.seq + 1))
    return tuple(items)
