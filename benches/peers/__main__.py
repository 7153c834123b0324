"""How fast is each index, and how much does it find, beside those of others? Prints and records it.

    make bench-peers
    python benches/peers [--only words] [--size 1000]

Each part runs in a process of its own, on one thread. Packages other than NumPy are optional: what is
absent is said and left out. Texts and vectors stay in ``target/peers``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from common import commit, draw, least, machine, release_only, timed, versions

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SIZES = {
    "cosine": (1_000, 10_000),
    "words": (10_000, 100_000),
    "dense": (10_000, 100_000),
    "crossover": (2_000, 4_000, 6_000, 8_000, 12_000, 16_000),
    "growth": (1_000, 10_000, 100_000, 1_000_000),
}
EFS = (30, 50, 75, 100, 150, 200, 300, 400)
AGREEMENT = 0.95  # of the ten best, with bm25s on the same terms
SAME_RECALL = 0.0005  # what two recalls may differ by and be called equal
WORK = Path("target", "peers")
PACKAGES = ("numpy", "hnswlib", "usearch", "bm25s", "tantivy")
ABOUT = """\
One thread; contenders take turns, piece by piece when filled and pass by pass when asked.
A query counts by its quickest of five passes, by the clock, or by CPU time where it takes more than 100 us;
then the median over queries. Inserts are CPU time. All are called from Python.
Ours gets the text of a query, and embeds or analyses it; peers get the vector, the terms or the parsed
query ready-made. Making vectors and terms of the texts is in the inserts of peers.
Recall of BM25 is agreement with bm25s, ties counted; that of the others is of the nearest by brute force.
With `SILTSTONE_SIMD=portable` the same command measures the portable path.

Texts: pieces of 200 to 1,500 characters of the Python sources, documentation and man pages of the machine,
each paragraph once, in a seeded order; 1,000,000 are put together from their paragraphs. Queries: 200 windows
of 5 to 15 words, half of texts that are in no index, and 100 questions of LoCoMo (Maharana et al., ACL 2024,
CC BY-NC 4.0). Dense rows: a seeded 384-d LSA of the same texts."""

Figures = list[dict[str, Any]]


def cosine(size: int) -> Iterator[str]:
    """``HashedTfIndex`` over texts, beside a graph over their 4,096 floats."""
    import vectors
    from corpus import asked_of, corpus
    from measure import compare, present

    source = corpus(size, WORK)
    queries = asked_of(source)
    rows, wanted = (vectors.embed_batch(each) for each in (source.texts, queries))
    contenders = present(vectors.Exact, lambda: vectors.HnswlibOverTexts(size, vectors.WIDE))
    figures = compare(contenders, source.texts, queries, vectors.Nearest(rows, wanted).recall)
    if figures[0]["recall"] < 1:
        raise SystemExit("HashedTfIndex does not find the nearest")
    yield from table(f"Cosine over texts, {size:,}", figures)


def words(size: int) -> Iterator[str]:
    """BM25 over texts."""
    import lexical
    from corpus import asked_of, corpus
    from measure import compare, present

    source = corpus(size, WORK)
    queries = asked_of(source)
    judge = lexical.Agreement(source.texts, queries)
    contenders = present(lexical.Bm25, lexical.Tantivy, lexical.Bm25s, lexical.Fts5)
    figures = compare(contenders, source.texts, queries, judge.recall)
    if figures[0]["recall"] < AGREEMENT:
        raise SystemExit(f"Bm25Index agrees with bm25s on {figures[0]['recall']:.3f} of the answers only")
    yield from table(f"BM25 over texts, {size:,}", figures)


def dense(size: int) -> Iterator[str]:
    """Dense rows of 384, beside hnswlib and usearch; and which ``ef`` gives the recall of a peer."""
    import vectors
    from measure import compare, present, quickest

    rows, queries = vectors.dense(max(SIZES["dense"]), WORK)
    rows, queries = rows[:size], queries[:200]
    contenders = present(vectors.Graph, lambda: vectors.Hnswlib(size), vectors.Usearch)
    judge = vectors.Nearest(rows, queries)
    figures = compare(contenders, rows, queries, judge.recall)
    yield from table(f"Dense rows of 384 at ef {vectors.EF}, {size:,}", figures)
    ours, at_ef = contenders[0], list[tuple[float, float]]()
    for ours.ef in EFS:
        spent = statistics.median(quickest([ours], {ours.name: list(queries)})[ours.name])
        found = statistics.fmean(judge.recall(at, ours.ask(query)) for at, query in enumerate(queries))
        at_ef.append((spent, found))
    pairs = zip(EFS, at_ef, strict=True)
    yield "\nOurs: " + "; ".join(f"ef {ef}: {us:.1f} us, {found:.4f}" for ef, (us, found) in pairs)
    for peer in figures[1:]:
        enough = [spent for spent, found in at_ef if found >= peer["recall"] - SAME_RECALL]
        if enough:
            yield f"\nAt the recall of {peer['name']}: {peer['query'] / min(enough):.2f} times as quick."


def table(title: str, figures: Figures) -> Iterator[str]:
    """The figures of contenders; ratios are to the first one, which is ours."""
    yield f"\n## {title}\n"
    yield "| | insert us | query us | p99 us | recall@10 | bytes an entry | insert, times | query, times |"
    yield "| :--- |" + " ---: |" * 7
    for each in figures:
        times = (each["insert"] / figures[0]["insert"], each["query"] / figures[0]["query"])
        size = f"{each['bytes']:,.0f}" if each["bytes"] else ""
        cells = [f"{each[name]:,.2f}" for name in ("insert", "query", "p99")] + [
            f"{each['recall']:.4f}",
            size,
        ]
        yield f"| {each['name']} | {' | '.join(cells)} | {times[0]:,.2f} | {times[1]:,.2f} |"


def crossover(size: int) -> Iterator[str]:
    """A scan of bytes beside the graph over the same rows, for four dimensions."""
    import numpy as np

    import vectors
    from corpus import SEED

    rows, queries = vectors.dense(max(SIZES["dense"]), WORK)
    turned = np.linalg.qr(np.random.default_rng(SEED).standard_normal((1024, rows.shape[1])))[0].T
    if size == SIZES["crossover"][0]:
        yield "\n## Scan or graph, microseconds of CPU a query\n"
        yield "| rows x dimension | scan | graph, ef 100 | graph, ef 200 |\n| :--- | ---: | ---: | ---: |"
    for dim in (64, 128, 384, 1024):
        # The first numbers of an LSA weigh most; more of them than there are: the same rows, turned.
        mine, asked = (
            (each[:, :dim] if dim <= each.shape[1] else each @ turned).astype(np.float32, order="C")
            for each in (rows[:size], queries[:100])
        )
        graph = vectors.Graph(dim)
        graph.add(mine)
        cells = []
        for options in ({"plan": "scan"}, {"ef": 100, "plan": "graph"}, {"ef": 200, "plan": "graph"}):
            calls = [partial(graph.index.search, query, 10, **options) for query in asked]
            spent = least([[timed(call, time.thread_time) for call in calls] for _ in range(5)])
            cells.append(f"{statistics.median(spent) * 1e3:.0f}")
        yield f"| {size:,} x {dim} | {' | '.join(cells)} |"


def growth(size: int) -> Iterator[str]:
    """The cost of a query as an index grows, and the memory of the index: a line of JSON."""
    import lexical
    import vectors
    from corpus import asked_of, corpus
    from measure import ROUNDS, times

    source = corpus(size, WORK)
    queries = asked_of(source)[:200]
    for contender in (vectors.Exact(), lexical.Bm25()):
        for first in range(0, size, 10_000):
            contender.add(source.texts[first : first + 10_000])
        spent = statistics.median(least([times(contender, queries) for _ in range(ROUNDS)])) / 1e3
        yield json.dumps([contender.name, size, spent, contender.size() / size])


PARTS: dict[str, Callable[[int], Iterator[str]]] = {
    "cosine": cosine,
    "words": words,
    "dense": dense,
    "crossover": crossover,
    "growth": growth,
}


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser(prog="peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="no more entries than that")
    parser.add_argument("--only", default=",".join(SIZES), help="parts, with commas between")
    parser.add_argument("--record", type=Path, metavar="DIR", help="write DIR/DATE-peers.md as well")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw growth into that SVG")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    release_only()
    if asked.part:
        for line in PARTS[asked.part[0]](int(asked.part[1])):
            print(line, flush=True)
        return
    WORK.mkdir(parents=True, exist_ok=True)
    now = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [
        f"# Beside others, {now}\n",
        f"`python {' '.join(sys.argv)}` on commit {commit()}.",
        f"{machine()}.",
    ]
    lines += [f"{versions(*PACKAGES)}.\n", ABOUT]
    grown: dict[str, dict[int, float]] = {}
    for part in asked.only.split(","):
        for size in sorted({min(size, asked.size) for size in SIZES[part]}):
            print(f"== {part}, {size:,}", file=sys.stderr, flush=True)
            command = [sys.executable, str(Path(__file__).parent), "--part", part, str(size)]
            environment = os.environ | dict.fromkeys(THREADS, "1")
            told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            if part != "growth":
                lines += told.stdout.splitlines()
                continue
            for name, entries, spent, size_each in map(json.loads, told.stdout.splitlines()):
                grown.setdefault(name, {})[entries] = spent
                lines.append(
                    f"\n{name}, {entries:,}: {spent:.1f} us a query, {size_each:.0f} bytes an entry."
                )
    written = "\n".join([*lines, ""])
    print(written)
    if asked.plot and grown:
        draw({"entries": grown}, "microseconds of a query", asked.plot)
    if asked.record:
        (asked.record / f"{now}-peers.md").write_text(written, "utf-8")


if __name__ == "__main__":
    main()
