"""Standing wishes: messages, of which ``held`` is no part of what was learned, and what it never does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostile_texts import hostile
from siltstone.knowledge import InMemoryFacts, has_wish, learn, pattern_facts
from siltstone.knowledge.standing import is_standing
from siltstone.messages import read_history

PLACE = Path(__file__).parents[1] / "data" / "standing"
MESSAGES = json.loads((PLACE / "messages.json").read_text("utf-8"))


def wishes(text: str) -> list[str]:
    told = read_history([{"role": "user", "content": text}])
    return [fact.content for fact in pattern_facts(told) if "standing" in fact.tags]


@pytest.mark.parametrize(
    ("name", "least", "most"), [("dev", (38, 19, 19, 19), 1), ("held", (28, 14, 17, 17), 8)]
)
def test_wishes_are_kept_and_few_other_messages_taken(name: str, least: tuple[int, ...], most: int) -> None:
    found = [(each, len(wishes(each["text"]))) for each in MESSAGES[name]]
    kept = Counter(each["lang"] for each, lines in found if each["wish"] and lines)
    taken = [lines for each, lines in found if not each["wish"]]
    assert kept >= Counter(dict(zip(("en", "de", "es", "zh"), least, strict=True)))
    assert sum(map(bool, taken)) <= most  # of 500
    assert sum(taken) <= 0.1 * sum(lines for _, lines in found)  # 9 of 10 lines are wishes


@pytest.mark.parametrize(("said", "later", "count"), MESSAGES["pairs"])
def test_a_newer_wish_replaces_the_older_one_of_its_subject(said: str, later: str, count: int) -> None:
    store = InMemoryFacts()
    told = pattern_facts(read_history([{"role": "user", "content": text} for text in (said, later)]))
    learn(store, told)
    kept = [fact.content for fact in store.facts() if fact.superseded_by is None]
    assert kept == [fact.content for fact in told][-count:]
    assert len(kept) == count


def test_the_weights_are_those_of_the_labelled_sentences() -> None:
    said = [line.split("\t") for file in PLACE.glob("*.tsv") for line in file.read_text("utf-8").splitlines()]
    wanted = [is_standing(text) for label, text in said if label == "1"]
    others = [is_standing(text) for label, text in said if label == "0"]
    assert sum(wanted) > 0.95 * len(wanted) > 10_000
    assert sum(others) < 0.01 * len(others)


@pytest.mark.parametrize("text", MESSAGES["not his own"])
def test_what_somebody_else_wrote_or_what_is_of_one_moment_is_no_wish(text: str) -> None:
    assert wishes(text) == []


def test_only_a_user_has_wishes() -> None:
    said = [{"role": role, "content": "Never push to main."} for role in ("user", "assistant")]
    [own, other] = read_history(said)
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
