"""Makes the files of a store in the current version. Run it before the version changes.

``python tests/stores/make.py 1`` writes ``tests/stores/version-1``: the file of a closed store, and the file
with its log of a store whose process died, each with the data that are read from it.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from siltstone.memory import Entry, Store
from siltstone.stores import MemoryStore
from summary_log import NewCompaction, NewMessage, summary_log

HERE = Path(__file__).parent
FILES = ("memory.sqlite3", "memory.sqlite3-wal")

DIE = """
import os, sys
sys.path.insert(0, sys.argv[2])
from make import write
from siltstone.stores import MemoryStore
store = MemoryStore.open(sys.argv[1])
write(store)
os._exit(0)
"""


def write(store: Store) -> None:
    """Two sessions with logs, compactions, an undone one and something forgotten; and a dropped one."""
    for name in ("a", "b\x00\U0001f600"):
        log = summary_log(store, name)
        raws = [json.dumps({"role": "user", "content": f"{name} said {n}: silt"}) for n in range(9)]
        rows = [NewMessage(raw, "user", "any", "original", 7, 1_000 + n) for n, raw in enumerate(raws)]
        log.append(rows, expected_next=0, clock='{"session_boundary_index": 3}')
        head = None
        for end in (3, 5, 7):
            row = NewCompaction(
                "threshold", "input_tokens", 1, False, f"what was said up to {end}", ((0, end),),
                (None, (end, 9)), 9, "m", "[]", 90, 30, 9, 10 - end, 2_000 + end,
            )  # fmt: skip
            brought = [Entry(f"silt {end}", (end - 1, end), created_at=end)]
            head = log.commit(row, brought, expected_head=head, clock="").compaction_id
        log.undo(expected_head=head or 0, clock="")
        store.index(name, [Entry("a note on the river", name="Ann", kind="note", created_at=5.5)])
    store.forget(session_id="a", start=1, end=2)
    store.finalize(store.stage("a", [Entry("a stone that was staged", created_at=6.0)], "committed"))
    store.stage("a", [Entry("a stone that waits", created_at=7.0)], "waiting")
    store.index("c", [Entry("gone", created_at=1.0)])
    store.delete_session("c")


def read(path: Path) -> dict[str, Any]:
    """Everything that the store at *path* tells, as JSON would have it."""
    with MemoryStore.open(path) as store:
        told: dict[str, Any] = {"findings": [finding.code for finding in store.check()]}
        for name in ("a", "b\x00\U0001f600", "c"):
            log = summary_log(store, name)
            state = log.state()
            told[name] = {
                "next": state.next_seq,
                "dropped": state.dropped,
                "clock": state.clock,
                "head": state.head and state.head.compaction_id,
                "messages": [[row.seq, row.raw, row.provenance, row.tokens] for row in log.read(0, 99)],
                "compactions": [
                    [row.compaction_id, row.parent, row.compaction.summary, row.redacted]
                    for row in log.compactions()
                ],
                "entries": [
                    [entry.entry_id, entry.content, *entry.source_range, entry.name, entry.kind]
                    for entry in store.entries(name).entries
                ],
                "waiting": [[stage.token, stage.fingerprint, stage.entries] for stage in store.stages(name)],
                "hits": sorted(hit.entry_id for hit in store.search(name, "silt river", limit=99)),
            }
        return json.loads(json.dumps(told))  # type: ignore[no-any-return]


def main(version: str) -> None:
    """Writes the files of *version*."""
    for form in ("closed", "killed"):
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary)
            if form == "closed":
                with MemoryStore.open(path) as store:
                    write(store)
            else:
                subprocess.run([sys.executable, "-c", DIE, temporary, str(HERE)], check=True)
            target = HERE / f"version-{version}" / form
            target.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                if (file := path / "memory" / name).exists():
                    (target / f"{name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
            told = json.dumps(read(path), indent=1, sort_keys=True)
            (target / "read.json").write_text(f"{told}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
