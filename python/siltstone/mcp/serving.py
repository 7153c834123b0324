"""How the server is reached: standard input and output, or HTTP on this machine alone."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from siltstone.errors import ConfigError
from siltstone.mcp.memory import SessionMemory
from siltstone.mcp.server import build_server
from siltstone.mcp.versions import asgi_app

__all__ = ["HOST", "TokenGate", "serve_http", "serve_stdio"]

HOST: Final = "127.0.0.1"
LEAST_TOKEN: Final = 16  #: characters; a shorter one can be guessed

_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_App = Callable[[dict[str, Any], _Receive, _Send], Awaitable[None]]


class TokenGate:
    """Lets requests with the right bearer token through to *app*; others are told 401.

    Raises:
        ConfigError: the token is shorter than 16 characters, or has others than printable ASCII.
    """

    def __init__(self, app: _App, token: str) -> None:
        if len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigError(
                f"a token must have {LEAST_TOKEN} or more characters of printable ASCII without spaces, "
                f"got {len(token)}",
                field="token",
            )
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """Answers one connection."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._is_let_in(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body"})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _is_let_in(self, scope: dict[str, Any]) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)


def serve_stdio(memory: SessionMemory) -> None:
    """Serves one client on standard input and output, until it closes them. Nothing else is printed there."""
    build_server(memory).run("stdio")


def serve_http(memory: SessionMemory, token: str, port: int = 0, tell: Callable[[str], None] = print) -> None:
    """Serves clients of this machine over streamable HTTP, until the process is interrupted.

    Args:
        memory: The memory to serve.
        token: The secret that clients send as ``Authorization: Bearer ...``; 16 characters or more.
        port: Of 127.0.0.1; 0 for a free one.
        tell: Called with the address, once it answers.

    Raises:
        ConfigError: the token is too short.
        OSError: the port is taken.
    """
    import uvicorn

    gate = TokenGate(asgi_app(build_server(memory), HOST), token)
    with socket.create_server((HOST, port)) as listening:
        tell(f"http://{HOST}:{listening.getsockname()[1]}/mcp")
        config = uvicorn.Config(gate, log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])
