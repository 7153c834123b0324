"""Long-horizon memory for LLM agents: compaction, a durable archive, and search in microseconds.

No key, no server, no model is needed::

    import siltstone

    policy = siltstone.ThresholdCompactor()
    with siltstone.Session.open("agent-data", "chat-1", policy=policy,
                                model=siltstone.ExtractiveModel(), context_window=200_000) as session:
        session.append({"role": "user", "content": "Hello"})
        request = session.prepare().messages
"""

TYPE_CHECKING = False  # typing alone would be a third of the time that importing this module takes
if TYPE_CHECKING:
    from siltstone._native import __version__
    from siltstone.compaction import (
        Chain,
        CompactionConfig,
        CompactionContext,
        Compactor,
        Emergency,
        SmartTrim,
        SmartTrimConfig,
        ThresholdCompactor,
        Trigger,
        WaterfallCompactor,
        WaterfallConfig,
        WindowCompactor,
        WindowConfig,
    )
    from siltstone.embedding import (
        Embedder,
        FunctionEmbedder,
        MiniLMEmbedder,
        TableEmbedder,
        embed,
        embed_batch,
        embed_sparse,
    )
    from siltstone.engine import acompact, compact, plan
    from siltstone.errors import (
        ConfigError,
        ContextOverflowError,
        DatasetError,
        EmbeddingError,
        InvalidMessageError,
        MessageTooLargeError,
        ModelError,
        SiltstoneError,
        StoreError,
        ToolError,
    )
    from siltstone.evaluation import Dataset, Report, evaluate
    from siltstone.events import (
        CompactionCompleted,
        CompactionFailed,
        CompactionStarted,
        ContextCritical,
        ContextWarning,
        EmbeddingFailed,
        EntriesQuarantined,
        HistoryBranched,
        MemoryExpired,
        MemoryIndexed,
        SearchDegraded,
    )
    from siltstone.hooks import Guidance
    from siltstone.index import Bm25Index, Bm25Params, FlatIndex, HashedTfIndex, HnswIndex, HnswParams
    from siltstone.llm import Completion, CompletionRequest
    from siltstone.memory import (
        Decay,
        Entry,
        Finding,
        ForgetReport,
        HnswMemoryStore,
        Limits,
        MemoryStore,
        SearchHit,
        SimpleMemoryStore,
        SourceRange,
    )
    from siltstone.models import ExtractiveModel
    from siltstone.outcome import Compacted, Failed, Plan, Skipped
    from siltstone.session import AsyncSession, CompactionRecord, Prepared, Retention, Session
    from siltstone.tokenizer import TokenizerRule
    from siltstone.tokens import estimate_tokens
    from siltstone.tools import Tool
    from siltstone.usage import UsageRecord

del TYPE_CHECKING

__all__ = [
    "AsyncSession",
    "Bm25Index",
    "Bm25Params",
    "Chain",
    "Compacted",
    "CompactionCompleted",
    "CompactionConfig",
    "CompactionContext",
    "CompactionFailed",
    "CompactionRecord",
    "CompactionStarted",
    "Compactor",
    "Completion",
    "CompletionRequest",
    "ConfigError",
    "ContextCritical",
    "ContextOverflowError",
    "ContextWarning",
    "Dataset",
    "DatasetError",
    "Decay",
    "Embedder",
    "EmbeddingError",
    "EmbeddingFailed",
    "Emergency",
    "EntriesQuarantined",
    "Entry",
    "ExtractiveModel",
    "Failed",
    "Finding",
    "FlatIndex",
    "ForgetReport",
    "FunctionEmbedder",
    "Guidance",
    "HashedTfIndex",
    "HistoryBranched",
    "HnswIndex",
    "HnswMemoryStore",
    "HnswParams",
    "InvalidMessageError",
    "Limits",
    "MemoryExpired",
    "MemoryIndexed",
    "MemoryStore",
    "MessageTooLargeError",
    "MiniLMEmbedder",
    "ModelError",
    "Plan",
    "Prepared",
    "Report",
    "Retention",
    "SearchDegraded",
    "SearchHit",
    "Session",
    "SiltstoneError",
    "SimpleMemoryStore",
    "Skipped",
    "SmartTrim",
    "SmartTrimConfig",
    "SourceRange",
    "StoreError",
    "TableEmbedder",
    "ThresholdCompactor",
    "TokenizerRule",
    "Tool",
    "ToolError",
    "Trigger",
    "UsageRecord",
    "WaterfallCompactor",
    "WaterfallConfig",
    "WindowCompactor",
    "WindowConfig",
    "__version__",
    "acompact",
    "compact",
    "embed",
    "embed_batch",
    "embed_sparse",
    "estimate_tokens",
    "evaluate",
    "plan",
]

# Where each name lives. A room is imported when a name of it is first asked for: an agent that only
# compacts never loads the store, and `import siltstone` takes a millisecond.
_HOMES = {
    "Chain": "siltstone.compaction",
    "AsyncSession": "siltstone.session",
    "Bm25Index": "siltstone.index",
    "Bm25Params": "siltstone.index",
    "Compacted": "siltstone.outcome",
    "CompactionCompleted": "siltstone.events",
    "CompactionConfig": "siltstone.compaction",
    "CompactionContext": "siltstone.compaction",
    "CompactionFailed": "siltstone.events",
    "CompactionRecord": "siltstone.session",
    "CompactionStarted": "siltstone.events",
    "Compactor": "siltstone.compaction",
    "Completion": "siltstone.llm",
    "CompletionRequest": "siltstone.llm",
    "ConfigError": "siltstone.errors",
    "ContextCritical": "siltstone.events",
    "ContextOverflowError": "siltstone.errors",
    "ContextWarning": "siltstone.events",
    "Dataset": "siltstone.evaluation",
    "DatasetError": "siltstone.errors",
    "Decay": "siltstone.memory",
    "Embedder": "siltstone.embedding",
    "EmbeddingError": "siltstone.errors",
    "EmbeddingFailed": "siltstone.events",
    "Emergency": "siltstone.compaction",
    "EntriesQuarantined": "siltstone.events",
    "Entry": "siltstone.memory",
    "ExtractiveModel": "siltstone.models",
    "Failed": "siltstone.outcome",
    "Finding": "siltstone.memory",
    "FlatIndex": "siltstone.index",
    "ForgetReport": "siltstone.memory",
    "FunctionEmbedder": "siltstone.embedding",
    "Guidance": "siltstone.hooks",
    "HashedTfIndex": "siltstone.index",
    "HistoryBranched": "siltstone.events",
    "HnswIndex": "siltstone.index",
    "HnswMemoryStore": "siltstone.memory",
    "HnswParams": "siltstone.index",
    "InvalidMessageError": "siltstone.errors",
    "Limits": "siltstone.memory",
    "MemoryExpired": "siltstone.events",
    "MemoryIndexed": "siltstone.events",
    "MemoryStore": "siltstone.memory",
    "MessageTooLargeError": "siltstone.errors",
    "MiniLMEmbedder": "siltstone.embedding",
    "ModelError": "siltstone.errors",
    "Plan": "siltstone.outcome",
    "Prepared": "siltstone.session",
    "Report": "siltstone.evaluation",
    "Retention": "siltstone.session",
    "SearchDegraded": "siltstone.events",
    "SearchHit": "siltstone.memory",
    "Session": "siltstone.session",
    "SiltstoneError": "siltstone.errors",
    "SimpleMemoryStore": "siltstone.memory",
    "Skipped": "siltstone.outcome",
    "SmartTrim": "siltstone.compaction",
    "SmartTrimConfig": "siltstone.compaction",
    "SourceRange": "siltstone.memory",
    "StoreError": "siltstone.errors",
    "TableEmbedder": "siltstone.embedding",
    "ThresholdCompactor": "siltstone.compaction",
    "TokenizerRule": "siltstone.tokenizer",
    "Tool": "siltstone.tools",
    "ToolError": "siltstone.errors",
    "Trigger": "siltstone.compaction",
    "UsageRecord": "siltstone.usage",
    "WaterfallCompactor": "siltstone.compaction",
    "WaterfallConfig": "siltstone.compaction",
    "WindowCompactor": "siltstone.compaction",
    "WindowConfig": "siltstone.compaction",
    "__version__": "siltstone._native",
    "acompact": "siltstone.engine",
    "compact": "siltstone.engine",
    "embed": "siltstone.embedding",
    "embed_batch": "siltstone.embedding",
    "embed_sparse": "siltstone.embedding",
    "estimate_tokens": "siltstone.tokens",
    "evaluate": "siltstone.evaluation",
    "plan": "siltstone.engine",
}


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'siltstone' has no attribute {name!r}") from None
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
