"""The changes that pages may make with ``--write``: after a preview, by hand, and while an agent goes on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from inspecting import BASE, figure, inspected, make_store
from siltstone import MemoryStore, Session
from siltstone.cli.app import app
from siltstone.inspector import Access

ORIGIN = {"origin": BASE}

AGENT = """
import sys
from siltstone import CompactionConfig, Session, ThresholdCompactor
config = CompactionConfig(auto_compact_threshold=600, recent_turn_budget=2, max_summary_tokens=200)
with Session.open(sys.argv[1], "agent", policy=ThresholdCompactor(config)) as session:
    for turn in range(10_000):
        session.append({"role": "user", "content": f"Question {turn}. " + "word " * 60})
        session.prepare()
        session.append({"role": "assistant", "content": f"Answer {turn}. " + "word " * 60})
        print(turn, flush=True)
        if sys.stdin.readline().strip() == "stop":
            break
"""


def told(*arguments: object) -> Any:
    return json.loads(CliRunner().invoke(app, [*map(str, arguments), "--json"]).stdout)


def post(client: TestClient, access: Access, **fields: object) -> Any:
    known = {"form": access.form, "session": "work", "name": "work", **fields}
    return client.post("/change", data={name: str(value) for name, value in known.items()}, headers=ORIGIN)


def fields_of(page: str) -> dict[str, str]:
    """The hidden fields of the form of a preview."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def versions(place: Path) -> Any:
    with MemoryStore.open(place, read_only=True) as store:
        return [store.open_log(name).version() for name in ("work", "other")]


def test_without_write_nothing_is_previewed_and_nothing_is_done(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    before = versions(place)
    with inspected(place) as (client, access):
        assert client.get("/change?session=work&do=undo").status_code == 403
        assert post(client, access, do="undo", id=2).status_code == 403
        page = client.get("/session?session=work").text
        assert "/change" not in page
        assert "/change" not in client.get("/log?session=work").text
    assert versions(place) == before


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"form": "guess"}, 403),
        ({"form": ""}, 403),
        ({"name": "Work"}, 404),
        ({"name": ""}, 404),
        ({"do": "drop"}, 404),
        ({"do": ""}, 404),
        ({"do": "undo", "id": 1}, 409),
        ({"do": "undo", "id": ""}, 409),
        ({"do": "pin", "seq": "x"}, 404),
        ({"do": "pin", "seq": 3}, 404),
        ({"do": "pin", "seq": 10**12}, 404),
        ({"do": "forget", "start": 5, "end": 5}, 404),
        ({"do": "forget", "start": 5}, 404),
        ({"session": "nobody", "name": "nobody"}, 404),
    ],
)
def test_a_form_that_is_not_right_changes_nothing(
    tmp_path: Path, fields: dict[str, Any], status: int
) -> None:
    place = make_store(tmp_path)
    before = versions(place)
    with inspected(place, write=True) as (client, access):
        answer = post(client, access, **{"do": "undo", "id": 2, **fields})
        assert answer.status_code == status, answer.text
        assert "All sessions" in answer.text
    assert versions(place) == before


def test_without_a_cookie_or_of_another_origin_a_form_changes_nothing(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    before = versions(place)
    with inspected(place, write=True) as (client, access):
        known = {"form": access.form, "session": "work", "name": "work", "do": "undo", "id": "2"}
        assert (
            client.post("/change", data=known, headers={"origin": "http://evil.example"}).status_code == 403
        )
        assert client.post("/change", data=known).status_code == 403
        client.cookies.clear()
        assert client.post("/change", data=known, headers=ORIGIN).status_code == 401
    assert versions(place) == before


def test_a_compaction_is_taken_back_after_a_preview(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    last = told("compactions", place, "-s", "work")["compactions"][-1]
    known = told("compactions", place, "-s", "work", "--diff", last["id"])
    with inspected(place, write=True) as (client, access):
        assert "Undo the last one" in client.get("/session?session=work").text
        preview = client.get("/change?session=work&do=undo").text
        assert figure(preview, "returns") == len(known["summarised"])
        assert len(told("compactions", place, "-s", "work")["compactions"]) == 2  # the preview did nothing
        fields = fields_of(preview)
        assert fields["form"] == access.form
        answer = client.post("/change", data={**fields, "name": "work"}, headers=ORIGIN)
        assert answer.status_code == 200
        assert f"Compaction {last['id']} was taken back" in answer.text
        assert [each["id"] for each in told("compactions", place, "-s", "work")["compactions"]] == [
            last["id"] - 1
        ]
        again = client.post("/change", data={**fields, "name": "work"}, headers=ORIGIN)  # a page loaded anew
        assert again.status_code == 409
        page = client.get("/session?session=work").text  # the pages follow
        assert 'class="item undone"' in page
    assert len(told("compactions", place, "-s", "work")["compactions"]) == 1


def test_what_is_forgotten_is_what_the_preview_said_and_its_bytes_are_gone(tmp_path: Path) -> None:
    secret = "the-launch-code-is-0000"
    with Session.open(tmp_path, "work") as session:
        session.append(
            {"role": "user", "content": "Hello."},
            {"role": "user", "content": secret},
            {"role": "assistant", "content": "Noted."},
        )
    known = told("forget", tmp_path, "--session", "work", "--start", 1, "--end", 2, "--dry-run")
    with inspected(tmp_path, write=True) as (client, _):
        preview = client.get("/change?session=work&do=forget&start=1&end=2").text
        for name in ("messages", "entries", "summaries"):
            assert figure(preview, name) == known[name]
        answer = client.post("/change", data={**fields_of(preview), "name": "work"}, headers=ORIGIN)
        assert answer.status_code == 200
        assert "1 message was forgotten" in re.sub(r"<[^>]+>", "", answer.text)
        page = client.get("/log?session=work").text
        assert secret not in page
        assert "forgotten" in page
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(secret.encode() in data for data in files)


def test_a_running_agent_goes_on_beside_every_change(tmp_path: Path) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdin is not None
    assert agent.stdout is not None

    def turns(count: int) -> None:
        for _ in range(count):
            assert agent.stdin is not None
            assert agent.stdout is not None
            assert agent.stdout.readline(), "the agent has ended"
            agent.stdin.write("go\n")
            agent.stdin.flush()

    try:
        turns(30)
        with inspected(tmp_path, write=True) as (client, access):

            def change(**fields: object) -> None:
                """Previews it and does it; anew where the agent has compacted in between."""
                answer = None
                while answer is None or answer.status_code == 409:
                    if fields["do"] == "undo":
                        fields["id"] = fields_of(client.get("/change?session=agent&do=undo").text)["id"]
                    answer = post(client, access, session="agent", name="agent", **fields)
                assert answer.status_code == 200, answer.text

            for step in range(4):
                with MemoryStore.open(tmp_path, read_only=True) as store:
                    newest = store.open_log("agent").state().next_seq - 1  # no compaction takes it so soon
                change(do="pin", seq=newest)
                turns(5)
                change(do="unpin", seq=newest)
                change(do="forget", start=step * 3, end=step * 3 + 1)
                turns(5)
                change(do="undo")
                turns(5)
        assert agent.stdout.readline()
        agent.stdin.write("stop\n")
        agent.stdin.flush()
        assert agent.wait(30) == 0
    finally:
        agent.kill()
        agent.communicate()
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []
        said = [row.provenance for row in store.open_log("agent").read(0, 12)]
        assert said.count("placeholder") == 4
