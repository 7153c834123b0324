"""Recalls on the pages: the figures of the command, and entries that have left since."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from conversations import assistant, user
from inspecting import figure, figures, inspected, shown, told
from siltstone import Entry, MemoryStore, RecallConfig, Session

SECRET = "the walrus password for the quarry is basalt-seven"
LEFT = "a walrus was seen at the quarry, without its password"


def fill(place: Path, turns: int) -> None:
    with MemoryStore.open(place) as store:
        store.index("s", [Entry(text, created_at=1.0) for text in (SECRET, LEFT, "silt")])
        long = [Entry(f"walrus {n} of the quarry: " + "gneiss " * 400, created_at=4.0 + n) for n in range(3)]
        store.index("s", long)
        recall = RecallConfig(hard_cap_tokens=600, cut=False, expand_neighbors=0)
        with Session.open(
            None, "s", memory=store, policy=None, context_window=100_000, recall=recall, knowledge=False
        ) as session:
            session.append(user("what is a zwieback?"))
            session.prepare()
            session.append(assistant("a rusk"))
            for turn in range(turns):
                session.append(user(f"which walrus password has the quarry? {turn}"))
                session.prepare()
                session.append(assistant("basalt"))
        store.forget(text=LEFT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recalls")
    fill(path, 3)
    return path


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[TestClient]:
    with inspected(place) as (client, _):
        yield client


def test_the_log_of_recalls_has_the_figures_of_the_command(place: Path, client: TestClient) -> None:
    known = told("recalls", place, "-s", "s")["recalls"]
    page = shown(client, "/search?session=s")
    assert len(known) == 4
    assert figures(page, "recall_tokens") == [each["tokens"] for each in known]
    assert figures(page, "recall_cap") == [each["cap"] for each in known]
    story, context = shown(client, "/session?session=s"), told("context", place, "-s", "s", "--recall")
    assert {name: figure(story, name) for name in context["recall"]} == context["recall"]
    assert figure(story, "category:recalled") == context["categories"]["recalled"] == known[0]["tokens"]
    assert figures(page, "recall_seconds") == pytest.approx([each["seconds"] for each in known])
    scores = [candidate["score"] for each in known for candidate in each["candidates"]]
    assert figures(page, "recall_score") == pytest.approx(scores)
    left = [sum(each["placing"] == "budget" for each in recall["candidates"]) for recall in known]
    assert figures(page, "recall_left_out") == [count for count in left if count]
    assert max(left) > 0
    assert figures(page, "recall_below") == [each["below"] for each in known if each["below"]]
    assert re.findall(r'id="recall(\d+)"', page) == [str(each["position"]) for each in known]
    assert "nothing was placed: nothing scored enough" in page
    assert known[0]["asked"] in page


def test_an_entry_that_has_left_is_shown_as_forgotten(place: Path, client: TestClient) -> None:
    page = shown(client, "/search?session=s")
    known = told("recalls", place, "-s", "s")["recalls"]
    gone = [each for recall in known for each in recall["candidates"] if each["content"] is None]
    assert len(gone) == 3
    assert page.count('<td class="note">forgotten</td>') == 3
    assert LEFT not in page
    assert SECRET in page


def test_the_timeline_marks_what_was_placed(place: Path, client: TestClient) -> None:
    page = shown(client, "/session?session=s")
    placed = [each for each in told("recalls", place, "-s", "s")["recalls"] if each["tokens"]]
    assert page.count('<g class="recall"') == len(placed) == figure(page, "recalls_placed")
    for each in placed:
        assert (
            f"recall before message {each['position']}: {each['tokens']:,} of {each['cap']:,} tokens" in page
        )
