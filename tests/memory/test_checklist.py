"""Rows of the store that no other file tests by name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from siltstone import MemoryStore, errors
from siltstone.errors import InvalidEntryError, StoreCorruptError, StoreError
from siltstone.memory import Entry, Store
from siltstone.session.aio import in_thread
from storing import contents, database, entries, message, sql
from summary_log import summary_log


def test_mk_61_forty_eight_sessions_of_one_entry_have_small_indexes_made_when_needed(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for n in range(48):
            store.index(f"s{n}", entries(f"silt {n}"))
    sql(tmp_path, "UPDATE entry SET role = 'x' WHERE id > 1")  # met by whoever indexes it
    with MemoryStore.open(tmp_path) as store:
        assert store.stats().quarantined == 0
        assert contents(store.search("s0", "silt")) == ["silt 0"]
        assert store.stats().quarantined == 0, "no other session was looked at"
        detail = store.stats("s0").detail
        assert detail["terms"] == detail["words"] == detail["term_postings"] < 10, "those of one entry"
        assert store.search("s1", "silt") == []
        assert store.stats().quarantined == 1


def test_mk_62_a_batch_that_fails_leaves_no_phantom_and_the_next_one_is_well(store: Store) -> None:
    store.index("a", entries("silt"))
    assert len(store.search("a", "silt")) == 1
    for _ in range(3):
        with pytest.raises(InvalidEntryError):
            store.index("a", [*entries("silt and mud"), Entry("mud", (3, 1))])
        assert contents(store.search("a", "silt mud")) == ["silt"]
        assert store.check() == []
    store.index("a", [Entry("mud", (7, 8))])
    assert sorted(contents(store.search("a", "silt mud"))) == ["mud", "silt"]
    assert (store.stats("a").entries, store.check()) == (2, [])


def test_mk_62_a_write_that_the_disk_refuses_leaves_no_phantom_in_the_index(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
        assert len(store.search("a", "silt")) == 1
        sql(tmp_path, "DELETE FROM allocator")
        with pytest.raises(StoreCorruptError):
            store.index("a", [Entry("silt and mud", (5, 6))])
        assert contents(store.search("a", "silt mud")) == ["silt"]
        store.check(repair=True)
        store.index("a", [Entry("silt and mud", (5, 6))])
        assert len(store.search("a", "silt mud")) == 2
        assert store.check() == []


def test_mk_63_damaged_utf_8_is_never_given_back_and_a_missing_row_is_divergence(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        ids = store.index("a", entries("silt", "mud", "clay")).entry_ids
    sql(tmp_path, f"UPDATE entry SET text = CAST(x'73ff' AS TEXT) WHERE id = {ids[0]}")
    with MemoryStore.open(tmp_path) as store:
        assert sorted(contents(store.search("a", "silt mud clay"))) == ["clay", "mud"]
        assert [entry.content for entry in store.entries("a").entries] == ["mud", "clay"]
        assert store.quarantined("a") == (ids[0],)
        with pytest.raises(StoreCorruptError, match="is not UTF-8"):
            store.get(ids[0] or 0)
    sql(tmp_path, f"DELETE FROM entry WHERE id = {ids[1]}")
    with MemoryStore.open(tmp_path) as store:
        for read in (lambda: store.search("a", "silt"), lambda: store.entries("a")):
            with pytest.raises(StoreCorruptError, match=r"should have 3"):
                read()


def test_mk_64_each_failure_has_a_class_of_its_own(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path / "a")
    log = summary_log(store, "a")
    log.append([message()], expected_next=0, clock="")
    (tmp_path / "file").write_text("")
    reader = MemoryStore.open(tmp_path / "a", read_only=True)
    newer, broken = tmp_path / "newer", tmp_path / "broken"
    for path in (newer, broken):
        with MemoryStore.open(path) as other:
            other.index("a", entries("silt"))
    sql(newer, "PRAGMA user_version = 99")
    sql(broken, "UPDATE entry SET text = 'x'")
    closed = MemoryStore.open(tmp_path / "closed")
    closed.close()
    calls: dict[str, Any] = {
        "InvalidEntryError": lambda: store.search("a", "silt", limit=-1),
        "EntryNotFoundError": lambda: store.get(99),
        "StoreConflictError": lambda: log.append([message()], expected_next=7, clock=""),
        "ReadOnlyStoreError": lambda: reader.index("a", entries("silt")),
        "StoreOpenError": lambda: MemoryStore.open(tmp_path / "file"),
        "StoreVersionError": lambda: MemoryStore.open(newer),
        "StoreCorruptError": lambda: MemoryStore.open(broken).get(1),
        "StoreClosedError": lambda: closed.search("a", "silt"),
    }
    for name, call in calls.items():
        with pytest.raises(StoreError) as caught:
            call()
        assert type(caught.value).__name__ == name
        assert type(caught.value) is getattr(errors, name)
    assert database(tmp_path / "a").exists()
    store.close()
    reader.close()


@pytest.mark.anyio
async def test_mk_69_a_call_that_was_cancelled_cannot_overwrite_a_newer_index(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for n in range(10):
            old = asyncio.ensure_future(
                in_thread(lambda n=n: store.index("a", entries(*(f"old {n} {m}" for m in range(20)))))  # type: ignore[misc]
            )
            await asyncio.sleep(0)
            old.cancel()
            await in_thread(lambda n=n: store.index("a", [Entry(f"new {n}", (n + 100, n + 101))]))  # type: ignore[misc]
            with pytest.raises(asyncio.CancelledError):
                await old
            assert f"new {n}" in contents(store.search("a", f"new {n}", limit=99))
            found = {entry.entry_id for entry in store.entries("a", limit=999).entries}
            assert {hit.entry_id for hit in store.search("a", "old new", limit=999)} == found
            assert store.check() == []
