"""LangChain and LangGraph: an agent middleware, a store of items, and a chat model that writes summaries."""

from siltstone.adapters.langchain.messages import LangChainDialect
from siltstone.adapters.langchain.middleware import SiltstoneMiddleware
from siltstone.adapters.langchain.model import async_summariser, summariser
from siltstone.adapters.langchain.store import SiltstoneStore

__all__ = ["LangChainDialect", "SiltstoneMiddleware", "SiltstoneStore", "async_summariser", "summariser"]
