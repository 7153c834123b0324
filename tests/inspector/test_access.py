"""Who is refused by the inspector, and the changes that pages may make with ``--write``."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from inspecting import BASE, PORT, figure, inspected, make_store
from siltstone import MemoryStore, Session
from siltstone.cli.app import app
from siltstone.inspector import Access

PAGES = (
    "/",
    "/session?session=work",
    "/compaction?session=work&id=1",
    "/log?session=work",
    "/message?session=work&seq=0",
    "/search?session=work&q=question",
    "/facts?session=work",
    "/health",
    "/live?session=work",
)
SECRET = "Question 1"  # a text of the store


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Access]]:
    with inspected(make_store(tmp_path_factory.mktemp("access"))) as both:
        yield both


@pytest.fixture
def stranger(opened: tuple[TestClient, Access]) -> Iterator[TestClient]:
    known, _ = opened
    held = dict(known.cookies)
    known.cookies.clear()
    yield known
    known.cookies.clear()
    for name, value in held.items():
        known.cookies.set(name, value)


@pytest.mark.parametrize("page", PAGES)
def test_without_the_cookie_no_page_says_anything_of_the_store(stranger: TestClient, page: str) -> None:
    answer = stranger.get(page)
    assert answer.status_code == 401
    assert "This page is locked" in answer.text
    assert "work" not in answer.text
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "siltstone-8123=", "siltstone-8123=guess", "siltstone-9=x; siltstone-8123=guess", "=;=\x00"],
)
def test_a_wrong_cookie_opens_nothing(stranger: TestClient, cookie: str) -> None:
    assert stranger.get("/", headers={"cookie": cookie.replace("\x00", "")}).status_code == 401


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(
    opened: tuple[TestClient, Access], stranger: TestClient
) -> None:
    _, access = opened
    answer = stranger.post("/unlock", json={"token": access.token}, headers={"origin": BASE})
    assert answer.status_code == 204
    held = answer.headers["set-cookie"].lower()
    assert "httponly" in held
    assert "samesite=strict" in held
    assert "domain" not in held
    assert access.token not in answer.headers["set-cookie"]
    assert stranger.get("/").status_code == 200


def test_a_token_has_256_bits_and_is_another_one_each_time() -> None:
    tokens = {Access(PORT).token for _ in range(10)}
    assert len(tokens) == 10
    assert all(len(token) == 43 for token in tokens)  # 32 bytes in the alphabet of addresses
    known = Access(PORT)
    assert len({known.token, known.cookie, known.form}) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b"", b"null", b"[]", b'{"token": 7}', b'{"token": ""}', b'{"token": "guess"}', b"\xff\xfe",
        b'{"token": "\\ud800"}', b"[" * 3000,
    ],
)  # fmt: skip
def test_a_wrong_token_gets_no_cookie(stranger: TestClient, body: bytes) -> None:
    headers = {"origin": BASE, "content-type": "application/json"}
    answer = stranger.post("/unlock", content=body, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_token_is_sent_as_json_and_is_short(opened: tuple[TestClient, Access], stranger: TestClient):
    _, access = opened
    form = stranger.post("/unlock", data={"token": access.token}, headers={"origin": BASE})
    assert form.status_code == 415
    headers = {"origin": BASE, "content-type": "application/json"}
    assert stranger.post("/unlock", content=b" " * 10_000, headers=headers).status_code == 413


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "http://127.0.0.1:9", "https://127.0.0.1:8123", f"{BASE}/", ""],
)
def test_a_post_of_another_origin_is_refused(opened: tuple[TestClient, Access], origin: str | None) -> None:
    client, access = opened
    headers = {} if origin is None else {"origin": origin}
    for path in ("/unlock", "/change"):
        answer = client.post(path, json={"token": access.token}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "localhost",
        "127.0.0.1:8123.evil.example",
        "[::1]:8123", "0.0.0.0:8123", "127.1:8123", "",
    ],
)  # fmt: skip
def test_a_host_that_is_not_the_inspectors_is_refused(opened: tuple[TestClient, Access], host: str) -> None:
    client, _ = opened
    for path in ("/", "/static/inspector.js", "/unlock"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert SECRET not in answer.text


def test_the_names_of_this_machine_are_known(opened: tuple[TestClient, Access]) -> None:
    client, access = opened
    held = {"cookie": f"{access.cookie_name}={access.cookie}"}
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"):
        assert client.get("/", headers={"host": host, **held}).status_code == 200


def test_methods_that_no_page_needs_are_refused(opened: tuple[TestClient, Access]) -> None:
    client, _ = opened
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.request(method, "/").status_code == 405
    assert client.post("/", headers={"origin": BASE}).status_code == 404


@pytest.mark.parametrize(
    "page", [*PAGES[:-1], "/static/inspector.css", "/nowhere", "/unlock", "/log?session=nobody"]
)
def test_every_answer_has_the_headers(opened: tuple[TestClient, Access], page: str) -> None:
    client, _ = opened
    headers = client.get(page).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    for kind in ("script-src", "style-src", "img-src", "connect-src", "form-action"):
        assert f"{kind} 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]


def test_refusals_have_the_headers_too(opened: tuple[TestClient, Access]) -> None:
    client, _ = opened
    for answer in (
        client.get("/", headers={"host": "evil.example"}),
        client.post("/unlock"),
        client.put("/"),
    ):
        assert answer.status_code in (403, 405, 421)
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_page_loads_nothing_from_elsewhere_and_has_no_script_or_style_of_its_own(
    opened: tuple[TestClient, Access],
) -> None:
    client, _ = opened
    for page in PAGES[:-1]:
        shown = client.get(page).text
        assert "http://" not in shown.replace("http://www.w3.org", "")
        assert "https://" not in shown
        assert " style=" not in shown
        assert "<style" not in shown
        assert shown.count("<script") == 1
        assert not [word for word in ("onclick", "onload", "onerror", "javascript:") if word in shown]


def test_a_file_outside_of_the_three_is_not_served(opened: tuple[TestClient, Access]) -> None:
    client, _ = opened
    for name in ("..%2Fapp.py", "../app.py", "%2e%2e/access.py", "base.html", "x", "inspector.css.map"):
        assert client.get(f"/static/{name}").status_code == 404


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
        ({"name": "Work"}, 404),
        ({"do": "drop"}, 404),
        ({"do": "undo", "id": 1}, 409),
        ({"do": "pin", "seq": 3}, 404),
        ({"do": "pin", "seq": 10**12}, 404),
        ({"do": "forget", "start": 5, "end": 5}, 404),
        ({"do": "forget", "start": 5}, 404),
        ({"session": "nobody", "name": "nobody"}, 404),
    ],
)
def test_a_form_that_is_not_right_changes_nothing(tmp_path: Path, fields: dict[str, Any], status: int):
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
