"""Serves the pages to a browser of this machine, until the process is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable

from siltstone.inspector.access import HOST, Access
from siltstone.inspector.app import inspector_app
from siltstone.inspector.subject import Subject

__all__ = ["serve"]

_GRACE = 1  #: seconds that open pages have when the inspector ends


def serve(subject: Subject, port: int = 0, page: str = "/", tell: Callable[[str], None] = print) -> None:
    """Serves *subject* at 127.0.0.1, until the process is interrupted.

    Args:
        subject: The store to show. The caller closes it.
        port: The port; 0 for a free one.
        page: The page that the address leads to.
        tell: Called with the address, which has the token, once it answers.

    Raises:
        OSError: the port is taken.
    """
    import uvicorn

    with socket.create_server((HOST, port)) as listening:
        access = Access(listening.getsockname()[1])
        config = uvicorn.Config(
            inspector_app(subject, access),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        tell(access.address(page))
        uvicorn.Server(config).run(sockets=[listening])
