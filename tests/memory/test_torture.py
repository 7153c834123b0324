"""``kill -9`` at any moment of any write: acknowledged writes are there, others are whole or absent.

A child works on a store at random, and says what it is about to do and what it did. It is killed; then the
store must be in the state after what was acknowledged, or one step further, and in no other. Threads beside
it append to sessions of their own, and so share its commits. A repair of what is damaged is killed in a test
of its own.

``SILTSTONE_TORTURE_RUNS`` says how often (``make torture``: 1,000).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.memory import Finding
from siltstone.messages import FORGOTTEN
from siltstone.stores import MemoryStore
from storing import entries, sql, whole
from summary_log import summary_log

RUNS = int(os.environ.get("SILTSTONE_TORTURE_RUNS", "40"))
RARE = ("forget", "undo", "rewrite", "expire", "renew", "repair", "drop", "revive")
BESIDE = ("b", "c", "d")  # sessions of the threads that append beside the one that does everything
LEAST = 20  # words of a child about its steps before it may be killed, however slow the machine is

WORKER = """
import json, os, random, sys, threading
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import NewCompaction, NewMessage, summary_log

def say(**word):
    os.write(1, (json.dumps(word) + "\\n").encode())

chance, number = random.Random(int(sys.argv[2])), int(sys.argv[2]) * 100_000
store = MemoryStore.open(sys.argv[1])
log = summary_log(store, "a")

def append_beside(name):
    log = summary_log(store, name)
    end = log.state().next_seq
    while True:
        raw = json.dumps({"role": "user", "content": f"{name} {end}"})
        log.append([NewMessage(raw, "user", "any", "original", 3, 0)], expected_next=end, clock="")
        say(beside=name, appended=end)
        end += 1

for name in sys.argv[3:]:
    threading.Thread(target=append_beside, args=(name,), daemon=True).start()

def two():
    return [Entry(f"loose {number}", created_at=number),
            Entry(f"mud {end} {number}", (end, end + 1), created_at=number)]

while True:
    number += 1
    state = log.state()
    end, head = state.next_seq, state.head and state.head.compaction_id
    lacking = [row for row in log.compactions() if row.redacted]
    if state.dropped:
        doable = ["revive", "index", "append"]
    else:
        doable = ["append"] * 6 + ["index"] * 5 + ["expire"] * 2 + ["repair"]
        doable += (["commit"] * 6 + ["forget"] * 3 + ["drop"]) * (end > 0)
        doable += ["undo", "undo", "rewrite", "rewrite"] * bool(head)
        doable += ["renew"] * 2 * bool(lacking)
    does = chance.choice(doable)
    what = {"does": does, "number": number, "end": end}
    if does == "forget":
        what["seq"] = chance.randrange(end)
    if does == "expire":
        what["keep"], what["before"] = chance.choice([2, 5, 9]), number - chance.randrange(1, 30)
    if does == "renew":
        row = chance.choice(lacking)
        what["name"] = row.compaction.policy
    say(begins=what)
    ids = ()
    if does == "append":
        raws = [json.dumps({"role": "user", "content": f"message {n}"}) for n in range(end, end + 3)]
        rows = [NewMessage(raw, "user", "any", "original", 3, 0) for raw in raws]
        log.append(rows, expected_next=end, clock=str(number))
    elif does == "index":
        ids = store.index("a", two()).entry_ids
    elif does == "commit":
        covers = ((0, end),)
        row = NewCompaction(
            f"c{number}", "r", 1, False, "said", covers, (None,), end, "", "[]", 0, 0, 0, 0, 0
        )
        pair = [Entry(f"{which} {number}", (end - 1, end), created_at=number) for which in ("one", "two")]
        ids = log.commit(row, pair, expected_head=head, clock=str(number)).entry_ids
    elif does == "rewrite":
        row = NewCompaction(
            f"r{number}", "branch", 1, False, "said", ((0, end),), (None,), end, "", "[]", 0, 0, 0, 0, 0
        )
        raws = [json.dumps({"role": "user", "content": f"message {n}"}) for n in range(end, end + 2)]
        new = [NewMessage(raw, "user", "any", "original", 3, 0) for raw in raws]
        ids = log.rewrite(
            row, new, [Entry(f"one {number}", (end - 1, end), created_at=number)],
            expected_head=head, expected_next=end,
            expected_redactions=state.redactions, withdrawn=[head], parent=head, clock=str(number),
        ).entry_ids
    elif does == "forget":
        store.forget(session_id="a", start=what["seq"], end=what["seq"] + 1)
    elif does == "undo":
        log.undo(expected_head=head, clock=str(number))
    elif does == "expire":
        store.expire("a", keep=what["keep"], before=what["before"])
    elif does == "renew":
        assert log.renew(row.compaction_id, "said anew", expected_redactions=state.redactions)
    elif does == "repair":
        assert store.check(repair=True) == []
    elif does == "drop":
        store.delete_session("a")
    else:
        assert store.revive("a")
    say(did=number, ids=[each for each in ids if each])
"""


@dataclass(frozen=True)
class State:
    """The session as a reader sees it: the truth that the store is held against."""

    messages: tuple[str, ...] = ()
    #: Name, parent's name, end of what it covers, whether its summary was forgotten.
    compactions: tuple[tuple[str, str | None, int, bool], ...] = ()
    head: str | None = None
    #: Text, range, and the compaction that brought it.
    entries: frozenset[tuple[str, tuple[int, int], str | None]] = field(default=frozenset())
    dropped: bool = False

    def after(self, step: dict[str, Any]) -> State:
        """The state once *step* is done."""
        number, end = step["number"], step["end"]
        if step["does"] == "revive":
            return State()
        if step["does"] == "drop":
            return State(dropped=True)
        if self.dropped or step["does"] == "repair":
            return self
        if step["does"] == "append":
            return replace(self, messages=self.messages + tuple(f"message {n}" for n in range(end, end + 3)))
        if step["does"] == "index":
            new = frozenset(
                {(f"loose {number}", (0, 0), None), (f"mud {end} {number}", (end, end + 1), None)}
            )
            return replace(self, entries=self.entries | new)
        if step["does"] == "expire":
            young = [each for each in self.entries if _age(each)[0] >= step["before"]]
            return replace(self, entries=frozenset(sorted(young, key=_age)[-step["keep"] :]))
        if step["does"] == "renew":
            made = tuple((n, p, end, gone and n != step["name"]) for n, p, end, gone in self.compactions)
            return replace(self, compactions=made)
        if step["does"] == "commit":
            name = f"c{number}"
            new = frozenset((f"{which} {number}", (end - 1, end), name) for which in ("one", "two"))
            made = (*self.compactions, (name, self.head, end, False))
            return replace(self, compactions=made, head=name, entries=self.entries | new)
        if step["does"] == "rewrite":
            name = f"r{number}"
            kept = frozenset(entry for entry in self.entries if entry[2] != self.head)
            return replace(
                self,
                messages=self.messages + tuple(f"message {n}" for n in range(end, end + 2)),
                compactions=(*self.compactions, (name, self.head, end, False)),
                head=name,
                entries=kept | {(f"one {number}", (end - 1, end), name)},
            )
        if step["does"] == "undo":
            parents = {name: parent for name, parent, _, _ in self.compactions}
            assert self.head is not None
            kept = frozenset(entry for entry in self.entries if entry[2] != self.head)
            return replace(self, head=parents[self.head], entries=kept)
        seq = step["seq"]
        return replace(
            self,
            messages=(*self.messages[:seq], FORGOTTEN, *self.messages[seq + 1 :]),
            compactions=tuple((n, p, end, gone or seq < end) for n, p, end, gone in self.compactions),
            entries=_without(self.entries, seq),
        )

    def seen(self) -> tuple[Any, ...]:
        """As a store shows it, which does not tell who brought an entry."""
        entries = sorted((text, source) for text, source, _ in self.entries)
        return self.messages, self.compactions, self.head, entries, self.dropped


def _age(entry: tuple[str, tuple[int, int], str | None]) -> tuple[int, str]:
    """When it was said: every text ends in that, and of the two of a step the first sorts first."""
    return int(entry[0].rpartition(" ")[2]), entry[0]


def _without(
    entries: frozenset[tuple[str, tuple[int, int], str | None]], seq: int
) -> frozenset[tuple[str, tuple[int, int], str | None]]:
    return frozenset(each for each in entries if not each[1][0] <= seq < each[1][1])


def look(path: Path) -> tuple[tuple[Any, ...], set[int]]:
    """The contents of the store at *path*, and the ids of its entries; nothing in it may be wrong."""
    with MemoryStore.open(path) as store:
        assert store.check() == []
        log = summary_log(store, "a")
        state, rows = log.state(), log.compactions()
        names = {row.compaction_id: row.compaction.policy for row in rows}
        entries = store.entries("a", limit=10**6).entries
        found = store.search("a", "loose mud one two", limit=1_000)
        assert {hit.entry_id for hit in found} <= {entry.entry_id for entry in entries}
        assert len(found) == min(len(entries), 1_000)
        assert store.check() == [], "the index that was just made is of these rows"
        seen = (
            tuple(json.loads(row.raw)["content"] for row in log.read(0, state.next_seq)),
            tuple(
                (
                    row.compaction.policy,
                    None if row.parent is None else names[row.parent],
                    row.compaction.next_seq,
                    row.redacted,
                )
                for row in rows
            ),
            None if state.head is None else state.head.compaction.policy,
            sorted((entry.content, tuple(entry.source_range)) for entry in entries),
            state.dropped,
        )
        return seen, {entry.entry_id for entry in entries}


def looked_beside(path: Path) -> dict[str, int]:
    """The number of messages of each thread beside, which must be its own, in order."""
    with MemoryStore.open(path) as store:
        logs = {name: summary_log(store, name).read(0, 10**6) for name in BESIDE}
    for name, rows in logs.items():
        assert [json.loads(row.raw)["content"] for row in rows] == [f"{name} {n}" for n in range(len(rows))]
    return {name: len(rows) for name, rows in logs.items()}


def work_and_die(path: Path, run: int, seconds: float) -> list[dict[str, Any]]:
    """The output of a child before it was killed."""
    command = [sys.executable, "-c", WORKER, str(path), str(run), *BESIDE]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines, said = list[bytes](), 0
        while said < LEAST:
            lines.append(child.stdout.readline())
            said += b'"beside"' not in lines[-1]
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_after_kill_9_the_store_is_where_it_was_acknowledged_to_be_or_one_step_on(tmp_path: Path) -> None:
    chance, done, cut = random.Random(4), Counter[str](), Counter[str]()
    state, path, highest = State(), tmp_path / "0", 0
    ends = dict.fromkeys(BESIDE, 0)  # how many appends of each thread were acknowledged
    for run in itertools.count(1):
        if run > RUNS and (are_tried(done) or run > 5 * RUNS):  # a slow machine does less in a run
            break
        if run % 20 == 0:  # a store of its own for every twenty runs, or looking takes longer than working
            state, path, highest = State(), tmp_path / str(run), 0
            ends = dict.fromkeys(BESIDE, 0)
        step: dict[str, Any] | None = None
        for word in work_and_die(path, run, chance.uniform(0.0, 0.03)):
            if "beside" in word:
                assert word["appended"] == ends[word["beside"]]
                ends[word["beside"]] += 1
                done["beside"] += 1
                continue
            if "begins" in word:
                step = word["begins"]
                continue
            assert step["number"] == word["did"]
            state = state.after(step)
            done[step["does"]] += 1
            assert all(entry_id > highest for entry_id in word["ids"]), "an id was given twice"
            highest = max([highest, *word["ids"]])
            step = None
        seen, ids = look(path)
        if step is not None and seen != state.seen():
            state = state.after(step)
            cut[step["does"]] += 1
        assert seen == state.seen(), f"run {run}: neither before nor after {step}"
        highest = max([highest, *ids])
        found = looked_beside(path)
        for name, end in ends.items():
            assert end <= found[name] <= end + 1, f"run {run}: {name} has {found[name]}, not {end}"
        ends = found
    print(f"\n{run - 1} runs, acknowledged {dict(done)}, done but not acknowledged {dict(cut)}")
    assert are_tried(done)


def are_tried(done: Counter[str]) -> bool:
    """Whether writes of every kind were often acknowledged."""
    often = min(done[does] for does in ("append", "index", "commit", "beside")) >= RUNS // 2
    return often and min(done[does] for does in RARE) >= RUNS // 20


REPAIR = """
import os, sys
from siltstone.stores import MemoryStore
store = MemoryStore.open(sys.argv[1])
os.write(1, b"begins\\n")
store.check(repair=True)
os.write(1, b"done\\n")
os.kill(os.getpid(), 9)
"""

GIVEN = 5  # the highest id of ``whole``; its entry was dropped
DAMAGE = {
    "what follows from the rest": (
        "UPDATE entry SET fingerprint = 0 WHERE id = 1",
        "UPDATE allocator SET high_water = 0",
        "UPDATE session SET clock = 'x', entries = 77 WHERE id = 1",
    ),
    "what cannot be believed": (
        "UPDATE entry SET text = text || '!' WHERE id = 1",
        "DELETE FROM entry WHERE id = 2",
        "DELETE FROM allocator",
    ),
    "a lost head": ("DELETE FROM compaction WHERE id = 3",),
}


def told(path: Path) -> tuple[Any, ...]:
    """The faults of the store at *path*; if it has none, its rows of the sessions of ``whole``."""
    with MemoryStore.open(path) as store:
        if found := store.check():
            return tuple(found)
        log = summary_log(store, "a")
        rows = [(row.seq, row.raw) for row in log.read(0, 99)]
        listed = [[e.content for e in store.entries(name).entries] for name in ("a", "b")]
        return rows, listed, store.quarantined("a")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_repair_that_is_killed_is_done_or_not_begun(damage: str, tmp_path: Path) -> None:
    broken, mended = tmp_path / "broken", tmp_path / "mended"
    whole(broken)
    sql(broken, "PRAGMA foreign_keys = OFF", *DAMAGE[damage])
    shutil.copytree(broken, mended)
    with MemoryStore.open(mended) as store:
        store.check(repair=True)
    before, after = told(broken), told(mended)
    assert all(isinstance(each, Finding) for each in before)
    assert not isinstance(after[0], Finding)
    chance, seen = random.Random(9), Counter[str]()
    for run in range(max(4, RUNS // 10)):
        path = tmp_path / str(run)
        shutil.copytree(broken, path)
        with subprocess.Popen([sys.executable, "-c", REPAIR, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begins\n"
            time.sleep(chance.uniform(0.0, 0.008))
            child.send_signal(signal.SIGKILL)
            acknowledged = b"done" in child.stdout.read()
        found = told(path)
        assert found in ((after,) if acknowledged else (before, after))
        seen["done" if found == after else "not begun"] += 1
        with MemoryStore.open(path) as store:
            store.check(repair=True)
            assert store.check() == []
            assert all(each and each > GIVEN for each in store.index("a", entries("new")).entry_ids)
        shutil.rmtree(path)
    print(f"\n{damage}: {dict(seen)}")
