"""A damaged row is never given back; a check names every damage, and a repair loses no good row."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from siltstone import Session
from siltstone.errors import ReadOnlyStoreError, StoreBusyError, StoreCorruptError, StoreOpenError
from siltstone.events import EntriesQuarantined, Event
from siltstone.memory import Entry, Store
from siltstone.stores import MemoryStore
from storing import compaction, contents, database, elsewhere, entries, fill, key, message, sql, whole
from summary_log import summary_log


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


def damaged(path: Path, *statements: str) -> None:
    whole(path)
    sql(path, "PRAGMA foreign_keys = OFF", *statements)


UNLOGGED = {"count", "sequence"}  #: of a message that is lost
#: A damage, a finding that it makes, and the codes of those that a repair leaves.
DAMAGES: list[tuple[str, str, str, int | None, set[str]]] = [
    ("UPDATE entry SET text = text || '!' WHERE id = 1", "checksum", "entry", 1, set()),
    ("UPDATE entry SET text = CAST(x'ff' AS TEXT) WHERE id = 2", "checksum", "entry", 2, set()),
    ("UPDATE entry SET fingerprint = 0 WHERE id = 1", "fingerprint", "entry", 1, set()),
    ("DELETE FROM entry WHERE id = 1", "count", "entry", 1, set()),
    ("UPDATE allocator SET high_water = 0", "checksum", "allocator", None, set()),
    ("DELETE FROM allocator", "checksum", "allocator", None, set()),
    ("UPDATE session SET clock = 'x' WHERE id = 1", "checksum", "session", 1, set()),
    (
        "UPDATE session SET head = 99, next_seq = 3, entries = 77 WHERE id = 1",
        "checksum",
        "session",
        1,
        set(),
    ),
    ("UPDATE session SET name = 'z' WHERE id = 2", "checksum", "session", 2, {"checksum"}),
    ("DELETE FROM session WHERE id = 1", "foreign_key", "message", key(0), {"foreign_key"}),
    ("DELETE FROM session WHERE id = 2", "foreign_key", "entry", 4, set()),
    ("DELETE FROM compaction WHERE id = 1", "parent", "compaction", 3, {"parent"}),
    ("DELETE FROM compaction WHERE id = 3", "head", "session", 1, set()),
    ("UPDATE compaction SET usage = '' WHERE id = 2", "checksum", "compaction", 2, {"checksum", "count"}),
    ("UPDATE compaction SET usage = '' WHERE id = 3", "checksum", "compaction", 3, {"checksum", "count"}),
    (
        f"UPDATE message SET raw = '{{}}' WHERE id = {key(3)}",
        "checksum",
        "message",
        key(3),
        UNLOGGED | {"checksum"},
    ),
    (f"DELETE FROM message WHERE id = {key(2)}", "sequence", "message", 1, UNLOGGED),
    (f"DELETE FROM message WHERE id = {key(8)}", "count", "message", 1, {"count"}),
    ("UPDATE derived SET digest = 0 WHERE id = 1", "digest", "derived", 1, set()),
    ("UPDATE derived SET raw = '' WHERE id = 1", "checksum", "derived", 1, {"checksum", "text"}),
    ("DELETE FROM derived WHERE id = 1", "text", "derived", 1, {"text"}),
    ("UPDATE meta SET value = 'x' WHERE key = 'lineage'", "checksum", "meta", None, set()),
]


@pytest.mark.parametrize(("damage", "code", "table", "row", "left"), DAMAGES)
def test_each_damage_is_named_what_can_be_is_repaired_and_the_rest_is_still_told(
    tmp_path: Path, damage: str, code: str, table: str, row: int | None, left: set[str]
) -> None:
    damaged(tmp_path, damage)
    with MemoryStore.open(tmp_path, read_only=True) as store:
        found = store.check()
    assert (code, table, row) in [(each.code, each.table, each.id) for each in found], found
    assert all(each.message for each in found)
    with MemoryStore.open(tmp_path) as store:
        before = store.check()
        told = store.check(repair=True)
        after = store.check()
        assert {finding.code for finding in after} == left
        assert [finding for finding in told if not finding.repaired] == after
        described = {(finding.code, finding.table, finding.id, finding.message) for finding in told}
        assert {(finding.code, finding.table, finding.id, finding.message) for finding in before} <= described
        assert store.check(repair=True) == after, "what is repaired stays so"
        if not left:
            store.search("a", "silt")
            store.search("b", "river")
            summary_log(store, "a").state()
            store.index("a", entries("a new one"))
            assert store.check() == []


def test_a_lost_head_falls_back_and_what_is_in_context_again_is_not_found(tmp_path: Path) -> None:
    damaged(tmp_path, "UPDATE compaction SET usage = 'x' WHERE id = 1", "UPDATE session SET head = 1")
    with MemoryStore.open(tmp_path) as store:
        store.check(repair=True)
        state = summary_log(store, "a").state()
        assert (state.head, state.next_seq) == (None, 9)
        assert store.search("a", "silt clay") == []
        assert len(summary_log(store, "a").read(0, 9)) == 9


def test_an_index_of_the_file_that_lost_a_row_is_made_anew(tmp_path: Path) -> None:
    whole(tmp_path)
    connection = sqlite3.connect(database(tmp_path))
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entry_session'").fetchone()
    connection.close()
    with database(tmp_path).open("r+b") as file:
        file.seek((page - 1) * 4096 + 3)
        file.write((1).to_bytes(2, "big"))
    with MemoryStore.open(tmp_path) as store:
        assert "integrity" in [finding.code for finding in store.check()]
        store.check(repair=True)
        assert store.check() == []
        assert contents(store.search("b", "river")) == ["the river is slow"]


def test_a_store_that_does_not_know_whether_to_erase_does_so_when_it_is_opened(tmp_path: Path) -> None:
    damaged(tmp_path, "UPDATE meta SET value = 'x' WHERE key = 'erasure'")
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert [(finding.code, finding.table) for finding in store.check()] == [("checksum", "meta")]
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []


def test_a_store_open_for_reading_is_not_repaired(tmp_path: Path) -> None:
    damaged(tmp_path, "DELETE FROM allocator")
    before = database(tmp_path).read_bytes()
    with MemoryStore.open(tmp_path, read_only=True) as store, pytest.raises(ReadOnlyStoreError):
        store.check(repair=True)
    assert database(tmp_path).read_bytes() == before


HOLD = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="another lock is taken there")
def test_two_repairs_wait_for_one_another_and_say_for_how_long(tmp_path: Path) -> None:
    damaged(tmp_path, "DELETE FROM allocator")
    command = [sys.executable, "-c", HOLD, str(database(tmp_path).parent)]
    with MemoryStore.open(tmp_path) as store:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with ThreadPoolExecutor(1) as other:
                forgetting = other.submit(store.forget, text="the river")  # both wait at the same time
                with pytest.raises(StoreBusyError, match=r"cannot repair .* waited") as caught:
                    store.check(repair=True)
            assert caught.value.work == "repair"  # type: ignore[attr-defined]
            assert caught.value.waited_ms >= 5_000  # type: ignore[attr-defined]
            assert store.index("b", []) is not None, "only such work waits"
            report = forgetting.result()
            assert (report.entries, report.erased) == (1, False), "the bytes go with the next one"
            holder.communicate("")
        assert store.check(repair=True)
        assert store.forget(text="no such").erased


def test_doctor_repairs_on_request(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from siltstone.cli.app import app

    damaged(tmp_path, "DELETE FROM allocator", "UPDATE entry SET text = 'x' WHERE id = 1")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "memory", copy / "memory")
    run = CliRunner().invoke
    assert run(app, ["doctor", str(tmp_path)]).exit_code == 1
    told = run(app, ["doctor", str(tmp_path), "--repair"])
    assert told.exit_code == 0, told.output
    assert "repaired: checksum: the allocator has lost its row" in told.output
    assert "1 in quarantine" in told.output
    assert run(app, ["doctor", str(tmp_path)]).exit_code == 0
    assert '"repaired": true' in run(app, ["doctor", str(copy), "--repair", "--json"]).output
    assert run(app, ["doctor", str(tmp_path / "nothing"), "--repair"]).exit_code == 2
    assert not (tmp_path / "nothing").exists()


WORDS = ["silt", "mud", "clay", "river", "sand", "slow", "water", "gravel"]


def sayings(count: int, seed: int) -> list[Entry]:
    chance = random.Random(seed)
    return [
        Entry(" ".join(chance.choices(WORDS, k=chance.randint(1, 9))), (n, n + 1), created_at=float(n))
        for n in range(count)
    ]


def answers(store: Store, ranker: str) -> list[list[tuple[str, float, tuple[int, int]]]]:
    found = [store.search("a", query, limit=100, ranker=ranker) for query in WORDS]  # type: ignore[arg-type]
    return [[(hit.content, hit.score, tuple(hit.source_range)) for hit in hits] for hits in found]  # type: ignore[misc]


@pytest.mark.parametrize("ranker", ["lexical", "cosine"])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_is_that_of_a_store_that_never_had_the_damaged_rows(tmp_path: Path, ranker: str, seed: int):
    said = sayings(60, seed)
    gone = random.Random(seed).sample(range(60), 7)
    with MemoryStore.open(tmp_path / "damaged") as store:
        ids = store.index("a", said).entry_ids
    damaged = [ids[place] or 0 for place in gone]
    sql(tmp_path / "damaged", *(f"UPDATE entry SET text = text || '!' WHERE id = {each}" for each in damaged))
    with MemoryStore.open(tmp_path / "right") as right, MemoryStore.open(tmp_path / "damaged") as store:
        right.index("a", [entry for place, entry in enumerate(said) if place not in gone])
        assert answers(store, ranker) == answers(right, ranker)
        assert store.quarantined("a") == tuple(sorted(damaged))
        assert (store.stats("a").quarantined, store.stats().quarantined) == (7, 7)
        # New rows are taken in beside it.
        more = [Entry("silt and a kettle", (90, 91), created_at=1.0)]
        store.index("a", more)
        right.index("a", more)
        assert answers(store, ranker) == answers(right, ranker)


@pytest.mark.parametrize(
    "column",
    [
        "text = text || '!'", "text = CAST(x'ff' AS TEXT)", "role = 'system'", "source_end = source_end + 1",
        "created_at = created_at + 1", "name = 'Ann'", "checksum = 0", "kind = ''", "compaction = 9",
    ],
)  # fmt: skip
def test_mk_63_a_damaged_entry_is_counted_and_never_given_back(tmp_path: Path, column: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        first, second = store.index("a", entries("silt", "mud")).entry_ids
        store.index("b", entries("silt"))
    sql(tmp_path, f"UPDATE entry SET {column} WHERE id = {first}")
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert contents(store.search("a", "silt mud")) == ["mud"]
        page = store.entries("a")
        assert ([entry.entry_id for entry in page.entries], page.damaged) == ([second], (first,))
        assert store.quarantined("a") == (first,)
        assert store.stats("a").quarantined == 1
        with pytest.raises(StoreCorruptError, match=f"entry {first} "):
            store.get(first or 0)
        assert store.quarantined("b") == store.quarantined("nobody") == ()
        assert ("checksum", first) in [(finding.code, finding.id) for finding in store.check()]


def test_what_is_damaged_after_it_was_indexed_is_left_out_when_it_is_met(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        first, _ = store.index("a", entries("silt", "mud")).entry_ids
        assert len(store.search("a", "silt")) == 2
        sql(tmp_path, f"UPDATE entry SET text = 'silt!' WHERE id = {first}")
        assert contents(store.search("a", "silt mud")) == ["mud"]
        assert store.quarantined("a") == (first,)


def test_handing_a_damaged_entry_over_again_heals_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        (first,) = store.index("a", entries("silt")).entry_ids
    sql(tmp_path, "UPDATE entry SET name = 'x'")
    with MemoryStore.open(tmp_path) as store:
        (second,) = store.index("a", entries("silt")).entry_ids
        assert second != first
        assert contents(store.search("a", "silt")) == ["silt"]
        assert store.quarantined("a") == (first,)


def test_a_session_tells_what_its_searches_leave_out_once(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        ids = store.index("a", entries("silt", "mud", "clay")).entry_ids
    sql(tmp_path, "UPDATE entry SET role = 'x' WHERE id = 1")
    told: list[Event] = []
    with Session.open(tmp_path, "a", hooks=[told.append]) as session:
        for _ in range(3):
            assert len(session.search("silt mud clay")) == 2
        assert told == [EntriesQuarantined("a", (ids[0] or 0,))]
        session.memory_search.call({"query": "silt"})
        assert len(told) == 1


def test_a_damaged_entry_is_forgotten_whatever_it_says(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("the Grünwald plan", "mud"))
        store.index("b", entries("the Grünwald plot"))
    damage = "UPDATE entry SET text = replace(text, 'Gr', 'Qr') WHERE id IN (1, 3)"
    sql(tmp_path, damage)
    with MemoryStore.open(tmp_path) as store:
        store.check(repair=True)  # those that are set aside go as well
        store.index("b", entries("a Grünwald plea"))
    sql(tmp_path, damage.replace("(1, 3)", "(4)"))
    with MemoryStore.open(tmp_path) as store:
        report = store.forget(text="Grünwald")
        assert (report.entries, report.erased) == (3, True)
        assert store.quarantined("a") == store.quarantined("b") == ()
        held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert b"nwald" not in held
        assert contents(store.search("a", "mud")) == ["mud"]
        assert store.check() == []
