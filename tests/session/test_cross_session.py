"""Memory across sessions of one owner: what one said, another finds, and nobody else."""

import json
from pathlib import Path
from typing import Any

import pytest

import siltstone
from conversations import assistant, user
from siltstone.stores import MemoryStore

ACROSS = (
    "Search semantic memory for past conversation content. Memory contains text from earlier conversation "
    "turns that were compacted away to save context space. Use this to recall information from earlier in "
    "the conversation or from previous sessions."
)


@pytest.fixture(params=["durable", "simple"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with (
        MemoryStore.open(tmp_path) if request.param == "durable" else siltstone.SimpleMemoryStore() as opened
    ):
        yield opened


def session(store: Any, name: str, **options: Any) -> siltstone.Session:
    given = {"namespace": "acme/user-42", "policy": None} | options
    return siltstone.Session.open(None, name, memory=store, **given)


def test_the_tool_finds_what_was_said_on_another_day(store: Any) -> None:
    with session(store, "monday") as monday:
        monday.append(user("the kettle is in the harbour office"), assistant("noted"))
    with session(store, "tuesday") as tuesday:
        tuesday.append(user("where is the kettle?"))
        tool = tuesday.memory_search
        assert tool.description == ACROSS
        (found, *_) = json.loads(tool.run({"query": "kettle harbour"}))
        assert found["content"] == "the kettle is in the harbour office"
        assert (found["session_id"], found["source_range"]) == ("monday", {"start": 0, "end": 1})
        assert [hit.in_context for hit in tuesday.search("kettle", scope="session")] == [True]
        (hit, *_) = tuesday.search("kettle")
        assert hit.session_id == "monday"


def test_a_namespace_alone_shares_recall_and_facts_and_a_call_can_narrow_it(store: Any) -> None:
    with session(store, "monday") as monday, session(store, "else", namespace="acme/user-4") as other:
        monday.append(user("the kettle is in the harbour office"), assistant("noted"))
        monday.save("The kettle of the harbour office is blue")
        other.append(user("the kettle of the harbour office is cracked"), assistant("noted"))
    with session(store, "tuesday", recall=True, context_window=200_000) as tuesday:
        tuesday.append(user("where is the kettle of the harbour office?"))
        recalled = tuesday.prepare().recalled
        assert "kettle is in the harbour" in recalled
        assert "office is blue" in recalled
        assert "cracked" not in recalled
        assert [fact.session_id for fact in tuesday.facts("blue kettle")] == ["monday"]
        assert tuesday.facts("blue kettle", scope="session") == []
        assert tuesday.facts(scope="session") == []
    alone = siltstone.RecallConfig(cross_session=False)
    with session(store, "wednesday", recall=alone, context_window=200_000) as wednesday:
        wednesday.append(user("where is the kettle of the harbour office?"))
        assert "kettle is in the harbour" not in wednesday.prepare().recalled


def test_without_a_namespace_the_tool_is_that_of_one_session(store: Any) -> None:
    with session(store, "monday", namespace="") as monday, session(store, "tuesday", namespace="") as tuesday:
        monday.append(user("the kettle is in the harbour office"))
        assert "previous sessions" not in tuesday.memory_search.description
        assert tuesday.memory_search.run({"query": "kettle"}) == "[]"


def test_what_a_compaction_discards_stays_findable_for_all(store: Any) -> None:
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(recent_turn_budget=1, min_reduction=0.0))
    with session(store, "monday", policy=policy) as monday, session(store, "tuesday") as tuesday:
        for number in range(6):
            monday.append(user(f"errand {number}: fetch the kettle"), assistant("I shall"))
        before = {hit.content for hit in tuesday.search("errand kettle", 20, scope="namespace")}
        monday.compact()
        after = tuesday.search("errand kettle", 20, scope="namespace")
        assert {hit.content for hit in after} == before
        assert {hit.entry_id > 0 for hit in after} == {True, False}
        own = monday.search("errand kettle", 20, scope="namespace")
        assert {hit.in_context for hit in own} == {True, False}


def test_a_session_that_keeps_nothing_to_be_found_tells_nobody(tmp_path: Path) -> None:
    with (
        siltstone.Session.open(tmp_path, "silent", memory=False, namespace="acme", policy=None) as silent,
        siltstone.Session.open(tmp_path, "asks", namespace="acme", policy=None) as asks,
    ):
        silent.append(user("the kettle is a secret"))
        assert asks.search("kettle", scope="namespace") == []


def test_tools_are_left_out_where_their_session_leaves_them_out(store: Any) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "kettle.txt"}}
    history = [
        user("read it"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "the kettle hums"},
    ]
    with session(store, "tools") as tools, session(store, "words", index_tools=False) as words:
        tools.append(*history)
        words.append(*history)
        with session(store, "asks") as asks:
            found = asks.search("kettle", 20, scope="namespace")
    assert found
    assert {hit.session_id for hit in found} == {"tools"}


def test_a_namespace_is_fixed_at_the_first_open(store: Any) -> None:
    session(store, "a").close()
    session(store, "a", namespace=None).close()
    with pytest.raises(siltstone.ConfigError, match="of namespace") as refused:
        session(store, "a", namespace="acme/user-4")
    assert vars(refused.value)["field"] == "namespace"
