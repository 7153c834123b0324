"""Events, which hooks are told of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from siltstone import watching
from siltstone.logs import log as _log
from siltstone.usage import UsageRecord
from siltstone.values import dataclass

__all__ = [
    "ArchiveFailed",
    "CacheBroken",
    "CompactionCompleted",
    "CompactionFailed",
    "CompactionStarted",
    "CompactionTriggered",
    "ContextCritical",
    "ContextWarning",
    "EmbeddingFailed",
    "EntriesQuarantined",
    "Event",
    "ExtractionFailed",
    "FactsUpdated",
    "ForgottenReturned",
    "HistoryBranched",
    "Hook",
    "MemoryExpired",
    "MemoryIndexed",
    "RecallFailed",
    "RecallInjected",
    "RedactedSpan",
    "SearchDegraded",
    "SecretsRedacted",
    "StoreEvent",
    "StoreHook",
    "UserMessagesSummarised",
    "WindowLearned",
    "notify",
]


@dataclass(frozen=True, slots=True)
class CompactionTriggered:
    """A tier was reached, and a compaction is about to begin. Told by policies with tiers.

    Attributes:
        usage: The share of the window in use; 1 is all of it.
        action: ``background``, ``aggressive`` or ``emergency``, or what else the policy calls it.
        session_id: The session.
        policy: The policy's name.
        tokens: What is in use.
        threshold: What was reached, in tokens.
    """

    usage: float
    action: str
    session_id: str = ""
    policy: str = ""
    tokens: int = 0
    threshold: int = 0


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A compaction began. Exactly one terminal event follows.

    Attributes:
        input_tokens: Input tokens of the last model call, 0 where unknown.
        estimated_history_tokens: The history by the policy's estimator.
        message_count: Messages in the history.
        policy: The policy's name.
        cause: The trigger's reason.
        kind: Of a tiered policy ``rolling`` or ``chronicle``, else empty.
    """

    input_tokens: int
    estimated_history_tokens: int
    message_count: int
    policy: str
    cause: str
    kind: str = ""


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
            ``summarizer_overflow``, ``estimation_failed``, ``no_reduction``, ``rewrite_invalid``,
            ``memory_indexing_failed``, ``hook_failed``, ``context_overflow``, ``stale``, ``cancelled`` or
            ``internal``.
        message: What happened, in a sentence.
        duration: Seconds since the start.
        usage: Every model call that was made all the same.
        policy: The policy's name.
        cause: The trigger's reason.
        error_class: The name of the class of what was raised: by the model, the curator, a hook, the store
            or the token rule. Empty where nothing was.
        attempted_entries: Of ``memory_indexing_failed``: how many entries the store was handed.
    """

    reason: str
    message: str = ""
    duration: float = 0.0
    usage: tuple[UsageRecord, ...] = ()
    policy: str = ""
    cause: str = ""
    error_class: str = ""
    attempted_entries: int = 0


@dataclass(frozen=True, slots=True)
class CacheBroken:
    """A rewrite changed messages that the provider had in its cache: it reads what follows anew.

    Told where the last ``usage`` said how much is cached, and the session's ``cache_ttl`` has not passed.

    Attributes:
        session_id: The session.
        policy: The policy that rewrote it.
        tokens: How many cached tokens are lost, by an estimate of what stayed before them.
        cached_tokens: How many there were, by the provider's count.
    """

    session_id: str
    policy: str
    tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class ContextWarning:
    """The context is seven tenths full. A session tells it once, until less is in the window again.

    Attributes:
        tokens: The view by the policy's estimator; at a boundary with what is sent beside it.
        context_window: The window in tokens.
        percent: Their share in whole per cent, rounded down.
    """

    tokens: int
    context_window: int
    percent: int


@dataclass(frozen=True, slots=True)
class ContextCritical:
    """The context is nine tenths full. Its attributes are those of :class:`ContextWarning`."""

    tokens: int
    context_window: int
    percent: int


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
class HistoryBranched:
    """A host's list has rewritten the past, and the session follows it. What left is in the log.

    Attributes:
        session_id: The session.
        branch_id: What ``expand`` takes, to read what left; ``undo_compaction`` brings it back.
        position: The place in the host's list of the first message that differs; its length where the list
            ends earlier than the session.
        retained: Messages that both have; those that the summary stands for are counted.
        left: Messages that left, not shown to the model any more, and not found by a search.
        appended: Messages of the list that were written as new.
    """

    session_id: str
    branch_id: int
    position: int
    retained: int
    left: int
    appended: int


@dataclass(frozen=True, slots=True)
class ForgottenReturned:
    """A host's list has what was forgotten. It stays out of the session.

    Attributes:
        session_id: The session.
        places: Where the list has it: messages, and summaries that were handed out. A place that was told
            is not told again while the session is open.
    """

    session_id: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowLearned:
    """A provider refused a request as too large, and its limit is smaller than the window known so far.

    Attributes:
        session_id: The session.
        before: The window in tokens until now; None where there was none.
        window: The window in tokens from now on. It is stored with the session.
    """

    session_id: str
    before: int | None
    window: int


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
class UserMessagesSummarised:
    """User messages that the policy keeps word for word left all the same: their budget is used up.

    Attributes:
        count: How many, the oldest of them.
        policy: The policy's name.
    """

    count: int
    policy: str


@dataclass(frozen=True, slots=True)
class MemoryExpired:
    """Entries left what can be found, by the session's retention or their ``ttl``. The log has what was said.

    Attributes:
        session_id: The session they belonged to.
        by_age: How many were too old.
        by_count: How many of the others were too many, the oldest first.
        by_ttl: How many had a ``ttl`` that is over.
    """

    session_id: str
    by_age: int
    by_count: int
    by_ttl: int = 0


class RedactedSpan(NamedTuple):
    """Where a secret stood in a message that was written without it. It does not hold the secret.

    Attributes:
        seq: The message.
        rule: The rule that found it.
        path: The text in the message: ``content[0].input.command``.
        start: Its first code point in that text.
        end: One past its last.
    """

    seq: int
    rule: str
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SecretsRedacted:
    """Messages were written without the secrets in them. The caller's own objects are as they were.

    Attributes:
        session_id: The session.
        spans: Where they stood, in the order of the messages.
    """

    session_id: str
    spans: tuple[RedactedSpan, ...]


@dataclass(frozen=True, slots=True)
class RecallInjected:
    """A block was recalled for a turn; told once for all calls of the turn with the same block.

    Attributes:
        session_id: The session.
        tokens: What the block counts, by the session's rule; 0 where nothing was placed.
        cap: What it could have counted.
        knowledge_count: Facts in it.
        detail_count: Earlier messages in it.
        reason: Why nothing was placed: ``off``, ``short_query``, ``no_hits`` or ``no_room``; else empty.
    """

    session_id: str
    tokens: int
    cap: int
    knowledge_count: int
    detail_count: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecallFailed:
    """Nothing was recalled, since something failed. The request is what it is without recall.

    Attributes:
        session_id: The session.
        reason: What happened, in a sentence.
        error_class: The name of the class of what was raised.
    """

    session_id: str
    reason: str
    error_class: str


@dataclass(frozen=True, slots=True)
class FactsUpdated:
    """Facts were learned, or saved.

    Attributes:
        session_id: The session.
        source: ``patterns``, ``model``, or ``saved``: by the host, or by a tool.
        added: Facts that are new, those that took the place of another included.
        updated: Facts that are better said now.
        superseded: Facts that are history now.
        known: How many were known already.
    """

    session_id: str
    source: Literal["patterns", "model", "saved"]
    added: int = 0
    updated: int = 0
    superseded: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class ExtractionFailed:
    """Facts were not found in what was discarded. The compaction stands, and the log has all of it.

    Attributes:
        session_id: The session; empty outside of one.
        reason: What happened first, in a sentence.
        failed: How many calls of a model, or of the host's own function, gave nothing; 0 where the store
            failed.
        calls: Of how many.
        will_retry: The text is read again, after the next compaction or when the session is next opened;
            else its facts are lost.
    """

    session_id: str
    reason: str
    failed: int = 0
    calls: int = 0
    will_retry: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveFailed:
    """The files of an archive were not written. The store has everything, and they are written again later.

    Attributes:
        session_id: The session.
        reason: What happened first, in a sentence.
        failed: How many messages failed; 0 where it was something else.
    """

    session_id: str
    reason: str
    failed: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddingFailed:
    """An embedder made no vectors. Nothing is lost: entries are found by their words, and tried again.

    Attributes:
        embedder: Its id.
        purpose: ``documents`` for entries, in the background; ``query`` for a search.
        reason: ``raised``, ``invalid`` (an answer that is no vectors), ``timeout``, or ``stale``: the store
            has another embedder by now.
        message: What happened, in a sentence.
        texts: How many texts it was given.
    """

    embedder: str
    purpose: Literal["documents", "query"]
    reason: Literal["raised", "invalid", "timeout", "stale"]
    message: str
    texts: int


@dataclass(frozen=True, slots=True)
class SearchDegraded:
    """A search was answered by less than was asked for: by words alone, or in the order of its ranker.

    Attributes:
        session_id: The session.
        ranker: What was asked for.
        reason: ``no_vectors`` (none of its entries has one yet), ``no_query_vector`` (the embedder failed,
            or did not answer in time), ``stale`` (the store has another embedder by now), or
            ``no_reranking``: the reranker failed, or did not answer in time.
    """

    session_id: str
    ranker: str
    reason: Literal["no_vectors", "no_query_vector", "stale", "no_reranking"]


Event: TypeAlias = (
    CompactionStarted
    | CompactionTriggered
    | CompactionCompleted
    | CompactionFailed
    | MemoryIndexed
    | ContextWarning
    | CacheBroken
    | ContextCritical
    | HistoryBranched
    | EntriesQuarantined
    | MemoryExpired
    | ForgottenReturned
    | WindowLearned
    | UserMessagesSummarised
    | RecallInjected
    | RecallFailed
    | SecretsRedacted
    | FactsUpdated
    | ExtractionFailed
    | ArchiveFailed
)
Hook: TypeAlias = Callable[[Event], Any]

StoreEvent: TypeAlias = EmbeddingFailed | SearchDegraded
StoreHook: TypeAlias = Callable[[StoreEvent], Any]

_E = TypeVar("_E", bound=Event | StoreEvent)


def notify(hooks: Iterable[Callable[[_E], Any]], event: _E) -> None:
    """Tells every hook of *event*, and the log. A hook that raises is logged and never breaks a turn."""
    _log.debug("%s", type(event).__name__, extra={"event": event})
    watching.event(event)
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            _log.exception("a hook failed on %s", type(event).__name__)
