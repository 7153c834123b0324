"""What sessions take in memory has a bound: those used longest ago go, and come back when asked for."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from conversations import user
from postgres_stores import PostgresPool
from siltstone import Entry, MemoryStore, Session
from siltstone.embedding import FunctionEmbedder
from siltstone.postgres import PostgresStore, mirror as mirrors, store as postgres_store
from siltstone.postgres.mirror import EMPTY
from storing import contents

KEYS = 40
ROOM = 8


@pytest.fixture
def store(pool: PostgresPool) -> Iterator[PostgresStore]:
    with PostgresStore.open(pool.pool, mirrored=ROOM * EMPTY) as store:
        yield store


def test_a_process_that_uses_many_keys_holds_those_used_last(store: PostgresStore) -> None:
    for number in range(KEYS):
        store.index(f"s{number}", [Entry(f"silt {number}", (0, 1))])
        assert store._mirrors.size < (ROOM + 2) * EMPTY
    assert len(store._mirrors) <= ROOM + 1
    for number in range(KEYS):  # also those that nothing was ever written of
        assert store.entries(f"nobody {number}").entries == ()
    assert len(store._mirrors) <= ROOM + 1
    for number in range(KEYS):
        assert contents(store.search(f"s{number}", "silt")) == [f"silt {number}"]
    assert store.check() == []


def test_who_has_many_sessions_open_keeps_no_rows_of_them(store: PostgresStore) -> None:
    sessions = [Session.open(None, f"s{number}", memory=store) for number in range(KEYS)]
    held: list[weakref.ref[object]] = []
    for session in sessions:
        session.append(user("silt"))
        (mirror,) = (each for each in store._mirrors.all() if each.name == session.session_id)
        held.append(mirror.read(weakref.ref))
        del mirror
    gc.collect()
    assert sum(each() is not None for each in held) <= ROOM + 1
    for session in sessions:  # and each goes on
        session.append(user("mud"))
        assert session.prepare().messages == [user("silt"), user("mud")]
        session.close()


def test_the_size_of_a_mirror_follows_what_it_has(store: PostgresStore) -> None:
    for start in range(0, 400, 20):
        store.index("a", [Entry(f"silt {n} " * 20, (n, n + 1)) for n in range(start, start + 20)])
    (mirror,) = store._mirrors.all()
    full = mirror.size - EMPTY
    mirror.begin_anew()
    store.entries("a")
    assert 0.8 < (mirror.size - EMPTY) / full < 1.25, "what was written weighs as what was read"
    store.expire("a", keep=40)
    assert mirror.size - EMPTY < full / 4
    log = store.open_log("b")
    log.open("")
    (small,) = (each for each in store._mirrors.all() if each.name == "b")
    log.save_clock("{}", expected=log.state().version, write_id=1)
    before = small.size
    for number in range(50):
        log.save_clock(f'{{"at": {number}}}', expected=log.state().version, write_id=2 + number)
    assert small.size == before, "a row that is written over takes no more room"


def test_a_mirror_at_work_stays(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool, mirrored=0) as store:
        store.index("busy", [Entry("silt", (0, 1))])
        (mirror,) = store._mirrors.all()
        begun, go_on = threading.Event(), threading.Event()

        def work() -> None:
            mirror.run(lambda _: (begun.set(), go_on.wait(300)))

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(300)
        store.index("other", [Entry("mud", (0, 1))])
        store.entries("third")
        assert mirror in store._mirrors.all()
        go_on.set()
        thread.join()
        store.entries("fourth")
        assert mirror not in store._mirrors.all()
        assert contents(store.search("busy", "silt")) == ["silt"]


def test_threads_use_more_keys_than_there_is_room_for(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool, mirrored=2 * EMPTY) as store:

        def work(number: int) -> None:
            for turn in range(30):
                name = f"s{(number + turn) % 6}"
                store.index(name, [Entry(f"silt {number} {turn}")])
                assert store.search(name, "silt")

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        assert sum(len(store.entries(f"s{n}", limit=100).entries) for n in range(6)) == 120
        assert store.check() == []


def test_the_places_of_sessions_are_remembered_up_to_a_bound(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "ROUTES", 5)
    for number in range(12):
        store.index(f"s{number}", [Entry("silt", (0, 1))])
        store.search(f"s{number}", "silt")
    assert len(store._sessions) == 5
    assert contents(store.search("s0", "silt")) == ["silt"]


def test_flushing_waits_for_all_sessions_together_no_longer_than_was_said(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waited = [100.0], []

    def waits(store: MemoryStore, timeout: float | None = None) -> bool:
        waited.append(timeout)
        clock[0] += min(3.0, timeout or 0.0)  # the first two take 3 seconds each
        return len(waited) == 1

    embedder = FunctionEmbedder(lambda texts: [[1.0, 0.0] for _ in texts], "test/plain", 2)
    with PostgresStore.open(pool.pool, embedder=embedder) as store:
        for session in "abcd":
            store.index(session, [Entry(f"silt of {session}")])
        assert store.flush(60)
        with monkeypatch.context() as patched:
            patched.setattr(postgres_store, "time", SimpleNamespace(monotonic=lambda: clock[0]))
            patched.setattr(MemoryStore, "flush", waits)
            assert not store.flush(5.0)
        assert waited == [5.0, 2.0, 0.0, 0.0]
        assert store.lacking_vectors == 0
