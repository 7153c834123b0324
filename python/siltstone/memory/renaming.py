"""New ids and names for forgotten messages, if ids and names must be forgotten too.

A call, its result, and every other message with the same id get the same new id, so pairs stay pairs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set as AbstractSet
from itertools import count
from typing import Any, Final

from siltstone.messages import identifiers

__all__ = ["new_names", "with_partners"]

Tombstones = Mapping[int, Mapping[str, Any]]
"""The tombstone of every message of a session, by sequence number."""

_PREFIX: Final = re.compile(  # prefixes of providers' ids: some require them, and they tell nothing
    r"(?:call|toolu|srvtoolu|mcptoolu|fc|ctc|rs|msg|ws|fs|ci|ig|mcp|mcpr|mcpl|cu|sh|lsh|apc|tsc|cmp)_"
)


def with_partners(tombstones: Tombstones, chosen: Iterable[int], text: str | None) -> set[int]:
    """*chosen*, and every message that shares an id with them; with *text*, only ids that contain it."""
    having = defaultdict[str, list[int]](list)
    for seq, raw in tombstones.items():
        for kind, value in identifiers(raw):
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
    """A new name for each id and name of the messages *chosen* that must be forgotten.

    A tool name that alone ties a call to its result stays if a message outside *chosen* has it too.
    """
    taken = {value for raw in tombstones.values() for _, value in identifiers(raw)}
    tying = {
        value
        for seq, raw in tombstones.items()
        if seq not in chosen
        for kind, value in identifiers(raw)
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
