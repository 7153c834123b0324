"""``siltstone doctor``: checks a store for damage and for secrets, and repairs it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from siltstone.cli.stores import AnyStore, Place, find_store, opened, shown
from siltstone.errors import InvalidMessageError, StoreCorruptError, StoreOpenError
from siltstone.figures import Day, Keeping, growth, keeping, log_rows, plain
from siltstone.memory import Finding, StoreStats
from siltstone.memory.base import entries_of, sessions_of
from siltstone.memory.entry import SessionInfo
from siltstone.memory.opening import is_database
from siltstone.messages import decode
from siltstone.redaction import Redactor, SecretFinding
from siltstone.stores import MemoryStore

_FIGURES = (
    "sessions", "messages", "entries", "compactions", "quarantined", "text_bytes", "disk_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The figures of a store (None if they cannot be read), and its faults."""

    path: str
    stats: StoreStats | None
    findings: tuple[Finding, ...]
    days: tuple[Day, ...] | None = None  #: None if they cannot be read
    keeping: Keeping | None = None  #: None if it cannot be read

    @property
    def healthy(self) -> bool:
        """Whether the store has no fault, or all faults were repaired."""
        return all(finding.repaired for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The result as one object; docs/command-line.md documents its keys."""
        stats = {name: self.stats and getattr(self.stats, name) for name in _FIGURES}
        findings = [asdict(finding) for finding in self.findings]
        told = {
            "days": None if self.days is None else [asdict(day) for day in self.days],
            "keeping": None if self.keeping is None else asdict(self.keeping),
        }
        return {"path": self.path, "healthy": self.healthy, **stats, "findings": findings, **plain(told)}


def examine(place: Place, *, repair: bool = False) -> Diagnosis:
    """Checks all data of the store at *place*. It is opened for reading, or with *repair* for writing.

    Raises:
        StoreOpenError: there is no store, its first page is not the first page of a store, or there are
            several stores below *place*.
        StoreBusyError: another process is repairing it.
    """
    found = find_store(place)
    if is_database(found):
        with opened(found, read_only=not repair) as database:
            return _diagnosis(shown(found), database, repair=repair)
    path = str(found)
    try:
        MemoryStore.open(path, read_only=True).close()  # a repair must not make a new store
    except StoreCorruptError as error:  # data that every open needs is damaged
        return Diagnosis(path, None, (Finding("unreadable", "", None, str(error)),))
    except StoreOpenError:
        if not repair:
            raise
    try:
        with MemoryStore.open(path, read_only=not repair) as store:
            return _diagnosis(path, store, repair=repair)
    except StoreCorruptError as error:  # data that every open needs is damaged
        return Diagnosis(path, None, (Finding("unreadable", "", None, str(error)),))


def _diagnosis(path: str, store: AnyStore, *, repair: bool) -> Diagnosis:
    findings, now = tuple(store.check(repair=repair)), datetime.now(UTC)
    try:
        days, held = tuple(growth(store, now.date())), keeping(store, now)
    except StoreCorruptError:
        return Diagnosis(path, _stats(store), findings)
    return Diagnosis(path, _stats(store), findings, days, held)


def _stats(store: AnyStore) -> StoreStats | None:
    try:
        return store.stats()
    except StoreCorruptError:
        return None


# ``siltstone doctor --secrets``: finds the places of secrets in a store.


@dataclass(frozen=True, slots=True)
class Secret:
    """A place in a store with a secret. It does not have the secret itself.

    Attributes:
        session: The session.
        table: ``session`` (a title), ``message``, ``entry``, ``derived`` (a summary or a
            substitute) or ``fact``.
        id: The message's sequence number, or the row's id; 0 for a session's title.
        rule: The rule that found it.
        path: The path of the text, if the row has several texts.
        start: The position of its first code point in that text.
        end: The position after its last code point.
    """

    session: str
    table: str
    id: int
    rule: str
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SecretsFound:
    """The result of a scan.

    Attributes:
        path: The directory of the store, or its address.
        texts: The number of texts that were read.
        secrets: The places, in the order of sessions, tables and rows.
    """

    path: str
    texts: int
    secrets: tuple[Secret, ...]

    @property
    def rules(self) -> dict[str, int]:
        """The number of secrets by rule, the largest number first."""
        return dict(Counter(secret.rule for secret in self.secrets).most_common())

    def to_json(self) -> dict[str, Any]:
        """The result as one object; docs/command-line.md documents its keys."""
        found = [asdict(secret) for secret in self.secrets]
        return {"path": self.path, "texts": self.texts, "rules": self.rules, "secrets": found}


def scan(place: Place) -> SecretsFound:
    """Checks every text of the store at *place* by the built-in rules. Nothing is changed.

    Raises:
        StoreOpenError: there is no store, or there are several stores below *place*.
        StoreCorruptError: a row cannot be read.
    """
    place = find_store(place)
    redactor, texts, secrets = Redactor(), 0, list[Secret]()
    with opened(place, read_only=True) as store:
        for session, table, row_id, read in _texts(store):
            texts += 1
            secrets += [
                Secret(session, table, row_id, each.rule, each.path, each.start, each.end)
                for each in read(redactor)
            ]
    return SecretsFound(shown(place), texts, tuple(secrets))


_Read = Callable[[Redactor], list[SecretFinding]]
_Text = tuple[str, str, int, _Read]


def _texts(store: AnyStore) -> Iterator[_Text]:
    """Every text of *store*: its session, its table, its id, and a function that finds secrets in it."""
    for info in sessions_of(store):
        yield from _of_session(store, info)


def _of_session(store: AnyStore, info: SessionInfo) -> Iterator[_Text]:
    name, log = info.session_id, store.open_log(info.session_id)
    yield name, "session", 0, _plain(info.title)
    for row in log_rows(log, 0, None):
        yield name, "message", row.seq, _message(row.raw)
    for derived in log.derived_after(0):
        read = _plain(derived.raw) if derived.kind == "summary" else _message(derived.raw)
        yield name, "derived", derived.derived_id, read
    for entry in entries_of(store, name, expired=True):
        yield name, "entry", entry.entry_id, _plain(entry.content)
    for row_id, _, _, _, body, *_ in store.facts(name):
        yield name, "fact", row_id, _fact(body)


def _plain(text: str) -> _Read:
    return lambda redactor: redactor.redact(text)[1]


def _message(raw: str) -> _Read:
    def read(redactor: Redactor) -> list[SecretFinding]:
        try:
            return redactor.redact_message(decode(raw))[1]
        except (InvalidMessageError, ValueError):
            return redactor.redact(raw)[1]  # the log of a caller may have unreadable messages

    return read


def _fact(body: str) -> _Read:
    def read(redactor: Redactor) -> list[SecretFinding]:
        try:
            value = json.loads(body)
        except ValueError:
            value = body
        without_ids = value
        if isinstance(value, dict):  # ids are random, and look like secrets
            without_ids = {name: each for name, each in value.items() if name not in _IDS}
        return redactor.redact_value(without_ids)[1]

    return read


_IDS: Final = frozenset({"id", "superseded_by", "session_id"})
