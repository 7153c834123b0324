"""The contract of every store: indexed entries are found, in their session, in order, and come back whole."""

import asyncio
import inspect
from dataclasses import astuple
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from compacting import system
from conversations import assistant, conversation, small, user
from shapes import results, use
from siltstone import ConfigError
from siltstone.engine import Compacted
from siltstone.errors import InvalidEntryError, StoreCorruptError
from siltstone.memory import Entry, SessionInfo, Store
from siltstone.memory.convert import datetime_from, milliseconds
from siltstone.session.aio import in_thread
from siltstone.stores import MemoryStore, SimpleMemoryStore
from siltstone.stores.database import DatabaseStore
from siltstone.testing import ScriptedModel
from storing import STRANGE_IDS, contents, entries, sql
from strategies import texts


def test_mk_60_search_finds_the_fitting_text_of_its_own_session(store: Store) -> None:
    store.index("a", entries("silt settles where the water is slow", "the kettle is on", "nothing of it"))
    store.index("b", entries("silt of another session"))
    hits = store.search("a", "silt water")
    assert contents(hits)[0] == "silt settles where the water is slow"  # a ranker may add its neighbours
    assert hits[0].source_range == (0, 1)
    assert hits[0].role == "user"
    assert hits[0].created_at == datetime.fromtimestamp(1_000, UTC)
    assert hits[0].explain is None
    assert all(0.0 <= hit.score <= 1.0 for hit in hits)


def test_mk_60_a_session_is_chosen_before_entries_are_ranked(store: Store) -> None:
    """Many better entries of another session take no place of the results."""
    store.index("b", entries(*(f"silt water {n}" for n in range(60))))
    store.index("a", entries("the kettle is on", "some silt in all that other mud"))
    for limit in (1, 5):
        assert contents(store.search("a", "silt water", limit=limit))[0] == "some silt in all that other mud"


def test_mk_65_ids_are_never_reused_after_a_drop(store: Store) -> None:
    first = store.index("a", entries("one", "two"))
    assert store.delete_session("a") == 2
    second = store.index("b", entries("three"))
    assert None not in (*first.entry_ids, *second.entry_ids)
    old, new = ([each for each in receipt.entry_ids if each] for receipt in (first, second))
    assert max(old) < min(new)


def test_mk_73_an_empty_store_finds_nothing(store: Store) -> None:
    assert store.search("a", "silt") == []
    store.index("a", entries("silt"))
    assert store.search("a", "kettle") == []
    assert store.search("b", "silt") == []


def test_mk_74_a_limit_of_3_gives_3_and_none_gives_5(store: Store) -> None:
    store.index("a", entries(*(f"silt {n}" for n in range(30))))
    assert len(store.search("a", "silt", limit=3)) == 3
    assert len(store.search("a", "silt")) == 5
    assert store.search("a", "silt", limit=0) == []


@pytest.mark.parametrize("query", ["", " ", "\n\t\u3000", "\x00", "\ud800"])
def test_mk_77_a_blank_query_finds_nothing(store: Store, query: str) -> None:
    store.index("a", entries("silt", "a b"))
    assert store.search("a", query) == []


@pytest.mark.parametrize("blank", ["", " ", "\n\t\r", "\u2028\u3000\x85"])
def test_mk_78_a_blank_text_is_never_stored(store: Store, blank: str) -> None:
    receipt = store.index("a", entries("silt", blank, "river"))
    assert receipt.entry_ids[1] is None
    assert receipt.indexed == 2
    assert [entry.content for entry in store.entries("a").entries] == ["silt", "river"]
    assert store.index("b", entries(blank)).entry_ids == (None,)
    assert store.stats().sessions == 1


def test_of_equal_scores_the_newer_comes_first_and_then_the_smaller_id(store: Store) -> None:
    said = {"silt mud": 10.0, "silt sand": 30.0, "silt clay": 20.0, "silt loam": 30.0}
    ids = store.index("a", [Entry(text, created_at=at) for text, at in said.items()]).entry_ids
    assert [hit.entry_id for hit in store.search("a", "silt")] == [ids[1], ids[3], ids[2], ids[0]]


def test_hits_below_min_score_are_left_out(store: Store) -> None:
    store.index("a", entries("silt and clay and sand and mud", "silt"))
    hits = store.search("a", "silt clay")
    assert len(hits) == 2
    assert store.search("a", "silt clay", min_score=hits[0].score) == hits[:1]
    assert store.search("a", "silt clay", min_score=0.0) == hits


def test_explained_hits_are_the_same_hits(store: Store) -> None:
    store.index("a", entries("silt and clay", "silt"))
    plain, explained = store.search("a", "silt clay"), store.search("a", "silt clay", explain=True)
    assert [(hit.entry_id, hit.score) for hit in plain] == [(hit.entry_id, hit.score) for hit in explained]
    assert all(hit.explain for hit in explained)


def test_sessions_with_strange_ids_neither_leak_nor_touch_the_file_system(store: Store, tmp_path: Path):
    for n, session_id in enumerate(STRANGE_IDS):
        store.index(session_id, entries(f"canary {n}"))
    for n, session_id in enumerate(STRANGE_IDS):
        assert contents(store.search(session_id, "canary", limit=100)) == [f"canary {n}"]
        (entry,) = store.entries(session_id).entries
        assert entry.session_id == session_id
    assert store.delete_session("a") == 1
    assert contents(store.search("a.b", "canary")) == ["canary 1"]
    names = {path.name for path in tmp_path.rglob("*")}
    assert names <= {"memory", "memory.sqlite3", "memory.sqlite3-wal", "memory.sqlite3-shm"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=texts(), role=texts(), name=st.none() | texts())
def test_any_text_goes_in_and_comes_back_the_same_or_repaired(
    store: Store, content: str, role: str, name: str | None
) -> None:
    (entry_id,) = store.index("a", [Entry(content, (3, 7), role=role, name=name, created_at=5.0)]).entry_ids
    if entry_id is None:
        assert not content.strip()
        return
    stored = store.get(entry_id)
    expected = content.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert stored.content == expected
    assert stored.repaired == (expected != content)
    assert (stored.source_range, stored.kind, stored.session_id) == ((3, 7), "message", "a")
    if role.isascii() and (name is None or name.isascii()):
        assert (stored.role, stored.name) == (role, name)


def test_a_time_may_be_seconds_or_a_datetime_with_or_without_a_zone(store: Store) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    naive = moment.astimezone(UTC).replace(tzinfo=None)
    given = [Entry("silt", created_at=at) for at in (moment, naive, moment.timestamp())]
    ids = store.index("a", given).entry_ids
    expected = moment.astimezone(UTC).replace(microsecond=123_000)
    assert [store.get(each).created_at for each in ids if each] == [expected] * 3


def test_an_entry_without_a_time_is_of_now(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    (entry_id,) = store.index("a", [Entry("silt")]).entry_ids
    assert entry_id is not None
    assert before <= store.get(entry_id).created_at <= datetime.now(UTC)


@given(st.datetimes() | st.datetimes(timezones=st.just(UTC)))
def test_every_datetime_comes_back_to_the_millisecond(at: datetime) -> None:
    store = SimpleMemoryStore()
    store.index("a", [Entry("silt", created_at=at)])
    (entry,) = store.entries("a").entries
    difference = at.replace(tzinfo=UTC) - entry.created_at
    assert timedelta(0) <= difference < timedelta(milliseconds=1)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e300, -1e12, 2.6e11])
def test_a_time_that_no_datetime_can_hold_is_refused(store: Store, wrong: float) -> None:
    with pytest.raises(InvalidEntryError, match="years"):
        store.index("a", [Entry("silt", created_at=wrong)])
    with pytest.raises(InvalidEntryError, match="years"):
        store.entries("a", since=wrong)


@pytest.mark.parametrize("member", [MemoryStore, SimpleMemoryStore])
def test_every_call_of_a_store_is_there_and_says_what_it_does(member: type[Store]) -> None:
    """The contract has the words, and the classes have the code."""
    for name in (name for name in vars(Store) if not name.startswith("_")):
        assert vars(Store)[name] is not getattr(member, name), name
        assert inspect.getdoc(getattr(member, name)), name


def test_stores_in_memory_are_apart_and_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with SimpleMemoryStore() as one, SimpleMemoryStore() as other:
        one.index("a", entries(*(f"silt {n}" for n in range(600))))
        assert len(one.search("a", "silt", limit=1_000)) == 600
        assert other.search("a", "silt") == []
        assert one.check() == other.check() == []
        assert one.stats().disk_bytes == 0
        assert one.forget(text="silt 599").erased
        assert one.stats().entries == 599
    assert list(tmp_path.iterdir()) == []


def test_mk_61_forty_eight_sessions_of_one_entry_have_small_indexes_made_when_needed(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for n in range(48):
            store.index(f"s{n}", entries(f"silt {n}"))
    sql(tmp_path, "UPDATE entry SET role = 'x' WHERE id > 1")  # met by whoever indexes it
    with MemoryStore.open(tmp_path) as store:
        assert store.stats().quarantined == 0
        assert contents(store.search("s0", "silt")) == ["silt 0"]
        assert store.stats().quarantined == 0, "no other session was looked at"
        detail = store.stats("s0").detail
        assert detail["terms"] == detail["words"] == detail["term_postings"] < 10, "those of one entry"
        assert store.search("s1", "silt") == []
        assert store.stats().quarantined == 1


def test_mk_62_a_batch_that_fails_leaves_no_phantom_and_the_next_one_is_well(store: Store) -> None:
    store.index("a", entries("silt"))
    assert len(store.search("a", "silt")) == 1
    for _ in range(3):
        with pytest.raises(InvalidEntryError):
            store.index("a", [*entries("silt and mud"), Entry("mud", (3, 1))])
        assert contents(store.search("a", "silt mud")) == ["silt"]
        assert store.check() == []
    store.index("a", [Entry("mud", (7, 8))])
    assert sorted(contents(store.search("a", "silt mud"))) == ["mud", "silt"]
    assert (store.stats("a").entries, store.check()) == (2, [])


def test_mk_62_a_write_that_the_disk_refuses_leaves_no_phantom_in_the_index(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
        assert len(store.search("a", "silt")) == 1
        sql(tmp_path, "DELETE FROM allocator")
        with pytest.raises(StoreCorruptError):
            store.index("a", [Entry("silt and mud", (5, 6))])
        assert contents(store.search("a", "silt mud")) == ["silt"]
        store.check(repair=True)
        store.index("a", [Entry("silt and mud", (5, 6))])
        assert len(store.search("a", "silt mud")) == 2
        assert store.check() == []


@pytest.mark.anyio
async def test_mk_69_a_call_that_was_cancelled_cannot_overwrite_a_newer_index(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for n in range(10):
            old = asyncio.ensure_future(
                in_thread(lambda n=n: store.index("a", entries(*(f"old {n} {m}" for m in range(20)))))  # type: ignore[misc]
            )
            await asyncio.sleep(0)
            old.cancel()
            await in_thread(lambda n=n: store.index("a", [Entry(f"new {n}", (n + 100, n + 101))]))  # type: ignore[misc]
            with pytest.raises(asyncio.CancelledError):
                await old
            assert f"new {n}" in contents(store.search("a", f"new {n}", limit=99))
            found = {entry.entry_id for entry in store.entries("a", limit=999).entries}
            assert {hit.entry_id for hit in store.search("a", "old new", limit=999)} == found
            assert store.check() == []


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = milliseconds(datetime.min), milliseconds(datetime.max)


@given(st.integers(FIRST, LAST) | st.integers(0, 2**45) | st.integers(2**33 * 1000 - 9, 2**33 * 1000 + 9))
@example(2**33 * 1000 - 1)
@example(2**33 * 1000)
@example(-1)
def test_a_moment_is_exact_to_the_millisecond(stamp: int) -> None:
    moment = datetime_from(stamp)
    assert moment == EPOCH + timedelta(milliseconds=1) * stamp
    assert moment.tzinfo is UTC
    assert milliseconds(moment) == stamp


def ids(store: Store, **asked: Any) -> list[str]:
    return [each.session_id for each in store.sessions(**asked).sessions]


def test_sessions_are_told_with_their_figures(store: DatabaseStore) -> None:
    begun = datetime.now(UTC)
    said = conversation(8)
    with store.session("work", policy=small(), model=ScriptedModel(), namespace="acme/user-7") as session:
        session.append(*said[:-1])
        session.append(said[-1])
        assert isinstance(session.compact(), Compacted)
    store.index("notes", entries("silt", "mud"))
    work, notes = store.sessions().sessions
    assert (work.session_id, work.namespace, work.title) == ("work", "acme/user-7", "question 0 about topic0")
    assert (work.messages, work.compactions) == (len(said), 1)
    assert work.entries == store.stats("work").entries > 0
    assert work.tokens > 0
    assert work.first_at is not None
    assert work.last_at is not None
    assert begun.replace(microsecond=0) <= work.first_at <= work.last_at <= datetime.now(UTC)
    assert astuple(notes) == ("notes", "", "", 0, 2, 0, 0, None, None)


def test_sessions_come_in_pages_in_the_order_of_their_first_writes(store: Store) -> None:
    names = [f"s{number}" for number in (3, 1, 4, 0, 5, 9, 2)]
    for name in names:
        store.index(name, entries("silt"))
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = store.sessions(offset=offset, limit=3)
        seen += [each.session_id for each in page.sessions]
        offset = page.next_offset
    assert seen == names
    assert store.sessions(limit=7).next_offset is None
    assert store.sessions(limit=6).next_offset == 6
    assert store.sessions(offset=10**30, limit=10**30).sessions == ()


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (-(2**70), 0), (5, -1), (5, -(2**70))])
def test_a_page_of_sessions_that_cannot_be_is_refused(store: Store, limit: int, offset: int) -> None:
    with pytest.raises(InvalidEntryError, match="at least"):
        store.sessions(limit=limit, offset=offset)


def test_sessions_are_listed_by_namespace(store: DatabaseStore) -> None:
    for name, namespace in [("a", "x"), ("b", ""), ("c", "x"), ("d", "x/y")]:
        store.session(name, namespace=namespace).append(user("hello"))
    assert ids(store, namespace="x") == ["a", "c"]
    assert ids(store, namespace="") == ["b"]
    assert ids(store, namespace="nobody's") == []
    page = store.sessions("x", limit=1)
    assert ([each.session_id for each in page.sessions], page.next_offset) == (["a"], 1)
    with pytest.raises(InvalidEntryError):
        store.sessions("x" * 1_025)


def test_a_deleted_session_is_in_no_list_until_it_is_revived_and_has_something(store: DatabaseStore) -> None:
    store.session("a").append(user("hello"))
    store.session("b").append(user("hello"))
    store.delete_session("a")
    assert ids(store) == ["b"]
    store.revive("a")
    assert ids(store) == ["b"]
    store.index("a", entries("gravel"))
    assert store.sessions().sessions[0] == SessionInfo("a", "", "", 0, 1, 0, 0, None, None)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ([system("Rules."), assistant("Hello!"), user("Mend the weir.")], "Mend the weir."),
        ([user("<system-reminder>Be brief.</system-reminder>"), user("  Mend it. ")], "Mend it."),
        ([{"role": "user", "content": [{"type": "text", "text": "x" * 500}]}], "x" * 200),
        ([use("a"), results("a", text="Now the rest.")], "Now the rest."),
        ([assistant("Hello!")], ""),
    ],
)
def test_the_title_is_how_the_first_request_begins(said: list[Any], title: str) -> None:
    with SimpleMemoryStore() as store:
        store.session("a").append(*said)
        assert store.sessions().sessions[0].title == title


def test_the_first_request_may_come_with_a_branch() -> None:
    with SimpleMemoryStore() as store:
        session = store.session("a")
        session.observe([assistant("Welcome."), assistant("How are you?")])
        begun = [assistant("Welcome."), user("Go."), assistant("Done.")]
        session.observe(begun, on_conflict="branch")
        session.observe([*begun, user("Go on.")], on_conflict="branch")
        assert store.sessions().sessions[0].title == "Go."


def test_a_title_is_always_that_of_the_first_request_that_is_left() -> None:
    """A title is cut, so it may have the half of a secret that no search for the whole finds."""
    secret, filler = "0123456789abcdefghij", "mud " * 47
    with SimpleMemoryStore() as store:
        session = store.session("a")
        session.append(user("One."), user(f"{filler}{secret} is the key"), assistant("Noted."))
        store.forget(text="One.")
        assert store.sessions().sessions[0].title == f"{filler}{secret}"[:200]
        session.append(user("Three."))
        store.forget(text=secret)
        assert store.sessions().sessions[0].title == "Three."
        store.forget(session_id="a")
        assert store.sessions().sessions[0].title == ""
        session.append(user("Four."))
        assert store.sessions().sessions[0].title == "Four."


def test_a_session_is_opened_from_its_store_and_leaves_it_open(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        with store.session("a", context_window=8_000) as session:
            session.append(user("hello"))
            assert session.store is store
            assert session.context_window == 8_000
        with store.session("a") as again:
            assert again.history() == [user("hello")]
        with pytest.raises(TypeError, match="no option 'windw'; did you mean"):
            store.session("a", windw=8_000)  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="context_window"):
            store.session("a", context_window=0)
