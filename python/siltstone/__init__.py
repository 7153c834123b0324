"""Long-horizon memory for LLM agents: compaction, a durable archive, and search in microseconds.

No key, no server, no model is needed::

    import siltstone

    policy = siltstone.ThresholdCompactor()
    with siltstone.Session.open("agent-data", "chat-1", policy=policy,
                                model=siltstone.ExtractiveModel(), context_window=200_000) as session:
        session.append({"role": "user", "content": "Hello"})
        request = session.prepare().messages
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone._native import __version__ as __version__
    from siltstone.compaction.chain import Chain as Chain
    from siltstone.compaction.emergency import Emergency as Emergency
    from siltstone.compaction.results import (
        ClearToolResults as ClearToolResults,
        CompressToolOutput as CompressToolOutput,
        DropDuplicateReads as DropDuplicateReads,
    )
    from siltstone.engine import acompact as acompact, compact as compact, plan as plan
    from siltstone.errors import (
        ConfigError as ConfigError,
        ContextOverflowError as ContextOverflowError,
        HistoryConflictError as HistoryConflictError,
        InvalidArgumentsError as InvalidArgumentsError,
        ModelError as ModelError,
        SiltstoneError as SiltstoneError,
        StoreError as StoreError,
    )
    from siltstone.index.hnsw import HnswIndex as HnswIndex
    from siltstone.knowledge.extract import KnowledgeConfig as KnowledgeConfig
    from siltstone.llm import Completion as Completion, CompletionRequest as CompletionRequest
    from siltstone.memory.entry import Entry as Entry, SearchHit as SearchHit
    from siltstone.models.extractive import ExtractiveModel as ExtractiveModel
    from siltstone.recall.base import RecallConfig as RecallConfig
    from siltstone.redaction import RedactionConfig as RedactionConfig
    from siltstone.session.aio import AsyncSession as AsyncSession
    from siltstone.session.boundary import Prepared as Prepared
    from siltstone.session.retention import Retention as Retention
    from siltstone.session.session import Session as Session
    from siltstone.stores.memory import HnswMemoryStore as HnswMemoryStore, MemoryStore as MemoryStore
    from siltstone.stores.simple import SimpleMemoryStore as SimpleMemoryStore
    from siltstone.systems.meerkat import (
        CompactionConfig as CompactionConfig,
        ThresholdCompactor as ThresholdCompactor,
    )
    from siltstone.systems.openclaw import SmartTrim as SmartTrim, SmartTrimConfig as SmartTrimConfig
    from siltstone.systems.rustant import WindowCompactor as WindowCompactor, WindowConfig as WindowConfig
    from siltstone.systems.spacebot.config import TieredConfig as TieredConfig
    from siltstone.systems.spacebot.tiered import TieredCompactor as TieredCompactor
    from siltstone.systems.spacebot.worker import WorkerCompactor as WorkerCompactor
    from siltstone.systems.waterfall.config import WaterfallConfig as WaterfallConfig
    from siltstone.systems.waterfall.policy import WaterfallCompactor as WaterfallCompactor
    from siltstone.tokens import estimate_tokens as estimate_tokens
    from siltstone.tools.base import Tool as Tool
else:
    _HOMES = {
        "_native": "__version__",
        "compaction.chain": "Chain",
        "compaction.emergency": "Emergency",
        "compaction.results": "ClearToolResults CompressToolOutput DropDuplicateReads",
        "engine": "acompact compact plan",
        "errors": "ConfigError ContextOverflowError HistoryConflictError InvalidArgumentsError "
        "ModelError SiltstoneError StoreError",
        "index.hnsw": "HnswIndex",
        "knowledge.extract": "KnowledgeConfig",
        "llm": "Completion CompletionRequest",
        "memory.entry": "Entry SearchHit",
        "models.extractive": "ExtractiveModel",
        "recall.base": "RecallConfig",
        "redaction": "RedactionConfig",
        "session.aio": "AsyncSession",
        "session.boundary": "Prepared",
        "session.retention": "Retention",
        "session.session": "Session",
        "stores.memory": "HnswMemoryStore MemoryStore",
        "stores.simple": "SimpleMemoryStore",
        "systems.meerkat": "CompactionConfig ThresholdCompactor",
        "systems.openclaw": "SmartTrim SmartTrimConfig",
        "systems.rustant": "WindowCompactor WindowConfig",
        "systems.spacebot.config": "TieredConfig",
        "systems.spacebot.tiered": "TieredCompactor",
        "systems.spacebot.worker": "WorkerCompactor",
        "systems.waterfall.config": "WaterfallConfig",
        "systems.waterfall.policy": "WaterfallCompactor",
        "tokens": "estimate_tokens",
        "tools.base": "Tool",
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
    __all__ = sorted(_HOME_OF)

    def __getattr__(name: str) -> object:
        """A public name, imported when it is first asked for: ``import siltstone`` takes a millisecond."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return __all__

    del TYPE_CHECKING
