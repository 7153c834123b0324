"""Eight processes on one store: nothing fails but by the bounded wait, and everybody finds everything.

``SILTSTONE_LOAD_SECONDS`` says for how long (``make load``: 60).
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from siltstone.stores import MemoryStore
from summary_log import summary_log

PROCESSES = 8
SECONDS = float(os.environ.get("SILTSTONE_LOAD_SECONDS", "2"))

WORKER = """
import json, random, sys, time
from siltstone.errors import StoreBusyError, StoreConflictError
from siltstone.memory import Entry
from siltstone.stores import MemoryStore
from summary_log import NewCompaction, NewMessage, summary_log

path, me, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
chance = random.Random(me)
ids, done, busy, number = [], 0, 0, 0
store = MemoryStore.open(path)
log = summary_log(store, f"own {me}")
mine = f"canary{me}"
begin = time.monotonic()
while time.monotonic() < begin + seconds or number < 20:
    number += 1
    does = chance.choice(["append", "index", "index", "commit", "search", "search", "read"])
    try:
        if does == "append":
            end = log.state().next_seq
            raw = json.dumps({"role": "user", "content": "x" * 1_000})
            log.append([NewMessage(raw, "user", "any", "original", 3, 0)], expected_next=end, clock="")
        elif does == "index":
            word = "".join(chr(97 + int(digit)) for digit in str(number))  # equal but for numbers is one hit
            ids += store.index("shared", [Entry(f"silt {mine} {word} of {mine}{word}")]).entry_ids
        elif does == "commit":
            state = log.state()
            if state.next_seq == 0:
                continue
            end, head = state.next_seq, state.head and state.head.compaction_id
            covers = ((0, end),)
            row = NewCompaction("c", "r", 1, False, "said", covers, (None,), end, "", "[]", 0, 0, 0, 0, 0)
            log.commit(row, [Entry(f"own {number}", (end - 1, end))], expected_head=head, clock="")
        elif does == "search":
            found = len(store.search("shared", mine, limit=1_000))
            assert found == min(len(ids), 1_000), (found, len(ids))
        else:
            state = log.state()
            assert len(log.read(0, state.next_seq)) == state.next_seq
    except StoreBusyError:
        busy += 1
        continue
    done += 1
state = log.state()
print(json.dumps({"me": me, "ids": ids, "busy": busy, "done": done, "messages": state.next_seq}))
store.close()
"""


def test_eight_processes_write_and_read_and_everybody_finds_everything(tmp_path: Path) -> None:
    place = tmp_path / "store"
    MemoryStore.open(place).close()
    command = [sys.executable, "-c", WORKER, str(place)]
    children = []
    for me in range(PROCESSES):  # a report is longer than a pipe holds, and nobody reads until all have ended
        with (tmp_path / f"{me}.out").open("wb") as out, (tmp_path / f"{me}.err").open("wb") as err:
            children.append(subprocess.Popen([*command, str(me), str(SECONDS)], stdout=out, stderr=err))
    watcher = MemoryStore.open(place)  # one more process, which only reads meanwhile
    looks = 0
    while any(child.poll() is None for child in children):
        committed = len(watcher.entries("shared", limit=1_000).entries)
        assert len(watcher.search("shared", "silt", limit=1_000)) >= committed
        looks += 1
        time.sleep(0.05)
    reports = []
    for me, child in enumerate(children):
        assert child.returncode == 0, (tmp_path / f"{me}.err").read_text()
        reports.append(json.loads((tmp_path / f"{me}.out").read_bytes()))

    ids = Counter(entry_id for report in reports for entry_id in report["ids"])
    assert all(count == 1 for count in ids.values()), "an id was given twice"
    listed = {entry.entry_id: entry.content for entry in watcher.entries("shared", limit=10**9).entries}
    assert set(listed) == set(ids)
    for report in reports:  # every committed entry is found by a process that did not write it
        mine = f"canary{report['me']}"
        own = {entry_id for entry_id, content in listed.items() if f" {mine} " in content}
        assert own == set(report["ids"])
        assert len(watcher.search("shared", mine, limit=1_000)) == min(len(own), 1_000)
        state = summary_log(watcher, f"own {report['me']}").state()
        assert state.next_seq == report["messages"]
    assert watcher.check() == []
    watcher.close()
    done, busy = (sum(report[name] for report in reports) for name in ("done", "busy"))
    print(f"\n{PROCESSES} processes, at least {SECONDS:.0f} s: {done:,} calls, {busy} busy, {looks} looks")
