"""One file that needs no network: does it have every page, and nothing that could be loaded or run?"""

import base64
import hashlib
import json
import re
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inspecting import figures, make_store
from siltstone import MemoryStore, Session
from siltstone.cli.app import app

EVIL = '"></pre></script><script>alert(1)</script> id="x" <img src=x onerror=alert(1)>'


def written(place: Path, file: Path, *options: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["inspect", str(place), "--export", str(file), *options])
    assert result.exit_code == code, result.output
    return file.read_text("utf-8") if code == 0 else result.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_store(tmp_path_factory.mktemp("export"))
    with Session.open(place, EVIL) as session:
        session.append({"role": "user", "content": EVIL}, {"role": "assistant", "content": EVIL})
        session.save(EVIL)
    return place


@pytest.fixture(scope="module")
def page(place: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(place, tmp_path_factory.mktemp("file") / "all.html")


def test_it_has_every_page_of_every_session(place: Path, page: str) -> None:
    for name in ("sessions", "s0", "s0-c1", "s0-c2", "s0-log", "s0-facts", "s1", "s2-log", "health"):
        assert f'<div class="sheet" id="{name}"' in page
    with MemoryStore.open(place, read_only=True) as store:
        assert page.count('<article class="item message') == store.stats().messages


def test_its_links_lead_to_what_it_has(page: str) -> None:
    links = set(re.findall(r'href="([^"]*)"', page))
    assert all(each.startswith("#") for each in links)
    names = re.findall(r'(?<= )id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert {each[1:] for each in links} <= {*names, "main"}
    labels = set(re.findall(r'aria-labelledby="([^"]+)"', page))
    assert labels <= set(names)


def test_it_loads_nothing_and_runs_nothing_but_its_own_script(page: str) -> None:
    assert page.count("<script") == 1
    assert page.count("<style") == 1
    assert "<img" not in page
    assert " src=" not in page.replace("src=x onerror", "")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    policy = policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_its_figures_are_those_of_the_command(place: Path, page: str) -> None:
    known = json.loads(CliRunner().invoke(app, ["timeline", str(place), "-s", "work", "--json"]).stdout)
    (sheet,) = re.findall(r'<div class="sheet" id="s0".*?(?=<div class="sheet")', page, re.DOTALL)
    assert figures(sheet, "context") == [turn["context"] for turn in known["turns"][::-1]]


def test_a_file_that_is_there_stays_and_a_new_one_is_its_owners_alone(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "there.html"
    file.write_text("mine")
    assert "there.html" in written(place, file, code=2)
    assert file.read_text() == "mine"
    written(place, tmp_path / "new.html", "--session", "other")
    assert stat.S_IMODE((tmp_path / "new.html").stat().st_mode) & 0o077 == 0
