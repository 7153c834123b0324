"""Events, which siltstone passes to hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from siltstone.llm import UsageRecord


class Event:
    """What a hook of a session hears."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CompactionTriggered(Event):
    """A tier was reached, and a compaction is about to begin. Told by policies with tiers.

    Attributes:
        usage: The share of the window in use; 1 is all of it.
        action: ``background``, ``aggressive`` or ``emergency``, or another word of the policy.
        session_id: The session.
        policy: The policy's name.
        tokens: The tokens in use.
        threshold: The threshold of the tier, in tokens.
    """

    usage: float
    action: str
    session_id: str = ""
    policy: str = ""
    tokens: int = 0
    threshold: int = 0


@dataclass(frozen=True, slots=True)
class CompactionStarted(Event):
    """A compaction began. Exactly one terminal event follows.

    Attributes:
        input_tokens: Input tokens of the last model call, 0 if unknown.
        estimated_history_tokens: The size of the history, by the policy's estimator.
        message_count: Messages in the history.
        policy: The policy's name.
        cause: The trigger's reason.
        kind: ``rolling`` or ``chronicle`` for a tiered policy, else empty.
    """

    input_tokens: int
    estimated_history_tokens: int
    message_count: int
    policy: str
    cause: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CompactionCompleted(Event):
    """A compaction was committed: the discarded messages are durable and searchable.

    Attributes:
        summary_tokens: Output tokens of the summary calls; 0 when no model was used.
        messages_before: Messages in the history before.
        messages_after: Messages in the history after.
        tokens_before: Tokens of the history before, by the policy's estimator.
        tokens_after: Tokens of the history after.
        discarded: Half-open ranges of the sequence numbers that left the context.
        duration: Seconds from start to commit, including model calls.
        usage: Every model call of this compaction.
        policy: The policy's name.
        cause: The trigger's reason.
        degraded: Whether the summary was made without a model of the caller.
        suspect: Whether the summary is very short for the messages that it replaces.
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
class CompactionFailed(Event):
    """A compaction failed; the history is unchanged. Never fatal.

    Attributes:
        reason: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``curator_failed``,
            ``summarizer_overflow``, ``estimation_failed``, ``no_reduction``, ``rewrite_invalid``,
            ``memory_indexing_failed``, ``hook_failed``, ``context_overflow``, ``stale``, ``cancelled`` or
            ``internal``.
        message: A description in one sentence.
        duration: Seconds since the start.
        usage: Every model call that was made.
        policy: The policy's name.
        cause: The trigger's reason.
        error_class: The class name of the exception of the model, the curator, a hook, the store or the token
            rule. Empty if there was none.
        attempted_entries: For ``memory_indexing_failed``, the number of entries of the failed write.
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
class CacheBroken(Event):
    """A rewrite changed messages in the provider's cache, so later messages are not cached any more.

    Told only if the last ``usage`` had the number of cached tokens, and 300 seconds have not passed.

    Attributes:
        session_id: The session.
        policy: The name of the policy that rewrote it; ``undo`` or ``branch`` if none did.
        tokens: The number of lost cached tokens, estimated from the unchanged beginning.
        cached_tokens: The number of cached tokens before, by the provider's count.
    """

    session_id: str
    policy: str
    tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class ContextWarning(Event):
    """The context is at least 70 % full. A session tells it once, until less is in the window again.

    Attributes:
        tokens: The size of the view, by the policy's estimator; at a boundary with the reserved tokens.
        context_window: The window in tokens.
        percent: *tokens* as a share of the window, in whole per cent, rounded down.
    """

    tokens: int
    context_window: int
    percent: int


@dataclass(frozen=True, slots=True)
class ContextCritical(Event):
    """The context is at least 90 % full. It has the attributes of :class:`ContextWarning`."""

    tokens: int
    context_window: int
    percent: int


@dataclass(frozen=True, slots=True)
class MemoryIndexed(Event):
    """Discarded messages became searchable.

    Attributes:
        session_id: Their session.
        entries: The number of written entries; messages without indexable text have none.
        messages: The number of messages.
    """

    session_id: str
    entries: int
    messages: int


@dataclass(frozen=True, slots=True)
class HistoryBranched(Event):
    """A host's list has rewritten the past, and the session follows it. Messages that left stay in the log.

    Attributes:
        session_id: The session.
        branch_id: The id of the branch. ``expand`` reads the messages that left; ``undo_compaction`` restores
            them.
        position: The place of the first different message in the host's list; the length of the list, if it
            ends earlier than the session.
        retained: The number of messages that both have, including messages behind the summary.
        left: The number of messages that left: they are not shown to the model, and not found by a search.
        appended: The number of messages of the list that were written as new.
    """

    session_id: str
    branch_id: int
    position: int
    retained: int
    left: int
    appended: int


@dataclass(frozen=True, slots=True)
class HistoryContinued(Event):
    """A host has begun anew, with a list of its own, and the session goes on with it.

    Attributes:
        session_id: The session.
        start: The sequence number of the first message of the list in the log.
        appended: The number of messages of the list that were written.
    """

    session_id: str
    start: int
    appended: int


@dataclass(frozen=True, slots=True)
class ForgottenReturned(Event):
    """A host's list has a forgotten text. The session does not take it back.

    Attributes:
        session_id: The session.
        places: Its places in the list: messages, and earlier summaries. While the session is open, a place is
            told only once.
    """

    session_id: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowLearned(Event):
    """A model takes smaller requests than its window says: told when it is learned, and at each opening.

    Attributes:
        session_id: The session.
        before: The window in tokens without this limit; None if there is none.
        window: The limit, in the provider's tokens. It is stored with the session, for this model.
        model: The model; empty if nobody named it.
        source: How it was learned.
    """

    session_id: str
    before: int | None
    window: int
    model: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class OverheadTooLarge(Event):
    """What is sent beside the messages, such as tool definitions, leaves the policy's threshold no room.

    No compaction can make it smaller. From now on the policy counts the messages alone, against the rest of
    the window. This is told, and logged as a warning, once in the life of a session.

    Attributes:
        session_id: The session.
        policy: The policy's name.
        fixed_tokens: The tokens beside the messages: the provider's count less our estimate of the messages.
        history_tokens: Tokens of the messages, by our estimate.
        threshold: The tokens at which the policy compacts.
        context_window: The window in tokens; None if unknown.
    """

    session_id: str
    policy: str
    fixed_tokens: int
    history_tokens: int
    threshold: int
    context_window: int | None

    @property
    def sentence(self) -> str:
        """The three sizes and the remedy, for people."""
        window = "" if self.context_window is None else f", in a window of {self.context_window:,}"
        return (
            f"session {self.session_id!r}: what is sent beside the messages (tools, system prompt) has "
            f"{self.fixed_tokens:,} tokens by the provider's count, and the messages have "
            f"{self.history_tokens:,}; the policy {self.policy!r} compacts from {self.threshold:,} tokens "
            f"on{window}. No compaction can help: send fewer or shorter tool definitions, or choose a larger "
            "window or threshold"
        )


@dataclass(frozen=True, slots=True)
class EntriesQuarantined(Event):
    """A search left entries out because they do not match their checksums. Told once for each such state.

    Attributes:
        session_id: Their session.
        entry_ids: The ids of all of them, ascending. ``store.check(repair=True)`` sets them aside for good.
    """

    session_id: str
    entry_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UserMessagesSummarised(Event):
    """User messages left the view, although the policy keeps user messages: their token budget is used up.

    Attributes:
        count: The number of these messages; the oldest ones left.
        policy: The policy's name.
    """

    count: int
    policy: str


@dataclass(frozen=True, slots=True)
class MemoryExpired(Event):
    """Entries were removed from the search, by the session's retention or their ``ttl``. The log keeps all.

    Attributes:
        session_id: Their session.
        by_age: The number of entries that were too old.
        by_count: The number of further entries above the maximum; the oldest were removed.
        by_ttl: The number of entries whose ``ttl`` is over.
    """

    session_id: str
    by_age: int
    by_count: int
    by_ttl: int = 0


class RedactedSpan(NamedTuple):
    """The place of a secret in a message that was written without it. It does not contain the secret.

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
class SecretsRedacted(Event):
    """Messages were written without their secrets. The caller's own objects are unchanged.

    Attributes:
        session_id: The session.
        spans: The places of the secrets, in the order of the messages.
    """

    session_id: str
    spans: tuple[RedactedSpan, ...]


@dataclass(frozen=True, slots=True)
class RecallInjected(Event):
    """A block was recalled for a turn; told once for all calls of the turn with the same block.

    Attributes:
        session_id: The session.
        tokens: The size of the block, by the session's rule; 0 if there is no block.
        cap: The largest allowed size.
        knowledge_count: The number of facts in it.
        detail_count: The number of earlier messages in it.
        reason: Why there is no block: ``off``, ``short_query``, ``no_hits`` or ``no_room``; else empty.
    """

    session_id: str
    tokens: int
    cap: int
    knowledge_count: int
    detail_count: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecallFailed(Event):
    """Recall failed. The request goes out without a block.

    Attributes:
        session_id: The session.
        reason: A description in one sentence.
        error_class: The class name of the exception.
    """

    session_id: str
    reason: str
    error_class: str


@dataclass(frozen=True, slots=True)
class FactsUpdated(Event):
    """Facts were learned, or saved.

    Attributes:
        session_id: The session.
        source: ``patterns``, ``model``, or ``saved``: by the host, or by a tool.
        added: The number of new facts, including facts that replaced another.
        updated: The number of facts with a better wording.
        superseded: The number of facts that are history now.
        known: The number of facts that were known already.
    """

    session_id: str
    source: Literal["patterns", "model", "saved"]
    added: int = 0
    updated: int = 0
    superseded: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class ExtractionFailed(Event):
    """Facts could not be extracted from discarded messages. The compaction and the log are not affected.

    Attributes:
        session_id: The session; empty outside of one.
        reason: The first failure, in one sentence.
        failed: The number of failed calls of a model, or of the host's own function; 0 if the store failed.
        calls: The number of all these calls.
        will_retry: Whether the messages are read again, after the next compaction or opening of the session;
            else their facts are lost.
    """

    session_id: str
    reason: str
    failed: int = 0
    calls: int = 0
    will_retry: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveFailed(Event):
    """The files of an archive were not written. The store has all data; the files are written again later.

    Attributes:
        session_id: The session.
        reason: The first failure, in one sentence.
        failed: The number of failed messages; 0 for a failure of another kind.
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
        reason: ``raised``, ``invalid`` (the answer has no valid vectors), ``timeout``, or ``stale``: the
            store has another embedder now.
        message: A description in one sentence.
        texts: The number of texts of the call.
    """

    embedder: str
    purpose: Literal["documents", "query"]
    reason: Literal["raised", "invalid", "timeout", "stale"]
    message: str
    texts: int


@dataclass(frozen=True, slots=True)
class SearchDegraded:
    """A search had no vectors or no reranking: hits are ranked by words, or by the ranker alone.

    Attributes:
        session_id: The session.
        ranker: The requested ranker.
        reason: ``no_vectors`` (none of its entries has one yet), ``no_query_vector`` (the embedder failed,
            or did not answer in time), ``stale`` (the store has another embedder now), or
            ``no_reranking``: the reranker failed, or did not answer in time.
    """

    session_id: str
    ranker: str
    reason: Literal["no_vectors", "no_query_vector", "stale", "no_reranking"]


Hook: TypeAlias = Callable[[Event], Any]

StoreEvent: TypeAlias = EmbeddingFailed | SearchDegraded
StoreHook: TypeAlias = Callable[[StoreEvent], Any]
