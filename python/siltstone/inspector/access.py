"""The gate before every page: it checks the token, the host and the origin of each request.

Only a browser on this machine that has the token gets a page. The token stands
in the fragment of the address, which a browser never sends. The page's script exchanges it for a cookie.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
TOKEN_BYTES = 32  #: of a token: 256 bits
UNLOCK = "/unlock"
_OPEN = "/static/"  #: style and script, which say nothing of a store
_MOST_BODY = 4_096  #: bytes of a body that is read before anybody is known
_HTTP_PORT = 80

#: A page loads files of this server alone. Other sites cannot frame it, and its texts cannot run as scripts.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def _secret() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets that open the pages of one server.

    Attributes:
        port: The port of the server.
        token: The secret in the address: 256 random bits.
        cookie: The secret that a browser gets for the token: other 256 bits.
        form: The secret in each form that changes something, beside the cookie.
    """

    port: int
    token: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)
    form: str = field(default_factory=_secret)

    def address(self, page: str = "/") -> str:
        """The address of *page* with the token."""
        return f"http://{HOST}:{self.port}{page}#token={self.token}"

    @property
    def hosts(self) -> frozenset[str]:
        """The names that a browser may know it by. A page of another name is another site's."""
        names = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        return frozenset(names | {HOST, "localhost"} if self.port == _HTTP_PORT else names)

    @property
    def cookie_name(self) -> str:
        """Cookies know no ports, so two inspectors need two names."""
        return f"siltstone-{self.port}"

    def knows(self, cookies: str) -> bool:
        """Whether a header of cookies has ours."""
        try:
            held = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return held is not None and same(held.value, self.cookie)


def same(given: str, known: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


class Gate:
    """Stands before *app*, and passes on only requests with the right host, cookie and origin."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = await self._answer(scope, receive)
        if isinstance(answer, Response):
            await answer(scope, receive, send_with_headers)
        else:
            await self._app(answer, receive, send_with_headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | Scope:
        """A refusal, or the answer of the pages."""
        headers, access = Headers(scope=scope), self._access
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in access.hosts:
            return _refused(421, "This address is not one of the inspector's. Open the one that it printed.")
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD", "POST"):
            return _refused(405, "The inspector answers GET, HEAD and POST.")
        if method == "POST" and headers.getlist("origin") != [f"http://{hosts[0].lower()}"]:
            return _refused(403, "This request came from a page of another site. Nothing was done.")
        if path.startswith(_OPEN):
            return scope
        if path == UNLOCK:
            return await self._unlocked(headers, receive) if method == "POST" else scope
        if access.knows("; ".join(headers.getlist("cookie"))):
            return scope
        if method == "POST":
            return _refused(401, "This browser has no access. Open the address that the inspector printed.")
        return {**scope, "path": UNLOCK, "raw_path": UNLOCK.encode(), "query_string": b""}

    async def _unlocked(self, headers: Headers, receive: Receive) -> Response:
        """Gives the cookie to a browser that has the token."""
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _refused(415, "The token is sent as JSON.")
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return _refused(400, "The request ended early.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > _MOST_BODY:
                return _refused(413, "The token is longer than any of the inspector's.")
        try:
            token = json.loads(body)["token"]
        except (ValueError, KeyError, TypeError, RecursionError):
            token = None
        if not isinstance(token, str) or not same(token, self._access.token):
            return _refused(403, "This token is not the inspector's. Open the address that it printed last.")
        answer = Response(status_code=204)
        answer.set_cookie(
            self._access.cookie_name, self._access.cookie, path="/", httponly=True, samesite="strict"
        )
        return answer


def _refused(status: int, sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status)
