"""Acknowledged writes are in the file at the store's path: a store whose file was replaced says so."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.errors import ReadOnlyStoreError, StoreReplacedError
from siltstone.stores import MemoryStore
from storing import contents, database, elsewhere, entries

pytestmark = pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced there")


def seen(path: Path) -> list[str]:
    """The texts of session ``a``, as another process finds them."""
    code = (
        "import sys; from siltstone import MemoryStore\n"
        "store = MemoryStore.open(sys.argv[1])\n"
        "assert store.check() == [], store.check()\n"
        "print('|'.join(entry.content for entry in store.entries('a').entries))"
    )
    return elsewhere(code, path).strip().split("|")


def put_back(path: Path, copy: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(copy, path)


def move_over(path: Path, copy: Path) -> None:
    database(copy).replace(database(path))


def copy_over(path: Path, copy: Path) -> None:
    """The file keeps its place and its number."""
    database(path).write_bytes(database(copy).read_bytes())


REPLACING: dict[str, Callable[[Path, Path], object]] = {
    "put back": put_back,
    "moved over": move_over,
    "copied over": copy_over,
}


@pytest.mark.parametrize("how", REPLACING)
def test_a_store_put_back_from_a_backup_takes_nothing_from_who_had_it_open(tmp_path: Path, how: str) -> None:
    path, copy = tmp_path / "store", tmp_path / "copy"
    old = MemoryStore.open(path)
    old.index("a", entries("one"))
    old.backup(copy)
    old.index("a", entries("bad"))
    REPLACING[how](path, copy)
    with pytest.raises(StoreReplacedError, match="open the path again") as caught:
        old.index("a", entries("lost"))
    assert caught.value.path.endswith("memory.sqlite3")  # type: ignore[attr-defined]
    with pytest.raises(StoreReplacedError):
        old.search("a", "one")
    with MemoryStore.open(path) as store:  # beside the old one, which nobody closed
        assert contents(store.search("a", "one")) == ["one"]
        store.index("a", entries("after"))
    old.close()
    assert seen(path) == ["one", "after"]


@pytest.mark.parametrize("how", REPLACING)
def test_an_older_copy_of_the_files_is_another_store(tmp_path: Path, how: str) -> None:
    """It has the mark of the store, and is behind it."""
    path, copy = tmp_path / "store", tmp_path / "copy"
    with MemoryStore.open(path) as store:
        store.index("a", entries("one"))
    shutil.copytree(path, copy)
    with MemoryStore.open(path) as store:
        store.index("a", entries("two"))
    old = MemoryStore.open(path)
    REPLACING[how](path, copy)
    with pytest.raises(StoreReplacedError):
        old.index("a", entries("lost"))
    old.close()
    assert seen(path)[0] == "one"
    assert "lost" not in seen(path)


def test_a_store_that_was_deleted_acknowledges_nothing_and_makes_no_new_one(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with MemoryStore.open(path) as store:
        store.index("a", entries("one"))
        shutil.rmtree(path)
        for _ in range(2):
            with pytest.raises(StoreReplacedError):
                store.index("a", entries("lost"))
        with pytest.raises(StoreReplacedError):
            store.entries("a")
    assert not path.exists()


def test_a_store_that_was_moved_and_is_back_is_the_same(tmp_path: Path) -> None:
    path, aside = tmp_path / "store", tmp_path / "aside"
    with MemoryStore.open(path) as store:
        store.index("a", entries("one"))
        path.rename(aside)
        aside.rename(path)
        store.index("a", entries("two"))
    assert seen(path) == ["one", "two"]


def test_a_checkpoint_of_another_process_is_no_replacement(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("one"))
        code = (
            "import sqlite3, sys; from siltstone import MemoryStore, Entry\n"
            "with MemoryStore.open(sys.argv[1]) as store:\n"
            "    store.index('b', [Entry('x' * 9_000) for _ in range(900)])\n"
            "    store.forget(session_id='b')\n"
        )
        elsewhere(code, tmp_path)
        store.index("a", entries("two"))
        store.check(repair=True)
        store.index("a", entries("three"))
        store.forget(text="two")
        store.index("a", entries("four"))
    assert seen(tmp_path) == ["one", "three", "four"]


def test_a_file_of_two_names_is_only_read(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "store") as store:
        store.index("a", entries("one"))
    database(tmp_path / "other").parent.mkdir(parents=True)
    os.link(database(tmp_path / "store"), database(tmp_path / "other"))
    for path in ("store", "other"):
        with MemoryStore.open(tmp_path / path) as store:
            assert store.read_only
            with pytest.raises(ReadOnlyStoreError, match="more than one name"):
                store.index("a", entries("two"))
            assert contents(store.search("a", "one")) == ["one"]
    database(tmp_path / "other").unlink()
    with MemoryStore.open(tmp_path / "store") as store:
        store.index("a", entries("two"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_what_is_made_is_its_owners_alone_whatever_the_mask(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        with MemoryStore.open(home / "new" / "store") as store:
            store.index("a", entries(*(f"silt {n}" for n in range(600))))
            store.search("a", "silt")
            store.backup(home / "copy")
            made = {file for file in home.rglob("*") if file != home}
            assert {file.stat().st_mode & 0o777 for file in made if file.is_dir()} == {0o700}
            assert {file.stat().st_mode & 0o777 for file in made if file.is_file()} == {0o600}
            assert {"memory.sqlite3-wal", "cache"} <= {file.name for file in made}
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o777 == 0o755, "what was there is left alone"


def test_a_mode_lets_others_read(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "store", mode=0o640) as store:
        store.index("a", entries("silt"))
        assert (tmp_path / "store" / "memory").stat().st_mode & 0o777 == 0o750
        for name in ("memory.sqlite3", "memory.sqlite3-wal"):
            assert (tmp_path / "store" / "memory" / name).stat().st_mode & 0o777 == 0o640
    with MemoryStore.open(tmp_path / "store") as store:
        assert database(tmp_path / "store").stat().st_mode & 0o777 == 0o640
