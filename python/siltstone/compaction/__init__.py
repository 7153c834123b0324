"""Policies: when to give up a part of a history, and what takes its place."""

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
