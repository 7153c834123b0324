"""Paths of stores: what can be one, what survives closing, a second process or a fork."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedders import Counting
from siltstone import Session, _native
from siltstone.errors import (
    ConfigError,
    ReadOnlyStoreError,
    StoreClosedError,
    StoreOpenError,
    StoreVersionError,
)
from siltstone.memory import Entry
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


APPENDS = 20
FRAME = 24 + 4096  # bytes of a page in the log

CHILD = """
import os, sys
from siltstone import Session

session = Session.open(sys.argv[1], "agent", policy=None, recall=sys.argv[3] == "recall")
session.append({"role": "user", "content": "first"})
os.kill(os.getpid(), 0)  # so that the trace tells what comes after
for number in range(int(sys.argv[2])):
    session.prepare()
    session.append({"role": "user", "content": f"message {number}"})
os.kill(os.getpid(), 0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system calls are those of Linux")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
@pytest.mark.parametrize("form", ["plain", "recall"])
def test_an_append_syncs_once_and_only_what_was_written(form: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=fsync,fdatasync,sync_file_range,msync,kill"]
    child = [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(APPENDS), form]
    done = subprocess.run([*command, *child], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr
    names = [line.split()[1].partition("(")[0] for line in trace.read_text().splitlines() if "(" in line]
    first, last = (at for at, name in enumerate(names) if name == "kill")
    assert names[first + 1 : last] == ["fdatasync"] * APPENDS


def test_an_append_writes_the_message_and_the_session(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        session = Session.open(None, "agent", memory=store, policy=None)
        session.append({"role": "user", "content": "first"})
        log = database(tmp_path).with_suffix(".sqlite3-wal")
        grew = list[int]()
        for number in range(APPENDS):
            before = log.stat().st_size
            session.append({"role": "user", "content": f"message {number}"})
            grew.append((log.stat().st_size - before) // FRAME)
        assert sorted(grew)[APPENDS // 2] == 2  # more only where a page is full
        assert max(grew) <= 5
        session.close()


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
    chance = random.Random(first)
    said = (" ".join(chance.choices(WORDS, k=chance.randint(2, 30))) for _ in range(count))
    return [Entry(f"{text} number {first + place}") for place, text in enumerate(said)]


def answers(store: MemoryStore) -> list[list[tuple[int, float]]]:
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
