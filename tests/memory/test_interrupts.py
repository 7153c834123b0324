"""An interrupt at any line of a write: nothing is half done, and a repeated call ends it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import PROFILE
from embedders import Counting
from interrupting import interrupted_at, lines_of
from postgres_stores import over_postgres
from siltstone.memory import Entry, Store
from siltstone.stores import MemoryStore, SimpleMemoryStore
from storing import contents, entries

STORES: dict[str, Callable[[Path], Store]] = {
    "file": MemoryStore.open,
    "memory": lambda path: SimpleMemoryStore(),
}
#: Over PostgreSQL each line needs a store and a mirror of its own: some of them, others for each call.
STRIDE = 5 if PROFILE == "slow" else 25
BATCH = entries("silt settles", "mud flows", "sand drifts")


def index(store: Store) -> object:
    return store.index("s", BATCH)


def expire(store: Store) -> object:
    store.index("s", BATCH)
    return store.expire("s", keep=1)


def forget(store: Store) -> object:
    return store.forget(text="silt")


def delete(store: Store) -> object:
    return store.delete_session("s")


def what_is_there(store: Store) -> tuple[Any, ...]:
    """Texts and findings."""
    found = tuple(sorted(each.content for each in store.entries("s").entries))
    return found, tuple(store.check())


CALLS = [index, expire, forget, delete]


@pytest.mark.parametrize("kind", [*STORES, "postgres"])
@pytest.mark.parametrize("call", CALLS)
def test_a_write_that_was_interrupted_anywhere_can_be_repeated(
    tmp_path: Path, kind: str, call: Callable[[Store], object], request: pytest.FixtureRequest
) -> None:
    """After the repeated call the store is as if nobody had interrupted; nothing is there twice."""

    def opened(name: str) -> Store:
        (tmp_path / name).mkdir()
        store = STORES.get(kind, lambda _: over_postgres(request))(tmp_path / name)
        store.index("s", entries("silt settles", "other"))
        return store

    with opened("first") as store:
        call(store)  # value classes and files are finished when they are first used
    with opened("whole") as store:
        before = what_is_there(store)
        lines = lines_of(lambda: call(store))
        after = what_is_there(store)
    assert lines > 0
    step = STRIDE if kind == "postgres" else 1 if PROFILE == "slow" else 3
    for line in range(1 + 7 * CALLS.index(call) % step, lines + 1, step):
        with opened(str(line)) as store:
            assert interrupted_at(line, lambda: call(store))
            between = what_is_there(store)
            assert set(between[0]) <= set(before[0]) | set(after[0]) | {each.content for each in BATCH}
            assert not between[1]
            call(store)
            assert what_is_there(store) == after
            assert contents(store.search("s", "other")).count("other") == ("other" in after[0])


def test_an_embedder_goes_on_whatever_line_its_store_was_interrupted_at(tmp_path: Path) -> None:
    """Threads are started under a lock: an interrupt there left none that ran, and a flush that hung."""
    before = set(threading.enumerate())  # other tests may have left some that are about to end

    def work(store: MemoryStore) -> None:
        store.index("s", [Entry("silt settles", (0, 1))])
        store.search("s", "silt")
        store.flush(300)

    with MemoryStore.open(tmp_path / "whole", embedder=Counting(), embed_timeout=300) as store:
        lines = lines_of(lambda: work(store))
    for line in range(1, lines + 1):
        with MemoryStore.open(tmp_path / str(line), embedder=Counting(), embed_timeout=300) as store:
            interrupted_at(line, lambda: work(store))
            store.index("s", [Entry("mud flows", (1, 2))])
            assert store.flush(300), line
            assert store.lacking_vectors == 0
            hit = store.search("s", "mud flows", explain=True)[0]
            assert hit.explain is not None
            assert hit.explain["vectors"] == 1
    left = set(threading.enumerate()) - before
    assert not [each for each in left if each.name.startswith("siltstone-")]
