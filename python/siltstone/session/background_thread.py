"""Drives the job of a session in a thread of its own."""

from __future__ import annotations

import logging
from contextvars import copy_context
from functools import partial
from threading import Thread

from siltstone.errors import ModelError
from siltstone.hooks import HookError
from siltstone.llm import Models
from siltstone.session.background import Background, Job

__all__ = ["BackgroundThread", "drive"]

_log = logging.getLogger("siltstone")


class BackgroundThread:
    """Starts a daemon thread if a job waits for a driver. The end of the process does not wait for it."""

    def __init__(self, background: Background, model: Models | None) -> None:
        self._background, self._model = background, model
        self._driven: tuple[Job, Thread] | None = None

    def start(self) -> None:
        """Starts a thread for the job, if it has no driver. Returns at once."""
        job = self._background.job
        if (
            job is None
            or job.is_done
            or (self._driven and self._driven[0] is job and self._driven[1].is_alive())
        ):
            return
        work = partial(copy_context().run, drive, job, self._model)
        from threading import Thread  # most sessions start none

        thread = Thread(target=work, name="siltstone-compaction", daemon=True)
        self._driven = job, thread
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            _log.exception("no thread could be started to summarise")
            job.cancel()


def drive(job: Job, model: Models | None) -> None:
    """Asks *model* for every completion that *job* wants, until the job is done."""
    from siltstone import llm

    try:
        while (asked := job.asked()) is not None:
            try:
                said = llm.answer(model, asked)
            except (ModelError, HookError) as error:
                job.refuse(error)
            else:
                job.answer(said)
    except BaseException as error:
        job.refuse(error)
        job.cancel()
