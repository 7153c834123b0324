"""A proxy before a server of PostgreSQL. It counts round trips, and can cut the connection inside one.

It reads the frames of the protocol (version 3, without TLS), so it knows the end of each request and of each
answer. One round trip is a request that the server answers with ReadyForQuery.
"""

import contextlib
import enum
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

_ENCRYPT = (80877103, 80877104)  #: requests for TLS and for GSS come before the start-up
_ENDS_REQUEST = (b"Q", b"S")  #: Query, and Sync after the messages of the extended protocol


class Moment(enum.Enum):
    """When the wire is cut."""

    BEFORE = "before"  #: the server never gets the request
    DURING = "during"  #: the server has the request, and the client is gone at once
    AFTER = "after"  #: the server has answered, and the client does not get the answer


class Proxy:
    """A port of its own that leads to the one of a server. ``exchanges`` counts the round trips."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.exchanges = 0
        self.cuts = 0
        self._lock = threading.Lock()
        self._plan: tuple[Moment, Callable[[bytes], bool]] | None = None
        self._ends: set[socket.socket] = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._accepting.start()

    def address(self, *, database: str = "postgres", user: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database}"

    def cut_next(self, moment: Moment, where: Callable[[bytes], bool] = lambda _: True) -> None:
        """Cuts the next exchange whose request, with the values in it, is one of *where*; only that one.

        The text of a statement that was prepared before stands behind the request.
        """
        with self._lock:
            self._plan = moment, where

    def disarm(self) -> None:
        """Cuts nothing that was ordered and has not come."""
        with self._lock:
            self._plan = None

    def hang_up(self) -> None:
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            _reset(end)

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a client
        # Only then is the number of its file free: another server's clients would be taken in else.
        self._accepting.join()
        self._listener.close()
        self.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=300)
            except OSError:  # no server there: the client sees its connection end
                _reset(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._ends |= {client, server}
            wire = _Wire(self, client, server)
            for run in (wire.up, wire.down):
                threading.Thread(target=run, name="proxy", daemon=True).start()

    def planned(self, request: bytes) -> Moment | None:
        """What becomes of the exchange that this request begins, which is counted."""
        with self._lock:
            self.exchanges += 1
            if self._plan is None or not self._plan[1](request):
                return None
            moment, self._plan = self._plan[0], None
            self.cuts += 1
            return moment

    def forget(self, *ends: socket.socket) -> None:
        with self._lock:
            self._ends -= set(ends)


class _Wire:
    """One connection: what goes up to the server, and what comes down."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._withheld = threading.Event()  # the answer is not for the client
        self._prepared: dict[bytes, bytes] = {}  # the texts of statements, by their names

    def up(self) -> None:
        with contextlib.suppress(OSError, EOFError), self._client.makefile("rb") as stream:
            while True:  # the start-up has no types
                frame = _exactly(stream, 4)
                (length,) = struct.unpack("!I", frame)
                frame += _exactly(stream, length - 4)
                if struct.unpack("!I", frame[4:8])[0] not in _ENCRYPT:
                    self._server.sendall(frame)
                    break
                self._client.sendall(b"N")  # no encryption here
            request, texts = bytearray(), b""
            while True:
                kind = _exactly(stream, 1)
                head = _exactly(stream, 4)
                body = _exactly(stream, struct.unpack("!I", head)[0] - 4)
                request += kind + head + body
                texts += self._text_of(kind, body)
                if kind not in _ENDS_REQUEST:
                    if kind in (b"p", b"X", b"H"):  # a password, the end, Flush: no exchange of its own
                        self._server.sendall(request)
                        request.clear()
                    continue
                moment = self._proxy.planned(bytes(request) + texts)
                if moment is Moment.BEFORE:
                    break
                if moment is not None:
                    self._withheld.set()  # before the server can answer
                self._server.sendall(request)
                if moment is Moment.DURING:
                    self._server.shutdown(socket.SHUT_WR)  # what was sent arrives; its answer finds nobody
                    self._client.shutdown(socket.SHUT_RDWR)
                    return
                request.clear()
                texts = b""
        self._over()

    def _text_of(self, kind: bytes, body: bytes) -> bytes:
        """The text of the statement that a Bind names; a Parse gives one its name."""
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = text
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            return self._prepared.get(name, b"")
        return b""

    def down(self) -> None:
        with contextlib.suppress(OSError, EOFError), self._server.makefile("rb") as stream:
            while True:
                kind = _exactly(stream, 1)
                head = _exactly(stream, 4)
                frame = kind + head + _exactly(stream, struct.unpack("!I", head)[0] - 4)
                if not self._withheld.is_set():
                    self._client.sendall(frame)
                elif kind == b"Z":
                    break
        self._over()

    def _over(self) -> None:
        for end in (self._client, self._server):
            _reset(end)
        self._proxy.forget(self._client, self._server)


def _exactly(stream: object, size: int) -> bytes:
    got: bytes = stream.read(size)  # type: ignore[attr-defined]
    if len(got) < size:
        raise EOFError
    return got


def _reset(end: socket.socket) -> None:
    """Ends a connection, and wakes up whoever reads of it."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
