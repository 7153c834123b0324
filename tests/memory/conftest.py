"""All kinds of stores, for the tests of their common contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postgres_stores import PostgresPool
from siltstone.memory import Decay, Store
from siltstone.postgres import PostgresStore
from siltstone.stores import HnswMemoryStore, MemoryStore, SimpleMemoryStore

MEMBERS: dict[str, Callable[[Path], Store]] = {
    "lexical": MemoryStore.open,
    "cosine": lambda path: MemoryStore.open(path, "cosine"),
    "poly31": lambda path: MemoryStore.open(path, "cosine", hash_rule="poly31"),
    "hnsw": HnswMemoryStore.open,
    "hybrid": lambda path: MemoryStore.open(path, "hybrid", decay=Decay(per_day=1.0)),
    "simple": lambda path: SimpleMemoryStore(),
}

# PostgreSQL: the newest one directly, and the oldest through a pool of its own.
POSTGRES = {"postgres": "newest_pool", "pgbouncer": "pooled_pool"}


@pytest.fixture(params=[*MEMBERS, *POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param in MEMBERS:
        with MEMBERS[request.param](tmp_path) as store:
            yield store
        return
    pool: PostgresPool = request.getfixturevalue(POSTGRES[request.param])
    pool.empty()
    with PostgresStore.open(pool.pool) as store:
        yield store
