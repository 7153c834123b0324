"""Acknowledged writes survive: closing, a second process, a fork. For ``kill -9`` see ``test_torture``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from siltstone import _native
from siltstone.errors import ConfigError, ReadOnlyStoreError, StoreClosedError, StoreVersionError
from siltstone.stores import MemoryStore
from storing import compaction, contents, database, elsewhere, entries, fill, message, sql
from summary_log import summary_log


def test_mk_60_a_store_answers_the_same_after_reopening(tmp_path: Path) -> None:
    fill(tmp_path)
    answers = []
    for ranker in ("lexical", "cosine") * 2:
        with MemoryStore.open(tmp_path, ranker) as store:
            log = summary_log(store, "a")
            answers.append((store.search("a", "silt river"), log.state(), log.read(0, 9), store.entries("a")))
    assert answers[:2] == answers[2:]
    assert len(answers[0][0]) == 4


def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    fill(tmp_path)
    assert [path.name for path in database(tmp_path).parent.iterdir()] == ["memory.sqlite3"]


@pytest.mark.parametrize(("number", "version"), [(6, "00000006"), (0x7FFFFFFF, "7fffffff")])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_another_version_is_refused_by_name_and_left_untouched(
    number: int, version: str, read_only: bool, tmp_path: Path
) -> None:
    fill(tmp_path)
    sql(tmp_path, f"PRAGMA user_version = {number}")
    before = database(tmp_path).read_bytes()
    with pytest.raises(StoreVersionError, match=f"has version {version}, .*siltstone export") as caught:
        MemoryStore.open(tmp_path, read_only=read_only)
    own, _ = _native.mirror_schema()
    told = caught.value.version, caught.value.supported, caught.value.path  # type: ignore[attr-defined]
    assert told == (version, own, str(database(tmp_path)))
    assert f"reads and writes version {own}" in str(caught.value)
    assert database(tmp_path).read_bytes() == before
    assert [path.name for path in database(tmp_path).parent.iterdir()] == ["memory.sqlite3"]


def test_two_stores_of_one_process_are_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with MemoryStore.open(tmp_path / "store") as one, MemoryStore.open(tmp_path / "link") as other:
        one.index("a", entries("silt"))
        assert contents(other.search("a", "silt")) == ["silt"]
        one.close()
        assert contents(other.search("a", "silt")) == ["silt"]
        with pytest.raises(StoreClosedError, match="is closed"):
            one.search("a", "silt")


def test_a_second_process_reads_and_goes_on_with_the_ids(tmp_path: Path) -> None:
    code = """
import sys
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
with MemoryStore.open(sys.argv[1]) as store:
    print([hit.content for hit in store.search("a", "silt")])
    print(store.index("a", [Entry("silt from elsewhere")]).entry_ids[0])
"""
    with MemoryStore.open(tmp_path) as store:
        first = store.index("a", entries("silt")).entry_ids[0]
        assert len(store.search("a", "silt")) == 1
        found, second = elsewhere(code, tmp_path).splitlines()
        assert found == "['silt']"
        # The index in this memory catches up with what the other process wrote.
        assert set(contents(store.search("a", "silt"))) == {"silt", "silt from elsewhere"}
        third = store.index("a", entries("silt again")).entry_ids[0]
        assert first is not None
        assert third is not None
        assert first < int(second) < third
        assert len(store.search("a", "silt")) == 3


def test_processes_that_create_a_store_at_once_share_it(tmp_path: Path) -> None:
    code = """
import sys
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
with MemoryStore.open(sys.argv[1]) as store:
    for n in range(20):
        store.index("a", [Entry(f"silt {sys.argv[2]} {n}")])
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    with MemoryStore.open(tmp_path) as store:
        ids = [entry.entry_id for entry in store.entries("a").entries]
        assert len(set(ids)) == 80
        assert len(store.search("a", "silt", limit=100)) == 80


# -- fork ---------------------------------------------------------------------------------------


# -- reading only -------------------------------------------------------------------------------


def test_a_store_opened_for_reading_answers_and_refuses_to_write(tmp_path: Path) -> None:
    fill(tmp_path)
    before = database(tmp_path).read_bytes()
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert store.read_only
        assert len(store.search("a", "silt")) == 4  # one of them beside two that have it
        log = summary_log(store, "a")
        assert log.state().next_seq == 4
        for write in (
            lambda: store.index("a", entries("silt")),
            lambda: store.index("a", []),
            lambda: store.delete_session("a"),
            lambda: log.append([message()], expected_next=4, clock=""),
            lambda: log.commit(compaction(), [], expected_head=1, clock=""),
            lambda: log.save_clock("x"),
        ):
            with pytest.raises(ReadOnlyStoreError, match="reading only"):
                write()
    assert database(tmp_path).read_bytes() == before


READ_AS_NOBODY = """
import os, sys
from siltstone.errors import ReadOnlyStoreError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore, SimpleMemoryStore
from summary_log import summary_log
with SimpleMemoryStore() as store:  # a first use imports modules, which nobody may perhaps not read
    store.index("a", [Entry("silt")])
    store.search("a", "silt")
if os.getuid() == 0:  # whom no permission stops
    os.setgid(65534)
    os.setuid(65534)
with MemoryStore.open(sys.argv[1]) as store:
    print(store.read_only, [hit.content for hit in store.search("a", "silt")])
    try:
        store.index("a", [Entry("silt")])
    except ReadOnlyStoreError:
        print("refused")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
@pytest.mark.parametrize("protected", ["file", "directory", "both"])
def test_a_store_that_cannot_be_written_is_opened_for_reading(tmp_path: Path, protected: str) -> None:
    fill(tmp_path)
    folder = database(tmp_path).parent
    for parent in (tmp_path, *tmp_path.parents):  # pytest makes them for the owner alone
        if not parent.stat().st_mode & 0o001:
            parent.chmod(0o755)
    database(tmp_path).chmod(0o666 if protected == "directory" else 0o444)
    folder.chmod(0o777 if protected == "file" else 0o555)
    first, second = elsewhere(READ_AS_NOBODY, tmp_path).splitlines()
    folder.chmod(0o777)
    assert first.startswith("True ")
    assert "silt settles" in first
    assert second == "refused"
    assert database(tmp_path) in folder.iterdir()


def test_a_store_knows_the_rule_it_was_made_with(tmp_path: Path) -> None:
    MemoryStore.open(tmp_path, hash_rule="poly31").close()
    with MemoryStore.open(tmp_path) as store:
        assert store.hash_rule == "poly31"
    with pytest.raises(ConfigError, match="made with hash_rule 'poly31', not 'xxh3'") as raised:
        MemoryStore.open(tmp_path, hash_rule="xxh3")
    assert "language" not in str(raised.value), "a language says nothing of the rule"
