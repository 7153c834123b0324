"""Several processes write to one archive folder, and no line of another one is lost or comes back."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from siltstone.archive import ContextArchive, Said, read_segments, read_vectors

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
    assert found is not None
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
