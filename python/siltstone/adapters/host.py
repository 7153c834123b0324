"""Gives a host's own messages to a session, and returns them as the same objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from siltstone import messages as chat
from siltstone.messages import RawMessage
from siltstone.messages.message import provenance_of

M = TypeVar("M")

_NEWEST, _IN_TURN = 500, 1_000  # objects of a list that are compared at each call, if all are known
_SHORTEST = 16  # code points: shorter texts of a host's form are written twice


class HostDialect(Protocol[M]):
    """The reader and writer of a framework's messages.

    A dialect is a subclass. The methods below that have a body suit most frameworks: one dict for each
    message, and ids that nobody sets.
    """

    name: str  #: The name of the framework, by which a log knows whose form of a message it has.

    def read(self, message: M) -> Sequence[dict[str, Any]]:
        """*message* in a dialect that a session reads, with all parts that are sent to a model.

        Usually it is one dict. It is several dicts, in order, if parts of the message must leave a history
        separately, such as a system prompt and a request. It is empty if no part is sent to a model.
        """

    def write(self, fields: Mapping[str, Any], provenance: chat.Provenance, original: M | None) -> M:
        """A message with *fields*, which has the origin *provenance*.

        *original* is the host's message that it replaces; None if there is none, or if it is unknown. The new
        message never has its id: a framework that finds two messages with one id takes them for one message.
        """

    def said(self, messages: Sequence[M]) -> list[Any]:
        """A value for each message, with all data that :meth:`read` would read from it now.

        The values of the whole list are compared by ``==`` at each boundary. So they must be cheap to make;
        they may be objects of the message itself. Messages with equal values must give equal dicts.
        """

    def kept(self, message: M) -> Any:
        """All of *message* as a JSON value for the log; None if what :meth:`read` gives is all of it."""

    def restored(self, kept: Any) -> M:
        """The message of which :meth:`kept` gave *kept*. May raise any error, if it is no such value."""

    def usage(self, message: M) -> Any:  # noqa: ARG002
        """The provider's usage of the call that gave *message*; None if it is unknown."""
        return None

    def identity(self, message: M) -> str | None:  # noqa: ARG002
        """The id by which the framework knows *message*; None if it has none."""
        return None

    def part(self, message: M, pieces: Sequence[int]) -> M:  # noqa: ARG002
        """*message* with only some of the pieces that :meth:`read` gave, by their places."""
        return message

    def joined(self, parts: Sequence[M]) -> M:
        """The message of which *parts* are all pieces, or some in a row."""
        return parts[0]


class HostMessage(chat.HostedMessage):
    """A message in the session's form, with the host's object that it was read from.

    Attributes:
        live: The host's object.
        piece: The number of this piece of the object, from 0.
        pieces: The number of its pieces.
        dialect: The dialect that has read it.
    """

    __slots__ = ("dialect", "live", "piece", "pieces")

    def __init__(
        self, fields: Mapping[str, Any], live: Any, piece: int, pieces: int, dialect: HostDialect[Any]
    ) -> None:
        super().__init__(fields, {})
        self.live, self.piece, self.pieces, self.dialect = live, piece, pieces, dialect

    @property
    def host(self) -> Mapping[str, Any]:
        """The framework's form of the piece, for the log. Texts that the fields have are not repeated."""
        one = self.pieces == 1
        kept = self.dialect.kept(self.live if one else self.dialect.part(self.live, [self.piece]))
        if kept is None:
            return {}
        place = {} if one else {"piece": self.piece, "pieces": self.pieces}
        return {"of": self.dialect.name, **place, "kept": _shortened(kept, _texts(self))}


class Shown(NamedTuple):
    """A message for the host, and the host's object behind it.

    Attributes:
        message: The message, of the host's kind.
        origin: A piece of the host's object that it is, that it is a part of, or that it stands for; None if
            there is none, or if it is unknown.
        pieces: The places of the pieces that it has, if it has a part of them; None if it is whole.
        is_cut: Whether it stands for the object in a shorter form.
        is_summary: Whether it is a summary.
    """

    message: Any
    origin: HostMessage | None = None
    pieces: tuple[int, ...] | None = None
    is_cut: bool = False
    is_summary: bool = False


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


class _Restored(NamedTuple):
    """A message, or a piece of one, in the framework's form that the log has kept."""

    message: Any
    piece: int
    pieces: int


class HostHistory(Generic[M]):
    """The list of a host, as the session got it last.

    A host's object is read once, and again after a change in place. Messages from the session become the
    host's own objects again. They are matched by identity; or by their content, if the host or the session
    has loaded its list again.
    """

    def __init__(self, dialect: HostDialect[M]) -> None:
        self.dialect = dialect
        self._list: list[_Known] = []  # the list that was read last
        self._last: list[M] = []  # its objects
        self._compared = 0  # the place from which old objects are compared next
        self._pieces: list[HostMessage] = []  # the pieces of its objects, in order
        self._read: dict[int, _Known] = {}  # by the id of the host's object
        self._given: dict[int, tuple[RawMessage, Any]] = {}  # by the id of a message from the session
        self._used: dict[int, tuple[RawMessage, Any]] = {}  # the part of it that is used since the last list
        self._parts: dict[tuple[int, ...], tuple[list[Any], M]] = {}  # by the ids of the pieces

    @staticmethod
    def is_same(one: Sequence[object], other: Sequence[object]) -> bool:
        """Whether two lists have the same objects."""
        return len(one) == len(other) and chat.begins_alike(list(one), list(other))

    def read(self, history: Sequence[M]) -> tuple[list[HostMessage], Any]:
        """The messages for ``session.observe``, and the usage of the newest new answer in *history*."""
        goes_on, is_known = self._compare(history)
        if not (goes_on and is_known):
            self._parts = {}  # they may have old objects of the host in them
            if goes_on:
                self._list = list(map(_owned_by, history, self._list))
                self._read = {id(each.live): each for each in self._list}
        known = len(self._last) if goes_on else 0
        more, usage = self._more(history, self.dialect.said(history[known:]), known)
        if not goes_on:
            self._list, self._pieces, self._read, self._compared = [], [], {}, 0
        self._list += more
        self._pieces += [piece for each in more for piece in each.pieces]
        self._read.update((id(each.live), each) for each in more)
        self._last = list(history)
        if self._used:
            self._given, self._used = self._used, {}
        if not goes_on:  # what was remembered may be in the list now
            self._given = {key: each for key, each in self._given.items() if type(each[1]) is Shown}
        return list(self._pieces), usage

    def _compare(self, history: Sequence[M]) -> tuple[bool, bool]:
        """Whether *history* begins with the list before; and whether it has the same objects there.

        Of the same objects, the newest are compared with what they said, and a part of the others in turn.
        """
        length, at, end = len(self._last), 0, len(self._last)
        is_known = self.is_same(self._last, history[:length])
        if is_known:
            at, end = self._compared, min(length, self._compared + _IN_TURN)
        newest = max(end, length - _NEWEST)
        self._compared = 0 if newest == end else end
        spans = slice(at, end), slice(newest, length)
        said = ([each.said for each in self._list[span]] for span in spans)
        says = (self.dialect.said(history[span]) for span in spans)
        return all(map(are_equal, said, says)), is_known

    def _more(self, history: Sequence[M], says: Sequence[Any], start: int) -> tuple[list[_Known], Any]:
        """The objects of *history* from *start* on, which say *says*, and the usage of the newest new answer.

        An unchanged object keeps its pieces. So does an object that equals the earlier object in its place.
        """
        found, usage = list[_Known](), None
        is_first, is_aligned = not self._list, True
        present = set(map(id, history)) if start < len(self._list) else set()
        for place in range(start, len(history)):
            live, said = history[place], says[place - start]
            was = self._read.get(id(live))
            if was is not None and are_equal(was.said, said):
                found.append(was)
                continue
            before = self._list[place] if is_aligned and place < len(self._list) else None
            if before is not None and before.live is not live and id(before.live) in present:
                before = None  # it has only moved, behind an equal message of another life
            if before is not None and are_equal(before.said, said):
                found.append(_owned_by(live, before))
                continue
            fields = self.dialect.read(live)
            if before is not None and list(before.pieces) == list(fields):
                found.append(_owned_by(live, before._replace(said=_copied(said))))
                continue
            pieces = (
                HostMessage(_copied(each), live, piece, len(fields), self.dialect)
                for piece, each in enumerate(fields)
            )
            found.append(_Known(live, _copied(said), tuple(pieces)))
            if was is None:
                is_aligned = False  # from here on, the places of both lists differ
                usage = usage if is_first else self.dialect.usage(live) or usage
        return found, usage

    def write(self, messages: Sequence[RawMessage]) -> list[M]:
        """The session's messages as the host's own objects, or as new messages of the host's kind."""
        read, result = self._read, list[M]()
        if self.is_same(messages, self._pieces):
            return list(self._last)
        for raw in messages:  # most messages are whole objects of the host
            if type(raw) is not HostMessage or raw.pieces != 1 or id(raw.live) not in read:
                return [each.message for each in self.shown(messages)]
            result.append(raw.live)
        return result

    def shown(self, messages: Sequence[RawMessage]) -> list[Shown]:
        """As :meth:`write`, with the host's object behind each message."""
        result, given, at = list[Shown](), self._matched(messages), 0
        while at < len(given):
            entry = given[at]
            if type(entry) is Shown:
                result.append(entry)
                at += 1
                continue
            run = [entry]
            while at + len(run) < len(given) and _goes_on(run[-1], given[at + len(run)]):
                run.append(given[at + len(run)])
            at += len(run)
            result.append(self._of_run(run))
        return result

    def _matched(self, messages: Sequence[RawMessage]) -> list[Any]:
        """For each message the piece of the host that it is, or what stands for it."""
        found: list[Any] = [None] * len(messages)
        missing = list[int]()
        for place, raw in enumerate(messages):
            if type(raw) is HostMessage and id(raw.live) in self._read:
                found[place] = raw
                continue
            given = self._used.get(id(raw)) or self._given.get(id(raw))
            if given is None or not (given[1] is raw or self._is_current(given[1])):
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
            raw, entry = messages[place], found[place]
            if (
                index is None
                and at >= 0
                and (entry is self._pieces[at] or (entry is None and self._pieces[at] == raw))
            ):
                found[place] = self._pieces[at]
                at -= 1
            elif entry is None:
                if index is None:
                    index = _Index(self._pieces[: at + 1])
                found[place] = index.same(raw) or self._remembered(raw) or self._new(raw, index)
            if entry is None:
                self._used[id(raw)] = raw, found[place]

    def _is_current(self, entry: Any) -> bool:
        piece = entry if isinstance(entry, HostMessage) else getattr(entry, "origin", None)
        return piece is None or id(piece.live) in self._read

    def _remembered(self, raw: RawMessage) -> HostMessage | _Restored | None:
        """What the host had of a message that its list lacks now: its object, or its form in the log."""
        if type(raw) is HostMessage:
            pieces = self.dialect.read(raw.live)
            return raw if len(pieces) == raw.pieces and pieces[raw.piece] == raw else None
        host = raw.host if isinstance(raw, chat.HostedMessage) else {}
        if host.get("of") != self.dialect.name:
            return None
        try:
            message = self.dialect.restored(_lengthened(host["kept"], list(_leaves(raw))))
        except Exception:  # another version of the framework wrote it: the fields have what a model is sent
            return None
        return _Restored(message, host.get("piece", 0), host.get("pieces", 1))

    def _new(self, raw: RawMessage, index: _Index) -> Shown:
        is_summary = isinstance(raw, chat.SummaryMessage)
        piece = index.answering(raw) if isinstance(raw, chat.SubstituteMessage) else None
        fields = raw if isinstance(raw, Mapping) else raw.model_dump(mode="json", exclude_none=True)
        message = self.dialect.write(
            fields,
            "compaction_summary" if is_summary else provenance_of(raw),
            piece.live if piece is not None and piece.pieces == 1 else None,
        )
        if piece is None:
            return Shown(message, is_summary=is_summary)
        return Shown(message, piece, None if piece.pieces == 1 else (piece.piece,), is_cut=True)

    def _of_run(self, run: list[Any]) -> Shown:
        """The whole message of which *run* are pieces, or a part of it."""
        first = run[0]
        pieces = tuple(each.piece for each in run)
        is_live = isinstance(first, HostMessage)
        if is_live and len(run) == first.pieces:
            return Shown(first.live, first)
        if not is_live and len(run) == 1:
            return Shown(first.message)
        known = self._parts.get(key := tuple(map(id, run)))
        if known is None:
            if is_live:
                part = self.dialect.part(first.live, pieces)
            else:
                part = self.dialect.joined([each.message for each in run])
            known = self._parts[key] = run, part
        return Shown(known[1], first, pieces) if is_live else Shown(known[1])


def _owned_by(live: Any, known: _Known) -> _Known:
    """*known*, moved to an equal object."""
    for piece in known.pieces:
        piece.live = live
    return _Known(live, known.said, known.pieces)


def _copied(said: Any) -> Any:
    """A copy of *said*, with its lists and dicts, which the host may change in place."""
    if isinstance(said, dict):
        return {key: _copied(each) for key, each in said.items()}
    if isinstance(said, list):
        return [_copied(each) for each in said]
    return tuple(map(_copied, said)) if type(said) is tuple else said


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values of a host are equal; False if they cannot be compared."""
    try:
        return bool(one == other)
    except Exception:  # a value of the host with another kind of ==, such as an array
        return False


def text_block(text: str) -> dict[str, Any]:
    """A block with *text*."""
    return {"type": "text", "text": text}


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """*content* as blocks."""
    given = [content] if isinstance(content, str) else content or ()
    return [text_block(each) if isinstance(each, str) else each for each in given]


class _Index:
    """The pieces of a host's list by their JSON text, and by the calls that they answer."""

    def __init__(self, pieces: Iterable[HostMessage]) -> None:
        self._by_text: dict[str, list[HostMessage]] = {}
        self._by_call: dict[frozenset[str], HostMessage] = {}
        for each in pieces:
            self._by_text.setdefault(chat.encode(each), []).append(each)
            if calls := answered(each):
                self._by_call[calls] = each

    def same(self, raw: RawMessage) -> HostMessage | None:
        """The last piece with the same content as *raw* that was not returned before."""
        pieces = self._by_text.get(chat.encode(raw))
        return pieces.pop() if pieces else None

    def answering(self, raw: chat.SubstituteMessage) -> HostMessage | None:
        """The piece that answers the same calls as *raw*."""
        return self._by_call.get(answered(raw))


def _goes_on(last: Any, other: Any) -> bool:
    """Whether *other* is a later piece of the same message as *last*."""
    if isinstance(last, HostMessage):
        return isinstance(other, HostMessage) and other.live is last.live and other.piece > last.piece
    return isinstance(other, _Restored) and other.pieces == last.pieces > 1 and other.piece == last.piece + 1


def answered(fields: Mapping[str, Any]) -> frozenset[str]:
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


def _texts(fields: Mapping[str, Any]) -> dict[str, int]:
    """The longer texts in *fields*, each with its number among all texts there."""
    return {text: at for at, text in enumerate(_leaves(fields)) if len(text) >= _SHORTEST}


def _leaves(value: Any) -> Iterator[str]:
    """The texts in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(each)


def _shortened(kept: Any, texts: Mapping[str, int]) -> Any:
    """*kept* with ``=`` and a number in the place of each of *texts*; a text that begins with = has two."""
    if isinstance(kept, str):
        if kept in texts:
            return f"={texts[kept]}"
        return f"={kept}" if kept.startswith("=") else kept
    if isinstance(kept, Mapping):
        return {key: _shortened(each, texts) for key, each in kept.items()}
    return [_shortened(each, texts) for each in kept] if isinstance(kept, list | tuple) else kept


def _lengthened(kept: Any, texts: Sequence[str]) -> Any:
    """The inverse of :func:`_shortened`."""
    if isinstance(kept, str) and kept.startswith("="):
        return kept[1:] if kept.startswith("==") else texts[int(kept[1:])]
    if isinstance(kept, Mapping):
        return {key: _lengthened(each, texts) for key, each in kept.items()}
    return [_lengthened(each, texts) for each in kept] if isinstance(kept, list) else kept
