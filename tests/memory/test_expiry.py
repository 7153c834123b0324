"""Entries that are found for a time: nothing gives them back afterwards, row or no row."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from conftest import SEQUENCES
from conversations import assistant, small, user
from siltstone import Session
from siltstone.engine import Compacted
from siltstone.errors import EntryNotFoundError, InvalidEntryError
from siltstone.events import Event, MemoryExpired
from siltstone.memory import Entry, ExpireReport, Ranker, Store, convert
from siltstone.recall import RecallConfig
from siltstone.session.retention import retain
from siltstone.session.transfer import export_everything, import_everything
from siltstone.stores import HnswMemoryStore, MemoryStore
from storing import contents, database

SECOND = timedelta(seconds=1)
DAY = 86_400.0
RANKERS: tuple[Ranker, ...] = ("lexical", "cosine", "hybrid")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def time_ns(self) -> int:
        return round(self.now * 1_000) * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(convert, "time", SimpleNamespace(time_ns=clock.time_ns))
    return clock


def lasting(text: str, seconds: float | None, start: int = 0, end: int = 0, **fields: Any) -> Entry:
    ttl = None if seconds is None else timedelta(seconds=seconds)
    return Entry(text, (start, end), created_at=1_000.0, ttl=ttl, **fields)


def listed(store: Store, session: str = "a") -> list[str]:
    return [entry.content for entry in store.entries(session).entries]


def test_an_entry_is_found_up_to_its_end_and_by_nothing_from_then_on(store: Store, clock: Clock) -> None:
    texts = [lasting("silt of a day", 10), lasting("silt of ever", None), lasting("silt of a week", 20)]
    receipt = store.index("a", texts)
    (first, ever, week) = receipt.entry_ids
    assert first is not None
    assert store.get(first).expires_at == datetime.fromtimestamp(1_010, UTC)
    for now, left in ((1_009.999, 3), (1_010.0, 2), (1_019.999, 2), (1_020.0, 1)):
        clock.now = now
        expected = sorted(
            entry.content for entry in texts if entry.ttl is None or 1_000 + entry.ttl / SECOND > now
        )
        assert len(expected) == left
        assert sorted(contents(store.search("a", "silt", limit=9))) == expected
        assert sorted(contents(store.search("a", "silt", limit=left))) == expected, "it takes nobody's place"
        assert sorted(listed(store)) == expected
    for gone in (first, week):
        assert gone is not None
        with pytest.raises(EntryNotFoundError):
            store.get(gone)
    assert store.get(first, expired=True).content == "silt of a day"
    assert len(store.entries("a", expired=True).entries) == store.stats("a").entries == 3
    assert store.expire("a") == ExpireReport(0, 0, by_ttl=2)
    assert store.stats("a").entries == 1
    assert [hit.entry_id for hit in store.search("a", "silt")] == [ever]
    assert store.expire("a") == store.expire("nobody") == ExpireReport(0, 0)
    assert store.check() == []


def test_a_clock_that_was_wrong_takes_nothing_for_good(store: Store, clock: Clock) -> None:
    right = clock.now

    def look(days: float, *, writes: bool = True) -> list[str]:
        clock.now = right + days * DAY
        if writes:
            store.index("a", [lasting("mud", None, 0, 1)])
        retain(store, "a", None, (), clock.now)
        return sorted(listed(store))

    store.index("a", [lasting("silt of a year", 400 * DAY), lasting("silt of a week", 7 * DAY)])
    assert look(401, writes=False) == []
    assert look(401) == look(401.5) == ["mud"], "nothing gives them back meanwhile"
    assert look(0) == look(1) == ["mud", "silt of a week", "silt of a year"]
    assert look(401) == ["mud"], "and once more"
    assert look(8) == ["mud", "silt of a year"]
    assert len(store.entries("a", expired=True).entries) == 3
    store.expire("a", keep=2, asked=False)
    assert listed(store) == ["silt of a year", "mud"], "what has expired takes nobody's place"
    assert look(9) == look(10) == ["mud", "silt of a year"]
    assert len(store.entries("a", expired=True).entries) == 2


@pytest.mark.parametrize("ttl", [timedelta(0), -SECOND, 5, timedelta.max, "a day"])
def test_a_ttl_that_is_none_is_refused_and_nothing_is_stored(store: Store, ttl: Any) -> None:
    with pytest.raises(InvalidEntryError, match="ttl must be None, or a timedelta > 0"):
        store.index("a", [Entry("silt"), Entry("mud", ttl=ttl)])
    assert listed(store) == []


def test_a_cache_knows_what_expires(tmp_path: Path, clock: Clock) -> None:
    many = [lasting(f"silt number {n}", 5 + n if n % 3 == 0 else None) for n in range(900)]
    with MemoryStore.open(tmp_path) as store:
        store.index("a", many)
        found = [store.search("a", "silt", limit=1_000, ranker=ranker) for ranker in RANKERS]
        assert [len(hits) for hits in found] == [900] * 3
    clock.now = 1_300.0
    expected = {entry.content for n, entry in enumerate(many) if n % 3 or 5 + n > 300}
    for is_left in (False, True):
        with MemoryStore.open(tmp_path) as store:
            if is_left:
                store.expire("a")
            for ranker in RANKERS:
                assert set(contents(store.search("a", "silt", limit=1_000, ranker=ranker))) == expected
            assert is_left or store.stats("a").detail["cached"] == len(many)


def test_the_graph_gives_as_many_as_are_asked_for(tmp_path: Path, clock: Clock) -> None:
    near = [lasting("silt mud clay", 5) for _ in range(40)]
    far = [lasting(f"silt and {n} other words", None) for n in range(40)]
    with HnswMemoryStore.open(tmp_path) as store:
        store.index("a", near + far)
        clock.now = 1_005.0
        assert len(store.search("a", "silt mud clay", limit=10)) == 10


def test_forgetting_finds_what_has_expired_and_not_left(tmp_path: Path, clock: Clock) -> None:
    with MemoryStore.open(tmp_path) as store:
        (kept,) = store.index("a", [lasting("the basalt-seven gate", 5)]).entry_ids
        store.index("b", [lasting("a gate of porphyry", 5)])
        clock.now = 1_005.0
        assert kept is not None
        assert store.forget(entry_ids=[kept]).entries == 1
        report = store.forget(text="porphyry")
        assert (report.entries, report.erased) == (1, True)
    for file in database(tmp_path).parent.rglob("*"):
        if file.is_file():
            assert not any(word in file.read_bytes() for word in (b"porphyry", b"basalt-seven"))


def test_a_session_takes_out_what_has_expired_and_tells(tmp_path: Path, clock: Clock) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [lasting("silt", 5)])
    told: list[Event] = []
    for clock.now, expected in (
        (1_005.0, []),
        (1_005.0 + DAY, [MemoryExpired("a", 0, 0, by_ttl=1)]),
        (1_005.0 + DAY, []),
    ):
        told.clear()
        with MemoryStore.open(tmp_path) as store:
            for _ in range(2):
                store.index("b", [lasting("mud", 1)])
        with Session.open(tmp_path, "a", context_window=4_000, hooks=[told.append]) as session:
            assert session.search("silt") == []
        assert [event for event in told if isinstance(event, MemoryExpired)] == expected


def test_a_message_that_a_compaction_discards_outlives_a_ttl_of_its_entry(tmp_path: Path, clock: Clock):
    with Session.open(tmp_path, "a", policy=small(), context_window=8_000) as session:
        session.append(user("The gate opens with basalt-seven."), assistant("Noted."))
        session.store.index("a", [lasting("The gate opens with basalt-seven.", 5, 0, 1)])
        for number in range(4):
            session.append(user(f"Question {number}"), assistant("silt " * 300))
        assert isinstance(session.compact(), Compacted)
        clock.now = 2_000.0
        assert contents(session.search("basalt-seven gate"))[0] == "The gate opens with basalt-seven."


def test_recall_brings_nothing_that_has_expired_not_even_beside_a_hit(tmp_path: Path, clock: Clock) -> None:
    recall = RecallConfig(redaction=False, knowledge_extraction=False)
    with Session.open(tmp_path, "a", context_window=8_000, recall=recall) as session:
        for number in range(3):
            session.append(user(f"message {number}"))
        texts = ["the kiln is cold", "the gate opens with basalt-seven", "the porphyry came late"]
        session.store.index(
            "a", [lasting(text, 5 if n == 2 else None, n + 10, n + 11) for n, text in enumerate(texts)]
        )
        session.append(user("What opens the gate: basalt-seven?"))
        before = session.recall("the gate opens with basalt-seven")
        assert all(text in before for text in texts)
        clock.now = 1_005.0
        session.append(user("And now?"))
        after = session.recall("the gate opens with basalt-seven")
        assert [text in after for text in texts] == [True, True, False]


def test_a_file_of_a_session_has_the_ends_of_its_entries(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "a.jsonl"
    with MemoryStore.open(tmp_path / "one") as store:
        store.index("a", [lasting("silt", 5, 0, 1), lasting("mud", 500, 1, 2), lasting("clay", None, 2, 3)])
        clock.now = 1_005.0
        export_everything(store, ["a"], file)
    lines = map(json.loads, file.read_text().splitlines())
    bodies = [line["body"] for line in lines if line["kind"] == "entry"]
    assert [body.get("expires_at") for body in bodies] == ["1970-01-01T00:25:00+00:00", None]
    bad = bodies[0] | {"expires_at": "1960-01-01T00:00:00+00:00"}
    line = {"format": "siltstone-archive-1", "kind": "entry", "session_id": "a", "body": bad}
    file.write_text(file.read_text() + json.dumps(line) + "\n")
    with MemoryStore.open(tmp_path / "two") as store:
        done = import_everything(store, file)
        assert (done.entries, done.skipped) == (2, 1)
        assert listed(store) == ["mud", "clay"]
        clock.now = 1_500.0
        assert contents(store.search("a", "silt mud clay")) == ["clay"]


SESSIONS = ("a", "b")


class Expiring(RuleBasedStateMachine):
    """A store and a dictionary of what it was given, while time goes on."""

    clock: Clock
    root: Path
    count = 0

    @initialize(hnsw=st.booleans())
    def open(self, hnsw: bool) -> None:
        type(self).count += 1
        self.path = self.root / str(self.count)
        self.kind = HnswMemoryStore if hnsw else MemoryStore
        self.clock.now = 1_000.0
        self.store = self.kind.open(self.path)
        for session in SESSIONS:
            self.store.open_log(session).open("acme")
        # By session and what makes entries one: text and end.
        self.known: dict[str, dict[Any, tuple[str, float | None]]] = {session: {} for session in SESSIONS}

    @rule(
        session=st.sampled_from(SESSIONS),
        batch=st.lists(
            st.tuples(st.integers(0, 4), st.none() | st.integers(1, 6), st.booleans()), min_size=1, max_size=4
        ),
    )
    def index(self, session: str, batch: list[tuple[int, int | None, bool]]) -> None:
        entries = []
        for number, ttl, is_placed in batch:
            place = (number, number + 1) if is_placed else (0, 0)
            text = f"silt {number}"
            entries.append(
                Entry(text, place, created_at=self.clock.now, ttl=None if ttl is None else ttl * SECOND)
            )
            key: Any = number if is_placed else object()
            self.known[session][key] = (text, None if ttl is None else self.clock.now + ttl)
        self.store.index(session, entries)

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule(session=st.sampled_from(SESSIONS))
    def expire(self, session: str) -> None:
        left = self.live(session)
        there = self.store.stats(session).entries
        assert self.store.expire(session) == ExpireReport(0, 0, there - len(left))
        assert self.store.stats(session).entries == len(left)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.kind.open(self.path)

    def live(self, session: str) -> list[str]:
        return sorted(
            text for text, end in self.known[session].values() if end is None or end > self.clock.now
        )

    @invariant()
    def what_is_found_is_what_has_not_expired(self) -> None:
        if not hasattr(self, "store"):
            return
        everywhere = []
        for session in SESSIONS:
            live = self.live(session)
            everywhere += live
            assert sorted(listed(self.store, session)) == live
            for ranker in RANKERS:
                found = contents(self.store.search(session, "silt", limit=99, ranker=ranker))
                assert sorted(found) == sorted(set(live))  # equal texts are one hit
        found = self.store.search("a", "silt", limit=99, ranker="lexical", scope="namespace")
        assert sorted(contents(found)) == sorted(set(everywhere))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.check() == []
            self.store.close()


def test_a_store_finds_what_has_not_expired_whatever_happens(tmp_path: Path, clock: Clock) -> None:
    machine = type("Machine", (Expiring,), {"clock": clock, "root": tmp_path})
    run_state_machine_as_test(machine, settings=settings(max_examples=SEQUENCES, stateful_step_count=15))
