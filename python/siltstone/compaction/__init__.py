"""Policies: they decide when a part of a history is discarded, and which text replaces it."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.compaction.base import (
        Compaction,
        CompactionContext,
        CompactionError,
        Compactor,
        Skip,
        Trigger,
    )
    from siltstone.compaction.breakdown import ContextBreakdown, breakdown, context_alert
    from siltstone.compaction.chain import Chain
    from siltstone.compaction.cheap_config import ClearConfig, DuplicatesConfig
    from siltstone.compaction.checkpoint import Checkpoint
    from siltstone.compaction.chronicle_config import ChronicleConfig
    from siltstone.compaction.clear_results import ClearToolResults
    from siltstone.compaction.compress import CompressConfig, CompressToolOutput
    from siltstone.compaction.config import CompactionConfig
    from siltstone.compaction.duplicate_reads import DropDuplicateReads
    from siltstone.compaction.emergency import Emergency
    from siltstone.compaction.emergency_fit import fit
    from siltstone.compaction.fallback import smart_fallback_summary
    from siltstone.compaction.prompts import PROMPT, SUMMARY_PREFIX
    from siltstone.compaction.smart_trim import SmartTrim, Trimmed, smart_trim
    from siltstone.compaction.smart_trim_config import SmartTrimConfig
    from siltstone.compaction.threshold import ThresholdCompactor
    from siltstone.compaction.tiered import TieredCompactor
    from siltstone.compaction.tiered_config import TieredConfig
    from siltstone.compaction.tool_results import ToolResult, loads_what_is_used
    from siltstone.compaction.validate import validate
    from siltstone.compaction.waterfall import WaterfallCompactor
    from siltstone.compaction.waterfall_config import WaterfallConfig
    from siltstone.compaction.window import Tiers, WindowCompactor, tiers
    from siltstone.compaction.window_config import WindowConfig
    from siltstone.compaction.worker import WorkerCompactor
else:
    __getattr__ = names_of(
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

__all__ = [
    "PROMPT",
    "SUMMARY_PREFIX",
    "Chain",
    "Checkpoint",
    "ChronicleConfig",
    "ClearConfig",
    "ClearToolResults",
    "Compaction",
    "CompactionConfig",
    "CompactionContext",
    "CompactionError",
    "Compactor",
    "CompressConfig",
    "CompressToolOutput",
    "ContextBreakdown",
    "DropDuplicateReads",
    "DuplicatesConfig",
    "Emergency",
    "Skip",
    "SmartTrim",
    "SmartTrimConfig",
    "ThresholdCompactor",
    "TieredCompactor",
    "TieredConfig",
    "Tiers",
    "ToolResult",
    "Trigger",
    "Trimmed",
    "WaterfallCompactor",
    "WaterfallConfig",
    "WindowCompactor",
    "WindowConfig",
    "WorkerCompactor",
    "breakdown",
    "context_alert",
    "fit",
    "loads_what_is_used",
    "smart_fallback_summary",
    "smart_trim",
    "tiers",
    "validate",
]
