"""Drives the job of an async session in a task of its event loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from siltstone import llm
from siltstone.errors import ModelError
from siltstone.hooks import HookError
from siltstone.llm import AsyncModels
from siltstone.session.background import Background, Job

if TYPE_CHECKING:
    import asyncio


__all__ = ["BackgroundTask"]


class BackgroundTask:
    """Starts a task if a job waits for a driver. Its steps run in worker threads, and never block it."""

    def __init__(self, background: Background, model: AsyncModels | None) -> None:
        self._background, self._model = background, model
        self._driven: tuple[Job, asyncio.Task[None]] | None = None

    def start(self) -> None:
        """Starts a task for the job, if it has no driver. Returns at once."""
        job = self._background.job
        if (
            job is None
            or job.is_done
            or (self._driven and self._driven[0] is job and not self._driven[1].done())
        ):
            return
        import asyncio

        self._driven = job, asyncio.create_task(self._drive(job), name="siltstone-compaction")

    async def wait(self, timeout: float | None) -> bool:
        """Waits up to *timeout* seconds until the job asks no model any more. Returns whether it does not.

        If no task drives the job, nobody asks for it, and the answer comes at once.
        """
        if self._driven is not None and not self._driven[1].done():
            import asyncio

            await asyncio.wait([self._driven[1]], timeout=timeout)
        return not self._background.is_running

    def end(self) -> None:
        """Ends the task."""
        if self._driven is not None:
            self._driven[1].cancel()

    async def _drive(self, job: Job) -> None:
        from siltstone.session.threads import in_thread

        try:
            while (asked := await in_thread(lambda: llm.rendered(job.asked()))) is not None:
                try:
                    said = await llm.answer_async(self._model, asked)
                except (ModelError, HookError) as error:
                    await in_thread(partial(job.refuse, error))
                else:
                    await in_thread(partial(job.answer, said))
        except BaseException as error:
            job.refuse(error)
            job.cancel()
            raise
