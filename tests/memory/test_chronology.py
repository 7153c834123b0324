"""A search in order of time: the chosen hits, their spread, and their order."""

from __future__ import annotations

import itertools
from heapq import heapreplace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone.memory import Entry, SearchHit, SourceRange
from siltstone.memory.convert import datetime_from
from siltstone.memory.hits import in_time
from siltstone.session import Session
from siltstone.stores import MemoryStore


def hit(score: float, start: int, session: str = "s", at: int | None = None, length: int = 1) -> SearchHit:
    when = datetime_from(1_000 * (start if at is None else at))
    place = SourceRange(start, start + length)
    return SearchHit(f"{session}{start}", score, place, start + 1, "user", when, session_id=session)


HITS = st.lists(
    st.builds(
        hit,
        st.integers(1, 10**6).map(lambda number: number * 0.6180339887498949 % 1),  # no two alike
        st.integers(0, 40),
        st.sampled_from(["s", "t"]),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=30,
    unique_by=(lambda each: (each.session_id, each.source_range), lambda each: each.score),
).map(lambda hits: sorted(hits, key=lambda each: -each.score))


@given(HITS)
def test_one_session_is_in_the_order_of_its_messages_and_several_are_in_that_of_time(
    hits: list[SearchHit],
) -> None:
    found = in_time(hits, 10)
    is_one = len({each.session_id for each in found}) == 1
    if is_one and all(each.source_range[0] < each.source_range[1] for each in found):
        assert found == sorted(found, key=lambda each: each.source_range)
    else:
        assert found == sorted(found, key=lambda each: each.created_at)


@given(HITS, st.integers(1, 12))
def test_the_choice_is_that_of_the_plain_rule(hits: list[SearchHit], limit: int) -> None:
    kept, left, chosen = [1.0] * len(hits), set(range(len(hits))), set()
    while left and len(chosen) < limit:
        best = max(left, key=lambda at: (hits[at].score * kept[at], -at))
        left.discard(best)
        chosen.add(best)
        for at in left:
            one, other = hits[at], hits[best]
            are_said = (
                one.source_range[0] < one.source_range[1] and other.source_range[0] < other.source_range[1]
            )
            apart = abs(one.source_range[0] - other.source_range[0])
            if are_said and one.session_id == other.session_id and apart <= 4:
                kept[at] *= 0.95
    found = in_time(hits, limit)
    assert {id(each) for each in found} == {id(hits[at]) for at in chosen}


def test_many_hits_of_one_message_are_chosen_without_a_scan_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.count()

    def counted(heap: list[Any], item: Any) -> Any:
        next(steps)
        return heapreplace(heap, item)

    monkeypatch.setattr("siltstone.memory.hits.heapreplace", counted)
    hits = [hit(1 - at / 10_000, 10 if at % 2 else at) for at in range(5_000)]
    assert len(in_time(hits, 2_500)) == 2_500
    assert next(steps) < 10 * len(hits)


def test_the_order_of_a_reranker_counts_and_not_the_scores_that_it_left() -> None:
    hits = [hit(0.1, 30), hit(0.9, 10), hit(0.5, 50)]  # as a reranker gave them
    assert [each.source_range[0] for each in in_time(hits, 1)] == [30]


@pytest.fixture
def talk(tmp_path: Path) -> MemoryStore:
    store = MemoryStore.open(tmp_path)
    texts = [f"the kettle number {n}" if n % 10 == 3 else f"silt of day {n}" for n in range(60)]
    store.index("s", [Entry(text, (n, n + 1)) for n, text in enumerate(texts)])
    return store


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_a_store_gives_mentions_as_they_were_said(talk: MemoryStore, ranker: Any) -> None:
    found = talk.search("s", "kettle", 6, ranker=ranker, order="time")
    assert [each.source_range[0] for each in found] == [3, 13, 23, 33, 43, 53]
    best = talk.search("s", "kettle", 6, ranker=ranker)
    assert {each.content for each in best} >= {"the kettle number 53"}


def test_a_session_leaves_out_what_is_in_context_and_spreads_the_rest(tmp_path: Path) -> None:
    session = Session.open(tmp_path, "s", context_window=4_000)
    for n in range(80):
        topic = "the valve leaks" if n % 8 == 5 else f"weather report {n} " + "rain and wind " * 20
        session.append({"role": "user" if n % 2 == 0 else "assistant", "content": topic})
    session.compact()
    places = [each.source_range[0] for each in session.search("valve leaks", 5, order="time")]
    assert places == sorted(places)
    assert len(places) == 5
    answer = session.memory_search.call({"query": "valve leaks", "limit": 5, "order": "time"})
    assert answer.count('"content"') == 5
    session.close()
