"""LangChain and LangGraph: an agent middleware, and a chat model that writes summaries."""

from siltstone.adapters.langchain.messages import LangChainDialect
from siltstone.adapters.langchain.middleware import SiltstoneMiddleware
from siltstone.adapters.langchain.model import async_summariser, summariser

__all__ = ["LangChainDialect", "SiltstoneMiddleware", "async_summariser", "summariser"]
