"""A process forks with stores open and threads at work: nobody loses a message, and nobody hangs."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import siltstone
import siltstone.embedding
from forking import in_child
from siltstone import Session
from siltstone.errors import StoreClosedError, StoreForkedError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from storing import contents, elsewhere, entries

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

FORKS = int(os.environ.get("SILTSTONE_FORKS", "12"))


@contextmanager
def at_work(*works: Callable[[int], object]) -> Iterator[None]:
    """Does each of *works* over and over in a thread of its own."""
    stop, failed = threading.Event(), list[BaseException]()

    def run(work: Callable[[int], object]) -> None:
        number = 0
        while not stop.is_set():
            try:
                work(number)
            except BaseException as error:
                failed.append(error)
                return
            number += 1

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(300)
    assert not failed, failed


def count(path: Path, session_id: str) -> int:
    """The entries of the session, as a process finds them that was never forked."""
    code = (
        "import sys; from siltstone import MemoryStore\n"
        "print(MemoryStore.open(sys.argv[1], read_only=True).stats(sys.argv[2]).entries)"
    )
    return int(elsewhere(code, path, session_id))


def test_a_child_is_refused_by_name_and_opens_the_path_anew(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))

        def child() -> object:
            with pytest.raises(StoreForkedError, match="open it again"):
                store.search("a", "silt")
            store.close()
            with MemoryStore.open(tmp_path) as own:
                own.index("child", entries("river"))
                return contents(own.search("a", "silt"))

        assert in_child(child) == "['silt']"
        assert contents(store.search("child", "river")) == ["river"]
        assert store.check() == []
    assert issubclass(StoreForkedError, StoreClosedError)
    assert (count(tmp_path, "a"), count(tmp_path, "child")) == (1, 1)


def test_what_a_child_acknowledged_survives_that_its_parent_closes(tmp_path: Path) -> None:
    """The child's log was thrown away: SQLite took the parent's locks for its own."""
    store = MemoryStore.open(tmp_path)
    store.index("a", entries("silt"))
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        own = MemoryStore.open(tmp_path)
        own.index("child", entries("first"))
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        own.index("child", entries("second"))
        os._exit(0)  # as a process ends that closes nothing
    os.read(ready[0], 1)
    store.close()
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    assert (count(tmp_path, "a"), count(tmp_path, "child")) == (1, 2)


def test_what_a_child_acknowledged_survives_that_its_parent_ends(tmp_path: Path) -> None:
    """A process that makes itself a daemon: it has the store open, forks, and ends without closing it."""
    code = (
        "import os, sys; from siltstone import Session\n"
        "parent, (alive, end), (done, tell) = Session.open(sys.argv[1], 'parent'), os.pipe(), os.pipe()\n"
        "parent.append({'role': 'user', 'content': 'm'})\n"
        "if os.fork() == 0:\n"
        "    os.close(end)\n"
        "    own = Session.open(sys.argv[1], 'child')\n"
        "    own.append({'role': 'user', 'content': 'first'})\n"
        "    os.write(tell, b'x')\n"
        "    os.read(alive, 1)\n"  # until the parent has ended, and its end of the pipe with it
        "    own.append({'role': 'user', 'content': 'second'})\n"
        "    print(len(own.log()), flush=True)\n"
        "    os._exit(0)\n"
        "os.read(done, 1)\n"
    )
    # The child holds the output too, so it has written when this returns.
    assert elsewhere(code, tmp_path) == "2\n"
    for session_id, messages in (("parent", 1), ("child", 2)):
        with Session.open(tmp_path, session_id) as session:
            assert len(session.log()) == messages
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []


def test_forks_beside_five_busy_threads_lose_nothing_and_do_not_hang(tmp_path: Path) -> None:
    siltstone.embedding.embed("numpy is imported: a fork in an import leaves its lock to the child")
    store, other = MemoryStore.open(tmp_path / "a"), tmp_path / "b"
    store.index("big", [Entry(f"entry {n} valve pump {n * 7}", (n, n + 1)) for n in range(1_000)])
    written = Counter[str]()

    def append(number: int) -> None:
        store.index("parent", [Entry(f"x {number}", (number, number + 1))])
        written["parent"] += 1

    def open_and_close(_number: int) -> None:
        with MemoryStore.open(other) as beside:
            beside.index("a", [Entry("hello", (0, 1))])
            beside.search("a", "hello")

    def child() -> object:
        siltstone.embedding.embed("words in the child")
        with suppress(StoreForkedError):
            store.search("big", "pump")
        try:
            MemoryStore.open(tmp_path / "a").close()
            MemoryStore.open(other).close()
        except StoreForkedError:
            return "refused"  # a thread that worked got no time of the processor for a whole second
        with MemoryStore.open(tmp_path / "a") as own:
            assert own.search("big", "pump 7")
            own.index("child", [Entry(f"of process {os.getpid()}")])
        with MemoryStore.open(other) as own:
            own.search("a", "hello")
        return "well"

    busy: tuple[Callable[[int], object], ...] = (
        lambda n: store.search("big", f"pump {n}"),
        lambda n: store.search("big", f"valve {n}"),
        append,
        open_and_close,
        lambda _: siltstone.embedding.embed("some words to embed here " * 50),
    )
    with at_work(*busy):
        told = Counter[str]()
        while told["well"] < FORKS and told.total() < 10 * FORKS:
            told[in_child(child)] += 1
    assert told - Counter(refused=9 * FORKS) == {"well": FORKS}
    assert store.check() == []
    store.close()
    assert count(tmp_path / "a", "child") == FORKS
    assert count(tmp_path / "a", "parent") == written["parent"]


def test_a_fork_waits_a_second_for_work_and_then_says_so_in_the_child(tmp_path: Path) -> None:
    """A connection at work is not closed: the child would take the parent's locks for its own."""
    code = """
import os, subprocess, sys, threading, time
from siltstone.errors import StoreBusyError, StoreForkedError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
store = MemoryStore.open(sys.argv[1])
store.index("a", [Entry("silt")])
hold = '''
import sqlite3, sys
lock = sqlite3.connect(f"{sys.argv[1]}/memory/memory.sqlite3", isolation_level=None)
lock.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
'''
command = [sys.executable, "-c", hold, sys.argv[1]]
other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
def write():
    while True:
        try:
            return store.index("a", [Entry("late")])
        except StoreBusyError:
            continue
late = threading.Thread(target=write)
late.start()
ended = 1
while ended == 1:  # nobody tells whether the thread has come to the lock by now
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            MemoryStore.open(sys.argv[1])
        except StoreForkedError as error:
            os._exit(7)
        os._exit(1)
    took = time.monotonic() - begun
    # Who waited for the end of the work would never come here.
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
alive = late.is_alive()
other.communicate(b"")
late.join()
print(ended, took >= 0.9, alive, store.stats("a").entries)
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["7", "True", "True", "2"], done.stderr
