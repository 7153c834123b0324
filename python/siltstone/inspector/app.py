"""The pages behind their gate, as an application of the protocol ASGI."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from siltstone.errors import SiltstoneError
from siltstone.inspector.access import HOST, UNLOCK, Access, Gate
from siltstone.inspector.pages import Pages, static
from siltstone.inspector.sessions import Subject

# Tells a page when what it shows has changed: server-sent events over the versions of the store.

LOOK = 0.25  #: seconds between two looks
_ALIVE = 60  #: looks after which a page hears that nothing happened


class Live:
    """The endpoint that pages listen to."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    async def __call__(self, request: Request) -> Response:
        """A stream of events: the stamp at once, and each other one."""
        session_id = request.query_params.get("session") or None
        kinds = request.query_params.get("facts") == "1"
        return StreamingResponse(self._events(request, session_id, kinds), media_type="text/event-stream")

    async def _events(self, request: Request, session_id: str | None, facts: bool) -> AsyncIterator[str]:
        last, quiet = "", 0
        yield "retry: 1000\n\n"
        while not await request.is_disconnected():
            quiet += 1
            now = await run_in_threadpool(stamp, self._subject, session_id, facts=facts)
            if now != last:
                yield f"event: stamp\ndata: {now}\n\n"
                last, quiet = now, 0
            elif quiet >= _ALIVE:
                yield ": nothing new\n\n"
                quiet = 0
            await asyncio.sleep(LOOK)


def stamp(subject: Subject, session_id: str | None, *, facts: bool = False) -> str:
    """A word that is another one when what pages show has changed; of the store where no session is named.

    It is made of versions and counts, and costs microseconds; with *facts* those are read as well.
    """
    try:
        if session_id is None:
            stats = subject.store.stats()
            seen = f"{stats.sessions} {stats.messages} {stats.entries} {stats.compactions} {stats.disk_bytes}"
        else:
            stats = subject.store.stats(session_id)
            version = subject.store.open_log(session_id).version()
            seen = f"{version} {stats.entries} {stats.quarantined}"
            if facts:
                found = subject.session(session_id).facts(None, 1_000, history=True)
                seen += str([(fact.id, fact.superseded_at, fact.deleted_at, fact.support) for fact in found])
    except SiltstoneError as error:
        seen = f"{type(error).__name__}"
    return hashlib.blake2b(seen.encode(), digest_size=8).hexdigest()


_MOST_BODY = 256 * 1024  #: bytes of a form


def inspector_app(subject: Subject, access: Access) -> ASGIApp:
    """The application that shows *subject* to requests with the token of *access*."""
    pages = Pages(subject, access.form)
    shown = {
        "/": pages.sessions,
        "/session": pages.session,
        "/compaction": pages.compaction,
        "/log": pages.log,
        "/message": pages.message,
        "/search": pages.search,
        "/facts": pages.facts,
        "/health": pages.health,
        "/change": pages.confirm,
        UNLOCK: pages.unlock,
    }
    routes = [Route(path, pages.with_refusals(endpoint), methods=["GET"]) for path, endpoint in shown.items()]
    routes += [
        Route("/change", pages.changed, methods=["POST"]),
        Route("/live", Live(subject).__call__, methods=["GET"]),
        Route("/static/{name}", static, methods=["GET"]),
    ]
    made = Starlette(
        routes=routes, exception_handlers={404: pages.missing, 405: pages.missing}, max_body_size=_MOST_BODY
    )
    return Gate(made, access)


# Serves the pages to a browser of this machine, until the process is interrupted.

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
