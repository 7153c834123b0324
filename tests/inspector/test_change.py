"""The page of one compaction: the parts of both views, and the summary that a new one replaced."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from conversations import exchange, small, turns, user
from inspecting import figure, figures, inspected, make_store, shown, told
from siltstone import Session
from siltstone.engine import Compacted
from siltstone.testing import ScriptedModel


def agrees(place: Path, client: TestClient, session: str, number: int) -> dict[str, Any]:
    """The figures of a compaction: its bars have those of the command, and add up to its context."""
    known: dict[str, Any] = told("compactions", place, session, "--diff", number)
    page = shown(client, f"/compaction?session={session}&id={number}")
    for when in ("before", "after"):
        for kind, share in known[when].items():
            assert figure(page, f"{when}_{kind}") == share["count"] > 0
            assert figure(page, f"{when}_{kind}_tokens") == share["tokens"]
        assert sum(share["tokens"] for share in known[when].values()) == known[f"tokens_{when}"]
        kinds = set(re.findall(rf'data-figure="{when}_(\w+)"', page))
        assert {kind.removesuffix("_tokens") for kind in kinds} == set(known[when])
    return known


def test_the_bars_show_the_summary_that_the_new_one_replaced(tmp_path: Path) -> None:
    place = make_store(tmp_path)
    with inspected(place) as (client, _):
        first, second = (agrees(place, client, "work", number) for number in (1, 2))
        assert "replaced" not in first["before"]
        assert second["before"]["replaced"] == first["after"]["new"]
        assert {"new", "kept"} == set(second["after"])
        page = html.unescape(shown(client, "/compaction?session=work&id=2"))
        assert page.count('<rect class="fate-replaced" x="0.000%"') == 1
        (old,) = re.findall(r'<div class="old">.*?</div>', page, re.DOTALL)
        said = told("compactions", place, "work")["compactions"][0]["summary"]
        assert said.splitlines()[0] in old, "its text can be read beside the new one"
        (block,) = re.findall(
            r'<div class="block item fate-replaced".*?(?=<div class="block )', page, re.DOTALL
        )
        assert "a new summary stands for its messages" in block
        assert "a rule of the system" not in block, "that is why the message before it stayed"


def test_texts_are_counted_as_the_policy_counted_the_messages(tmp_path: Path) -> None:
    policy = small(estimator="bytes/4")
    with Session.open(
        tmp_path, "s", policy=policy, model=ScriptedModel(["".join(f"Gate {n} holds. " for n in range(40))])
    ) as session:
        session.append(*(message for turn in turns(8) for message in turn))
        assert isinstance(session.compact(), Compacted)
    known = told("compactions", tmp_path, "s", "--diff", 1)
    for when in ("before", "after"):
        count, tokens = (sum(share[name] for share in known[when].values()) for name in ("count", "tokens"))
        assert 0 <= known[f"tokens_{when}"] - tokens <= count, "each is rounded by itself"


def test_the_new_summary_stands_beside_what_it_replaced_or_the_longest_stretch(tmp_path: Path) -> None:
    with inspected(make_store(tmp_path)) as (client, _):
        for number, beside in ((1, "summarised"), (2, "replaced")):
            page = shown(client, f"/compaction?session=work&id={number}")
            block = r'<div class="block item fate-(\w+)"(.*?)(?=<div class="block item|</section>)'
            blocks = re.findall(block, page, re.DOTALL)
            assert [decision for decision, text in blocks if '<div class="box new">' in text] == [beside]
            gone = [text for decision, text in blocks if decision in ("summarised", "replaced")]
            told = sum("the new summary stands for" in text for text in gone)
            assert told == len(gone) - 1, "the others name it"


def test_what_stood_shorter_in_the_context_counts_as_it_stood_there(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(user("look through all of it"))
        call, result = exchange(0, "line of the output\n" * 400)
        session.append(call)
        session.offload(result, 64)
        shorter = session.compactions()[-1]
        session.append(*(message for turn in turns(8) for message in turn))
        assert isinstance(session.compact(), Compacted)
        last = session.compactions()[-1]
    with inspected(tmp_path) as (client, _):
        known = agrees(tmp_path, client, "s", last.id)
        assert known["before"]["summarised"]["tokens"] < known["tokens_before"]
        known = agrees(tmp_path, client, "s", shorter.id)
        assert known["after"]["shortened"]["count"] == 1
        assert known["after"]["shortened"]["tokens"] < known["before"]["shortened"]["tokens"]
        assert figures(shown(client, f"/compaction?session=s&id={shorter.id}"), "after_new") == []
