"""The facts, corrections and rules of a session, and how much of its log was read for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from siltstone.memory.base import Store
from siltstone.session.concurrency import Slot
from siltstone.session.state import RangeSet, common, minus, union

if TYPE_CHECKING:
    from siltstone.knowledge import Fact, KnowledgeConfig, Marked, StoredFacts
    from siltstone.knowledge.search import Held


TRIES: Final = 3  #: failed attempts of a model on one batch of messages, before the batch is skipped


@dataclass(frozen=True, slots=True)
class Progress:
    """Which messages of a session were read for facts, as ranges of sequence numbers.

    Attributes:
        patterns: Messages that were read by patterns.
        model: Messages that a model has read, or that were discarded while no model was configured.
        tries: The number of failed attempts of the model on the next batch.
        archived: Messages that are in the files of an archive.
        redactions: The session's count of redactions when these files were written. If the count differs now,
            the files may still have a forgotten text.
    """

    patterns: RangeSet = ()
    model: RangeSet = ()
    tries: int = 0
    archived: RangeSet = ()
    redactions: int = 0

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Progress:
        """The progress from its stored form. For an unreadable form no progress: all is read again."""
        try:
            patterns, model, archived = (
                _ranges(kept.get(each)) for each in ("patterns", "model", "archived")
            )
            tries, redactions = int(kept.get("tries", 0)), int(kept.get("redactions", 0))
            return cls(patterns, model, tries, archived, redactions)
        except (TypeError, ValueError):
            return cls()

    @property
    def kept(self) -> dict[str, Any]:
        """The stored form, for JSON."""
        return {
            "patterns": [list(span) for span in self.patterns],
            "model": [list(span) for span in self.model],
            "tries": self.tries,
            "archived": [list(span) for span in self.archived],
            "redactions": self.redactions,
        }

    def without(self, spans: RangeSet) -> Progress:
        """The progress as if no message of *spans* had been read."""
        return replace(self, patterns=minus(self.patterns, spans), model=minus(self.model, spans))


class Knowing:
    """What a session knows: its facts, and the settings by which it learns them.

    Args:
        store: The session's store.
        session_id: The session.
        namespace: The namespace whose facts it shares, ``""`` for none.
        config: The settings for learning; None if the session learns nothing by itself.
        redact: Removes secrets from texts before they are written.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        namespace: str,
        config: KnowledgeConfig | None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.is_learning: Final = config is not None
        self._config = config
        self._store, self._session_id, self._redact = store, session_id, redact
        self.slot: Final = Slot()  # held by the call that asks a model for facts
        self.is_due = False  # whether there are messages for a model to read
        self.results_to = 0  # the messages before this one were looked through for results of tools
        self.wishes_to = 0  # the messages before this one were read for standing wishes
        self.is_late = False  # whether a model took too long: it may have one slot for us and for the host
        self.is_shared: Final = namespace != ""
        self._namespace = namespace
        self._facts: StoredFacts | None = None
        self._making: Final = Lock()
        self._on_line: tuple[object, OnLine] | None = None

    @property
    def config(self) -> KnowledgeConfig:
        """The settings for learning, and for the number of facts."""
        if self._config is None:
            from siltstone.knowledge import KnowledgeConfig

            self._config = KnowledgeConfig()
        return self._config

    @property
    def facts(self) -> StoredFacts:
        """The facts."""
        if self._facts is None:
            with self._making:  # StoredFacts has a lock, so all threads must share one object
                if self._facts is None:
                    self._facts = self._made()
        return self._facts

    def has_facts(self) -> bool:
        """Whether the store has facts of the session or of its namespace, deleted ones included."""
        return bool(self.facts.read()[1])

    def is_without_facts(self, revision: str | None) -> bool:
        """Whether there are no such facts in a store whose ``facts_revision`` is *revision*."""
        known = None if self._facts is None else self._facts.known
        if revision is None or known is None or known[0] != revision:
            return not self.has_facts()
        return not known[1]

    def had_facts(self) -> bool:
        """Whether there were such facts when they were last read."""
        known = None if self._facts is None else self._facts.known
        return known is not None and bool(known[1])

    def _made(self) -> StoredFacts:
        from siltstone.knowledge import StoredFacts

        config = self.config
        return StoredFacts(
            self._store,
            self._session_id,
            namespace=self._namespace,
            redact=self._redact,
            max_facts=config.max_facts,
            max_corrections=config.max_corrections,
            dimensions=config.dimensions if config.fact_search == "hybrid" else None,
        )

    def on_line(self, at: object, line: Callable[[], RangeSet]) -> OnLine:
        """The facts of the session on its *line*. The result is kept until *at* changes."""
        known = self._on_line
        if known is None or known[0] != at:
            known = self._on_line = at, OnLine(self.facts, self._session_id, line())
        return known[1]

    @property
    def progress(self) -> Progress:
        """Which messages of the session were read."""
        return Progress.of(self.facts.progress())

    def marked(self, progress: Progress) -> Marked:
        """The facts, for a write that stores *progress* in the same transaction."""
        from siltstone.knowledge import Marked

        return Marked(self.facts, progress.kept)


class OnLine:
    """The facts that are known on the current line of a session.

    :class:`StoredFacts` has the facts of all lines.

    A fact from messages of a left branch, or from undone messages, is not known on this line, and a fact that
    it had superseded holds again. Facts without a place in the log, and facts of other sessions, are always
    known. Facts are read and indexed once, until one changes.

    Args:
        store: The facts of the session, and of sessions that share with it.
        session_id: The session.
        line: The messages that lead to its view.
    """

    def __init__(self, store: StoredFacts, session_id: str, line: RangeSet) -> None:
        self.store, self.session_id, self.line = store, session_id, line
        self._known: tuple[str | None, Sequence[Fact]] | None = None
        self._held: tuple[Sequence[Fact], Held] | None = None

    def facts(self) -> Sequence[Fact]:
        """The facts that are known on the line."""
        revision, found = self.store.read()
        known = self._known
        if known is not None and known[0] == revision is not None:
            return known[1]
        hidden = {fact.id for fact in found if not self._is_known(fact)}
        facts = [
            replace(fact, superseded_by=None, superseded_at=None) if fact.superseded_by in hidden else fact
            for fact in found
            if fact.id not in hidden
        ]
        self._known = revision, facts
        return facts

    def held(self, moment: int) -> Held:
        """The facts that hold at *moment*, with their index."""
        from siltstone.knowledge.search import Held

        facts, made = self.facts(), self._held
        if made is None or made[0] is not facts or not made[1].is_at(moment):
            made = self._held = facts, Held.at(self, moment)
        return made[1]

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts*."""
        self.store.put(facts)

    def words(self, fact: Fact) -> Sequence[str]:
        """The tokens of *fact*, as the store keeps them."""
        return self.store.words(fact)

    def vectors(self) -> Mapping[str, Sequence[float]]:
        """The vectors of the facts, as the store keeps them."""
        return self.store.vectors()

    def _is_known(self, fact: Fact) -> bool:
        if fact.session_id != self.session_id or not fact.source_ranges:
            return True
        return bool(common(union(fact.source_ranges), self.line))


def _ranges(kept: Any) -> RangeSet:
    return union((int(start), int(end)) for start, end in kept or ())
