"""One exchange with the server, and threads in which an interrupt of a caller does not reach it."""

from __future__ import annotations

import re
import select
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from siltstone.errors import StoreClosedError, requires
from siltstone.postgres.schema import Row

# One exchange with the server: a statement with its values goes, and its rows come.
#
# A cursor of psycopg would do the same. This one waits until a moment and no longer, gives every value the
# type that the statement names, and prepares a statement under a name that its text alone gives. So
# whatever stands between here and the server, a name never means another statement.

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg import errors, pq
    from psycopg.adapt import Transformer

Connection: TypeAlias = psycopg.Connection[Any]

_Sent: TypeAlias = Callable[[Any], bytes]  # makes the bytes to send of a value


PREPARED: Final = 128  #: statements that are prepared on a connection; later ones are not

_BINARY: Final = 1
_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED, pq.ExecStatus.BAD_RESPONSE)
#: The server knows no such name, knows it already, or its plan is of tables that were changed since.
_UNPREPARED: Final = ("26000", "42P05", "0A000")
_PLACE: Final = re.compile(r"%\((\w+)\)s::(\w+)(\[\])?")


class LateError(Exception):
    """The answer did not come in time; the text tells why. The connection is of no more use."""


class UnpreparedError(Exception):
    """A prepared statement is not there as it was left. Nothing was done."""


class Wait(NamedTuple):
    """How long an exchange waits.

    Attributes:
        until: When to give up, by ``time.monotonic``.
        look: Called each time that nothing came for *patience* seconds; raises LateError to give up.
        patience: These seconds.
    """

    until: float
    look: Callable[[], object] = time.monotonic
    patience: float = 60.0


ENDLESS: Final = Wait(float("inf"))


class _Statement(NamedTuple):
    sql: bytes
    name: bytes
    types: tuple[int, ...]
    formats: tuple[int, ...]
    values: tuple[tuple[str, _Sent], ...]  # each by its name, and how it is sent


def ask(
    connection: Connection,
    sql: str,
    values: Mapping[str, Any],
    *,
    prepared: set[bytes] | None = None,
    wait: Wait = ENDLESS,
) -> list[Row]:
    """The rows that a statement gives. The arguments and errors are those of :func:`answered`."""
    answer = answered(connection, sql, values, prepared=prepared, wait=wait)
    loaded = Transformer(connection)
    loaded.set_pgresult(answer)
    return loaded.load_rows(0, answer.ntuples, tuple)


def answered(
    connection: Connection,
    sql: str,
    values: Mapping[str, Any],
    *,
    prepared: set[bytes] | None = None,
    wait: Wait = ENDLESS,
) -> pq.abc.PGresult:
    """The answer of the server to a statement.

    Args:
        connection: In autocommit, or in a transaction.
        sql: Each value stands in it as ``%(name)s::type``.
        values: By their names; None is NULL.
        prepared: The names of what is prepared on this connection; grows by this statement. None prepares
            nothing.
        wait: How long to wait.

    Raises:
        psycopg.Error: as a cursor would.
        LateError: no answer until then. The outcome of the statement is not known.
        UnpreparedError: nothing was done; without *prepared* it can be.
    """
    line, statement = connection.pgconn, _statement(sql)
    bound = [None if (value := values[name]) is None else sent(value) for name, sent in statement.values]
    formats = statement.formats
    if prepared is not None and statement.name not in prepared and len(prepared) >= PREPARED:
        prepared = None
    if prepared is None:
        line.send_query_params(statement.sql, bound, statement.types, formats, _BINARY)
        results = _results(line, wait)
    elif statement.name in prepared:
        line.send_query_prepared(statement.name, bound, formats, _BINARY)
        results = _results(line, wait)
    else:
        # Prepared and run in one round trip.
        line.enter_pipeline_mode()
        line.send_prepare(statement.name, statement.sql, statement.types)
        line.send_query_prepared(statement.name, bound, formats, _BINARY)
        line.pipeline_sync()
        results = _results(line, wait, is_pipeline=True)
        line.exit_pipeline_mode()
    if prepared is not None and results and results[0].status not in _FAILED:
        prepared.add(statement.name)  # also where it failed as it was run
    for result in results:
        if result.status in _FAILED:
            error = errors.error_from_result(result)
            if prepared is not None and error.sqlstate in _UNPREPARED:
                raise UnpreparedError from error
            raise error
    if not results:
        raise errors.OperationalError("the server gave no answer")
    return results[-1]


def _results(line: pq.abc.PGconn, wait: Wait, *, is_pipeline: bool = False) -> list[pq.abc.PGresult]:
    """The answers to what was sent."""
    while line.flush():  # not all of it has gone
        is_to_read, _ = _wait(line.socket, wait, writes=True)
        if is_to_read:
            line.consume_input()  # else the server and we might wait for each other
    results: list[pq.abc.PGresult] = []
    while True:
        while line.is_busy():
            _wait(line.socket, wait)
            line.consume_input()
        result = line.get_result()
        if result is None:
            if is_pipeline and line.status == pq.ConnStatus.OK:
                continue  # the end of one of its statements
            return results
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _wait(socket: int, wait: Wait, *, writes: bool = False) -> tuple[bool, bool]:
    """Waits until the socket can be read, or also written; which of them it can."""
    while (left := wait.until - time.monotonic()) > 0:
        ready = _ready(socket, min(left, wait.patience), writes=writes)
        if any(ready):
            return ready
        wait.look()
    raise LateError("no answer came in time")


def is_readable(socket: int) -> bool:
    """Whether there is something to be read now, or the other side has hung up."""
    return _ready(socket, 0)[0]


if hasattr(select, "poll"):
    _READ = select.POLLIN | select.POLLPRI
    _ENDED = select.POLLERR | select.POLLHUP | select.POLLNVAL

    def _ready(socket: int, seconds: float | None, *, writes: bool = False) -> tuple[bool, bool]:
        # select() knows no file beyond number 1,023.
        asked = select.poll()
        asked.register(socket, _READ | (select.POLLOUT if writes else 0))
        found = asked.poll(None if seconds is None else max(0.0, seconds) * 1_000)
        said = found[0][1] if found else 0
        return bool(said & (_READ | _ENDED)), bool(said & (select.POLLOUT | _ENDED))

else:

    def _ready(socket: int, seconds: float | None, *, writes: bool = False) -> tuple[bool, bool]:
        read, written, _ = select.select([socket], [socket] if writes else [], [], seconds)
        return bool(read), bool(written)


# -- values


class _Kind(NamedTuple):
    oid: int  # that PostgreSQL has for the type, and for an array of it
    of_array: int
    sent: _Sent


def _encoded(given: Any) -> Any:
    return given.encode() if isinstance(given, str) else given  # a text is bytes in a damaged row


_KINDS: Final = {
    "text": _Kind(25, 1009, _encoded),
    "bytea": _Kind(17, 1001, _encoded),
    "bigint": _Kind(20, 1016, struct.Struct("!q").pack),
    "boolean": _Kind(16, 1000, struct.Struct("!?").pack),
    "uuid": _Kind(2950, 2951, lambda text: bytes.fromhex(text.replace("-", ""))),
}


def _array(kind: _Kind) -> _Sent:
    """How an array is sent: the dimensions, whether it has NULLs, the type, the length, the first index."""

    def sent(cells: Sequence[Any]) -> bytes:
        if not cells:
            return struct.pack("!iiI", 0, 0, kind.oid)
        parts = [struct.pack("!iiIii", 1, int(None in cells), kind.oid, len(cells), 1)]
        for cell in cells:
            if cell is None:
                parts.append(b"\xff\xff\xff\xff")
            else:
                value = kind.sent(cell)
                parts += (len(value).to_bytes(4, "big"), value)
        return b"".join(parts)

    return sent


@lru_cache(maxsize=1_024)
def _statement(sql: str) -> _Statement:
    """A statement as the server has it: values are numbers in it, and each has its type."""
    places: dict[str, tuple[int, _Sent]] = {}

    def numbered(found: re.Match[str]) -> str:
        name, kind = found[1], _KINDS[found[2]]
        places.setdefault(name, (kind.of_array, _array(kind)) if found[3] else (kind.oid, kind.sent))
        return f"${list(places).index(name) + 1}"

    text = _PLACE.sub(numbered, sql).encode()
    types = tuple(oid for oid, _ in places.values())
    name = blake2b(repr((text, types)).encode(), digest_size=16).hexdigest()
    values = tuple((name, sent) for name, (_, sent) in places.items())
    return _Statement(text, f"siltstone_{name}".encode(), types, (_BINARY,) * len(types), values)


# Threads that run calls apart from their callers: an interrupt of a caller does not reach its call.

T = TypeVar("T")

GRACE: Final = 1.0  #: seconds that a call has to end by itself after its time is over
CLOSED: Final = "the store was closed before the call began"


def is_main() -> bool:
    """Whether this is the main thread, which alone gets interrupts."""
    return threading.get_ident() == threading.main_thread().ident


class NotInTimeError(Exception):
    """A call did not end in time.

    Attributes:
        thread: The thread that still runs it; None if the call was not begun, and never will be.
    """

    def __init__(self, thread: int | None) -> None:
        super().__init__(thread)
        self.thread = thread


class Apart:
    """Threads for the calls of a store. The main thread has one of its own; other callers share idle ones.

    An interrupt of the main thread leaves its call behind, and does not end it. The next call of the main
    thread waits for that one, because the same thread runs both: so a write is found whole or not at all.
    """

    # A pool of `concurrent.futures` would do the same, and takes 30 us more of each call.

    def __init__(self) -> None:
        self._of_main: _Worker | None = None
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._is_closed = False

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """Calls *work* in a thread, and returns its answer or raises its error.

        Raises:
            NotInTimeError: *work* did not end within *seconds* and a second of grace.
            StoreClosedError: the threads were ended before *work* was begun.
        """
        if self._is_closed:
            raise StoreClosedError(CLOSED)
        call = _Call(work)
        if is_main():
            if self._of_main is None:
                self._of_main = self._new(None)
            worker = self._of_main
        else:
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = self._new(self._idle)
        worker.calls.put(call)
        if not call.done.acquire(timeout=max(0.0, seconds) + GRACE):
            raise NotInTimeError(None if call.taken.acquire(blocking=False) else worker.thread.ident)
        if call.error is None:
            return call.answer  # type: ignore[no-any-return]
        try:
            raise call.error
        finally:
            del call  # it holds the error, which holds this frame

    def close(self, seconds: float, hang_up: Callable[[], object]) -> None:
        """Ends the threads. Waits up to *seconds* for calls that were left behind, and then hangs up."""
        self._is_closed = True
        workers = list(self._workers)
        for worker in workers:
            worker.calls.put(None)
        others = [worker.thread for worker in workers if worker.thread is not threading.current_thread()]
        until = time.monotonic() + seconds
        for thread in others:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in others):
            hang_up()
            for thread in others:
                thread.join()

    def _new(self, idle: list[_Worker] | None) -> _Worker:
        worker = _Worker(idle)
        self._workers.append(worker)
        worker.thread.start()
        return worker


class _Call:
    __slots__ = ("answer", "done", "error", "taken", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.taken = threading.Lock()  # by the thread that begins it, or by its caller, who gives it up
        self.done = threading.Lock()
        self.done.acquire()
        self.answer: Any = None
        self.error: BaseException | None = None


class _Worker:
    """A thread with its queue of calls. It is put among the idle after each call, if it is shared."""

    def __init__(self, idle: list[_Worker] | None) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="siltstone-postgres", daemon=True)
        self._idle = idle

    def _serve(self) -> None:
        while (call := self.calls.get()) is not None:
            if call.taken.acquire(blocking=False):
                try:
                    call.answer = call.work()
                except BaseException as error:
                    call.error = error
                if self._idle is not None:
                    self._idle.append(self)
                call.done.release()
            del call  # an idle thread holds nothing
        while True:
            try:
                call = self.calls.get_nowait()
            except Empty:
                return
            if call is not None and call.taken.acquire(blocking=False):
                call.error = StoreClosedError(CLOSED)
                call.done.release()
