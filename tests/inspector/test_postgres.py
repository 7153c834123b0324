"""The inspector over PostgreSQL: the same pages, live, and nothing is changed or told that must not be."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

import pytest
from starlette.testclient import TestClient

from conversations import small, turns
from inspecting import BASE, PORT, figure, figures, shown, started, told
from postgres_stores import PostgresPool
from servers.postgres import Postgres
from siltstone import Session
from siltstone.cli.stores import open_place
from siltstone.engine import Compacted
from siltstone.inspector import Access, Subject, inspector_app
from siltstone.inspector.app import stamp
from siltstone.memory.base import Store
from siltstone.testing import ScriptedModel


@pytest.fixture
def address(newest_postgres: Postgres, pool: PostgresPool) -> str:
    place = newest_postgres.url(database=pool.name)
    with Session.open(place, "work", policy=small(), model=ScriptedModel()) as session:
        session.append(*(message for turn in turns(8) for message in turn))
        assert isinstance(session.compact(), Compacted)
        session.append(*(message for turn in turns(2) for message in turn))
    return place


@contextmanager
def inspected(place: str) -> Iterator[tuple[TestClient, Subject]]:
    def open_store(read_only: bool) -> Store:
        return open_place(place, read_only=read_only)

    with Subject(place, open_store) as subject:
        access = Access(PORT)
        app = inspector_app(subject, access)
        with TestClient(app, base_url=BASE, cookies={access.cookie_name: access.cookie}) as client:
            yield client, subject


def test_the_pages_have_the_figures_of_the_commands(address: str) -> None:
    with inspected(address) as (client, subject):
        assert subject.store.read_only
        for page in ("/?sort=name", "/compaction?session=work&id=1", "/facts?session=work"):
            shown(client, page)
        page = shown(client, "/session?session=work&window=100000")
        assert figure(page, "total_tokens") == told("context", address, "-s", "work")["total_tokens"]
        hits = told("search", address, "-s", "work", "question", "--limit", 3)["hits"]
        page = shown(client, "/search?session=work&q=question&limit=3")
        assert figures(page, "score") == pytest.approx([hit["score"] for hit in hits], abs=1e-6)
        page = shown(client, "/health?check=1")
        assert "Nothing is wrong" in page
        for name, value in told("doctor", address).items():
            if name in ("sessions", "messages", "entries", "compactions"):
                assert figure(page, name) == value


def test_another_process_is_followed(address: str) -> None:
    with inspected(address) as (client, subject):
        before, all_before = stamp(subject, "work"), stamp(subject, None)
        assert stamp(subject, "work") == before
        code = (
            "import sys; from siltstone import Session\n"
            "with Session.open(sys.argv[1], 'work') as session:\n"
            "    session.append({'role': 'user', 'content': 'a walrus from elsewhere'})\n"
        )
        subprocess.run([sys.executable, "-c", code, address], check=True)
        assert stamp(subject, "work") != before
        assert stamp(subject, None) != all_before
        assert "a walrus from elsewhere" in shown(client, "/log?session=work")


def test_the_command_serves_an_address_and_tells_no_password(address: str) -> None:
    with started(address) as (_, page), ExitStack() as stack:
        base, _, token = page.partition("/#token=")
        body = json.dumps({"token": token}).encode()
        headers = {"Content-Type": "application/json", "Origin": base}
        server = stack.enter_context(closing(HTTPConnection(base.removeprefix("http://"), timeout=300)))
        server.request("POST", "/unlock", body, headers)
        answer = server.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        server.request("GET", "/session?session=work", headers={"Cookie": cookie})
        assert "Context over time" in server.getresponse().read().decode()
    done = subprocess.run(
        [sys.executable, "-m", "siltstone", "inspect", "postgresql://u:hunter2@127.0.0.1:1/x", "--no-open"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
