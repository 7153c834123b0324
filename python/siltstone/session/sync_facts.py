"""What a session knows: facts, rules, and the tools by which a model keeps and forgets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from siltstone.compaction.base import MemoryReport
from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType, Rule
from siltstone.session.calls import SessionCalls
from siltstone.session.learning_thread import LearningThread
from siltstone.tools import Tool

__all__ = ["SessionFacts"]


class SessionFacts:
    """The calls of a ``Session`` that are about what it knows."""

    _calls: SessionCalls
    _learning: LearningThread
    _timeout: float | None

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

    def memory_status(self) -> MemoryReport:
        """How waterfall memory stands: what each summary stands for, when the next run is due, what is wrong.

        Known as ``@memory-status``. Nothing is asked and nothing is changed. ``print(report.markdown)`` is
        for people, ``report.line`` for a prompt.

        Raises:
            ConfigError: the session's policy keeps no such memory.
        """
        return self._calls.memory_status()

    def facts(
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
        """The facts that hold, the newest first; with a *query* those that fit it, the best first.

        A fact must have both words of a query of two, half of those of up to eight, and 30 % of more.

        Args:
            query: Any text; None for all facts.
            limit: The most facts.
            as_of: What held at that time; left out what holds now. A number is seconds since 1970.
            types: Facts of these types alone.
            topic: Facts of that topic alone, of the documented table: ``database``, ``deployment``, ....
            entity: Facts with that entity alone, such as ``person:Ann``, or ``Ann``.
            history: Also what was superseded, taken back or has ended. The query is left aside.

        Raises:
            ConfigError: the session has ``memory=False``, or *limit* is below 0.
        """
        return self._calls.facts(
            query, limit, as_of=as_of, types=types, topic=topic, entity=entity, everything=history
        )

    def fact_history(self, fact_id: str) -> list[Fact]:
        """The facts that came one in the place of the other, the oldest first; empty for an unknown id."""
        return self._calls.fact_history(fact_id)

    def save(
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
        """Keeps *text* as a fact. Durable when it returns.

        Args:
            text: A sentence that can be understood alone.
            memory_type: One of the nine of ``memory_save``, or of the six of an extraction.
            importance: 0..1; left out, that of the type.
            context: What it is about, where that is not in the sentence.
            source: Who says so.
            tags: Words of your own.
            valid_until: When it ceases to hold. A number is seconds since 1970.

        Returns:
            The fact; where the same text of the same type is known and holds, that one.

        Raises:
            ConfigError: an unknown type, an empty text, or *importance* out of its range.
        """
        return self._calls.save(
            text,
            memory_type,
            importance=importance,
            context=context,
            source=source,
            tags=tags,
            valid_until=valid_until,
        )

    def retract(self, fact_id: str) -> bool:
        """Takes a fact back: it holds no more, and stays in the history. Whether there was one that held.

        To have its text gone, ``forget(fact_ids=[...])``.
        """
        return self._calls.retract(fact_id)

    def record_denial(
        self, tool: str, arguments: str | Mapping[str, Any], reason: str = "", goal: str = ""
    ) -> Correction:
        """Keeps that the user would not have *tool* called so: corrections become rules.

        The rules are in ``memory_instructions``, for this session and later ones of its scope.

        Args:
            tool: The tool's name.
            arguments: What it was to be called with, as text or as a mapping; 200 characters are kept.
            reason: What the user wants instead, where that was said.
            goal: What it was for.

        Raises:
            ConfigError: one of them is no text; carries ``field``.
        """
        return self._calls.record_denial(tool, arguments, reason, goal)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that corrections and preferences have made, those with the most support first."""
        return self._calls.rules()

    def learn(self) -> Learned:
        """Reads what was discarded and is still unread for facts now, with the model; what came of it.

        ``prepare`` starts the same in a thread of its own, and waits for nothing. A call that runs is waited
        for.
        """
        return self._learning.run(self._timeout)
