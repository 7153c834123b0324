"""The list of a store's sessions, and the way from it to one of them."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from compacting import system
from conversations import assistant, conversation, small, user
from shapes import results, use
from siltstone import ConfigError, MemoryStore, SimpleMemoryStore
from siltstone.engine import Compacted
from siltstone.errors import InvalidEntryError
from siltstone.memory import SessionInfo, Store
from siltstone.stores.database import DatabaseStore
from siltstone.testing import ScriptedModel
from storing import entries


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
