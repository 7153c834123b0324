"""A store in process memory, for tests and small scripts: it searches for words as parts of the text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Self, Unpack

from siltstone import _native
from siltstone.errors import ConfigError, InvalidEntryError, explains
from siltstone.hooks import watch_operation
from siltstone.memory import convert
from siltstone.memory.entry import Ranker, SearchFilters, SearchHit, SearchOptions, SourceRange, StoredEntry
from siltstone.memory.limits import DEFAULTS, Limits, checked_limit
from siltstone.stores.database import DatabaseStore

# Filters hits by topic and entity, which rules compute from the text of each hit.

FIRST = 4  #: hits of the first search, as a multiple of the wanted ones
MORE = 8  #: factor for each further search, if too few hits passed
LEAST = 64  #: the minimum number of hits of the first search


class Tags(NamedTuple):
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
        from siltstone.knowledge.search import TOPICS  # few searches ask for it

        if topic is not None and topic not in TOPICS:
            raise InvalidEntryError(f"topic must be one of {', '.join(TOPICS)}, got {topic!r}", value=topic)
        if entity is not None and not isinstance(entity, str):
            raise InvalidEntryError(f"entity must be a str or None, got {entity!r}", value=entity)
        return cls(topic, entity)

    def fit(self, text: str) -> bool:
        """Whether *text* has the topic and the entity."""
        from siltstone.knowledge.search import entities_of, has_entity, named, topics_of

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


@explains
class SimpleMemoryStore(DatabaseStore):
    """A store in process memory with the documented simple search. Nothing is durable.

    Everything except the search works as in :class:`~siltstone.stores.memory.MemoryStore`. Query and texts
    are compared in lower case, and the query is split at white space;
    ``score = words found anywhere in the text / words``.
    Entries with none of the words are left out. A search reads every entry of its session.
    """

    def __init__(self, *, limits: Limits = DEFAULTS) -> None:
        super().__init__(_native.Store.open_memory(), limits)

    def search(
        self, session_id: str, query: str, limit: int = 5, **options: Unpack[SearchOptions]
    ) -> list[SearchHit]:
        """The entries of the session that have most of the query's words, best first.

        ``ranker`` must be None: this store has only one. With ``explain`` a hit has
        ``{"terms": [{"term", "found"}, …]}``.
        """
        from siltstone.memory.hits import in_time, is_in_time, looked_at  # a first turn searches nothing

        wanted, tags = convert.conditions_in(options, SearchOptions), Tags.of(options)
        min_score, explain = options.get("min_score", 0.0), options.get("explain", False)
        self._limits.check_query(query)
        _check(limit, options.get("ranker"), min_score)
        is_in_order = is_in_time(options.get("order", "score"))
        with watch_operation("search_memory", self, session_id, query) as watched:
            found = self._entries(session_id)
            if convert.is_across(options):
                found += [entry for other in self._others(session_id) for entry in self._said(other)]
            words = query.lower().split()
            found = [
                each for each in found if _passes(each, wanted) and (tags is None or tags.fit(each.content))
            ]
            hits = [_hit(entry, words, explain) for entry in found]
            hits = [hit for hit in hits if hit.score > 0.0 and hit.score >= min_score]
            hits.sort(key=lambda hit: (hit.entry_id, hit.session_id, hit.source_range))
            hits.sort(key=lambda hit: (hit.score, hit.created_at), reverse=True)
            hits = _each_once(hits)
            most = min(limit, self._limits.hits)
            hits = in_time(hits[: looked_at(most)], most, explain=explain) if is_in_order else hits[:most]
            hits = [convert.asked_for(hit, query) for hit in hits]
            watched.records(hits)
        return convert.with_filters(hits, wanted, options)

    def _entries(self, session_id: str) -> list[StoredEntry]:
        found, _, _ = self._native.entries(
            session_id, None, None, (0, convert.MAX_INTEGER), convert.milliseconds(None)
        )
        return [convert.stored_entry(entry) for entry in found]

    def _others(self, session_id: str) -> list[str]:
        """The other sessions of its namespace."""
        own = self.open_log(session_id).state().namespace
        listed = self.sessions(own, limit=convert.MAX_INTEGER).sessions if own else ()
        return [each.session_id for each in listed if each.session_id != session_id]

    def _said(self, session_id: str) -> list[StoredEntry]:
        """The entries of the session, and entries of the messages in its context that others may find."""
        entries = self._entries(session_id)
        known = {(entry.source_range, entry.content) for entry in entries}
        for entry in self._sayings.in_context(session_id, self.open_log(session_id)):
            source = SourceRange(entry.start, entry.end)
            if (source, entry.content) not in known:
                at = convert.datetime_from(entry.created_at)
                entries.append(
                    StoredEntry(0, session_id, entry.content, source, entry.role, entry.name, entry.kind, at)
                )
        return entries

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _check(limit: int, ranker: Ranker | None, min_score: float) -> None:
    """Raises InvalidEntryError or ConfigError for arguments out of their bounds."""
    checked_limit(limit)
    if not 0.0 <= min_score <= 1.0:
        raise InvalidEntryError(f"min_score must be in 0..1, got {min_score}")
    if ranker is not None:
        raise ConfigError(
            f"a SimpleMemoryStore has one ranker; ranker must be None, got {ranker!r}", "ranker", ranker
        )


def _each_once(hits: list[SearchHit]) -> list[SearchHit]:
    """*hits*, each text once, with how often it was said."""
    alike: dict[str, list[SearchHit]] = {}
    for hit in hits:
        alike.setdefault(" ".join(hit.content.lower().split()).strip(".?!"), []).append(hit)
    return [_said(same) for same in alike.values()]


def _said(same: list[SearchHit]) -> SearchHit:
    if len(same) == 1:
        return same[0]
    times = [hit.created_at for hit in same]
    return replace(same[0], times=len(same), first_at=min(times), last_at=max(times))


def _passes(entry: StoredEntry, wanted: dict[str, Any]) -> bool:
    at = convert.milliseconds(entry.created_at)
    is_then = wanted.get("since", at) <= at < wanted.get("until", math.inf)
    return is_then and all(
        getattr(entry, name) == wanted[name] for name in ("role", "kind", "name") if name in wanted
    )


def _hit(entry: StoredEntry, words: list[str], explain: bool) -> SearchHit:
    text = entry.content.lower()
    found = [word in text for word in words]
    terms: list[dict[str, Any]] = [
        {"term": word, "found": has} for word, has in zip(words, found, strict=True)
    ]
    return SearchHit(
        content=entry.content,
        score=sum(found) / len(words) if words else 0.0,
        source_range=entry.source_range,
        entry_id=entry.entry_id,
        role=entry.role,
        created_at=entry.created_at,
        explain={"terms": terms} if explain else None,
        session_id=entry.session_id,
    )
