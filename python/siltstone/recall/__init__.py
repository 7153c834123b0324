"""Recall: earlier messages that fit a question return before a model call, within a budget."""

from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.block import build_block, parse_block
from siltstone.recall.place import is_recalled, may_be_recalled, position, without_recalled
from siltstone.recall.query import query_of
from siltstone.recall.turn import Recall, Sources

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
