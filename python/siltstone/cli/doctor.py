"""``siltstone doctor``: checks a store for damage, and repairs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from siltstone.cli.stores import AnyStore, Place, find_store, opened, shown
from siltstone.errors import StoreCorruptError, StoreOpenError
from siltstone.figures.growth import Day, Keeping, growth, keeping
from siltstone.figures.reading import plain
from siltstone.memory import Finding, StoreStats
from siltstone.memory.opening import is_database
from siltstone.stores import MemoryStore

__all__ = ["Diagnosis", "examine"]

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
