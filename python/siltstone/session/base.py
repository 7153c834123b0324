"""The part that both kinds of session share: properties, and calls that never wait for a model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from siltstone.errors import StoreError
from siltstone.events import UsageRecord
from siltstone.memory.base import Store
from siltstone.session.calls import SessionCalls
from siltstone.session.opening import Opened

if TYPE_CHECKING:
    from siltstone.knowledge import Rule
    from siltstone.session.background import Job
    from siltstone.session.calls import MadeTool
    from siltstone.tools.base import Tool


__all__ = ["CLOSING_SECONDS", "BaseSession"]

CLOSING_SECONDS: Final = 10.0  #: seconds that ``close`` waits for a reader of facts

_log = logging.getLogger("siltstone")


class BaseSession:
    """One open conversation. Its subclasses ``Session`` and ``AsyncSession`` drive it."""

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Refuses the arguments of ``open``.

        Raises:
            TypeError: the session was not made by ``open``.
        """
        if options or len(arguments) != 1 or not isinstance(arguments[0], Opened):
            raise TypeError(f'open a session with {cls.__name__}.open("agent-data", "chat-1", ...)')
        return super().__new__(cls)

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`Session.open`."""
        self._core, self._model, self._timeout = opened.core, opened.model, opened.timeout
        self._opened = opened
        self._owns_store = opened.owns_store
        self._calls = SessionCalls(opened)
        self._search_tool: MadeTool | None = None
        self._driver: tuple[Job, Future[Any]] | None = None  # who asks the model for which compaction
        self._reader: Future[Any] | None = None  # who asks the model for facts
        # A log behind a network may read its version once a call, instead of before every step.
        self._one_look: Callable[[], AbstractContextManager[None]] = getattr(
            opened.core.rows, "one_look", nullcontext
        )

    @property
    def session_id(self) -> str:
        """The id that the session was opened with."""
        return self._core.session_id

    @property
    def store(self) -> Store:
        """The store that keeps the session."""
        return self._core.store

    @property
    def usage(self) -> UsageRecord:
        """The sum of siltstone's own model calls, over the life of the session."""
        return self._core.usage

    @property
    def context_window(self) -> int | None:
        """The context window in tokens: the given one, or the provider's, if that is known and smaller."""
        return self._core.context_window

    @property
    def memory_instructions(self) -> str:
        """Optional text for the system prompt: when to use which of ``tools``, and the rules.

        The rules come from corrections and preferences: see :meth:`record_denial`. For other tools,
        ``siltstone.tools.context`` writes such a text.
        """
        return self._calls.instructions()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that come from corrections and preferences, the rule with the most support first."""
        return self._calls.rules()

    @property
    def memory_search(self) -> Tool:
        """The search tool for the model, bound to this session. A call takes microseconds, and is not async.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        known = self._search_tool = self._calls.memory_search(self._search_tool)
        return known[1]

    @property
    def memory_get(self) -> Tool:
        """The tool that reads a message of the log in full, by the handle that a cut result carries."""
        return self._calls.memory_get()

    @property
    def memory_save(self) -> Tool:
        """The tool with which a model saves a memory as a fact. :meth:`facts` lists it.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        return self._calls.memory_save()

    @property
    def memory_forget(self) -> Tool:
        """The tool with which a model forgets memories for good.

        Raises:
            ConfigError: the session was opened without ``allow_forget=True``.
        """
        return self._calls.memory_forget()

    @property
    def tools(self) -> list[Tool]:
        """All tools that the session offers a model: to search, to read, to save, to compact."""
        return self._calls.tools()

    @property
    def chronicle_tool(self) -> Tool:
        """The tool ``chronicle``: it lists the session's checkpoints, opens one, and expands it to messages.

        Raises:
            ConfigError: the session's policy writes no checkpoints.
        """
        return self._calls.chronicle()

    @property
    def compact_tool(self) -> Tool:
        """The tool ``context_compact``: the model asks with it for a compaction at the next ``prepare``.

        Within three boundaries of the last attempt the tool refuses, and tells the model so.
        """
        from siltstone.tools.context import context_compact

        return context_compact(self._calls.wish)

    @property
    def estimate_error(self) -> float | None:
        """The relative error of siltstone's estimate of the last request, against the provider's count.

        0.1 is a tenth too much, -0.1 a tenth too little. None until a message with ``usage`` is appended
        after the session was opened. The estimate covers the messages sent, and ``reserved_tokens``.
        """
        return self._core.state.estimate_error

    def new_run(self) -> None:
        """Says that the host has begun anew: its next list for ``observe`` is a run of its own.

        A list that goes on with the session is still recognised. Any other one is appended to the session,
        and the messages of the earlier runs stay in context, in summaries and in searches. Call it in a loop
        of your own that begins again with an empty list while the session is open. The first list after
        ``open`` needs no call: see the option ``unrelated``.
        """
        self._core.check_open()
        self._core.begins_run = True

    def history(self) -> list[Any]:
        """The current view, with other workers' changes. Asks no policy, so nothing is compacted."""
        self._core.check_open()
        return self._core.follow().view.raws()

    def _begin_driver(self) -> None:
        """Starts a driver for the compaction in the background, if it has none. Returns at once."""
        job, driver = self._core.background.job, self._driver
        if job is None or job.is_done or (driver and driver[0] is job and not driver[1].done()):
            return
        try:
            self._driver = job, self._beside(partial(self._drive, job))
        except RuntimeError:  # the system allows no more threads
            _log.exception("no thread could be started to summarise")
            job.cancel()

    def _begin_reader(self) -> None:
        """Starts a reader of facts if messages are due, and no reader is at work. Returns at once."""
        knowing = self._core.knowing
        if not knowing.is_due or knowing.slot.is_held or (self._reader and not self._reader.done()):
            return
        if self._calls.extraction_model(self._model) is None:
            knowing.is_due = False
            return
        try:
            self._reader = self._beside(partial(self._read, 0))
        except RuntimeError:
            _log.warning("facts of session %r are read later: too many threads", self.session_id)
        else:
            self._reader.add_done_callback(partial(_log_reader, self.session_id))

    def _beside(self, work: Callable[[], Any]) -> Future[Any]:
        """Runs *work* beside the calls of the session.

        Raises:
            RuntimeError: no thread could be started.
        """
        raise NotImplementedError

    def _drive(self, job: Job) -> Any:
        """Asks the model for all that *job* wants."""
        raise NotImplementedError

    def _read(self, timeout: float | None) -> Any:
        """Reads messages for facts, if a reader at work ends within *timeout* seconds."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._calls.described(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be pickled; open it where it is needed")


def _log_reader(session_id: str, reader: Future[Any]) -> None:
    """Logs how a reader of facts has failed. The next one reads the messages again."""
    error = None if reader.cancelled() else reader.exception()
    if isinstance(error, StoreError):  # most often the store was closed
        _log.warning("facts of session %r are read later: %s", session_id, error)
    elif error is not None:
        _log.error("facts of session %r were not read", session_id, exc_info=error)
