"""Searches and recalls of a session: what is found, and the block in the request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, NamedTuple

from siltstone import checks
from siltstone.archive.live import ContextArchive
from siltstone.compaction.base import Compactor
from siltstone.documented import bm25, cosine, hash_vector, hybrid_scores, passes, tokens
from siltstone.errors import EntryNotFoundError, StoreCorruptError
from siltstone.events import RecallFailed, RecallInjected
from siltstone.hooks import notify
from siltstone.knowledge import STANDING, Fact, find_facts
from siltstone.memory.base import Store, entries_of, sessions_of
from siltstone.memory.convert import MAX_INTEGER, datetime_from
from siltstone.memory.database_log import RecallRecord, record_of
from siltstone.memory.entry import AGENT_MIN_SCORE, FUSED_MORE, SearchScope, SourceRange, StoredEntry
from siltstone.memory.log import NewRecall
from siltstone.messages import Message, Part, RawMessage, RecalledMessage, indexable_texts, read_history
from siltstone.recall import Detail, FactLine, Recall, RecallBlock, RecallConfig, position, turn
from siltstone.recall.turn import lines, standing_block
from siltstone.session.boundary import Prepared
from siltstone.session.core import InContext, Outside, SessionCore
from siltstone.session.learning import known
from siltstone.session.rows import UnwrittenRecall
from siltstone.session.state import SessionState, View, numbers
from siltstone.tools.base import best_part

# The records of a session's recalls, for its users.


def recalls(core: SessionCore, limit: int) -> list[RecallRecord]:
    """The newest recalls of the session, newest first, at most *limit*, including ones not written yet.

    Raises:
        ConfigError: *limit* is below 1.
    """
    checks.at_least("limit", limit, 1)

    def step() -> list[NewRecall]:
        core.check_open()
        found = {row.seq: row for row in core.rows.recalls(limit)}
        found |= {row.seq: row for row in core.unwritten()}
        return [found[seq] for seq in sorted(found, reverse=True)[:limit]]

    return [record_of(row) for row in core.locked(step)]


# The documented search of a session: by words, hashed vectors, age, and a minimum score.

DAY: Final = 86_400.0  #: seconds


@dataclass(frozen=True, slots=True)
class _Known:
    """The tokens and the vector of an entry, computed once."""

    tokens: list[str]
    vector: list[float]


class DocumentedSearch:
    """The documented search over the entries of sessions. Each query reads all entries.

    Formulas and constants are in ``siltstone.documented``. siltstone's default search ranks better, and takes
    microseconds at any size. Tokens and vectors of an entry are computed once.

    Args:
        store: The store.
        config: The minimum score, the maximum number of entries, and their maximum age in days.
        now: The time, in seconds since 1970.
    """

    def __init__(self, store: Store, config: RecallConfig, now: Callable[[], float]) -> None:
        self._store, self._config, self._now = store, config, now
        self._known: dict[int, _Known] = {}

    def find(
        self, query: str, limit: int, sessions: Iterable[str], is_shown: Callable[[str, SourceRange], bool]
    ) -> list[Detail]:
        """The entries of *sessions* that pass the documented filter, best first.

        Entries whose messages are in context are left out last, since they count in the weights of words.
        """
        entries = self._entries(sessions)
        known = [self._of(entry) for entry in entries]
        # Words of entries that left, as those of a forgotten text, leave here too.
        self._known = {entry.entry_id: each for entry, each in zip(entries, known, strict=True)}
        asked = hash_vector(query)
        words = dict(enumerate(bm25(query, [each.tokens for each in known])))
        vectors = {place: cosine(asked, each.vector) for place, each in enumerate(known)}
        by_words = _best({place: score for place, score in words.items() if score > 0}, 2 * limit)
        by_vector = _best({place: score for place, score in vectors.items() if score > 0}, 2 * limit)
        moment = self._now()
        ages = {place: (moment - entry.created_at.timestamp()) / DAY for place, entry in enumerate(entries)}
        scores = hybrid_scores(by_vector, by_words, ages)
        kept = [
            (score, entries[place])
            for place, score in scores.items()
            if passes(score, self._config.min_score, by_vector=place in by_vector, by_words=place in by_words)
        ]
        kept.sort(key=lambda each: (-each[0], -each[1].created_at.timestamp(), each[1].entry_id))
        return [
            Detail(entry.content, score, entry.role, entry.created_at, entry.entry_id)
            for score, entry in kept
            if not is_shown(entry.session_id, entry.source_range)
        ][:limit]

    def _entries(self, sessions: Iterable[str]) -> list[StoredEntry]:
        """The newest entries, at most ``max_segments``, without entries that are too old."""
        config, found = self._config, list[StoredEntry]()
        for session in sessions:
            found += entries_of(self._store, session)
        if config.eviction_days:
            oldest = self._now() - config.eviction_days * DAY
            found = [entry for entry in found if entry.created_at.timestamp() >= oldest]
        found.sort(key=lambda entry: (entry.created_at, entry.entry_id))
        return found[-config.max_segments :]

    def _of(self, entry: StoredEntry) -> _Known:
        known = self._known.get(entry.entry_id)
        if known is None:
            known = self._known[entry.entry_id] = _Known(tokens(entry.content), hash_vector(entry.content))
        return known


def _best(scores: dict[int, float], count: int) -> dict[int, float]:
    """The *count* best of *scores*."""
    ranked = sorted(scores, key=lambda place: (-scores[place], place))
    return {place: scores[place] for place in ranked[:count]}


_log = logging.getLogger("siltstone")

_NEWEST: Final = 100  #: messages that are looked at for a call of a tool
_OFTEN: Final = 3  #: times that a wish was said, from which on it counts no more
MOST_QUERY = 4_000  #: last characters of a query that are used: the question mostly follows a pasted text


class Recalling:
    """The recall of one session: it computes the block of a turn, and puts it into requests."""

    def __init__(
        self, core: SessionCore, config: RecallConfig, in_context: InContext, policy: Compactor | None
    ) -> None:
        count = core.view.rule.count_text

        def excerpt(query: str, text: str, tokens: int) -> str:
            return best_part(text, query[-MOST_QUERY:], tokens, count)

        self._core, self._config = core, config
        self._policy = policy
        self._source = _Source(core, config, in_context)
        self._recall = Recall(config, self._source, count, excerpt, core.view.rule.text_measure)
        self._told: RecallBlock | None = None
        self._stands = 0, 0  # the message behind the block, and the tokens of the wishes
        self._written: tuple[RecallBlock, RecalledMessage, int] | None = None
        self._standing: tuple[object, int, RecalledMessage | None] | None = None
        # One token more, because the block is estimated apart from its message, and both are rounded.
        self._around = _size(core.view, RecalledMessage("")) + 1
        core.recall = config

    def forget(self) -> None:
        """Makes the next request compute its block again, because the memory has changed."""
        self._recall.forget()
        self._source.wishes = None

    def leave_out(self, state: SessionState) -> None:
        """Leaves the block out for the rest of the turn, since the request was refused as too large."""
        self._recall.leave_out(state.view.read(), state.version.redactions)

    def text(self, asked: str | Sequence[RawMessage]) -> str:
        """The block for a query, or for the last user messages of a list; empty if nothing is relevant."""
        query, history = (asked, ()) if isinstance(asked, str) else (None, read_history(list(asked)))
        return self._recall.search(history, context_window=self._core.context_window, query=query).text

    def placed(self, state: SessionState, prepared: Prepared) -> Prepared:
        """*prepared* with the block of its turn; hooks hear of it. *state* has the view of *prepared*.

        If recall fails, the request goes out without a block.
        """
        window, began = self._core.context_window, perf_counter()
        try:
            block, changes = self._placed(state, prepared, window)
        except Exception as error:
            _log.exception("nothing was recalled in session %r", self._core.session_id)
            self._told = None
            failed = RecallFailed(self._core.session_id, str(error), type(error).__name__)
            notify(self._core.hooks, failed)
            return replace(prepared, told=(*prepared.told, failed))
        if block is self._told:
            return replace(prepared, **changes) if changes else prepared  # the same block again
        self._told = block
        cap = self._config.cap(window)
        core = self._core
        seconds = perf_counter() - began
        core.recalls[state.end] = UnwrittenRecall(core.milliseconds(), block, cap, seconds, *self._stands)
        event = RecallInjected(
            self._core.session_id, block.tokens, cap, block.knowledge_count, block.detail_count, block.reason
        )
        notify(self._core.hooks, event)
        return replace(prepared, told=(*prepared.told, event), **changes)

    def _placed(
        self, state: SessionState, prepared: Prepared, window: int | None
    ) -> tuple[RecallBlock, dict[str, Any]]:
        """The block of the turn, and the fields of *prepared* that it changes."""
        core = self._core
        gone, view = set(numbers(prepared.trimmed)), state.view.sendable()
        history = [item.message for item in view if item.message.seq not in gone] if gone else view.read()
        room = None
        if window is not None:
            most = window if self._policy is None else self._policy.most_tokens(window)
            factor, beside = core.counts
            room = int((most - beside) / factor) - prepared.tokens - self._around
        standing, of_wishes = self._pinned(state, window, room)
        if standing is not None and room is not None:
            room -= of_wishes
        block = self._recall.block(
            history, context_window=window, room=room, version=state.version.redactions
        )
        place = position(history, self._config.placement)
        self._stands = (history[place].seq if place < len(history) else state.end), of_wishes
        if not block.text and standing is None:
            return block, {}
        messages, added = list(prepared.messages), of_wishes
        if block.text:
            if self._written is None or self._written[0] is not block:
                raw = RecalledMessage(block.text)
                self._written = block, raw, _size(state.view, raw)
            messages.insert(place, self._written[1])
            added += self._written[2]
        if standing is not None:  # where it breaks no cached prefix: it changes with the summary before it
            messages.insert(position(history, "head"), standing)
        return block, {
            "messages": messages,
            "tokens": prepared.tokens + added,
            "recalled": block.text,
            "standing": "" if standing is None else standing["content"],
        }

    def _pinned(
        self, state: SessionState, window: int | None, room: int | None
    ) -> tuple[RecalledMessage | None, int]:
        """The message with the standing wishes that are not in context, and its tokens."""
        cap = self._config.hard_cap_tokens // 10 if window is None else window // 20
        cap = cap if room is None else max(0, min(cap, room))
        wishes = self._source.standing(state)
        if self._standing is None or self._standing[0] is not wishes or self._standing[1] != cap:
            rule = state.view.rule
            text = standing_block(wishes, cap, rule.count_text, rule.text_measure) if wishes else ""
            self._standing = wishes, cap, RecalledMessage(text) if text else None
            self._source.pinned = text
        placed = self._standing[2]
        return placed, 0 if placed is None else _size(state.view, placed)


def _said(fact: Fact) -> str:
    """*fact* with the day on which it was said, and who said it."""
    who = f" {fact.speaker}" if fact.speaker else ""
    return f"{fact.content} ({datetime_from(fact.created_at):%Y-%m-%d}{who})"


def _beside(store: Store, session_id: str, entry_id: int, distance: int) -> list[tuple[int, StoredEntry]]:
    """The entries stored directly before and after an entry, each with its distance."""
    found: list[tuple[int, StoredEntry]] = []
    for step in (-1, 1):
        for away in range(1, distance + 1):
            try:
                entry = store.get(entry_id + step * away)
            except (EntryNotFoundError, StoreCorruptError):
                break
            if entry.session_id != session_id:
                break
            found.append((away, entry))
    return found


def _size(view: View, raw: RecalledMessage) -> int:
    """The tokens of *raw*, as *view* counts."""
    part = Part("text", raw["content"])
    return view.rule.tokens(view.rule.units(Message(0, "user", (part,), raw, "any", "recalled_context")))


class _Wishes(NamedTuple):
    """The standing wishes that are not in context: what they were read of, until when, and their lines."""

    end: int
    facts: Sequence[Fact]
    outside: Outside
    until: int
    lines: list[FactLine]


_NO_WISHES: Final[list[FactLine]] = []


class _Source:
    """The source of a recall: the session's entries that are not in context, and its facts."""

    def __init__(self, core: SessionCore, config: RecallConfig, in_context: InContext) -> None:
        self._core, self._config, self._in_context = core, config, in_context
        self._documented: DocumentedSearch | None = None
        if config.score_filter == "documented":
            self._documented = DocumentedSearch(core.store, config, lambda: core.milliseconds() / 1000)
        self._session_of: dict[int, str] = {}  # entry id to session id, for the hits of the last search
        self._context: tuple[Outside, turn.RecallContext] | None = None
        self.wishes: _Wishes | None = None
        self.pinned = ""  # the block of standing wishes in the request

    def details(self, query: str, limit: int) -> list[Detail]:
        """The entries that match *query* and are not in context, best first."""
        core, asked = self._core, query[-MOST_QUERY:]
        if self._documented is not None and core.archive is not None:
            return self._archived(core.archive, asked, limit)
        if self._documented is not None:
            return self._documented.find(asked, limit, self._sessions(), self._in_context.shows)
        scope: SearchScope = "namespace" if self._core.cross_session else "session"
        hits = core.store.search(core.session_id, asked, limit, scope=scope)
        core.tell_damage()
        self._session_of = {hit.entry_id: hit.session_id for hit in hits}
        return [
            Detail(hit.content, hit.score, hit.role, hit.created_at, hit.entry_id)
            for hit in hits
            if not self._in_context.shows(hit.session_id, hit.source_range)
        ]

    def block(
        self, queries: Sequence[str], limit: int, facts: Sequence[FactLine], options: turn.BlockOptions
    ) -> RecallBlock | None:
        """The block in one step of the store; None if the store has no such step."""
        core, config = self._core, self._config
        # It searches, adds the neighbours of the best hits and writes the block.
        recall: Callable[..., turn.Recalled] | None = getattr(core.store, "recall", None)
        if recall is None or self._documented is not None:
            return None
        outside = self._in_context.outside()
        if self._context is None or self._context[0] is not outside:
            self._context = outside, turn.RecallContext(outside.left, sorted(outside.substituted))
        conditions = turn.RecallConditions(
            (self.least(), turn.WITH_THE_BEST, turn.NEIGHBOUR),
            config.expand_neighbors,
            self._context[1],
            core.state.end,
            core.cross_session,
        )
        asked = [query[-MOST_QUERY:] for query in queries]
        found = recall(core.session_id, asked, limit, conditions, turn.WRITER, turn.lines(facts), options)
        core.tell_damage(found.damaged)
        return turn.block_of(
            found.text,
            found.tokens,
            found.facts,
            found.details,
            found.considered,
            found.below,
            is_any=found.is_any,
        )

    def least(self) -> float:
        """The least score of the best detail: that of agents where one of the newest messages calls a tool.

        Our own tools for the memory do not count, since a chat has them too.
        """
        if self._config.auto_recall_min_score is not None:
            return self._config.min_score
        more = FUSED_MORE if getattr(self._core.store, "ranker", None) == "fused" else 0.0
        for message in self._core.state.view.read()[-_NEWEST:]:
            for part in message.parts:
                if part.kind == "tool_call" and not (part.name or "").startswith("memory_"):
                    return AGENT_MIN_SCORE + more
        return self._config.min_score + more

    def _archived(self, archive: ContextArchive, query: str, limit: int) -> list[Detail]:
        """:meth:`details` from the files of the archive. They keep vectors, so a restart embeds nothing."""
        view = frozenset(filter(None, indexable_texts(self._shown())))
        found = archive.search(
            query,
            limit + len(view),
            session_id=None if self._core.cross_session else self._core.session_id,
            min_score=self._config.min_score,
            now=self._core.milliseconds(),
        )
        return [
            Detail(each.content, score, each.role, datetime_from(each.timestamp))
            for each, score in found
            if each.content not in view or each.session_id != self._core.session_id
        ][:limit]

    def _shown(self) -> Iterator[Message]:
        """The messages in context."""
        request = self._core.requests.last
        shown = None if request is None else set(numbers(request.shown))
        for item in self._core.view:
            if shown is None or item.message.seq in shown:
                yield item.message

    def _sessions(self) -> list[str]:
        """The sessions to search: this one, or all of its namespace."""
        core = self._core
        namespace = core.rows.state().namespace if self._core.cross_session else ""
        if not namespace:
            return [core.session_id]

        return [each.session_id for each in sessions_of(core.store, namespace)]

    def neighbours(self, detail: Detail, distance: int) -> list[tuple[int, Detail]]:
        """The entries of the session that were stored directly before and after *detail*."""
        home = self._session_of.get(detail.entry_id, self._core.session_id)
        found, ended = list[tuple[int, Detail]](), set[bool]()
        for away, entry in (
            _beside(self._core.store, home, detail.entry_id, distance) if detail.entry_id else ()
        ):
            side = entry.entry_id < detail.entry_id
            if side in ended or self._in_context.shows(home, entry.source_range):
                ended.add(side)
                continue
            near = Detail(entry.content, 0.0, entry.role, entry.created_at, entry.entry_id)
            found.append((away, near))
        return found

    def facts(self, query: str, limit: int) -> list[FactLine]:
        """The facts that match *query*, best first."""
        held = known(self._core, self._core.state)
        found = find_facts(held, query[-MOST_QUERY:], limit, as_of=self._core.milliseconds())
        if self._documented is not None:
            return [FactLine(fact.type, fact.content, score) for fact, score in found]
        told = [
            # A wish for which the block of wishes has no room comes before all other facts.
            FactLine(fact.type, _said(fact), score + (STANDING in fact.tags))
            for fact, score in found
            if not (STANDING in fact.tags and self._is_shown(fact))
        ]
        return [each for each in told if lines([each])[0] not in self.pinned]

    def standing(self, state: SessionState) -> list[FactLine]:
        """The standing wishes that are not in context, oldest first; what was said often scores most.

        The same list is returned until they change.
        """
        if not self._config.standing:
            return _NO_WISHES
        outside, moment, last = self._in_context.outside(), self._core.milliseconds(), self.wishes
        is_valid = last is not None and last.outside is outside and moment < last.until
        if last is not None and is_valid and last.end == state.end:
            return last.lines
        facts = known(self._core, state).facts()
        if last is None or not is_valid or last.facts is not facts:
            last = self._read_wishes(facts, outside, moment)
        self.wishes = last._replace(end=state.end)
        return last.lines

    def _read_wishes(self, facts: Sequence[Fact], outside: Outside, moment: int) -> _Wishes:
        wishes = [
            fact
            for fact in facts
            if STANDING in fact.tags and fact.holds_at(moment) and not self._is_shown(fact)
        ]
        wishes.sort(key=lambda fact: (min(fact.support, _OFTEN), fact.created_at))
        ranked = sorted(enumerate(wishes), key=lambda each: each[1].created_at)
        lines_of = [FactLine(fact.type, _said(fact), rank) for rank, fact in ranked]
        until = min(
            (fact.valid_until for fact in wishes if fact.valid_until is not None), default=MAX_INTEGER
        )
        return _Wishes(0, facts, outside, until, lines_of)

    def _is_shown(self, fact: Fact) -> bool:
        """Whether the context has the messages of *fact*."""
        shows = self._in_context.shows
        return any(shows(fact.session_id, SourceRange(*place)) for place in fact.source_ranges)
