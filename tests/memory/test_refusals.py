"""The contract of every store: a value out of its bounds is refused, by name, and changes nothing."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest

from siltstone.errors import ConfigError, InvalidEntryError, SiltstoneError, StoreClosedError, StoreError
from siltstone.memory import Entry, Store
from siltstone.memory.limits import MAX_QUERY_BYTES, MAX_TEXT_BYTES
from storing import entries, message
from summary_log import summary_log


@pytest.mark.parametrize("limit", [-1, -(10**30), "5", 2.5, None])
def test_a_limit_that_is_negative_or_no_integer_is_refused(store: Store, limit: Any) -> None:
    with pytest.raises(InvalidEntryError, match="limit must be an integer >= 0"):
        store.search("a", "silt", limit=limit)


@pytest.mark.parametrize("min_score", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_min_score_out_of_0_to_1_is_refused(store: Store, min_score: float) -> None:
    with pytest.raises(InvalidEntryError, match="min_score must be in"):
        store.search("a", "silt", min_score=min_score)


def test_an_unknown_ranker_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="ranker must be") as caught:
        store.search("a", "silt", ranker="densest")  # type: ignore[arg-type]
    assert caught.value.value == "densest"  # type: ignore[attr-defined]


def test_a_query_over_the_limit_is_refused_with_both_numbers(store: Store) -> None:
    store.index("a", entries("silt"))
    assert len(store.search("a", "silt ".ljust(MAX_QUERY_BYTES))) == 1
    with pytest.raises(InvalidEntryError, match=f"{MAX_QUERY_BYTES} bytes, got {MAX_QUERY_BYTES + 1} bytes"):
        store.search("a", "s" * (MAX_QUERY_BYTES + 1))
    with pytest.raises(InvalidEntryError):
        store.search("a", "é" * (MAX_QUERY_BYTES // 2) + "s")


def test_a_text_over_the_limit_refuses_the_whole_batch(store: Store) -> None:
    with pytest.raises(InvalidEntryError, match=f"{MAX_TEXT_BYTES} bytes, got {MAX_TEXT_BYTES + 1} bytes"):
        store.index("a", [Entry("silt"), Entry("x" * (MAX_TEXT_BYTES + 1))])
    assert store.search("a", "silt") == []
    assert store.stats().entries == 0
    (entry_id,) = store.index("a", [Entry("x" * MAX_TEXT_BYTES)]).entry_ids
    assert entry_id is not None


@pytest.mark.parametrize("wrong", ["", "x" * 1025, "é" * 513, "a\ud800", "\udc00"])
def test_a_session_id_out_of_bounds_is_refused_by_every_method(store: Store, wrong: str) -> None:
    log_of = partial(summary_log, store)
    for call in (
        lambda: store.index(wrong, entries("silt")),
        lambda: store.search(wrong, "silt"),
        lambda: store.entries(wrong),
        lambda: store.delete_session(wrong),
        lambda: store.stats(wrong),
        lambda: log_of(wrong).state(),
        lambda: log_of(wrong).append([message()], expected_next=0, clock=""),
    ):
        with pytest.raises(InvalidEntryError, match="session id"):
            call()
    assert store.stats().sessions == 0


def test_a_closed_store_refuses_everything_and_closes_again(store: Store) -> None:
    store.index("a", entries("silt"))
    log = summary_log(store, "a")
    store.close()
    store.close()
    for call in (
        lambda: store.index("a", entries("silt")),
        lambda: store.search("a", "silt"),
        lambda: store.get(1),
        lambda: store.entries("a"),
        lambda: store.delete_session("a"),
        lambda: store.stats(),
        log.state,
        lambda: log.append([message()], expected_next=0, clock=""),
        lambda: log.read(0, 1),
        log.compactions,
    ):
        with pytest.raises(StoreClosedError):
            call()


def test_a_store_is_neither_pickled_nor_copied(store: Store) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickled"):
            attempt(store)


def test_every_refusal_is_of_our_tree_and_of_a_class_that_callers_know(store: Store) -> None:
    with pytest.raises(ValueError, match="limit") as caught:
        store.search("a", "silt", limit=-1)
    assert isinstance(caught.value, StoreError)
    assert isinstance(caught.value, SiltstoneError)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
