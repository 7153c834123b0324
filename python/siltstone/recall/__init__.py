"""Recall: earlier messages that fit a question return before a model call, within a budget."""

from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.turn import (
    Recall,
    Sources,
    build_block,
    is_recalled,
    may_be_recalled,
    parse_block,
    position,
    query_of,
    without_recalled,
)

__all__ = [
    "Detail",
    "FactLine",
    "Recall",
    "RecallBlock",
    "RecallConfig",
    "Sources",
    "build_block",
    "is_recalled",
    "may_be_recalled",
    "parse_block",
    "position",
    "query_of",
    "without_recalled",
]
