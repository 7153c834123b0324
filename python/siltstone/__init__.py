"""Long-horizon memory for LLM agents: compaction, a durable archive, and search in microseconds.

No key, no server, no model is needed::

    import siltstone

    policy = siltstone.ThresholdCompactor()
    with siltstone.Session.open("agent-data", "chat-1", policy=policy,
                                model=siltstone.ExtractiveModel(), context_window=200_000) as session:
        session.append({"role": "user", "content": "Hello"})
        request = session.prepare().messages
"""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone._native import __version__ as __version__
    from siltstone.compaction import (
        Chain as Chain,
        Checkpoint as Checkpoint,
        ClearConfig as ClearConfig,
        ClearToolResults as ClearToolResults,
        CompactionContext as CompactionContext,
        CompactionError as CompactionError,
        Compactor as Compactor,
        CompressConfig as CompressConfig,
        CompressToolOutput as CompressToolOutput,
        DropDuplicateReads as DropDuplicateReads,
        DuplicatesConfig as DuplicatesConfig,
        Emergency as Emergency,
        Trigger as Trigger,
    )
    from siltstone.embedding import (
        Embedder as Embedder,
        FunctionEmbedder as FunctionEmbedder,
        MiniLMEmbedder as MiniLMEmbedder,
        TableEmbedder as TableEmbedder,
        embed as embed,
        embed_batch as embed_batch,
        embed_sparse as embed_sparse,
    )
    from siltstone.engine import (
        Compacted as Compacted,
        Failed as Failed,
        Plan as Plan,
        Skipped as Skipped,
        acompact as acompact,
        compact as compact,
        plan as plan,
    )
    from siltstone.errors import (
        CompactionNotFoundError as CompactionNotFoundError,
        ConfigError as ConfigError,
        ContextOverflowError as ContextOverflowError,
        ConversionLossError as ConversionLossError,
        DatasetError as DatasetError,
        EmbeddingError as EmbeddingError,
        EntryNotFoundError as EntryNotFoundError,
        HistoryConflictError as HistoryConflictError,
        IllegalHistoryError as IllegalHistoryError,
        InternalError as InternalError,
        InvalidArgumentsError as InvalidArgumentsError,
        InvalidEntryError as InvalidEntryError,
        InvalidMessageError as InvalidMessageError,
        MessageRefusedError as MessageRefusedError,
        MessageTooLargeError as MessageTooLargeError,
        ModelError as ModelError,
        ReadOnlyStoreError as ReadOnlyStoreError,
        SecretRefusedError as SecretRefusedError,
        SessionBusyError as SessionBusyError,
        SessionDroppedError as SessionDroppedError,
        SiltstoneError as SiltstoneError,
        StoreBusyError as StoreBusyError,
        StoreClosedError as StoreClosedError,
        StoreConflictError as StoreConflictError,
        StoreCorruptError as StoreCorruptError,
        StoreError as StoreError,
        StoreForkedError as StoreForkedError,
        StoreIoError as StoreIoError,
        StoreOpenError as StoreOpenError,
        StoreReplacedError as StoreReplacedError,
        StoreUnavailableError as StoreUnavailableError,
        StoreVersionError as StoreVersionError,
        ToolError as ToolError,
        ToolNotFoundError as ToolNotFoundError,
    )
    from siltstone.evaluation import Dataset as Dataset, Report as Report, evaluate as evaluate
    from siltstone.events import (
        ArchiveFailed as ArchiveFailed,
        CacheBroken as CacheBroken,
        CompactionCompleted as CompactionCompleted,
        CompactionFailed as CompactionFailed,
        CompactionStarted as CompactionStarted,
        CompactionTriggered as CompactionTriggered,
        ContextCritical as ContextCritical,
        ContextWarning as ContextWarning,
        EmbeddingFailed as EmbeddingFailed,
        EntriesQuarantined as EntriesQuarantined,
        ExtractionFailed as ExtractionFailed,
        FactsUpdated as FactsUpdated,
        ForgottenReturned as ForgottenReturned,
        HistoryBranched as HistoryBranched,
        MemoryExpired as MemoryExpired,
        MemoryIndexed as MemoryIndexed,
        RecallFailed as RecallFailed,
        RecallInjected as RecallInjected,
        SearchDegraded as SearchDegraded,
        SecretsRedacted as SecretsRedacted,
        UsageRecord as UsageRecord,
        UserMessagesSummarised as UserMessagesSummarised,
        WindowLearned as WindowLearned,
    )
    from siltstone.hooks import Guidance as Guidance
    from siltstone.index import (
        Bm25Index as Bm25Index,
        Bm25Params as Bm25Params,
        HashedTfIndex as HashedTfIndex,
        HnswIndex as HnswIndex,
        HnswParams as HnswParams,
    )
    from siltstone.knowledge import Fact as Fact, KnowledgeConfig as KnowledgeConfig
    from siltstone.llm import Completion as Completion, CompletionRequest as CompletionRequest
    from siltstone.memory import (
        Decay as Decay,
        Entry as Entry,
        Finding as Finding,
        ForgetReport as ForgetReport,
        Limits as Limits,
        SearchHit as SearchHit,
        SessionInfo as SessionInfo,
        SessionPage as SessionPage,
        SourceRange as SourceRange,
    )
    from siltstone.memory.hits import Reranker as Reranker
    from siltstone.messages import MaterialItem as MaterialItem
    from siltstone.models import ExtractiveModel as ExtractiveModel
    from siltstone.recall import RecallConfig as RecallConfig
    from siltstone.redaction import RedactionConfig as RedactionConfig
    from siltstone.session import (
        Answer as Answer,
        AsyncSession as AsyncSession,
        CompactionRecord as CompactionRecord,
        Prepared as Prepared,
        Retention as Retention,
        Session as Session,
        SummaryRecord as SummaryRecord,
    )
    from siltstone.stores import (
        HnswMemoryStore as HnswMemoryStore,
        MemoryStore as MemoryStore,
        SimpleMemoryStore as SimpleMemoryStore,
    )
    from siltstone.systems.meerkat import (
        CompactionConfig as CompactionConfig,
        ThresholdCompactor as ThresholdCompactor,
    )
    from siltstone.systems.openclaw import SmartTrim as SmartTrim, SmartTrimConfig as SmartTrimConfig
    from siltstone.systems.rustant import WindowCompactor as WindowCompactor, WindowConfig as WindowConfig
    from siltstone.systems.spacebot.config import (
        ChronicleConfig as ChronicleConfig,
        TieredConfig as TieredConfig,
    )
    from siltstone.systems.spacebot.tiered import TieredCompactor as TieredCompactor
    from siltstone.systems.spacebot.worker import WorkerCompactor as WorkerCompactor
    from siltstone.systems.waterfall.config import WaterfallConfig as WaterfallConfig
    from siltstone.systems.waterfall.policy import WaterfallCompactor as WaterfallCompactor
    from siltstone.tokens import TokenizerRule as TokenizerRule, estimate_tokens as estimate_tokens
    from siltstone.tools.base import Tool as Tool
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "_native": "__version__",
            "compaction": "Chain Checkpoint ClearConfig ClearToolResults CompactionContext CompactionError "
            "Compactor CompressConfig CompressToolOutput DropDuplicateReads DuplicatesConfig "
            "Emergency Trigger",
            "embedding": "Embedder FunctionEmbedder MiniLMEmbedder TableEmbedder embed embed_batch "
            "embed_sparse",
            "engine": "Compacted Failed Plan Skipped acompact compact plan",
            "errors": "CompactionNotFoundError ConfigError ContextOverflowError ConversionLossError "
            "DatasetError EmbeddingError EntryNotFoundError HistoryConflictError "
            "IllegalHistoryError InternalError InvalidArgumentsError InvalidEntryError "
            "InvalidMessageError MessageRefusedError MessageTooLargeError ModelError "
            "ReadOnlyStoreError SecretRefusedError SessionBusyError SessionDroppedError "
            "SiltstoneError StoreBusyError StoreClosedError StoreConflictError "
            "StoreCorruptError StoreError StoreForkedError StoreIoError StoreOpenError "
            "StoreReplacedError StoreUnavailableError StoreVersionError ToolError "
            "ToolNotFoundError",
            "evaluation": "Dataset Report evaluate",
            "events": "ArchiveFailed CacheBroken CompactionCompleted CompactionFailed CompactionStarted "
            "CompactionTriggered ContextCritical ContextWarning EmbeddingFailed "
            "EntriesQuarantined ExtractionFailed FactsUpdated ForgottenReturned HistoryBranched "
            "MemoryExpired MemoryIndexed RecallFailed RecallInjected SearchDegraded "
            "SecretsRedacted UsageRecord UserMessagesSummarised WindowLearned",
            "hooks": "Guidance",
            "index": "Bm25Index Bm25Params HashedTfIndex HnswIndex HnswParams",
            "knowledge": "Fact KnowledgeConfig",
            "llm": "Completion CompletionRequest",
            "memory": "Decay Entry Finding ForgetReport Limits SearchHit SessionInfo SessionPage SourceRange",
            "memory.hits": "Reranker",
            "messages": "MaterialItem",
            "models": "ExtractiveModel",
            "recall": "RecallConfig",
            "redaction": "RedactionConfig",
            "session": "Answer AsyncSession CompactionRecord Prepared Retention Session SummaryRecord",
            "stores": "HnswMemoryStore MemoryStore SimpleMemoryStore",
            "systems.meerkat": "CompactionConfig ThresholdCompactor",
            "systems.openclaw": "SmartTrim SmartTrimConfig",
            "systems.rustant": "WindowCompactor WindowConfig",
            "systems.spacebot.config": "ChronicleConfig TieredConfig",
            "systems.spacebot.tiered": "TieredCompactor",
            "systems.spacebot.worker": "WorkerCompactor",
            "systems.waterfall.config": "WaterfallConfig",
            "systems.waterfall.policy": "WaterfallCompactor",
            "tokens": "TokenizerRule estimate_tokens",
            "tools.base": "Tool",
        },
    )
    del TYPE_CHECKING, names_of  # they are no names of the package
