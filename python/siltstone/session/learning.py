"""Learns facts from discarded messages: by patterns after each commit, by a model in the background.

The facts from a message, and the note that it was read, are written in one transaction. An interrupted
session has both or neither. If it has neither, the next session reads the message again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

from siltstone import checks, errors, knowledge
from siltstone.compaction.base import CompactionError, Compactor
from siltstone.documented import tokens
from siltstone.engine import answered
from siltstone.events import ExtractionFailed, FactsUpdated
from siltstone.hooks import notify, watch_operation
from siltstone.knowledge.extract import PIECE, is_enough, spoken_text
from siltstone.knowledge.search import MAX_RESULTS, is_about, named
from siltstone.llm import Landing, Steps, ToolCall, UsageRecord, relayed
from siltstone.memory.convert import MAX_INTEGER, asked_for, datetime_from, milliseconds
from siltstone.memory.entry import ForgetCriteria, ForgetReport, SearchHit, SearchScope, SourceRange
from siltstone.memory.log import Derived
from siltstone.messages import Message
from siltstone.messages.results import names_own_tool
from siltstone.session import state as views
from siltstone.session.archiving import write_anew, write_facts
from siltstone.session.concurrency import Call
from siltstone.session.core import SessionCore
from siltstone.session.fact_state import TRIES, OnLine, Progress
from siltstone.tools.memory import SAVE_NAME as MEMORY_SAVE, read_memory

_log = logging.getLogger("siltstone")


MOST: Final = 2_000  #: messages that patterns read after one commit: bounds the cost for a long old session
#: Messages that are read for wishes before a request; older ones when they leave the view.
_NEWEST: Final = 200
BATCH: Final = 8 * PIECE  #: characters that a model reads before the progress is stored

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages to read, all sequence numbers that they cover, and the time of each in milliseconds."""

    messages: Sequence[Message]
    read: views.RangeSet
    said_at: dict[int, int]


def learn_patterns(core: SessionCore, *, schedules: bool = True) -> None:
    """Learns, by patterns, from the messages that have left the view. It never fails a compaction.

    With *schedules* a model reads them next. A trim of one request schedules nothing.
    """
    if not core.knowing.is_learning:
        return
    learn_results(core)
    try:
        _learn_patterns(core, schedules)
    except errors.StoreError as error:
        _log.exception("what session %r has discarded was not read for facts", core.session_id)
        notify(core.hooks, ExtractionFailed(core.session_id, str(error), will_retry=True))


def learn_results(core: SessionCore) -> None:
    """Learns from the results of tools in view that are new, if they become facts. It never fails a call."""
    knowing, state = core.knowing, core.state
    if not (knowing.is_learning and knowing.config.tool_facts) or knowing.results_to == state.end:
        return
    begun, knowing.results_to = knowing.results_to, state.end
    parts = [(message.seq, part) for message in state.view.read() for part in message.parts]
    places = {(seq, seq + 1) for seq, part in parts if part.kind == "tool_result" and seq >= begun}
    if not places:
        return
    try:
        if not (unread := views.minus(views.union(places), knowing.progress.patterns)):
            return
        batch = _batch(core, unread)
        called = {part.call_id: part.name for _, part in parts if part.kind == "tool_call"}
        facts = _stamped(core, _facts_of(core, batch, called), batch)
        _learned(
            core, facts, "patterns", lambda done: replace(done, patterns=views.union(done.patterns, unread))
        )
    except errors.StoreError:
        _log.exception("the results in session %r become facts when they leave its view", core.session_id)


def learn_standing(core: SessionCore, least: int = 2) -> None:
    """Learns standing wishes from the newest messages, before they leave. It never fails a request.

    With fewer messages than *least* it does nothing: the first request of a session does not wait for the
    tables, and has its only message anyway.
    """
    knowing, state = core.knowing, core.state
    if not (knowing.is_learning and knowing.config.patterns) or knowing.wishes_to == state.end:
        return
    if state.end < least:
        return
    begun, knowing.wishes_to = knowing.wishes_to, state.end
    newest = [item.message for item in state.view.items(max(0, len(state.view) - _NEWEST))]
    said = views.union(
        (each.seq, each.seq + 1) for each in newest if each.seq >= begun and knowledge.has_wish(each)
    )
    if not said:
        return
    try:
        batch = _batch(core, said)
        wishes = [fact for fact in _pattern_facts(core, batch) if knowledge.STANDING in fact.tags]
        if wishes:
            _learned(core, _stamped(core, wishes, batch), "patterns", lambda progress: progress)
    except errors.StoreError as error:
        _log.warning("the wishes in session %r are learned when they leave it: %s", core.session_id, error)


def _pattern_facts(core: SessionCore, batch: _Batch) -> list[knowledge.Fact]:
    """The facts that users state in *batch*.

    A message that gave a wish once gives it no second time: the wish may have been taken back since.
    """
    given = {
        place
        for fact in core.knowing.facts.facts()
        if fact.session_id == core.session_id and knowledge.STANDING in fact.tags
        for place in fact.source_ranges
    }
    found = knowledge.pattern_facts(batch.messages, session_id=core.session_id, redact=core.redact_text)
    return [
        fact for fact in found if knowledge.STANDING not in fact.tags or given.isdisjoint(fact.source_ranges)
    ]


def extraction(core: SessionCore) -> Steps[knowledge.Learned]:
    """Asks a model for the facts in messages that have left the view, batch by batch.

    A failure is told to hooks as ``ExtractionFailed``. If every call of a batch fails, reading stops, and the
    batch is tried again after the next compaction or start; after three failures it is skipped.
    """
    config, done = core.knowing.config, knowledge.Learned()
    while True:
        progress = core.knowing.progress
        batch = _next(core, progress)
        if batch is None:
            core.knowing.is_due = False
            return done
        found = yield from knowledge.extraction_flow(
            batch.messages,
            session_id=core.session_id,
            redact=core.redact_text,
            focus=config.extraction_focus,
            deadline=config.extraction_timeout,
            window=core.context_window,
            rule=core.view.rule,
        )
        core.knowing.is_late |= found.is_late
        core.charge(found.usage)
        nothing = len(found.failures) == found.pieces > 0
        will_retry = nothing and progress.tries + 1 < TRIES
        facts = [] if will_retry else _stamped(core, found.facts, batch)
        learned = _learned(core, facts, "model", partial(_after, batch, will_retry=will_retry))
        done = _sum(done, learned)
        _tell_failures(core, found, will_retry=will_retry)
        if will_retry or found.is_late:
            core.knowing.is_due = False  # until the next compaction, or the next start
            return done


def check_due(core: SessionCore) -> None:
    """Notes whether there are messages for a model to read, when a session is opened."""
    if core.knowing.is_learning and core.knowing.config.knowledge_extraction:
        core.knowing.is_due = bool(views.minus(_discarded(core), core.knowing.progress.model))


def known(core: SessionCore, state: views.SessionState | None = None) -> OnLine:
    """The facts that are known on the current line, or on the line of *state*.

    All messages after the newest compaction are on the line, also later ones.
    """
    state = core.follow() if state is None else state
    content = views.content_of(state.head)
    at = (None if state.head is None else state.head.compaction_id, state.version.redactions)
    return core.knowing.on_line(at, lambda: views.line_of(core.rows, content, MAX_INTEGER))


def find(
    core: SessionCore,
    query: str | None,
    limit: int,
    *,
    as_of: datetime | float | None = None,
    types: Sequence[str] = (),
    topic: str | None = None,
    entity: str | None = None,
    scope: SearchScope | None = None,
    everything: bool = False,
) -> list[knowledge.Fact]:
    """The facts that match *query*, best first; without a query, the newest facts first."""
    checks.at_least("limit", limit, 0)
    if query is not None and not isinstance(query, str):
        errors.refuse("query", "a text or None", query)
    store = known(core)
    moment = core.milliseconds() if as_of is None else milliseconds(as_of)
    asked = query is not None and query.strip() != "" and not everything
    own = "" if core.scope(scope) == "namespace" else core.session_id
    fits = partial(is_about, types=types, topic=topic, entity=entity, session_id=own)
    if query is not None and asked:
        if core.knowing.config.fact_search == "hybrid":
            found = _hybrid(core, store).search(query, MAX_RESULTS, as_of=moment)
        else:
            found = knowledge.find_facts(store, query, knowledge.MAX_FACTS, as_of=moment)
        facts = [fact for fact, _ in found]
        if not facts and as_of is None:
            facts = knowledge.find_text(store, query, knowledge.MAX_FACTS)
        return [fact for fact in facts if fits(fact)][:limit]
    chosen = [fact for fact in store.facts() if (everything or fact.holds_at(moment)) and fits(fact)]
    return sorted(chosen, key=lambda fact: -fact.created_at)[:limit]


def standing(core: SessionCore) -> list[knowledge.Fact]:
    """The standing wishes that hold, the newest first."""
    moment = core.milliseconds()
    held = [each for each in known(core).facts() if knowledge.STANDING in each.tags and each.holds_at(moment)]
    return sorted(held, key=lambda fact: -fact.created_at)


def saved_hits(
    core: SessionCore,
    query: str,
    limit: int,
    *,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
) -> list[SearchHit]:
    """The facts that match *query* and come from no message of this session, in the form of search hits.

    Only facts that were saved at *since* or later, and before *until*.

    Their score is the share of the query's words that they contain. Their place is the end of the log, where
    no message is.
    """
    asked = set(tokens(query))
    least = None if since is None else milliseconds(since)
    most = None if until is None else milliseconds(until)
    hits: list[SearchHit] = []
    # All matches are read, since some are skipped below, and must not take the place of others.
    for fact, _ in knowledge.find_facts(known(core), query, knowledge.MAX_FACTS, as_of=core.milliseconds()):
        if len(hits) == limit:
            break
        if fact.session_id == core.session_id and fact.source_ranges:
            continue  # its message is found by the search, or is in context
        if not ((least is None or fact.created_at >= least) and (most is None or fact.created_at < most)):
            continue
        share = len(asked & set(tokens(f"{fact.content} {fact.context}"))) / len(asked)
        place = SourceRange(core.next_seq, core.next_seq)
        hit = SearchHit(fact.content, share, place, 0, "memory", datetime_from(fact.created_at))
        hits.append(asked_for(hit, query))
    return hits


def history(core: SessionCore, fact_id: str) -> list[knowledge.Fact]:
    """The versions of a fact, each of which replaced the one before, oldest first."""
    return knowledge.history_of(known(core), fact_id)


def save(
    core: SessionCore,
    content: str,
    memory_type: str = "fact",
    *,
    importance: float | None = None,
    context: str = "",
    source: str = "",
    tags: Sequence[str] = (),
    valid_until: datetime | float | None = None,
) -> knowledge.Fact:
    """Saves *content* as a fact, at once. If an equal fact holds already, returns that one instead."""
    core.check_open()
    if not isinstance(content, str):
        errors.refuse("text", "a sentence such as 'Ann prefers short answers'", content)
    stamp = core.milliseconds()
    text = core.redact_text(content)
    fact = knowledge.new_fact(
        memory_type,
        text,
        context=context,
        source=source or "memory_save",
        tags=tuple(tags),
        session_id=core.session_id,
        created_at=stamp,
        valid_until=None if valid_until is None else milliseconds(valid_until),
        topics=knowledge.topics_of(text),
        entities=named(knowledge.entities_of(text)),
    )
    if importance is not None:
        checks.share("importance", importance)
        fact = replace(fact, importance=float(importance))
    with core.knowing.facts.lock:
        folded = fact.content.lower()
        for old in known(core).facts():
            if old.holds_at(stamp) and old.type == fact.type and old.content.lower() == folded:
                return old
        with watch_operation("upsert_memory", core.store, core.session_id) as watched:
            core.knowing.facts.put([fact])
            watched.records([fact])
            watched.count(1, fact.id)
    notify(core.hooks, FactsUpdated(core.session_id, "saved", added=1))
    write_facts(core)
    return fact


def save_called(core: SessionCore, called: Sequence[ToolCall]) -> None:
    """Runs the calls of ``memory_save`` that a model made while it summarised.

    This never fails a compaction: memories that cannot be saved are told to hooks.
    """
    failures = 0
    reason = ""
    saves = [each for each in called if each.name == MEMORY_SAVE]
    for call in saves:
        try:
            memory = read_memory(call.arguments)
            save(core, memory.content, memory.memory_type, importance=memory.importance, source=memory.source)
        except (errors.SiltstoneError, OSError) as error:
            failures, reason = failures + 1, str(error)
            _log.warning("a memory of session %r was not saved: %s", core.session_id, error)
    if failures:
        notify(core.hooks, ExtractionFailed(core.session_id, reason, failures, len(saves)))


def retract(core: SessionCore, fact_id: str, *, back: bool = False) -> bool:
    """Takes a fact back. It holds no more, and stays as history. False if no such fact held.

    With *back*, a fact that is history holds again.
    """
    core.check_open()
    stamp = core.milliseconds()
    with core.knowing.facts.lock:
        for fact in core.knowing.facts.facts():
            at = max(stamp, fact.created_at)
            is_past = fact.superseded_by is not None or fact.deleted_at is not None
            if fact.id == fact_id and (is_past if back else fact.holds_at(at)):
                new = replace(fact, superseded_by=None, superseded_at=None, superseded_because="")
                with watch_operation("update_memory", core.store, core.session_id) as watched:
                    core.knowing.facts.put([replace(new, deleted_at=None if back else at)])
                    watched.count(1, fact.id)
                break
        else:
            return False
    write_facts(core)  # its hooks may wait for other threads of the session
    return True


def forget_known(core: SessionCore, fact_ids: Sequence[str]) -> int:
    """Forgets facts for good, but only facts that the session can see. Returns how many were forgotten."""
    core.check_open()
    seen = {fact.id for fact in core.knowing.facts.facts()}
    chosen = [each for each in fact_ids if each in seen]
    gone = core.store.forget(fact_ids=chosen).facts if chosen else 0
    if gone:
        write_facts(core)
    return gone


def record_denial(
    core: SessionCore, call: Call, tool: str, arguments: str | Mapping[str, Any], reason: str, goal: str
) -> knowledge.Correction:
    """Keeps the correction from a denied action. A repeated *call* of :class:`Calls` counts once."""
    core.check_open()
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    given = {"tool": tool, "arguments": arguments, "reason": reason, "goal": goal}
    for name, value in given.items():
        if not isinstance(value, str):
            raise errors.ConfigError(f"{name} of a denial must be a text, got {value!r}", name, value)
    if not tool.strip():
        raise errors.ConfigError(f"tool of a denial must not be blank, got {tool!r}", "tool", tool)
    if call.answer is None:
        correction = knowledge.correction_of(
            **{name: core.redact_text(value) for name, value in given.items()}
        )
        call.answer = replace(correction, created_at=core.milliseconds())
    kept: knowledge.Correction = call.answer
    core.knowing.facts.put_correction(kept)
    return kept


def rules(core: SessionCore) -> tuple[tuple[knowledge.Rule, ...], str]:
    """The rules, made again if there are enough new corrections, and their text for a system prompt."""
    config = core.knowing.config
    if not config.rules:
        return (), ""
    facts = core.knowing.facts
    kept = facts.rules()
    try:
        distiller = _distiller(core, kept)
    except errors.ConfigError:  # the stored rules are damaged: they are made again from corrections and facts
        distiller = _distiller(core, {})
    stamp = core.milliseconds()
    every = known(core).facts()
    held = [fact for fact in every if fact.holds_at(stamp)]
    texts = {fact.content.strip().lower() for fact in held}
    distiller.withdraw(fact.content for fact in every if fact.content.strip().lower() not in texts)
    made = distiller.distill(facts.corrections(), held)
    if distiller.kept != kept and (kept or made):
        try:
            facts.put_rules(distiller.kept)
        except errors.ReadOnlyStoreError:
            pass  # a reader cannot store the rules: the next call makes them again
        except errors.StoreError:
            _log.warning("the rules of session %r were made, and could not be kept", core.session_id)
    return made, distiller.addendum()


def forget_progress(core: SessionCore, before: Sequence[knowledge.Fact]) -> None:
    """Marks the messages behind forgotten facts as unread. *before* are the facts before the forgetting."""
    left = {fact.id for fact in core.knowing.facts.facts()}
    own = [fact for fact in before if fact.id not in left and fact.session_id == core.session_id]
    places = views.union(*(fact.source_ranges for fact in own))
    if places:
        core.knowing.facts.put_all((), core.knowing.progress.without(places).kept)
        check_due(core)


def _learn_patterns(core: SessionCore, schedules: bool) -> None:
    config, progress = core.knowing.config, core.knowing.progress
    discarded = _discarded(core)
    reads = config.patterns or config.tool_facts or not config.knowledge_extraction
    unread = views.minus(discarded, progress.patterns) if reads else ()
    if unread:
        batch = _batch(core, unread, most=MOST)
        model = progress.model
        if not config.knowledge_extraction:  # a later session with a model need not read all old messages
            model = views.union(model, batch.read)
        progress = replace(progress, patterns=views.union(progress.patterns, batch.read), model=model)
        facts = _stamped(core, _facts_of(core, batch, {}), batch)
        _learned(core, facts, "patterns", partial(_passed, progress))
    if schedules:
        core.knowing.is_due = config.knowledge_extraction and bool(views.minus(discarded, progress.model))


def _learned(
    core: SessionCore,
    facts: Sequence[knowledge.Fact],
    source: Literal["patterns", "model"],
    step: Callable[[Progress], Progress],
) -> knowledge.Learned:
    with core.knowing.facts.lock:
        documented = core.knowing.config.compared_by == "overlap"
        learned = knowledge.learn(
            core.knowing.marked(step(core.knowing.progress)), facts, documented=documented
        )
    if learned.added or learned.updated or learned.superseded:
        notify(
            core.hooks,
            FactsUpdated(
                core.session_id,
                source,
                added=len(learned.added),
                updated=len(learned.updated),
                superseded=len(learned.superseded),
                known=learned.known,
            ),
        )
        write_facts(core)
    return learned


def _after(batch: _Batch, progress: Progress, *, will_retry: bool) -> Progress:
    """The progress of the model after *batch*."""
    if will_retry:
        return replace(progress, tries=progress.tries + 1)
    return replace(progress, model=views.union(progress.model, batch.read), tries=0)


def _passed(read: Progress, progress: Progress) -> Progress:
    """*progress* and the progress *read* together."""
    return replace(
        progress,
        patterns=views.union(progress.patterns, read.patterns),
        model=views.union(progress.model, read.model),
    )


def _tell_failures(core: SessionCore, found: knowledge.Extraction, *, will_retry: bool) -> None:
    if found.failures:
        _log.warning("facts of session %r were not found: %s", core.session_id, found.failures[0])
        notify(
            core.hooks,
            ExtractionFailed(
                core.session_id, found.failures[0], len(found.failures), found.pieces, will_retry=will_retry
            ),
        )


def _discarded(core: SessionCore) -> views.RangeSet:
    """The messages that left the view, and the messages that requests left out."""
    state = core.follow()
    covers = () if state.head is None else state.head.compaction.covers
    return views.union(covers, core.requests.aside(state.version.redactions))


def _next(core: SessionCore, progress: Progress) -> _Batch | None:
    """The messages that a model reads next; None if they are too few for a call."""
    batch = _batch(core, views.minus(_discarded(core), progress.model), characters=BATCH)
    spoken = [(message, text) for message in batch.messages if (text := spoken_text(message))]
    return batch if is_enough(spoken) else None


def _batch(
    core: SessionCore, spans: views.RangeSet, *, most: int | None = None, characters: int | None = None
) -> _Batch:
    messages: list[Message] = []
    said_at: dict[int, int] = {}
    length = 0
    for message, stamp in views.messages_in(core.rows, spans):
        if len(said_at) == most or (characters is not None and length >= characters):
            break
        said_at[message.seq] = stamp
        if message.provenance != "placeholder":
            messages.append(message)
            length += len(spoken_text(message))
    return _Batch(messages, views.union((seq, seq + 1) for seq in said_at), said_at)


def _stamped(core: SessionCore, facts: Sequence[knowledge.Fact], batch: _Batch) -> list[knowledge.Fact]:
    """*facts* with the time of their messages, and with their end by the time to live."""
    now, ttl = core.milliseconds(), core.knowing.config.ttl
    stamped = []
    for fact in facts:
        seqs = [end - 1 for _, end in fact.source_ranges]
        said = max((batch.said_at[seq] for seq in seqs if seq in batch.said_at), default=now)
        until = None if ttl is None else said + round(ttl.total_seconds() * 1000)
        stamped.append(replace(fact, created_at=said, valid_until=until))
    return stamped


def _facts_of(
    core: SessionCore, batch: _Batch, called: Mapping[str | None, str | None]
) -> list[knowledge.Fact]:
    """The facts in *batch* that need no model. *called* has the tools of calls before it, by their ids."""
    config = core.knowing.config
    facts: list[knowledge.Fact] = []
    if config.patterns:
        facts += _pattern_facts(core, batch)
    return facts + (_tool_facts(core, batch.messages, called) if config.tool_facts else [])


def _tool_facts(
    core: SessionCore, messages: Sequence[Message], called: Mapping[str | None, str | None]
) -> list[knowledge.Fact]:
    """Facts from successful results of tools, without siltstone's own tools."""
    config, names = core.knowing.config, dict(called)
    facts = []
    for message in messages:
        for part in message.parts:
            if part.kind == "tool_call" and part.call_id and part.name:
                names[part.call_id] = part.name
            if part.kind != "tool_result" or part.is_error:
                continue
            name = part.name or names.get(part.call_id) or ""
            if not name or names_own_tool(name):
                continue
            fact = knowledge.tool_fact(
                name,
                core.redact_text(part.text),
                least=config.fact_min,
                most=config.fact_max,
                unit=config.fact_unit,
                inclusive=config.fact_inclusive,
                session_id=core.session_id,
                source_ranges=((message.seq, message.seq + 1),),
            )
            if fact is not None:
                facts.append(fact)
    return facts


def _distiller(core: SessionCore, kept: dict[str, Any]) -> knowledge.KnowledgeDistiller:
    config = core.knowing.config
    return knowledge.KnowledgeDistiller(
        max_rules=config.max_rules, min_entries=config.min_entries, tool_rules=config.tool_rules, kept=kept
    )


def _hybrid(core: SessionCore, store: OnLine) -> knowledge.HybridFacts:
    config = core.knowing.config
    weights = (config.full_text_weight, config.vector_weight)
    return knowledge.HybridFacts(store, *weights, config.dimensions, max_results=MAX_RESULTS)


def _sum(one: knowledge.Learned, other: knowledge.Learned) -> knowledge.Learned:
    return knowledge.Learned(
        one.added + other.added,
        one.updated + other.updated,
        one.superseded + other.superseded,
        one.known + other.known,
    )


# Forgets messages, and later has their summaries written again without them.


def forgetting(core: SessionCore, criteria: ForgetCriteria) -> Steps[ForgetReport]:
    """Forgets in store, memory and files. It asks no model: a sentence replaces each summary."""
    yield from ()
    core.check_open()
    core.follow()
    known = core.knowing.facts.facts()
    report = core.store.forget(session_id=core.session_id, **criteria)
    if report.dry_run:
        return report
    core.follow()
    if report.facts:
        forget_progress(core, known)
    write_anew(core)
    core.catch_up()
    return report


def unwritten(core: SessionCore, policy: Compactor, state: views.SessionState) -> list[Derived]:
    """The forgotten summaries in view that *policy* can write again; of a chronicle, its checkpoints too."""
    if policy.resummarize((), None, None) is None:
        return []
    found = core.rows.derived([item.derived_id for item in state.view if item.derived_id is not None])
    if policy.keeps_checkpoints and any(each.redacted for each in found):
        once = {piece for row in core.rows.compactions() for piece in row.compaction.view}
        found = [each for each in views.all_derived(core.rows) if each.derived_id not in once] + found
    return [each for each in found if each.redacted and each.kind == "summary"]


def rewriting(core: SessionCore, policy: Compactor, summaries: Sequence[Derived], calls: int) -> Steps[None]:
    """Has a model write forgotten *summaries* again from the messages that are left, each in *calls*.

    If nobody gives a summary, the sentence stays. A job stops before it writes.
    """
    redactions, texts, paid = core.follow().version.redactions, list[tuple[int, str]](), list[UsageRecord]()
    for summary in summaries:
        left = views.covered(core.rows, summary.covers)
        writing = policy.resummarize(left, core.context_window, calls) if left else None
        if writing is None:
            continue
        try:
            content, usage = yield from relayed(writing, partial(answered, policy.token_rule))
        except (CompactionError, errors.ModelError) as error:
            paid += getattr(error, "usage", ())
            _log.warning("a summary of session %r stays forgotten: %s", core.session_id, error)
        else:
            paid += usage
            texts.append((summary.derived_id, content))
    yield Landing()
    core.charge(paid)
    with suppress(errors.StoreConflictError):  # another worker was faster
        for number, (derived_id, content) in enumerate(texts):
            version = core.follow().version
            if version.redactions == redactions + number:  # else the model may have read what is forgotten
                core.renew(derived_id, content, version)
