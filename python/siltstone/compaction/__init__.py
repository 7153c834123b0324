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
