"""What happened, told to whoever listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from siltstone.usage import UsageRecord

__all__ = [
    "CompactionCompleted",
    "CompactionFailed",
    "CompactionStarted",
    "EntriesQuarantined",
    "Event",
    "Hook",
    "MemoryExpired",
    "MemoryIndexed",
    "notify",
]

_log = logging.getLogger("siltstone")


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A compaction began. Exactly one terminal event follows.

    Attributes:
        input_tokens: Input tokens of the last model call, 0 where unknown.
        estimated_history_tokens: The history by the policy's estimator.
        message_count: Messages in the history.
        policy: The policy's name.
        cause: The trigger's reason.
    """

    input_tokens: int
    estimated_history_tokens: int
    message_count: int
    policy: str
    cause: str


@dataclass(frozen=True, slots=True)
class CompactionCompleted:
    """A compaction was committed: what it discarded is durable and searchable.

    Attributes:
        summary_tokens: Output tokens of the summary calls; 0 when no model was used.
        messages_before: Messages in the history before.
        messages_after: And after.
        tokens_before: The history before, by the policy's estimator.
        tokens_after: And after.
        discarded: Half-open ranges of the sequence numbers that left the context.
        duration: Seconds from start to commit, model calls included.
        usage: Every model call of this compaction.
        policy: The policy's name.
        cause: The trigger's reason.
        degraded: No model that the caller named made the summary.
        suspect: The summary is remarkably short for what it stands for.
    """

    summary_tokens: int
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    discarded: tuple[tuple[int, int], ...]
    duration: float
    usage: tuple[UsageRecord, ...]
    policy: str
    cause: str
    degraded: bool = False
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A compaction came to nothing; the history is as it was. Never fatal.

    Attributes:
        reason: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``curator_failed``,
            ``summarizer_overflow``, ``no_reduction``, ``rewrite_invalid``, ``memory_indexing_failed``,
            ``hook_failed``, ``stale``, ``cancelled`` or ``internal``.
        message: What happened, in a sentence.
        duration: Seconds since the start.
        usage: Every model call that was made all the same.
        policy: The policy's name.
        cause: The trigger's reason.
    """

    reason: str
    message: str = ""
    duration: float = 0.0
    usage: tuple[UsageRecord, ...] = ()
    policy: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class MemoryIndexed:
    """Discarded messages became searchable.

    Attributes:
        session_id: The session they belong to.
        entries: How many entries were written; messages without indexable text have none.
        messages: How many messages were handed over.
    """

    session_id: str
    entries: int
    messages: int


@dataclass(frozen=True, slots=True)
class EntriesQuarantined:
    """A search left entries out because they do not match their checksums. Told once for each such state.

    Attributes:
        session_id: The session they belong to.
        entry_ids: All of them, ascending. ``store.check(repair=True)`` sets them aside for good.
    """

    session_id: str
    entry_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryExpired:
    """Entries left what can be found, because the session's retention says so. The log has what was said.

    Attributes:
        session_id: The session they belonged to.
        by_age: How many were too old.
        by_count: How many of the others were too many, the oldest first.
    """

    session_id: str
    by_age: int
    by_count: int


Event: TypeAlias = (
    CompactionStarted
    | CompactionCompleted
    | CompactionFailed
    | MemoryIndexed
    | EntriesQuarantined
    | MemoryExpired
)
Hook: TypeAlias = Callable[[Event], Any]


def notify(hooks: Iterable[Hook], event: Event) -> None:
    """Tells every hook of *event*. One that raises is logged and never breaks a turn."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            _log.exception("a hook failed on %s", type(event).__name__)
