"""The contract of every store: get, enumerate, drop, stats; what is out of bounds or limits is refused."""

import copy
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, strategies as st

from postgres_stores import over_postgres
from siltstone import Session, errors
from siltstone.memory import Entry, Limits, Store
from siltstone.memory.convert import new_entry
from siltstone.models import ExtractiveModel
from siltstone.stores import HnswMemoryStore, MemoryStore, SimpleMemoryStore
from siltstone.systems.meerkat import ThresholdCompactor
from storing import compaction, contents, entries, message
from summary_log import summary_log


@pytest.mark.parametrize("limit", [-1, -(10**30), "5", 2.5, None])
def test_a_limit_that_is_negative_or_no_integer_is_refused(store: Store, limit: Any) -> None:
    with pytest.raises(errors.InvalidEntryError, match="limit must be an integer >= 0"):
        store.search("a", "silt", limit=limit)


@pytest.mark.parametrize("min_score", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_min_score_out_of_0_to_1_is_refused(store: Store, min_score: float) -> None:
    with pytest.raises(errors.InvalidEntryError, match="min_score must be in"):
        store.search("a", "silt", min_score=min_score)


def test_an_unknown_ranker_is_refused(store: Store) -> None:
    with pytest.raises(errors.ConfigError, match="ranker must be") as caught:
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
        with pytest.raises(errors.InvalidEntryError, match="session id"):
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
        with pytest.raises(errors.StoreClosedError):
            call()


def test_a_store_is_neither_pickled_nor_copied(store: Store) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickled"):
            attempt(store)


@pytest.mark.parametrize("entry_id", [0, -1, 99, 2**63, -(2**70)])
def test_an_id_that_does_not_exist_is_named(store: Store, entry_id: int) -> None:
    store.index("a", entries("silt"))
    with pytest.raises(errors.EntryNotFoundError, match=str(entry_id)) as caught:
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
def test_mk_66_a_limit_below_1_and_an_offset_below_0_are_refused(store: Store, limit: int, offset: int):
    with pytest.raises(errors.InvalidEntryError, match="at least"):
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
    with pytest.raises(errors.InvalidEntryError, match="start <= end"):
        store.index("a", [Entry("silt"), Entry("clay", wrong)])
    with pytest.raises(errors.InvalidEntryError, match="start <= end"):
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


Open: TypeAlias = Callable[[Path, Limits], Store]

MEMBERS: dict[str, Open] = {
    "database": lambda path, limits: MemoryStore.open(path, limits=limits),
    "hnsw": lambda path, limits: HnswMemoryStore.open(path, limits=limits),
    "simple": lambda path, limits: SimpleMemoryStore(limits=limits),
}


@pytest.fixture(params=[*MEMBERS, "postgres"])
def opened(request: pytest.FixtureRequest) -> Open:
    return MEMBERS.get(request.param, lambda _, limits: over_postgres(request, limits=limits))


def test_a_batch_over_the_limit_is_refused_whole(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(batch=3)) as store:
        store.index("a", entries("silt", "clay", "mud"))
        with pytest.raises(errors.InvalidEntryError, match="at most 3 entries, got 4 entries") as caught:
            store.index("a", entries("silt", "clay", "mud", "sand"))
        told = vars(caught.value)
        assert (told["field"], told["size"], told["limit"]) == ("entries", 4, 3)
        assert store.stats().entries == 3


@pytest.mark.parametrize("field", ["content", "role", "name", "kind"])
def test_a_long_text_is_refused_with_its_place(opened: Open, tmp_path: Path, field: str) -> None:
    with opened(tmp_path, Limits(text_bytes=8)) as store:
        fits = Entry(**{"content": "silt"} | {field: "é" * 4})  # type: ignore[arg-type]
        long = Entry(**{"content": "silt"} | {field: "é" * 4 + "x"})  # type: ignore[arg-type]
        match = re.escape(f"entries[1].{field} must be at most 8 bytes, got 9 bytes")
        with pytest.raises(errors.InvalidEntryError, match=match) as caught:
            store.index("a", [fits, long])
        told = vars(caught.value)
        assert (told["field"], told["size"], told["limit"]) == (f"entries[1].{field}", 9, 8)
        assert store.stats().entries == 0
        assert store.index("a", [fits]).indexed == 1


def test_a_query_over_the_limit_is_refused_and_one_at_it_is_not(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(query_bytes=8)) as store:
        store.index("a", entries("silt"))
        assert contents(store.search("a", "silt    ")) == ["silt"]
        with pytest.raises(
            errors.InvalidEntryError, match="a query must be at most 8 bytes, got 9 bytes"
        ) as caught:
            store.search("a", "silt     ")
        told = vars(caught.value)
        assert (told["field"], told["size"], told["limit"]) == ("query", 9, 8)


def test_a_message_over_the_limit_is_refused_and_the_log_stays(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(message_bytes=8)) as store:
        log = summary_log(store, "a")
        log.append([message('"1 silt"')], expected_next=0, clock="c")
        with pytest.raises(errors.MessageRefusedError, match="message 2 is 9 bytes of JSON") as caught:
            log.append([message('"2 silt"'), message('"3 silts"')], expected_next=1, clock="d")
        told = vars(caught.value)
        assert (told["index"], told["size"], told["limit"]) == (2, 9, 8)
        state = log.state()
        assert (state.next_seq, state.clock) == (1, "c")
        log.append([message('"2 silt"')], expected_next=1, clock="d")
        assert [row.raw for row in log.read(0, 9)] == ['"1 silt"', '"2 silt"']


def test_limits_are_the_callers_and_not_the_files(tmp_path: Path) -> None:
    with (
        MemoryStore.open(tmp_path) as wide,
        MemoryStore.open(tmp_path, limits=Limits(text_bytes=8)) as narrow,
    ):
        wide.index("a", entries("silt settles slowly"))
        with pytest.raises(errors.InvalidEntryError):
            narrow.index("a", entries("silt settles slowly, too"))
        assert contents(narrow.search("a", "silt")) == ["silt settles slowly"]
        assert narrow.check() == []


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("message_bytes", 1, 32 * 2**20),
        ("text_bytes", 4, 256 * 2**20),
        ("query_bytes", 1, 16 * 2**20),
        ("hits", 1, 1_000_000),
        ("batch", 1, 10_000_000),
    ],
)
def test_a_limit_out_of_its_bounds_is_refused_by_name(field: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(Limits(**{field: value}), field) == value
    for value in (least - 1, most + 1, -1, True, 5.0, "5", None):
        with pytest.raises(
            errors.ConfigError, match=f"{field} of Limits must be an integer in {least}..{most}"
        ) as caught:
            Limits(**{field: value})  # type: ignore[arg-type]
        assert vars(caught.value)["field"] == field


@given(st.text(st.sampled_from("a é😀\n")), st.integers(4, 40))
def test_pieces_are_within_the_limit_and_lose_nothing(text: str, most: int) -> None:
    pieces = list(Limits(text_bytes=most).cut([new_entry(Entry(text, (3, 4), "tool", "grep"))]))
    assert "".join(piece.content for piece in pieces) == text
    assert all(len(piece.content.encode()) <= most for piece in pieces)
    assert {(p.start, p.end, p.role, p.name) for p in pieces} == {(3, 4, "tool", "grep")}


def test_a_text_is_cut_behind_a_word() -> None:
    pieces = [piece.content for piece in Limits(text_bytes=60).cut([new_entry(Entry("silt settles " * 6))])]
    assert "".join(pieces) == "silt settles " * 6
    assert all(piece.endswith(" ") for piece in pieces)


def test_what_a_compaction_discards_is_cut_and_not_refused(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(text_bytes=40, batch=2)) as store:
        log = summary_log(store, "a")
        log.append([message(f'"{n}"') for n in range(9)], expected_next=0, clock="c")
        said = "silt settles where the river is slow and clay does later"
        log.commit(compaction(), entries("mud", said, "sand"), expected_head=None, clock="d")
        found = store.entries("a").entries
        assert "".join(entry.content for entry in found if entry.source_range == (1, 2)) == said
        assert all(len(entry.content) <= 40 for entry in found)
        assert store.search("a", "clay")[0].source_range == (1, 2)
        assert store.check() == []


def test_a_branch_keeps_to_the_limits(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(message_bytes=8, text_bytes=40)) as store:
        log = summary_log(store, "a")
        log.append([message(f'"{n}"') for n in range(9)], expected_next=0, clock="c")
        place = {"expected_head": None, "expected_next": 9, "expected_redactions": 0, "withdrawn": []}
        said = "silt settles where the river is slow and clay does later"
        with pytest.raises(errors.MessageRefusedError, match="message 9 is 9 bytes of JSON"):
            log.rewrite(compaction(), [message('"9 silts"')], [], **place, parent=None, clock="d")
        assert (log.state().next_seq, log.compactions()) == (9, [])
        log.rewrite(compaction(), [message('"9"')], entries(said), **place, parent=None, clock="d")
        found = [entry.content for entry in store.entries("a").entries]
        assert "".join(found) == said
        assert all(len(text) <= 40 for text in found)


def test_a_session_that_is_handed_a_message_over_the_limit_stays_as_it_was(tmp_path: Path) -> None:
    options: dict[str, Any] = {"policy": ThresholdCompactor(), "model": ExtractiveModel()}
    with (
        MemoryStore.open(tmp_path, limits=Limits(message_bytes=200)) as store,
        Session.open(None, "a", context_window=9_000, memory=store, **options) as session,
    ):
        session.append({"role": "user", "content": "silt"})
        before = session.history()
        with pytest.raises(errors.MessageTooLargeError, match="the limit of the store is 200"):
            session.append({"role": "assistant", "content": "x" * 200})
        assert session.history() == before
        session.append({"role": "assistant", "content": "clay"})
        assert [each["content"] for each in session.prepare().messages] == ["silt", "clay"]
