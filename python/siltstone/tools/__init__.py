"""The tools that a model may call."""

from siltstone.tools.base import Tool as Tool, answer_budget as answer_budget, dispatch as dispatch
from siltstone.tools.context import context_compact as context_compact, skill as skill
from siltstone.tools.memory import (
    memory_forget as memory_forget,
    memory_get as memory_get,
    memory_save as memory_save,
    memory_search as memory_search,
)
