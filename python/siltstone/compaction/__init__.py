"""Policies: when to give up a part of a history, and what takes its place."""

from siltstone.compaction.base import (
    Compaction,
    CompactionContext,
    CompactionError,
    Compactor,
    Skip,
    Trigger,
)
from siltstone.compaction.config import CompactionConfig
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.emergency_fit import fit
from siltstone.compaction.prompts import PROMPT, SUMMARY_PREFIX
from siltstone.compaction.threshold import ThresholdCompactor
from siltstone.compaction.validate import validate

__all__ = [
    "PROMPT",
    "SUMMARY_PREFIX",
    "Compaction",
    "CompactionConfig",
    "CompactionContext",
    "CompactionError",
    "Compactor",
    "Emergency",
    "Skip",
    "ThresholdCompactor",
    "Trigger",
    "fit",
    "validate",
]
