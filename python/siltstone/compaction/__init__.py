"""Policies: they decide when a part of a history is discarded, and which text replaces it."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.compaction.base import (
        Checkpoint as Checkpoint,
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
    from siltstone.compaction.emergency import Emergency as Emergency, fit as fit
    from siltstone.compaction.prompts import PROMPT as PROMPT, SUMMARY_PREFIX as SUMMARY_PREFIX
    from siltstone.compaction.results import (
        ClearConfig as ClearConfig,
        ClearToolResults as ClearToolResults,
        CompressConfig as CompressConfig,
        CompressToolOutput as CompressToolOutput,
        DropDuplicateReads as DropDuplicateReads,
        DuplicatesConfig as DuplicatesConfig,
        ToolResult as ToolResult,
        loads_what_is_used as loads_what_is_used,
    )
    from siltstone.compaction.validate import validate as validate
    from siltstone.compaction.without_model import smart_fallback_summary as smart_fallback_summary
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "base": "Checkpoint Compaction CompactionContext CompactionError Compactor Skip Trigger",
            "breakdown": "ContextBreakdown breakdown context_alert",
            "chain": "Chain",
            "emergency": "Emergency fit",
            "prompts": "PROMPT SUMMARY_PREFIX",
            "results": "ClearConfig ClearToolResults CompressConfig CompressToolOutput DropDuplicateReads "
            "DuplicatesConfig ToolResult loads_what_is_used",
            "validate": "validate",
            "without_model": "smart_fallback_summary",
        },
    )
