"""A session that is carried through a file is the session that it was."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from conversations import assistant, exchange, small, user
from siltstone import ConfigError, Entry, MemoryStore, Session, SimpleMemoryStore
from siltstone.archive.files import read_vectors
from siltstone.archive.records import read_segments
from siltstone.documented import hash_vector
from siltstone.engine import Compacted
from siltstone.knowledge import KnowledgeConfig
from siltstone.session import transfer
from siltstone.testing import ScriptedModel

CONFIG = KnowledgeConfig(knowledge_extraction=False, min_entries=1)


def opened(store: Any, session_id: str = "s", **options: Any) -> Session:
    options.setdefault("policy", small())
    options.setdefault("model", ScriptedModel())
    return Session.open(None, session_id, memory=store, knowledge=CONFIG, **options)


def fill(session: Session, runs: int = 3) -> None:
    session.append({"role": "system", "content": "Be brief."})
    session.append(user("Remember that the API is running on port 3000. " + "pad " * 20))
    for run in range(runs):
        for number in range(6):
            text = f"run{run} question{number} about walrus{run}{number}"
            session.append(user(text + " pad" * 20), *exchange(run * 10 + number, f"out{run}{number}"))
            session.append(assistant("Done. " * 10), usage=900)
        assert isinstance(session.compact(), Compacted)
        if run == 0:
            session.pin(session.log(0)[0] and len(session.log()) - 1)
    session.save("Use tabs", "preference", tags=["style"])
    session.record_denial("shell", "rm", "use make clean", "tidy")


def test_an_export_never_destroys_the_file_of_a_store(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store, opened(store) as session:
        session.append(user("hello"))
        with pytest.raises(ConfigError, match="not the file of a store"):
            transfer.export_everything(store, ["s"], tmp_path / "memory" / "memory.sqlite3")
        with pytest.raises(ConfigError, match="not of a directory"):
            transfer.export_everything(store, ["s"], tmp_path)
        assert session.log() == [user("hello")]


def test_everything_comes_back_and_the_session_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with MemoryStore.open(tmp_path / "a") as store, opened(store, namespace="team") as session:
        fill(session)
        store.index("s", [Entry("a note of the host", kind="note", name="Ann")])
        expected = (session.history(), session.log(), session.usage, session._core.clock.pins)
        facts, rules = session.facts(history=True), [rule.text for rule in session.rules]
        hits = [(hit.content, hit.role, hit.created_at) for hit in session.search("walrus11", 50)]
        records = session.compactions()
        views = [session.view_at(n) for n in range(len(records) + 1)]
        transfer.export_everything(store, ["s"], file)
    with MemoryStore.open(tmp_path / "b") as store:
        done = transfer.import_everything(store, file)
        assert (done.sessions, done.messages) == (["s"], len(expected[1]))
        assert (done.compactions, done.skipped) == (3, 0)
        with opened(store, namespace="team") as session:
            assert (session.history(), session.log(), session.usage, session._core.clock.pins) == expected
            assert session.facts(history=True) == facts
            assert [rule.text for rule in session.rules] == rules
            assert [(h.content, h.role, h.created_at) for h in session.search("walrus11", 50)] == hits
            assert [session.view_at(n) for n in range(len(records) + 1)] == views
            assert [(r.reason, r.covers, r.summaries) for r in session.compactions()] == [
                (r.reason, r.covers, r.summaries) for r in records
            ]
            (note,) = [each for each in store.entries("s", limit=1000).entries if each.kind == "note"]
            assert (note.content, note.name) == ("a note of the host", "Ann")
            before = len(session.history())
            assert session.undo_compaction() is not None
            assert len(session.history()) > before
            again = [hit for hit in session.search("walrus25", 50) if "walrus25" in hit.content]
            assert all(hit.in_context for hit in again)
            session.append(user("And on it goes."))
            session.prepare()
        assert store.check() == []
    with MemoryStore.open(tmp_path / "b") as store:
        assert store.check() == []


def test_a_file_has_several_sessions_and_one_can_have_another_name(tmp_path: Path) -> None:
    with SimpleMemoryStore() as store:
        for name in ("one", "two"):
            with opened(store, name) as session:
                session.append(user(f"hello from {name}"))
                session.save(f"fact of {name}")
        transfer.export_everything(store, ["one", "two"], tmp_path / "both.jsonl")
        transfer.export_everything(store, ["one"], tmp_path / "one.jsonl")
    with SimpleMemoryStore() as store:
        assert transfer.import_everything(store, tmp_path / "both.jsonl").sessions == ["one", "two"]
        with pytest.raises(ConfigError, match="has messages of session 'one' already"):
            transfer.import_everything(store, tmp_path / "one.jsonl")
        transfer.import_everything(store, tmp_path / "one.jsonl", session_id="copy")
        with opened(store, "copy") as session:
            assert session.log() == [user("hello from one")]
            assert [(fact.content, fact.session_id) for fact in session.facts()] == [("fact of one", "copy")]
        with pytest.raises(ConfigError, match="has several"):
            transfer.import_everything(store, tmp_path / "both.jsonl", session_id="third")


def test_bad_lines_are_counted_and_stop_no_other(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with SimpleMemoryStore() as store, opened(store) as session:
        fill(session, runs=1)
        transfer.export_everything(store, ["s"], file)
    lines = file.read_text("utf-8").splitlines()
    lines.insert(4, "{")
    lines.insert(
        9, json.dumps({"format": "siltstone-archive-1", "kind": "unknown", "session_id": "s", "body": {}})
    )
    lines.append(
        json.dumps({"format": "siltstone-archive-1", "kind": "known", "session_id": "s", "body": {}})
    )
    file.write_text("\n".join(lines), "utf-8")
    with SimpleMemoryStore() as store:
        done = transfer.import_everything(store, file)
        assert done.skipped == 3
        assert done.messages > 20
        with opened(store) as session:
            assert len(session.facts()) == 2


def test_a_line_that_no_store_takes_stops_no_import(tmp_path: Path) -> None:
    segment = {"id": "a", "sessionId": "s", "timestamp": 1, "role": "user", "content": "silt"}
    bad: list[dict[str, Any]] = [
        {"timestamp": float("inf")}, {"timestamp": float("nan")}, {"timestamp": 10**20}, {"timestamp": "1"},
        {"sessionId": "x" * 2_000}, {"sessionId": "\ud800"},
    ]  # fmt: skip
    lines = [json.dumps(segment | each) for each in [*bad, {}]]
    (tmp_path / "segments.jsonl").write_text("\n".join(lines))
    fact = {"id": "f", "type": "decision", "content": "Use silt", "timestamp": 1}
    lines = [json.dumps(fact | each) for each in ({"id": "g", "timestamp": 10**20}, {})]
    (tmp_path / "knowledge.jsonl").write_text("\n".join(lines))
    entry = {
        "content": "mud", "source_range": [1, 2], "role": "user", "name": None, "kind": "message",
        "created_at": "2020-01-01T00:00:00+00:00",
    }  # fmt: skip
    record = {"format": "siltstone-archive-1", "kind": "entry", "session_id": "e"}
    wrong: list[dict[str, Any]] = [{"source_range": [5, 1]}, {"source_range": [0, 2**70]}]
    lines = [json.dumps(record | {"body": entry | each}) for each in [*wrong, {}]]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    with SimpleMemoryStore() as store:
        done = transfer.import_segments(store, tmp_path / "segments.jsonl")
        assert (done.entries, done.skipped, done.sessions) == (1, 6, ["s"])
        done = transfer.import_knowledge(store, tmp_path / "knowledge.jsonl", session_id="s")
        assert (done.facts, done.skipped) == (1, 1)
        done = transfer.import_everything(store, tmp_path / "all.jsonl")
        assert (done.entries, done.skipped) == (1, 2)


texts = st.text(max_size=30)
raws = st.one_of(
    st.builds(user, texts),
    st.builds(assistant, texts),
    st.builds(
        lambda text, key: {"role": "user", "content": text, "x_" + key: {"deep": [key, None, 1.5]}},
        texts,
        texts,
    ),
)


def test_any_messages_come_back_as_they_were(tmp_path: Path) -> None:
    with SimpleMemoryStore() as one, SimpleMemoryStore() as other:
        names = (f"s{number}" for number in itertools.count())

        @settings(deadline=None)
        @given(st.lists(raws, max_size=12))
        def carried(messages: list[Any]) -> None:
            name = next(names)
            with opened(one, name) as session:
                if messages:
                    session.append(*messages)
                expected = session.log()
            transfer.export_everything(one, [name], tmp_path / "file")
            transfer.import_everything(other, tmp_path / "file")
            with opened(other, name) as session:
                assert session.log() == expected

        carried()


def test_oc_24_segments_and_knowledge_go_out_and_come_in_again(tmp_path: Path) -> None:
    with SimpleMemoryStore() as store, opened(store) as session:
        fill(session, runs=1)
        entries = store.stats("s").entries
        assert transfer.export_segments(store, ["s"], tmp_path / "segments.jsonl") == entries
        assert transfer.export_knowledge(store, ["s"], tmp_path / "knowledge.jsonl") == 2
        assert transfer.export_vectors(store, ["s"], tmp_path / "vectors.bin") == entries
        known = {fact.content for fact in session.facts()}
        unique = len({(each.role, each.content) for each in store.entries("s", limit=1_000).entries})
    vectors = read_vectors(tmp_path / "vectors.bin")
    assert vectors is not None
    for segment in read_segments(tmp_path / "segments.jsonl"):
        assert list(vectors.by_id[segment.id]) == pytest.approx(hash_vector(segment.content), abs=1e-6)
    with SimpleMemoryStore() as store:
        done = transfer.import_segments(store, tmp_path / "segments.jsonl")
        assert (done.sessions, done.entries, done.entries + done.duplicates) == (["s"], unique, entries)
        again = transfer.import_segments(store, tmp_path / "segments.jsonl")
        assert (again.entries, again.duplicates) == (0, entries)
        assert any("walrus00" in hit.content for hit in store.search("s", "walrus00"))
        assert transfer.import_knowledge(store, tmp_path / "knowledge.jsonl", session_id="t").facts == 2
        assert transfer.import_knowledge(store, tmp_path / "knowledge.jsonl", session_id="t").duplicates == 2
        with opened(store, "t") as session:
            assert {fact.content for fact in session.facts()} == known
