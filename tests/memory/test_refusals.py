"""The contract of every store: get, enumerate, drop, stats; what is out of bounds is refused."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from siltstone.errors import (
    ConfigError,
    EntryNotFoundError,
    InvalidEntryError,
    SiltstoneError,
    StoreClosedError,
    StoreError,
)
from siltstone.memory import Entry, Store
from storing import compaction, entries, message
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


@pytest.mark.parametrize("entry_id", [0, -1, 99, 2**63, -(2**70)])
def test_an_id_that_does_not_exist_is_named(store: Store, entry_id: int) -> None:
    store.index("a", entries("silt"))
    with pytest.raises(EntryNotFoundError, match=str(entry_id)) as caught:
        store.get(entry_id)
    assert caught.value.entry_id == entry_id  # type: ignore[attr-defined]


def test_mk_66_enumerate_gives_pages_in_order_of_id(store: Store) -> None:
    ids = store.index("a", entries(*(f"silt {n}" for n in range(7)))).entry_ids
    seen: list[int] = []
    offset: int | None = 0
    while offset is not None:
        page = store.entries("a", offset=offset, limit=3)
        seen += [entry.entry_id for entry in page.entries]
        offset = page.next_offset
    assert seen == list(ids)
    assert store.entries("a", offset=7, limit=3) == store.entries("nobody")
    assert store.entries("a", limit=10**30).next_offset is None
    assert store.entries("a", offset=10**30).entries == ()


def test_mk_66_filters_apply_after_the_page_is_cut(store: Store) -> None:
    store.index("a", entries(*(f"silt {n}" for n in range(6))))
    page = store.entries("a", overlaps=(4, 6), limit=3)
    assert (page.entries, page.next_offset) == ((), 3)
    page = store.entries("a", overlaps=(4, 6), offset=3, limit=3)
    assert [entry.source_range.start for entry in page.entries] == [4, 5]


def test_mk_66_since_is_strict(store: Store) -> None:
    store.index("a", entries("one", "two", "three"))
    found = store.entries("a", since=1_001.0).entries
    assert [entry.content for entry in found] == ["three"]
    assert store.entries("a", since=datetime.fromtimestamp(1_001, UTC)).entries == found


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (-1, 0), (-(2**70), 0), (5, -1), (5, -(2**70))])
def test_mk_66_a_limit_below_1_and_an_offset_below_0_are_refused(
    store: Store, limit: int, offset: int
) -> None:
    with pytest.raises(InvalidEntryError, match="at least"):
        store.entries("a", limit=limit, offset=offset)


@pytest.mark.parametrize(
    ("stored", "wanted", "shares"),
    [
        ((2, 5), (0, 3), True),
        ((2, 5), (4, 9), True),
        ((2, 5), (3, 4), True),
        ((2, 5), (2, 5), True),
        ((2, 5), (0, 2), False),
        ((2, 5), (5, 9), False),
        ((2, 5), (3, 3), False),
        ((3, 3), (2, 5), False),
        ((3, 3), (3, 3), False),
    ],
)
def test_mk_79_ranges_that_touch_and_empty_ranges_never_overlap(
    store: Store, stored: tuple[int, int], wanted: tuple[int, int], shares: bool
) -> None:
    store.index("a", [Entry("silt", stored)])
    assert bool(store.entries("a", overlaps=wanted).entries) is shares


@pytest.mark.parametrize("wrong", [(2, 1), (-1, 3), (0, 2**63), (-(2**70), 2**70)])
def test_mk_79_a_range_that_ends_before_it_starts_is_refused(store: Store, wrong: tuple[int, int]) -> None:
    with pytest.raises(InvalidEntryError, match="start <= end"):
        store.index("a", [Entry("silt"), Entry("clay", wrong)])
    with pytest.raises(InvalidEntryError, match="start <= end"):
        store.entries("a", overlaps=wrong)
    assert store.entries("a").entries == ()


def test_drop_forgets_the_log_as_well(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message()], expected_next=0, clock="c")
    log.commit(compaction(), entries("silt"), expected_head=None, clock="d")
    store.index("b", entries("silt"))
    assert store.delete_session("a") == 1
    assert store.delete_session("a") == 0
    state = log.state()
    assert (state.next_seq, state.head, state.clock, log.compactions()) == (0, None, "", [])
    assert store.search("a", "silt") == []
    assert len(store.search("b", "silt")) == 1


def test_what_is_written_to_a_dropped_session_is_accepted_as_nothing(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message()], expected_next=0, clock="c")
    store.index("a", entries("silt"))
    assert store.delete_session("a") == 1
    log.append([message()], expected_next=1, clock="d")
    log.save_clock("e")
    assert log.commit(compaction(), entries("silt"), expected_head=7, clock="f").entry_ids == (None,)
    assert store.index("a", entries("silt", "more silt")).entry_ids == (None, None)
    state = summary_log(store, "a").state()
    assert (state.next_seq, state.head, state.clock, state.dropped) == (0, None, "", True)
    assert store.search("a", "silt") == []
    assert store.entries("a").entries == ()
    assert store.stats().sessions == 0
    assert store.delete_session("nobody") == 0
    assert store.index("nobody", entries("silt")).indexed == 1


def test_stats_count_what_is_there(store: Store) -> None:
    assert (store.stats().sessions, store.stats().entries) == (0, 0)
    store.index("a", entries("silt", "délta"))
    log = summary_log(store, "b")
    log.append([message(), message()], expected_next=0, clock="")
    log.commit(compaction(), entries("mud"), expected_head=None, clock="")
    whole, one = store.stats(), store.stats("b")
    assert (whole.sessions, whole.messages, whole.entries, whole.compactions) == (2, 2, 3, 1)
    assert (one.sessions, one.messages, one.entries, one.compactions) == (1, 2, 1, 1)
    assert (whole.text_bytes, one.text_bytes) == (4 + 6 + 3, 3)
    assert one.detail["index"]
    assert whole.disk_bytes == one.disk_bytes
    assert (store.stats("nobody").sessions, store.stats("nobody").detail) == (0, {})
