"""A reranker orders the best hits, and a search never depends on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, Entry, MemoryStore
from siltstone.events import SearchDegraded
from siltstone.memory.hits import Reranker
from storing import contents

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
