"""Drives the job of a session in a thread of its own."""

from __future__ import annotations

import threading
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from siltstone.errors import ModelError
from siltstone.hooks import HookError
from siltstone.logs import log as _log
from siltstone.session.background import Background, Job

if TYPE_CHECKING:
    from siltstone.llm import Models

__all__ = ["BackgroundThread", "drive"]


class BackgroundThread:
    """Starts a thread where a job waits for one: a daemon, so that no end of the process waits for it."""

    def __init__(self, background: Background, model: Models | None) -> None:
        self._background, self._model = background, model
        self._driven: tuple[Job, threading.Thread] | None = None

    def start(self) -> None:
        """Has the job driven, where nobody drives it. It waits for nothing."""
        job = self._background.job
        if (
            job is None
            or job.is_done
            or (self._driven and self._driven[0] is job and self._driven[1].is_alive())
        ):
            return
        work = partial(copy_context().run, drive, job, self._model)
        thread = threading.Thread(target=work, name="siltstone-compaction", daemon=True)
        self._driven = job, thread
        try:
            thread.start()
        except RuntimeError:  # the process has no room for one more
            _log.exception("no thread could be started to summarise")
            job.cancel()


def drive(job: Job, model: Models | None) -> None:
    """Asks *model* for all that *job* wants, until it is done."""
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
