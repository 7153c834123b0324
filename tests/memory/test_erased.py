"""``erased=True`` is true: no piece of what was forgotten is in a file, whatever order it came in."""

import json
import os
import random
import signal
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conversations import Raw, assistant, user
from siltstone import CompactionConfig, HnswMemoryStore, MemoryStore, Session, ThresholdCompactor, presets
from siltstone.errors import StoreError
from siltstone.memory import Entry
from siltstone.session.retention import Retention
from storing import database

ROUNDS = int(os.environ.get("SILTSTONE_ERASED_ROUNDS", "1"))  # the long form: 100
LEAVING = int(os.environ.get("SILTSTONE_LEAVING_ROUNDS", "30"))  # the long form: 1,000
ASIDE = ("wal-replaced", "shm-replaced")  # logs of a file that was replaced
PIECE = 12  # bytes in a row that count as a piece: by chance none is anywhere

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=2_000, max_summary_tokens=200))


class Embedder:
    """Vectors that no two texts share, so that the bytes of one can be looked for."""

    id = "test/unique"
    dimension = 8

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return np.stack([self.row(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        return self.row(text)

    def row(self, text: str) -> Any:
        drawn = np.frombuffer(blake2b(text.encode(), digest_size=32).digest(), dtype=np.uint32)
        row = drawn.astype(np.float64) / 2**32 + 0.01
        return (row / np.linalg.norm(row)).astype(np.float32)


def pieces(secret: str) -> list[bytes]:
    """The pieces of *secret* that must be gone: each run of its bytes, in either width."""
    forms = secret.encode(), secret.encode("utf-16-le")
    found = [form[at : at + PIECE] for form in forms for at in range(0, len(form) - PIECE + 1, PIECE // 2)]
    vector = Embedder().row(secret)
    return [*found, struct.pack(f"<{Embedder.dimension}f", *vector)]


def said(chance: random.Random, secret: str, size: int) -> list[Raw]:
    """*secret* in one of the places where a message may have it, between so many words."""
    filler = " ".join(chance.choice(("silt", "mud", "clay", "é", "gravel\n")) for _ in range(size))
    text = filler.join((secret, secret)) if chance.random() < 0.2 else f"{filler} {secret} {filler}"
    call_id = f"call_{chance.randrange(10**9)}"
    function = {"name": "run", "arguments": json.dumps({"at": [{"key": text}]})}
    call = {"id": call_id, "type": "function", "function": function}
    nested = json.dumps({"body": json.dumps({"key": text})})
    return chance.choice(
        [
            [user(text)],
            [assistant(text)],
            [user([{"type": "text", "text": filler}, {"type": "text", "text": text}])],  # type: ignore[arg-type]
            [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": nested},
            ],
        ]
    )


def found_in(path: Path, secrets: Sequence[str]) -> list[str]:
    """The files that have a piece of one of *secrets*, and the piece."""
    found = []
    for file in path.rglob("*"):
        if file.is_file():
            held = file.read_bytes()
            found += [
                f"{file.name}: {piece!r}" for each in secrets for piece in pieces(each) if piece in held
            ]
    return found


def test_no_piece_is_left_where_others_write_meanwhile(tmp_path: Path) -> None:
    """Rows move from page to page while pages are overwritten; forgotten texts move with none of them."""
    chance = random.Random(7)
    secrets = [f"{chance.getrandbits(160):040x}" for _ in range(24)]
    names = [f"session {number}" for number in range(8)]
    is_done = threading.Event()
    failed = list[BaseException]()

    def write(own: list[Session], mine: random.Random) -> None:
        try:
            while not is_done.is_set():
                texts = ["mud " * mine.choice((1, 40, 400, 1_500)) + str(mine.random()) for _ in range(8)]
                session = mine.choice(own)
                store.index(session.session_id, [Entry(text) for text in texts])
                session.append(*(user(text) for text in texts))
        except BaseException as error:
            failed.append(error)
            raise

    with MemoryStore.open(tmp_path) as store:
        sessions = [Session.open(None, name, memory=store, policy=None) for name in names]
        for secret in secrets:
            for session in sessions:
                session.append(user("silt " * chance.choice((1, 30, 300)) + secret))
        threads = [
            threading.Thread(target=write, args=(sessions[part::2], random.Random(part))) for part in range(2)
        ]
        for thread in threads:
            thread.start()
        gone = list[str]()
        for secret in secrets[::6]:
            report = store.forget(text=secret)
            assert report.erased, report.remaining
            assert report.messages == len(sessions)
            gone.append(secret)
            assert found_in(tmp_path, gone) == []
        is_done.set()
        for thread in threads:
            thread.join()
        assert not failed
        for session in sessions:
            session.close()
        assert store.check() == []
        assert found_in(tmp_path, gone) == []


def test_a_log_that_cannot_be_deleted_leaves_no_other_behind(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry("silt settles", (0, 1))])
        first, second = (database(tmp_path).with_name(f"{database(tmp_path).name}-{end}") for end in ASIDE)
        (first / "kept").mkdir(parents=True)
        second.write_text("silt settles")
        assert not store.forget(text="silt settles").erased
        assert first.is_dir()
        assert not second.exists()


class Leaving:
    """Texts that all have one mark, which enter a store and leave it in every way that there is."""

    def __init__(self, path: Path, chance: random.Random, mark: str) -> None:
        self.path, self.chance, self.mark, self.count = path, chance, mark, 0
        self.preset = chance.choice((None, None, None, "waterfall", "openclaw"))
        self.embeds = self.preset is None and chance.random() < 0.5
        self.open()

    def open(self) -> None:
        if self.embeds:
            self.store = MemoryStore.open(self.path, embedder=Embedder())
        else:
            self.store = (MemoryStore if self.preset else HnswMemoryStore).open(self.path)
        self.sessions: dict[str, Session] = {}

    def text(self) -> str:
        self.count += 1
        filler = "silt " * self.chance.choice((0, 3, 40, 400, 2_000))
        return f"{filler}{self.mark} {self.count} {filler}"

    def session(self) -> Session:
        name = self.chance.choice(("one", "two", "three"))
        if name not in self.sessions:
            self.store.revive(name)
            options: dict[str, Any] = {"memory": self.store, "context_window": 6_000}
            if self.preset == "waterfall":
                options["preset"] = presets.waterfall(immediate_window=4, recent_window=4)
            elif self.preset == "openclaw":
                options |= {"preset": "openclaw", "context_window": 12_000}  # it keeps 8,000 free
            else:
                options |= {"policy": POLICY, "knowledge": True, "redaction": self.chance.random() < 0.3}
                options |= {"retention": Retention(max_entries=3)} if self.chance.random() < 0.5 else {}
            self.sessions[name] = Session.open(None, name, **options)
        return self.sessions[name]

    def say(self) -> None:
        self.count += 1
        text = said(self.chance, f"{self.mark} {self.count}", self.chance.choice((0, 3, 40, 400, 2_500)))
        self.session().append(*text, assistant("mud " * self.chance.choice((1, 300))))

    def keep(self) -> None:
        self.store.index(self.session().session_id, [Entry("clay " * self.chance.choice((1, 40, 2_000)))])

    def index(self, ttl: timedelta | None = None) -> None:
        texts = [self.text() for _ in range(self.chance.choice((1, 5)))]
        self.store.index(self.session().session_id, [Entry(each, (7, 8), ttl=ttl) for each in texts])

    def lasting(self) -> None:
        self.index(timedelta(milliseconds=self.chance.choice((1, 10**9))))

    def index_again(self) -> None:
        name, text = self.session().session_id, self.text()
        for ttl in (None, timedelta(hours=1)):
            self.store.index(name, [Entry(text, (5, 6), ttl=ttl)])

    def expire(self) -> None:
        bounds = self.chance.choice(({}, {"keep": 1}, {"keep": 0}, {"before": time.time() + 5}))
        self.store.expire(self.session().session_id, **bounds)

    def compact(self) -> None:
        session = self.session()
        session.compact()
        if self.chance.random() < 0.5:
            session.undo_compaction()

    def know(self) -> None:
        session = self.session()
        fact = session.save(f"The gate of {self.mark} is number {self.count}.", "decision")
        if self.chance.random() < 0.5:
            session.save(f"The gate of {self.mark} is number {self.count + 1}.", "decision")
        session.forget(fact_ids=[fact.id])

    def collide(self) -> None:
        """A write that is refused, because another one came first."""
        session = self.session()
        with Session.open(None, session.session_id, memory=self.store, preset=None) as other:
            other.append(user(self.text()))
        session.append(user(self.text()))

    def forget(self) -> None:
        self.session().forget(start=0, end=self.chance.randrange(1, 9))

    def delete(self) -> None:
        name = self.session().session_id
        self.store.delete_session(name)
        self.sessions.pop(name).close()

    def reopen(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.store.close()
        self.open()

    def run(self, steps: int) -> None:
        ways: list[Callable[[], None]] = [
            *[self.say, self.keep, self.index] * 3, self.lasting, self.index_again, self.expire, self.compact,
            self.know, self.collide, self.forget, self.delete, self.reopen,
        ]  # fmt: skip
        for _ in range(steps):
            with suppress(StoreError):
                self.chance.choice(ways)()
                for session in self.sessions.values():
                    session.reload()


@pytest.mark.parametrize("round_", range(4 * ROUNDS))
def test_no_piece_of_what_was_forgotten_is_in_a_file(tmp_path: Path, round_: int) -> None:
    """Writes of all kinds and sizes in random order, between them forgetting, compacting and reopening."""
    chance, erased, marks = random.Random(f"lives {round_}"), 0, list[str]()
    lives = Leaving(tmp_path, chance, "")
    for _ in range(6):
        lives.mark = f"{chance.getrandbits(160):040x}"
        lives.run(25)
        assert found_in(tmp_path, [lives.mark]), "what was not forgotten can be found like this"
        report = lives.store.forget(text=lives.mark)
        assert report.erased, report.remaining
        erased += report.messages + report.entries
        marks.append(lives.mark)
        assert found_in(tmp_path, marks) == []
    assert lives.store.check() == []
    lives.store.close()
    assert found_in(tmp_path, marks) == []
    assert erased > 12


def left(path: Path, chance: random.Random, mark: str) -> None:
    """Runs such a store in a process of its own, which is killed, mostly."""
    steps, patience = chance.randrange(4, 60), chance.random() ** 2
    child = os.fork()
    if child == 0:
        try:
            Leaving(path, chance, mark).run(steps)
        finally:
            os._exit(0)
    if chance.random() < 0.7:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed")
def test_what_left_in_any_way_is_out_of_the_files_after_a_forget(tmp_path: Path) -> None:
    """It leaves by itself or is taken out, the process is killed, and much later the text is forgotten."""
    held = erased = 0
    for round_ in range(LEAVING):
        chance = random.Random(f"left {round_}")
        mark, path = f"{chance.getrandbits(160):040x}", tmp_path / str(round_)
        left(path, chance, mark)
        held += bool(found_in(path, [mark]))
        with MemoryStore.open(path) as store:
            if chance.random() < 0.5:  # the server lives on
                store.index("later", [Entry("later " * size) for size in (1, 300, 1, 2_000) * 4])
            report = store.forget(text=mark)
            assert report.erased, (round_, report)
            assert found_in(path, [mark]) == [], (round_, report)
            erased += report.messages + report.entries
            assert store.check() == []
        with MemoryStore.open(path) as store:
            assert store.search("later", "later") or store.stats("later").entries == 0
        assert found_in(path, [mark]) == [], round_
    assert held > LEAVING // 3
    assert erased > LEAVING
