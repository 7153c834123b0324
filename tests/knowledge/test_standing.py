"""Standing wishes: sentences that nobody saw while the rule was fitted, and what the rule may never do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostile_texts import hostile
from siltstone.knowledge import has_wish, pattern_facts
from siltstone.knowledge.standing import is_standing
from siltstone.messages import read_history

PLACE = Path(__file__).parents[1] / "data" / "standing"
UNSEEN = json.loads((PLACE / "unseen.json").read_text("utf-8"))


def wishes(text: str) -> list[str]:
    told = read_history([{"role": "user", "content": text}])
    return [fact.content for fact in pattern_facts(told) if "standing" in fact.tags]


def plain(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


@pytest.mark.parametrize(("language", "least"), [("en", 0.85), ("de", 0.75), ("es", 0.75), ("zh", 0.75)])
def test_unseen_wishes_are_kept(language: str, least: float) -> None:
    said = [each for each in UNSEEN["wishes"] if each["lang"] == language]
    found = [any(plain(line)[:12] in plain(each["wish"]) for line in wishes(each["text"])) for each in said]
    assert sum(found) >= least * len(found)


@pytest.mark.parametrize(("kind", "most"), [("others", 9), ("decoys", 4)])
def test_few_other_messages_are_taken_for_wishes(kind: str, most: int) -> None:
    assert sum(bool(wishes(text)) for text in UNSEEN[kind]) <= most < 0.05 * len(UNSEEN[kind])


def test_the_weights_are_those_of_the_labelled_sentences() -> None:
    said = [line.split("\t") for file in PLACE.glob("*.tsv") for line in file.read_text("utf-8").splitlines()]
    wanted = [is_standing(text) for label, text in said if label == "1"]
    others = [is_standing(text) for label, text in said if label == "0"]
    assert sum(wanted) > 0.88 * len(wanted) > 5_000
    assert sum(others) < 0.01 * len(others)


@pytest.mark.parametrize(
    "text",
    [
        "> Never push to main.",
        "```\n# Never push to main.\n```",
        'The mail says: "Never push to main, whatever happens."',
        "Should I never push to main?",
        "My neighbour says he always eats at six.",
        "Answer this one in French.",
    ],
)
def test_what_somebody_else_wrote_or_what_is_of_one_moment_is_no_wish(text: str) -> None:
    assert wishes(text) == []


def test_only_a_user_has_wishes() -> None:
    [own, other] = read_history(
        [
            {"role": "user", "content": "Never push to main."},
            {"role": "assistant", "content": "Never push to main."},
        ]
    )
    assert has_wish(own)
    assert not has_wish(other)


def test_a_wish_before_or_behind_a_long_paste_is_seen() -> None:
    paste = "The server was restarted by somebody at noon.\n" * 2_000
    for text in (f"Never push to main.\n\n{paste}", f"{paste}\n\nNever push to main."):
        assert has_wish(read_history([{"role": "user", "content": text}])[0])


@given(st.sampled_from(hostile()) | st.text())
def test_any_text_is_judged(text: str) -> None:
    assert is_standing(text) in (True, False)
    wishes(text)
