"""A cache of what is indexed: who opens a store takes from it, whoever wrote it, and whoever was killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from siltstone.memory import Entry
from siltstone.stores import MemoryStore

NOW = 2_000_000_000.0
MANY = 600  # more than the fewest that are worth a cache
QUERIES = ("silt 17", "the river at noon", "number 599", "copper kettle")
WORDS = [
    "silt", "river", "kettle", "copper", "noon", "bridge", "window", "paper", "garden", "moon", "walked",
    "settles",
]  # fmt: skip

SAVER = """
import sys
from siltstone.stores import MemoryStore
store = MemoryStore.open(sys.argv[1])
print("open", flush=True)
for ranker in ("lexical", "cosine"):
    store.search("a", "silt 17", ranker=ranker)  # reads the rows, and writes a cache
store.close()
"""


def texts(count: int, first: int = 0) -> list[Entry]:
    """Entries of a few words, each another."""
    chance = random.Random(first)
    said = (" ".join(chance.choices(WORDS, k=chance.randint(2, 30))) for _ in range(count))
    return [Entry(f"{text} number {first + place}") for place, text in enumerate(said)]


def answers(store: MemoryStore) -> list[list[tuple[int, float]]]:
    """The hits of all rankers for all queries."""
    found = [
        store.search("a", query, limit=20, ranker=ranker, now=NOW)
        for ranker in ("lexical", "cosine", "hybrid")
        for query in QUERIES
    ]
    return [[(hit.entry_id, hit.score) for hit in hits] for hits in found]


def files(path: Path) -> list[Path]:
    """The caches of a store, and what is on its way to be one."""
    return sorted((path / "memory" / "cache").glob("*"))


def from_rows(path: Path, copy: Path) -> list[list[tuple[int, float]]]:
    """The answers of a store without a cache."""
    shutil.copytree(path, copy)
    shutil.rmtree(copy / "memory" / "cache", ignore_errors=True)
    with MemoryStore.open(copy) as store:
        return answers(store)


def test_a_cache_is_used_after_reopening_and_stats_say_so(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", texts(MANY))
        before = answers(store)
    assert len(files(tmp_path)) == 1
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert answers(store) == before
        assert store.stats("a").detail["cached"] == MANY
        assert store.stats().disk_bytes > files(tmp_path)[0].stat().st_size


def test_a_session_name_is_in_no_name_of_a_file(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("../../etc/../secret", texts(MANY))
        store.search("../../etc/../secret", "silt")
    assert [file.name.partition("-")[0] for file in files(tmp_path)] == ["1"]


def test_forgetting_leaves_no_cache_behind(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [*texts(MANY), Entry("the pin is hyacinth")])
        store.search("a", "pin")
        assert files(tmp_path)
        report = store.forget(text="hyacinth")
        assert report.erased
        assert not files(tmp_path)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"hyacinth" not in file.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is of POSIX")
def test_whoever_is_killed_while_a_cache_is_written_leaves_the_right_answers(tmp_path: Path) -> None:
    store_path = tmp_path / "store"
    with MemoryStore.open(store_path) as store:
        store.index("a", texts(MANY))
    wanted, chance = from_rows(store_path, tmp_path / "rows"), random.Random(7)
    for _ in range(12):
        shutil.rmtree(store_path / "memory" / "cache", ignore_errors=True)
        child = subprocess.Popen([sys.executable, "-c", SAVER, store_path], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.uniform(0, 0.12))
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        with MemoryStore.open(store_path) as store:
            assert not [file for file in files(store_path) if file.suffix == ".saving"]
            assert answers(store) == wanted
            assert store.check() == []
