"""The files of an archive beside a session: complete after each commit, and after a crash."""

import json
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, exchange, small, user
from siltstone import MemoryStore, Session
from siltstone.archive.files import read_vectors
from siltstone.archive.live import ContextArchive
from siltstone.archive.records import read_knowledge, read_segments, segment_of, write_segments
from siltstone.engine import Compacted
from siltstone.events import ArchiveFailed
from siltstone.knowledge import KnowledgeConfig
from siltstone.testing import RecordingHook, ScriptedModel


def opened(path: Path, session_id: str = "s", **options: Any) -> Session:
    options.setdefault("archive", path / "memory" / "context")
    options.setdefault("knowledge", KnowledgeConfig(knowledge_extraction=False))
    return Session.open(path, session_id, policy=small(), model=ScriptedModel(), **options)


def work(session: Session, run: int = 0) -> None:
    session.append(user("Remember that the API is running on port 3000. " + "pad " * 30), assistant("Yes."))
    for number in range(6):
        session.append(user(f"question {run}.{number} " + "pad " * 30))
        session.append(*exchange(run * 10 + number, f"result of {run}.{number}"), assistant("Done. " * 12))
    assert isinstance(session.compact(), Compacted)


def files(path: Path) -> tuple[list[str], set[str], int]:
    folder = path / "memory" / "context"
    vectors = read_vectors(folder / "vectors.bin")
    facts, _ = read_knowledge(folder / "knowledge.jsonl")
    texts = [segment.content for segment in read_segments(folder / "segments.jsonl")]
    return texts, {fact.content for fact in facts}, len(vectors.by_id) if vectors else 0


def test_oc_54_the_files_are_complete_after_each_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        for run in range(3):
            work(session, run)
            texts, facts, vectors = files(tmp_path)
            stored = {entry.content for entry in session.store.entries("s", limit=1_000).entries}
            assert set(texts) == stored
            assert len(texts) == len(set(texts)) == vectors
            assert any("port 3000" in fact for fact in facts)
        session.save("Use tabs", "preference")
        assert "Use tabs" in files(tmp_path)[1]


def test_oc_55_results_of_tools_are_archived_too(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        work(session)
    assert any("result of 0.0" in text for text in files(tmp_path)[0])
    roles = {segment.role for segment in read_segments(tmp_path / "memory/context/segments.jsonl")}
    assert {"user", "assistant", "tool"} <= roles


def test_oc_78_an_archive_that_fails_changes_no_outcome_and_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = RecordingHook()
    with opened(tmp_path, hooks=[hook]) as session:

        def full(*args: Any, **options: Any) -> Any:
            raise OSError("no space left on device")

        monkeypatch.setattr(ContextArchive, "add", full)
        work(session)
        assert ArchiveFailed("s", "no space left on device", 0) in hook.events
        monkeypatch.undo()
        assert session._core.knowing.progress.archived == ()
    with opened(tmp_path) as session:
        assert set(files(tmp_path)[0]) == {
            each.content for each in session.store.entries("s", limit=999).entries
        }


def test_oc_26_two_sessions_share_a_folder(tmp_path: Path) -> None:
    with opened(tmp_path, "one") as one, opened(tmp_path, "two") as two:
        work(one, 1)
        work(two, 2)
        work(one, 3)
    texts, _, vectors = files(tmp_path)
    assert any("question 2.0" in text for text in texts)
    assert any("question 3.0" in text for text in texts)
    assert vectors == len(texts)


@pytest.mark.parametrize("by", ["the session", "the store"])
def test_what_is_forgotten_leaves_the_files(tmp_path: Path, by: str) -> None:
    """Where nobody has the session open, it leaves them when that is next opened."""
    with opened(tmp_path) as session:
        session.append(user("the walrus is secret " + "pad " * 30), assistant("Noted. " * 12))
        work(session)
        session.save("The walrus likes fish")
        assert any("walrus" in text for text in files(tmp_path)[0])
        if by == "the session":
            session.forget(text="walrus")
    if by == "the store":
        with MemoryStore.open(tmp_path) as store:
            store.forget(text="walrus")
        opened(tmp_path).close()
    assert not any(b"walrus" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert any("question 0.0" in text for text in files(tmp_path)[0])


def test_files_that_were_there_before_the_session_are_read_at_its_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / "context"
    write_segments(
        folder / "segments.jsonl", [segment_of("s", "user", "the zebra is in the north", 1_770_000_000_000)]
    )
    line = {"id": "f", "type": "decision", "content": "Use tabs", "timestamp": 5, "sessionId": "s"}
    (folder / "knowledge.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    for _ in range(2):
        with opened(tmp_path) as session:
            assert [hit.content for hit in session.search("zebra")] == ["the zebra is in the north"]
            assert [fact.content for fact in session.facts()] == ["Use tabs"]
