"""The targets of the engine beside its peers: the least, the aim, and the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PORTABLE = ", portable"
EXACT, SPARSE, DENSE, BM25 = (
    "siltstone HashedTfIndex",
    "siltstone HnswIndex sparse",
    "siltstone HnswIndex i8",
    "siltstone Bm25Index",
)
SAME_RECALL = 0.0005 + 1e-9  # what two recalls may differ by and be called equal, and what rounding adds

Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the table. All but *most* are the more the better."""

    what: str
    least: float
    aim: float
    best: float
    portable: float | None = None
    unit: str = "x"
    most: bool = False

    def row(self) -> str:
        """As a row of a Markdown table."""
        portable = "" if self.portable is None else self._said(self.portable)
        cells = (self._said(self.least), self._said(self.aim), self._said(self.best), portable, self._met())
        return f"| {self.what} | {' | '.join(cells)} |"

    def _said(self, value: float) -> str:
        return f"{value:.3g}{self.unit}" if value < 100 else f"{value:,.0f}{self.unit}"

    def _met(self) -> str:
        slowest = [self.best] if self.portable is None else [self.best, self.portable]
        if self.most:
            worst = max(slowest)
            return "aim" if worst <= self.aim else "yes" if worst <= self.least else "no"
        worst = min(slowest)
        return "aim" if worst >= self.aim else "yes" if worst >= self.least else "no"


def targets(numbers: Numbers) -> list[Target]:
    """The targets that *numbers*, by part, tell of."""
    found: list[Target] = []
    texts = numbers.get("text_search", {}).get("numbers", {})
    words = numbers.get("words", {}).get("numbers", {})
    rows = numbers.get("vectors", {}).get("numbers", {})
    for size, query, quicker in (("1000", (150, 300), (60, 130)), ("10000", (200, 500), (60, 160))):
        found += queries(texts.get(size, []), said(size), query, quicker)
    for size, figures in numbers.get("conversations", {}).get("numbers", {}).get("cosine", {}).items():
        if size.isdigit():
            found += queries(figures, f"{said(size)} turns", (150, 300), (60, 130))
            found += inserts(figures, f"{said(size)} turns", (500, 1000))
    for size, insert in (("1000", (500, 1000)), ("10000", (2000, 5000))):
        found += inserts(texts.get(size, []), said(size), insert)
    for size in ("10000", "100000"):
        by_name = named(texts.get(size, []))
        if EXACT in by_name:
            times = 16_384 / by_name[EXACT]["bytes"]
            found.append(Target(f"bytes an entry, dense float32, {said(size)}", 100, 160, times))
    columns = named(texts.get("100000", []))
    found += ratios(
        columns, EXACT, "scipy CSC columns", "query", "exact query, scipy CSC columns, 100,000", (10, 25)
    )
    if "embedding" in numbers:
        embedded = numbers["embedding"]["numbers"]
        times = embedded["python"] / embedded["embed_sparse"]
        found.append(Target("embed_sparse, Python + xxhash, 600 bytes", 25, 60, times))
    for size in ("10000", "100000"):
        if size in rows:
            found += graphs(named(rows[size]["at ef 200"]), rows[size]["ours at ef"], DENSE, size)
    if f"{10_000} ours at ef" in texts:
        found += sparse_graphs(named(texts["10000"]), texts["10000 ours at ef"])
    for size, peer, bars in (
        ("10000", "tantivy", (4, 8)),
        ("100000", "tantivy", (4, 12)),
        ("100000", "bm25s", (6, 20)),
        ("10000", "SQLite FTS5", (300, 1000)),
        ("100000", "SQLite FTS5", (300, 1000)),
    ):
        found += ratios(
            named(words.get(size, [])), BM25, peer, "query", f"BM25 query, {peer}, {said(size)}", bars
        )
    found += paths(texts, words, rows)
    return found


def queries(
    figures: list[Numbers], of: str, bars: tuple[float, float], quicker: tuple[float, float]
) -> list[Target]:
    """The targets of a query by cosine; *quicker* are the bars beside the quicker peer."""
    by_name = named(figures)
    found = ratios(by_name, EXACT, "hnswlib f32", "query", f"exact query, hnswlib f32, {of}", bars)
    return found + ratios(by_name, EXACT, "usearch i8", "query", f"exact query, usearch i8, {of}", quicker)


def inserts(figures: list[Numbers], of: str, bars: tuple[float, float]) -> list[Target]:
    """The target of adding texts, which are embedded for either."""
    what = f"insert with embedding, hnswlib f32, {of}"
    return ratios(named(figures), EXACT, "hnswlib f32", "insert", what, bars)


def named(figures: list[Numbers]) -> dict[str, Numbers]:
    """By the name of the contender."""
    return {each["name"]: each for each in figures}


def said(size: str) -> str:
    return f"{int(size):,}"


def ratios(
    by_name: dict[str, Numbers], ours: str, peer: str, measure: str, what: str, bars: tuple[float, float]
) -> list[Target]:
    """How many times as quick ours is, on both paths; nothing where the peer was absent."""
    if ours not in by_name or peer not in by_name:
        return []
    theirs = by_name[peer][measure]
    portable = by_name.get(ours + PORTABLE)
    forced = theirs / portable[measure] if portable else None
    return [Target(what, *bars, theirs / by_name[ours][measure], forced)]


def at_recall(ours: Numbers, by_ef: dict[str, list[float]], recall: float) -> float:
    """Microseconds of our query at the least ``ef`` that finds as much; infinite where none does.

    The figures of ``ef`` 200 are *ours*, which were taken in turn with the peers'.
    """
    in_turn = {"200": [ours["query"], ours["recall"]]}
    enough = [spent for spent, found in (by_ef | in_turn).values() if found >= recall - SAME_RECALL]
    return min(enough, default=float("inf"))


def graphs(by_name: dict[str, Numbers], by_ef: Numbers, ours: str, size: str) -> list[Target]:
    """The dense graph beside hnswlib at equal recall, and beside usearch."""
    found = []
    for peer, query, insert in (("hnswlib f32", (2, 3.3), (2, 3)), ("usearch i8", (1.5, 2), (1.3, 1.8))):
        if peer not in by_name:
            continue
        theirs = by_name[peer]
        recall = theirs["recall"]
        quick = [
            theirs["query"] / at_recall(by_name[name], by_ef[name], recall)
            for name in (ours, ours + PORTABLE)
        ]
        what = f"HNSW 384-d query at recall {recall:.3f}, {peer}, {said(size)}"
        if 0 not in quick:
            found.append(Target(what, *query, *quick))
        found += ratios(by_name, ours, peer, "insert", f"HNSW 384-d insert, {peer}, {said(size)}", insert)
        if peer == "usearch i8":
            at_200 = ratios(
                by_name, ours, peer, "query", f"HNSW 384-d query at ef 200, {peer}, {said(size)}", query
            )
            points = 100 * (by_name[ours]["recall"] - recall)
            what = f"recall@10 at ef 200 above {peer}, {said(size)}"
            found += [*at_200, Target(what, 5, 5, points, unit=" points")]
    return found


def sparse_graphs(by_name: dict[str, Numbers], by_ef: Numbers) -> list[Target]:
    """The sparse graph beside hnswlib at equal recall."""
    if "hnswlib f32" not in by_name:
        return []
    theirs = by_name["hnswlib f32"]
    quick = [
        theirs["query"] / at_recall(by_name[name], by_ef[name], theirs["recall"])
        for name in (SPARSE, SPARSE + PORTABLE)
    ]
    what = f"sparse HNSW query at recall {theirs['recall']:.3f}, hnswlib f32, 10,000"
    insert = ratios(
        by_name, SPARSE, "hnswlib f32", "insert", "sparse HNSW insert, hnswlib f32, 10,000", (8, 20)
    )
    return [Target(what, 10, 30, *quick), *insert] if 0 not in quick else insert


def paths(texts: Numbers, words: Numbers, rows: Numbers) -> list[Target]:
    """The portable path beside the best one."""
    found = []
    for ours, size, figures in (
        (EXACT, "10000", texts.get("10000", [])),
        (EXACT, "100000", texts.get("100000", [])),
        (SPARSE, "10000", texts.get("10000", [])),
        (BM25, "100000", words.get("100000", [])),
        (DENSE, "10000", rows.get("10000", {}).get("at ef 200", [])),
        (DENSE, "100000", rows.get("100000", {}).get("at ef 200", [])),
    ):
        by_name = named(figures)
        if ours in by_name and ours + PORTABLE in by_name:
            slower = by_name[ours + PORTABLE]["query"] / by_name[ours]["query"]
            what = f"portable path of {ours.removeprefix('siltstone ')}, {said(size)}"
            found.append(Target(what, 2, 1.5, slower, unit="x slower", most=True))
    return found
