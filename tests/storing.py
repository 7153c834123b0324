"""Entries, messages and compactions for the tests of stores, and access to a store from another process."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from siltstone.memory import Entry, ForgetReport, SearchHit
from siltstone.stores import MemoryStore, transfer
from summary_log import NewCompaction, NewMessage, summary_log

#: Ids that look alike, or that mean something to file systems and databases.
STRANGE_IDS = [
    "a", "a.b", "ab", "A", "a ", " ", "../x", "/etc/passwd", "..", "a\x00b", "a\x00", "%", "_", "a%2e",
    "CON", "'; DROP TABLE entry; --", "😀", "é", "e\u0301", "x" * 1024,
]  # fmt: skip


def entries(*texts: str, **fields: Any) -> list[Entry]:
    return [Entry(text, (n, n + 1), created_at=1_000.0 + n, **fields) for n, text in enumerate(texts)]


def told(report: ForgetReport) -> ForgetReport:
    """*report* without the places that only a database server has; if none is left, it counts as erased."""
    by_itself = {"pages", "wal", "copies"}
    if not by_itself <= {*report.remaining}:
        return report
    others = tuple(each for each in report.remaining if each not in by_itself)
    return replace(report, erased=not others, remaining=others)


def contents(hits: Sequence[SearchHit]) -> list[str]:
    return [hit.content for hit in hits]


def message(raw: str = "{}", **fields: Any) -> NewMessage:
    given: dict[str, Any] = {
        "role": "user", "dialect": "any", "provenance": "original", "tokens": 3, "created_at": 1_000,
    }  # fmt: skip
    return NewMessage(raw, **given | fields)


def compaction(summary: str = "what was said", **fields: Any) -> NewCompaction:
    given: dict[str, Any] = {
        "policy": "threshold", "reason": "input_tokens", "level": 1, "degraded": False,
        "covers": ((0, 3), (5, 9)), "view": (None, (3, 5)), "next_seq": 9, "model": "m", "usage": "[]",
        "tokens_before": 900, "tokens_after": 90, "messages_before": 9, "messages_after": 3,
        "created_at": 2_000,
    }  # fmt: skip
    return NewCompaction(summary=summary, **given | fields)


def database(path: Path) -> Path:
    return path / "memory" / "memory.sqlite3"


def elsewhere(code: str, *arguments: object) -> str:
    """The output of *code* in a process of its own.

    Two copies of SQLite in one process must not share a file, so a test reads a store from another process.
    """
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sql(path: Path, *statements: str) -> None:
    """Runs *statements* on the database of the store at *path*, which must be closed."""
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2:]:\n"
        "    connection.execute(statement)\n"
        "connection.close()\n"
    )
    elsewhere(code, database(path), *statements)


def key(seq: int, session: int = 1) -> int:
    return session << 32 | seq


def fill(path: Path) -> None:
    """Makes a store at *path* with a session ``a``: four entries, four messages, a compaction."""
    with MemoryStore.open(path) as store:
        store.index("a", entries("silt settles", "the river is slow", "more silt"))
        log = summary_log(store, "a")
        log.append([message(f'"{n}"') for n in range(4)], expected_next=0, clock="c")
        kept = compaction(covers=((0, 3),), view=(None, (3, 4)), next_seq=4)
        log.commit(kept, entries("silt of old"), expected_head=None, clock="d")


def whole(path: Path) -> None:
    """A store as sessions leave one: a log, two compactions, an undone one, a dropped session."""
    with MemoryStore.open(path) as store:
        log = summary_log(store, "a")
        log.append([message(f'{{"n": {n}}}') for n in range(9)], expected_next=0, clock="c")
        first = log.commit(
            compaction(covers=((0, 3),), view=(None, (3, 9))),
            entries("silt", "clay"),
            expected_head=None,
            clock="",
        )
        second = log.commit(
            compaction(covers=((0, 5),), view=(None, (5, 9))),
            entries("mud", "sand", "gravel")[2:],
            expected_head=first.compaction_id,
            clock="",
        )
        log.undo(expected_head=second.compaction_id, clock="")
        log.commit(
            compaction(covers=((0, 4),), view=(None, (4, 9))), [], expected_head=first.compaction_id, clock=""
        )
        store.index("b", entries("the river is slow"))
        store.index("c", entries("gone"))
        store.delete_session("c")
        store.search("a", "silt")
        assert store.check() == []


def figures(store: Any) -> dict[str, Any]:
    """How much each session has of each kind of row, and a checksum of it that knows no ids."""
    names = [info.session_id for info in store.sessions(limit=100).sessions]
    return {name: transfer._figures(store, name) for name in names}
