"""Policies: they decide when a part of a history is discarded, and which text replaces it."""

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
from siltstone.compaction.emergency import Emergency as Emergency, fit as fit
from siltstone.compaction.prompts import PROMPT as PROMPT, SUMMARY_PREFIX as SUMMARY_PREFIX
from siltstone.compaction.validate import validate as validate
