"""Policies: they decide when a part of a history is discarded, and which text replaces it."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.compaction.base import (
        Compaction as Compaction,
        CompactionContext as CompactionContext,
        CompactionError as CompactionError,
        Compactor as Compactor,
        Skip as Skip,
        Trigger as Trigger,
    )
    from siltstone.compaction.breakdown import (
        ContextBreakdown as ContextBreakdown,
        breakdown as breakdown,
        context_alert as context_alert,
    )
    from siltstone.compaction.chain import Chain as Chain
    from siltstone.compaction.cheap_config import (
        ClearConfig as ClearConfig,
        DuplicatesConfig as DuplicatesConfig,
    )
    from siltstone.compaction.checkpoint import Checkpoint as Checkpoint
    from siltstone.compaction.chronicle_config import ChronicleConfig as ChronicleConfig
    from siltstone.compaction.clear_results import ClearToolResults as ClearToolResults
    from siltstone.compaction.compress import (
        CompressConfig as CompressConfig,
        CompressToolOutput as CompressToolOutput,
    )
    from siltstone.compaction.config import CompactionConfig as CompactionConfig
    from siltstone.compaction.duplicate_reads import DropDuplicateReads as DropDuplicateReads
    from siltstone.compaction.emergency import Emergency as Emergency
    from siltstone.compaction.emergency_fit import fit as fit
    from siltstone.compaction.fallback import smart_fallback_summary as smart_fallback_summary
    from siltstone.compaction.prompts import PROMPT as PROMPT, SUMMARY_PREFIX as SUMMARY_PREFIX
    from siltstone.compaction.smart_trim import (
        SmartTrim as SmartTrim,
        Trimmed as Trimmed,
        smart_trim as smart_trim,
    )
    from siltstone.compaction.smart_trim_config import SmartTrimConfig as SmartTrimConfig
    from siltstone.compaction.threshold import ThresholdCompactor as ThresholdCompactor
    from siltstone.compaction.tiered import TieredCompactor as TieredCompactor
    from siltstone.compaction.tiered_config import TieredConfig as TieredConfig
    from siltstone.compaction.tool_results import (
        ToolResult as ToolResult,
        loads_what_is_used as loads_what_is_used,
    )
    from siltstone.compaction.validate import validate as validate
    from siltstone.compaction.waterfall import WaterfallCompactor as WaterfallCompactor
    from siltstone.compaction.waterfall_config import WaterfallConfig as WaterfallConfig
    from siltstone.compaction.window import Tiers as Tiers, WindowCompactor as WindowCompactor, tiers as tiers
    from siltstone.compaction.window_config import WindowConfig as WindowConfig
    from siltstone.compaction.worker import WorkerCompactor as WorkerCompactor
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "base": "Compaction CompactionContext CompactionError Compactor Skip Trigger",
            "breakdown": "ContextBreakdown breakdown context_alert",
            "chain": "Chain",
            "cheap_config": "ClearConfig DuplicatesConfig",
            "checkpoint": "Checkpoint",
            "chronicle_config": "ChronicleConfig",
            "clear_results": "ClearToolResults",
            "compress": "CompressConfig CompressToolOutput",
            "config": "CompactionConfig",
            "duplicate_reads": "DropDuplicateReads",
            "emergency": "Emergency",
            "emergency_fit": "fit",
            "fallback": "smart_fallback_summary",
            "prompts": "PROMPT SUMMARY_PREFIX",
            "smart_trim": "SmartTrim Trimmed smart_trim",
            "smart_trim_config": "SmartTrimConfig",
            "threshold": "ThresholdCompactor",
            "tiered": "TieredCompactor",
            "tiered_config": "TieredConfig",
            "tool_results": "ToolResult loads_what_is_used",
            "validate": "validate",
            "waterfall": "WaterfallCompactor",
            "waterfall_config": "WaterfallConfig",
            "window": "Tiers WindowCompactor tiers",
            "window_config": "WindowConfig",
            "worker": "WorkerCompactor",
        },
    )
