"""A disk that is really full: what raised is not there, what was acknowledged is, and room makes it go on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres_working import opened
from servers import Postgres, running
from servers.account import folder, given_away
from siltstone import Entry, Session
from siltstone.errors import StoreIoError

pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of 16 MiB, with a file of 3 MiB on it."""
    place = folder("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(place)
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        given_away(place)
        (place / "ballast").write_bytes(bytes(3 << 20))
        (place / "tables").mkdir()
        given_away(place / "tables")
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        shutil.rmtree(place)


@pytest.fixture
def server() -> Iterator[Postgres]:
    with running(fsync="off") as server:
        yield server


def test_a_disk_that_is_full_loses_nothing_that_was_acknowledged(disk: Path, server: Postgres) -> None:
    # The tables are there, and the server's log is not: a server whose log is full ends itself.
    server.rows(f"CREATE TABLESPACE tiny LOCATION '{disk / 'tables'}'")
    server.rows("CREATE DATABASE full_one TABLESPACE tiny")
    dsn = server.address(database="full_one")
    acknowledged = 0
    with opened(dsn, setup=True) as store, Session.open(None, "chat", memory=store) as session:

        def fill() -> None:
            nonlocal acknowledged
            while True:
                text = f"number {acknowledged} " + os.urandom(60_000).hex()  # no page can compress it
                place = (acknowledged, acknowledged + 1)
                store.index("a", [Entry(text, place), Entry("beside it", place)])
                session.append({"role": "user", "content": text[:20_000]})
                acknowledged += 1

        with pytest.raises(StoreIoError, match="No space left on device"):
            fill()
        assert acknowledged > 3
        entries = len(store.entries("a", limit=1_000).entries)
        assert len(session.log()) == acknowledged
        assert entries in (2 * acknowledged, 2 * acknowledged + 2), "a batch is there whole, or not at all"
        assert store.check() == []
        with opened(dsn) as other:
            assert len(other.entries("a", limit=1_000).entries) == entries
            assert other.check() == []
        (disk / "ballast").unlink()
        store.index("a", [Entry("there is room again")])
        session.append({"role": "user", "content": "there is room again"})
        assert len(session.log()) == acknowledged + 1
        assert [hit.content for hit in store.search("a", "is there room again?", 1)] == [
            "there is room again"
        ]
        assert store.check() == []
    server.rows("DROP DATABASE full_one WITH (FORCE)")
    server.rows("DROP TABLESPACE tiny")
