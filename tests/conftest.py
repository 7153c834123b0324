"""Settings for all tests: the profiles of Hypothesis, the event loop, the servers, the folder of data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from servers import QUICK, PgBouncer, Postgres, oldest, running
from siltstone import llm

if TYPE_CHECKING:
    from postgres_stores import PostgresPool

CHECKOUT = Path(__file__).parent.parent

# Processes that a test starts find the helpers of the tests as well.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(CHECKOUT / "tests"), os.environ.get("PYTHONPATH")])
)

# Stores that are given an address wait ten seconds for a connection, and a busy machine may need longer.
os.environ.setdefault("PGCONNECT_TIMEOUT", "300")

# Time never decides a test: machines differ, and a shared one differs from minute to minute.
# How fast a machine draws examples decides nothing, so neither do deadlines nor the check for slowness.
settings.register_profile("dev", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("slow", settings.get_profile("dev"), max_examples=10_000, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev")
settings.load_profile(PROFILE)
# How many sequences of calls a state machine tries, which checks the laws of sessions or of stores.
SEQUENCES = {"ci": 150, "slow": 5_000}.get(PROFILE, 20)


def pytest_report_header() -> str:
    return f"hypothesis profile: {PROFILE}, {settings.default.max_examples} examples"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if PROFILE == "slow":
        return
    long = [item for item in items if item.get_closest_marker("slow")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio: no code of the package depends on a certain event loop."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def pauses() -> Iterator[list[float]]:
    """Records the pauses between failed calls, in seconds, so that no test waits for them."""
    waited: list[float] = []

    async def sleep_async(seconds: float) -> None:
        waited.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llm, "sleep", waited.append)
        patch.setattr(llm, "sleep_async", sleep_async)
        yield waited


# Servers are started when a test first asks for them, one of a kind for each process of tests, and durability
# is not their subject. A test that kills one makes its own: tests/servers.


@pytest.fixture(scope="session")
def newest_postgres() -> Iterator[Postgres]:
    """PostgreSQL 18. ``with newest_postgres.database() as name`` gives a database of the test's own."""
    with running(**QUICK) as server:
        yield server


@pytest.fixture(scope="session")
def oldest_postgres() -> Iterator[Postgres]:
    """PostgreSQL 15, the oldest supported version, if the system has it."""
    with running(oldest(), **QUICK) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(oldest_postgres: Postgres) -> Iterator[PgBouncer]:
    """pgbouncer in transaction mode, in front of the oldest PostgreSQL."""
    with PgBouncer(oldest_postgres) as bouncer:
        yield bouncer


@pytest.fixture(scope="session")
def newest_pool(newest_postgres: Postgres) -> Iterator[PostgresPool]:
    """Connections to PostgreSQL 18, and the tables of a store there. ``empty`` them first."""
    from postgres_stores import pooled  # the environments of adapters have no client of PostgreSQL

    with newest_postgres.database() as name, pooled(newest_postgres.address(database=name), name) as pool:
        yield pool


@pytest.fixture
def pool(newest_pool: PostgresPool) -> PostgresPool:
    """The empty tables of a store in PostgreSQL 18."""
    newest_pool.empty()
    return newest_pool


@pytest.fixture
def dsn(newest_postgres: Postgres) -> Iterator[str]:
    """The address of a database of a test's own, with the tables of a store."""
    from postgres_working import opened  # as above

    with newest_postgres.database() as database:
        address = newest_postgres.address(database=database)
        opened(address, setup=True).close()
        yield address


@pytest.fixture(scope="session")
def pooled_pool(oldest_postgres: Postgres, pgbouncer: PgBouncer) -> Iterator[PostgresPool]:
    """The same for PostgreSQL 15 through pgbouncer, where each statement may use another connection."""
    from postgres_stores import pooled  # as above

    with oldest_postgres.database() as name, pooled(pgbouncer.address(database=name), name) as pool:
        yield pool


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder ``SILTSTONE_DATA`` with recorded transcripts, which are not part of the project."""
    place = Path(os.environ.get("SILTSTONE_DATA", CHECKOUT.parent / "shared" / "data"))
    if not place.is_dir():
        pytest.skip(f"no evaluation data at {str(place)!r}; set SILTSTONE_DATA")
    return place
