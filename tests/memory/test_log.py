"""The log of a session: the contract of every log, run over both kinds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, strategies as st

from postgres_stores import over_postgres
from siltstone import _native
from siltstone.errors import InvalidEntryError, StoreConflictError
from siltstone.memory import Entry, Store, log as store_log
from siltstone.memory.convert import compaction_from_row, compaction_to_row
from siltstone.stores import MemoryStore, SimpleMemoryStore
from storing import compaction, entries, message
from strategies import texts
from summary_log import SummaryLog, summary_log

MEMBERS: dict[str, Callable[[Path], Store]] = {
    "database": MemoryStore.open,
    "simple": lambda path: SimpleMemoryStore(),
}


@pytest.fixture(params=[*MEMBERS, "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with MEMBERS.get(request.param, lambda _: over_postgres(request))(tmp_path) as store:
        yield store


@pytest.fixture
def log(store: Store) -> SummaryLog:
    return summary_log(store, "a")


def test_messages_come_back_in_order_with_their_numbers(log: SummaryLog) -> None:
    given = [message(f'"{n}"', role="tool", dialect="anthropic", tokens=n, created_at=n) for n in range(7)]
    log.append(given[:3], expected_next=0, clock="one")
    log.append(given[3:], expected_next=3, clock="two")
    rows = log.read(0, 7)
    assert [row.seq for row in rows] == list(range(7))
    assert [row[1:-1] for row in rows] == given
    assert (log.state().next_seq, log.state().clock) == (7, "two")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, [0, 1]), (2, 99, [2, 3]), (3, 3, []), (4, 9, []), (3, 1, []), (-5, 1, [0]), (-5, -1, [])],
)
def test_a_range_is_half_open_and_ends_with_the_log(
    log: SummaryLog, start: int, end: int, expected: list[int]
) -> None:
    log.append([message()] * 4, expected_next=0, clock="")
    assert [row.seq for row in log.read(start, end)] == expected


@pytest.mark.parametrize("expected_next", [0, 1, 3, -1])
def test_an_append_at_another_place_conflicts_and_writes_nothing(log: SummaryLog, expected_next: int) -> None:
    log.append([message()] * 2, expected_next=0, clock="before")
    with pytest.raises(StoreConflictError, match=f"ends at 2, not at {expected_next}"):
        log.append([message()], expected_next=expected_next, clock="after")
    assert (log.state().next_seq, log.state().clock) == (2, "before")


def test_a_commit_writes_entries_compaction_head_and_clock(store: Store, log: SummaryLog) -> None:
    log.append([message()] * 9, expected_next=0, clock="")
    first = log.commit(compaction("one"), entries("silt", " ", "silt too"), expected_head=None, clock="first")
    second = log.commit(compaction("two"), [], expected_head=first.compaction_id, clock="second")
    assert [entry_id is None for entry_id in first.entry_ids] == [False, True, False]
    assert second.entry_ids == ()
    assert {hit.entry_id for hit in store.search("a", "silt")} == {first.entry_ids[0], first.entry_ids[2]}
    one, two = log.compactions()
    assert (one.compaction_id, one.parent, one.compaction) == (first.compaction_id, None, compaction("one"))
    assert (two.compaction_id, two.parent, two.compaction) == (
        second.compaction_id,
        first.compaction_id,
        compaction("two"),
    )
    state = log.state()
    assert (state.head, state.clock, state.next_seq) == (two, "second", 9)


def test_a_commit_on_another_head_conflicts_and_writes_nothing(store: Store, log: SummaryLog) -> None:
    head = log.commit(compaction("one"), entries("silt"), expected_head=None, clock="before").compaction_id
    for expected in (None, head + 1, head - 1):
        with pytest.raises(StoreConflictError, match=f"is {head}, not"):
            log.commit(compaction("two"), entries("lost"), expected_head=expected, clock="after")
    assert store.search("a", "lost") == []
    assert (store.stats().entries, store.stats().compactions, log.state().clock) == (1, 1, "before")


def test_a_commit_with_an_entry_out_of_bounds_writes_nothing(store: Store, log: SummaryLog) -> None:
    """The only copy of a text is never dropped: where indexing is refused, so is the compaction."""
    with pytest.raises(InvalidEntryError):
        log.commit(compaction(), [*entries("lost"), Entry("silt", (2, 1))], expected_head=None, clock="after")
    assert (log.state().head, log.state().clock, log.compactions()) == (None, "", [])
    assert store.search("a", "lost") == []


def test_the_clock_is_saved_alone(log: SummaryLog) -> None:
    log.save_clock("one")
    log.append([message()], expected_next=0, clock="two")
    log.save_clock("three")
    assert (log.state().next_seq, log.state().clock) == (1, "three")


def test_an_append_of_nothing_saves_the_clock(log: SummaryLog) -> None:
    log.append([], expected_next=0, clock="one")
    assert (log.state().next_seq, log.state().clock) == (0, "one")


def test_two_logs_of_one_session_are_one_and_those_of_two_are_two(store: Store, log: SummaryLog) -> None:
    log.append([message()], expected_next=0, clock="")
    other, again = summary_log(store, "b"), summary_log(store, "a")
    other.append([message('"b"')], expected_next=0, clock="")
    assert again.state().next_seq == 1
    with pytest.raises(StoreConflictError):
        again.append([message()], expected_next=0, clock="")
    assert [row.raw for row in other.read(0, 9)] == ['"b"']
    first = log.commit(compaction("a"), [], expected_head=None, clock="")
    second = other.commit(compaction("b"), [], expected_head=None, clock="")
    for mine, receipt, name in ((log, first, "a"), (other, second, "b")):
        (row,) = mine.compactions()
        assert (row.compaction_id, row.compaction.summary) == (receipt.compaction_id, name)


@given(text=texts())
def test_texts_of_a_log_come_back_the_same_or_repaired(text: str) -> None:
    with SimpleMemoryStore() as store:
        log = summary_log(store, "a")
        log.append([message(text)], expected_next=0, clock=text)
        assert log.read(0, 1)[0].raw == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_nul_and_lone_surrogates_reach_the_database(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        log = summary_log(store, "a")
        log.append([message("a\x00b"), message("c\ud800d", role="\udfff")], expected_next=0, clock="\x00")
        log.commit(compaction("e\ud83d\ude00f\x00"), [], expected_head=None, clock="\x00")
        assert [row.raw for row in log.read(0, 2)] == ["a\x00b", "c\ufffdd"]
        (row,) = log.compactions()
        assert (row.compaction.summary, log.state().clock) == ("e😀f\x00", "\x00")


ranges = st.tuples(st.integers(0, 2**63), st.integers(0, 2**63))
numbers = st.integers(-(2**63), 2**63 - 1)


@given(
    st.builds(
        store_log.NewCompaction,
        policy=texts(), reason=texts(), state=texts(), covers=st.lists(ranges).map(tuple),
        view=st.lists(ranges | st.integers(1, 2**63)).map(tuple), next_seq=numbers,
        model=texts(), usage=texts(), tokens_before=numbers, tokens_after=numbers,
        messages_before=numbers, messages_after=numbers, created_at=numbers, derived=st.just(()),
    )
)  # fmt: skip
def test_a_compaction_survives_its_row(given: store_log.NewCompaction) -> None:
    written = compaction_to_row(given)._asdict()
    held = {"compaction_id": 7, "parent": None, "derived_ids": [3, 4], **written}
    row = compaction_from_row(cast(_native.Compaction, SimpleNamespace(**held)))
    assert row == store_log.CompactionRow(7, None, given, (3, 4))
