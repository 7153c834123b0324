"""Facts and corrections as rows of a store: of one session, or of its namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Final, Protocol, TypeAlias

from siltstone.errors import ConfigError
from siltstone.knowledge.base import Correction, Fact, fact_of, now_ms
from siltstone.messages.json_text import dump

__all__ = ["MAX_CORRECTIONS", "MAX_FACTS", "FactRow", "FactRows", "StoredFacts"]

MAX_FACTS: Final = 10_000
MAX_CORRECTIONS: Final = 1_000

FactRow: TypeAlias = tuple[int, str, str, str, str, int, int]
"""Id, namespace, state, key, body as JSON, when it was made and changed (ms)."""

_CORRECTION: Final = "correction"
_GONE: Final = "gone"  #: a row without a text, that the next new fact takes


class FactRows(Protocol):
    """What a store has of facts: rows that it gives no meaning."""

    def put_facts(self, session: str, facts: list[tuple[int | None, str, str, str]], now: int) -> list[int]:
        """Writes ``(id, key, state, body)`` in one transaction; their ids."""

    def facts(self, session: str, state: str | None) -> list[FactRow]:
        """The rows of the session, in the order of their first writes."""

    def namespace_facts(self, namespace: str, state: str | None) -> list[FactRow]:
        """The rows of all sessions of the namespace."""


class StoredFacts:
    """A :class:`FactStore` over the rows of a store.

    A row that cannot be read is left out and counted in ``damaged``; it stops no other.

    Args:
        rows: The store.
        session_id: Whose facts are written.
        namespace: Where it is given, the facts of all its sessions are read, and changed in place.
        redact: Takes the secrets out of every text before it is written.
        max_facts: The most facts; above it history leaves first, then the oldest, and their texts with them.
        max_corrections: The most corrections; the oldest leave first.

    Raises:
        ConfigError: a bound below 1.
    """

    def __init__(
        self,
        rows: FactRows,
        session_id: str,
        *,
        namespace: str = "",
        redact: Callable[[str], str] = str,
        max_facts: int = MAX_FACTS,
        max_corrections: int = MAX_CORRECTIONS,
    ) -> None:
        for name, value in (("max_facts", max_facts), ("max_corrections", max_corrections)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} must be an integer >= 1, got {value!r}", field=name, value=value)
        self._rows, self._session, self._namespace = rows, session_id, namespace
        self._redact = redact
        self._most, self._most_corrections = max_facts, max_corrections
        self.damaged = 0

    def facts(self) -> Sequence[Fact]:
        """All of them, superseded and deleted ones too, in the order in which they were first put."""
        return list(self._read_facts(self._all()).values())

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts* in one step, without secrets; those above the bound leave in the same step."""
        if not facts:
            return
        rows = self._all()
        ids = {key: row_id for row_id, _, state, key, *_ in rows if state not in (_CORRECTION, _GONE)}
        known = self._read_facts(rows)
        new = {fact.id: self._redacted(fact) for fact in facts}
        known.update(new)
        leaving = sorted(known.values(), key=_stays)[: max(0, len(known) - self._most)]
        gone = {fact.id for fact in leaving}
        free = [row_id for row_id, _, state, *_ in rows if state == _GONE]
        written: list[tuple[int | None, str, str, str]] = [
            (ids[name], name, _GONE, "{}") for name in gone if name in ids
        ]
        for fact in new.values():
            if fact.id not in gone:
                row_id = ids.get(fact.id) or (free.pop() if free else None)
                written.append((row_id, fact.id, _state(fact), dump(asdict(fact))))
        self._rows.put_facts(self._session, written, now_ms())

    def corrections(self) -> list[Correction]:
        """What users would not have, oldest first."""
        return [correction for correction, _ in self._read_corrections(self._all())]

    def put_correction(self, correction: Correction) -> None:
        """Writes *correction*, without secrets; the oldest leave above the bound."""
        rows = self._all()
        kept = self._read_corrections(rows)
        free = [row_id for row_id, _, state, *_ in rows if state == _GONE]
        spare = max(0, len(kept) + 1 - self._most_corrections)
        written: list[tuple[int | None, str, str, str]] = [
            (row_id, old.id, _GONE, "{}") for old, row_id in kept[:spare]
        ]
        clean = replace(
            correction,
            original=self._redact(correction.original),
            corrected=self._redact(correction.corrected),
            context=self._redact(correction.context),
        )
        row = (free.pop() if free else None, clean.id, _CORRECTION, dump(asdict(clean)))
        self._rows.put_facts(self._session, [*written, row], now_ms())

    def _all(self) -> list[FactRow]:
        if self._namespace:
            return self._rows.namespace_facts(self._namespace, None)
        return self._rows.facts(self._session, None)

    def _read_corrections(self, rows: Sequence[FactRow]) -> list[tuple[Correction, int]]:
        """The corrections, oldest first, each with its row."""
        found: list[tuple[Correction, int]] = []
        self.damaged = 0
        for row_id, _, state, _, body, *_ in rows:
            if state == _CORRECTION:
                try:
                    found.append((Correction(**json.loads(body)), row_id))
                except (ValueError, TypeError):
                    self.damaged += 1
        return sorted(found, key=lambda each: (each[0].created_at, each[0].id))

    def _read_facts(self, rows: Sequence[FactRow]) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        self.damaged = 0
        for _, _, state, _, body, *_ in rows:
            if state in (_CORRECTION, _GONE):
                continue
            try:
                fact = fact_of(json.loads(body))
            except (ValueError, ConfigError):
                self.damaged += 1
            else:
                found[fact.id] = fact
        return found

    def _redacted(self, fact: Fact) -> Fact:
        return replace(
            fact,
            content=self._redact(fact.content),
            context=self._redact(fact.context),
            entities=tuple(map(self._redact, fact.entities)),
            tags=tuple(map(self._redact, fact.tags)),
            source=self._redact(fact.source),
        )


def _state(fact: Fact) -> str:
    if fact.deleted_at is not None:
        return "deleted"
    return "active" if fact.superseded_by is None else "superseded"


def _stays(fact: Fact) -> tuple[bool, int, str]:
    """What leaves first has the smallest: history before what holds, then the oldest."""
    return _state(fact) == "active", fact.created_at, fact.id
