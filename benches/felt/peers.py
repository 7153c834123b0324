# ruff: noqa: ARG002 - each takes what it needs of a turn
"""A durable turn and a search at 10,000 entries, beside what else a host may keep its memory in.

    python benches/felt/peers.py [--entries 10000] [--rounds 30]

Each has the same texts. A turn adds one text, so that it is on the disk when the call returns by the means of
the peer itself, and a search then asks for ten. All are asked in turn, round by round. Peers with vectors
get 384 numbers, made beforehand, so no model is timed. Hits are not compared here:
`make bench-peers` and `make quality` do that. A peer that is not installed is left out by name.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isolation import entries, opened, said, text
from siltstone import Entry, MemoryStore, _native
from siltstone.embedding import embed

DIMENSION, BEST, BATCH = 384, 10, 1_000


class Vectors:
    """Of each text a vector of 384 numbers: its hashed words, turned by one random matrix."""

    def __init__(self) -> None:
        self._turn = np.random.default_rng(0).standard_normal((4096, DIMENSION)).astype(np.float32)

    def of(self, words: str) -> list[float]:
        """The vector of *words*, of length 1."""
        row = np.asarray(embed(words), dtype=np.float32) @ self._turn
        return (row / np.linalg.norm(row)).tolist()  # type: ignore[no-any-return]


class Peer(Protocol):
    """A system that keeps texts and finds them."""

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        """Adds many, before anything is timed."""

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        """Adds one text, durably."""

    def search(self, words: str, vector: list[float]) -> int:
        """How many of ten it finds."""


class Siltstone:
    """A message appended to a session, and an entry of it indexed: both durable."""

    def __init__(self, path: Path) -> None:
        self._store = MemoryStore.open(path)
        self._session = opened(self._store, "agent")

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        self._store.index("agent", entries(0, len(texts)))
        self._session.append(*said(0, 10))
        self._store.search("agent", "which entry is it?")

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._session.append({"role": "user", "content": words})
        self._store.index("agent", [Entry(words, source_range=(number, number + 1))])

    def search(self, words: str, vector: list[float]) -> int:
        return len(self._store.search("agent", words, limit=BEST))


class Fts5:
    """SQLite's full text search, with the same promise: a log that is synced by every commit."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path / "fts.sqlite3", isolation_level=None)
        for line in (
            "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
            "CREATE VIRTUAL TABLE entry USING fts5(text, tokenize = 'porter')",
        ):  # fmt: skip
            self._connection.execute(line)

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO entry VALUES (?)", [(each,) for each in texts])
        self._connection.execute("COMMIT")

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._connection.execute("INSERT INTO entry VALUES (?)", (words,))

    def search(self, words: str, vector: list[float]) -> int:
        asked = " OR ".join(f'"{word}"' for word in words.replace(":", " ").split())
        found = self._connection.execute(
            "SELECT text FROM entry WHERE entry MATCH ? ORDER BY rank LIMIT ?", (asked, BEST)
        )
        return len(found.fetchall())


class Tantivy:
    """A commit a turn, after which its searcher sees the text."""

    def __init__(self, path: Path) -> None:
        self._tantivy = importlib.import_module("tantivy")
        schema = self._tantivy.SchemaBuilder().add_text_field("text", stored=True).build()
        (path / "tantivy").mkdir()
        self._index = self._tantivy.Index(schema, path=str(path / "tantivy"))
        self._writer = self._index.writer(50_000_000, 1)

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        for each in texts:
            self._writer.add_document(self._tantivy.Document(text=each))
        self._commit()

    def _commit(self) -> None:
        self._writer.commit()
        self._index.reload()

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._writer.add_document(self._tantivy.Document(text=words))
        self._commit()

    def search(self, words: str, vector: list[float]) -> int:
        searcher = self._index.searcher()
        query, _ = self._index.parse_query_lenient(words, ["text"])
        hits = searcher.search(query, BEST).hits
        return len([searcher.doc(address)["text"] for _, address in hits])


class Chroma:
    """A collection on the disk."""

    def __init__(self, path: Path) -> None:
        chromadb = importlib.import_module("chromadb")
        settings = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(path / "chroma"), settings)
        self._rows = client.create_collection("entries", embedding_function=None)

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        for first in range(0, len(texts), BATCH):
            part = range(first, min(first + BATCH, len(texts)))
            self._rows.add(
                ids=[str(each) for each in part], documents=[texts[each] for each in part],
                embeddings=[vectors[each] for each in part],
            )  # fmt: skip

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._rows.add(ids=[str(number)], documents=[words], embeddings=[vector])

    def search(self, words: str, vector: list[float]) -> int:
        found = self._rows.query(query_embeddings=[vector], n_results=BEST, include=["documents"])
        return len(found["documents"][0])


class Lance:
    """A table of LanceDB, searched exactly."""

    def __init__(self, path: Path) -> None:
        self._base = importlib.import_module("lancedb").connect(str(path / "lance"))
        self._table: Any = None

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        rows = [{"vector": vector, "text": each} for each, vector in zip(texts, vectors, strict=True)]
        self._table = self._base.create_table("entries", rows)

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._table.add([{"vector": vector, "text": words}])

    def search(self, words: str, vector: list[float]) -> int:
        return len(self._table.search(vector).limit(BEST).to_list())


class Qdrant:
    """Qdrant's local mode."""

    def __init__(self, path: Path) -> None:
        qdrant = importlib.import_module("qdrant_client")
        self._models = importlib.import_module("qdrant_client.models")
        self._client = qdrant.QdrantClient(path=str(path / "qdrant"))
        metric = self._models.Distance.COSINE
        config = self._models.VectorParams(size=DIMENSION, distance=metric)
        self._client.create_collection("entries", vectors_config=config)

    def _put(self, first: int, texts: list[str], vectors: list[list[float]]) -> None:
        points = [
            self._models.PointStruct(id=first + place, vector=vector, payload={"text": each})
            for place, (each, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        self._client.upsert("entries", points)

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        for first in range(0, len(texts), BATCH):
            self._put(first, texts[first : first + BATCH], vectors[first : first + BATCH])

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._put(number, [words], [vector])

    def search(self, words: str, vector: list[float]) -> int:
        return len(self._client.query_points("entries", query=vector, limit=BEST).points)


class LangGraph:
    """LangGraph's SQLite saver: a checkpoint of the whole list of messages each turn. It has no search."""

    def __init__(self, path: Path) -> None:
        module = importlib.import_module("langgraph.checkpoint.sqlite")
        base = importlib.import_module("langgraph.checkpoint.base")
        self._empty = base.empty_checkpoint
        connection = sqlite3.connect(path / "graph.sqlite3", check_same_thread=False)
        self._saver = module.SqliteSaver(connection)
        self._messages: list[dict[str, str]] = []
        self._config: Any = {"configurable": {"thread_id": "agent", "checkpoint_ns": ""}}

    def _put(self) -> None:
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": self._messages}
        checkpoint["channel_versions"] = {"messages": len(self._messages)}
        metadata = {"source": "loop", "step": len(self._messages), "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, {})

    def fill(self, texts: list[str], vectors: list[list[float]]) -> None:
        self._messages = [{"role": "user", "content": each} for each in texts]
        self._put()

    def turn(self, number: int, words: str, vector: list[float]) -> None:
        self._messages.append({"role": "user", "content": words})
        self._put()

    def search(self, words: str, vector: list[float]) -> int:
        return 0


PEERS: dict[str, Callable[[Path], Peer]] = {
    "siltstone": Siltstone,
    "SQLite FTS5": Fts5,
    "tantivy, a commit a turn": Tantivy,
    "Chroma": Chroma,
    "LanceDB": Lance,
    "Qdrant, local": Qdrant,
    "LangGraph, SQLite saver": LangGraph,
}


def main() -> int:
    """Prints the table."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    make = Vectors()
    texts = [text(number) for number in range(asked.entries + asked.rounds)]
    vectors = [make.of(each) for each in texts]
    print(f"{asked.entries:,} entries, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds\n")
    with tempfile.TemporaryDirectory() as directory:
        peers: dict[str, Peer] = {}
        for place, (name, peer) in enumerate(PEERS.items()):
            path = Path(directory) / str(place)
            path.mkdir()
            try:
                peers[name] = peer(path)
            except ImportError as error:
                print(f"absent: {name}: {error}")
                continue
            peers[name].fill(texts[: asked.entries], vectors[: asked.entries])
        turns: dict[str, list[float]] = {name: [] for name in peers}
        searches: dict[str, list[float]] = {name: [] for name in peers}
        for number in range(asked.entries, asked.entries + asked.rounds):
            for name, one in peers.items():
                begin = time.perf_counter()
                one.turn(number, texts[number], vectors[number])
                middle = time.perf_counter()
                found = one.search("which entry is it, of silt and gravel?", vectors[number - 7])
                turns[name].append((middle - begin) * 1e3)
                searches[name].append((time.perf_counter() - middle) * 1e3)
                if found != (0 if isinstance(one, LangGraph) else BEST):
                    raise SystemExit(f"{name} found {found} of {BEST}")
        print("| | a durable turn, p50 | p99 | a search, p50 | p99 |\n| :--- | ---: | ---: | ---: | ---: |")
        for name in peers:
            cells = []
            for spent in (sorted(turns[name]), sorted(searches[name])):
                cells += [statistics.median(spent), spent[int(len(spent) * 0.99)]]
            found_by = f"{cells[2]:.3f} | {cells[3]:.3f}" if name != "LangGraph, SQLite saver" else "none |"
            print(f"| {name} | {cells[0]:.3f} | {cells[1]:.3f} | {found_by} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
