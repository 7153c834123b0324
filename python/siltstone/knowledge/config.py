"""How a session learns facts, and how many it keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from siltstone.errors import ConfigError
from siltstone.knowledge.base import InMemoryFacts
from siltstone.knowledge.hybrid import HybridFacts
from siltstone.knowledge.stored import MAX_CORRECTIONS, MAX_FACTS
from siltstone.values import dataclass

__all__ = ["KnowledgeConfig"]


_CHOICES = {
    "scope": ("session", "namespace"),
    "fact_unit": ("bytes", "chars"),
    "fact_search": ("adaptive", "hybrid"),
}


@dataclass(frozen=True, slots=True)
class KnowledgeConfig:
    """The facts that a session learns from discarded messages, and their owner.

    Attributes:
        scope: ``session``: facts, corrections and rules are the session's own. ``namespace``: they are
            shared by the sessions of its namespace that are opened so.
        patterns: What is stated in so many words is learned at each compaction. No model is asked.
        knowledge_extraction: A model is asked, beside the conversation; only where there is one that is not
            the extractive one.
        extraction_model: Who is asked; None for the session's model.
        extraction_timeout: Seconds that a call may take; None for any time.
        extraction_focus: What to look for in particular.
        tool_facts: The results of tools that succeeded are facts, too.
        fact_min: The least size of such a result; smaller ones are noise.
        fact_max: And the most.
        fact_unit: In what they are measured: ``bytes`` or ``chars``.
        fact_inclusive: Whether the bounds themselves count as inside.
        ttl: How long a fact that was learned is valid; None for ever. What was saved has its own.
        max_facts: The most facts; the oldest leave first, history before what holds.
        max_corrections: The most corrections.
        fact_search: How ``session.facts`` ranks: ``adaptive`` asks for a share of the query's words, by BM25;
            ``hybrid`` adds the cosine of hashed words, which are kept with the facts.
        full_text_weight: Of ``hybrid``.
        vector_weight: Of ``hybrid``.
        dimensions: Of ``hybrid``: of its vectors.
        rules: Corrections and preferences become rules, which ``memory_instructions`` has.
        max_rules: The most rules.
        min_entries: Corrections and facts that must be new before rules are made anew.
        tool_rules: Three results of one tool become a rule.

    Raises:
        ConfigError: a value out of its bounds.
    """

    scope: Literal["session", "namespace"] = "session"
    patterns: bool = True
    knowledge_extraction: bool = True
    extraction_model: Any = None
    extraction_timeout: float | None = 120.0
    extraction_focus: str | None = None
    tool_facts: bool = False
    fact_min: int = 10
    fact_max: int = 5_000
    fact_unit: Literal["bytes", "chars"] = "bytes"
    fact_inclusive: bool = False
    ttl: timedelta | None = None
    max_facts: int = MAX_FACTS
    max_corrections: int = MAX_CORRECTIONS
    fact_search: Literal["adaptive", "hybrid"] = "adaptive"
    full_text_weight: float = 0.5
    vector_weight: float = 0.5
    dimensions: int = 128
    rules: bool = True
    max_rules: int = 20
    min_entries: int = 3
    tool_rules: bool = True

    def __post_init__(self) -> None:
        for name in (
            "patterns",
            "knowledge_extraction",
            "tool_facts",
            "fact_inclusive",
            "rules",
            "tool_rules",
        ):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "true or false", getattr(self, name))
        for name in ("fact_min", "fact_max", "max_facts", "max_corrections", "max_rules", "min_entries"):
            value = getattr(self, name)
            if type(value) is not int or value < (0 if name == "fact_min" else 1):
                raise _wrong(name, "an integer >= 0" if name == "fact_min" else "an integer >= 1", value)
        if self.fact_min > self.fact_max:
            raise _wrong("fact_min", f"<= fact_max, {self.fact_max}", self.fact_min)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise _wrong(name, "one of " + ", ".join(map(repr, choices)), getattr(self, name))
        HybridFacts(InMemoryFacts(), self.full_text_weight, self.vector_weight, self.dimensions)
        seconds = self.extraction_timeout
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < seconds < float("inf")):
            raise _wrong("extraction_timeout", "None or a number of seconds > 0", seconds)
        if self.ttl is not None and not (isinstance(self.ttl, timedelta) and self.ttl > timedelta(0)):
            raise _wrong("ttl", "None or a timedelta > 0", self.ttl)


def _wrong(field: str, bound: str, value: object) -> ConfigError:
    return ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)
