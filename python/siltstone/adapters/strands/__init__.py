"""Strands Agents: a plugin, and a model that writes summaries."""

from siltstone.adapters.strands.messages import StrandsDialect
from siltstone.adapters.strands.model import summariser
from siltstone.adapters.strands.plugin import SiltstonePlugin

__all__ = ["SiltstonePlugin", "StrandsDialect", "summariser"]
