"""The contenders over texts by BM25. All but ours get the terms that ours makes, so that they rank the same.

They are given the terms of a query ready-made, tantivy the parsed query; ours reads the text of it.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from typing import Any

from measure import Contender, K
from siltstone import _native
from siltstone.index import Bm25Index, Bm25Params

K1, B = 1.2, 0.75


class Bm25(Contender):
    """``Bm25Index``."""

    def __init__(self) -> None:
        super().__init__("siltstone Bm25Index", Bm25Index(Bm25Params(K1, B)))


class Tantivy(Contender):
    """An index in memory, written by one thread and merged into one segment."""

    def __init__(self) -> None:
        self.name = "tantivy"
        self.tantivy = importlib.import_module("tantivy")
        schema = self.tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name="whitespace")
        schema.add_unsigned_field("place", stored=True)
        self._schema = schema.build()
        self.index = self.tantivy.Index(self._schema)
        self._writer = self.index.writer(200_000_000, 1)
        self._count = 0

    def add(self, rows: Any) -> None:
        for text in rows:
            document = self.tantivy.Document(text=" ".join(_native.terms(text)), place=self._count)
            self._writer.add_document(document)
            self._count += 1

    def ready(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self.index.reload()
        self._searcher = self.index.searcher()

    def prepare(self, queries: Any) -> Sequence[Any]:
        query, occur = self.tantivy.Query, self.tantivy.Occur.Should
        return [
            query.boolean_query(
                [(occur, query.term_query(self._schema, "text", term)) for term in _native.terms(text)]
            )
            for text in queries
        ]

    def ask(self, query: Any) -> Any:
        return Places(self._searcher, self._searcher.search(query, K, count=False).hits)

    def size(self) -> None:
        return None


class Places(Sequence[int]):
    """The places of hits, looked up when they are read: that is no part of the search."""

    def __init__(self, searcher: Any, hits: Any) -> None:
        self._searcher, self._hits = searcher, hits

    def __len__(self) -> int:
        return len(self._hits)

    def __getitem__(self, number: Any) -> Any:
        return self._searcher.doc(self._hits[number][1])["place"][0]


class Bm25s(Contender):
    """Its eager scores, in Lucene's form; single-threaded NumPy."""

    def __init__(self) -> None:
        self.name = "bm25s"
        self.model = importlib.import_module("bm25s").BM25(method="lucene", k1=K1, b=B)
        self._terms: list[list[str]] = []

    def add(self, rows: Any) -> None:
        self._terms += [_native.terms(text) for text in rows]

    def ready(self) -> None:
        self.model.index(self._terms, show_progress=False)
        self._terms.clear()

    def prepare(self, queries: Any) -> Sequence[Any]:
        known = self.model.vocab_dict
        return [[term for term in _native.terms(query) if term in known] for query in queries]

    def ask(self, query: Any) -> Sequence[int]:
        if not query:
            return ()
        return self.model.retrieve([query], k=K, show_progress=False, n_threads=0)[0][0]  # type: ignore[no-any-return]

    def size(self) -> int:
        return sum(int(part.nbytes) for part in self.model.scores.values() if hasattr(part, "nbytes"))


class Fts5(Contender):
    """SQLite's full text search in memory, by its own ``bm25()``; few queries, as they take milliseconds."""

    most = 30

    def __init__(self) -> None:
        self.name = "SQLite FTS5"
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE entry USING fts5(text)")
        self._count = 0

    def add(self, rows: Any) -> None:
        numbered = enumerate((" ".join(_native.terms(text)) for text in rows), self._count)
        self._database.executemany("INSERT INTO entry (rowid, text) VALUES (?, ?)", numbered)
        self._count += len(rows)

    def ready(self) -> None:
        self._database.commit()

    def prepare(self, queries: Any) -> Sequence[str]:
        return [" OR ".join(f'"{term}"' for term in _native.terms(query)) for query in queries]

    def ask(self, query: Any) -> Sequence[int]:
        if not query:
            return ()
        statement = "SELECT rowid FROM entry WHERE entry MATCH ? ORDER BY rank LIMIT ?"
        return [row[0] for row in self._database.execute(statement, (query, K))]

    def size(self) -> int:
        return int(self._database.execute("SELECT sum(length(block)) FROM entry_data").fetchone()[0])


class Agreement:
    """How much of an answer is in that of bm25s, whose scores also say which texts tie with the last."""

    def __init__(self, texts: list[str], queries: list[str]) -> None:
        judge = Bm25s()
        judge.add(texts)
        judge.ready()
        self._best: list[set[int]] = []
        self._there: list[int] = []
        for query in judge.prepare(queries):
            scores = judge.model.get_scores(query) if query else []
            found = sorted((score for score in scores if score > 0), reverse=True)[:K]
            least = found[-1] * (1 - 1e-5) if found else float("inf")
            self._best.append({place for place, score in enumerate(scores) if score >= least})
            self._there.append(len(found))

    def recall(self, number: int, answer: Sequence[int]) -> float:
        """How many of the *answer* are among the best, of as many as there are."""
        there = self._there[number]
        shared = self._best[number].intersection(int(place) for place in answer)
        return min(len(shared), there) / there if there else 1.0
