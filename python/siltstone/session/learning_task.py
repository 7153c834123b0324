"""Asks a model for facts in the background of an async session: in a task of its loop, one at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from siltstone.errors import StoreError
from siltstone.knowledge import Learned
from siltstone.llm import AsyncModels
from siltstone.session.calls import SessionCalls
from siltstone.session.learning import extraction
from siltstone.session.slot import Claim

if TYPE_CHECKING:
    import asyncio


__all__ = ["LearningTask"]

_log = logging.getLogger("siltstone")

_CLOSING_SECONDS: Final = 10.0


class LearningTask:
    """Reads discarded messages for facts, when there are unread ones and a model that can extract."""

    def __init__(self, calls: SessionCalls, model: AsyncModels | None) -> None:
        self._calls, self._given = calls, model
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts a task if messages are due and no reader is at work. Returns at once."""
        knowing = self._calls.core.knowing
        if not knowing.is_due or knowing.slot.is_held or (self._task and not self._task.done()):
            return
        if self._calls.extraction_model(self._given) is None:
            knowing.is_due = False
            return
        import asyncio

        self._task = asyncio.create_task(self._work(), name="siltstone-facts")

    async def run(self) -> Learned:
        """Reads now, after a reading that is under way has ended."""
        import asyncio

        self._calls.check_facts()
        if self._task is not None and not self._task.done():
            await asyncio.shield(self._task)
        return await self._read()

    async def end(self) -> None:
        """Waits up to ten seconds for the reader, then cancels it. Inside the reader it returns at once."""
        task = self._task
        if task is None or task.done() or self._calls.core.knowing.slot.is_own:
            return
        import asyncio

        done, _ = await asyncio.wait([task], timeout=_CLOSING_SECONDS)
        if not done:
            task.cancel()
            _log.warning("facts of session %r are read when it is next opened", self._calls.core.session_id)

    async def _work(self) -> None:
        try:
            await self._read()
        except StoreError as error:  # most often the store was closed; unread messages are read later
            _log.warning("facts of session %r are read later: %s", self._calls.core.session_id, error)
        except Exception:
            _log.exception("facts of session %r were not read", self._calls.core.session_id)

    async def _read(self) -> Learned:
        from siltstone.session.threads import alone

        core, model = self._calls.core, self._calls.extraction_model(self._given)
        if model is None:
            return Learned()
        flow = extraction(core)
        slot, claim = core.knowing.slot, Claim(flow)
        try:
            if not slot.take(claim, 0):
                return Learned()
            return await alone(flow, model)
        finally:
            slot.holder = None if slot.holder is claim else slot.holder
            flow.close()
