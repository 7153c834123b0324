"""The contract of every store: get, enumerate, drop and stats."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from siltstone.errors import EntryNotFoundError, InvalidEntryError
from siltstone.memory import Entry, Store
from storing import compaction, entries, message
from summary_log import summary_log


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
