"""The tools that a model may call."""

from siltstone.tools.base import LEAST_BUDGET, Format, Tool, answer_budget, dispatch
from siltstone.tools.context import chronicle, context_compact, skill
from siltstone.tools.memory import (
    SavedMemory,
    handle_of,
    memory_forget,
    memory_get,
    memory_save,
    memory_search,
)

__all__ = [
    "LEAST_BUDGET",
    "Format",
    "SavedMemory",
    "Tool",
    "answer_budget",
    "chronicle",
    "context_compact",
    "dispatch",
    "handle_of",
    "memory_forget",
    "memory_get",
    "memory_save",
    "memory_search",
    "skill",
]
