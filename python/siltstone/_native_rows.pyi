"""Rows of the log of a session, as they are given to the compiled core and returned by it.

Arguments are read by their attributes. Times are milliseconds since 1970, UTC.
"""

from typing import Any, Final, TypeAlias, final

from siltstone.memory.log import SessionVersion

Version: TypeAlias = tuple[int, int | None, int, int]  # next_seq, head, redactions, counter
Write: TypeAlias = tuple[SessionVersion, int]  # the version that the writer read, and its own id of the write

NewCompaction: TypeAlias = Any  # siltstone.memory.log.NewCompaction, with its ranges and its view as JSON

@final
class LogRow:
    """A message in the log."""

    seq: Final[int]
    raw: Final[str]
    role: Final[str]
    dialect: Final[str]
    provenance: Final[str]
    tokens: Final[int]
    created_at: Final[int]
    write_id: Final[int]

@final
class Derived:
    """A derived text in the log; its ranges are JSON."""

    derived_id: Final[int]
    kind: Final[str]
    raw: Final[str]
    covers: Final[str]
    seq: Final[int | None]
    level: Final[int]
    degraded: Final[bool]
    redacted: Final[bool]
    dialect: Final[str]
    created_at: Final[int]

@final
class Compaction:
    """A compaction in the log; its ranges, its view and its usage are JSON."""

    compaction_id: Final[int]
    parent: Final[int | None]
    derived_ids: Final[list[int]]
    policy: Final[str]
    reason: Final[str]
    state: Final[str]
    covers: Final[str]
    view: Final[str]
    next_seq: Final[int]
    model: Final[str]
    usage: Final[str]
    tokens_before: Final[int]
    tokens_after: Final[int]
    messages_before: Final[int]
    messages_after: Final[int]
    created_at: Final[int]
    notes: Final[str]

@final
class LogState:
    """The state of a session's log."""

    version: Final[Version]
    clock: Final[str]
    settings: Final[str]
    namespace: Final[str]
    write_id: Final[int]
    deleted: Final[bool]
    title: Final[str]

@final
class SessionRow:
    """A session in a list. Its times are those of its first and its last message."""

    name: Final[str]
    namespace: Final[str]
    title: Final[str]
    messages: Final[int]
    entries: Final[int]
    compactions: Final[int]
    tokens: Final[int]
    first_at: Final[int | None]
    last_at: Final[int | None]
