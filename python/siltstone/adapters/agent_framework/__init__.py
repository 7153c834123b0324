"""Microsoft Agent Framework: a chat middleware, and a chat client that writes summaries."""

from siltstone.adapters.agent_framework.messages import AgentFrameworkDialect
from siltstone.adapters.agent_framework.middleware import SiltstoneMiddleware
from siltstone.adapters.agent_framework.model import summariser

__all__ = ["AgentFrameworkDialect", "SiltstoneMiddleware", "summariser"]
