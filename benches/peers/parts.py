"""The parts of the bench. Each gives plain numbers by name, and runs in a process of its own."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import cosine
import dense_search
import lexical
import siltstone
import siltstone.embedding
import siltstone.index
from corpus import REAL, SEED, Corpus, corpus, dialogues, questions, windows
from dense_data import kept_vectors
from measure import PORTABLE, Elsewhere, compare, times

ROUNDS = 5
QUERIES = {"windows": 200, "LoCoMo": 100}
FEW = 10_000  # entries up to which the slow peers take part
AGREEMENT = 0.95  # of the ten best, with bm25s on the same terms
WORD = re.compile(r"[^\W_]+")  # words-1, for texts of Latin letters and punctuation
BEYOND = re.compile(r"[^\x00-\u012f\u0131-\u024f\u2000-\u206f]")  # where it would not do

Made = list[Any]
Numbers = dict[str, Any]


def present(makers: list[Callable[[], Any]]) -> Made:
    """The contenders that can be made here; it prints those that cannot."""
    made = []
    for make in makers:
        try:
            made.append(make())
        except ImportError as error:
            print(f"absent: {error}", file=sys.stderr)
    return made


def asked_of(source: Corpus) -> dict[str, list[str]]:
    """The queries over the texts, by group."""
    return {"windows": windows(source, QUERIES["windows"]), "LoCoMo": questions(QUERIES["LoCoMo"])}


def text_search(size: int, place: Path) -> Numbers:
    """Cosine over texts, beside graphs over 4,096 floats up to 10,000 and beside column slices."""
    source = corpus(size, place)
    return by_cosine(source.texts, asked_of(source))


def words(size: int, place: Path) -> Numbers:
    """BM25 over texts."""
    source = corpus(size, place)
    return by_words(source.texts, asked_of(source))


def conversations(size: int, _place: Path) -> Numbers:
    """Both over what was said, turn by turn, asked what people asked about it."""
    turns, asked = dialogues()[:size], {"LoCoMo": questions(sum(QUERIES.values()))}
    if not turns:
        return {}
    return {"cosine": by_cosine(turns, asked), "words": by_words(turns, asked)}


def by_cosine(texts: list[str], queries: dict[str, list[str]]) -> Numbers:
    """The contenders over *texts* by cosine, in the form that the page takes."""
    size = len(texts)
    every = [query for group in queries.values() for query in group]
    makers: list[Callable[[], Any]] = [
        cosine.Exact,
        lambda: Elsewhere(PORTABLE, "cosine", "Exact"),
        cosine.Columns,
    ]
    if size <= FEW:
        makers += [
            cosine.SparseGraph,
            lambda: Elsewhere(PORTABLE, "cosine", "SparseGraph"),
            lambda: cosine.Hnswlib(size),
            lambda: cosine.Usearch("i8"),
            cosine.Faiss,
            cosine.Product,
        ]
    oracle = cosine.Oracle(texts, every)
    contenders = present(makers)
    figures = compare(contenders, texts, queries, oracle.recall, ROUNDS)
    oracle.check(contenders[0].index, every)
    return {
        str(size): [asdict(each) for each in figures],
        f"{size} ours at ef": dense_search.at_each_ef(contenders, oracle.recall, every),
    }


def by_words(texts: list[str], queries: dict[str, list[str]]) -> Numbers:
    """The contenders over *texts* by BM25, in the form that the page takes."""
    every = [query for group in queries.values() for query in group]
    makers: list[Callable[[], Any]] = [
        lexical.Bm25,
        lambda: Elsewhere(PORTABLE, "lexical", "Bm25"),
        lexical.Tantivy,
        lexical.Bm25s,
        lexical.Fts5,
    ]
    if len(texts) <= FEW:
        makers.append(lexical.RankBm25)
    judge = lexical.Agreement(texts, every)
    figures = compare(present(makers), texts, queries, judge.recall, ROUNDS)
    if figures[0].recall < AGREEMENT:
        raise SystemExit(f"Bm25Index agrees with bm25s on {figures[0].recall:.3f} of the answers only")
    return {str(len(texts)): [asdict(each) for each in figures]}


def vectors(size: int, place: Path) -> Numbers:
    """Dense rows of 384, beside hnswlib and usearch."""
    rows, queries = kept_vectors(REAL, place)
    return {str(size): dense_search.compared(rows[:size], queries[:200], ROUNDS)}


def growth(size: int, place: Path) -> Numbers:
    """The cost of a query as an index grows, and the memory of the index."""
    found: Numbers = {}
    source = corpus(size, place)
    queries = asked_of(source)["windows"]
    for contender in (cosine.Exact(), lexical.Bm25()):
        for first in range(0, size, 10_000):
            contender.add(source.texts[first : first + 10_000])
        passes = [times(contender, queries) for _ in range(ROUNDS)]
        least = [min(each) / 1e3 for each in zip(*passes, strict=True)]
        numbers = {"query": statistics.median(least), "bytes": contender.size() / size}
        found[contender.name] = {str(size): numbers}
    return found


def embedding(size: int, place: Path) -> Numbers:
    """``embed_sparse`` beside a Python loop over xxhash, on texts of about 600 bytes."""
    from xxhash import xxh3_64_intdigest

    texts = [
        text for text in corpus(size, place).texts if 500 <= len(text) <= 700 and not BEYOND.search(text)
    ]

    def loop(text: str) -> dict[int, int]:
        counts: dict[int, int] = {}
        for word in WORD.findall(text.lower()):
            bucket = xxh3_64_intdigest(word.encode()) % cosine.DIMENSION
            counts[bucket] = counts.get(bucket, 0) + 1
        return counts

    texts = texts[:2_000]
    indptr, indices, _ = siltstone.embedding.embed_sparse(texts)
    for place_of, text in enumerate(texts):
        if indices[indptr[place_of] : indptr[place_of + 1]].tolist() != sorted(loop(text)):
            raise SystemExit(f"the loop has other buckets for {text!r}")
    ours, theirs = [], []
    for _ in range(3 * ROUNDS):
        ours.append(_cpu(lambda: siltstone.embedding.embed_sparse(texts)))
        theirs.append(_cpu(lambda: [loop(text) for text in texts]))
    taken = sum(len(text.encode()) for text in texts)
    return {
        "texts": len(texts),
        "bytes": taken / len(texts),
        "embed_sparse": min(ours) / len(texts) * 1e6,
        "python": min(theirs) / len(texts) * 1e6,
        "MB/s": taken / min(ours) / 1e6,
    }


def _cpu(action: Callable[[], object]) -> float:
    start = time.thread_time()
    action()
    return time.thread_time() - start


def crossover(_size: int, place: Path) -> Numbers:
    """A scan of bytes beside the graph over the same rows, from few rows to many and for four dimensions."""
    rows, queries = kept_vectors(REAL, place)
    rows, queries = rows[:16_000], queries[:100]
    turned = np.linalg.qr(np.random.default_rng(SEED).standard_normal((1024, rows.shape[1])))[0].T
    found: Numbers = {}
    for dim in (64, 128, 384, 1024):
        index = siltstone.HnswIndex(dim, siltstone.index.HnswParams(m=16, ef_construction=200), "i8")
        # The first numbers of an LSA weigh most; more of them than there are: the same rows, turned.
        mine, narrow = (
            (each[:, :dim] if dim <= each.shape[1] else each @ turned).astype(np.float32, order="C")
            for each in (rows, queries)
        )
        for size in (2_000, 4_000, 6_000, 8_000, 12_000, 16_000):
            if size > len(mine):
                break
            index.add(mine[len(index) : size])
            ways = {
                "scan": lambda q, i=index: i.search(q, 10, plan="scan"),
                "graph ef 100": lambda q, i=index: i.search(q, 10, 100, plan="graph"),
                "graph ef 200": lambda q, i=index: i.search(q, 10, 200, plan="graph"),
            }
            least: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for way, ask in ways.items():
                    spent = [_cpu(lambda q=query, ask=ask: ask(q)) * 1e6 for query in narrow]
                    least[way] = list(map(min, least.get(way, spent), spent))
            found[f"{size} x {dim}"] = {way: statistics.median(each) for way, each in least.items()}
    return found


PARTS: dict[str, Callable[[int, Path], Numbers]] = {
    "embedding": embedding,
    "text_search": text_search,
    "words": words,
    "conversations": conversations,
    "vectors": vectors,
    "crossover": crossover,
    "growth": growth,
}
