"""`siltstone doctor`: its output, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import small
from siltstone import MemoryStore, Session
from siltstone.cli.app import app
from siltstone.engine import Compacted
from storing import database, entries, fill, sql


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fill(tmp_path)
    sql(tmp_path, "DELETE FROM compaction")  # it speaks of messages that the log of this store lacks
    return tmp_path


def test_a_whole_store_is_exit_code_0_and_left_as_it_is(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt", "mud"))
    before = database(tmp_path).read_bytes()
    told = run(tmp_path)
    assert (told.exit_code, "2 entries; nothing is wrong" in told.output) == (0, True)
    told = run(tmp_path, "--json")
    answer = json.loads(told.output)
    assert (told.exit_code, answer["healthy"], answer["findings"], answer["entries"]) == (0, True, [], 2)
    assert database(tmp_path).read_bytes() == before


def test_damage_is_exit_code_1_and_every_finding_is_told(path: Path) -> None:
    told = run(path, "--json")
    answer = json.loads(told.output)
    assert (told.exit_code, answer["healthy"]) == (1, False)
    codes = {finding["code"] for finding in answer["findings"]}
    assert codes == {"count", "head"}
    lines = run(path).output.splitlines()
    assert len(lines) == len(answer["findings"]) + 1
    assert lines[0].startswith("count: session ")


def test_a_store_that_cannot_tell_how_to_read_its_rows_is_damaged(path: Path) -> None:
    sql(path, "UPDATE meta SET value = 'poly31'")
    told = run(path, "--json")
    answer = json.loads(told.output)
    assert (told.exit_code, answer["entries"]) == (1, None)
    assert "does not match its checksum" in answer["findings"][0]["message"]
    assert "cannot be told; 1 findings" in run(path).output


@pytest.mark.parametrize("content", [None, b"not a store at all, and long enough to be looked at" * 20])
def test_what_is_no_store_is_exit_code_2(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        database(tmp_path).parent.mkdir()
        database(tmp_path).write_bytes(content)
    told = run(tmp_path / "nothing" if content is None else tmp_path)
    assert told.exit_code == 2
    assert "siltstone: " in told.output


TOKEN = "ghp_Zk3v9QpL2mXw8RtY5nBaJc7dHs1fKu4eVo6i"


def leaky(path: Path) -> None:
    """A store with a secret in every kind of row."""

    def model(_: object) -> str:
        return f"They pushed with {TOKEN}."

    said = [f"push with {TOKEN}", "ok", "and now " + "word " * 900, "done", "thanks", "ok", "more", "yes"]
    with Session.open(path, "s", policy=small(), context_window=16_000, model=model) as session:
        for number, text in enumerate(said):
            session.append({"role": ("user", "assistant")[number % 2], "content": text})
        assert isinstance(session.compact(), Compacted)
        session.save(f"the token is {TOKEN}", "fact")


def test_secrets_are_found_in_every_kind_of_row_and_never_told(tmp_path: Path) -> None:
    leaky(tmp_path)
    told = run(tmp_path, "--secrets", "--json")
    answer = json.loads(told.output)
    assert told.exit_code == 1
    assert TOKEN not in told.output
    assert {each["table"] for each in answer["secrets"]} >= {
        "session", "message", "entry", "derived", "fact",
    }  # fmt: skip
    message = next(each for each in answer["secrets"] if each["table"] == "message")
    assert (message["id"], message["path"], message["start"]) == (0, "content", 10)
    assert message["end"] - message["start"] == len(TOKEN)
    assert sum(answer["rules"].values()) == len(answer["secrets"])
    plain = run(tmp_path, "--secrets")
    assert (plain.exit_code, TOKEN in plain.output) == (1, False)
    assert plain.output.splitlines()[-1].endswith(f"{len(answer['secrets'])} secrets")


def test_a_store_without_secrets_is_exit_code_0_and_a_repair_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    before = database(tmp_path).read_bytes()
    told = run(tmp_path, "--secrets")
    assert (told.exit_code, "no secret" in told.output) == (0, True)
    assert database(tmp_path).read_bytes() == before
    assert run(tmp_path, "--secrets", "--repair").exit_code == 2
    assert run(tmp_path / "none", "--secrets").exit_code == 2
