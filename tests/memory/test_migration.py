"""A store of every earlier version opens, is brought up to date, and loses nothing on the way."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from siltstone.errors import StoreOpenError, StoreVersionError
from siltstone.stores import MemoryStore
from stores.make import FILES, read
from storing import contents, database, elsewhere, entries, sql

VERSIONS = sorted(Path(__file__).parent.parent.glob("stores/version-*"))
FORMS = ("closed", "killed")
RUNS = int(os.environ.get("SILTSTONE_TORTURE_RUNS", "40")) // 4


def unpack(version: Path, form: str, path: Path) -> dict[str, Any]:
    """Puts the files of a store at *path*; returns its contents when it was written."""
    target = path / "memory"
    target.mkdir(parents=True)
    for name in FILES:
        if (packed := version / form / f"{name}.gz").exists():
            (target / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return json.loads((version / form / "read.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def user_version(path: Path) -> int:
    code = (
        "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version').fetchone())"
    )
    return int(elsewhere(code, database(path)))


def current(tmp_path: Path) -> int:
    MemoryStore.open(tmp_path / "new").close()
    return user_version(tmp_path / "new")


def test_there_are_files_of_every_version_before_this_one(tmp_path: Path) -> None:
    assert [version.name for version in VERSIONS] == [f"version-{n}" for n in range(1, current(tmp_path))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_store_of_an_earlier_version_tells_what_it_told(version: Path, form: str, tmp_path: Path) -> None:
    path = tmp_path / "old"
    told = unpack(version, form, path)
    assert read(path) == told
    assert user_version(path) == current(tmp_path)
    with MemoryStore.open(path) as store:
        token = store.stage("a", entries("mud of today"), "r1")
        store.finalize(token)
        assert contents(store.search("a", "mud today"))[0] == "mud of today"
        assert store.check() == []


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_an_earlier_version_is_not_opened_for_reading_and_left_as_it_is(
    version: Path, tmp_path: Path
) -> None:
    unpack(version, "closed", tmp_path)
    before = database(tmp_path).read_bytes()
    with pytest.raises(StoreOpenError, match=r"brought up to \d+ when it is next opened for writing"):
        MemoryStore.open(tmp_path, read_only=True)
    assert database(tmp_path).read_bytes() == before
    assert [file.name for file in database(tmp_path).parent.iterdir()] == ["memory.sqlite3"]


def test_a_newer_version_is_left_untouched(tmp_path: Path) -> None:
    MemoryStore.open(tmp_path).close()
    sql(tmp_path, "PRAGMA user_version = 99")
    before = database(tmp_path).read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreVersionError, match="version 99") as caught:
            MemoryStore.open(tmp_path, read_only=read_only)
        assert (caught.value.version, caught.value.path) == (99, str(database(tmp_path)))  # type: ignore[attr-defined]
    assert database(tmp_path).read_bytes() == before
    assert [file.name for file in database(tmp_path).parent.iterdir()] == ["memory.sqlite3"]


def test_a_process_that_was_overtaken_by_a_newer_version_writes_nothing_more(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
        sql(tmp_path, "PRAGMA user_version = 99")
        with pytest.raises(StoreVersionError, match="meanwhile"):
            store.index("a", entries("mud"))
        assert contents(store.search("a", "silt")) == ["silt"]
        sql(tmp_path, f"PRAGMA user_version = {current(tmp_path)}")
        store.index("a", entries("clay"))


OPEN = """
import os, sys
from siltstone.stores import MemoryStore
os.write(1, b"begins\\n")
MemoryStore.open(sys.argv[1])
os.write(1, b"done\\n")
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_migration_that_is_killed_is_done_or_not_begun(version: Path, tmp_path: Path) -> None:
    chance, seen = random.Random(7), {"before": 0, "after": 0}
    for run in range(RUNS):
        path = tmp_path / str(run)
        told = unpack(version, chance.choice(FORMS), path)
        child = subprocess.Popen([sys.executable, "-c", OPEN, str(path)], stdout=subprocess.PIPE)
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begins\n"
            time.sleep(chance.uniform(0.0, 0.02))
            child.send_signal(signal.SIGKILL)
            acknowledged = b"done" in child.stdout.read()
        copy = tmp_path / f"{run} copy"
        shutil.copytree(path, copy)
        found = user_version(copy)
        assert found in (int(version.name.partition("-")[2]), current(tmp_path / "now"))
        assert not acknowledged or found == current(tmp_path / "now")
        seen["after" if found == current(tmp_path / "now") else "before"] += 1
        assert read(path) == told
        for each in (path, copy):
            shutil.rmtree(each)
    print(f"\n{version.name}, {RUNS} runs: {seen}")
    assert sum(seen.values()) == RUNS
