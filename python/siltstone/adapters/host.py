"""Gives a host's own messages to a session, and returns them as the same objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

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
    """The reader and writer of a framework's messages."""

    def read(self, message: M) -> Sequence[dict[str, Any]]:
        """*message* in a dialect that a session reads, with all parts that are sent to a model.

        Usually it is one dict. It is several dicts, in order, if parts of the message must leave a history
        separately, such as a system prompt and a request. It is empty if no part is sent to a model.
        """

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: M | None) -> M:
        """A message with *fields*, which has the origin *provenance*.

        *original* is the host's message that it replaces; None if there is none, or if it is unknown.
        """

    def part(self, message: M, pieces: Sequence[int]) -> M:
        """*message* with only some of the pieces that :meth:`read` gave, by their places."""

    def said(self, messages: Sequence[M]) -> list[Any]:
        """A value for each message, with all data that :meth:`read` would read from it now.

        The values of the whole list are compared by ``==`` at each boundary. So they must be cheap to make;
        they may be objects of the message itself. Messages with equal values must give equal dicts.
        """

    def usage(self, message: M) -> Any:
        """The provider's usage of the call that gave *message*; None if it is unknown."""


class HostMessage(dict[str, Any]):
    """A message in the session's form, with the host's object that it was read from.

    Attributes:
        live: The host's object.
        piece: The number of this piece of the object, from 0.
        pieces: The number of its pieces.
    """

    __slots__ = ("live", "piece", "pieces")

    def __init__(self, fields: Mapping[str, Any], live: Any, piece: int, pieces: int) -> None:
        super().__init__(fields)
        self.live, self.piece, self.pieces = live, piece, pieces


class _Known(NamedTuple):
    """A host's object that was read before.

    Attributes:
        live: The object. It is held so that no other object gets its ``id``.
        said: The value of ``said`` at that time, as a copy.
        pieces: The pieces that were read from it.
    """

    live: Any
    said: Any
    pieces: tuple[HostMessage, ...]


class HostHistory(Generic[M]):
    """The list of a host, as the session got it last.

    A host's object is read once, and again after a change in place. Messages from the session become the
    host's own objects again. They are matched by identity; or by their content, if the host or the session
    has loaded its list again.
    """

    def __init__(self, dialect: HostDialect[M]) -> None:
        self._dialect = dialect
        self._list: list[_Known] = []  # the list that was read last
        self._last: list[M] = []  # its objects
        self._said: list[Any] = []  # the values of `said` of its objects
        self._pieces: list[HostMessage] = []  # the pieces of its objects, in order
        self._read: dict[int, _Known] = {}  # by the id of the host's object
        self._given: dict[int, tuple[RawMessage, Any]] = {}  # by the id of a message from the session
        self._used: dict[int, tuple[RawMessage, Any]] = {}  # the part of it that is used since the last list
        self._parts: dict[tuple[int, ...], tuple[list[HostMessage], M]] = {}  # by the ids of the pieces

    def read(self, history: Sequence[M]) -> tuple[list[HostMessage], Any]:
        """The messages for ``session.observe``, and the usage of the newest new answer in *history*."""
        says, length = self._dialect.said(history), len(self._last)
        goes_on = len(says) >= length and _are_equal(says[:length], self._said)
        if goes_on and not all(map(is_, self._last, history)):
            self._list = list(map(_owned_by, history, self._list))
            self._read = {id(each.live): each for each in self._list}
        known = self._list if goes_on else []
        more, usage = self._more(history, says, len(known))
        found = self._pieces if goes_on else []
        self._pieces = [*found, *(piece for each in more for piece in each.pieces)]
        self._list, self._last = [*known, *more], list(history)
        self._said = [*self._said[: len(known)], *(each.said for each in more)]
        if goes_on:
            self._read.update((id(each.live), each) for each in more)
        else:
            self._read = {id(each.live): each for each in more}
        if self._used:
            self._given, self._used = self._used, {}
        self._parts = {key: part for key, part in self._parts.items() if self._has(part[0][0])}
        return list(self._pieces), usage

    def _more(self, history: Sequence[M], says: Sequence[Any], start: int) -> tuple[list[_Known], Any]:
        """The objects of *history* from *start* on, and the usage of the newest new answer.

        An unchanged object keeps its pieces. So does an object that equals the earlier object in its place.
        """
        found, usage = list[_Known](), None
        is_first, is_aligned = not self._list, True
        for place in range(start, len(history)):
            live, said = history[place], says[place]
            was = self._read.get(id(live))
            if was is not None and _are_equal(was.said, said):
                found.append(was)
                continue
            before = self._list[place] if is_aligned and place < len(self._list) else None
            if before is not None and _are_equal(before.said, said):
                found.append(_owned_by(live, before))
                continue
            fields = self._dialect.read(live)
            if before is not None and list(before.pieces) == list(fields):
                found.append(_owned_by(live, before._replace(said=_kept(said))))
                continue
            found.append(_Known(live, _kept(said), _pieces(fields, live)))
            if was is None:
                is_aligned = False  # from here on, the places of both lists differ
                usage = usage if is_first else self._dialect.usage(live) or usage
        return found, usage

    def _has(self, piece: HostMessage) -> bool:
        """Whether the list that was read last has *piece*."""
        known = self._read.get(id(piece.live))
        return known is not None and any(piece is each for each in known.pieces)

    def write(self, messages: Sequence[RawMessage]) -> list[M]:
        """The session's messages as the host's own objects, or as new messages of the host's kind."""
        read, result = self._read, list[M]()
        if len(messages) == len(self._pieces) and all(map(is_, messages, self._pieces)):
            return list(self._last)
        for raw in messages:  # most messages are whole objects of the host
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
            run = [each]
            while at + len(run) < len(given) and _goes_on(run[-1], given[at + len(run)]):
                run.append(given[at + len(run)])
            at += len(run)
            result.append(each.live if len(run) == each.pieces else self._partial(run))
        return result

    def _matched(self, messages: Sequence[RawMessage]) -> list[Any]:
        """For each message the matching piece of the host's list, or a new message of the host's kind."""
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
            self._find(messages, missing, found)
        return found

    def _find(self, messages: Sequence[RawMessage], missing: Sequence[int], found: list[Any]) -> None:
        """Fills the places *missing* of *found*. Among equal pieces the newest are in view.

        Most messages of both lists are equal, so the lists are compared from their ends up to the first
        difference. Only the messages before it are looked up by their content.
        """
        at, index = len(self._pieces) - 1, None
        for place in range(len(messages) - 1, missing[0] - 1, -1):
            raw, each = messages[place], found[place]
            if (
                index is None
                and at >= 0
                and (each is self._pieces[at] or (each is None and self._pieces[at] == raw))
            ):
                found[place] = self._pieces[at]
                at -= 1
            elif each is None:
                if index is None:
                    index = _Index(self._pieces[: at + 1])
                found[place] = self._stood_for(raw, index)
            if each is None:
                self._used[id(raw)] = raw, found[place]

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

    def _partial(self, run: list[HostMessage]) -> M:
        known = self._parts.get(key := tuple(map(id, run)))
        if known is None:
            part = self._dialect.part(run[0].live, [each.piece for each in run])
            known = self._parts[key] = run, part
        return known[1]


def _owned_by(live: Any, known: _Known) -> _Known:
    """*known*, moved to an equal object."""
    for piece in known.pieces:
        piece.live = live
    return _Known(live, known.said, known.pieces)


def _pieces(fields: Sequence[dict[str, Any]], live: Any) -> tuple[HostMessage, ...]:
    return tuple(HostMessage(_kept(each), live, place, len(fields)) for place, each in enumerate(fields))


def _kept(said: Any) -> Any:
    """A copy of *said*, with its lists and dicts, which the host may change in place."""
    if isinstance(said, dict):
        return {key: _kept(each) for key, each in said.items()}
    if isinstance(said, list):
        return [_kept(each) for each in said]
    return tuple(map(_kept, said)) if type(said) is tuple else said


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a value of the host with another kind of ==, such as an array
        return False


class _Index:
    """The pieces of a host's list by their JSON text, and by the calls that they answer."""

    def __init__(self, pieces: Iterable[HostMessage]) -> None:
        self._by_text: dict[str, list[HostMessage]] = {}
        self._by_call: dict[frozenset[str], HostMessage] = {}
        for each in pieces:
            self._by_text.setdefault(encode(each), []).append(each)
            if calls := _answered(each):
                self._by_call[calls] = each

    def same(self, raw: RawMessage) -> HostMessage | None:
        """The last piece with the same content as *raw* that was not returned before."""
        pieces = self._by_text.get(encode(raw))
        return pieces.pop() if pieces else None

    def answering(self, raw: SubstituteMessage) -> HostMessage | None:
        """The piece that answers the same calls as *raw*."""
        return self._by_call.get(_answered(raw))


def _goes_on(last: HostMessage, other: object) -> bool:
    return isinstance(other, HostMessage) and other.live is last.live and other.piece > last.piece


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
