"""What other middleware has changed in one request, applied to the session's view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from operator import is_
from typing import Any, NamedTuple, TypeVar

from siltstone.adapters.host import HostDialect, HostHistory, Shown, answered, are_equal
from siltstone.compaction.clamp import clamp_result
from siltstone.messages import RawMessage, encode, read_message
from siltstone.tokens import rule

__all__ = ["edited", "is_same", "new_items"]

M = TypeVar("M")


def is_same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two lists have the same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def edited(
    stored: Sequence[M], request: Sequence[M], view: Sequence[RawMessage], history: HostHistory[M]
) -> list[M]:
    """The messages of *view* with the changes of *request* against *stored*.

    A message that was edited, copied or moved has its new form and its new place, but a result that the view
    shows in a shorter form stays short. A message that was left out stays out, and so does a summary of
    nothing but such messages. A message that was added stands after the same message as in *request*.

    Args:
        stored: The list that the host keeps, and that the session got.
        request: The list of this request, after the changes of others.
        view: The session's view of *stored*.
        history: The history of the host, which was given *stored* last.
    """
    dialect = history.dialect
    if _common(dialect.said(stored), dialect.said(request)) == len(stored) == len(request):
        twins = {id(one): other for one, other in zip(stored, request, strict=True)}
        return [twins.get(id(message), message) for message in history.write(view)]
    shown_now = history.shown(view)
    origins = _origins(stored, request, dialect)
    places = {id(message): place for place, message in enumerate(stored)}
    of_view = [None if each.origin is None else places.get(id(each.origin.live)) for each in shown_now]
    in_request = {origin.place: at for at, origin in enumerate(origins) if origin and not origin.is_repeated}
    at_place: dict[int, list[Shown]] = {}
    for shown, place in zip(shown_now, of_view, strict=True):
        if place is not None:
            at_place.setdefault(place, []).append(shown)

    def form(shown: Shown, at: int) -> M:
        return _form(shown, stored[_place(origins[at])], request[at], dialect)

    added: dict[int, list[M]] = {}  # by the place of the stored message before
    before = -1
    for at, (message, origin) in enumerate(zip(request, origins, strict=True)):
        if origin is None:
            added.setdefault(before, []).append(message)
        elif not origin.is_moved:
            before = origin.place
        elif origin.place in at_place:
            added.setdefault(before, []).extend(form(shown, at) for shown in at_place[origin.place])
        elif origin.is_repeated:
            added.setdefault(before, []).append(message)
    moved = {origin.place for origin in origins if origin and origin.is_moved and not origin.is_repeated}
    gone = set(range(len(stored))) - at_place.keys()
    is_told = not gone or not gone.isdisjoint(in_request)  # whether the request has what a summary tells of
    result = list(added.pop(-1, ()))
    for shown, place in zip(shown_now, of_view, strict=True):
        if place is None:
            result += [shown.message] if is_told or not shown.is_summary else []
            continue
        for earlier in sorted(each for each in added if each < place):
            result += added.pop(earlier)  # the messages before them have left the view
        if place in in_request and place not in moved:
            result.append(form(shown, in_request[place]))
        if shown is at_place[place][-1]:
            result += added.pop(place, ())
    return result + [message for place in sorted(added) for message in added[place]]


def new_items(stored: Sequence[M], request: Sequence[M], dialect: HostDialect[M]) -> list[M]:
    """The end of *request* after the last of the *stored* messages, in their order, that it has."""
    end = len(request)
    origins = _origins(stored, request, dialect)
    while end and ((origin := origins[end - 1]) is None or origin.is_moved):
        end -= 1
    return list(request[end:])


class _Origin(NamedTuple):
    """The stored message of which a message of the request is a form.

    Attributes:
        place: Its place among the stored messages.
        is_moved: Whether the order of the request is another one.
        is_repeated: Whether it is in the request a second time.
    """

    place: int
    is_moved: bool = False
    is_repeated: bool = False


def _place(origin: _Origin | None) -> int:
    return -1 if origin is None else origin.place


def _origins(stored: Sequence[M], request: Sequence[M], dialect: HostDialect[M]) -> list[_Origin | None]:
    """For each message of *request* the stored message that it is, was copied from, or is an edit of."""
    found: list[_Origin | None] = [None] * len(request)
    start = _common(says := dialect.said(stored), said := dialect.said(request))
    end = _common(says[start:][::-1], said[start:][::-1])
    for at in range(start):
        found[at] = _Origin(at)
    for at in range(1, end + 1):
        found[-at] = _Origin(len(stored) - at)

    @cache
    def read(side: int, at: int) -> Sequence[dict[str, Any]]:
        return dialect.read((stored, request)[side][at])

    def name(side: int, at: int) -> Any:
        return dialect.identity((stored, request)[side][at]) or "".join(map(encode, read(side, at)))

    def shape(side: int, at: int) -> Any:
        return tuple((each.get("type"), each.get("role"), answered(each)) for each in read(side, at))

    ours, theirs = range(start, len(stored) - end), range(start, len(request) - end)
    left, new = list[int](), list[int]()
    for is_alike, mine, others in _runs(ours, theirs, name):
        if is_alike:
            for place, at in zip(mine, others, strict=True):
                found[at] = _Origin(place)
            continue
        for is_edited, before, after in _runs(mine, others, shape):
            if is_edited:
                for place, at in zip(before, after, strict=True):
                    found[at] = _Origin(place)
            else:
                left += before
                new += after
    if new:
        lost = {name(0, place): place for place in reversed(left)}
        known = {name(0, place): place for place in range(len(stored))}
        for at in new:
            key = name(1, at)
            if key in lost:
                found[at] = _Origin(lost.pop(key), is_moved=True)
            elif key in known:
                found[at] = _Origin(known[key], is_moved=True, is_repeated=True)
    return found


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """The number of equal values at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, pair in pairs if not are_equal(*pair)), min(len(one), len(other)))


def _runs(
    ours: Sequence[int], theirs: Sequence[int], key: Callable[[int, int], Any]
) -> Iterator[tuple[bool, Sequence[int], Sequence[int]]]:
    """Runs of places, in order: those with equal keys, and those without."""
    one, other = [key(0, place) for place in ours], [key(1, at) for at in theirs]
    for kind, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        yield kind == "equal", ours[a:b], theirs[c:d]


def _form(shown: Shown, stored: M, request: M, dialect: HostDialect[M]) -> M:
    """The message of the request that *stored* has become, as far as the view shows it."""
    if shown.pieces is None and not shown.is_cut:
        return request
    before, after = dialect.read(stored), dialect.read(request)
    message: M = shown.message
    if list(before) == list(after) or len(before) != len(after):
        return message
    if not shown.is_cut:
        return dialect.part(request, shown.pieces or ())
    place = 0 if shown.pieces is None else shown.pieces[0]
    cut = dialect.read(message)
    tokens = rule("blocks").count([read_message(each, 0) for each in cut])
    smaller = clamp_result(read_message(after[place], 0), tokens, rule("blocks"))
    if smaller is not None and isinstance(smaller.raw, Mapping):
        return dialect.write(smaller.raw, "substitute", request if shown.pieces is None else None)
    if rule("blocks").count([read_message(after[place], 0)]) > tokens:
        return message
    return request if shown.pieces is None else dialect.part(request, shown.pieces)
