"""pydantic-ai: a capability, and a model that writes summaries."""

from siltstone.adapters.pydantic_ai.capability import SiltstoneCapability
from siltstone.adapters.pydantic_ai.messages import PydanticAIDialect
from siltstone.adapters.pydantic_ai.model import summariser

__all__ = ["PydanticAIDialect", "SiltstoneCapability", "summariser"]
