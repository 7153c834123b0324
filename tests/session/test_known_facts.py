"""Facts are read and indexed once: whoever changes them, and whatever time it is, what is found is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conversations import assistant, small, user
from siltstone import MemoryStore, RecallConfig, Session
from siltstone.engine import Compacted
from siltstone.knowledge import KnowledgeConfig
from storing import sql


def opened(path: Path | None, session_id: str = "s", **options: Any) -> Session:
    return Session.open(path, session_id, **{"policy": small(), "knowledge": True, **options})


def contents(session: Session, **options: Any) -> list[str]:
    return [fact.content for fact in session.facts(**options)]


def test_what_others_change_in_shared_facts_is_seen_at_the_next_look(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"namespace": "team"}
    with MemoryStore.open(tmp_path) as store, MemoryStore.open(tmp_path) as other:
        one = opened(None, "one", memory=store, **shared)
        two = opened(None, "two", memory=other, **shared)
        assert two.facts("API port") == []
        fact = one.save("The API is on port 3000")
        assert contents(two, query="API port") == [fact.content]
        assert one.retract(fact.id)
        assert two.facts("API port") == []
        one.save("The API is on port 4000")
        assert len(two.facts("API port")) == 1
        other.delete_session("one")
        assert two.facts("API port") == []


def test_a_fact_that_was_replaced_or_taken_back_is_brought_back(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        for text in ("Remember that the office is on floor 3.", "Remember that the office is on floor 4."):
            session.append({"role": "user", "content": text, "name": "ann"}, assistant("ok"))
        for _ in range(20):
            session.append(user("pebble " * 60), assistant("gravel " * 60))
            session.prepare()
        session.compact()
        assert contents(session) == ["The office is on floor 4"]
        old, new = session.fact_history(session.facts()[0].id)
        assert old.superseded_because == "the same subject and relation, another value"
        assert (old.speaker, old.source_ranges) == ("user ann", ((0, 1),))
        assert session.restore(old.id)
        assert sorted(contents(session)) == ["The office is on floor 3", "The office is on floor 4"]
        assert session.retract(new.id)
        assert session.restore(new.id)
        assert not session.restore(new.id), "it holds"
        assert not session.restore("unknown")
        assert len(contents(session)) == 2


def test_a_fork_has_the_facts_of_its_session_or_of_its_namespace_once(tmp_path: Path) -> None:
    for scope in ("", "team"):
        with opened(tmp_path, f"of {scope}", namespace=scope) as session:
            session.append(user("hello"), assistant("hi"))
            session.save("The API is on port 3000")
            with session.fork(f"fork of {scope}") as fork:
                assert contents(fork) == ["The API is on port 3000"]


def test_a_fact_that_the_model_forgets_leaves_the_turn_that_recalled_it(tmp_path: Path) -> None:
    every = RecallConfig(auto_recall_min_score=0.0)
    with opened(tmp_path, allow_forget=True, recall=every) as session:
        session.append(user("hello"), assistant("hi"))
        fact = session.save("The API is on port 3000")
        session.append(user("Which port has the API?"))
        assert "3000" in json.dumps(session.prepare().messages)
        assert json.loads(session.memory_forget.call({"ids": [fact.id]})) == {"forgotten": 1}
        assert "3000" not in json.dumps(session.prepare().messages)


def test_facts_are_found_while_they_hold_whatever_was_asked_before(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        now = session.save("The API is on port 3000").created_at / 1000
        session.save("The API is down", valid_until=now + 3600)
        both = ["The API is down", "The API is on port 3000"]
        for seconds, found in ((60, both), (7200, both[1:]), (60, both), (-60, [])):
            assert sorted(contents(session, query="API", as_of=now + seconds)) == found


def test_facts_are_read_where_the_note_of_their_changes_is_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.save("The API is on port 3000")
    sql(tmp_path, "UPDATE meta SET value = 'x' WHERE key = 'facts'")
    with opened(tmp_path) as session:
        assert len(session.facts("API port")) == 1
        session.save("The API is on port 4000")
        assert len(session.facts("API port")) == 2


def test_facts_of_messages_do_not_take_the_places_of_what_was_saved(tmp_path: Path) -> None:
    names = ("Falcon", "Heron", "Osprey", "Walrus", "Otter", "Zebra")
    said = [f"Remember that {name} has the API port 3000." for name in names]
    said += [f"What of step {number}?" for number in range(8)]
    with opened(tmp_path, knowledge=KnowledgeConfig(knowledge_extraction=False)) as session:
        for text in said:
            session.append(user(f"{text} {'pad ' * 30}"), assistant("Done. " * 20))
        assert isinstance(session.compact(), Compacted)
        assert len(session.facts("api port")) == 6
        other = "and Bob why its port and the lock of the laboratory differ " + "from the others " * 20
        saved = session.save(f"Ask Ann for the key of the API, {other}")
        assert session.facts("api port")[-1] == saved, "the others fit better, and stand in messages"
        hits = json.loads(session.memory_search.call({"query": "api port", "limit": 3}))
        assert hits[0]["content"] == saved.content
