"""The commands ``postgres setup | check | erase``, and the others by the address of a database."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import conversation, small, user
from servers import Postgres, running
from siltstone import Entry, Session
from siltstone.cli import bench
from siltstone.cli.app import app
from siltstone.errors import ConfigError, ReadOnlyStoreError
from siltstone.testing import ScriptedModel

psycopg = pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")

SECRET = "AKIAGRUENWALD7"
PASSWORD = "not-to-be-told"


def told(*arguments: object, code: int = 0, text: str = "") -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)], input=text)
    assert result.exit_code == code, result.output
    assert PASSWORD not in result.output
    return result.output


def answer(*arguments: object, code: int = 0) -> Any:
    return json.loads(told(*arguments, "--json", code=code))


def address(server: Postgres, database: str) -> str:
    """With a password, which a trusting server does not ask for."""
    return server.url(database=database).replace("postgres@", f"postgres:{PASSWORD}@")


def schemas(url: str) -> list[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'siltstone%'"
        ).fetchall()
        return [name for (name,) in rows]


@pytest.fixture
def url(newest_postgres: Postgres) -> Iterator[str]:
    with newest_postgres.database() as database:
        yield address(newest_postgres, database)


def fill(url: str) -> None:
    with Session.open(url, "chat", policy=small(), model=ScriptedModel()) as session:
        session.append(user(f"the code is {SECRET}"), *conversation(8))
        session.compact()


def test_tables_are_made_looked_at_and_rewritten(url: str) -> None:
    assert "no tables" in told("postgres", "check", url, code=2)
    assert "no tables" in told("postgres", "erase", url, code=2)
    assert "has the tables of a store" in told("postgres", "setup", url)
    assert answer("postgres", "setup", url)["schema"] == "siltstone"
    fill(url)
    seen = answer("postgres", "check", url, code=1)  # this server is not durable, and says so
    assert (seen["sessions"], seen["findings"], seen["fsync"]) == (1, [], False)
    assert len(seen["warnings"]) == 2
    assert "fsync is off" in told("postgres", "check", url, code=1)
    erased = answer("postgres", "erase", url)
    assert erased["done"]
    assert erased["checkpoint"]
    assert "backups" in told("postgres", "erase", url)


def test_another_schema_stands_behind_the_address(url: str) -> None:
    told("postgres", "setup", f"{url}#other")
    assert "no tables" in told("sessions", url, code=2)
    assert answer("sessions", f"{url}#other")["sessions"] == []


def test_a_durable_server_is_told_from_one_that_loses(tmp_path: Path) -> None:
    with running() as server, server.connect() as holding:
        url = address(server, "postgres")
        told("postgres", "setup", url)
        fill(url)
        assert "nothing is wrong" in told("postgres", "check", url)
        told("forget", url, "--text", SECRET, "--yes", code=1)
        server.rows("CHECKPOINT")
        assert SECRET.encode() in content(server.data / "base")
        holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holding.execute("SELECT 1")
        assert answer("postgres", "erase", url, code=1)["transactions"] == 1
        holding.execute("COMMIT")
        assert "out of reach" in told("postgres", "erase", url)
        assert SECRET.encode() not in content(server.data / "base")
        assert "nothing is wrong" in told("postgres", "check", url)


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("command", [("postgres", "setup"), ("postgres", "erase"), ("sessions",)])
def test_what_is_no_address_is_refused_without_a_word_of_it(command: tuple[str, ...]) -> None:
    for given in (f"postgresql://a:{PASSWORD} b@h/d", f"postgresql://h:{PASSWORD}/d"):
        told(*command, given, code=2)


def test_the_commands_over_a_store_take_the_address_of_a_database(url: str, tmp_path: Path) -> None:
    told("postgres", "setup", url)
    fill(url)
    assert [each["session_id"] for each in answer("sessions", url)["sessions"]] == ["chat"]
    assert SECRET in told("show", url, "-s", "chat", "--end", 1)
    assert answer("search", url, "-s", "chat", "question 2")["hits"]
    (compaction,) = answer("compactions", url, "-s", "chat")["compactions"]
    assert answer("compactions", url, "-s", "chat", "--diff", compaction["id"])["summarised"]
    assert answer("expand", url, "-s", "chat", compaction["id"])["messages"]
    assert answer("context", url, "-s", "chat")["total_tokens"] > 0
    assert answer("timeline", url, "-s", "chat")["turns"]
    assert answer("facts", url, "-s", "chat")["facts"] == []
    assert answer("doctor", url)["healthy"]
    assert answer("doctor", url, "--secrets", code=0)["texts"] > 0
    told("export", url, "-s", "chat", tmp_path / "chat.jsonl")
    told("import", tmp_path / "chat.jsonl", url, "--session", "again")
    assert len(answer("show", url, "-s", "again")["messages"]) == len(
        answer("show", url, "-s", "chat")["messages"]
    )
    assert answer("import", tmp_path / "chat.jsonl", url, "--session", "again")["unchanged"] == 1
    assert "has no session 'nobody'" in told("show", url, "-s", "nobody", code=2)
    assert answer("undo", url, "-s", "chat")["undone"]
    assert answer("forget", url, "--text", SECRET, "--dry-run")["messages"] == 2
    assert "postgres erase" in told("forget", url, "--text", SECRET, "--yes", code=1)
    assert SECRET not in told("show", url, "-s", "chat")


def test_a_store_is_copied_to_a_database_and_back(url: str, tmp_path: Path) -> None:
    told("postgres", "setup", url)
    with Session.open(tmp_path / "from", "chat", policy=small(), model=ScriptedModel()) as session:
        session.append(*conversation(8))
        session.compact()
        session._core.store.index("notes", [Entry("silt settles")])
    there = answer("copy", tmp_path / "from", url)
    back = answer("copy", url, tmp_path / "to")
    assert {**there, "source": 0, "target": 0} == {**back, "source": 0, "target": 0}
    assert there["sessions"] == 2
    again = answer("copy", tmp_path / "from", tmp_path / "to")
    assert again["skipped"] == 2
    assert "are the same store" in told("copy", url, url, code=2)


def test_a_server_of_mcp_serves_a_session_of_a_database(url: str) -> None:
    pytest.importorskip("mcp", reason="mcp comes with the extra mcp")
    from siltstone.mcp import Access, open_memory

    for schema in ("", "#other"):
        told("postgres", "setup", url + schema)
        fill(url + schema)
        with open_memory(url + schema, "chat") as memory:
            assert memory.session.search("code")[0].content.startswith("the code is")
            with pytest.raises(ReadOnlyStoreError):
                memory.session.append(user("hello"))
        with open_memory(url + schema, access=Access(write=True)) as memory:
            memory.session.append(user("hello"))
            assert memory.session.log()[-1] == user("hello")
        with pytest.raises(ConfigError, match="the store has no session 'nobody'") as caught:
            open_memory(url + schema, "nobody")
        assert PASSWORD not in str(caught.value)
    assert "cannot open" in told("mcp", "--store", url.replace("127.0.0.1", "127.0.0.9"), code=2)


def test_bench_measures_where_it_is_told_to_and_leaves_nothing_there(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = bench._timed
    monkeypatch.setattr(bench, "_timed", lambda call, **given: timed(call, **{**given, "repeats": 2}))
    here = answer("bench", "--messages", 100, "--store", tmp_path)["microseconds"]
    there = answer("bench", "--messages", 100, "--store", url)["microseconds"]
    assert there.keys() == here.keys() > {"append, on disk", "search, best 5"}
    assert all(times["p50"] > 0 for found in (here, there) for times in found.values())
    assert schemas(url) == list(tmp_path.iterdir()) == []
    assert "none" in told("bench", "--store", tmp_path / "none", code=2)
    assert "refused" in told("bench", "--store", "postgresql://127.0.0.1:1/app?connect_timeout=60", code=2)
