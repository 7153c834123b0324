"""A durable turn and a search at 10,000 entries, beside what else a host may keep its memory in.

    python benches/felt/peers.py [--entries 10000]

Each has the same texts. A turn adds one text, so that it is on the disk when the call returns by the means of
the peer itself, and a search then asks for ten. All are asked in turn, round by round. Hits are not compared
here: `make bench-peers` and `make quality` do that. A peer that is not installed is left out by name.
"""

from __future__ import annotations

import argparse
import importlib
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siltstone import Entry, MemoryStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, entries, head, in_turn, middle_and_last, opened, row, said, text

BEST, ROUNDS = 10, 30


class Siltstone:
    """A message appended to a session, and an entry of it indexed: both durable."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        self._store = MemoryStore.open(path)
        self._session = opened(self._store, "agent")
        self._store.index("agent", entries(0, len(texts)))
        self._session.append(*said(0, 10))

    def turn(self, number: int) -> None:
        self._session.append({"role": "user", "content": text(number)})
        self._store.index("agent", [Entry(text(number), source_range=(number, number + 1))])

    def search(self, words: str) -> int:
        return len(self._store.search("agent", words, limit=BEST))


class Fts5:
    """SQLite's full text search, with the same promise: a log that is synced by every commit."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        self._connection = sqlite3.connect(path / "fts.sqlite3")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE VIRTUAL TABLE entry USING fts5(text, tokenize = 'porter')")
        self._add(texts)

    def _add(self, texts: list[str]) -> None:
        with self._connection:
            self._connection.executemany("INSERT INTO entry VALUES (?)", [(each,) for each in texts])

    def turn(self, number: int) -> None:
        self._add([text(number)])

    def search(self, words: str) -> int:
        asked = " OR ".join(f'"{word}"' for word in words.split())
        found = self._connection.execute(
            "SELECT text FROM entry WHERE entry MATCH ? ORDER BY rank LIMIT ?", (asked, BEST)
        )
        return len(found.fetchall())


class Tantivy:
    """A commit a turn, after which its searcher sees the text."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        self._tantivy = importlib.import_module("tantivy")
        schema = self._tantivy.SchemaBuilder().add_text_field("text", stored=True).build()
        (path / "tantivy").mkdir()
        self._index = self._tantivy.Index(schema, path=str(path / "tantivy"))
        self._writer = self._index.writer(50_000_000, 1)
        self._add(texts)

    def _add(self, texts: list[str]) -> None:
        for each in texts:
            self._writer.add_document(self._tantivy.Document(text=each))
        self._writer.commit()
        self._index.reload()

    def turn(self, number: int) -> None:
        self._add([text(number)])

    def search(self, words: str) -> int:
        searcher = self._index.searcher()
        query, _ = self._index.parse_query_lenient(words, ["text"])
        return len([searcher.doc(address)["text"] for _, address in searcher.search(query, BEST).hits])


PEERS: dict[str, Callable[[Path, list[str]], Any]] = {
    "siltstone": Siltstone,
    "SQLite FTS5": Fts5,
    "tantivy, a commit a turn": Tantivy,
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=10_000)
    count = parser.parse_args().entries
    begin(f"{count:,} entries, milliseconds")
    texts = [text(number) for number in range(count)]
    with tempfile.TemporaryDirectory() as directory:
        peers: dict[str, Any] = {}
        for place, (name, make) in enumerate(PEERS.items()):
            path = Path(directory) / str(place)
            path.mkdir()
            try:
                peers[name] = make(path, texts)
            except ImportError as error:
                print(f"absent: {name}: {error}")
        words = "which entry is it of silt and gravel"
        for name, one in peers.items():
            if one.search(words) != BEST:
                raise SystemExit(f"{name} does not find {BEST}")
        calls = {
            (name, what): (lambda n, one=one: one.turn(n))
            if what == "turn"
            else lambda _, one=one: one.search(words)
            for name, one in peers.items()
            for what in ("turn", "search")
        }
        taken = in_turn(calls, range(count, count + ROUNDS))
    head("", "a durable turn, p50", "p99", "a search, p50", "p99")
    for name in peers:
        row(name, *middle_and_last(taken[name, "turn"]), *middle_and_last(taken[name, "search"]))


if __name__ == "__main__":
    main()
