"""Whatever is killed, cut or lost on the way, what was acknowledged is there once, whole, and in its order.

The short form runs everywhere; the long one is ``make torture-postgres``.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from postgres_working import Writer, opened, problems, until
from servers import Moment, Postgres, Proxy, running
from siltstone.errors import StoreError

pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")

LONG = os.environ.get("SILTSTONE_TORTURE_POSTGRES") == "long"
CLIENT_KILLS = 100 if LONG else 8
SERVER_KILLS = 20 if LONG else 2
CUTS = 300 if LONG else 24
FAILOVERS = 5 if LONG else 1


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    """Writers that a test that failed, or broke them, has left."""
    yield
    Writer.kill_all()


@pytest.fixture
def chance() -> random.Random:
    return random.Random(21)


def tell(what: str, counts: Counter[str]) -> None:
    print(f"\n{what}: {dict(counts)}")


def test_writers_that_are_killed_leave_what_was_acknowledged(dsn: str, tmp_path: Path, chance: random.Random):
    files: list[Path] = []
    for number in range(CLIENT_KILLS):
        files.append(tmp_path / f"{number}.words")
        # Some go on with the session of one that was killed.
        writer = Writer(dsn, files[-1], number // 2)
        least = chance.randrange(1, 20)
        until(lambda writer=writer, least=least: writer.did() >= least)
        time.sleep(chance.uniform(0, 0.02))
        writer.kill()
    wrong, counts = problems(dsn, files)
    tell(f"{CLIENT_KILLS} writers killed", counts)
    assert wrong == []


@pytest.mark.parametrize("how", ["crash", "kill"])
def test_a_server_that_is_killed_has_what_it_acknowledged(how: str, tmp_path: Path, chance: random.Random):
    with running() as server:
        wrong, counts = killed(server, how, tmp_path, chance)
    tell(f"{SERVER_KILLS} times {how}", counts)
    assert wrong == []


def killed(server: Postgres, how: str, words: Path, chance: random.Random) -> tuple[list[str], Counter[str]]:
    port = server.port
    opened(server.dsn, setup=True).close()
    server.rows("CHECKPOINT")  # a server that does not wait for its log would lose the tables themselves
    files = [words / f"{number}.words" for number in range(3)]
    writers = [Writer(server.dsn, file, number) for number, file in enumerate(files)]
    for _ in range(SERVER_KILLS):
        before = [writer.did() for writer in writers]
        until(lambda before=before: all(_went_on(w, was) for w, was in zip(writers, before, strict=True)))
        time.sleep(chance.uniform(0, 0.05))
        getattr(server, how)()
        server.start()
        assert server.port == port
    for writer in writers:
        if writer.process.is_alive():
            writer.stop()
    return problems(server.dsn, files)


def _went_on(writer: Writer, was: int) -> bool:
    """Whether it has written more, or has told why it cannot."""
    return writer.did() > was + 5 or not writer.process.is_alive()


def cut(proxied: str, proxy: Proxy, words: Path, chance: random.Random) -> None:
    """Lets a writer write through a wire that is cut, and once more while it asks what was done."""
    writer = Writer(proxied, words, 0)
    until(lambda: writer.did() > 2)
    for number in range(CUTS):
        before, kind = proxy.cuts, chance.choice([b"INSERT", b"INSERT", b"SELECT"])
        proxy.cut_next(list(Moment)[number % 3], lambda request, kind=kind: kind in request)
        until(lambda before=before: proxy.cuts > before or not writer.process.is_alive())
        if chance.random() < 0.3:
            proxy.cut_next(chance.choice(list(Moment)), lambda request: b"FOR UPDATE" in request)
            at = writer.did()
            until(lambda at=at: writer.did() > at + 1 or not writer.process.is_alive())
            proxy.disarm()
        if not writer.process.is_alive():
            return  # it has told why
    writer.stop()


def test_connections_that_are_cut_at_any_moment_lose_and_double_nothing(
    newest_postgres: Postgres, tmp_path: Path, chance: random.Random
) -> None:
    with newest_postgres.database() as database, Proxy(newest_postgres.port) as proxy:
        dsn = newest_postgres.address(database=database)
        opened(dsn, setup=True).close()
        cut(proxy.address(database=database), proxy, tmp_path / "words", chance)
        wrong, counts = problems(dsn, [tmp_path / "words"])
        tell(f"{proxy.cuts} cuts", counts)
        assert wrong == []
        assert proxy.cuts >= CUTS


def test_a_primary_that_is_lost_for_ever_loses_nothing_that_was_acknowledged(
    tmp_path: Path, chance: random.Random
) -> None:
    names = ", ".join(f"s{number}" for number in range(FAILOVERS + 1))
    with ExitStack() as stack:
        primary = stack.enter_context(running(synchronous_standby_names=f"ANY 1 ({names})"))
        standby = stack.enter_context(primary.standby("s0"))
        opened(primary.dsn, setup=True).close()
        proxy = stack.enter_context(Proxy(primary.port))
        files = [tmp_path / f"{number}.words" for number in range(2)]
        writers = [Writer(proxy.address(), file, number) for number, file in enumerate(files)]
        for number in range(FAILOVERS):
            before = [writer.did() for writer in writers]
            until(
                lambda before=before: all(w.did() > was + 5 for w, was in zip(writers, before, strict=True))
            )
            time.sleep(chance.uniform(0, 0.1))
            primary.delete()
            standby.promote()
            proxy.target = standby.port
            proxy.hang_up()
            primary = standby  # which acknowledges nothing before it has a standby of its own
            standby = stack.enter_context(primary.standby(f"s{number + 1}"))
        for writer in writers:
            writer.stop()
        wrong, counts = problems(primary.dsn, files)
        tell(f"{FAILOVERS} failovers", counts)
        assert wrong == []


def together(dsn: str, words: Path, least: int = 5) -> tuple[list[str], Counter[str]]:
    """Eight processes write to one session, and somebody has it open all the while."""
    files = [words / f"{number}.words" for number in range(8)]
    with opened(dsn) as reader:
        writers = [Writer(dsn, file, number, shared=True) for number, file in enumerate(files)]
        followed: list[str] = []
        until(
            lambda: (
                _follow(reader, followed)
                and all(w.did() >= least or not w.process.is_alive() for w in writers)
            ),
            seconds=900,
        )
        for writer in writers:
            if writer.process.is_alive():
                writer.stop()
        _follow(reader, followed)
        wrong, counts = problems(dsn, files)
        with opened(dsn) as late:
            came: list[str] = []
            _follow(late, came)
        if sorted(followed) != sorted(came):
            wrong.append(f"who followed has {len(followed)} entries, and who came late {len(came)}")
    return wrong, counts


def _follow(reader: Any, followed: list[str]) -> bool:
    try:
        followed[:] = _contents(reader)
    except StoreError as error:
        followed[:] = [repr(error)]
    return True


def _contents(store: Any) -> list[str]:
    return [entry.content for entry in store.entries("tortured", limit=100_000).entries]


def test_eight_processes_write_to_one_session_and_a_reader_follows(dsn: str, tmp_path: Path) -> None:
    wrong, counts = together(dsn, tmp_path, least=100 if LONG else 5)
    tell("eight processes", counts)
    assert wrong == []
