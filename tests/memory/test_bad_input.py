"""A path that cannot be a store is refused by name and left as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedders import Counting
from siltstone.errors import ConfigError, StoreOpenError
from siltstone.stores import MemoryStore
from storing import database, elsewhere, entries, sql


def everything(path: Path) -> dict[str, bytes | None]:
    """Every file below *path* with its bytes."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else None
        for each in sorted(path.rglob("*"))
    }


TEXT = b"This is not a database, and long enough to be looked at. " * 100


def place(path: Path) -> Path:
    """Where the database of a store at *path* would be, in its folder."""
    database(path).parent.mkdir(parents=True)
    return database(path)


def of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)  # not a store, and closed before the store looks at it
    connection.execute("CREATE TABLE note (text)")
    connection.commit()
    connection.close()


def changed(path: Path, statement: str) -> None:
    """A store on which *statement* was run."""
    MemoryStore.open(path).close()
    sql(path, statement)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.mkdir() or (path / "memory").write_bytes(TEXT), id="a file as folder"),
        pytest.param(lambda path: place(path).mkdir(), id="a directory for the file"),
        pytest.param(lambda path: place(path).write_bytes(TEXT), id="a text"),
        pytest.param(lambda path: place(path).write_text("hello"), id="a short text"),
        pytest.param(lambda path: place(path).write_bytes(bytes(8_192)), id="zeros"),
        pytest.param(lambda path: of_another_program(place(path)), id="another program's"),
        pytest.param(lambda path: changed(path, "CREATE TABLE note (text)"), id="a table too many"),
        pytest.param(lambda path: changed(path, "ALTER TABLE entry DROP COLUMN kind"), id="a column less"),
        pytest.param(lambda path: changed(path, "PRAGMA application_id = 7"), id="another application"),
        pytest.param(lambda path: path.write_text("hello"), id="a file for the store"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_not_a_store_is_named_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], read_only: bool
) -> None:
    path = tmp_path / "store"
    make(path)
    before = everything(tmp_path)
    with pytest.raises(StoreOpenError) as caught:
        MemoryStore.open(path, read_only=read_only)
    assert str(path) in str(caught.value)
    assert str(path) in caught.value.path  # type: ignore[attr-defined]
    assert isinstance(caught.value, OSError)
    assert everything(tmp_path) == before


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match="no store to read"):
        MemoryStore.open(tmp_path / "nothing", read_only=True)
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("left_behind", [b"", None])
def test_a_creation_that_was_killed_is_completed(tmp_path: Path, left_behind: bytes | None) -> None:
    (tmp_path / "memory").mkdir()
    if left_behind is None:  # switched to write-ahead logging, and nothing more
        elsewhere(
            "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA journal_mode = WAL')",
            database(tmp_path),
        )
    else:
        database(tmp_path).write_bytes(left_behind)
    with MemoryStore.open(tmp_path) as store:
        assert store.index("a", entries("silt")).indexed == 1


@pytest.mark.parametrize(
    "name", ["a?b=c#d", "a%20b", "ü 漢字", "a'b\"c", ":memory:", "file:x?mode=memory", "-wal"]
)
def test_a_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with MemoryStore.open(path) as store:
        store.index("a", entries("silt"))
    assert database(path).is_file()
    for read_only in (True, False):
        with MemoryStore.open(path, read_only=read_only) as store:
            assert len(store.search("a", "silt")) == 1
            assert store.path == str(path)


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b"])
def test_a_name_that_no_directory_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreOpenError, match="cannot open a store"):
        MemoryStore.open(str(tmp_path / name))
    assert everything(tmp_path) == {}


def test_a_relative_path_is_of_the_directory_it_was_opened_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with MemoryStore.open("deep/er") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.index("a", entries("silt"))
        assert len(store.search("a", "silt")) == 1
    assert database(tmp_path / "deep/er").is_file()
    assert everything(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        *(({"ranker": wrong}, ConfigError, "ranker must be") for wrong in ("densest", "", 3, ["lexical"])),
        *(
            ({"ranker": each}, ConfigError, f"ranker '{each}' needs an embedder")
            for each in ("dense", "fused")
        ),
        ({"hash_rule": "md5"}, ConfigError, "hash_rule must be 'xxh3' or 'poly31'"),
        ({"index": "flat"}, ConfigError, "index must be 'exact' or 'hnsw'"),
        ({"limits": {"hits": 5}}, ConfigError, "limits must be Limits"),
        ({"reranker": "bert"}, ConfigError, "reranker"),
        (
            {"fusion": "sum", "embedder": Counting()},
            ConfigError,
            "fusion must be 'zscore' or 'rrf', got \"sum\"",
        ),
        *(
            ({"embed_timeout": seconds, "embedder": Counting()}, ConfigError, f"seconds > 0, got {seconds}")
            for seconds in (0, float("nan"))
        ),
        ({"embedder": object()}, ConfigError, "embedder.id must be a str of 1 to 256 bytes, got None"),
        ({"fuson": "rrf"}, TypeError, "unexpected keyword argument 'fuson'"),
    ],
)
def test_an_option_that_cannot_be_is_refused_and_makes_no_store(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        MemoryStore.open(tmp_path, **options)
    assert words in str(caught.value)
    assert everything(tmp_path) == {}
