"""The live archive: its messages, its hits, and the cost of a restart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from siltstone import ConfigError
from siltstone.archive.files import read_vectors
from siltstone.archive.live import Archived, ContextArchive, Said
from siltstone.archive.records import line_of, read_segments, segment_fields, segment_of
from siltstone.documented import hash_vector
from siltstone.knowledge import Fact
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


def test_a_segment_whose_id_is_too_long_for_the_vectors_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
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
