"""Rows of the log of a session, as they are given to the compiled core and returned by it.

Arguments are read by their attributes. Times are milliseconds since 1970, UTC.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias, final

__all__ = ["Compaction", "Derived", "LogRow", "LogState", "SessionRow"]

Version: TypeAlias = tuple[int, int | None, int, int]  # next_seq, head, redactions, counter
Write: TypeAlias = tuple[Expected, int]  # the version that the writer read, and its own id of the write

class Expected(Protocol):
    @property
    def next_seq(self) -> int: ...
    @property
    def head(self) -> int | None: ...
    @property
    def redactions(self) -> int: ...
    @property
    def counter(self) -> int: ...

class NewMessage(Protocol):
    @property
    def raw(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def provenance(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def created_at(self) -> int: ...

class NewDerived(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def raw(self) -> str: ...
    @property
    def covers(self) -> str: ...
    @property
    def seq(self) -> int | None: ...
    @property
    def level(self) -> int: ...
    @property
    def degraded(self) -> bool: ...
    @property
    def dialect(self) -> str: ...

class NewCompaction(Protocol):
    @property
    def policy(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def covers(self) -> str: ...
    @property
    def view(self) -> str: ...
    @property
    def next_seq(self) -> int: ...
    @property
    def model(self) -> str: ...
    @property
    def usage(self) -> str: ...
    @property
    def tokens_before(self) -> int: ...
    @property
    def tokens_after(self) -> int: ...
    @property
    def messages_before(self) -> int: ...
    @property
    def messages_after(self) -> int: ...
    @property
    def created_at(self) -> int: ...
    @property
    def notes(self) -> str: ...
    @property
    def derived(self) -> Sequence[NewDerived]: ...

class NewRecall(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def created_at(self) -> int: ...
    @property
    def body(self) -> str: ...

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
