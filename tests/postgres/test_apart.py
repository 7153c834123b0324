"""Threads that run the calls of a store: an interrupt leaves a call behind, and the next one waits for it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from siltstone.errors import StoreClosedError
from siltstone.postgres import protocol
from siltstone.postgres.protocol import Apart, NotInTimeError

LONG = 60.0


@pytest.fixture
def threads() -> Iterator[Apart]:
    threads = Apart()
    yield threads
    threads.close(LONG, pytest.fail)


def interrupted(threads: Apart, work: Any) -> None:
    """Makes a call that an interrupt leaves behind once *work* runs."""
    runs, main = threading.Event(), threading.main_thread().ident or 0

    def interrupt() -> None:
        runs.wait()
        signal.pthread_kill(main, signal.SIGINT)

    def told() -> Any:
        runs.set()
        return work()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(told, LONG)
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)


def test_answers_and_errors_come_back_and_the_main_thread_has_one_thread(threads: Apart) -> None:
    places = [threads.run(threading.get_ident, LONG) for _ in range(3)]
    assert len(set(places)) == 1
    assert places[0] != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda: 1 // 0, LONG)
    assert threads.run(threading.get_ident, LONG) == places[0]


def test_other_threads_share_the_idle_ones_and_none_waits_for_another(threads: Apart) -> None:
    meeting, places = threading.Barrier(4), []

    def call() -> None:
        threads.run(meeting.wait, LONG)  # all four must run at once
        places.append(threads.run(threading.get_ident, LONG))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(places) == 4
    before = threading.active_count()
    for _ in range(4):
        caller = threading.Thread(target=lambda: places.append(threads.run(threading.get_ident, LONG)))
        caller.start()
        caller.join()
    assert threading.active_count() == before
    assert len(set(places)) <= 4


def test_a_call_that_an_interrupt_leaves_behind_ends_before_the_next_begins(threads: Apart) -> None:
    free, done = threading.Event(), []
    interrupted(threads, lambda: (free.wait(), done.append("left behind")))
    assert done == []
    threading.Timer(0.05, free.set).start()
    threads.run(lambda: done.append("next"), LONG)
    assert done == ["left behind", "next"]


def test_a_call_that_was_not_begun_in_time_is_never_made(
    threads: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    free, done = threading.Event(), []
    interrupted(threads, free.wait)
    with pytest.raises(NotInTimeError) as caught:
        threads.run(lambda: done.append("never"), 0.0)
    assert caught.value.thread is None
    free.set()
    threads.run(lambda: done.append("later"), LONG)
    assert done == ["later"]


def test_a_call_that_does_not_end_in_time_names_its_thread(
    threads: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    where = threads.run(threading.get_ident, LONG)
    free = threading.Event()
    with pytest.raises(NotInTimeError) as caught:
        threads.run(free.wait, 0.0)
    assert caught.value.thread == where
    free.set()


def test_closing_waits_for_what_was_left_behind_and_then_hangs_up() -> None:
    threads, free = Apart(), threading.Event()
    interrupted(threads, free.wait)
    began = time.monotonic()
    threads.close(0.05, free.set)  # it ends by nothing else
    assert time.monotonic() - began < LONG
    with pytest.raises(StoreClosedError):
        threads.run(threading.get_ident, LONG)
    threads.close(LONG, pytest.fail)  # once more does no harm
