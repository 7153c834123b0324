"""Recall: earlier messages that fit a question return before a model call, within a budget."""

from siltstone.recall.base import (
    Detail as Detail,
    FactLine as FactLine,
    RecallBlock as RecallBlock,
    RecallConfig as RecallConfig,
)
from siltstone.recall.turn import (
    Recall as Recall,
    build_block as build_block,
    is_recalled as is_recalled,
    may_be_recalled as may_be_recalled,
    parse_block as parse_block,
    position as position,
)
