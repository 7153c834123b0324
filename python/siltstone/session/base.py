"""The part that both kinds of session share: properties, and calls that never wait for a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn, Self

from siltstone.events import UsageRecord
from siltstone.memory.base import Store
from siltstone.session.calls import SessionCalls
from siltstone.session.opening import Opened

if TYPE_CHECKING:
    from siltstone.knowledge import Rule
    from siltstone.session.calls import MadeTool
    from siltstone.tools import Tool


__all__ = ["BaseSession"]


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
        # A log behind a network may read its version once a call, instead of before every step.
        self._one_look: Callable[[], AbstractContextManager[None]] = getattr(
            opened.core.rows, "one_look", _Nothing
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

        The rules come from corrections and preferences: see :meth:`record_denial`. ``siltstone.tools.skill``
        writes such a text for other tools.
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
        from siltstone.tools import context_compact

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

    def __repr__(self) -> str:
        return self._calls.described(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be pickled; open it where it is needed")


class _Nothing:
    """``contextlib.nullcontext``, whose module takes longer to import than a store to open."""

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, *error: object) -> None:
        """Does nothing."""
