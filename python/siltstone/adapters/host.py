"""A host's own messages on their way into a session, and back as the same objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import is_
from typing import Any, Generic, Protocol, TypeVar

from siltstone.messages import (
    Provenance,
    RawMessage,
    SubstituteMessage,
    SummaryMessage,
    encode,
)
from siltstone.messages.message import provenance_of

__all__ = ["HostDialect", "HostHistory", "HostMessage"]

M = TypeVar("M")


class HostDialect(Protocol[M]):
    """How the messages of a framework are read and written."""

    def read(self, message: M) -> Sequence[dict[str, Any]]:
        """*message* in a dialect that a session reads, as all that a model is sent of it.

        Mostly one dict. Several, in order, where a framework puts into one message what has to leave a
        history apart, such as a system prompt beside a request. None where a model is sent nothing of it.
        """

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: M | None) -> M:
        """A message with *fields*, which say where they came from.

        *original* is the host's message in whose place it stands, where there is one and it is known.
        """

    def part(self, message: M, pieces: Sequence[int]) -> M:
        """*message* with some of the pieces alone that :meth:`read` gave, by their places."""

    def usage(self, message: M) -> Any:
        """What the provider counted for the call that gave *message*; None where it does not say."""


class HostMessage(dict[str, Any]):
    """A message as a session knows it, with the host's own object that it was read from.

    Attributes:
        live: The host's object.
        piece: Which piece of it this is, from 0.
        pieces: How many it has.
    """

    __slots__ = ("live", "piece", "pieces")

    def __init__(self, fields: Mapping[str, Any], live: Any, piece: int, pieces: int) -> None:
        super().__init__(fields)
        self.live, self.piece, self.pieces = live, piece, pieces


class HostHistory(Generic[M]):
    """The list of a host, as the session was told of it last.

    A host's object is read once. What comes back from the session stands for the host's own object: by
    identity, or by what it says where the host or the session has read its list anew from a disk.
    """

    def __init__(self, dialect: HostDialect[M]) -> None:
        self._dialect = dialect
        self._last: list[M] = []  # the list that was read last
        self._pieces: list[HostMessage] = []  # and what it was read as
        self._read: dict[int, tuple[M, tuple[HostMessage, ...]]] = {}  # by the id of the host's object
        self._given: dict[int, tuple[RawMessage, Any]] = {}  # by the id of what the session gave
        self._used: dict[int, tuple[RawMessage, Any]] = {}  # of these, what it gave since the last list
        self._parts: dict[tuple[int, ...], tuple[M, M]] = {}  # by the id of the host's object, and the pieces

    def read(self, history: Sequence[M]) -> tuple[list[HostMessage], Any]:
        """*history* for ``session.observe``, and the usage of the newest answer that is new in it."""
        goes_on = len(history) >= len(self._last) and all(map(is_, self._last, history))
        found, usage = list[HostMessage](), None
        if goes_on:
            found += self._pieces
        now = dict(self._read) if goes_on else {}
        before = iter(self._pieces[len(found) :])
        is_first = not self._pieces
        for live in history[len(self._last) if goes_on else 0 :]:
            known = self._read.get(id(live))
            if known is not None:
                next(islice(before, len(known[1]) - 1, None), None)  # they stood here before, if any did
            elif (again := self._known_again(live, before)) is not None:
                known = live, again
            else:
                known = live, _pieces(self._dialect.read(live), live)
                before = iter(())  # from here on the list is another one
                usage = usage if is_first else self._dialect.usage(live) or usage
            now[id(live)] = known
            found += known[1]
        self._read, self._last, self._pieces = now, list(history), found
        self._given, self._used = self._used, {}
        self._parts = {key: known for key, known in self._parts.items() if key[0] in now}
        return list(found), usage

    def _known_again(self, live: M, before: Iterator[HostMessage]) -> tuple[HostMessage, ...] | None:
        """The pieces that stood where *live* stands now, where it says the same: its host read it anew."""
        first = next(before, None)
        if first is None:
            return None
        pieces = first, *islice(before, first.pieces - 1)
        if list(pieces) != list(self._dialect.read(live)):
            return None
        for each in pieces:
            each.live = live
        return pieces

    def write(self, messages: Sequence[RawMessage]) -> list[M]:
        """What the session gave, in the host's own kind: its own objects where it said the same."""
        read, result = self._read, list[M]()
        for raw in messages:  # mostly it is the host's own, and whole
            if type(raw) is not HostMessage or raw.pieces != 1 or id(raw.live) not in read:
                break
            result.append(raw.live)
        else:
            return result
        at = len(result)
        given = self._matched(messages)
        while at < len(given):
            each = given[at]
            if not isinstance(each, HostMessage):
                result.append(each)
                at += 1
                continue
            pieces = [each.piece]
            while at + len(pieces) < len(given) and _goes_on(each, pieces[-1], given[at + len(pieces)]):
                pieces.append(given[at + len(pieces)].piece)
            at += len(pieces)
            whole = len(pieces) == each.pieces
            result.append(each.live if whole else self._partial(each.live, pieces))
        return result

    def _matched(self, messages: Sequence[RawMessage]) -> list[Any]:
        """Each of *messages* as the piece of the host's list that it stands for, or as a message we wrote."""
        found: list[Any] = [None] * len(messages)
        missing = list[int]()
        for place, raw in enumerate(messages):
            if type(raw) is HostMessage and id(raw.live) in self._read:
                found[place] = raw
                continue
            given = self._used.get(id(raw)) or self._given.get(id(raw))
            if given is None or not self._is_current(given[1]):
                missing.append(place)
                continue
            self._used[id(raw)], found[place] = given, given[1]
        if missing:
            index = _Index(piece for _, pieces in self._read.values() for piece in pieces)
            for place in reversed(missing):  # of those that say the same, the newest are in view
                raw = messages[place]
                found[place] = self._stood_for(raw, index)
                self._used[id(raw)] = raw, found[place]
        return found

    def _is_current(self, given: Any) -> bool:
        return not isinstance(given, HostMessage) or id(given.live) in self._read

    def _stood_for(self, raw: RawMessage, index: _Index) -> Any:
        provenance = "compaction_summary" if isinstance(raw, SummaryMessage) else provenance_of(raw)
        same = index.same(raw)
        if same is not None:
            return same
        original = None
        if isinstance(raw, SubstituteMessage) and (answered := index.answering(raw)) is not None:
            original = answered.live if answered.pieces == 1 else None
        fields = raw if isinstance(raw, Mapping) else raw.model_dump(mode="json", exclude_none=True)
        return self._dialect.write(fields, provenance, original)

    def _partial(self, live: M, pieces: Sequence[int]) -> M:
        known = self._parts.get(key := (id(live), *pieces))
        if known is None:
            known = self._parts[key] = live, self._dialect.part(live, pieces)
        return known[1]


def _pieces(fields: Sequence[dict[str, Any]], live: Any) -> tuple[HostMessage, ...]:
    return tuple(HostMessage(each, live, place, len(fields)) for place, each in enumerate(fields))


class _Index:
    """The pieces of a host's list by what they say; the text of each is made once, when first asked."""

    def __init__(self, pieces: Iterable[HostMessage]) -> None:
        self._by_text: dict[str, list[HostMessage]] = {}
        self._by_call: dict[frozenset[str], HostMessage] = {}
        for each in pieces:
            self._by_text.setdefault(encode(each), []).append(each)
            if calls := _answered(each):
                self._by_call[calls] = each

    def same(self, raw: RawMessage) -> HostMessage | None:
        """The last piece that says the same as *raw* and was not given yet."""
        pieces = self._by_text.get(encode(raw))
        return pieces.pop() if pieces else None

    def answering(self, raw: SubstituteMessage) -> HostMessage | None:
        """The piece that answers the same calls as *raw*."""
        return self._by_call.get(_answered(raw))


def _goes_on(first: HostMessage, piece: int, other: object) -> bool:
    return isinstance(other, HostMessage) and other.live is first.live and other.piece > piece


def _answered(fields: Mapping[str, Any]) -> frozenset[str]:
    """The ids of the calls that a message answers."""
    if isinstance(call := fields.get("tool_call_id") or fields.get("call_id"), str):
        return frozenset((call,)) if fields.get("role") in (None, "tool") else frozenset()
    content = fields.get("content")
    blocks = content if isinstance(content, list) else ()
    return frozenset(
        each["tool_use_id"]
        for each in blocks
        if isinstance(each, Mapping) and isinstance(each.get("tool_use_id"), str)
    )
