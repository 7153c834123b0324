"""A provider on 127.0.0.1. It answers the real SDKs, and refuses what the provider itself refuses.

Each API has a file: chat, responses and messages. Their rules are written from the documents and errors of
the providers. They share no code with the package, so they can check the package's own validators.
"""

from __future__ import annotations

import contextlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from servers.sizes import Prefixes, Refusal, prompt_of, refuse

Event = tuple[str, dict[str, Any]]  # its name, and its data
CUT = 24  #: characters of a piece of a stream


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of the model.

    Attributes:
        id: Names it; ids of calls and items are made of it.
        text: The text of the answer.
        thinking: The thought before it.
        calls: The tools that it calls, with their arguments; a text is sent as it is.
        usage: The tokens of the request and of the answer, where they are not those that are counted.
        is_cut: Whether the answer has reached its limit.
    """

    id: str
    text: str = "ok"
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    usage: tuple[int, int] | None = None
    is_cut: bool = False

    def call_id(self, at: int) -> str:
        """The id of its call number *at*."""
        return f"call_{self.id}_{at}"


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of a request and its answer; of the request, those *read* of a cache and *written* to it."""

    request: int
    answer: int = 1
    read: int = 0
    written: int = 0


class Api(ABC):
    """One API: what it refuses, and the forms of its answers."""

    limits = ("max_completion_tokens", "max_tokens", "max_output_tokens")  #: what limits an answer
    ends = ()  #: what stands at the end of a stream
    counts_answers = False  #: whether an answer has to fit beside the request

    @abstractmethod
    def words(self, alone: bool) -> str:
        """The form of the refusal of a request that is too large, *alone* or with its answer."""

    @abstractmethod
    def judge(self, body: dict[str, Any]) -> None:
        """Raises a :class:`Refusal` where a request breaks a rule, whatever its size."""

    @abstractmethod
    def answer(self, said: Said, counted: Counted) -> dict[str, Any]:
        """The body of an answer."""

    @abstractmethod
    def events(self, said: Said, counted: Counted) -> Iterator[Event]:
        """The same as server-sent events."""

    def error(self, refusal: Refusal) -> dict[str, Any]:
        told = {"message": refusal.message, "type": refusal.kind, "code": refusal.code, "param": None}
        return {"error": {**told, **refusal.more}}

    def cached(self, cache: Prefixes, tokens: list[str], marks: list[int]) -> tuple[int, int]:
        """How many tokens of a request are read of the cache, and how many written to it."""
        whole = cache.exact(tokens)
        return (whole // 128 * 128 if whole >= 1_024 else 0), 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits for an acknowledgement of the head, some 40 ms
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        api = self.server.apis[self.path.partition("?")[0]]
        try:
            said, counted = self.server.said(api, body)
        except Refusal as refusal:
            self.server.refused.append(refusal)
            self._send(refusal.status, api.error(refusal))
            return
        if body.get("stream"):
            self._stream(api.events(said, counted), api.ends)
        else:
            self._send(200, api.answer(said, counted))

    def _send(self, status: int, said: dict[str, Any]) -> None:
        payload = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, events: Iterator[Event], ends: tuple[str, ...] = ()) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            self._chunk(f"{head}data: {json.dumps(data)}\n\n")
        for end in ends:
            self._chunk(f"data: {end}\n\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        payload = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(payload), payload))

    def log_message(self, *args: object) -> None:
        """Says nothing."""


class Provider(ThreadingHTTPServer):
    """The server.

    Attributes:
        apis: Its APIs, by their paths.
        limit: Tokens that a request may have.
        requests: How many it has judged.
        refused: Its refusals instead of answers, in order.
        model: Answers a request that was judged; it may raise a :class:`Refusal`.
    """

    daemon_threads = True

    def __init__(self, apis: dict[str, Api]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.apis = apis
        self.limit = 10**9
        self.requests = 0
        self.refused: list[Refusal] = []
        self.model: Callable[[dict[str, Any]], Said] = lambda body: Said("m")
        self.cache = Prefixes()

    def said(self, api: Api, body: dict[str, Any]) -> tuple[Said, Counted]:
        """The answer to *body*.

        Raises:
            Refusal: it breaks a rule of the provider, or is too large.
        """
        self.requests += 1
        api.judge(body)
        tokens, marks = prompt_of(body)
        answer = next((body[key] for key in api.limits if body.get(key)), 0)
        if len(tokens) + answer * api.counts_answers > self.limit:
            size = {"size": len(tokens), "limit": self.limit, "answer": answer, "total": len(tokens) + answer}
            refuse(f"size: {api.words(len(tokens) > self.limit)}", **size)
        read, written = api.cached(self.cache, tokens, marks)
        said = self.model(body)
        if said.usage is not None:
            return said, Counted(*said.usage)
        return said, Counted(len(tokens), 1 + len(said.text) // 4, read, written)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""
        with contextlib.suppress(ConnectionError):
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def provider() -> Iterator[Provider]:
    """A server of the three APIs that listens until the end of the block."""
    from servers import chat, messages, responses  # each of them needs this file

    apis: dict[str, Api] = {"/v1/chat/completions": chat.Chat(), "/v1/responses": responses.Responses()}
    with Provider({**apis, "/v1/messages": messages.Messages()}) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
