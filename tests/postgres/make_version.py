"""Saves the tables of a store in PostgreSQL in the current version. Run it before the version changes.

    python tests/postgres/make_version.py 1

writes ``tests/postgres/version-1.sql.gz``, from which a server makes the tables again, and
``version-1.json``, the data that are read from them.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "stores")]

from make import write  # noqa: E402

from postgres_working import seen  # noqa: E402
from servers import QUICK, oldest, running  # noqa: E402
from siltstone.postgres import PostgresStore  # noqa: E402
from siltstone.postgres.schema import SCHEMA_VERSION  # noqa: E402


def filled(store: PostgresStore) -> None:
    """What the files of earlier versions have, facts, and a session of a namespace."""
    write(store)
    store.put_facts("a", [(None, "key", "said", '{"content": "Use tabs"}')])
    store.open_log("in a team").open("team")
    store.put_facts("in a team", [(None, "other", "said", '{"content": "Mondays"}')])


def main(version: int) -> None:
    """Writes both files."""
    assert version == SCHEMA_VERSION, f"the version at hand is {SCHEMA_VERSION}"
    programs = oldest()
    with running(programs, **QUICK) as server:
        with PostgresStore.open(server.dsn, setup=True) as store:
            filled(store)
            told = seen(store)
        dump = [
            programs[1] / "pg_dump",
            "--inserts",
            "--no-owner",
            "--no-privileges",
            "-n",
            "siltstone",
            server.dsn,
        ]
        said = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    lines = [
        line
        for line in said.splitlines()
        if not line.startswith(("\\", "--", "SET ", "SELECT pg_catalog.set_config"))
    ]
    sql = "\n".join(line for line in lines if line) + "\n"
    (HERE / f"version-{version}.sql.gz").write_bytes(gzip.compress(sql.encode(), mtime=0))
    (HERE / f"version-{version}.json").write_text(json.dumps(told, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
