"""The pages behind their gate, as an application of the protocol ASGI."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from siltstone.inspector.access import UNLOCK, Access, Gate
from siltstone.inspector.live import Live
from siltstone.inspector.pages import Pages, static
from siltstone.inspector.subject import Subject

__all__ = ["inspector_app"]

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
        routes=routes,
        exception_handlers={404: pages.missing, 405: pages.missing},
        max_body_size=_MOST_BODY,
    )
    return Gate(made, access)
