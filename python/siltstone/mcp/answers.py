"""The answers of the server's tools: clients read their output schemas from these types."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

__all__ = [
    "CompactionAnswer",
    "ContextAnswer",
    "Found",
    "Hit",
    "MessageLines",
    "Messages",
    "SaidMessage",
    "Saved",
    "SourceMessages",
    "Stats",
    "Taken",
]


class SourceMessages(TypedDict):
    """A half-open range of messages."""

    start: int
    end: int


class Hit(TypedDict):
    """Something that was found. The handle is what memory_get takes; null for what is in no message here."""

    content: str
    score: float
    source_range: SourceMessages
    handle: str | None
    session_id: str


class Found(TypedDict):
    """Hits, best first; how many more were left out for their length; how to read them."""

    results: list[Hit]
    left_out: int
    note: str


class MessageLines(TypedDict):
    """Lines of one message. The next lines to ask for are null where none follow."""

    handle: str
    lines: int
    matches: int | None
    content: str
    next: str | None


class Stats(TypedDict):
    """The contents of the session, in numbers."""

    session_id: str
    namespace: str
    messages: int
    in_context: int
    entries: int
    compactions: int
    facts: int
    quarantined: int


class SaidMessage(TypedDict):
    """A message of the log, cut where it is long: memory_get reads it whole by its handle."""

    handle: str
    role: str
    content: str


class Messages(TypedDict):
    """Messages that a summary stands for. Where more follow, start names the next one to ask for."""

    summary_id: int
    total: int
    messages: list[SaidMessage]
    next_start: int | None
    note: str


class ContextAnswer(TypedDict):
    """The context of the session by category, in estimated tokens."""

    summary_tokens: int
    message_tokens: int
    total_tokens: int
    messages_in_context: int
    messages_in_log: int
    summary_ids: list[int]
    context_window: int | None


class Saved(TypedDict):
    """A memory that was saved."""

    id: str
    memory_type: str
    importance: float


class CompactionAnswer(TypedDict):
    """The outcome of a compaction: compacted, skipped or failed."""

    outcome: str
    reason: str
    tokens_before: int
    tokens_after: int


class Taken(TypedDict):
    """The things that were forgotten, or would be."""

    memories: int
    messages: int
    entries: int
    summaries: int
    dry_run: bool
