"""Several processes write to one archive folder, and no line of another one is lost or comes back."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from siltstone.archive import files, records as lines
from siltstone.archive.files import read_vectors
from siltstone.archive.live import ContextArchive, Said
from siltstone.archive.records import locked, read_segments
from siltstone.knowledge import new_fact

NOW = 1_800_000_000_000
DAY = 86_400_000


def said(*texts: str, start: int = NOW) -> list[Said]:
    return [Said("user", text, start + place) for place, text in enumerate(texts)]


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
