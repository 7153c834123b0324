"""A damaged row is never given back, and a check lists every kind of damage, names the row, and goes on."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from siltstone.errors import StoreCorruptError, StoreError, StoreOpenError
from siltstone.memory import Entry, Store
from siltstone.stores import MemoryStore
from storing import compaction, database, elsewhere, entries, fill, key, message, sql, whole
from summary_log import summary_log


def test_a_whole_store_has_no_findings(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message() for _ in range(9)], expected_next=0, clock="")
    log.commit(compaction(), entries("silt"), expected_head=None, clock="")
    store.search("a", "silt")
    assert store.check() == []
    store.forget(session_id="a", start=0, end=2)
    assert store.check() == []


def test_every_damaged_row_is_listed_and_not_only_the_first(tmp_path: Path) -> None:
    whole(tmp_path)
    sql(
        tmp_path, f"UPDATE message SET tokens = tokens + 1 WHERE id > {key(1)}", "UPDATE entry SET role = 'x'"
    )
    with MemoryStore.open(tmp_path) as store:
        found = [(each.table, each.id) for each in store.check() if each.code == "checksum"]
    assert found == [("entry", 1), ("entry", 2), ("entry", 4)] + [("message", key(n)) for n in range(2, 9)]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("covers", ((3, 1),)),
        ("covers", ((0, 2), (1, 3))),
        ("covers", ((0, 99),)),
        ("view", ((5, 6), (2, 3))),
        ("view", (None, (8, 12))),
    ],
)
def test_a_view_that_does_not_fit_the_log_is_found(
    tmp_path: Path, field: str, wrong: tuple[tuple[int, int] | None, ...]
) -> None:
    with MemoryStore.open(tmp_path) as store:
        log = summary_log(store, "a")
        log.append([message() for _ in range(9)], expected_next=0, clock="")
        log.commit(compaction(**{field: wrong}), [], expected_head=None, clock="")
        assert [(each.code, each.table, each.id) for each in store.check()] == [(field, "compaction", 1)]


def test_a_compaction_that_read_beyond_the_log_is_found(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        summary_log(store, "a").commit(compaction(), [], expected_head=None, clock="")
        assert [each.code for each in store.check()] == ["view"]


def test_no_single_bit_flip_goes_unseen_where_it_changes_an_answer(tmp_path: Path) -> None:
    """Of 150 flips each is an error at open, a finding, or without effect on what is read."""
    whole(tmp_path / "whole")
    original = database(tmp_path / "whole").read_bytes()
    chance = random.Random(3)

    def read(path: Path) -> object:
        with MemoryStore.open(path, read_only=True) as store:
            log = summary_log(store, "a")
            return store.entries("a"), store.entries("b"), log.read(0, 99), log.compactions()

    expected = read(tmp_path / "whole")
    found = 0
    for number in range(150):
        copy = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", copy)
        place = chance.randrange(len(original))
        data = bytearray(original)
        data[place] ^= 1 << chance.randrange(8)
        database(copy).write_bytes(data)
        try:
            with MemoryStore.open(copy, read_only=True) as store:
                clean = store.check() == []
        except StoreError:
            found += 1
            continue
        if clean:
            assert read(copy) == expected, place
        found += not clean
    assert found > 5


def read_everything(path: Path) -> None:
    with MemoryStore.open(path) as store:
        log = summary_log(store, "a")
        log.read(0, log.state().next_seq)
        log.compactions()
        store.search("a", "silt")
        store.entries("a")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("message", "raw = '{}'"),
        ("message", "tokens = tokens + 1"),
        ("compaction", "usage = 'something else'"),
        ("derived", "raw = 'something else'"),
        ("compaction", "view = '[null]'"),
        ("session", "clock = 'x'"),
        ("session", "head = NULL"),
        ("session", "next_seq = next_seq - 1"),
    ],
)
def test_a_changed_row_is_named_and_never_given_back(tmp_path: Path, table: str, column: str) -> None:
    fill(tmp_path)
    row = key(0) if table == "message" else 1
    sql(tmp_path, f"UPDATE {table} SET {column} WHERE id = {row}")
    with pytest.raises(StoreCorruptError, match=f"{table} {row} ") as caught:
        read_everything(tmp_path)
    assert caught.value.table == table  # type: ignore[attr-defined]
    assert caught.value.id == row  # type: ignore[attr-defined]


@pytest.mark.parametrize("table", ["entry", "message", "compaction", "derived"])
def test_a_row_that_is_missing_is_found_out(tmp_path: Path, table: str) -> None:
    fill(tmp_path)
    sql(tmp_path, f"DELETE FROM {table} WHERE id = {key(0) if table == 'message' else 1}")
    with pytest.raises(StoreCorruptError, match=r"missing|were found"):
        read_everything(tmp_path)
    with MemoryStore.open(tmp_path) as store:
        log = summary_log(store, "a")
        read = {
            "entry": lambda: store.entries("a"),
            "message": lambda: log.read(0, 1),
            "compaction": log.state,
            "derived": log.compactions,
        }
        with pytest.raises(StoreCorruptError, match="missing"):
            read[table]()


@pytest.mark.parametrize(
    "damage",
    ["UPDATE allocator SET high_water = 0", "DELETE FROM allocator", "UPDATE meta SET value = 'poly31'"],
)
def test_a_store_that_forgot_its_ids_or_its_rule_writes_nothing(tmp_path: Path, damage: str) -> None:
    fill(tmp_path)
    sql(tmp_path, damage)
    with pytest.raises(StoreCorruptError), MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt"))
    if "meta" not in damage:
        with MemoryStore.open(tmp_path) as store:
            assert store.stats().entries == 4


def test_a_truncated_file_is_refused_and_never_begun_anew(tmp_path: Path) -> None:
    fill(tmp_path / "whole")
    whole = database(tmp_path / "whole").read_bytes()
    for length in (1, 99, 100, 4_095, 4_096, len(whole) // 2, len(whole) - 4_096, len(whole) - 1):
        copy = tmp_path / str(length)
        shutil.copytree(tmp_path / "whole", copy)
        database(copy).write_bytes(whole[:length])
        with pytest.raises(StoreError):
            read_everything(copy)
        assert database(copy).stat().st_size == length


def test_an_empty_file_beside_a_log_is_not_begun_anew(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "whole") as store:
        store.index("a", entries("silt"))
        log = Path(f"{database(tmp_path / 'whole')}-wal").read_bytes()
    copy = database(tmp_path / "copy")
    copy.parent.mkdir(parents=True)
    copy.touch()
    Path(f"{copy}-wal").write_bytes(log)
    with pytest.raises(StoreOpenError, match="log beside it"):
        MemoryStore.open(tmp_path / "copy")
    assert Path(f"{copy}-wal").read_bytes() == log


FILL_THE_DISK = """
import resource, signal, sys
from siltstone.errors import StoreIoError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import summary_log

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = MemoryStore.open(sys.argv[1])
store.index("a", [Entry("silt 0")])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
stored = 1
try:
    while True:
        store.index("a", [Entry(f"silt {stored} {n} " + "x" * 5_000) for n in range(10)])
        stored += 10
except StoreIoError:
    pass
assert len(store.search("a", "silt", limit=1_000)) == store.stats().entries == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
store.index("a", [Entry("silt at last")])
print(stored + 1, len(store.search("a", "silt", limit=1_000)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_refuses_the_batch_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    stored, found = elsewhere(FILL_THE_DISK, tmp_path).split()
    assert int(stored) > 10
    assert found == stored
    with MemoryStore.open(tmp_path) as store:
        assert len(store.search("a", "silt", limit=1_000)) == int(stored)


def test_a_text_stands_once_and_an_entry_of_a_damaged_message_is_damaged_too(tmp_path: Path) -> None:
    texts = [f'basalt {n} said "once"\n\tand \u00e9 with \\ in the line' for n in range(3)]
    whole_text, block = (json.dumps(text, ensure_ascii=False) for text in texts[:2])
    with MemoryStore.open(tmp_path) as store:
        raws = (
            f'{{"role":"user","content":{whole_text}}}',
            f'{{"content":[{{"text":"a"}},{{"text":{block}}}]}}',
        )
        summary_log(store, "a").append([message(raw) for raw in raws], expected_next=0, clock="")
        in_messages = [Entry(text, (place, place + 1)) for place, text in enumerate(texts[:2])]
        others = Entry(texts[2]), Entry(texts[0], (0, 2)), Entry("short", (0, 1))
        store.index("a", [*in_messages, *others])
        kept = [each.content for each in store.entries("a").entries]
        assert kept == [*texts, texts[0], "short"]
        assert store.stats().text_bytes == sum(len(text.encode()) for text in kept)
        assert store.search("a", "basalt 1")[0].content == texts[1]
    own = (
        "import sqlite3, sys\nprint(*sqlite3.connect(sys.argv[1]).execute('SELECT text IS NULL FROM entry'))"
    )
    assert elsewhere(own, database(tmp_path)).split() == ["(1,)", "(1,)", "(0,)", "(0,)", "(0,)"]
    sql(tmp_path, f"UPDATE message SET raw = '{{}}' WHERE id = {key(1)}")
    with MemoryStore.open(tmp_path) as store:
        damaged = [(each.table, each.id) for each in store.check() if each.code == "checksum"]
        assert damaged == [("entry", 2), ("message", key(1))]
