"""The answer of memory_search has a budget: contents are cut first, and only then hits are left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, Entry, SearchHit, Session, SimpleMemoryStore, estimate_tokens
from siltstone.memory import SourceRange
from siltstone.tools.base import FLOOR, LEAST_BUDGET, answer_budget, shares
from siltstone.tools.memory import memory_search

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NEEDLE = "The vault code is 7731-alpha."


def hit(content: str, seq: int = 7) -> SearchHit:
    return SearchHit(content, 0.5, SourceRange(seq, seq + 1), seq, "user", NOW)


def answer(hits: list[SearchHit], budget: int | None = None) -> tuple[list[Any], int]:
    """The results, one JSON array, and how many were left out; the answer is within its budget."""
    text = memory_search(lambda *_: hits, budget=budget).call({"query": "vault code", "limit": 20})
    assert estimate_tokens(text) <= (budget or 2_000)
    found = json.loads(text)
    return found, found[-1].pop("left_out", 0) if found else 0


@pytest.mark.parametrize(
    ("window", "budget"), [(None, 2000), (8_000, 600), (20_000, 1_000), (200_000, 2_000), (1, 600)]
)
def test_the_default_is_a_twentieth_of_the_window_between_two_bounds(window: Any, budget: int) -> None:
    assert answer_budget(window) == budget


def test_a_long_hit_is_cut_to_the_passage_that_answers() -> None:
    for before in (0, 900, 5_000):
        text = "It rained all day. " * before + NEEDLE + " Nobody came." * 4_000
        (found,), left_out = answer([hit(text)], 600)
        assert NEEDLE in found["content"]
        assert found["content"].endswith("…")
        assert found["content"].startswith("…") == (before > 100)
        assert (found["score"], found["source_range"]) == (0.5, {"start": 7, "end": 8})
        assert left_out == 0


def test_hits_are_left_out_only_below_the_floor_and_their_number_is_told() -> None:
    hits = [hit(f"{NEEDLE} Number {number}. " + "hay " * 900, number) for number in range(20)]
    found, left_out = answer(hits, 600)
    assert 3 <= len(found) < 20
    assert [each["source_range"]["start"] for each in found] == list(range(len(found)))
    assert left_out == 20 - len(found)
    assert all(NEEDLE in each["content"] for each in found)
    assert all(estimate_tokens(each["content"]) >= FLOOR // 2 for each in found)
    everything, none = answer(hits, 20 * 120)
    assert (len(everything), none) == (20, 0)


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=20),
    budget=st.integers(LEAST_BUDGET, 2_000),
    char=st.sampled_from(["hay ", "\u6c34", '"', "\\", "\x01", "\U0001f600 "]),
)
def test_an_answer_keeps_to_its_budget_whatever_the_hits_are(sizes: Any, budget: int, char: str) -> None:
    hits = [hit(char * size, number) for number, size in enumerate(sizes)]
    found, left_out = answer(hits, budget)
    assert left_out == len(hits) - len(found)
    assert bool(found) == bool(hits)


@given(sizes=st.lists(st.integers(0, 500), max_size=9), room=st.integers(0, 3_000))
def test_shares_fill_the_room_and_no_more(sizes: list[int], room: int) -> None:
    share = shares(sizes, room)
    assert sum(min(size, share) for size in sizes) <= room
    if share < max(sizes, default=0):
        assert sum(min(size, share + 1) for size in sizes) > room


@pytest.mark.parametrize("budget", [0, LEAST_BUDGET - 1, -5, True, "600", 700.5])
def test_a_budget_that_has_no_room_is_refused(budget: Any) -> None:
    with pytest.raises(ConfigError, match="must be an integer >= 100 tokens"):
        memory_search(lambda *_: [], budget=budget)


@pytest.mark.parametrize(("window", "most"), [(8_000, 600), (30_000, 1_500)])
def test_the_tools_of_a_session_answer_a_share_of_its_window(window: int, most: int) -> None:
    with Session.open(None, "s", policy=None, context_window=window, memory=SimpleMemoryStore()) as session:
        session.store.index(
            "s", [Entry(f"silt {number} " + "mud " * 400, (number, number + 1)) for number in range(9)]
        )
        answer = session.memory_search.call({"query": "silt", "limit": 9})
        assert most // 2 < estimate_tokens(answer) <= most
        session.append({"role": "user", "content": "line\n" * 20_000})
        assert estimate_tokens(session.memory_get.call({"handle": "m0"})) <= most
