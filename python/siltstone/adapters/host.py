"""A host's own messages on their way into a session, and back as the same objects."""

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

    def said(self, messages: Sequence[M]) -> list[Any]:
        """For each of *messages* a value with all that :meth:`read` reads of it, as it stands now.

        Values are compared by ``==``, at each boundary and for the whole list. So they are cheap to make, and
        may be what the message itself holds. Those that are equal read alike.
        """

    def usage(self, message: M) -> Any:
        """The usage of the call that gave *message*, as the provider counted it; None if it did not."""


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


class _Known(NamedTuple):
    """A host's object that was read.

    Attributes:
        live: The object, held so that its id stays its own.
        said: What it said then, in a copy that nobody changes.
        pieces: What it was read as.
    """

    live: Any
    said: Any
    pieces: tuple[HostMessage, ...]


class HostHistory(Generic[M]):
    """The list of a host, as the session was told of it last.

    A host's object is read once, and again when it was changed in place. What comes back from the session
    stands for the host's own object: by identity, or by what it says where the host or the session has read
    its list anew from a disk.
    """

    def __init__(self, dialect: HostDialect[M]) -> None:
        self._dialect = dialect
        self._list: list[_Known] = []  # the list that was read last
        self._last: list[M] = []  # its objects
        self._said: list[Any] = []  # and what they said
        self._pieces: list[HostMessage] = []  # and what they were read as, in order
        self._read: dict[int, _Known] = {}  # by the id of the host's object
        self._given: dict[int, tuple[RawMessage, Any]] = {}  # by the id of what the session gave
        self._used: dict[int, tuple[RawMessage, Any]] = {}  # of these, what it gave since the last list
        self._parts: dict[tuple[int, ...], tuple[list[HostMessage], M]] = {}  # by the ids of the pieces

    def read(self, history: Sequence[M]) -> tuple[list[HostMessage], Any]:
        """*history* for ``session.observe``, and the usage of the newest answer that is new in it."""
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
        """*history* from *start* on. What an object, or the one in its place, was read as before, holds."""
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
                is_aligned = False  # from here on the list is another one
                usage = usage if is_first else self._dialect.usage(live) or usage
        return found, usage

    def _has(self, piece: HostMessage) -> bool:
        """Whether the list that was read last has *piece*."""
        known = self._read.get(id(piece.live))
        return known is not None and any(piece is each for each in known.pieces)

    def write(self, messages: Sequence[RawMessage]) -> list[M]:
        """The session's messages in the host's own kind: the host's own objects where they say the same."""
        read, result = self._read, list[M]()
        if len(messages) == len(self._pieces) and all(map(is_, messages, self._pieces)):
            return list(self._last)
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
            run = [each]
            while at + len(run) < len(given) and _goes_on(run[-1], given[at + len(run)]):
                run.append(given[at + len(run)])
            at += len(run)
            result.append(each.live if len(run) == each.pieces else self._partial(run))
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
            self._find(messages, missing, found)
        return found

    def _find(self, messages: Sequence[RawMessage], missing: Sequence[int], found: list[Any]) -> None:
        """Sets those of *found* in the places *missing*; of pieces that say the same, the newest are in view.

        Both lists mostly go side by side, so they are walked from their ends, until they part.
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
    """*known* for an object that says the same."""
    for piece in known.pieces:
        piece.live = live
    return _Known(live, known.said, known.pieces)


def _pieces(fields: Sequence[dict[str, Any]], live: Any) -> tuple[HostMessage, ...]:
    return tuple(HostMessage(_kept(each), live, place, len(fields)) for place, each in enumerate(fields))


def _kept(said: Any) -> Any:
    """*said* with copies of its lists and dicts: its host may change them in place."""
    if isinstance(said, dict):
        return {key: _kept(each) for key, each in said.items()}
    if isinstance(said, list):
        return [_kept(each) for each in said]
    return tuple(map(_kept, said)) if type(said) is tuple else said


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a value of the host's own that is compared in another way, such as an array
        return False


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
