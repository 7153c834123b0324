"""Where does a host's own list go on from what the log already has?

A host that owns its list hands in all of it. Its messages are told apart by identity, as far as the same
objects were seen before, else by their content. Two shapes go on from a log: the whole of it with more at
the end, or a view that the session gave, with more at the end. Between them anything goes that leaves
messages out from the front; nothing goes that changes, reorders or takes back what was logged.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from hashlib import blake2b

from siltstone.messages import RawMessage, SummaryMessage, encode

__all__ = ["Sightings", "digest", "first_new", "is_summary"]


def digest(text: str) -> bytes:
    """What tells the JSON text of one message from that of another."""
    return blake2b(text.encode(), digest_size=16).digest()


class Sightings:
    """The digests of objects that were seen before: an object that was changed in place is still itself."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[RawMessage, bytes]] = {}  # the object is held, so its id stays its own

    def digest(self, raw: RawMessage) -> bytes:
        """The digest of *raw* when it was first seen."""
        known = self._seen.get(id(raw))
        return known[1] if known is not None else digest(encode(raw))

    def keep(self, raws: Sequence[RawMessage], digests: Sequence[bytes]) -> None:
        """Holds *raws* alone: what a host has dropped is not held for it."""
        self._seen = {id(raw): (raw, found) for raw, found in zip(raws, digests, strict=True)}


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
