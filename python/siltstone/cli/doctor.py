"""``siltstone doctor``: is a store whole?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from siltstone.cli.stores import AnyStore, Place, find_store, opened, shown
from siltstone.errors import StoreCorruptError, StoreOpenError
from siltstone.figures.growth import Day, Keeping, growth, keeping
from siltstone.figures.reading import plain
from siltstone.memory import Finding, StoreStats
from siltstone.memory.opening import is_database
from siltstone.stores import MemoryStore
from siltstone.values import asdict, dataclass

__all__ = ["Diagnosis", "examine"]

_FIGURES = (
    "sessions", "messages", "entries", "compactions", "staged", "quarantined", "text_bytes", "disk_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a store holds (None where it cannot tell), and what is wrong with it."""

    path: str
    stats: StoreStats | None
    findings: tuple[Finding, ...]
    days: tuple[Day, ...] | None = None  #: None where they cannot be read
    keeping: Keeping | None = None  #: the same

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong, or nothing any more."""
        return all(finding.repaired for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As one object; the keys are documented in docs/command-line.md."""
        stats = {name: self.stats and getattr(self.stats, name) for name in _FIGURES}
        findings = [asdict(finding) for finding in self.findings]
        told = {
            "days": None if self.days is None else [asdict(day) for day in self.days],
            "keeping": None if self.keeping is None else asdict(self.keeping),
        }
        return {"path": self.path, "healthy": self.healthy, **stats, "findings": findings, **plain(told)}


def examine(place: Place, *, repair: bool = False) -> Diagnosis:
    """Opens the store that *place* means for reading and looks at everything in it; with *repair*, mends it.

    Raises:
        StoreOpenError: there is no store, or its first page is not that of one; or there are several below.
        StoreBusyError: another process is mending it.
    """
    found = find_store(place)
    if is_database(found):
        with opened(found, read_only=not repair) as database:
            return _diagnosis(shown(found), database, repair=repair)
    path = str(found)
    try:
        MemoryStore.open(path, read_only=True).close()  # a repair makes no store where there is none
    except StoreCorruptError as error:  # what an opening store needs to know is damaged
        return Diagnosis(path, None, (Finding("unreadable", "", None, str(error)),))
    except StoreOpenError:
        if not repair:
            raise
    try:
        with MemoryStore.open(path, read_only=not repair) as store:
            return _diagnosis(path, store, repair=repair)
    except StoreCorruptError as error:  # what an opening store needs to know is damaged
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
