"""A repair rebuilds rows that follow from others, reports the rest, and loses no good row."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from siltstone import MemoryStore
from siltstone.errors import ReadOnlyStoreError, StoreBusyError, StoreCorruptError
from storing import contents, database, entries, key, sql, whole
from summary_log import summary_log


def damaged(path: Path, *statements: str) -> None:
    whole(path)
    sql(path, "PRAGMA foreign_keys = OFF", *statements)


UNLOGGED = {"count", "sequence"}  #: of a message that is lost
#: A damage, a finding that it makes, and the codes of those that a repair leaves.
DAMAGES: list[tuple[str, str, str, int | None, set[str]]] = [
    ("UPDATE entry SET text = text || '!' WHERE id = 1", "checksum", "entry", 1, set()),
    ("UPDATE entry SET text = CAST(x'ff' AS TEXT) WHERE id = 2", "checksum", "entry", 2, set()),
    ("UPDATE entry SET fingerprint = 0 WHERE id = 1", "fingerprint", "entry", 1, set()),
    ("DELETE FROM entry WHERE id = 1", "count", "entry", 1, set()),
    ("UPDATE allocator SET high_water = 0", "checksum", "allocator", None, set()),
    ("DELETE FROM allocator", "checksum", "allocator", None, set()),
    ("UPDATE session SET clock = 'x' WHERE id = 1", "checksum", "session", 1, set()),
    (
        "UPDATE session SET head = 99, next_seq = 3, entries = 77 WHERE id = 1",
        "checksum",
        "session",
        1,
        set(),
    ),
    ("UPDATE session SET name = 'z' WHERE id = 2", "checksum", "session", 2, {"checksum"}),
    ("DELETE FROM session WHERE id = 1", "foreign_key", "message", key(0), {"foreign_key"}),
    ("DELETE FROM session WHERE id = 2", "foreign_key", "entry", 4, set()),
    ("DELETE FROM compaction WHERE id = 1", "parent", "compaction", 3, {"parent"}),
    ("DELETE FROM compaction WHERE id = 3", "head", "session", 1, set()),
    ("UPDATE compaction SET usage = '' WHERE id = 2", "checksum", "compaction", 2, {"checksum", "count"}),
    ("UPDATE compaction SET usage = '' WHERE id = 3", "checksum", "compaction", 3, {"checksum", "count"}),
    (
        f"UPDATE message SET raw = '{{}}' WHERE id = {key(3)}",
        "checksum",
        "message",
        key(3),
        UNLOGGED | {"checksum"},
    ),
    (f"DELETE FROM message WHERE id = {key(2)}", "sequence", "message", 1, UNLOGGED),
    (f"DELETE FROM message WHERE id = {key(8)}", "count", "message", 1, {"count"}),
    ("UPDATE derived SET digest = 0 WHERE id = 1", "digest", "derived", 1, set()),
    ("UPDATE derived SET raw = '' WHERE id = 1", "checksum", "derived", 1, {"checksum", "text"}),
    ("DELETE FROM derived WHERE id = 1", "text", "derived", 1, {"text"}),
    ("UPDATE meta SET value = 'x' WHERE key = 'lineage'", "checksum", "meta", None, set()),
]


@pytest.mark.parametrize(("damage", "code", "table", "row", "left"), DAMAGES)
def test_each_damage_is_named_what_can_be_is_repaired_and_the_rest_is_still_told(
    tmp_path: Path, damage: str, code: str, table: str, row: int | None, left: set[str]
) -> None:
    damaged(tmp_path, damage)
    with MemoryStore.open(tmp_path, read_only=True) as store:
        found = store.check()
    assert (code, table, row) in [(each.code, each.table, each.id) for each in found], found
    assert all(each.message for each in found)
    with MemoryStore.open(tmp_path) as store:
        before = store.check()
        told = store.check(repair=True)
        after = store.check()
        assert {finding.code for finding in after} == left
        assert [finding for finding in told if not finding.repaired] == after
        described = {(finding.code, finding.table, finding.id, finding.message) for finding in told}
        assert {(finding.code, finding.table, finding.id, finding.message) for finding in before} <= described
        assert store.check(repair=True) == after, "what is repaired stays so"
        if not left:
            store.search("a", "silt")
            store.search("b", "river")
            summary_log(store, "a").state()
            store.index("a", entries("a new one"))
            assert store.check() == []


def test_ids_are_not_given_twice_after_the_allocator_was_lost(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
        (gone,) = store.index("b", entries("mud")).entry_ids
        store.delete_session("b")
    sql(tmp_path, "DELETE FROM allocator")
    with MemoryStore.open(tmp_path) as store:
        with pytest.raises(StoreCorruptError, match="allocator"):
            store.index("a", entries("clay", "sand"))
        store.check(repair=True)
        ids = store.index("a", entries("clay", "sand")).entry_ids
        assert all(each is not None and gone is not None and each > gone for each in ids)


def test_a_set_aside_entry_takes_its_id_with_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        (first,) = store.index("a", entries("silt")).entry_ids
    sql(tmp_path, "UPDATE entry SET text = 'x'", "DELETE FROM allocator")
    with MemoryStore.open(tmp_path) as store:
        store.check(repair=True)
        (second,) = store.index("a", entries("silt")).entry_ids
        assert (second or 0) > (first or 0)
        assert store.quarantined("a") == (first,)
        assert store.stats().quarantined == 1


def test_a_lost_head_falls_back_and_what_is_in_context_again_is_not_found(tmp_path: Path) -> None:
    damaged(tmp_path, "UPDATE compaction SET usage = 'x' WHERE id = 1", "UPDATE session SET head = 1")
    with MemoryStore.open(tmp_path) as store:
        store.check(repair=True)
        state = summary_log(store, "a").state()
        assert (state.head, state.next_seq) == (None, 9)
        assert store.search("a", "silt clay") == []
        assert len(summary_log(store, "a").read(0, 9)) == 9


def test_an_index_of_the_file_that_lost_a_row_is_made_anew(tmp_path: Path) -> None:
    whole(tmp_path)
    connection = sqlite3.connect(database(tmp_path))
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entry_session'").fetchone()
    connection.close()
    with database(tmp_path).open("r+b") as file:
        file.seek((page - 1) * 4096 + 3)
        file.write((1).to_bytes(2, "big"))
    with MemoryStore.open(tmp_path) as store:
        assert "integrity" in [finding.code for finding in store.check()]
        store.check(repair=True)
        assert store.check() == []
        assert contents(store.search("b", "river")) == ["the river is slow"]


def test_a_whole_store_is_left_as_it_is(tmp_path: Path) -> None:
    whole(tmp_path)
    with MemoryStore.open(tmp_path) as store:
        before = [store.search("a", "silt"), summary_log(store, "a").state(), store.stats().entries]
        assert store.check(repair=True) == []
        assert [store.search("a", "silt"), summary_log(store, "a").state(), store.stats().entries] == before


def test_a_store_that_does_not_know_whether_to_erase_does_so_when_it_is_opened(tmp_path: Path) -> None:
    damaged(tmp_path, "UPDATE meta SET value = 'x' WHERE key = 'erasure'")
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert [(finding.code, finding.table) for finding in store.check()] == [("checksum", "meta")]
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []


def test_a_store_open_for_reading_is_not_repaired(tmp_path: Path) -> None:
    damaged(tmp_path, "DELETE FROM allocator")
    before = database(tmp_path).read_bytes()
    with MemoryStore.open(tmp_path, read_only=True) as store, pytest.raises(ReadOnlyStoreError):
        store.check(repair=True)
    assert database(tmp_path).read_bytes() == before


HOLD = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="another lock is taken there")
def test_two_repairs_wait_for_one_another_and_say_for_how_long(tmp_path: Path) -> None:
    damaged(tmp_path, "DELETE FROM allocator")
    command = [sys.executable, "-c", HOLD, str(database(tmp_path).parent)]
    with MemoryStore.open(tmp_path) as store:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with ThreadPoolExecutor(1) as other:
                forgetting = other.submit(store.forget, text="the river")  # both wait at the same time
                with pytest.raises(StoreBusyError, match=r"cannot repair .* waited") as caught:
                    store.check(repair=True)
            assert caught.value.work == "repair"  # type: ignore[attr-defined]
            assert caught.value.waited_ms >= 5_000  # type: ignore[attr-defined]
            assert store.index("b", []) is not None, "only such work waits"
            report = forgetting.result()
            assert (report.entries, report.erased) == (1, False), "the bytes go with the next one"
            holder.communicate("")
        assert store.check(repair=True)
        assert store.forget(text="no such").erased


def test_doctor_repairs_on_request(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from siltstone.cli.app import app

    damaged(tmp_path, "DELETE FROM allocator", "UPDATE entry SET text = 'x' WHERE id = 1")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "memory", copy / "memory")
    run = CliRunner().invoke
    assert run(app, ["doctor", str(tmp_path)]).exit_code == 1
    told = run(app, ["doctor", str(tmp_path), "--repair"])
    assert told.exit_code == 0, told.output
    assert "repaired: checksum: the allocator has lost its row" in told.output
    assert "1 in quarantine" in told.output
    assert run(app, ["doctor", str(tmp_path)]).exit_code == 0
    assert '"repaired": true' in run(app, ["doctor", str(copy), "--repair", "--json"]).output
    assert run(app, ["doctor", str(tmp_path / "nothing"), "--repair"]).exit_code == 2
    assert not (tmp_path / "nothing").exists()
