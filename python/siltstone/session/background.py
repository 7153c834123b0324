"""A compaction in the background: the model writes while the conversation goes on.

A job is one attempt. It reads the view once, when it begins, asks the model, and then waits. The next
boundary lets it commit: the job lands. The commit compares the session with the view that the job has read.
Messages appended meanwhile follow the summary. If anything else has changed, the job fails as stale, and the
view stays as it is; its summary is kept for a later job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock, RLock
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from siltstone.errors import ModelError
from siltstone.hooks import HookCall, HookError
from siltstone.llm import CompletionRequest, Landing, Steps
from siltstone.messages import Message, RawMessage

if TYPE_CHECKING:
    from siltstone.engine import Outcome
    from siltstone.events import CompactionFailed, Event


MOST_UNPLACED = 8  #: summaries that are kept without a place in a view


class Job:
    """One attempt under way. A driver, one at a time, asks the model for it: it runs :meth:`steps`.

    Args:
        flow: The attempt; its outcome is None if it is no compaction. It stops at a :class:`Landing` before
            its commit.
        threshold: The threshold of its trigger, in tokens; None if the trigger has none.
        end: The number of messages in the log when the job began.
        kind: The ``kind`` of its policy. A boundary with a policy of another kind ends the job.
    """

    compacts = True  #: whether it is a compaction; a call of ``compact`` ends a job that is none

    def __init__(self, flow: Steps[Outcome | None], threshold: int | None, end: int, kind: str) -> None:
        self.threshold, self.end, self.kind = threshold, end, kind
        self._flow = flow
        self._lock = RLock()  # reentrant: a hook that closes the session runs inside a step
        self._asked: CompletionRequest | HookCall | None = None
        self._begun = self._lands = self._is_cancelled = False
        self._told: CompactionFailed | None = None
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._driven = Lock()

    def hear(self, event: Event) -> None:
        """A hook that keeps the failure event, for a job that ends without an outcome."""
        from siltstone.events import CompactionFailed

        if isinstance(event, CompactionFailed):
            self._told = event

    @property
    def is_done(self) -> bool:
        """Whether the job asks no model any more: it may commit, or it is over."""
        return self._lands or self._is_over

    def steps(self) -> Steps[None]:
        """A flow with all that the job asks. Ends at once if another driver is at work.

        A driver that is broken off ends the job.
        """
        if not self._driven.acquire(blocking=False):
            return
        try:
            while (asked := self.asked()) is not None:
                try:
                    said = yield asked
                except (ModelError, HookError) as error:
                    self.refuse(error)
                else:
                    self.answer(said)
        except BaseException as error:
            self.refuse(error)
            self.cancel()
            raise
        finally:
            self._driven.release()

    def asked(self) -> CompletionRequest | HookCall | None:
        """The completion that the job waits for; None when it is done."""
        with self._lock:
            if not self._begun and not self._is_over:
                self._begun = True
                self._go(lambda: next(self._flow))
            return None if self.is_done else self._asked

    def answer(self, said: Any) -> None:
        """Goes on with the answer *said*. Does nothing after :meth:`cancel`."""
        with self._lock:
            if not self.is_done:
                self._go(lambda: self._flow.send(said))

    def refuse(self, error: BaseException) -> None:
        """Goes on after the model or hook that was asked has failed."""
        with self._lock:
            if not self.is_done:
                self._go(lambda: self._flow.throw(error))

    def land(self) -> None:
        """Lets the job commit, if it waits for that."""
        with self._lock:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.send(None))

    def withdraw(self, error: Exception) -> None:
        """Ends a job that waits to commit, with *error*: the session has changed too much for it."""
        with self._lock:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.throw(error))

    def cancel(self) -> None:
        """Ends the job in any state. Hooks hear of its end, as of the end of every attempt that began."""
        with self._lock:
            self._is_cancelled = True
            if not (isinstance(self._flow, GeneratorType) and self._flow.gi_running):
                self._flow.close()

    def outcome(self, view: list[RawMessage], tokens: int) -> Outcome | None:
        """The job's outcome; None if it never began. A broken-off attempt has failed, and leaves *view*."""
        if self._outcome is not None or self._told is None:
            return self._outcome
        from siltstone.engine import Failed

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
        """Takes the next step. Its exception is kept for the boundary, since no other call expects it."""
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
            if self._lands:  # the caller of ``prepare`` is interrupted, by Ctrl-C for example
                raise
        finally:
            if self._is_cancelled:
                self._flow.close()


class Background:
    """The one job of a session, if there is one.

    A job whose flow has ended holds no resource. If a caller is interrupted between two lines, the next call
    drives the job on, or takes it away.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.job: Job | None = None
        self.looked: tuple[int | None, int] = (None, 0)  # head and redactions, of the last look for summaries
        self._unplaced: tuple[tuple[Message, ...], int] = ((), 0)

    @property
    def is_running(self) -> bool:
        """Whether the job asks a model. Meanwhile only an emergency compaction may begin."""
        return self.job is not None and not self.job.is_done

    @property
    def is_due(self) -> bool:
        """Whether a job waits for the next boundary."""
        return self.job is not None and self.job.is_done

    def keep(self, summaries: Iterable[Message], redactions: int) -> None:
        """Keeps *summaries* that could not be committed, so that no model reads their messages again.

        They were written when the session had that count of *redactions*.
        """
        self._unplaced = (*self.unplaced(redactions), *summaries)[-MOST_UNPLACED:], redactions

    def unplaced(self, redactions: int) -> tuple[Message, ...]:
        """The kept summaries, oldest first; none if something was forgotten since."""
        return self._unplaced[0] if self._unplaced[1] == redactions else ()

    def take(self) -> Job | None:
        """Gives the job that is done to the caller, and forgets it; None if no job is done."""
        job, self.job = (self.job, None) if self.is_due else (None, self.job)
        return job

    def cancel(self) -> Job | None:
        """Ends the job in any state, and gives it; None if there is none."""
        job, self.job = self.job, None
        if job is not None:
            job.cancel()
        return job
