"""Measures the time that siltstone adds to a turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stopwatch"]


class Stopwatch:
    """Adds up the time of blocks until the turn ends. Each turn gives one sample, in microseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._current = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time of the block to the current turn."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._current += time.perf_counter() - start

    def lap(self) -> None:
        """Ends the turn."""
        self.samples.append(self._current * 1e6)
        self._current = 0.0
