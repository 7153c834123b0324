"""The list that a host sent last. If the next list begins with it, only the rest is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from siltstone.messages import DIGEST, RawMessage, begins_alike, text_digests

__all__ = ["LastList", "Seen"]


class Seen(NamedTuple):
    """A message of a host's list.

    Attributes:
        place: Its place in the list.
        raw: The host's own object.
        digest: Its digest when it was first seen.
        stands_for: The digest of its message in the log. This differs from *digest* for a substitute, or for
            a text that was forgotten.
        was: Numbers of the log's messages that had this text before it was forgotten.
        is_tied: Whether a forgotten message has ties, as a call has with its result. It then leaves a
            tombstone.
    """

    place: int
    raw: RawMessage
    digest: bytes
    stands_for: bytes
    was: tuple[int, ...] = ()
    is_tied: bool = False


@dataclass(frozen=True, slots=True)
class LastList:
    """A host's list that is wholly in the log, and the state of the session at that time.

    Attributes:
        raws: The host's own objects. They are kept alive, so that no new object gets the same ``id()``.
        digests: The digests of the logged texts, in order, joined to one ``bytes``; None if a message cannot
            be written as JSON, such as a mapping type of the host's own.
        seen: The messages of the list that are in the log, in order.
        head: The id of the compaction that made the session's view; None before the first.
        end: One past the last message of the log.
    """

    raws: list[RawMessage]
    digests: bytes | None
    seen: list[Seen]
    head: int | None
    end: int

    @classmethod
    def of(
        cls,
        raws: Sequence[RawMessage],
        fresh: int,
        before: LastList | None,
        seen: list[Seen],
        head: int | None,
        end: int,
    ) -> LastList:
        """The list *raws*. *seen* are its messages in the log; those from place *fresh* on were just logged.

        *before* is the list before, if there is one. Objects known from there keep the digests of their
        logged texts, even if the objects were changed since.
        """
        held = list(raws)
        return cls(held, _digests_of(held, fresh, before), seen, head, end)

    def begins(self, raws: list[RawMessage], head: int | None, end: int) -> bool:
        """Whether *raws* is this list with more messages at its end, and the session has not changed since.

        The same object counts as the same message, even if it was changed in place. Another object is
        compared by its text.
        """
        if (self.head, self.end) != (head, end) or len(raws) < len(self.raws):
            return False
        return begins_alike(raws, self.raws, self.digests)

    def grown(self, raws: list[RawMessage], more: Sequence[Seen], end: int) -> LastList:
        """The list *raws*: this list, and the messages *more* after it, which were just appended."""
        added = text_digests(raws[len(self.raws) :])
        digests = None if self.digests is None or added is None else self.digests + added
        return replace(self, raws=raws.copy(), digests=digests, seen=[*self.seen, *more], end=end)

    def by_id(self) -> dict[int, Seen]:
        """The messages of the list by the identity of their objects."""
        raws: list[Any] = self.raws
        return {id(raws[each.place]): each._replace(raw=raws[each.place]) for each in self.seen}


def _digests_of(raws: list[RawMessage], fresh: int, before: LastList | None) -> bytes | None:
    """The digests of *raws* at the time of logging; None if they are not known."""
    now = text_digests(raws)
    if now is None or before is None:
        return now
    if before.digests is None:
        return None
    first = dict(zip(map(id, before.raws), _cut(before.digests), strict=True))
    logged = [first.get(id(raw), each) for raw, each in zip(raws[:fresh], _cut(now), strict=False)]
    return b"".join(logged) + now[fresh * DIGEST :]


def _cut(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]
