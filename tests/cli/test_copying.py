"""``siltstone copy``: its output, and its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import small, turns
from siltstone import Entry, MemoryStore, Session
from siltstone.cli import edit
from siltstone.cli.app import app
from siltstone.stores.transfer import Copied
from siltstone.testing import ScriptedModel


def told(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with MemoryStore.open(tmp_path / "from") as store:
        with Session.open(None, "chat", memory=store, policy=small(), model=ScriptedModel()) as session:
            session.append(*(message for turn in turns(8) for message in turn))
            session.compact()
        store.index("notes", [Entry("silt settles")])
    return tmp_path / "from"


def test_it_tells_what_was_copied_and_what_was_there(source: Path, tmp_path: Path) -> None:
    answer = json.loads(told("copy", source, tmp_path / "to", "--json"))
    with MemoryStore.open(source, read_only=True) as store:
        stats = store.stats()
    assert answer["sessions"] == 2
    assert (answer["messages"], answer["entries"]) == (stats.messages, stats.entries)
    assert (answer["skipped"], answer["differing"]) == (0, [])
    again = told("copy", source, tmp_path / "to")
    assert f"has all 2 sessions, 2 of them from before: {stats.messages} messages, 1 compactions" in again
    assert json.loads(told("doctor", tmp_path / "to", "--json"))["healthy"]


def test_a_session_that_was_written_to_meanwhile_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(*_: Any, **__: Any) -> Copied:
        return Copied(sessions=2, differing=("chat",))

    monkeypatch.setattr(edit, "copy_store", copied)
    assert "not the same: 'chat'" in told("copy", source, tmp_path / "to", code=1)


def test_what_cannot_be_copied_is_refused_in_one_line(source: Path, tmp_path: Path) -> None:
    assert "are the same store" in told("copy", source, source, code=2)
    assert "there is nothing at" in told("copy", tmp_path / "nowhere", tmp_path / "to", code=2)
    assert "there is nothing at" in told("import", tmp_path / "nowhere", tmp_path / "to", code=2)
    with MemoryStore.open(tmp_path / "other") as store, Session.open(None, "chat", memory=store) as session:
        session.append({"role": "user", "content": "Somebody else."})
    assert "another one: it has another message 0" in told("copy", source, tmp_path / "other", code=2)
