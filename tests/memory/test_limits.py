"""Limits are settings: each one refuses by name, with the bound and the value, and nothing is lost by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, strategies as st

from postgres_stores import over_postgres
from siltstone import Session
from siltstone.errors import ConfigError, InvalidEntryError, MessageRefusedError, MessageTooLargeError
from siltstone.memory import Entry, Limits, Store
from siltstone.models import ExtractiveModel
from siltstone.stores import HnswMemoryStore, MemoryStore, SimpleMemoryStore
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from storing import compaction, contents, entries, message
from summary_log import summary_log

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
        with pytest.raises(InvalidEntryError, match="at most 3 entries, got 4 entries") as caught:
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
        with pytest.raises(InvalidEntryError, match=match) as caught:
            store.index("a", [fits, long])
        told = vars(caught.value)
        assert (told["field"], told["size"], told["limit"]) == (f"entries[1].{field}", 9, 8)
        assert store.stats().entries == 0
        assert store.index("a", [fits]).indexed == 1


def test_a_query_over_the_limit_is_refused_and_one_at_it_is_not(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(query_bytes=8)) as store:
        store.index("a", entries("silt"))
        assert contents(store.search("a", "silt    ")) == ["silt"]
        with pytest.raises(InvalidEntryError, match="a query must be at most 8 bytes, got 9 bytes") as caught:
            store.search("a", "silt     ")
        told = vars(caught.value)
        assert (told["field"], told["size"], told["limit"]) == ("query", 9, 8)


def test_a_message_over_the_limit_is_refused_and_the_log_stays(opened: Open, tmp_path: Path) -> None:
    with opened(tmp_path, Limits(message_bytes=8)) as store:
        log = summary_log(store, "a")
        log.append([message('"1 silt"')], expected_next=0, clock="c")
        with pytest.raises(MessageRefusedError, match="message 2 is 9 bytes of JSON") as caught:
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
        with pytest.raises(InvalidEntryError):
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
            ConfigError, match=f"{field} of Limits must be an integer in {least}..{most}"
        ) as caught:
            Limits(**{field: value})  # type: ignore[arg-type]
        assert vars(caught.value)["field"] == field


@given(st.text(st.sampled_from("a é😀\n")), st.integers(4, 40))
def test_pieces_are_within_the_limit_and_lose_nothing(text: str, most: int) -> None:
    pieces = list(Limits(text_bytes=most).cut([Entry(text, (3, 4), "tool", "grep")]))
    assert "".join(piece.content for piece in pieces) == text
    assert all(len(piece.content.encode()) <= most for piece in pieces)
    assert {(p.source_range, p.role, p.name) for p in pieces} == {((3, 4), "tool", "grep")}


def test_a_text_is_cut_behind_a_word() -> None:
    pieces = [piece.content for piece in Limits(text_bytes=60).cut([Entry("silt settles " * 6)])]
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
        with pytest.raises(MessageRefusedError, match="message 9 is 9 bytes of JSON"):
            log.rewrite(compaction(), [message('"9 silts"')], [], **place, parent=None, clock="d")
        assert (log.state().next_seq, log.compactions()) == (9, [])
        log.rewrite(compaction(), [message('"9"')], entries(said), **place, parent=None, clock="d")
        found = [entry.content for entry in store.entries("a").entries]
        assert "".join(found) == said
        assert all(len(text) <= 40 for text in found)


def test_a_session_whose_message_is_longer_than_an_entry_is_compacted(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, limits=Limits(text_bytes=1_000)) as store:
        policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1))
        options: dict[str, Any] = {"policy": policy, "model": ExtractiveModel(), "memory": store}
        with Session.open(None, "a", context_window=200_000, **options) as session:
            long = "the river is slow. " * 200 + "silt settles."
            for text in (long, "and clay?", "later"):
                session.append({"role": "user", "content": text})
                session.append({"role": "assistant", "content": "yes"})
            outcome = session.compact()
            assert type(outcome).__name__ == "Compacted", outcome
            assert session.search("silt settles")[0].source_range == (0, 1)
            pieces = [e.content for e in store.entries("a").entries if e.source_range == (0, 1)]
            assert all(len(piece) <= 1_000 for piece in pieces)
            assert pieces[-1].endswith("silt settles.")


def test_a_session_that_is_handed_a_message_over_the_limit_stays_as_it_was(tmp_path: Path) -> None:
    options: dict[str, Any] = {"policy": ThresholdCompactor(), "model": ExtractiveModel()}
    with (
        MemoryStore.open(tmp_path, limits=Limits(message_bytes=200)) as store,
        Session.open(None, "a", context_window=9_000, memory=store, **options) as session,
    ):
        session.append({"role": "user", "content": "silt"})
        before = session.history()
        with pytest.raises(MessageTooLargeError, match="the limit of the store is 200"):
            session.append({"role": "assistant", "content": "x" * 200})
        assert session.history() == before
        session.append({"role": "assistant", "content": "clay"})
        assert [each["content"] for each in session.prepare().messages] == ["silt", "clay"]
