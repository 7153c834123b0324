"""The cost of a search of the default ranker from Python, by the number of entries."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import replace

from contenders import DEFAULT, contenders
from siltstone.evaluation import Dataset

SIZES = (600, 10_000, 100_000)
QUERIES = 400
LIMIT = 10
BATCH = 10_000  # entries of one call of index()


def cost(dataset: Dataset) -> list[tuple[int, float, float]]:
    """Entries, median and 95th percentile in microseconds. Past the dataset's own turns they come again."""
    (default,) = [each for each in contenders() if each.name == DEFAULT]
    entries = [entry for each in dataset.conversations for entry in each.entries()]
    questions = [question.text for each in dataset.conversations for question in each.questions]
    spread = questions[:: max(len(questions) // QUERIES, 1)]
    queries = list(itertools.islice(itertools.cycle(spread), QUERIES))
    rows = []
    for size in SIZES:
        numbered = (
            replace(entry, source_range=(place, place + 1))
            for place, entry in enumerate(itertools.islice(itertools.cycle(entries), size))
        )
        with default.factory() as make, make() as store:
            while batch := list(itertools.islice(numbered, BATCH)):
                store.index("one", batch)
            store.search("one", queries[0], limit=LIMIT)
            samples = []
            for query in queries:
                start = time.perf_counter()
                store.search("one", query, limit=LIMIT)
                samples.append((time.perf_counter() - start) * 1e6)
        rows.append((size, statistics.median(samples), sorted(samples)[int(len(samples) * 0.95)]))
    return rows
