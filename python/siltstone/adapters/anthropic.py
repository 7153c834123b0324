"""Anthropic's SDK: a client middleware that keeps requests within the window; your loop does not change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any

from siltstone.adapters.base import (
    AnySession,
    RawDoor,
    RequestRefusedError,
    at_once,
    done,
    memory_tools,
    requires,
)

with requires("anthropic"):
    import anthropic


_TOO_LARGE = (400, 413)  # the status codes of requests that are too large


class SiltstoneMiddleware(anthropic.Middleware):
    """Prepares every call of ``messages.create`` and ``messages.stream``, of ``beta.messages`` too.

    ::

        client = anthropic.Anthropic(middleware=[SiltstoneMiddleware(session)])

    Your list of messages stays as it is, and grows; the session has the same in its log, and what is sent is
    the session's view. A list that begins again after a restart goes on with the session. If you send only
    what is new each time, open the session with ``unrelated="always"``: answers are logged here then, except
    streams, which you append.

    A request that is refused as too large is sent again smaller, twice at most. Other calls
    (``count_tokens``, files, batches, compactions of the API) pass unchanged. The clients of Bedrock, Vertex
    AI and Foundry are served alike: a middleware sees a request before they write it for their host.

    Each conversation needs a client with its own middleware: derive it with
    ``client.with_options(middleware=[...])``.

    Args:
        session: The session of the conversation; a sync client needs a ``Session``.
    """

    def __init__(self, session: AnySession) -> None:
        self.session, self._door = session, RawDoor(session)
        self._last: list[Any] = []  # the messages of the call before

    def _known(self, messages: list[Any]) -> list[Any]:
        """*messages*, which the SDK has copied for this call: the first ones as in the call before."""
        known = self._last if messages[: len(self._last)] == self._last else []
        self._last = [*known, *messages[len(known) :]]
        return self._last

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of ``memory_search`` and ``memory_get``.

        ``siltstone.tools.dispatch`` runs their calls.
        """
        return [each.definition("anthropic") for each in memory_tools(self.session)]

    def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
        """Handles a call of the sync client, once for each attempt of the SDK."""
        return at_once(self._handled(request, call_next, waits=False))

    async def handle_async(self, request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Handles a call of the async client, once for each attempt of the SDK."""
        return await self._handled(request, call_next, waits=True)

    async def _handled(self, request: Any, call_next: Callable[[Any], Any], *, waits: bool) -> Any:
        if not _is_create(request):
            return await done(call_next(request))
        self._door.model = request.json.get("model")
        messages = await done(self._door.prepare(self._known(request.json["messages"]), waits=waits))
        while True:
            response = await done(call_next(_with(request, messages)))
            if response.status_code not in _TOO_LARGE:
                if _is_whole(request, response):
                    answer = await done(response.parse())
                    await self._door.heard(getattr(answer, "usage", None), _said(answer), waits=waits)
                return response
            await done(response.read())
            refusal = RequestRefusedError(f"{response.status_code} {await done(response.text())}")
            try:
                messages = await done(self._door.recover(refusal, waits=waits))
            except RequestRefusedError:
                return response  # the SDK makes its own error from it


def _is_create(request: Any) -> bool:
    """Whether *request* asks for a message. Requests for a token count or a compaction of the API do not."""
    body = request.json
    path = request.url.split("?")[0]
    return path.endswith("/v1/messages") and isinstance(body, dict) and "compaction" not in body


def _said(answer: Any) -> list[Any]:
    """The message of an answer, as the host would put it into its list."""
    content = getattr(answer, "content", None)
    return [{"role": "assistant", "content": content}] if content else []


def _is_whole(request: Any, response: Any) -> bool:
    return not request.stream and response.http_response.is_success


def _with(request: Any, messages: list[Any]) -> Any:
    """*request* with *messages*; its own ``copy`` would make a deep copy of those that they replace."""
    made = copy(request)
    made.options = copy(request.options)
    made.options.json_data = {**request.json, "messages": messages}
    return made
