"""A compaction beside the conversation: asked for in the background, put in its place at a boundary.

A job is one attempt, as any other: it reads the view as it was when it began, asks the model, and then waits.
The next boundary lets it commit, which compares the session with what the job has read; what was appended
meanwhile follows, and where anything else has changed, the job comes to nothing and nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from siltstone.hooks import HookCall

if TYPE_CHECKING:
    from siltstone.events import CompactionFailed, Event
    from siltstone.llm import CompletionRequest, Landing, Steps
    from siltstone.messages import RawMessage
    from siltstone.outcome import Outcome

__all__ = ["Background", "Job"]


class Job:
    """One attempt under way. Its driver asks the model; it has one driver at a time.

    Args:
        flow: The attempt. It stops at a :class:`Landing` before its commit.
        threshold: That of its trigger, in tokens.
        kind: That of the policy that it is of: one of another kind does not let it commit.
        end: How many messages there were when it began.
    """

    def __init__(self, flow: Steps[Outcome], threshold: int | None, end: int, kind: str) -> None:
        self.threshold, self.end, self.kind = threshold, end, kind
        self._flow = flow
        self._turn = threading.RLock()  # a hook that closes its session comes from inside of a step
        self._asked: CompletionRequest | HookCall | None = None
        self._begun = self._lands = self._is_cancelled = False
        self._told: CompactionFailed | None = None
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self.done = threading.Event()

    def hear(self, event: Event) -> None:
        """A hook: keeps the end of an attempt that has none to return."""
        from siltstone.events import CompactionFailed

        if isinstance(event, CompactionFailed):
            self._told = event

    @property
    def is_done(self) -> bool:
        """Whether no model is asked any more: it may land, or has come to nothing."""
        return self._lands or self._is_over

    def asked(self) -> CompletionRequest | HookCall | None:
        """The completion that the job waits for; None when it is done."""
        with self._turn:
            if not self._begun and not self._is_over:
                self._begun = True
                self._go(lambda: next(self._flow))
            return None if self.is_done else self._asked

    def answer(self, said: Any) -> None:
        """Goes on with what was asked for. After a :meth:`cancel` it goes nowhere."""
        with self._turn:
            if not self.is_done:
                self._go(lambda: self._flow.send(said))

    def refuse(self, error: BaseException) -> None:
        """Goes on where what was asked for has failed."""
        with self._turn:
            if not self.is_done:
                self._go(lambda: self._flow.throw(error))

    def land(self) -> None:
        """Lets it commit, if it may."""
        with self._turn:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.send(None))

    def withdraw(self, error: Exception) -> None:
        """Ends it where it would commit: what it rests on has changed."""
        with self._turn:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.throw(error))

    def cancel(self) -> None:
        """Ends it, wherever it is. Its end is told, as that of every attempt that began."""
        with self._turn:
            self._is_cancelled = True
            if not (isinstance(self._flow, GeneratorType) and self._flow.gi_running):
                self._flow.close()
            self.done.set()

    def outcome(self, view: list[RawMessage], tokens: int) -> Outcome | None:
        """Its outcome; None if it never began. An attempt that was broken off leaves *view*."""
        from siltstone.outcome import Failed

        if self._outcome is not None or self._told is None:
            return self._outcome
        told = self._told
        return Failed(
            view,
            tokens,
            tokens,
            usage=told.usage,
            reason=told.reason,
            message=told.message,
            cause=self._error,
            error_class=told.error_class,
        )

    @property
    def _is_over(self) -> bool:
        is_closed = isinstance(self._flow, GeneratorType) and self._flow.gi_frame is None
        return self._outcome is not None or is_closed

    def _go(self, step: Callable[[], CompletionRequest | HookCall | Landing]) -> None:
        """The next step. What it raises is kept: it belongs to nobody's call but the boundary's."""
        from siltstone.llm import Landing

        try:
            asked = step()
            if isinstance(asked, Landing):
                self._lands = True
            else:
                self._asked = asked
        except StopIteration as stop:
            self._outcome = stop.value
        except Exception as error:
            self._error = error
        except BaseException as error:
            self._error = error
            if self._lands:  # whoever prepares is interrupted
                raise
        finally:
            if self._is_cancelled:
                self._flow.close()
            if self.is_done:
                self.done.set()


class Background:
    """The one job of a session, if there is one.

    A job whose flow has ended holds nothing, however it ended; and whoever is interrupted between two lines
    leaves a job that is driven on, or taken away, by the next call.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.job: Job | None = None

    @property
    def is_running(self) -> bool:
        """Whether a model is asked: no other compaction begins then, but an emergency."""
        return self.job is not None and not self.job.is_done

    @property
    def is_due(self) -> bool:
        """Whether a job waits for the next boundary."""
        return self.job is not None and self.job.is_done

    def take(self) -> Job | None:
        """The job that is done; it is nobody's then."""
        job, self.job = (self.job, None) if self.is_due else (None, self.job)
        return job

    def wait(self, timeout: float | None) -> bool:
        """Waits until no model is asked any more, up to *timeout* seconds. Whether that is so."""
        return self.job is None or self.job.done.wait(timeout)

    def cancel(self) -> Job | None:
        """Ends the job, whatever it does."""
        job, self.job = self.job, None
        if job is not None:
            job.cancel()
        return job
