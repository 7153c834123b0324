"""Where does a host's own list go on from what the log already has?

A host that owns its list hands in all of it. Its messages are told apart by identity, as far as the same
objects were seen before, else by their content. Two shapes go on from a log: the whole of it with more at
the end, or a view that the session gave, with more at the end. Between them anything goes that leaves
messages out from the front; nothing goes that changes, reorders or takes back what was logged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from siltstone.messages import RawMessage, SummaryMessage, encode

__all__ = ["HostList", "first_new", "is_summary"]


Seen: TypeAlias = tuple[RawMessage, bytes]
"""A message of a host's list, and its digest when it was first seen."""


def digest(text: str) -> bytes:
    """What tells the JSON text of one message from that of another."""
    return blake2b(text.encode(), digest_size=16).digest()


class Sightings:
    """The digests of objects that were seen before: an object that was changed in place is still itself."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}  # the object is held, so its id stays its own

    def digest(self, raw: RawMessage) -> bytes:
        """The digest of *raw* when it was first seen."""
        known = self._seen.get(id(raw))
        return known[1] if known is not None else digest(encode(raw))

    def keep(self, seen: Iterable[Seen]) -> None:
        """Holds *seen* alone: what a host has dropped is not held for it."""
        self._seen = {id(raw): (raw, found) for raw, found in seen}


class HostList:
    """What a session knows of the log and of its host's own list, by digest."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self._injected: set[bytes] = set()  # what hooks have added: a host's list may have it, or not
        self._former: list[bytes] = []  # of messages that were forgotten since: the host may have them still
        self._sightings = Sightings()

    def __len__(self) -> int:
        return len(self._log)

    def learn(self, raw: str, *, injected: bool) -> None:
        """Takes in the JSON text of the log's next message."""
        self._log.append(digest(raw))
        if injected:
            self._injected.add(self._log[-1])

    def reread(self) -> None:
        """The log is to be taken in anew: something of it was forgotten."""
        self._former += self._log[len(self._former) :]
        self._log, self._sightings = [], Sightings()

    def originals(self, raws: Iterable[RawMessage]) -> list[Seen]:
        """Those of *raws* that no hook has added."""
        seen = ((raw, self._sightings.digest(raw)) for raw in raws)
        return [each for each in seen if each[1] not in self._injected]

    def new(self, originals: Sequence[Seen], view: Sequence[int] | None) -> int | None:
        """The place in *originals* of the first message that the log has not; None where it conflicts.

        *view* has the sequence numbers of the current view, where the host's list has its summary.
        """
        found = [each for _, each in originals]
        for known in (self._log, self._former + self._log[len(self._former) :]):
            said = [each for each in known if each not in self._injected]
            place = first_new(found, said, None if view is None else [known[seq] for seq in view])
            if place is not None:
                return place
        return None

    def keep(self, originals: Sequence[Seen], start: int) -> None:
        """Holds *originals* alone, each as it was when first seen; those from *start* were appended."""
        self._log += [each for _, each in originals[start:]]
        self._sightings.keep(originals)


def first_new(host: Sequence[bytes], log: Sequence[bytes], view: Sequence[bytes] | None) -> int | None:
    """The place in *host* of the first message that *log* has not; None where it does not go on from it.

    Args:
        host: The host's messages, without summaries.
        log: Every message ever appended.
        view: The messages of the current view, where *host* has its summary; else None.
    """
    for known in (log, view):
        if known is not None and list(host[: len(known)]) == list(known):
            return len(known)
    for end in range(len(host), 0, -1):
        if host[end - 1] == log[-1] and _is_subsequence(host[:end], log):
            return end
    return None


def _is_subsequence(part: Sequence[bytes], whole: Sequence[bytes]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


def is_summary(raw: RawMessage, summaries: Container[str]) -> bool:
    """Whether *raw* is a summary of ours, also one that went through JSON."""
    if isinstance(raw, SummaryMessage):
        return True
    fields = raw if isinstance(raw, Mapping) else {}
    content = fields.get("content")
    return fields.get("role") == "user" and isinstance(content, str) and content in summaries
