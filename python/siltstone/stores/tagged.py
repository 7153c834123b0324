"""Which entries are about a topic, or name an entity? Their texts tell, by rule."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, Self

from siltstone.errors import InvalidEntryError
from siltstone.memory.entry import SearchFilters, SearchHit

__all__ = ["Tags"]

FIRST = 4  #: times as many hits as are wanted are looked at first
MORE = 8  #: times as many as before are looked at where these were too few
LEAST = 64  #: hits that are looked at first


class Tags(NamedTuple):
    """A topic and an entity that a text must have; None for any."""

    topic: str | None
    entity: str | None

    @classmethod
    def of(cls, given: SearchFilters) -> Self | None:
        """Those of *given*; None where it asks for neither.

        Raises:
            InvalidEntryError: no text, or no topic of the table.
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

    def are_of(self, text: str) -> bool:
        """Whether *text* has them."""
        from siltstone.knowledge.topics import entities_of, has_entity, named, topics_of

        if self.entity is not None:
            name = self.entity.partition(":")[2] or self.entity
            # An entity is a stretch of its text, so most texts need not be read for theirs.
            if name not in text or not has_entity(named(entities_of(text)), self.entity):
                return False
        return self.topic is None or self.topic in topics_of(text)

    def first(self, find: Callable[[int], list[SearchHit]], most: int) -> list[SearchHit]:
        """The first *most* hits that have them, of those that *find* gives, which takes how many.

        No score depends on a filter, so they are what is left of all hits. More are asked for until there are
        enough of them, or there are no more.
        """
        asked = max(LEAST, FIRST * most)
        while True:
            hits = find(asked)
            kept = list(islice((hit for hit in hits if self.are_of(hit.content)), most))
            if len(kept) == most or len(hits) < asked:
                return kept
            asked *= MORE
