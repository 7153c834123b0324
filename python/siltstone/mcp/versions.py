"""The names that differ between the two major versions of the package ``mcp``."""

from __future__ import annotations

from typing import Any

__all__ = ["MAJOR", "ResourceError", "Server", "ToolAnnotations", "ToolError", "annotated", "asgi_app"]

try:
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError
    from mcp_types import ToolAnnotations

    MAJOR = 2
except ImportError:  # the first major version
    try:
        from mcp.server.fastmcp import FastMCP as Server
        from mcp.server.fastmcp.exceptions import ResourceError, ToolError
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise ImportError("the MCP server needs its extra: pip install 'siltstone[mcp]'") from error
    MAJOR = 1

_FIRST_NAMES = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
}


def annotated(
    title: str, *, read_only: bool = True, destructive: bool = False, idempotent: bool = True
) -> ToolAnnotations:
    """All four hints of a tool. None of ours reaches beyond the store: a tool without hints counts as one."""
    hints = {
        "read_only_hint": read_only,
        "destructive_hint": destructive,
        "idempotent_hint": idempotent,
        "open_world_hint": False,
    }
    if MAJOR == 1:
        hints = {_FIRST_NAMES[name]: value for name, value in hints.items()}
    return ToolAnnotations(title=title, **hints)


def asgi_app(server: Server, host: str) -> Any:
    """The server as an ASGI application, which refuses the ``Host`` headers of other machines."""
    if MAJOR == 2:
        return server.streamable_http_app(host=host)
    return server.streamable_http_app()  # by default it listens on, and checks for, the loopback address
