"""The files of the archive: their bytes, what is read of damaged ones, and their bounds."""

import json
import os
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, Entry, MemoryStore
from siltstone.archive.files import (
    SegmentArchive,
    append_vectors,
    dedup_key,
    merge_vectors,
    read_vectors,
    write_vectors,
)
from siltstone.archive.records import (
    Record,
    Segment,
    read_everything,
    read_knowledge,
    read_segments,
    segment_of,
    stamp_of,
    write_everything,
    write_knowledge,
    write_segments,
)
from siltstone.knowledge import Fact

DAY = 86_400_000


def test_oc_24_the_documented_lines_to_the_byte(tmp_path: Path) -> None:
    """Worked out by hand: the keys in their order, no spaces, UTF-8 as it is, one line each."""
    said = segment_of(
        "s", "user", 'See "a.py"\n数据库 😀 2026-02-10', 1_770_733_860_000, session_key="k", id="id-1"
    )
    write_segments(tmp_path / "segments.jsonl", [said])
    assert (tmp_path / "segments.jsonl").read_bytes() == (
        '{"id":"id-1","sessionId":"s","sessionKey":"k","timestamp":1770733860000,"role":"user",'
        '"content":"See \\"a.py\\"\\n数据库 😀 2026-02-10","tokens":10,'
        '"metadata":{"topics":["database"],"entities":["2026-02-10"]}}\n'
    ).encode()
    known = [Fact("a", "decision", "Use é", "why", 3, "z"), Fact("b", "config", "y", "", 6)]
    write_knowledge(tmp_path / "knowledge.jsonl", known)
    assert (tmp_path / "knowledge.jsonl").read_bytes() == (
        '{"id":"a","type":"decision","content":"Use é","context":"why","timestamp":3,"supersededBy":"z"}\n'
        '{"id":"b","type":"config","content":"y","timestamp":6}\n'
    ).encode()
    write_vectors(tmp_path / "vectors.bin", {"id-1": [1.0, -0.5]}, 2)
    assert (tmp_path / "vectors.bin").read_bytes().hex() == (
        "564d454d010000000200000001000000" + "0400" + "69642d31" + "0000803f" + "000000bf"
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
segments = st.builds(
    Segment, texts, texts, st.integers(0, 253_402_300_799_999), texts, texts, st.integers(1, 99),
    st.none() | texts,
    st.lists(texts, max_size=3).map(tuple), st.lists(texts, max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(segments, max_size=6))
def test_segments_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, kept: list[Segment]):
    path = tmp_path_factory.mktemp("s") / "segments.jsonl"
    assert write_segments(path, kept) == len(kept)
    loaded = read_segments(path)
    assert list(loaded) == kept
    assert loaded.skipped == 0


BAD = [
    "", "{", "[]", "null", '{"id": "x"}', "\x00\x00", "[" * 5000,
    '{"id":1,"sessionId":"s","timestamp":1,"role":"u","content":"c"}',
    '{"id":"x","sessionId":"s","timestamp":"1","role":"u","content":"c"}',
]  # fmt: skip


def test_oc_24_corrupt_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "segments.jsonl"
    good = json.dumps({"id": "x", "sessionId": "s", "timestamp": 1.0, "role": "user", "content": "c"})
    path.write_bytes("\n".join([good, *BAD, good]).encode() + b"\n\xff\xfe\n" + good[:20].encode())
    loaded = read_segments(path)
    assert [segment.content for segment in loaded] == ["c", "c"]
    assert loaded.skipped == len(BAD) - 1 + 2  # an empty line is none
    assert list(read_segments(tmp_path / "not there")) == []


def test_entries_of_a_store_are_written_with_ids_that_stay_the_same(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry("the otter", (0, 1)), Entry("the fox", (1, 2), role="assistant")])
        page = store.entries("s").entries
        write_segments(tmp_path / "a.jsonl", page)
        write_segments(tmp_path / "b.jsonl", page)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert [each.content for each in read_segments(tmp_path / "a.jsonl")] == ["the otter", "the fox"]


def test_of_one_id_the_last_line_of_knowledge_holds_and_a_tombstone_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.jsonl"
    lines: list[dict[str, Any]] = [
        {"id": "a", "type": "decision", "content": "old", "timestamp": 1},
        {"id": "b", "type": "config", "content": "gone", "timestamp": 2},
        {
            "id": "a",
            "type": "decision",
            "content": "new",
            "context": "c",
            "timestamp": 3,
            "supersededBy": "z",
        },
        {"id": "b", "_deleted": True},
        {"id": "c", "type": "gossip", "content": "x", "timestamp": 4},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    facts, skipped = read_knowledge(path)
    assert facts == [Fact("a", "decision", "new", "c", 3, "z")]
    assert skipped == 1


def test_oc_41_facts_come_back_from_their_file(tmp_path: Path) -> None:
    kept = [Fact("a", "decision", "x", "c", 5, "b"), Fact("b", "config", "y", "", 6)]
    gone = Fact("d", "issue", "z", "", 7, deleted_at=8)
    assert write_knowledge(tmp_path / "knowledge.jsonl", [*kept, gone]) == 2
    assert read_knowledge(tmp_path / "knowledge.jsonl") == (kept, 0)


@given(
    st.dictionaries(texts, st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3), max_size=5)
)
def test_oc_29_vectors_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, list[float]]
) -> None:
    path = tmp_path_factory.mktemp("v") / "vectors.bin"
    write_vectors(path, kept, 3)
    read = read_vectors(path)
    assert read is not None
    assert {name: values.tobytes() for name, values in read.by_id.items()} == {
        name: array("f", values).tobytes() for name, values in kept.items()
    }


@pytest.mark.parametrize("damage", ["missing", "short", "magic", "version"])
def test_oc_29_a_file_of_another_kind_has_no_vectors(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "vectors.bin"
    write_vectors(path, {"a": [1.0]}, 1)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        other = {"short": data[:15], "magic": b"VMEN" + data[4:], "version": data[:4] + b"\x02" + data[5:]}
        path.write_bytes(other[damage])
    assert read_vectors(path) is None


def test_oc_29_of_a_truncated_file_the_whole_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "vectors.bin"
    write_vectors(path, {"a": [1.0], "b": [2.0], "c": [3.0]}, 1)
    data = path.read_bytes()
    for end in range(16, len(data) + 1):
        path.write_bytes(data[:end])
        read = read_vectors(path)
        assert list(read.by_id) == ["a", "b", "c"][: (end - 16) // 7]


def test_oc_26_sessions_that_share_a_folder_keep_one_another_s_vectors(tmp_path: Path) -> None:
    path = tmp_path / "vectors.bin"
    assert merge_vectors(path, {"a": [1.0]}, 1) == 1
    assert merge_vectors(path, {"b": [2.0]}, 1) == 2
    assert merge_vectors(path, {"c": [3.0]}, 1, gone=frozenset({"a"})) == 2
    read = read_vectors(path)
    assert read is not None
    assert {name: list(values) for name, values in read.by_id.items()} == {"b": [2.0], "c": [3.0]}


def test_oc_62_a_file_of_another_dimension_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "vectors.bin"
    write_vectors(path, {"a": [1.0, 2.0]}, 2)
    before = path.read_bytes()
    assert merge_vectors(path, {"b": [1.0]}, 1) == 0
    assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="appends need a lock on the file")
def test_what_is_appended_counts_when_it_is_on_the_disk_and_only_in_the_file_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vectors.bin"

    def names() -> list[str]:
        read = read_vectors(path)
        return [] if read is None else list(read.by_id)

    write_vectors(path, {"a": [1.0]}, 1)
    stamp = stamp_of(path)
    assert stamp is not None
    synced: list[list[str]] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (sync(handle), synced.append(names())))
    assert append_vectors(path, {"b": [2.0], "c": [3.0]}, 1, stamp)
    assert synced == [["a"], ["a", "b", "c"]], "who stops in between leaves the file as it was"
    assert not append_vectors(path, {"d": [4.0]}, 1, stamp), "somebody has written it since"
    assert not append_vectors(tmp_path / "none.bin", {"d": [4.0]}, 1, stamp)
    assert merge_vectors(path, {"d": [4.0]}, 1) == 4
    whole = path.read_bytes()
    write_vectors(path, {name: [1.0 + at] for at, name in enumerate("abcd")}, 1)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("vectors", [{"a": [1.0]}, {"x" * 65_536: [1.0, 2.0]}])
def test_what_the_format_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, vectors: dict[str, list[float]]
) -> None:
    with pytest.raises(ConfigError):
        write_vectors(tmp_path / "vectors.bin", vectors, 2)
    assert list(tmp_path.iterdir()) == []


def test_oc_21_the_same_session_role_and_text_is_kept_once(tmp_path: Path) -> None:
    archive = SegmentArchive(tmp_path)
    assert archive.add("s", "user", "hello", 1) is not None
    assert archive.add("s", "user", "hello", 2) is None
    assert archive.add("s", "assistant", "hello", 3) is not None
    assert archive.add("t", "user", "hello", 4) is not None
    assert archive.add("t", "user", "  ", 5) is None
    assert len(archive) == len(SegmentArchive(tmp_path)) == 3
    assert len(dedup_key("a", "b", "c")) == 32
    assert dedup_key("a", "bc", "") != dedup_key("ab", "c", "")


def test_oc_22_the_oldest_leave_above_the_most(tmp_path: Path) -> None:
    archive = SegmentArchive(tmp_path, max_segments=3)
    for number in (5, 1, 9, 3, 7):
        archive.add("s", "user", f"text {number}", number)
    assert [each.timestamp for each in archive.segments()] == [5, 7, 9]
    assert [each.timestamp for each in SegmentArchive(tmp_path, max_segments=3).segments()] == [5, 7, 9]
    with pytest.raises(ConfigError, match="max_segments must be an integer >= 1, got 0"):
        SegmentArchive(tmp_path, max_segments=0)


def test_oc_28_age_is_compared_strictly_and_oc_27_the_file_shrinks(tmp_path: Path) -> None:
    archive = SegmentArchive(tmp_path, eviction_days=2)
    for number in range(4):
        archive.add("s", "user", f"text {number}", number * DAY)
    before = archive.path.stat().st_size
    assert archive.evict(4 * DAY) == 2
    assert [each.timestamp for each in archive.segments()] == [2 * DAY, 3 * DAY]
    assert archive.path.stat().st_size < before
    assert SegmentArchive(tmp_path, eviction_days=0).evict(99 * DAY) == 0


def test_oc_27_a_file_of_which_half_counts_no_more_is_written_anew(tmp_path: Path) -> None:
    archive = SegmentArchive(tmp_path, max_segments=10)
    for number in range(500):
        archive.add("s", "user", f"text {number}", number)
    assert len(archive.path.read_bytes().splitlines()) <= 2 * 10 + 65


def test_oc_25_after_a_write_that_fails_later_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    archive = SegmentArchive(tmp_path)
    archive.add("s", "user", "first", 1)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            archive.add("s", "user", "second", 2)
    assert archive.add("s", "user", "third", 3) is not None
    assert archive.add("s", "user", "second", 4) is not None
    assert [each.content for each in SegmentArchive(tmp_path).segments()] == ["first", "third", "second"]


def test_a_line_that_a_crash_has_cut_off_swallows_no_later_one(tmp_path: Path) -> None:
    SegmentArchive(tmp_path).add("s", "user", "first", 1)
    path = tmp_path / "segments.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "half')
    archive = SegmentArchive(tmp_path)
    archive.add("s", "user", "second", 2)
    again = SegmentArchive(tmp_path)
    assert [each.content for each in again.segments()] == ["first", "second"]
    assert again.skipped == 1


def test_our_own_file_has_everything(tmp_path: Path) -> None:
    raw = {"role": "user", "content": "half a \ud83d character"}
    records = [
        Record("message", "s", {"seq": 0, "created_at": 5, "raw": raw}),
        Record("known", "s", {"key": "1", "state": "goal", "body": {"content": "ship it"}}),
    ]
    path = tmp_path / "all.jsonl"
    assert write_everything(path, iter(records)) == 2
    loaded = read_everything(path)
    read = list(loaded)
    assert read == records
    assert read[0].body["raw"] == raw
    assert loaded.skipped == 0
