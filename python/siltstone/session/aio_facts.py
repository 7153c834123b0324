"""What an async session knows: the twin of ``sync_facts``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType, Rule
from siltstone.session.calls import SessionCalls
from siltstone.session.learning_task import LearningTask
from siltstone.tools import Tool

__all__ = ["AsyncSessionFacts"]

T = TypeVar("T")


class AsyncSessionFacts:
    """The calls of an ``AsyncSession`` that are about what it knows; see ``Session``."""

    _calls: SessionCalls
    _learning: LearningTask

    if TYPE_CHECKING:

        async def _step(self, step: Callable[[], T]) -> T: ...

    @property
    def memory_save(self) -> Tool:
        """The tool by which a model keeps a memory, as a fact: :meth:`facts` has it.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        return self._calls.memory_save()

    @property
    def memory_forget(self) -> Tool:
        """The tool by which a model forgets memories for good.

        Raises:
            ConfigError: the session was opened without ``allow_forget=True``.
        """
        return self._calls.memory_forget()

    @property
    def tools(self) -> list[Tool]:
        """All tools that the session offers a model: to search, to read, to save, to compact."""
        return self._calls.tools()

    async def facts(
        self,
        query: str | None = None,
        limit: int = 100,
        *,
        as_of: datetime | float | None = None,
        types: Sequence[str] = (),
        topic: str | None = None,
        entity: str | None = None,
        history: bool = False,
    ) -> list[Fact]:
        """The facts that hold, the newest first; with a *query* those that fit it, the best first."""
        from siltstone.session.threads import in_thread

        filters = {"as_of": as_of, "types": types, "topic": topic, "entity": entity, "everything": history}
        return await in_thread(partial(self._calls.facts, query, limit, **filters))

    async def fact_history(self, fact_id: str) -> list[Fact]:
        """The facts that came one in the place of the other, the oldest first; empty for an unknown id."""
        return await self._step(partial(self._calls.fact_history, fact_id))

    async def save(
        self,
        text: str,
        memory_type: MemoryType | FactType = "fact",
        *,
        importance: float | None = None,
        context: str = "",
        source: str = "",
        tags: Sequence[str] = (),
        valid_until: datetime | float | None = None,
    ) -> Fact:
        """Keeps *text* as a fact. Durable when it returns."""
        known = {
            "importance": importance, "context": context, "source": source, "tags": tags,
            "valid_until": valid_until,
        }  # fmt: skip
        return await self._step(partial(self._calls.save, text, memory_type, **known))

    async def retract(self, fact_id: str) -> bool:
        """Takes a fact back: it holds no more, and stays in the history. Whether there was one that held."""
        return await self._step(partial(self._calls.retract, fact_id))

    async def record_denial(
        self, tool: str, arguments: str | Mapping[str, Any], reason: str = "", goal: str = ""
    ) -> Correction:
        """Keeps that the user would not have *tool* called so: corrections become rules."""
        return await self._step(partial(self._calls.record_denial, tool, arguments, reason, goal))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that corrections and preferences have made, those with the most support first."""
        return self._calls.rules()

    async def learn(self) -> Learned:
        """Reads what was discarded and is still unread for facts now, with the model; what came of it."""
        return await self._learning.run()
