"""Who is refused: every request that a page of another site, or another user, could make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from inspecting import BASE, PORT, inspected, make_store
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
    """A client without a cookie."""
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


def test_a_token_is_sent_as_json_and_is_short(
    opened: tuple[TestClient, Access], stranger: TestClient
) -> None:
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
