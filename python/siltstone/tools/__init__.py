"""What a model may call."""

from siltstone.tools.base import Format, Tool, dispatch
from siltstone.tools.context_compact import context_compact
from siltstone.tools.memory_search import memory_search

__all__ = ["Format", "Tool", "context_compact", "dispatch", "memory_search"]
