"""Writers on a store in PostgreSQL, and the check of their work.

A writer runs in a process of its own, which may be killed. It writes a line into a file before each write and
after each acknowledgement. Each message and each entry has a unique word, so the check finds every lost,
doubled or missing one.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

from siltstone.errors import StoreBusyError, StoreConflictError, StoreError, StoreUnavailableError
from siltstone.memory import Entry
from siltstone.memory.convert import new_entry
from siltstone.memory.log import NewCompaction, NewMessage

SESSION = "tortured"
PATIENCE = 300  # seconds, in place of the 10 and the 30 of who waits for a user


def context() -> ForkServerContext:
    """The start method of the processes: everything is imported, and no thread or connection is inherited."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["postgres_working", "siltstone.postgres.store"])
    return made


def opened(dsn: str, **options: Any) -> Any:
    """The store, imported late: the client of PostgreSQL is an extra.

    It waits as long as a server may be away on a slow machine, on which no test counts.
    """
    from siltstone.postgres import PostgresStore

    if isinstance(dsn, str) and "=" in dsn and "connect_timeout" not in dsn:
        dsn += f" connect_timeout={PATIENCE}"
    return PostgresStore.open(dsn, **{"deadline": PATIENCE, **options})


class Writer:
    """A writer in a process of its own. It records its steps in the file ``words``."""

    running: ClassVar[list[Writer]] = []

    def __init__(self, dsn: str, words: Path, number: int, *, shared: bool = False) -> None:
        self.words = words
        self.process: ForkServerProcess = context().Process(
            target=work, args=(dsn, str(words), number, shared), daemon=True
        )
        self.process.start()
        self.running.append(self)

    @classmethod
    def kill_all(cls) -> None:
        while cls.running:
            cls.running.pop().kill()

    def did(self) -> int:
        return sum(word["is"] == "did" for word in said(self.words))

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        self.words.with_suffix(".stop").touch()
        self.process.join(2 * PATIENCE)
        assert not self.process.is_alive(), said(self.words)[-1:]


def work(dsn: str, words: str, number: int, shared: bool = False) -> None:
    out = os.open(words, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    stop = Path(words).with_suffix(".stop")
    chance = random.Random(number)

    def say(what: str, **more: Any) -> None:
        os.write(out, json.dumps({"is": what, **more}).encode() + b"\n")

    try:
        with opened(dsn) as store:
            session = SESSION if shared else f"{SESSION}-{number}"
            log = store.open_log(session)
            log.open("")
            for step in range(10**9):
                if stop.exists():
                    break
                uid = f"w{number}-{os.getpid()}-{step}"
                does = chance.choice(["append", "append", "index", "commit"])
                say("begins", uid=uid, does=does)
                try:
                    while True:
                        try:
                            _write(store, log, session, does, uid)
                            break
                        except (StoreConflictError, StoreBusyError) as error:
                            # Neither wrote anything; who is alone meets neither.
                            if not shared:
                                say("error", error=repr(error))
                                return
                    say("did", uid=uid)
                except StoreUnavailableError as error:
                    say("unknown" if error.outcome == "unknown" else "refused", uid=uid, error=repr(error))
    except Exception as error:  # whatever it is, it is told
        say("error", error=repr(error))


def _write(store: Any, log: Any, session: str, does: str, uid: str) -> None:
    if does == "index":
        store.index(session, [Entry(f"entry {uid}"), Entry(f"second {uid}")])
        return
    version, write_id = log.version(), int.from_bytes(os.urandom(8)) >> 1
    raw = json.dumps({"role": "user", "content": f"message {uid}"})
    messages = [NewMessage(raw, "user", "any", "original", 3, 0)]
    if does == "append":
        log.append(messages, expected=version, clock="", write_id=write_id)
        return
    end = version.next_seq
    view = ((0, end),) if end else ()
    row = NewCompaction("r", (), view, end, "", 0, 0, 0, 0, 0, f"row {uid}")
    entries = [new_entry(Entry(f"entry {uid}"))]
    log.commit(row, entries, expected=version, clock="", write_id=write_id, messages=messages)


def said(words: Path) -> list[dict[str, Any]]:
    """The recorded steps, without a last line that was cut off."""
    if not words.exists():
        return []
    lines = words.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def problems(dsn: str, files: list[Path], *, unknown: bool = False) -> tuple[list[str], Counter[str]]:
    """The differences between acknowledged writes and the store, for a new reader; and the count of steps.

    Args:
        dsn: The store.
        files: The records of all writers.
        unknown: Whether a write may have an unknown outcome.
    """
    words = [word for file in files for word in said(file)]
    counts = Counter(word["is"] for word in words)
    wrong = [f"error: {word['error']}" for word in words if word["is"] in ("error", "refused")]
    if not unknown:
        wrong += [f"unknown: {word['error']}" for word in words if word["is"] == "unknown"]
    does = {word["uid"]: word["does"] for word in words if word["is"] == "begins"}
    did = {word["uid"] for word in words if word["is"] == "did"}
    seen: dict[str, Counter[str]] = {
        "message": Counter(),
        "entry": Counter(),
        "second": Counter(),
        "row": Counter(),
    }
    try:
        with opened(dsn) as store:
            texts, found = _texts(store)
            wrong += found
            wrong += [str(finding) for finding in store.check()]
    except StoreError as error:
        return [*wrong, f"it cannot be read: {error!r}"], counts
    for text in texts:
        kind, uid = text.split()
        seen[kind][uid] += 1
    for uid, kind in does.items():
        made = {
            "append": ("message",), "index": ("entry", "second"), "commit": ("message", "entry", "row"),
        }[kind]  # fmt: skip
        there = [seen[part].pop(uid, 0) for part in made]
        if len(set(there)) > 1:
            wrong.append(f"half of {uid}: {dict(zip(made, there, strict=True))}")
        elif there[0] > 1:
            wrong.append(f"doubled: {uid}")
        elif there[0] == 0 and uid in did:
            wrong.append(f"lost: {uid}")
        counts["done, not acknowledged"] += there[0] == 1 and uid not in did
    wrong += [f"nobody wrote {uid}" for left in seen.values() for uid in left]
    return wrong, counts


def _texts(store: Any) -> tuple[list[str], list[str]]:
    """All written texts, and the errors in their order."""
    texts, wrong = [], []
    for info in store.sessions(limit=1_000).sessions:
        log = store.open_log(info.session_id)
        end = log.state().next_seq
        rows = log.read(0, end)
        if [row.seq for row in rows] != list(range(end)):
            wrong.append(f"holes in {info.session_id}: {[row.seq for row in rows]}")
        texts += [json.loads(row.raw)["content"] for row in rows]
        texts += [entry.content for entry in _entries(store, info.session_id)]
        texts += [row.compaction.policy for row in log.compactions()]
    return texts, wrong


def _entries(store: Any, session: str) -> Iterator[Any]:
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session, offset=offset, limit=1_000)
        yield from page.entries
        offset = page.next_offset


def seen(store: Any) -> dict[str, Any]:
    """The content of a store as JSON."""
    told: dict[str, Any] = {}
    for info in store.sessions(limit=100).sessions:
        name, log = info.session_id, store.open_log(info.session_id)
        told[name] = {
            "namespace": info.namespace,
            "messages": [row.raw for row in log.read(0, log.state().next_seq)],
            "compactions": [[row.compaction_id, row.compaction.policy] for row in log.compactions()],
            "forgotten": [[place, digest.hex()] for place, digest in log.forgotten()],
            "entries": [[each.entry_id, each.content] for each in store.entries(name).entries],
            "hits": sorted(hit.content for hit in store.search(name, "silt and a stone", 50)),
            "facts": [list(row[:5]) for row in store.facts(name)],
        }
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def hurry(store: Any, seconds: float = 0.5) -> None:
    """From now on the store waits so long. What a slow machine did before had its time."""
    store._database.deadline = seconds


def until(holds: Callable[[], bool], seconds: float = 2.0 * PATIENCE) -> None:
    """Waits; a test that waits for ever says so."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
