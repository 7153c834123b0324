"""LangGraph's store: ours gives the answers of its own in-memory store, and keeps its values."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

pytest.importorskip("langchain", reason="langchain is not installed; nox -s adapter has it")

from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import siltstone
from siltstone.adapters.langchain import SiltstoneStore
from siltstone.errors import InvalidEntryError

labels = st.sampled_from(["ann", "an", "ben", "é", "cargo*"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["a", "b", "c"])
values = st.none() | st.fixed_dictionaries({"n": st.integers(0, 3), "text": st.sampled_from(["salt", "tin"])})
puts = st.builds(PutOp, namespaces, keys, values, st.none(), st.none())
filters = st.none() | st.sampled_from(
    [{"n": 1}, {"n": {"$gte": 2}}, {"n": {"$ne": 1}, "text": "tin"}, {"n": {"$lt": 2, "$gt": 0}}]
)
reads = st.one_of(
    st.builds(GetOp, namespaces, keys, st.just(True)),
    st.builds(
        SearchOp,
        st.lists(labels, max_size=2).map(tuple),
        filters,
        st.just(100),
        st.just(0),
        st.none(),
        st.just(True),
    ),
)


def told(result: Any) -> Any:
    """An answer without its times, and items without their order: LangGraph promises none."""
    if isinstance(result, list):
        return sorted(map(repr, map(told, result)))
    if hasattr(result, "key"):
        return result.namespace, result.key, result.value
    return result


@given(st.lists(st.lists(puts | reads, max_size=4), max_size=4))
def test_it_answers_as_the_store_of_langgraph_does(batches: list[list[Any]]) -> None:
    theirs = InMemoryStore()
    with siltstone.SimpleMemoryStore() as kept:
        ours = SiltstoneStore(kept)
        for batch in batches:
            assert [told(each) for each in ours.batch(batch)] == [told(each) for each in theirs.batch(batch)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SiltstoneStore]:
    with siltstone.MemoryStore.open(tmp_path) as kept:
        yield SiltstoneStore(kept)


def test_a_search_finds_by_words_and_says_how_well(store: SiltstoneStore) -> None:
    store.put(("cargo", "ann"), "a", {"text": "The salt stands on quay 2.", "by": "ann"})
    store.put(("cargo", "ann"), "b", {"text": "The tin is still at sea.", "by": "ann"})
    store.put(("cargo", "anna"), "c", {"text": "The salt of somebody else."})
    (found,) = store.search(("cargo", "ann"), query="where does the salt stand?")
    assert (found.key, found.namespace) == ("a", ("cargo", "ann"))
    assert 0 < (found.score or 0) <= 1
    assert [each.key for each in store.search(("cargo",), query="salt", filter={"by": "ann"})] == ["a"]
    assert store.search(("cargo",), query="amber") == []
    assert len(store.search(("cargo",))) == 3


def test_a_put_and_a_get_read_their_own_row_alone(store: SiltstoneStore, monkeypatch: pytest.MonkeyPatch):
    """An agent that keeps thousands of items pays for the one that it changes."""
    store.batch([PutOp(("notes",), str(number), {"n": number}) for number in range(500)])
    read: list[str] = []
    facts = store._store.facts

    def noted(session: str, state: str | None = None) -> Any:
        rows = facts(session, state)
        read.extend(row[3] for row in rows)
        return rows

    monkeypatch.setattr(store._store, "facts", noted)
    store.put(("notes",), "new", {"n": 500})
    assert read == []
    store.put(("notes",), "7", {"n": 7_000})
    item = store.get(("notes",), "7")
    assert item.value == {"n": 7_000}
    store.delete(("notes",), "7")
    assert store.get(("notes",), "7") is None
    store.put(("notes",), "7", {"n": 7})
    assert read == ["7"] * 4
    assert len(store.search(("notes",), limit=1_000)) == 501


def test_what_two_processes_put_at_once_is_one_item_after_the_next_put(store: SiltstoneStore) -> None:
    store.put(("a",), "k", {"n": 1})
    session, (row,) = 'langgraph:["a"]', store._store.facts('langgraph:["a"]')
    store._store.put_facts(session, [(None, "k", row[2], row[4].replace("1", "2"))])
    for found in (store.get(("a",), "k"), *store.search(("a",))):
        assert found.value == {"n": 2}
    store.put(("a",), "k", {"n": 3})
    store.delete(("a",), "k")
    assert store.search(("a",)) == []
    assert store.get(("a",), "k") is None


def test_index_says_which_fields_count(store: SiltstoneStore) -> None:
    store.put(("notes",), "a", {"title": "salt", "text": "tin"}, index=["title"])
    store.put(("notes",), "b", {"title": "salt"}, index=False)
    assert [each.key for each in store.search(("notes",), query="salt")] == ["a"]
    assert store.search(("notes",), query="tin") == []
    assert len(store.search(("notes",))) == 2


def test_another_process_reads_what_was_put_and_changes_it(tmp_path: Path) -> None:
    source = """
import sys, siltstone
from siltstone.adapters.langchain import SiltstoneStore
with siltstone.MemoryStore.open(sys.argv[1]) as kept:
    store = SiltstoneStore(kept)
    print(store.get(("a",), "k").value["n"])
    store.put(("a",), "k", {"n": 2})
"""
    with siltstone.MemoryStore.open(tmp_path) as kept:
        store = SiltstoneStore(kept)
        store.put(("a",), "k", {"n": 1})
        command = [sys.executable, "-c", source, str(tmp_path)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
        item = store.get(("a",), "k")
        assert item.value == {"n": 2}
        assert item.updated_at >= item.created_at
        assert store._store.stats().entries == 0  # items are no entries of a conversation


def test_it_is_async_as_well(store: SiltstoneStore) -> None:
    async def main() -> None:
        await store.aput(("a",), "k", {"n": 1})
        item = await store.aget(("a",), "k")
        assert item.value == {"n": 1}
        await store.adelete(("a",), "k")
        assert await store.aget(("a",), "k") is None
        assert await store.alist_namespaces() == []

    asyncio.run(main())


def test_what_cannot_be_kept_is_refused(store: SiltstoneStore) -> None:
    with pytest.raises(NotImplementedError, match="TTL"):
        store.put(("a",), "k", {"n": 1}, ttl=5)
    with pytest.raises(InvalidEntryError):
        store.put(("a" * 2_000,), "k", {"n": 1})
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(ValueError, match="unsupported operator"):
        store.search(("a",), filter={"n": {"$near": 1}})
