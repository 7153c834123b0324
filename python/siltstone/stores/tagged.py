"""Filters hits by topic and entity, which rules compute from the text of each hit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Self

from siltstone.errors import InvalidEntryError
from siltstone.memory.entry import SearchFilters, SearchHit

__all__ = ["Tags"]

FIRST = 4  #: hits of the first search, as a multiple of the wanted ones
MORE = 8  #: factor for each further search, if too few hits passed
LEAST = 64  #: the minimum number of hits of the first search


@dataclass(frozen=True, slots=True)
class Tags:
    """A topic and an entity that a text must have; None for any."""

    topic: str | None
    entity: str | None

    @classmethod
    def of(cls, given: SearchFilters) -> Self | None:
        """The topic and entity of *given*; None if it has neither.

        Raises:
            InvalidEntryError: an entity that is no text, or a topic that is not in the table.
        """
        topic, entity = given.get("topic"), given.get("entity")
        if topic is None and entity is None:
            return None
        from siltstone.knowledge.topics import TOPICS  # few searches ask for it

        if topic is not None and topic not in TOPICS:
            raise InvalidEntryError(f"topic must be one of {', '.join(TOPICS)}, got {topic!r}", value=topic)
        if entity is not None and not isinstance(entity, str):
            raise InvalidEntryError(f"entity must be a str or None, got {entity!r}", value=entity)
        return cls(topic, entity)

    def fit(self, text: str) -> bool:
        """Whether *text* has the topic and the entity."""
        from siltstone.knowledge.topics import entities_of, has_entity, named, topics_of

        if self.entity is not None:
            name = self.entity.partition(":")[2] or self.entity
            # An entity is a stretch of its text, so most texts need not be read for theirs.
            if name not in text or not has_entity(named(entities_of(text)), self.entity):
                return False
        return self.topic is None or self.topic in topics_of(text)

    def first(self, find: Callable[[int], list[SearchHit]], most: int) -> list[SearchHit]:
        """The first *most* hits with the topic and entity. ``find(n)`` gives the best *n* hits.

        Scores do not depend on the filter, so the result is the filtered list of all hits. The search is
        repeated with more hits until enough of them pass, or there are no more.
        """
        asked = max(LEAST, FIRST * most)
        while True:
            hits = find(asked)
            kept = list(islice((hit for hit in hits if self.fit(hit.content)), most))
            if len(kept) == most or len(hits) < asked:
                return kept
            asked *= MORE
