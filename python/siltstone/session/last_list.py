"""The list that a host sent last, so that the next one is looked at from where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from siltstone.messages import DIGEST, RawMessage, begins_alike, text_digests
from siltstone.values import dataclass, replace

__all__ = ["LastList", "Seen"]


class Seen(NamedTuple):
    """A message of a host's list.

    Attributes:
        place: Its place in the list.
        raw: The host's own object.
        digest: Its digest when it was first seen.
        stands_for: The digest of the message of the log that it stands for; most stand for themselves.
        was: The numbers of messages that said this before they were forgotten.
        is_tied: Of these: others are tied to it, as a result is to its call, so it leaves its tombstone.
    """

    place: int
    raw: RawMessage
    digest: bytes
    stands_for: bytes
    was: tuple[int, ...] = ()
    is_tied: bool = False


@dataclass(frozen=True, slots=True)
class LastList:
    """A host's list, and where the session stood when the whole of it was in the log.

    Attributes:
        raws: The host's own objects, which are held so that their identity stays theirs.
        digests: Of each the digest of what it said, in one text of bytes; None where one cannot be written
            as JSON, as a mapping of a type of the host's own.
        seen: What is known of those that were said, in order.
        head: The compaction that the session's view came from; None before the first.
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
        """*raws*, of which *seen* were said, and those from place *fresh* on were logged just now.

        *before* is the list before it, where some objects of *raws* are known from there: they say what they
        said when they were logged, even if they were changed since.
        """
        held = list(raws)
        return cls(held, _digests_of(held, fresh, before), seen, head, end)

    def begins(self, raws: list[RawMessage], head: int | None, end: int) -> bool:
        """Whether *raws* is this list with more at its end, in a session that stands where it stood.

        An object of this list is itself, even one that was changed in place. Another object is compared by
        what it says.
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
    """The digests of *raws* as they were when they were logged; None where they are not known."""
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
