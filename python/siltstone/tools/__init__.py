"""The tools that a model may call."""

from siltstone.tools.base import Format, Tool, dispatch
from siltstone.tools.budget import LEAST_BUDGET, answer_budget
from siltstone.tools.chronicle import chronicle
from siltstone.tools.context_compact import context_compact
from siltstone.tools.memory_forget import memory_forget
from siltstone.tools.memory_get import handle_of, memory_get
from siltstone.tools.memory_save import SavedMemory, memory_save
from siltstone.tools.memory_search import memory_search
from siltstone.tools.skill import skill

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
