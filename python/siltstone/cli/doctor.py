"""``siltstone doctor``: is a store whole?"""

from __future__ import annotations

from typing import Any

from siltstone.cli.stores import AnyStore, Place, find_store, opened, shown
from siltstone.errors import StoreCorruptError, StoreOpenError
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

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong, or nothing any more."""
        return all(finding.repaired for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As one object; the keys are documented in docs/command-line.md."""
        stats = {name: self.stats and getattr(self.stats, name) for name in _FIGURES}
        findings = [asdict(finding) for finding in self.findings]
        return {"path": self.path, "healthy": self.healthy, **stats, "findings": findings}


def examine(place: Place, *, repair: bool = False) -> Diagnosis:
    """Opens the store that *place* means for reading and looks at everything in it; with *repair*, mends it.

    Raises:
        StoreOpenError: there is no store, or its first page is not that of one; or there are several below.
        StoreBusyError: another process is mending it.
    """
    found = find_store(place)
    if is_database(found):
        with opened(found, read_only=not repair) as database:
            return Diagnosis(shown(found), _stats(database), tuple(database.check(repair=repair)))
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
            findings = tuple(store.check(repair=repair))
            return Diagnosis(path, _stats(store), findings)
    except StoreCorruptError as error:  # what an opening store needs to know is damaged
        return Diagnosis(path, None, (Finding("unreadable", "", None, str(error)),))


def _stats(store: AnyStore) -> StoreStats | None:
    try:
        return store.stats()
    except StoreCorruptError:
        return None
