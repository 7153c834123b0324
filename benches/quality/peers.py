"""Stores of others behind our contract of a store: full text and BM25.

Each is used as its own documentation shows. All index ``speaker: text`` and are asked the question as it
stands, its words joined by OR where there is a query language.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from siltstone import Entry

WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Receipt:
    """An entry's id is its place."""

    entry_ids: range


@dataclass(frozen=True, slots=True)
class Hit:
    entry_id: int
    score: float
    content: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A store of others: how it is made, and the modules that it needs; SQLite where none."""

    name: str
    make: Callable[[], Any]
    needs: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        return all(map(find_spec, self.needs)) if self.needs else has_fts5()


def has_fts5() -> bool:
    """Whether this Python's SQLite was built with full text search."""
    with closing(sqlite3.connect(":memory:")) as database:
        return ("ENABLE_FTS5",) in database.execute("PRAGMA compile_options").fetchall()


class Fts5:
    """SQLite's full text search in memory, ranked by its own bm25()."""

    def __init__(self, tokenizer: str) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute(f"CREATE VIRTUAL TABLE entry USING fts5(text, tokenize = '{tokenizer}')")

    def index(self, _session_id: str, entries: Sequence[Entry]) -> Receipt:
        rows = [(place, said(entry)) for place, entry in enumerate(entries)]
        self._database.executemany("INSERT INTO entry (rowid, text) VALUES (?, ?)", rows)
        self._texts = [entry.content for entry in entries]
        return Receipt(range(len(rows)))

    def search(self, _session_id: str, query: str, *, limit: int) -> list[Hit]:
        words = " OR ".join(f'"{word}"' for word in WORD.findall(query))
        if not words:
            return []
        rows = self._database.execute(
            "SELECT rowid, -bm25(entry) FROM entry WHERE entry MATCH ? ORDER BY rank LIMIT ?", (words, limit)
        )
        return [Hit(place, score, self._texts[place]) for place, score in rows]

    def close(self) -> None:
        self._database.close()


class Tantivy:
    """An index in memory, with one of tantivy's own tokenizers."""

    def __init__(self, tokenizer: str) -> None:
        import tantivy

        self._document = tantivy.Document
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name=tokenizer)
        schema.add_unsigned_field("place", stored=True)
        self._index = tantivy.Index(schema.build())

    def index(self, _session_id: str, entries: Sequence[Entry]) -> Receipt:
        writer = self._index.writer()
        for place, entry in enumerate(entries):
            writer.add_document(self._document(text=said(entry), place=place))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._texts = [entry.content for entry in entries]
        return Receipt(range(len(entries)))

    def search(self, _session_id: str, query: str, *, limit: int) -> list[Hit]:
        words = " ".join(WORD.findall(query.lower()))  # in lower case, OR and NOT are words
        searcher = self._index.searcher()
        # Its tokenizer may leave nothing of a query, which the strict parser refuses.
        parsed, _ = self._index.parse_query_lenient(words, ["text"])
        found = searcher.search(parsed, limit).hits
        places = [(searcher.doc(address)["place"][0], score) for score, address in found]
        return [Hit(place, score, self._texts[place]) for place, score in places]

    def close(self) -> None:
        pass


class Bm25s:
    """Its English stop words, and Snowball from PyStemmer."""

    def __init__(self) -> None:
        import bm25s
        import Stemmer

        stemmer = Stemmer.Stemmer("english")
        self._model = bm25s.BM25()
        self._tokenize = lambda texts: bm25s.tokenize(
            texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
        )

    def index(self, _session_id: str, entries: Sequence[Entry]) -> Receipt:
        self._model.index(self._tokenize([said(entry) for entry in entries]), show_progress=False)
        self._texts = [entry.content for entry in entries]
        return Receipt(range(len(entries)))

    def search(self, _session_id: str, query: str, *, limit: int) -> list[Hit]:
        tokens = self._tokenize([query])
        if not any(token in self._model.vocab_dict for token in tokens[0]):
            return []
        places, scores = self._model.retrieve(tokens, k=min(limit, len(self._texts)), show_progress=False)
        return hits(zip(places[0].tolist(), scores[0].tolist(), strict=True), self._texts)

    def close(self) -> None:
        pass


def said(entry: Entry) -> str:
    return f"{entry.name or entry.role}: {entry.content}"


def hits(ranked: Iterable[tuple[int, float]], texts: Sequence[str]) -> list[Hit]:
    """Those with something in common with the query."""
    return [Hit(place, score, texts[place]) for place, score in ranked if score > 0]


LEXICAL = [
    Peer("SQLite FTS5 unicode61", lambda: Fts5("unicode61")),
    Peer("SQLite FTS5 porter", lambda: Fts5("porter unicode61")),
    Peer("tantivy default", lambda: Tantivy("default"), ("tantivy",)),
    Peer("tantivy en_stem", lambda: Tantivy("en_stem"), ("tantivy",)),
    Peer("bm25s, stop words and stems", Bm25s, ("bm25s", "Stemmer")),
]
