"""The calls that an agent makes at every step, one by one, measured by pytest-benchmark.

Every measurement checks its answer first. A run can be saved, and compared with one that was saved before::

    python -m pytest -c benches/python/pytest.ini benches/python --benchmark-autosave
    python -m pytest -c benches/python/pytest.ini benches/python --benchmark-compare

The scripts beside this file compare with slow twins, with other sizes, and over whole processes.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from siltstone import ExtractiveModel, MemoryStore, Session, ThresholdCompactor, _native, compact, plan
from siltstone.engine import Compacted

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import bench_search
from common import opened, questions, said, sentences

ENTRIES = 10_000
MESSAGES = 1_000
TURNS = 250  # of the list that is compacted, two messages each


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Texts of about 600 bytes."""
    return [each["content"] for each in said(0, 1_000)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryStore]:
    """A store of 10,000 entries, read into memory; the twin has answered for a small one."""
    lines = sentences()
    with bench_search.filled(tmp_path_factory.mktemp("small"), lines, 600) as small:
        bench_search.check(small, bench_search.entries(lines, 0, 600), questions(lines)[:5])
    found = bench_search.filled(tmp_path_factory.mktemp("store"), lines, ENTRIES)
    yield found
    found.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session of 1,000 messages, of which no compaction is due."""
    with MemoryStore.open(tmp_path) as memory, opened(memory, "bench") as found:
        found.append(*said(0, MESSAGES))
        assert len(found.prepare().messages) == MESSAGES
        yield found


@pytest.fixture(scope="module")
def history() -> list[dict[str, Any]]:
    """Short turns of people."""
    roles = itertools.cycle(("user", "assistant"))
    lines = sentences()[: 2 * TURNS]
    return [{"role": role, "content": text} for role, text in zip(roles, lines, strict=False)]


def test_embed_a_thousand_texts(benchmark: BenchmarkFixture, texts: list[str]) -> None:
    """`embed_sparse`, a row for each text."""
    rows = benchmark(_native.embed_sparse, texts, "xxh3")
    assert len(rows[0]) == 8 * (len(texts) + 1)


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_search_ten_thousand_entries(benchmark: BenchmarkFixture, store: MemoryStore, ranker: Any) -> None:
    """One search for eight words; each round asks for others."""
    asked = itertools.cycle(questions(sentences()))
    hits = benchmark(lambda: store.search(bench_search.SESSION, next(asked), limit=10, ranker=ranker))
    assert len(hits) == 10


def test_append(benchmark: BenchmarkFixture, session: Session) -> None:
    """One message, durable when the call returns: the disk's time is in it."""
    numbers = itertools.count()
    benchmark.pedantic(lambda: session.append(said(next(numbers), 1)[0]), rounds=200)
    assert len(session.history()) == MESSAGES + next(numbers)


def test_prepare_after_an_append(benchmark: BenchmarkFixture, session: Session) -> None:
    """A boundary at which nothing is due; the append before it is not timed."""
    numbers = itertools.count()

    def append() -> None:
        session.append(said(next(numbers), 1)[0])

    prepared = benchmark.pedantic(session.prepare, setup=append, rounds=200)
    assert prepared.compaction is None
    assert len(prepared.messages) == MESSAGES + next(numbers)


def test_plan(benchmark: BenchmarkFixture, history: list[dict[str, Any]]) -> None:
    """The plan for 500 messages."""
    planned = benchmark(plan, history, ThresholdCompactor())
    assert planned.retained + planned.discarded == len(history)


def test_compact_with_the_extractive_model(
    benchmark: BenchmarkFixture, history: list[dict[str, Any]]
) -> None:
    """500 messages become a summary and what is retained."""
    outcome = benchmark(compact, history, ThresholdCompactor(), model=ExtractiveModel())
    assert isinstance(outcome, Compacted)
    assert len(outcome.retained) + len(outcome.discarded) == len(history)
    assert json.dumps(outcome.messages)
