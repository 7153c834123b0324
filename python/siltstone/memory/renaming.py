"""New ids and names for forgotten messages, where an id or a name is to be forgotten as well.

A call and its result, and whatever else names an id, get the same new one; so what was a pair stays one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any, Final

from siltstone.messages import identifiers
from siltstone.patterns import pattern

__all__ = ["new_names", "with_partners"]

Tombstones = Mapping[int, Mapping[str, Any]]
"""Every message of a session by its sequence number, as it would be if it were forgotten."""

_PREFIX: Final = pattern(  # of the ids that providers give: some demand it, and it says nothing
    r"(?:call|toolu|srvtoolu|mcptoolu|fc|ctc|rs|msg|ws|fs|ci|ig|mcp|mcpr|mcpl|cu|sh|lsh|apc|tsc|cmp)_"
)


def with_partners(tombstones: Tombstones, chosen: Iterable[int], text: str | None) -> set[int]:
    """*chosen*, and every message that has one of their ids (with *text* in it, where that is given)."""
    having = defaultdict[str, list[int]](list)
    for seq, tombstone in tombstones.items():
        for kind, value in identifiers(tombstone):
            if kind == "id" and _is_meant(value, text):
                having[value].append(seq)
    found, waiting = set(chosen), list(chosen)
    while waiting:
        for _, value in identifiers(tombstones[waiting.pop()]):
            new = set(having.pop(value, ())) - found
            found |= new
            waiting += new
    return found


def new_names(tombstones: Tombstones, chosen: AbstractSet[int], text: str | None) -> dict[str, str]:
    """A new name for each id and name of the messages *chosen* that is to be taken.

    A name that alone ties a call to its result stays while a message that is not chosen has it too.
    """
    taken = {value for tombstone in tombstones.values() for _, value in identifiers(tombstone)}
    tying = {
        value
        for seq, tombstone in tombstones.items()
        if seq not in chosen
        for kind, value in identifiers(tombstone)
        if kind == "tying name"
    }
    numbers, names = count(1), dict[str, str]()
    for seq in sorted(chosen):
        for kind, value in identifiers(tombstones[seq]):
            if value in names or not _is_meant(value, text) or (kind == "tying name" and value in tying):
                continue
            prefix = _PREFIX.match(value) if kind == "id" else None
            start = prefix[0] if prefix is not None and (text is None or text not in prefix[0]) else ""
            names[value] = next(
                new for number in numbers if (new := f"{start}forgotten_{number}") not in taken
            )
    return names


def _is_meant(value: str, text: str | None) -> bool:
    return text is None or text in value
