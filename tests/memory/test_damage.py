"""A row that is not what was written is found out, named, and never given back."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from siltstone.errors import StoreCorruptError, StoreError, StoreOpenError
from siltstone.stores import MemoryStore
from storing import database, elsewhere, entries, fill, key, sql
from summary_log import summary_log


def read_everything(path: Path) -> None:
    with MemoryStore.open(path) as store:
        log = summary_log(store, "a")
        log.read(0, log.state().next_seq)
        log.compactions()
        store.search("a", "silt")
        store.entries("a")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("message", "raw = '{}'"),
        ("message", "tokens = tokens + 1"),
        ("compaction", "usage = 'something else'"),
        ("derived", "raw = 'something else'"),
        ("compaction", "view = '[null]'"),
        ("session", "clock = 'x'"),
        ("session", "head = NULL"),
        ("session", "next_seq = next_seq - 1"),
    ],
)
def test_a_changed_row_is_named_and_never_given_back(tmp_path: Path, table: str, column: str) -> None:
    fill(tmp_path)
    row = key(0) if table == "message" else 1
    sql(tmp_path, f"UPDATE {table} SET {column} WHERE id = {row}")
    with pytest.raises(StoreCorruptError, match=f"{table} {row} ") as caught:
        read_everything(tmp_path)
    assert caught.value.table == table  # type: ignore[attr-defined]
    assert caught.value.id == row  # type: ignore[attr-defined]


@pytest.mark.parametrize("table", ["entry", "message", "compaction", "derived"])
def test_a_row_that_is_missing_is_found_out(tmp_path: Path, table: str) -> None:
    fill(tmp_path)
    sql(tmp_path, f"DELETE FROM {table} WHERE id = {key(0) if table == 'message' else 1}")
    with pytest.raises(StoreCorruptError, match=r"missing|were found"):
        read_everything(tmp_path)
    with MemoryStore.open(tmp_path) as store:
        log = summary_log(store, "a")
        read = {
            "entry": lambda: store.entries("a"),
            "message": lambda: log.read(0, 1),
            "compaction": log.state,
            "derived": log.compactions,
        }
        with pytest.raises(StoreCorruptError, match="missing"):
            read[table]()


@pytest.mark.parametrize(
    "damage",
    ["UPDATE allocator SET high_water = 0", "DELETE FROM allocator", "UPDATE meta SET value = 'poly31'"],
)
def test_a_store_that_forgot_its_ids_or_its_rule_writes_nothing(tmp_path: Path, damage: str) -> None:
    fill(tmp_path)
    sql(tmp_path, damage)
    with pytest.raises(StoreCorruptError), MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
    if "meta" not in damage:
        with MemoryStore.open(tmp_path) as store:
            assert store.stats().entries == 4


def test_a_truncated_file_is_refused_and_never_begun_anew(tmp_path: Path) -> None:
    fill(tmp_path / "whole")
    whole = database(tmp_path / "whole").read_bytes()
    for length in (1, 99, 100, 4_095, 4_096, len(whole) // 2, len(whole) - 4_096, len(whole) - 1):
        copy = tmp_path / str(length)
        shutil.copytree(tmp_path / "whole", copy)
        database(copy).write_bytes(whole[:length])
        with pytest.raises(StoreError):
            read_everything(copy)
        assert database(copy).stat().st_size == length


def test_an_empty_file_beside_a_log_is_not_begun_anew(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "whole") as store:
        store.index("a", entries("silt"))
        log = Path(f"{database(tmp_path / 'whole')}-wal").read_bytes()
    copy = database(tmp_path / "copy")
    copy.parent.mkdir(parents=True)
    copy.touch()
    Path(f"{copy}-wal").write_bytes(log)
    with pytest.raises(StoreOpenError, match="log beside it"):
        MemoryStore.open(tmp_path / "copy")
    assert Path(f"{copy}-wal").read_bytes() == log


FILL_THE_DISK = """
import resource, signal, sys
from siltstone.errors import StoreIoError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import summary_log

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = MemoryStore.open(sys.argv[1])
store.index("a", [Entry("silt 0")])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
stored = 1
try:
    while True:
        store.index("a", [Entry(f"silt {stored} {n} " + "x" * 5_000) for n in range(10)])
        stored += 10
except StoreIoError:
    pass
assert len(store.search("a", "silt", limit=1_000)) == store.stats().entries == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
store.index("a", [Entry("silt at last")])
print(stored + 1, len(store.search("a", "silt", limit=1_000)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_refuses_the_batch_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    stored, found = elsewhere(FILL_THE_DISK, tmp_path).split()
    assert int(stored) > 10
    assert found == stored
    with MemoryStore.open(tmp_path) as store:
        assert len(store.search("a", "silt", limit=1_000)) == int(stored)
