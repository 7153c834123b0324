"""The part that both kinds of session share: flows that ask for models, properties, and tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias, Unpack

from siltstone import checks, errors
from siltstone.compaction.base import Compactor, Reason, Trigger, check_policy
from siltstone.errors import ConfigError, SessionBusyError, StoreError, StoreUnavailableError, refuse
from siltstone.llm import Steps, UsageRecord
from siltstone.memory.base import Store, hurried
from siltstone.memory.entry import ForgetCriteria, ForgetReport, SearchHit, SearchOptions
from siltstone.memory.limits import checked_limit
from siltstone.messages import RawMessage, SummaryMessage, unmarked
from siltstone.session.background import Job
from siltstone.session.boundary import Prepared, boundary, compaction, in_flight, instructed, landed
from siltstone.session.concurrency import Call
from siltstone.session.core import InContext
from siltstone.session.counters import LearnedLimit
from siltstone.session.opening import Opened, check_text
from siltstone.session.state import Request, SessionState, count
from siltstone.systems.base import can_extract

if TYPE_CHECKING:
    from siltstone.engine import Outcome
    from siltstone.knowledge import Rule
    from siltstone.session.compactions import CompactionRecord
    from siltstone.session.recalling import Recalling
    from siltstone.session.tools import ContextSearch
    from siltstone.tools.base import Tool
    from siltstone.tools.memory import SavedMemory, Writer

    _Find: TypeAlias = Callable[[str, int, SearchOptions], list[SearchHit]]
    MadeTool: TypeAlias = tuple[object, Tool]  # for what it was made, and the tool


_log = logging.getLogger("siltstone")

COMPACTION_TIMEOUT = 600.0  #: seconds that a call waits for a compaction of another thread
CLOSING_SECONDS: Final = 0.9  #: seconds that ``close`` waits for a reader of facts
OFFLOAD_TOKENS = 1_000  #: tokens of an offloaded result that stay in view, by default
_WHOLE: Final = 1 << 30  #: tokens: no answer is larger
WISH_SPACING = 3  # boundaries between the last attempt and an attempt that the model asks for


class OwnPolicy:
    """The type of :data:`OWN_POLICY`."""

    def __repr__(self) -> str:
        return "OWN_POLICY"


OWN_POLICY: Final = OwnPolicy()
"""Stands for "the policy that the session was opened with", since None means "no policy"."""


class SessionCalls:
    """Makes the flows of a session. A driver runs each flow, and asks the models.

    Beside the session's state this object holds only answers that can be computed again.
    """

    def __init__(self, opened: Opened) -> None:
        self.core = opened.core
        self.policy = opened.policy
        preset = opened.preset
        self._most_hits = None if preset is None else preset.most_hits
        self._is_plain, self._instructs = (
            (False, "") if preset is None else (preset.is_plain, preset.instructs)
        )
        if self._instructs:
            from siltstone.knowledge.distill import HEAD
            from siltstone.tools.base import texts

            self.core.notes = HEAD, "{heading}\n{before}".format_map(texts()["skill"])
        self._time_zone = opened.time_zone
        if opened.policy is not None and opened.policy.shapes_request:
            opened.core.requests.last = Request()
        self._in_context = InContext(opened.core)
        self._context: ContextSearch | None = None
        self._is_documented = opened.preset is not None and opened.preset.documented
        self.recalling = self._recalling(opened)
        self._allow_forget = opened.allow_forget
        self._last: tuple[SessionState, Prepared] | None = None
        self._told_rules: tuple[int | None, str] | None = None  # for which request they were made
        self.asked: Trigger | None = None
        self._retried = (0, 0)  # the end of the log at the last recovery, and the recoveries at that end

    def _recalling(self, opened: Opened) -> Recalling | None:
        if opened.recall is None:
            return None
        from siltstone.session.recalling import Recalling

        return Recalling(opened.core, opened.recall, self._in_context, opened.policy)

    def known(self, policy: Compactor | OwnPolicy | None, recall: bool = True) -> Prepared | None:
        """The last answer of ``prepare`` if nothing has changed since, else None."""
        last = self._last
        if not isinstance(policy, OwnPolicy) or last is None or self.core.background.is_due:
            return None
        core, (before, prepared) = self.core, last
        state = core.state
        if state is not before and not _is_as_before(state, before):
            return None  # as after every append: the caller finds out whether the session is open
        core.check_open()
        is_known = (now := core.follow()) is before or _is_as_before(now, before)
        return self._answer(before, prepared, recall) if is_known else None

    def boundary(
        self, policy: Compactor | OwnPolicy | None, request_bytes: int | None = None, recall: bool = True
    ) -> Steps[Prepared]:
        """``prepare``."""
        if request_bytes is not None:
            checks.at_least("request_bytes", request_bytes, 0)
        if (answer := self.known(policy, recall)) is not None:  # this call waited for an equal one
            return answer
        if self.core.knowing.is_learning:
            from siltstone.session.learning import learn_results, learn_standing

            learn_results(self.core)  # of what a host's list has brought
            if self.recalling is not None:
                learn_standing(self.core)
        own = isinstance(policy, OwnPolicy)
        chosen = self.policy if isinstance(policy, OwnPolicy) else policy
        if not own and chosen is not None:  # the session's own was checked when it was opened
            check_policy(chosen)
            # By the given window alone: the emergency fit keeps within a learned one, for any threshold.
            chosen.check_overhead(self.core.reserved_tokens, self.core.given_window)
        asked = self.asked if chosen is not None else None
        if asked is not None:
            self.asked = None
        if chosen is not None and chosen.shapes_request:
            from siltstone.session.request_policy import shaped_boundary

            state, prepared = yield from shaped_boundary(self.core, chosen, asked, request_bytes)
        else:
            self.core.requests.last = None  # the view is sent
            state, prepared = yield from boundary(self.core, chosen, asked, request_bytes)
        self._last = (state, prepared) if own else None
        return self._answer(state, prepared, recall)

    def _answer(self, state: SessionState, prepared: Prepared, recall: bool) -> Prepared:
        """A copy of *prepared* with its own lists, with recalled context and the preset's instructions."""
        answer = self._sent(state, prepared)
        if self.recalling and recall:
            answer = self.recalling.placed(state, answer)
        if self._instructs:
            answer = instructed(self.core, self._instructions(), answer)
        self.core.recalled_tokens = answer.tokens - prepared.tokens
        return answer

    def recovery(self, error: Exception) -> Steps[Prepared]:
        """``recover``. The session learns the largest allowed request from *error*."""
        if not isinstance(error, BaseException):
            refuse("error", "the exception that the provider's client raised", error)
        from siltstone.session.recovery import learn
        from siltstone.session.request_policy import recovered

        if self.policy is not None:
            learn(self.core, self.policy, error)
        seen, retries = self._retried
        retries = retries if seen == self.core.next_seq else 0
        state, prepared = yield from recovered(self.core, self.policy, error, retries)
        self._retried = (self.core.next_seq, retries + 1)
        self._last = (state, prepared)
        if self.recalling is not None:
            self.recalling.leave_out(state)
        return self._sent(state, prepared)

    def _sent(self, state: SessionState, prepared: Prepared) -> Prepared:
        """A copy of *prepared*. The model sees a documented summary as its system writes it, without a mark.

        In a host's list the mark stays, since it may be all that comes back; so it does in ``history``.
        """
        messages = list(prepared.messages)
        if self._is_documented and state.host is None and state.head is not None:
            messages = list(map(_without_mark, messages))
        return replace(prepared, messages=messages, history=list(prepared.history))

    def forgetting(self, criteria: ForgetCriteria) -> Steps[ForgetReport]:
        """``forget``."""
        from siltstone.session.learning import forgetting

        report = yield from forgetting(self.core, criteria)
        self.recall_anew()
        return report

    def recall_anew(self) -> None:
        """Drops the last recalled block and the rules, because the memory has changed."""
        self._told_rules = None
        if self.recalling is not None:
            self.recalling.forget()

    def wish(self, focus: str | None) -> dict[str, Any]:
        """Notes that the model asked for a compaction. Returns the answer of its tool."""
        self.core.check_open()
        clock = self.core.clock
        if self.policy is None:
            return {"status": "skipped", "reason": "no_policy"}
        since = None if clock.last_attempt is None else clock.boundary - clock.last_attempt
        if since is not None and since < WISH_SPACING:
            return {"status": "skipped", "reason": "cooling_down", "steps_left": WISH_SPACING - since}
        self.asked, self._last = self._trigger("model", focus), None
        return {"status": "scheduled", "context_tokens": self.core.view.tokens}

    def compaction(self, focus: str | None) -> Steps[Outcome]:
        """``compact``."""
        from siltstone.engine import Skipped

        self.core.check_open()
        if self.policy is None:
            view = self.core.follow().view
            message = "the session was opened without a policy"
            return Skipped(view.raws(), view.tokens, view.tokens, reason="no_policy", message=message)
        if self.policy.shapes_request:
            view = self.core.follow().view.recounted(self.policy.token_rule)
            message = f"the policy {self.policy.name!r} shapes each request, and leaves the history as it is"
            return Skipped(view.raws(), view.tokens, view.tokens, reason="not_supported", message=message)
        landed(self.core, self.policy)
        if (job := self.core.background.job) and not job.compacts:
            self.core.background.cancel()
        if self.core.background.is_running:
            return self.in_flight()
        at = max(self.core.follow().clock.boundary - 1, 0)
        return (yield from compaction(self.core, self.policy, self._trigger("manual", focus), at))

    def end_background(self) -> None:
        """Ends the background compaction, and counts its usage. Reads what is left of the user's wishes."""
        if self.recalling is not None and not self.core.is_closed:
            from siltstone.session.learning import learn_standing

            learn_standing(self.core, least=1)
        job = self.core.background.cancel()
        outcome = None if job is None else job.outcome([], 0)
        if outcome is not None:
            self.core.charge(outcome.usage)

    def resummarizing(self, focus: str | None) -> Steps[Outcome]:
        """``resummarize``."""
        from siltstone.engine import Skipped

        self.core.check_open()
        if self.policy is not None and self.policy.resummarize((), None, None) is not None:
            at = max(self.core.follow().clock.boundary - 1, 0)
            trigger = replace(self._trigger("manual", focus), fold=True)
            return (yield from compaction(self.core, self.policy, trigger, at))
        view, name = self.core.follow().view, "no policy"
        if self.policy is not None:
            view, name = view.recounted(self.policy.token_rule), f"the policy {self.policy.name!r}"
        message = f"{name} cannot write a summary anew; ThresholdCompactor can"
        return Skipped(view.raws(), view.tokens, view.tokens, reason="not_supported", message=message)

    def chronicle(self) -> Tool:
        """The tool ``chronicle``. Its answers are limited to a share of the window."""
        from siltstone.session.compactions import chronicle_tool

        return chronicle_tool(self.core, self.policy, self._budget())

    def check_reporter(self, call: str) -> Any:
        """The policy; raises ConfigError if it has no memory status."""
        if self.policy is None or self.policy.status((), None) is None:
            name = "no policy" if self.policy is None else f"the policy {self.policy.name!r}"
            raise ConfigError(
                f"{call} is a call of waterfall summaries, and the session has {name}", "policy", self.policy
            )
        return self.policy

    def offload(self, call: Call, raw: RawMessage, tokens: int, usage: Any) -> Steps[range]:
        """``offload``."""
        from siltstone.engine import check_offload
        from siltstone.session.tools import offload

        check_offload(tokens)
        rule = self.core.view.rule if self.policy is None else self.policy.token_rule
        return (yield from offload(self.core, call, raw, tokens, rule, usage))

    def in_flight(self) -> Outcome:
        """The outcome of ``compact`` while another call that may compact is under way."""
        return in_flight(self.core, self.policy)

    def memory_search(self, known: MadeTool | None = None) -> MadeTool:
        """The tool ``memory_search``, and for what it was made; *known* if it was made for the same.

        Its answers are limited to a share of the window. The tool refers to this object. So the session keeps
        it: kept here, it would be in a circle of references, and a closed session would wait for the garbage
        collector.
        """
        from siltstone.session.tools import search_tool

        self.check_memory()
        budget, window = self._budget(), self.core.context_window
        if self._is_plain:
            budget = _WHOLE if window is None else max(budget, window // 2)
        made_for = budget, self.core.view.rule
        if known is not None and known[0] == made_for:
            return known
        tool = search_tool(
            self._search_all, self.core, budget, self._most_hits, self._now, is_plain=self._is_plain
        )
        return made_for, tool

    def _instructions(self) -> str:
        """The text of the preset for the system prompt."""
        if self._instructs == "rules":
            return self._rules()
        from siltstone.tools import skill

        return skill([self.memory_search()[1]]) if self.core.indexed and self.core.offers_tools else ""

    def _rules(self) -> str:
        """The rules for the system prompt, made again for each request of the user, and after a denial."""
        from siltstone.session.learning import rules

        core, request = self.core, self.core.view.newest_request()
        at = None if request is None else request[0].seq
        if self._told_rules is None or self._told_rules[0] != at:
            self._told_rules = at, rules(core)[1]
        return self._told_rules[1]

    def memory_get(self) -> Tool:
        """The tool ``memory_get``, over the log of this session."""
        from siltstone.tools import memory_get

        self.core.check_open()
        count, core = self.core.view.rule.count_text, self.core
        return memory_get(core.text_of, budget=self._budget(), count=count, said=self._said)

    def _said(self, seq: int) -> datetime:
        """When message *seq* was said, in the session's time zone."""
        (row,) = self.core.rows.read(seq, seq + 1)
        return datetime.fromtimestamp(row.created_at / 1000, UTC).astimezone(self._time_zone)

    def extraction_model(self, model: Any) -> Any:
        """The model that extracts facts; None if there is none, or only the extractive one."""
        chosen = self.core.knowing.config.extraction_model or model
        return chosen if can_extract(chosen) else None

    def check_facts(self) -> None:
        """Raises ConfigError if the session has ``memory=False``, and an error if it is closed."""
        self.check_memory()
        self.core.check_open()

    @contextmanager
    def changing_facts(self) -> Iterator[None]:
        """A change of what is known. The next request recalls anew, whatever came of it."""
        self.check_facts()
        try:
            yield
        finally:
            self.recall_anew()

    def memory_save(self) -> Tool:
        """The tool ``memory_save``: the model saves a fact of this session, or of its namespace."""
        from siltstone.session.learning import save
        from siltstone.tools import memory_save

        self.check_memory()

        def keep(memory: SavedMemory) -> str:
            return save(
                self.core,
                memory.content,
                memory.memory_type,
                importance=memory.importance,
                source=memory.source,
                tags=[f"{relation or 'related'}:{target}" for target, relation in memory.associations],
            ).id

        return memory_save(keep)

    def memory_forget(self) -> Tool:
        """The tool ``memory_forget``, where the host allows it."""
        from siltstone.session.learning import forget_known
        from siltstone.tools import memory_forget

        self.check_memory()
        if not self._allow_forget:
            raise ConfigError(
                f"session {self.core.session_id!r} lets no model forget: open it with allow_forget=True",
                "allow_forget",
                False,
            )

        def forget(fact_ids: Sequence[str]) -> int:
            with self.changing_facts():
                return forget_known(self.core, fact_ids)

        return memory_forget(forget)

    def tools(self) -> list[Tool]:
        """All tools that the session offers."""
        from siltstone.tools import context_compact

        self.core.check_open()
        offered = [self.memory_get(), context_compact(self.wish)]
        if self.policy is not None and self.policy.keeps_checkpoints:
            offered.append(self.chronicle())
        if self.core.indexed:
            offered = [self.memory_search()[1], *offered]
            offered.append(self.memory_save())
            if self._allow_forget:
                offered.append(self.memory_forget())
        return offered

    def search(self, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """``search``; hooks are told of damaged entries."""
        return self._ordered(self._kept, query, self._most(limit), options)

    def _ordered(self, find: _Find, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """At most *limit* hits of *find*, which gives the best first, in the order that *options* name."""
        order = options.get("order", "score")
        with self.core.one_look():
            if order == "score":
                return find(query, limit, options)
            from siltstone.memory.hits import in_time, is_in_time, looked_at

            most = looked_at(limit) if is_in_time(order) else limit
            found = find(query, most, {**options, "order": "score"})
        return in_time(found, limit, explain=options.get("explain", False))

    def _kept(self, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """At most *limit* hits, best first: entries, and messages in context.

        A documented system finds what its documents say: what is not in its request.
        """
        if self._is_documented:
            return self._found(query, limit, options)
        from siltstone.session.tools import ContextSearch, with_context

        hits = self._stored(query, limit, options)
        if self._context is None:
            self._context = ContextSearch(self.core)
        return with_context(hits, self._context.search(query, limit, options))[:limit]

    def _most(self, limit: int) -> int:
        """*limit*, or the preset's maximum if that is smaller."""
        checked_limit(limit)
        return limit if self._most_hits is None else min(limit, self._most_hits)

    def _found(self, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """At most *limit* hits, best first, without messages that the last request shows."""
        request = self.core.requests.last
        more = 0 if request is None or limit < 1 else count(request.shown)
        hits = self._stored(query, limit + more, options)
        if request is None:
            return hits
        self.core.follow()
        shows = self._in_context.shows
        return [hit for hit in hits if not shows(hit.session_id, hit.source_range)][:limit]

    def _stored(self, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """The hits of the store, best first."""
        self.check_facts()
        scoped: SearchOptions = {**options, "scope": self.core.scope(options.get("scope"))}
        hits = self.core.store.search(self.core.session_id, query, limit, **scoped)
        self.core.tell_damage()
        return hits

    def memory_search_of_all(self, write: Writer, description: str) -> Tool:
        """The tool for a client that does not see the context: it finds what is in context, too."""
        from siltstone.tools.memory import searching_tool

        self.check_memory()
        find = partial(self._search_all, find=self._kept)
        across, count = self.core.cross_session, self.core.view.rule.count_text
        tool = searching_tool(
            find, budget=self._budget(), count=count, cross_session=across, now=self._now, write=write
        )
        return replace(tool, description=description)

    def _search_all(
        self, query: str, limit: int, *, find: _Find | None = None, **options: Unpack[SearchOptions]
    ) -> list[SearchHit]:
        """The hits of the model's tool: messages and saved facts, best first or in order of time."""
        with_saved = partial(self._with_saved, find or self._found)
        return self._ordered(with_saved, query, self._most(limit), options)

    def _with_saved(self, find: _Find, query: str, limit: int, options: SearchOptions) -> list[SearchHit]:
        """At most *limit* hits of *find* and saved facts, best first."""
        hits = find(query, limit, options)
        if limit < 1 or not self.core.knowing.has_facts():
            return hits
        from heapq import merge  # few sessions have saved something

        from siltstone.session.learning import saved_hits

        since, until = options.get("since"), options.get("until")
        saved = saved_hits(self.core, query, limit, since=since, until=until)
        # A merge keeps the order inside each list. A reranker may have chosen that order.
        return list(merge(saved, hits, key=lambda hit: -hit.score))[:limit]

    def undo(self, call: Call) -> Steps[CompactionRecord | None]:
        """``undo_compaction``. It asks no model, but takes its turn like the calls that ask one."""
        from siltstone.session.committing import undo
        from siltstone.session.compactions import record

        row = undo(self.core, call)
        self.recall_anew()
        return None if row is None else record(self.core, row, undone=True)
        yield

    def check_memory(self) -> None:
        """Raises ConfigError if the session was opened with ``memory=False``."""
        if not self.core.indexed:
            raise ConfigError(
                f"session {self.core.session_id!r} has memory=False; open it with memory=True to search",
                "memory",
                False,
            )

    def busy(self, seconds: float) -> SessionBusyError:
        """The error of a call that waited for another one."""
        waited = f" for {seconds:g} s" if seconds and not self.core.slot.is_own else ""
        return SessionBusyError(
            f"session {self.core.session_id!r} is being compacted by another call{waited}: wait for that",
            session_id=self.core.session_id,
            waited=seconds,
        )

    def _now(self) -> datetime:
        """The session's current time, in its time zone."""
        return datetime.fromtimestamp(self.core.milliseconds() / 1000, UTC).astimezone(self._time_zone)

    def _budget(self) -> int:
        """The largest answer of siltstone's tools, in tokens."""
        from siltstone.tools.base import answer_budget

        return answer_budget(self.core.context_window)

    def _trigger(self, reason: Reason, focus: str | None) -> Trigger:
        window, beside = self.core.room
        return Trigger(reason, focus=focus, context_window=window, reserved_tokens=beside)


def _without_mark(raw: Any) -> Any:
    if not isinstance(raw, SummaryMessage):
        return raw
    return {"role": raw["role"], "content": unmarked(raw["content"])}


def _is_as_before(state: SessionState, before: SessionState) -> bool:
    """Whether nothing has changed, except the usage of model calls outside the conversation."""
    now, then = state.clock, before.clock
    return state is before or (
        state.view is before.view and now == replace(then, usage=now.usage) and state.head is before.head
    )


@errors.explains
class BaseSession:
    """One open conversation. Its subclasses ``Session`` and ``AsyncSession`` drive it."""

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Refuses the arguments of ``open``.

        Raises:
            TypeError: the session was not made by ``open``.
        """
        if options or len(arguments) != 1 or not isinstance(arguments[0], Opened):
            raise TypeError(f'open a session with {cls.__name__}.open("agent-data", "chat-1", ...)')
        return super().__new__(cls)

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`Session.open`."""
        self._core, self._model = opened.core, opened.model
        self._opened = opened
        self._owns_store = opened.owns_store
        self._calls = SessionCalls(opened)
        self._search_tool: MadeTool | None = None
        self._driver: tuple[Job, Future[Any]] | None = None  # who asks the model for which compaction
        self._reader: Future[Any] | None = None  # who asks the model for facts

    @property
    def session_id(self) -> str:
        """The id that the session was opened with."""
        return self._core.session_id

    @property
    def store(self) -> Store:
        """The store that keeps the session."""
        return self._core.store

    @property
    def usage(self) -> UsageRecord:
        """The sum of siltstone's own model calls, over the life of the session."""
        return self._core.usage

    @property
    def context_window(self) -> int | None:
        """The context window in tokens: the given one, or the provider's, if that is known and smaller."""
        return self._core.context_window

    def withhold_tools(self) -> None:
        """Lets no text of the session name a tool, because the model is offered none."""
        self._core.offers_tools = False

    @property
    def agent_model(self) -> str:
        """The name of the model that gets the next request; empty if nobody named it. It may be set.

        What a provider told of its limit belongs to a model. The adapters set this name; in a loop of your
        own, set it before ``prepare`` when you change the model.
        """
        return self._core.state.clock.agent_model

    @agent_model.setter
    def agent_model(self, model: str) -> None:
        check_text("agent_model", model, "gpt-5")
        self._core.use_model(model)

    @property
    def limits(self) -> tuple[LearnedLimit, ...]:
        """What providers have told of their limits and counts, one for each model, the newest last.

        A limit is in the provider's tokens. It counts for its own model alone, any larger request that is
        accepted raises it. :meth:`reset_limits` ends all of it.
        """
        return self._core.state.clock.limits

    def reset_limits(self) -> None:
        """Forgets all :attr:`limits`: the window is again the one that the session was opened with."""
        self._core.check_open()
        self._core.learn_limit(None)

    @property
    def memory_instructions(self) -> str:
        """Optional text for the system prompt: when to use which of ``tools``, and the rules.

        The rules come from corrections and preferences: see :meth:`record_denial`. For other tools,
        ``siltstone.tools.context`` writes such a text.
        """
        from siltstone.session.learning import rules
        from siltstone.tools import skill

        told = skill(self._calls.tools() if self._core.offers_tools else ())
        if not self._core.indexed:
            return told
        _, addendum = rules(self._core)
        return f"{told}\n\n{addendum}" if addendum else told

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that come from corrections and preferences, the rule with the most support first."""
        from siltstone.session.learning import rules

        self._calls.check_facts()
        return rules(self._core)[0]

    @property
    def memory_search(self) -> Tool:
        """The search tool for the model, bound to this session. A call takes microseconds, and is not async.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        known = self._search_tool = self._calls.memory_search(self._search_tool)
        return known[1]

    @property
    def memory_get(self) -> Tool:
        """The tool that reads a message of the log in full, by the handle that a cut result carries."""
        return self._calls.memory_get()

    @property
    def memory_save(self) -> Tool:
        """The tool with which a model saves a memory as a fact. :meth:`facts` lists it.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        return self._calls.memory_save()

    @property
    def memory_forget(self) -> Tool:
        """The tool with which a model forgets memories for good.

        Raises:
            ConfigError: the session was opened without ``allow_forget=True``.
        """
        return self._calls.memory_forget()

    @property
    def tools(self) -> list[Tool]:
        """All tools that the session offers a model: to search, to read, to save, to compact."""
        return self._calls.tools()

    @property
    def chronicle_tool(self) -> Tool:
        """The tool ``chronicle``: it lists the session's checkpoints, opens one, and expands it to messages.

        Raises:
            ConfigError: the session's policy writes no checkpoints.
        """
        return self._calls.chronicle()

    @property
    def compact_tool(self) -> Tool:
        """The tool ``context_compact``: the model asks with it for a compaction at the next ``prepare``.

        Within three boundaries of the last attempt the tool refuses, and tells the model so.
        """
        from siltstone.tools.context import context_compact

        return context_compact(self._calls.wish)

    @property
    def estimate_error(self) -> float | None:
        """The relative error of siltstone's estimate of the last request, against the provider's count.

        0.1 is a tenth too much, -0.1 a tenth too little. None until a message with ``usage`` is appended
        after the session was opened. The estimate covers the messages sent, and ``reserved_tokens``.
        """
        return self._core.state.estimate_error

    def new_run(self) -> None:
        """Says that the host has begun anew: its next list for ``observe`` is a run of its own.

        A list that goes on with the session is still recognised. Any other one is appended to the session,
        and the messages of the earlier runs stay in context, in summaries and in searches. Call it in a loop
        of your own that begins again with an empty list while the session is open. The first list after
        ``open`` needs no call: see the option ``unrelated``.
        """
        self._core.check_open()
        self._core.begins_run = True

    def history(self) -> list[Any]:
        """The current view, with other workers' changes unless their server is down. Nothing is compacted."""
        self._core.check_open()
        try:
            with hurried():
                return self._core.follow().view.raws()
        except StoreUnavailableError:  # then it is the view as this worker knows it
            return self._core.state.view.raws()

    def _begin_driver(self) -> None:
        """Starts a driver for the compaction in the background, if it has none. Returns at once."""
        job, driver = self._core.background.job, self._driver
        if job is None or job.is_done or (driver and driver[0] is job and not driver[1].done()):
            return
        try:
            self._driver = job, self._beside(partial(self._drive, job))
        except RuntimeError:  # the system allows no more threads
            _log.exception("no thread could be started to summarise")
            job.cancel()

    def _begin_reader(self) -> None:
        """Starts a reader of facts if messages are due, and no reader is at work. Returns at once.

        Not if a model took too long, or the last summary failed: on a server with one slot, the model's turn
        would wait for the reader.
        """
        knowing = self._core.knowing
        if knowing.is_late or self._core.state.clock.low_yield_attempts:
            return
        if not knowing.is_due or knowing.slot.is_held or (self._reader and not self._reader.done()):
            return
        if self._calls.extraction_model(self._model) is None:
            knowing.is_due = False
            return
        try:
            self._reader = self._beside(partial(self._read, 0))
        except RuntimeError:
            _log.warning("facts of session %r are read later: too many threads", self.session_id)
        else:
            self._reader.add_done_callback(partial(_log_reader, self.session_id))

    def _beside(self, work: Callable[[], Any]) -> Future[Any]:
        """Runs *work* beside the calls of the session.

        Raises:
            RuntimeError: no thread could be started.
        """
        raise NotImplementedError

    def _drive(self, job: Job) -> Any:
        """Asks the model for all that *job* wants."""
        raise NotImplementedError

    def _read(self, timeout: float) -> Any:
        """Reads messages for facts, if a reader at work ends within *timeout* seconds."""
        raise NotImplementedError

    def __repr__(self) -> str:
        core = self._core
        seen, end = len(core.view), core.next_seq
        return f"<{type(self).__name__} {core.session_id!r}: {seen} messages in context, {end} in the log>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be pickled; open it where it is needed")


def _log_reader(session_id: str, reader: Future[Any]) -> None:
    """Logs how a reader of facts has failed. The next one reads the messages again."""
    error = None if reader.cancelled() else reader.exception()
    if isinstance(error, StoreError):  # most often the store was closed
        _log.warning("facts of session %r are read later: %s", session_id, error)
    elif error is not None:
        _log.error("facts of session %r were not read", session_id, exc_info=error)
