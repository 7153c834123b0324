"""What a model may call."""

from siltstone.tools.base import Format, Tool, dispatch
from siltstone.tools.memory_search import memory_search

__all__ = ["Format", "Tool", "dispatch", "memory_search"]
