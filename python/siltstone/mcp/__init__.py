"""The MCP server: one session of a store, for any client that speaks the Model Context Protocol.

``siltstone mcp --store PATH`` runs it. It needs the extra ``siltstone[mcp]``, of either major version of the
package ``mcp``.
"""

from siltstone.mcp.memory import Access, SessionMemory, open_memory
from siltstone.mcp.server import build_server, serve_http, serve_stdio

__all__ = ["Access", "SessionMemory", "build_server", "open_memory", "serve_http", "serve_stdio"]
