"""The records of a session's recalls, for its users."""

from __future__ import annotations

from siltstone.errors import ConfigError
from siltstone.memory.log import NewRecall
from siltstone.memory.recalled import RecallRecord, record_of
from siltstone.session.core import SessionCore

__all__ = ["recalls"]


def recalls(core: SessionCore, limit: int) -> list[RecallRecord]:
    """The newest recalls of the session, newest first, at most *limit*, including ones not written yet.

    Raises:
        ConfigError: *limit* is below 1.
    """
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit must be an integer >= 1, got {limit!r}", field="limit", value=limit)

    def step() -> list[NewRecall]:
        core.check_open()
        found = {row.seq: row for row in core.rows.recalls(limit)}
        found |= {row.seq: row for row in core.unwritten()}
        return [found[seq] for seq in sorted(found, reverse=True)[:limit]]

    return [record_of(row) for row in core.locked(step)]
