"""The live archive: its messages, its hits, the cost of a restart, and several processes in one folder."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from siltstone import ConfigError
from siltstone.archive import files, records as lines
from siltstone.archive.files import read_vectors
from siltstone.archive.live import Archived, ContextArchive, Said
from siltstone.archive.records import line_of, locked, read_segments, segment_fields, segment_of
from siltstone.documented import hash_vector
from siltstone.knowledge import Fact, new_fact
from siltstone.redaction import redact

NOW = 1_800_000_000_000
DAY = 86_400_000


def said(*texts: str, role: str = "user", start: int = NOW) -> list[Said]:
    return [Said(role, text, start + place) for place, text in enumerate(texts)]


def contents(found: Sequence[tuple[Any, float]]) -> list[str]:
    return [segment.content for segment, _ in found]


def test_oc_52_messages_are_counted_redacted_and_kept_once(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path, redact=lambda text: redact(text)[0])
    token = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"
    done = archive.add("s", said("hello", "  ", "hello", f"the token is {token}"))
    assert done == Archived(stored=2, duplicates=1, blank=1)
    assert [each.content for each in archive.timeline("s")] == ["hello", "the token is [REDACTED]"]
    assert not any(token.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_oc_57_the_count_is_what_was_stored_and_duplicates_are_told_apart(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    assert archive.add("s", said("one", "two")) == Archived(stored=2)
    assert archive.add("s", said("two", "three")) == Archived(stored=1, duplicates=1)
    assert len(list(read_segments(tmp_path / "segments.jsonl"))) == archive.stats()["segments"] == 3


def test_oc_52_one_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ContextArchive(tmp_path)
    append = archive.segments._append

    def full(line: bytes) -> None:
        if b"bad" in line:
            raise OSError("no space left on device")
        append(line)

    monkeypatch.setattr(archive.segments, "_append", full)
    done = archive.add("s", said("good", "bad", "also good"))
    assert (done.stored, done.failed, done.failures) == (2, 1, ("no space left on device",))
    monkeypatch.undo()
    assert archive.add("s", said("bad")).stored == 1


def test_oc_54_sixty_messages_are_found_by_topic_after_a_restart(tmp_path: Path) -> None:
    topics = ["database migration plan", "docker deployment script", "payment webhook signature"]
    for run in range(3):
        archive = ContextArchive(tmp_path)
        texts = [f"{topics[number % 3]} step {run * 20 + number}" for number in range(20)]
        assert archive.add("s", said(*texts, start=NOW + run)).stored == 20
    again = ContextArchive(tmp_path)
    for topic in topics:
        found = again.search(topic, 8, min_score=0.0, now=NOW)
        assert len(found) == 8
        assert all(text.startswith(topic) for text in contents(found))
    assert again.stats() == {"segments": 60, "sessions": 1, "vectors": 60, "skipped": 0}


def test_oc_30_what_is_new_is_found_by_its_vector_in_the_same_session(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("s", said("an unrelated note"))
    assert archive.search("deployments") == []
    archive.add("s", said("redeploying the deployment"))  # no word in common: the 3-grams are
    assert contents(archive.search("deployments", min_score=0.2, now=NOW)) == ["redeploying the deployment"]
    vectors = read_vectors(tmp_path / "vectors.bin")
    assert len(vectors.by_id) == 2


def test_oc_31_a_score_by_hand(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("s", said("redis"))
    ((_, score),) = archive.search("redis", min_score=0.0, now=NOW + 10 * DAY)
    assert score == pytest.approx((0.7 * 1 + 0.3 * 1) * 0.995**10, abs=1e-6)
    assert archive.search("redis", min_score=0.96, now=NOW + 10 * DAY) == []


def test_oc_50_a_search_keeps_to_its_session_unless_it_asks_all(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("a", said("the walrus of a"))
    archive.add("b", said("the walrus of b"))
    assert contents(archive.search("walrus", session_id="a", min_score=0.0, now=NOW)) == ["the walrus of a"]
    assert len(archive.search("walrus", min_score=0.0, now=NOW)) == 2


def test_oc_80_oc_81_segments_are_filtered_by_topic_and_entity(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("s", said("deploy with docker for ann@example.org", "deploy the cake to the table"))
    options: dict[str, Any] = {"min_score": 0.0, "now": NOW}
    assert len(archive.search("deploy", **options)) == 2
    assert contents(archive.search("the", topic="finance", **options)) == []
    for chosen in ({"entity": "ann@example.org"}, {"topic": "deployment", "entity": "ann@example.org"}):
        found = archive.search("deploy", **chosen, **options)
        assert contents(found) == ["deploy with docker for ann@example.org"]


def test_oc_79_a_restart_embeds_nothing_and_opening_reads_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    def embed(text: str) -> list[float]:
        asked.append(text)
        return hash_vector(text, 16)

    ContextArchive(tmp_path, embed=embed, dimension=16).add("s", said("one", "two"))
    assert asked == ["one", "two"]
    path = tmp_path / "segments.jsonl"
    hidden = path.rename(tmp_path / "hidden")
    again = ContextArchive(tmp_path, embed=embed, dimension=16)
    hidden.rename(path)
    assert [each.content for each in again.timeline("s")] == ["one", "two"], "it was not read before"
    assert contents(again.search("one", min_score=0.0, now=NOW)) == ["one"]
    assert asked == ["one", "two", "one"], "the query alone"


def test_oc_61_where_an_embedder_fails_the_hashed_vector_is_kept(tmp_path: Path) -> None:
    def fails(text: str) -> list[float]:
        raise RuntimeError("the model is gone")

    archive = ContextArchive(tmp_path, embed=fails, dimension=16)
    archive.add("s", said("redis cache"))
    vectors = read_vectors(tmp_path / "vectors.bin")
    (values,) = vectors.by_id.values()
    assert list(values) == pytest.approx(hash_vector("redis cache", 16), abs=1e-6)
    assert contents(archive.search("redis", min_score=0.0, now=NOW)) == ["redis cache"]


def test_oc_62_a_file_of_another_dimension_stays_and_words_are_enough(tmp_path: Path) -> None:
    ContextArchive(tmp_path, dimension=16).add("s", said("redis cache"))
    before = (tmp_path / "vectors.bin").read_bytes()
    archive = ContextArchive(tmp_path, dimension=384)
    assert contents(archive.search("redis", min_score=0.0, now=NOW)) == ["redis cache"]
    assert (tmp_path / "vectors.bin").read_bytes() == before


def test_oc_62_a_folder_keeps_what_its_vectors_began_with_and_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def embed(text: str) -> list[float]:
        asked.append(text)
        return hash_vector(f"{text} as a model sees it", 16)

    made: dict[str, Any] = {"embed": embed, "dimension": 16, "embedder_id": "model-1"}
    ContextArchive(tmp_path, **made).add("s", said("redis cache"))
    assert (tmp_path / "vectors.model").read_text() == "model-1"
    before = (tmp_path / "vectors.bin").read_bytes()
    other = ContextArchive(tmp_path, dimension=16)
    assert other.add("s", said("another note")).stored == 1
    assert contents(other.search("redis", min_score=0.9, now=NOW)) == ["redis cache"], "by its words"
    assert (tmp_path / "vectors.bin").read_bytes() == before
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "are of model-1 with 16 dimensions, and hash makes 16" in caplog.text
    again = ContextArchive(tmp_path, **made)
    assert len(again.search("redis", min_score=0.0, now=NOW)) == 1
    assert asked == ["redis cache", "redis"], "what it made is still there"


def test_what_leaves_the_archive_leaves_vectors_of_another_kind_too(tmp_path: Path) -> None:
    ContextArchive(tmp_path, dimension=16).add("s", said("redis cache", "the password is basalt"))
    archive = ContextArchive(tmp_path, dimension=384)
    archive.replace("s", archive.timeline("s")[:1])
    vectors = read_vectors(tmp_path / "vectors.bin")
    assert (vectors.dimension, list(vectors.by_id)) == (16, [archive.timeline("s")[0].id])


def test_oc_22_oc_28_the_oldest_and_the_too_old_leave_with_their_vectors(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path, eviction_days=90)
    archive.add("s", [Said("user", "old", NOW - 90 * DAY - 1), Said("user", "just so", NOW - 90 * DAY)])
    assert archive.evict(NOW) == 1
    assert [each.content for each in ContextArchive(tmp_path).timeline()] == ["just so"]
    vectors = read_vectors(tmp_path / "vectors.bin")
    assert len(vectors.by_id) == 1


def test_oc_23_a_timeline_of_20_000_is_sorted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        line_of(segment_fields(segment_of("s", "user", f"text {number}", number, id=f"id-{number}")))
        for number in range(20_000)
    ]
    (tmp_path / "segments.jsonl").write_bytes(b"".join(lines))
    archive = ContextArchive(tmp_path)
    assert len(archive.timeline("s")) == 20_000

    def again(session_id: str | None = None) -> list[Any]:
        raise AssertionError("it was sorted once more")

    monkeypatch.setattr(archive.segments, "segments", again)
    for at in range(0, 20_000, 20):
        assert [each.timestamp for each in archive.timeline("s", at, at + 5)] == list(range(at, at + 5))
    assert archive.timeline("s", 19_999) == archive.timeline("s")[-1:]
    assert archive.timeline("s", end=0) == []


def test_a_session_is_replaced_and_others_stay(tmp_path: Path) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("a", said("one", "two"))
    archive.add("b", said("three"))
    archive.replace("a", [segment_of("a", "user", "four", NOW, id="four")])
    again = ContextArchive(tmp_path)
    assert [each.content for each in again.timeline("a")] == ["four"]
    assert [each.content for each in again.timeline("b")] == ["three"]
    assert again.stats()["vectors"] == 2
    assert b"one" not in (tmp_path / "segments.jsonl").read_bytes()


def test_a_segment_whose_id_is_too_long_for_the_vectors_is_refused_before_anything_is_written(tmp_path: Path):
    archive = ContextArchive(tmp_path)
    archive.add("a", said("one"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"at most 65,535 bytes, got 65,536 that begin with 'xxx"):
        archive.replace("a", [segment_of("a", "user", "four", NOW, id="x" * 65_536)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    archive.replace("a", [segment_of("a", "user", "four", NOW, id="x" * 65_535)])
    assert ContextArchive(tmp_path).stats()["vectors"] == 1


@pytest.mark.parametrize("bounds", [{"max_segments": 0}, {"eviction_days": -1}, {"dimension": 7}])
def test_oc_22_bounds_are_checked(tmp_path: Path, bounds: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bounds))):
        ContextArchive(tmp_path, **bounds)


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of this kind")
def test_its_files_and_folders_are_their_owners_alone_whatever_the_mask(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        archive = ContextArchive(tmp_path / "new" / "archive")
        archive.add("s", said("one", "two"))
        archive.put_facts("s", [Fact("3", "config", "Port 80", "web", 2, "4")])
        archive.replace("s", [])
    finally:
        os.umask(mask)
    made = list(tmp_path.rglob("*"))
    assert len(made) >= 4
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600, 0o700}


def on_disk(folder: Path) -> set[str]:
    return {each.content for each in read_segments(folder / "segments.jsonl")}


def writes(folder: str, name: str, times: int) -> None:
    """Adds messages of a session, and rewrites the file again and again."""
    archive = ContextArchive(folder)
    for n in range(times):
        archive.add(name, said(f"{name} {n}", start=NOW + n))
        if n % 4 == 0:
            archive.replace(f"{name} aside", archive.timeline(f"{name} aside"))


def test_no_line_of_another_process_is_lost_by_a_rewrite(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=writes, args=(str(tmp_path), name, 25)) for name in ("a", "b", "c")]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0, 0, 0]
    expected = {f"{name} {n}" for name in ("a", "b", "c") for n in range(25)}
    assert on_disk(tmp_path) == expected
    found = read_vectors(tmp_path / "vectors.bin")
    assert len(found.by_id) == len(expected)


def test_a_removal_keeps_the_lines_that_others_wrote_since(tmp_path: Path) -> None:
    ours, theirs = ContextArchive(tmp_path), ContextArchive(tmp_path)
    ours.add("s", said("old", start=NOW - 100 * DAY))
    theirs.add("s", said("silt", "stone"))
    assert ours.evict(NOW) == 1
    assert on_disk(tmp_path) == {"silt", "stone"}
    assert [each.content for each in ours.timeline("s")] == ["silt", "stone"]
    assert ours.add("s", said("silt")).duplicates == 1


def test_a_text_that_another_process_has_removed_does_not_come_back(tmp_path: Path) -> None:
    ours, theirs = ContextArchive(tmp_path), ContextArchive(tmp_path)
    ours.add("s", said("secret", "silt"))
    assert len(theirs.timeline()) == 2
    ours.replace("s", [each for each in ours.timeline("s") if each.content != "secret"])
    assert theirs.replace("other", []) is None
    assert on_disk(tmp_path) == {"silt"}
    assert theirs.search("secret", min_score=0.0) == theirs.timeline("other") == []


def test_a_search_finds_what_another_process_has_written(tmp_path: Path) -> None:
    ours, theirs = ContextArchive(tmp_path), ContextArchive(tmp_path)
    ours.add("s", said("the river carries silt"))
    assert theirs.search("granite", min_score=0.0, now=NOW) == []
    ours.add("s", said("granite under the hill"))
    [(found, score), *_] = theirs.search("granite hill", min_score=0.0, now=NOW)
    assert found.content == "granite under the hill"
    [(_, same), *_] = ours.search("granite hill", min_score=0.0, now=NOW)
    assert score == same  # by words and by its vector


def test_a_folder_that_cannot_be_made_is_an_answer_for_each_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file is in the way")
    archive = ContextArchive(tmp_path / "file" / "folder")
    done = archive.add("s", said("one", "two"))
    assert (done.stored, done.failed) == (0, 2)
    assert archive.put_facts("s", []) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_forked_during_a_write_keeps_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has the open folder too. It may live for days, as a worker of a pool does."""
    monkeypatch.setattr(lines, "LOCK_SECONDS", 0.0)
    read, write = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent closes the pipe
            os._exit(0)
    try:
        assert ContextArchive(tmp_path).add("s", said("one", "two")).stored == 2
        assert ContextArchive(tmp_path).add("s", said("three")).stored == 1
    finally:
        os.close(read)
        os.close(write)
        os.waitpid(child, 0)


def test_a_process_that_hangs_with_the_folder_locked_hangs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LOCK_SECONDS", 0.0)
    archive = ContextArchive(tmp_path)
    with locked(tmp_path):
        done = archive.add("s", said("one"))
    assert (done.stored, done.failed) == (0, 1)
    assert f"another process has locked it for 0 s: '{tmp_path}'" in done.failures[0]
    assert archive.add("s", said("one")).stored == 1


def test_what_a_broken_read_has_missed_is_not_lost_by_the_next_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = ContextArchive(tmp_path), ContextArchive(tmp_path)
    ours.add("s", said("silt"))
    theirs.add("t", said("stone"))

    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(lines, "read_segments", broken)
        with pytest.raises(OSError, match="Input/output"):
            ours.replace("s", [])
        assert ours.add("s", said("granite")).failed == 1
    ours.replace("s", [])
    assert on_disk(tmp_path) == {"stone"}


@pytest.mark.parametrize(("room", "write"), [(lines, "write_segments"), (files, "write_vectors")])
def test_what_could_not_be_removed_is_removed_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: ModuleType, write: str
) -> None:
    """A vector tells the words of a text that was forgotten, so it must not stay behind."""
    archive = ContextArchive(tmp_path)
    archive.add("s", said("secret", "silt"))
    kept = [each for each in archive.timeline("s") if each.content != "secret"]

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(room, write, full)
        with pytest.raises(OSError, match="No space"):
            archive.replace("s", kept)
    assert len(archive.timeline("s")) == 2
    archive.replace("s", kept)
    assert on_disk(tmp_path) == {"silt"}
    found = read_vectors(tmp_path / "vectors.bin")
    assert list(found.by_id) == [kept[0].id]


def test_an_interrupt_after_a_write_loses_nothing_by_the_next_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ContextArchive(tmp_path)
    archive.add("s", said("silt"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as moment:
        moment.setattr(files, "heappush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            archive.add("s", said("stone", "granite"))
    archive.replace("other", [])
    assert on_disk(tmp_path) == {"silt", "stone", "granite"}


def test_what_a_killed_process_left_of_a_file_leaves_with_the_next_rewrite(tmp_path: Path) -> None:
    """It may have a text that is forgotten now, and would take more of the disk with each kill."""
    killed = f"""
import os, signal
from pathlib import Path
from siltstone.archive.records import replaced
for name in ("segments.jsonl", "vectors.bin", "knowledge.jsonl"):
    if not os.fork():
        with replaced(Path({str(tmp_path)!r}) / name) as file:
            file.write(b"secret")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""
    archive = ContextArchive(tmp_path)
    archive.add("s", said("secret", "silt"))
    subprocess.run([sys.executable, "-c", killed], check=True)
    assert len(list(tmp_path.glob(".*.part"))) == 3
    archive.replace("s", [each for each in archive.timeline("s") if each.content != "secret"])
    archive.put_facts("s", [new_fact("fact", "silt settles", session_id="s", created_at=NOW)])
    assert not list(tmp_path.glob(".*.part"))
    assert not [path for path in tmp_path.iterdir() if b"secret" in path.read_bytes()]
