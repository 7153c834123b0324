"""What a model's own calls do in a session: searches are answered, large results are offloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from heapq import merge
from typing import Any, Protocol, cast, runtime_checkable

from siltstone import _native
from siltstone.compaction.base import Compaction
from siltstone.engine import Compacted, Failed, Outcome, offloading
from siltstone.llm import Steps
from siltstone.memory import convert
from siltstone.memory.database_log import Sayings
from siltstone.memory.entry import AgedSearchOptions, SearchHit, SearchOptions
from siltstone.messages import RawMessage, RecalledMessage
from siltstone.session.boundary import attempted
from siltstone.session.committing import Entering, commit
from siltstone.session.concurrency import TRIES, Call
from siltstone.session.core import SessionCore
from siltstone.session.state import SessionState
from siltstone.tokens import TokenRule
from siltstone.tools.base import AnswerLimit, Tool
from siltstone.tools.memory import Search, moment, searching_tool

# The answers of the tool ``memory_search``, where one step of the store searches and writes them.


@runtime_checkable
class AnswerStore(Protocol):
    """A store that searches a session and writes the answer of ``memory_search`` in one step."""

    def answer(
        self, session_id: str, query: str, limit: int, most: AnswerLimit
    ) -> tuple[str | list[SearchHit], int, str | None] | None:
        """The text, or the hits where it is too long; the number of damaged entries; the facts' revision."""


class Answering:
    """Answers the calls of one tool.

    Args:
        core: The session.
        store: Its store.
        limit: The limit of an answer.
        most_hits: The most hits of any search of the session; None for no such limit.
    """

    def __init__(
        self, core: SessionCore, store: AnswerStore, limit: AnswerLimit, most_hits: int | None
    ) -> None:
        self._core, self._store, self._limit, self._most_hits = core, store, limit, most_hits

    def __call__(self, query: str, limit: int) -> str | list[SearchHit] | None:
        """The answer, or the hits where it would be too long.

        None if hits must be compared with the last request, or put beside facts: a search has them.
        """
        core = self._core
        core.check_open()
        if core.requests.last is not None or core.knowing.had_facts():
            return None
        wanted = limit if self._most_hits is None else min(limit, self._most_hits)
        found = self._store.answer(core.session_id, query, wanted, self._limit)
        if found is None:
            return None
        answer, damaged, facts = found
        core.tell_damage(damaged)
        return answer if core.knowing.is_without_facts(facts) else None


def search_tool(
    search: Search,
    core: SessionCore,
    budget: int,
    most_hits: int | None,
    now: Callable[[], datetime],
    *,
    is_plain: bool,
) -> Tool:
    """The tool of the session over *search*, whose answers have at most *budget* tokens.

    Its store writes most answers, unless the tool searches a namespace, or Python counts the tokens, or
    it *is_plain*.
    """
    rule, direct = core.view.rule, None
    measure = rule.text_measure if not (is_plain or core.cross_session) else None
    if measure is not None and isinstance(core.store, AnswerStore):

        def when(at: int) -> str:
            return moment(datetime.fromtimestamp(at // 1000, UTC), now().tzinfo)

        direct = Answering(core, core.store, AnswerLimit(budget, measure, when), most_hits)
    return searching_tool(
        search,
        budget=budget,
        count=rule.count_text,
        cross_session=core.cross_session,
        now=now,
        direct=direct,
        is_plain=is_plain,
    )


# A search of the messages in context, which are no entries of the store yet.


class ContextSearch:
    """Finds messages in the context of a session, as its store finds entries. Vectors are not used.

    An index in memory has the messages. It grows with the log, and is made anew after a compaction.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._index: tuple[object, _native.Store] | None = None

    def search(self, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """At most *limit* messages, best first."""
        core, given = self._core, cast(AgedSearchOptions, options)
        conditions = convert.conditions_in(given, AgedSearchOptions)
        if "topic" in given or "entity" in given or not query.strip() or limit < 1:
            return []
        found = self._indexed().search(
            _NAME,
            query,
            _native.SearchOptions(
                limit=limit,
                ranker=given.get("ranker") or getattr(core.store, "ranker", None),
                min_score=given.get("min_score"),
                explain=given.get("explain"),
                now=convert.milliseconds(given.get("now")),
                **conditions,
            ),
            None,
        )
        hits = [convert.search_hit(hit, core.session_id, found.asked) for hit in found.hits]
        for hit in hits:
            object.__setattr__(hit, "entry_id", 0)
            object.__setattr__(hit, "session_id", core.session_id)
        return hits

    def _indexed(self) -> _native.Store:
        core, state = self._core, self._core.rows.state()
        version = state.next_seq, state.head and state.head.compaction_id, state.redactions
        if self._index is None or self._index[0] != version:
            said = Sayings().in_context(core.session_id, core.rows)
            native = _native.Store.open_memory()
            native.insert_entries(_NAME, said, convert.milliseconds(None))
            self._index = version, native
        return self._index[1]


_NAME = "context"  # of the session in the index in memory


def with_context(found: list[SearchHit], said: list[SearchHit]) -> list[SearchHit]:
    """Both, best first. A text that both have is one hit."""
    best: dict[str, SearchHit] = {}
    for hit in merge(found, said, key=lambda hit: -hit.score):
        text = " ".join(hit.content.lower().split())
        known = best.setdefault(text, hit)
        if known is not hit:
            first = min(known.first_at or known.created_at, hit.first_at or hit.created_at)
            last = max(known.last_at or known.created_at, hit.last_at or hit.created_at)
            best[text] = replace(known, times=known.times + hit.times, first_at=first, last_at=last)
    return list(best.values())


# Appends a large tool result: the log gets all of it, the view its head and tail, in one transaction.


def offload(
    core: SessionCore, call: Call, raw: RawMessage, tokens: int, rule: TokenRule, usage: Any
) -> Steps[range]:
    """Appends *raw*, and shows at most *tokens* of its results. Tries again if another worker was faster.

    A message that is small enough, or has no result, is appended as it is. If the cut fails, the message is
    appended uncut, so that it is never lost.
    """

    def begin() -> tuple[SessionState, Entering] | range:
        core.check_open()
        state = core.followed()
        if call.write_id and (answer := core.appended_before(call, 1)):
            return answer
        items = core.measured([raw], state)
        state.view.check_answers(items)
        return state, Entering(items, state.version, usage, call)

    for _ in range(0 if isinstance(raw, RecalledMessage) else TRIES):
        begun = core.locked(begin)
        if isinstance(begun, range):
            return begun
        state, entering = begun
        outcome = yield from _attempt(core, state, entering, tokens, rule)
        if isinstance(outcome, Compacted):
            return range(state.end, state.end + 1)
        if not (isinstance(outcome, Failed) and outcome.reason == "stale"):
            break
    return core.append((raw,), usage, call)


def _attempt(
    core: SessionCore, state: SessionState, entering: Entering, tokens: int, rule: TokenRule
) -> Steps[Outcome]:
    """One attempt to append the entering messages and cut them, in one transaction. No hook is asked."""
    read = replace(state, view=state.view.extended(entering.items))
    policy, trigger = offloading(state.end, tokens, rule)
    at = max(state.clock.boundary - 1, 0)

    def write(result: Compaction, before: int, after: int) -> int:
        return commit(
            core,
            result,
            read=read.view,
            at=at,
            policy=policy,
            trigger=trigger,
            tokens=(before, after),
            entering=entering,
        )

    return (yield from attempted(core, read, policy, trigger, at, is_emergency=True, commit=write))
