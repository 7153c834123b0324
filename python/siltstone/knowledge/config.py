"""The settings for learning facts, and for keeping them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from siltstone.errors import ConfigError
from siltstone.knowledge.base import InMemoryFacts
from siltstone.knowledge.hybrid import HybridFacts
from siltstone.knowledge.stored import MAX_CORRECTIONS, MAX_FACTS

__all__ = ["KnowledgeConfig"]


_CHOICES = {
    "scope": ("session", "namespace"),
    "fact_unit": ("bytes", "chars"),
    "fact_search": ("adaptive", "hybrid"),
}


@dataclass(frozen=True, slots=True)
class KnowledgeConfig:
    """The settings for the facts that a session learns from discarded messages.

    Attributes:
        scope: ``session``: facts, corrections and rules are the session's own. ``namespace``: they are shared
            by all sessions of its namespace that are opened with this setting.
        patterns: Whether explicit statements are learned at each compaction, without a model.
        knowledge_extraction: Whether a model is asked, in parallel to the conversation; only with a model
            that is not the extractive one.
        extraction_model: The model that is asked; None for the session's model.
        extraction_timeout: The most seconds of a call; None for no limit.
        extraction_focus: The subjects to look for in particular.
        tool_facts: Whether results of successful tools become facts, too.
        fact_min: The lower bound of the size of such a result; smaller ones are noise.
        fact_max: The upper bound of its size.
        fact_unit: The unit of the bounds: ``bytes`` or ``chars``.
        fact_inclusive: Whether a size equal to a bound is allowed.
        ttl: How long a learned fact is valid; None for ever. Facts saved by a tool have their own.
        max_facts: The most facts; history leaves before current facts, and old ones before new ones.
        max_corrections: The most corrections.
        fact_search: The ranking of ``session.facts``: ``adaptive`` requires a share of the query's words and
            ranks by BM25; ``hybrid`` adds the cosine of hashed words, whose vectors are stored with the
            facts.
        full_text_weight: The weight of BM25 in ``hybrid``.
        vector_weight: The weight of the cosine in ``hybrid``.
        dimensions: The length of the vectors of ``hybrid``.
        rules: Whether corrections and preferences become rules, which ``memory_instructions`` returns.
        max_rules: The most rules.
        min_entries: The number of new corrections and facts from which on rules are made anew.
        tool_rules: Whether three results of one tool become a rule.

    Raises:
        ConfigError: a value is out of its bounds.
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
