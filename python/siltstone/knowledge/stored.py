"""Facts and corrections as rows of a store: of one session, or of its namespace."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from threading import RLock
from typing import Any, Final, Protocol, TypeAlias

from siltstone import checks
from siltstone.documented import tokens, word_vector
from siltstone.errors import ConfigError, StoreConflictError
from siltstone.knowledge.base import Correction, Fact, fact_of
from siltstone.messages.json_text import dump

MAX_FACTS: Final = 10_000
MAX_CORRECTIONS: Final = 1_000
TRIES: Final = 64  #: attempts of a write that others overtake between its reading and its writing

FactRow: TypeAlias = tuple[int, str, str, str, str, int, int]
"""Id, namespace, state, key, body as JSON, when it was made and changed (ms)."""

NewFactRow: TypeAlias = tuple[int | None, str, str, str]
"""Id (None for a new row), key, state, body as JSON."""

_FACTS: Final = frozenset({"active", "superseded", "deleted"})  #: the states of facts
_CORRECTION: Final = "correction"
_NOTE: Final = "note"  #: a derived value, under a key of its own
_GONE: Final = "gone"  #: a row without a text, which the next new fact reuses
_VECTOR: Final = "vector"  #: in the body of a fact: float64, little-endian, in hexadecimal
_SHARED: Final = "shared"  #: in the body of a row that all sessions of the namespace read
_SHARED_END: Final = dump({_SHARED: True})[1:]
_PROGRESS, _RULES = "progress", "rules"


class FactRows(Protocol):
    """The fact rows of a store, which gives them no meaning."""

    def put_facts(
        self, session_id: str, facts: Sequence[NewFactRow], was: Mapping[int, str] | None = None
    ) -> list[int]:
        """As :meth:`siltstone.Store.put_facts`."""

    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]:
        """As :meth:`siltstone.Store.facts`."""

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        """As :meth:`siltstone.Store.namespace_facts`."""

    def facts_revision(self, session_id: str, namespace: str = "") -> str | None:
        """As :meth:`siltstone.Store.facts_revision`."""


class StoredFacts:
    """A :class:`FactStore` over the rows of a store.

    A damaged row is left out and counted in ``damaged``; the other rows are read. Calls of several threads
    run one after the other.

    Args:
        rows: The store.
        session_id: The session whose facts are written.
        namespace: If given, facts of all its sessions that were written with it are read besides the
            session's own, and changed in place.
        redact: Removes secrets from every text before it is written.
        max_facts: The most facts; above it history is deleted first, then the oldest facts, with their texts.
        max_corrections: The most corrections; above it the oldest are deleted.
        dimensions: If given, each fact is stored with the vector of its hashed words, of this length.

    Raises:
        ConfigError: a bound is below 1, or *dimensions* is below 8.
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
        dimensions: int | None = None,
    ) -> None:
        for name, value in (("max_facts", max_facts), ("max_corrections", max_corrections)):
            checks.at_least(name, value, 1)
        self._rows, self._session, self._namespace = rows, session_id, namespace
        self._redact = redact
        self._most, self._most_corrections = max_facts, max_corrections
        self._dimensions = dimensions
        if dimensions is not None:
            word_vector("", dimensions)  # raises an error for too small a number
        self.lock: Final = RLock()
        self.damaged = 0
        self._words: dict[str, tuple[str, Sequence[str]]] = {}
        self._read: tuple[str | None, Sequence[Fact]] | None = None
        self._parsed: dict[int, tuple[str, Fact]] = {}  # the body of each row when it was read, and its fact

    def facts(self) -> Sequence[Fact]:
        """All facts, also superseded and deleted ones, in the order of their first writes."""
        return list(self.read()[1])

    def read(self) -> tuple[str | None, Sequence[Fact]]:
        """All facts, with the revision of the store that they are of; one revision is read only once.

        The revision is None if it cannot be told.
        """
        # Before the rows: a change in between is then read again.
        revision = self._rows.facts_revision(self._session, self._namespace)
        known = self._read
        if revision is None or known is None or known[0] != revision:
            known = self._read = revision, tuple(self._read_facts(self._all()).values())
        return known

    @property
    def known(self) -> tuple[str | None, Sequence[Fact]] | None:
        """The last answer of :meth:`read`; None before the first."""
        return self._read

    def vectors(self) -> dict[str, Sequence[float]]:
        """The stored vectors, by the ids of facts."""
        found: dict[str, Sequence[float]] = {}
        for _, _, state, key, body, *_ in self._all():
            if state in _FACTS:
                try:
                    raw = json.loads(body).get(_VECTOR)
                    found[key] = struct.unpack(f"<{len(raw) // 16}d", bytes.fromhex(raw)) if raw else ()
                except (ValueError, TypeError, AttributeError, struct.error):
                    continue  # it is computed again
        return {key: vector for key, vector in found.items() if vector}

    def words(self, fact: Fact) -> Sequence[str]:
        """The documented tokens of the text of *fact*, computed once until it changes."""
        text = f"{fact.content} {fact.context}"
        known = self._words.get(fact.id)
        if known is None or known[0] != text:
            known = self._words[fact.id] = text, tokens(text)
        return known[1]

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts* in one step, without secrets; facts above the bound are deleted in the same step."""
        self.put_all(facts)

    def put_all(self, facts: Sequence[Fact], progress: Mapping[str, Any] | None = None) -> None:
        """Writes *facts*, and in the same step the progress of reading the session."""
        if not facts and progress is None:
            return
        seen = {fact.id for _, fact in self._parsed.values()}

        def rows_of(rows: Sequence[FactRow]) -> list[NewFactRow]:
            there = {key for _, _, state, key, *_ in rows if state in _FACTS}
            # A fact that was seen, and is not there, was forgotten.
            left = [fact for fact in facts if fact.id in there or fact.id not in seen]
            written = self._fact_rows(rows, left) if left else []
            if progress is not None:
                row_id = self._own_note(_PROGRESS)[0]
                written.append((row_id, _PROGRESS, _NOTE, dump(dict(progress))))
            return written

        self._write(rows_of, reads=bool(facts))

    def progress(self) -> dict[str, Any]:
        """The progress of reading the session, as given to :meth:`put_all`; empty if none was given."""
        return self._own_note(_PROGRESS)[1]

    def corrections(self) -> list[Correction]:
        """The corrections of users, oldest first."""
        return [correction for correction, _ in self._read_corrections(self._all(_CORRECTION))]

    def put_correction(self, correction: Correction) -> None:
        """Writes *correction*, without secrets, and deletes the oldest above the bound. A known one stays."""

        def rows_of(rows: Sequence[FactRow]) -> list[NewFactRow]:
            kept = self._read_corrections(rows)
            if any(old.id == correction.id for old, _ in kept):
                return []
            spare = max(0, len(kept) + 1 - self._most_corrections)
            written: list[NewFactRow] = [(row_id, old.id, _GONE, "{}") for old, row_id in kept[:spare]]
            clean = replace(
                correction,
                original=self._redact(correction.original),
                corrected=self._redact(correction.corrected),
                context=self._redact(correction.context),
            )
            row = (_free(rows), clean.id, _CORRECTION, self._body(clean))
            return [*written, row]

        self._write(rows_of)

    def rules(self) -> dict[str, Any]:
        """The ``kept`` of a distiller, as given to :meth:`put_rules`; empty for nothing."""
        kept = self._note(_RULES, self._all(_NOTE))[1]
        kept.pop(_SHARED, None)
        return kept

    def put_rules(self, kept: Mapping[str, Any]) -> None:
        """Stores the ``kept`` of a distiller, in the place of an earlier one."""

        def rows_of(rows: Sequence[FactRow]) -> list[NewFactRow]:
            row_id = self._note(_RULES, rows)[0]
            body = dict(kept) | ({_SHARED: True} if self._namespace else {})
            return [(row_id, _RULES, _NOTE, dump(body))]

        self._write(rows_of)

    def _write(
        self, rows_of: Callable[[Sequence[FactRow]], Sequence[NewFactRow]], *, reads: bool = True
    ) -> None:
        """Writes what *rows_of* makes of the rows; again if another worker has changed one meanwhile."""
        with self.lock:
            for again in range(TRIES):
                rows = self._all() if reads else []
                was = {row_id: body for row_id, _, _, _, body, *_ in rows}
                try:
                    self._rows.put_facts(self._session, rows_of(rows), was)
                except StoreConflictError:
                    if again == TRIES - 1:
                        raise
                else:
                    return

    def _fact_rows(self, rows: Sequence[FactRow], facts: Sequence[Fact]) -> list[NewFactRow]:
        ids = {key: row_id for row_id, _, state, key, *_ in rows if state in _FACTS}
        known = self._read_facts(rows)
        new = {fact.id: self._redacted(fact) for fact in facts}
        known.update(new)
        leaving = sorted(known.values(), key=_stays)[: max(0, len(known) - self._most)]
        gone = {fact.id for fact in leaving}
        written: list[NewFactRow] = [(ids[name], name, _GONE, "{}") for name in gone if name in ids]
        taken: set[int] = set()
        for fact in new.values():
            if fact.id not in gone:
                row_id = ids.get(fact.id) or _free(rows, taken)
                taken.add(row_id or 0)
                written.append((row_id, fact.id, _state(fact), self._body(fact)))
        return written

    def _body(self, known: Fact | Correction) -> str:
        fields = asdict(known)
        if self._dimensions is not None and isinstance(known, Fact):
            vector = word_vector(f"{known.content} {known.context}", self._dimensions)
            fields[_VECTOR] = struct.pack(f"<{len(vector)}d", *vector).hex()
        return dump(fields | ({_SHARED: True} if self._namespace else {}))

    def _all(self, state: str | None = None) -> list[FactRow]:
        """The rows of *state*, or all."""
        own = self._rows.facts(self._session, state)
        if not self._namespace:
            return own
        mine = {row[0] for row in own}
        others = self._rows.namespace_facts(self._namespace, state)
        shared = [row for row in others if row[0] not in mine and _is_shared(row)]
        return sorted([*own, *shared])

    def _own_note(self, key: str) -> tuple[int | None, dict[str, Any]]:
        return self._note(key, self._rows.facts(self._session, _NOTE))

    def _note(self, key: str, rows: Sequence[FactRow]) -> tuple[int | None, dict[str, Any]]:
        """The row of *key*, and its body; of several rows the one that the namespace shares."""
        found = [row for row in rows if row[2] == _NOTE and row[3] == key]
        found.sort(key=lambda row: (_is_shared(row) == bool(self._namespace), row[0]))
        if not found:
            return None, {}
        try:
            body = json.loads(found[-1][4])
        except ValueError:
            self.damaged += 1
            body = {}
        return found[-1][0], body if isinstance(body, dict) else {}

    def _read_corrections(self, rows: Sequence[FactRow]) -> list[tuple[Correction, int]]:
        """The corrections, oldest first, each with the id of its row."""
        found: list[tuple[Correction, int]] = []
        self.damaged = 0
        for row_id, _, state, _, body, *_ in rows:
            if state == _CORRECTION:
                try:
                    fields = json.loads(body)
                    fields.pop(_SHARED, None)
                    found.append((Correction(**fields), row_id))
                except (ValueError, TypeError, AttributeError):
                    self.damaged += 1
        return sorted(found, key=lambda each: (each[0].created_at, each[0].id))

    def _read_facts(self, rows: Sequence[FactRow]) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        parsed: dict[int, tuple[str, Fact]] = {}  # rows that are gone leave it
        damaged = 0
        for row_id, _, state, _, body, *_ in rows:
            if state not in _FACTS:
                continue
            known = self._parsed.get(row_id)
            if known is None or known[0] != body:
                try:
                    known = body, fact_of(json.loads(body))
                except (ValueError, ConfigError):
                    damaged += 1
                    continue
            parsed[row_id] = known
            found[known[1].id] = known[1]
        self._parsed, self.damaged = parsed, damaged
        if len(self._words) > len(found):
            self._words = {name: each for name, each in self._words.items() if name in found}
        return found

    def _redacted(self, fact: Fact) -> Fact:
        return replace(
            fact,
            content=self._redact(fact.content),
            context=self._redact(fact.context),
            entities=tuple(map(self._redact, fact.entities)),
            tags=tuple(map(self._redact, fact.tags)),
            source=self._redact(fact.source),
            speaker=self._redact(fact.speaker),
        )


@dataclass(frozen=True, slots=True)
class Marked:
    """A :class:`FactStore` that writes, in the same step as facts, how far the session was read.

    So each message is learned from exactly once, whenever the work is interrupted: either both the facts and
    the note are stored, or neither is.
    """

    store: StoredFacts
    progress: Mapping[str, Any]

    def facts(self) -> Sequence[Fact]:
        """The facts of the store."""
        return self.store.facts()

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts* and the note."""
        self.store.put_all(facts, self.progress)


def _free(rows: Sequence[FactRow], taken: set[int] | None = None) -> int | None:
    """A free row (without a text), chosen at random, so two processes rarely take the same."""
    free = [row_id for row_id, _, state, *_ in rows if state == _GONE and row_id not in (taken or ())]
    import random  # only needed for writing facts

    return random.choice(free) if free else None  # noqa: S311 - nothing secret hangs on it


def _is_shared(row: FactRow) -> bool:
    """Whether the last field of the body marks it as shared, without parsing the body."""
    return row[4].endswith(_SHARED_END)


def _state(fact: Fact) -> str:
    if fact.deleted_at is not None:
        return "deleted"
    return "active" if fact.superseded_by is None else "superseded"


def _stays(fact: Fact) -> tuple[bool, int, str]:
    """The sort key of deletion: history before facts that hold, then the oldest first."""
    return _state(fact) == "active", fact.created_at, fact.id
