"""A store to look at, and a client of the inspector's pages."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from typer.testing import CliRunner

from conversations import small, turns
from siltstone import MemoryStore, Session
from siltstone.cli.app import app
from siltstone.engine import Compacted
from siltstone.inspector import Access, Subject, inspector_app
from siltstone.testing import ScriptedModel

PORT = 8123
BASE = f"http://127.0.0.1:{PORT}"


def make_store(place: Path, session_id: str = "work", **options: Any) -> Path:
    """Makes two sessions: one was compacted twice and has a later turn, the other was never compacted."""
    with Session.open(place, session_id, policy=small(), model=ScriptedModel(), **options) as session:
        session.append({"role": "system", "content": "Be brief."})
        for _ in range(2):
            session.append(*(message for turn in turns(8) for message in turn))
            assert isinstance(session.compact(), Compacted)
        session.append(*(message for turn in turns(2) for message in turn))
        session.save("The door code is 4711.")
    with Session.open(place, "other") as session:
        session.append({"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."})
    return place


@contextmanager
def inspected(place: Path, *, write: bool = False) -> Iterator[tuple[TestClient, Access]]:
    """A client that has the cookie, so that it can open the pages."""

    def open_store(read_only: bool) -> MemoryStore:
        return MemoryStore.open(place, read_only=read_only)

    with Subject(str(place), open_store, write=write) as subject:
        access = Access(PORT)
        app = inspector_app(subject, access)
        with TestClient(app, base_url=BASE, cookies={access.cookie_name: access.cookie}) as client:
            yield client, access


def told(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def shown(client: TestClient, page: str, status: int = 200) -> str:
    answer = client.get(page)
    assert answer.status_code == status, answer.text
    return answer.text


def figures(page: str, name: str) -> list[float]:
    """The numbers of a page with the machine-readable mark *name*."""
    found = re.findall(rf'<data value="([^"]+)" data-figure="{re.escape(name)}"', page)
    return [float(each) if "." in each else int(each) for each in found]


def figure(page: str, name: str) -> float:
    """The only number of a page with the mark *name*."""
    (found,) = set(figures(page, name))
    return found


@contextmanager
def started(place: Path | str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and the address that it printed."""
    command = [sys.executable, "-m", "siltstone", "inspect", str(place), "--no-open", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            text = ""
            while not text.endswith("}\n"):
                line = server.stdout.readline()
                assert line, "the inspector ended"
                text += line
            yield server, json.loads(text)["address"]
        finally:
            server.kill()
