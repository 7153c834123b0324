"""The stores that the tests of sessions share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postgres_stores import over_postgres
from siltstone import MemoryStore, SimpleMemoryStore
from siltstone.memory import Store


@pytest.fixture(params=["simple", "durable", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kinds: dict[str, Callable[[], Store]] = {
        "simple": SimpleMemoryStore,
        "durable": lambda: MemoryStore.open(tmp_path),
        "postgres": lambda: over_postgres(request),
    }
    with kinds[request.param]() as opened:
        yield opened
