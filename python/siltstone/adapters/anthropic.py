"""Anthropic's SDK: a client middleware that keeps requests within the window; the loop stays as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from siltstone.adapters.base import (
    AnySession,
    RequestRefusedError,
    called,
    check_bounded,
    requires,
    sync_session,
)
from siltstone.session import Prepared

with requires("anthropic"):
    import anthropic

__all__ = ["SiltstoneMiddleware"]

_TOO_LARGE = (400, 413)  # how the API refuses a request for its size


class SiltstoneMiddleware(anthropic.Middleware):
    """Prepares every call of ``messages.create`` and ``messages.stream``, of ``beta.messages`` too.

    ::

        client = anthropic.Anthropic(middleware=[SiltstoneMiddleware(session)])

    Your list of messages stays as it is, and grows; the session has the same in its log, and what is sent is
    the session's view. A request that is refused as too large is sent again smaller, twice at most. Other
    calls (``count_tokens``, files, batches, compactions of the API) pass unchanged.

    A client has one middleware of a session for each conversation: derive one with
    ``client.with_options(middleware=[...])``.

    Args:
        session: The session of the conversation; a client that is not async needs a ``Session``.
    """

    def __init__(self, session: AnySession) -> None:
        check_bounded(session)
        self.session = session
        self._usage: Any = None  # what the API counted for the newest answer, until the session is told

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of ``memory_search`` and ``memory_get``.

        ``siltstone.tools.dispatch`` carries their calls out.
        """
        named = (each for each in self.session.tools if each.name in ("memory_search", "memory_get"))
        return [each.definition("anthropic") for each in named]

    def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
        """A call of the sync client: once for each attempt of the SDK."""
        if not _is_create(request):
            return call_next(request)
        session = sync_session(self.session)
        session.observe(request.json["messages"], usage=self._taken())
        prepared = session.prepare()
        while True:
            response = call_next(_with(request, prepared))
            if response.status_code not in _TOO_LARGE:
                if _is_whole(request, response):
                    self._usage = getattr(response.parse(), "usage", None)
                return response
            response.read()
            refusal = RequestRefusedError(response.text())
            try:
                prepared = session.recover(refusal)
            except RequestRefusedError:
                return response  # of which the SDK makes its own error

    async def handle_async(self, request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """A call of the async client."""
        if not _is_create(request):
            return await call_next(request)
        await called(self.session, self.session.observe, request.json["messages"], usage=self._taken())
        prepared = await called(self.session, self.session.prepare)
        while True:
            response = await call_next(_with(request, prepared))
            if response.status_code not in _TOO_LARGE:
                if _is_whole(request, response):
                    self._usage = getattr(await response.parse(), "usage", None)
                return response
            await response.read()
            refusal = RequestRefusedError(await response.text())
            try:
                prepared = await called(self.session, self.session.recover, refusal)
            except RequestRefusedError:
                return response

    def _taken(self) -> Any:
        usage, self._usage = self._usage, None
        return usage


def _is_create(request: Any) -> bool:
    """Whether *request* asks for a message; not where it counts tokens, or has the API compact."""
    body = request.json
    path = request.url.split("?")[0]
    return path.endswith("/v1/messages") and isinstance(body, dict) and "compaction" not in body


def _is_whole(request: Any, response: Any) -> bool:
    return not request.stream and response.http_response.is_success


def _with(request: Any, prepared: Prepared) -> Any:
    return request.copy(body={**request.json, "messages": prepared.messages})
