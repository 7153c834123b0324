"""A copy that is made while a store is used: of one moment, whole, or not there."""

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from siltstone.errors import StoreClosedError, StoreCorruptError, StoreOpenError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from storing import contents, database, entries, figures, fill, message, sql, whole
from summary_log import summary_log


def test_a_copy_tells_what_the_store_told(tmp_path: Path) -> None:
    whole(tmp_path / "one")
    with MemoryStore.open(tmp_path / "one") as store:
        store.forget(session_id="a", start=1, end=2)
        store.index("a", [Entry("a note on the river", name="Ann", kind="note", created_at=5.5)])
        told, hits = figures(store), store.search("a", "silt river", limit=99)
        store.backup(tmp_path / "two" / "deep")
        assert store.index("a", entries("after the copy")).indexed == 1
    with MemoryStore.open(tmp_path / "two" / "deep") as copy:
        assert figures(copy) == told
        assert [hit.entry_id for hit in copy.search("a", "silt river", limit=99)] == [
            hit.entry_id for hit in hits
        ]
        assert summary_log(copy, "c").state().dropped
        assert all(each is not None for each in copy.index("a", entries("mud of the copy")).entry_ids)
        assert copy.check() == []


def test_the_copy_is_one_file_and_no_larger_than_what_it_holds(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "one") as store:
        store.index("a", entries("silt"))
        store.index("b", [Entry("mud " * 500) for _ in range(400)])
        store.delete_session("b")
        store.backup(tmp_path / "two")
        assert database(tmp_path / "two").stat().st_size * 2 < store.stats().disk_bytes
    assert [file.name for file in database(tmp_path / "two").parent.iterdir()] == ["memory.sqlite3"]


def test_a_store_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    fill(tmp_path / "one")
    fill(tmp_path / "two")
    before = database(tmp_path / "two").read_bytes()
    with MemoryStore.open(tmp_path / "one") as store:
        for there in (tmp_path / "two", tmp_path / "one"):
            with pytest.raises(StoreOpenError, match="there is a store already"):
                store.backup(there)
        with pytest.raises(StoreOpenError):
            store.backup("\ud800")
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreOpenError):
            store.backup(tmp_path / "file")
        assert contents(store.search("a", "silt"))
    assert database(tmp_path / "two").read_bytes() == before
    with pytest.raises(StoreClosedError):
        store.backup(tmp_path / "three")


def test_a_damaged_store_is_not_copied_and_a_repaired_one_is(tmp_path: Path) -> None:
    whole(tmp_path / "one")
    sql(tmp_path / "one", "UPDATE entry SET text = text || '!' WHERE id = 1")
    with MemoryStore.open(tmp_path / "one") as store:
        with pytest.raises(StoreCorruptError, match="repair it first"):
            store.backup(tmp_path / "two")
        assert list(database(tmp_path / "two").parent.iterdir()) == []
        store.check(repair=True)
        store.backup(tmp_path / "two")
    with MemoryStore.open(tmp_path / "two", read_only=True) as copy:
        assert copy.check() == []


def test_a_store_that_is_read_only_is_copied(tmp_path: Path) -> None:
    whole(tmp_path / "one")
    with MemoryStore.open(tmp_path / "one", read_only=True) as store:
        store.backup(tmp_path / "two")
    with MemoryStore.open(tmp_path / "two") as copy:
        assert contents(copy.search("b", "river")) == ["the river is slow"]
        assert copy.check() == []


def test_copies_while_threads_write_are_each_of_one_moment(tmp_path: Path) -> None:
    done = threading.Event()
    with MemoryStore.open(tmp_path / "one") as store:

        def work(name: str) -> None:
            log, number = summary_log(store, name), 0
            while not done.is_set():
                raws = [message(f'"{n}"') for n in range(number, number + 2)]
                log.append(raws, expected_next=number, clock="")
                store.index(name, entries(f"silt {number}", f"mud {number}"))
                number += 2

        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        try:
            for n in range(5):
                store.backup(tmp_path / f"copy {n}")
        finally:
            done.set()
            for thread in threads:
                thread.join()
    for n in range(5):
        with MemoryStore.open(tmp_path / f"copy {n}") as copy:
            assert copy.check() == []
            for name in ("a", "b"):
                logged = summary_log(copy, name).state().next_seq
                indexed = copy.stats(name).entries
                assert logged % 2 == indexed % 2 == 0
                assert logged - indexed in (0, 2)


BACKUP = """
import os, sys
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import summary_log
store = MemoryStore.open(sys.argv[1])
os.write(1, b"begins\\n")
store.backup(sys.argv[2])
os.write(1, b"done\\n")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_where_a_backup_was_killed_there_is_a_whole_copy_or_none(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "one") as store:
        for n in range(20):
            store.index("a", entries(*(f"silt {n} {m} " * 20 for m in range(20))))
    chance, seen = random.Random(3), Counter[str]()
    for _run in range(12):
        there = tmp_path / "two"
        command = [sys.executable, "-c", BACKUP, str(tmp_path / "one"), str(there)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begins\n"
            time.sleep(chance.uniform(0.0, 0.03))
            child.send_signal(signal.SIGKILL)
            acknowledged = b"done" in child.stdout.read()
        if database(there).exists():
            seen["whole"] += 1
        else:
            assert not acknowledged
            seen["none"] += 1
            with MemoryStore.open(tmp_path / "one") as store:
                store.backup(there)  # what was left half made is in nobody's way
        with MemoryStore.open(there, read_only=True) as copy:
            assert copy.check() == []
            assert copy.stats().entries == 400
        assert [file.name for file in database(there).parent.iterdir()] == ["memory.sqlite3"]
        shutil.rmtree(there)
    print(dict(seen))
    with MemoryStore.open(tmp_path / "one") as store:
        assert store.check() == []
