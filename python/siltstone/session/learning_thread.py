"""Asks a model for facts in the background of a session: in a thread of its own, one at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from siltstone.errors import StoreError
from siltstone.llm import Models
from siltstone.session.calls import SessionCalls
from siltstone.session.slot import Claim

if TYPE_CHECKING:
    from concurrent.futures import Future

    from siltstone.knowledge import Learned


__all__ = ["CLOSING_SECONDS", "LearningThread"]

_log = logging.getLogger("siltstone")

CLOSING_SECONDS: Final = 10.0  #: seconds that ``close`` waits for a reader


class LearningThread:
    """Reads discarded messages for facts, when there are unread ones and a model that can extract."""

    def __init__(self, calls: SessionCalls, model: Models | None) -> None:
        self._calls, self._given = calls, model
        self._job: Future[Any] | None = None

    def start(self) -> None:
        """Starts a thread if messages are due and no reader is at work. Returns at once."""
        knowing = self._calls.core.knowing
        if not knowing.is_due or knowing.slot.is_held or not self._is_idle:
            return
        from siltstone.hooks import TooManyThreads, started

        model = self._calls.extraction_model(self._given)
        if model is None:
            knowing.is_due = False
            return
        try:
            self._job = started(self._work, model, "siltstone-facts")
        except TooManyThreads:
            _log.warning("facts of session %r are read later: too many threads", self._calls.core.session_id)

    def run(self, timeout: float | None) -> Learned:
        """Reads in the caller's own thread, after a reading that is under way has ended."""
        from siltstone.knowledge import Learned

        self._calls.check_facts()
        model = self._calls.extraction_model(self._given)
        return Learned() if model is None else self._read(model, timeout) or Learned()

    def end(self) -> None:
        """Waits up to ten seconds for the reader. A call from inside the reader returns at once."""
        job = self._job
        if job is None or job.done() or self._calls.core.knowing.slot.is_own:
            return
        try:
            job.result(CLOSING_SECONDS)
        except TimeoutError:
            _log.warning("facts of session %r are read when it is next opened", self._calls.core.session_id)

    @property
    def _is_idle(self) -> bool:
        return self._job is None or self._job.done()

    def _work(self, model: Models) -> None:
        try:
            self._read(model, 0)
        except StoreError as error:  # most often the store was closed; unread messages are read later
            _log.warning("facts of session %r are read later: %s", self._calls.core.session_id, error)
        except Exception:
            _log.exception("facts of session %r were not read", self._calls.core.session_id)

    def _read(self, model: Models, timeout: float | None) -> Learned | None:
        """The result; None if another reader takes longer than *timeout* seconds."""
        from siltstone import llm
        from siltstone.session.learning import extraction

        core = self._calls.core
        flow = extraction(core)
        slot, claim = core.knowing.slot, Claim(flow)
        try:
            if not slot.take(claim, timeout):
                return None
            return llm.run(flow, model)
        finally:
            slot.holder = None if slot.holder is claim else slot.holder
            flow.close()
            slot.wake()
