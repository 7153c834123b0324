"""The order of the best hits: that of time, and that of a reranker, on which a search never depends."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Sequence
from heapq import heapreplace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError
from siltstone.events import SearchDegraded
from siltstone.memory import Entry, SearchHit, SourceRange
from siltstone.memory.convert import datetime_from
from siltstone.memory.hits import Reranker, in_time
from siltstone.session import Session
from siltstone.stores import MemoryStore
from storing import contents


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


# -- a reranker orders the best hits, and a search never depends on it ------------------------


TEXTS = [f"silt {'silt ' * number}of bed {number}" for number in range(8)]


class Told(list[object]):
    """The calls of a hook."""

    def __call__(self, event: object) -> None:
        self.append(event)


@pytest.fixture
def told() -> Told:
    return Told()


def opened(path: Path, reranker: Any, told: Told) -> MemoryStore:
    store = MemoryStore.open(path, reranker=reranker, hooks=[told])
    store.index("s", [Entry(text, (n, n + 1), created_at=1_000.0) for n, text in enumerate(TEXTS)])
    return store


def by_bed(query: str, texts: Sequence[str]) -> list[float]:
    """The bed with the lowest number is best."""
    return [-float(text.rsplit(" ", 1)[1]) for text in texts]


def test_the_best_hits_come_in_the_order_of_the_reranker(tmp_path: Path, told: Told) -> None:
    with opened(tmp_path, by_bed, told) as store:
        assert contents(store.search("s", "silt", 8)) == TEXTS
        assert contents(store.search("s", "silt", 3)) == TEXTS[:3]
    assert told == []


def test_a_search_for_few_hits_shows_the_reranker_as_many_as_it_is_due(tmp_path: Path, told: Told) -> None:
    shown: list[tuple[str, int]] = []

    def counting(query: str, texts: Sequence[str]) -> list[float]:
        shown.append((query, len(texts)))
        return by_bed(query, texts)

    with opened(tmp_path, Reranker(counting, depth=6), told) as store:
        store.search("s", "silt", 1)
        store.search("s", "silt", 8)
        assert store.search("s", "silt", 0) == []
        assert store.search("s", "nothing of it", 3) == []
    assert shown == [("silt", 6), ("silt", 6)]


def raising(query: str, texts: Sequence[str]) -> list[float]:
    raise RuntimeError("the model is gone")


@pytest.mark.parametrize(
    ("reranker", "reason"),
    [
        (raising, "RuntimeError: the model is gone"),
        (lambda query, texts: [1.0], "it gave 1 scores for 8 texts"),
        (lambda query, texts: [float("nan")] * len(texts), "not finite"),
        (lambda query, texts: ["best"] * len(texts), "ValueError"),
        (lambda query, texts: None, "TypeError"),
    ],
)
def test_a_reranker_that_fails_changes_nothing_and_is_told_of(
    tmp_path: Path, told: Told, reranker: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, None, told) as store:
        before = store.search("s", "silt", 5)
    with caplog.at_level(logging.WARNING), opened(tmp_path, reranker, told) as store:
        assert store.search("s", "silt", 5) == before
    assert told == [SearchDegraded("s", "lexical", "no_reranking")]
    assert reason in caplog.text


def test_a_search_does_not_wait_for_a_reranker_that_hangs(tmp_path: Path, told: Told) -> None:
    ended = threading.Event()

    def hanging(query: str, texts: Sequence[str]) -> list[float]:
        ended.wait(600)
        return [0.0] * len(texts)

    with opened(tmp_path, Reranker(hanging, timeout=0.05), told) as store:
        assert len(store.search("s", "silt", 5)) == 5
    ended.set()
    assert told == [SearchDegraded("s", "lexical", "no_reranking")]


async def asynchronous(query: str, texts: Sequence[str]) -> list[float]:
    return []


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Reranker(asynchronous), "reranker"),  # type: ignore[arg-type]
        (lambda: Reranker(5), "reranker"),  # type: ignore[arg-type]
        (lambda: Reranker(by_bed, depth=1), "depth"),
        (lambda: Reranker(by_bed, depth=1_001), "depth"),
        (lambda: Reranker(by_bed, depth=True), "depth"),
        (lambda: Reranker(by_bed, timeout=0), "timeout"),
        (lambda: Reranker(by_bed, timeout=float("inf")), "timeout"),
    ],
)
def test_what_is_no_reranker_is_refused_by_its_field(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=8), st.integers(2, 8))
def test_whatever_the_scores_the_same_hits_come_back(scores: list[float], depth: int) -> None:
    told = Told()
    hits = [_hit(number) for number in range(8)]
    given_back = Reranker(lambda _query, texts: scores[: len(texts)], depth).reranked(
        "s", "silt", hits, "lexical", [told]
    )
    best = sorted(hits[:depth], key=lambda hit: -scores[hit.entry_id])  # equal ones stay in their order
    assert given_back == best + hits[depth:]
    assert told == []


def _hit(number: int) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(entry_id=number, content=str(number))
