"""The state of a session, and everything that changes it.

Each change computes the next state without touching the current one, commits it to the store, and then swaps
one reference. So an interrupt at any line leaves the old state or the new one. If an interrupted write had
become durable, the next call recognises it by its write id, and adds it to the state.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import ceil
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from siltstone import errors
from siltstone.compaction.base import check_pin_budget
from siltstone.hooks import CompactionHooks, notify
from siltstone.llm import UsageRecord, total_usage
from siltstone.memory.base import Store, hurried
from siltstone.memory.convert import MAX_INTEGER
from siltstone.memory.database_log import Findable, with_findable
from siltstone.memory.entry import SearchScope, SourceRange
from siltstone.memory.log import (
    CompactionRow,
    LogRow,
    LogState,
    NewCompaction,
    NewMessage,
    NewRecall,
    SessionLog,
    SessionVersion,
)
from siltstone.messages import Message, RawMessage, RecalledMessage, decode, logged, unmarked
from siltstone.messages.read import read_message
from siltstone.session.background import Background
from siltstone.session.concurrency import TRIES, Call, Calls, Origin, Slot, Write, retried
from siltstone.session.counters import CUT, CompactionClock, LearnedLimit, cached_tokens, input_tokens
from siltstone.session.fact_state import Knowing
from siltstone.session.policy_history import PolicyLine
from siltstone.session.retention import Retention, retain
from siltstone.session.state import (
    Item,
    RangeSet,
    Requests,
    SessionState,
    View,
    content_of,
    first_state,
    has,
    line_of,
    load,
    minus,
    next_state,
    shown,
)
from siltstone.systems.base import Live
from siltstone.tokens import TokenRule, rule

if TYPE_CHECKING:
    from siltstone.archive.live import ContextArchive
    from siltstone.events import Hook, RedactedSpan
    from siltstone.knowledge import KnowledgeConfig
    from siltstone.recall import RecallConfig
    from siltstone.redaction import Redactor
    from siltstone.session.opening import Options, Unrelated
    from siltstone.session.rows import UnwrittenRecall


T = TypeVar("T")


_log = logging.getLogger("siltstone")

DEFAULT_RULE = "blocks"  #: the token rule of a session without a policy
LAST_ID = 2**63 - 1  #: the largest id of a write
SLACK = 1 / 32  #: the share of the window that stays free where its provider counts otherwise than we do


class SessionCore:
    """The core that ``Session`` and ``AsyncSession`` share. No method calls a model.

    A method that changes the session takes the lock, reads the changes of other workers, and holds the lock
    until its transaction ends.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        options: Options[Any, Any, Any],
        *,
        cross_session: bool | None,
        indexed: bool,
        token_rule: TokenRule | None,
        hooks: Sequence[Hook],
        compaction_hooks: CompactionHooks,
        context_window: int | None,
        retention: Retention | None,
        knowledge: KnowledgeConfig | None,
        archive: ContextArchive | None,
        redactor: Redactor | None,
    ) -> None:
        self.store, self.session_id, self.indexed, self.hooks = store, session_id, indexed, tuple(hooks)
        self.offers_tools = True
        self.given_window, self.reserved_tokens = context_window, options["reserved_tokens"]
        self.compaction_hooks = compaction_hooks
        self.slot, self.background = Slot(), Background(is_on=options["background"])
        self._now, self.index_tools, self.retention = time.time, options["index_tools"], retention
        self.redacting: Redacting | None = None
        if redactor is not None:
            from siltstone.session.redaction import Redacting

            self.redacting = Redacting(redactor)
        self._spans: tuple[RedactedSpan, ...] = ()
        self._untold: int | None = 0  # the window before a limit that the last write taught
        self._last_id = _new_id()  # of a write; the ids of the next ones follow
        self.rows: SessionLog = store.open_log(session_id)  # the log in the store, not the module ``rows``
        self.policy_line = PolicyLine(self.rows)
        self._lock = RLock()
        self.is_closed = False
        self.unrelated: Unrelated = options["unrelated"]
        self.is_first_list = True  # no list was observed since the session was opened
        self.begins_run = False  # the host said so of its next list
        self.unrelated_branches = 0  # in a row
        self.origin = Origin(session_id)
        # Inside it a store behind a network asks once what is new, instead of before every step.
        self.one_look: Callable[[], AbstractContextManager[None]] = getattr(store, "one_look", nullcontext)
        self._damaged: tuple[int, ...] = ()
        self.pending: Write | None = None
        self._has_told_repair = False
        self.calls = Calls()
        self.live: Live | None = None  # files beside the store
        self.requests = Requests()
        self.refused_window: int | None = None  # until the next answer
        self.is_asked = False  # a request was prepared, and has no answer yet
        self.recall: RecallConfig | None = None
        self.recalled_tokens = 0  # of the block in the last request, by our count
        self.notes: tuple[str, ...] = ()  # the beginnings of a preset's texts, which may be sent as messages
        self.recalls: dict[int, UnwrittenRecall] = {}  # by the end of the log at the time
        stored = self.rows.open(options.get("namespace"))
        if stored.deleted:
            raise errors.SessionDroppedError(
                f"session {session_id!r} was deleted, and every write to it is lost: use another id, or "
                "begin it anew with store.revive(session_id)",
                session_id=session_id,
            )
        self.archive = archive
        self._is_named = stored.namespace != ""
        if cross_session:
            self._check_named("cross_session", True)
        self.cross_session = self._is_named and cross_session is not False
        stored = self._store_findable(stored)
        # A method of this object would refer back to it: only the garbage collector would free a long view.
        redact = str if self.redacting is None else self.redacting.text
        self.knowing = Knowing(
            store, session_id, stored.namespace if self.cross_session else "", knowledge, redact
        )
        self.state = first_state(self.rows, stored, session_id, token_rule or rule(DEFAULT_RULE))
        if not stored.clock and stored.next_seq:
            self.infer_clock()
        self.retain()

    def scope(self, given: SearchScope | None) -> SearchScope:
        """The scope of a call: *given*, or what the session shares."""
        if given == "namespace":
            self._check_named("scope", given)
        return given or ("namespace" if self.cross_session else "session")

    def _check_named(self, field: str, value: Any) -> None:
        if not self._is_named:
            raise errors.ConfigError(
                f"{field}={value!r} needs a namespace, and session {self.session_id!r} has none: open new "
                "sessions with namespace=...",
                field,
                value,
            )

    def _store_findable(self, stored: LogState) -> LogState:
        """Stores which entries other sessions of the namespace may find, if that setting has changed."""
        if not stored.namespace:
            return stored

        may: Findable = "nothing" if not self.indexed else "all" if self.index_tools else "words"
        settings = with_findable(stored.settings, may)
        if settings == stored.settings:
            return stored
        try:
            self.rows.save_settings(settings, expected=stored.version, write_id=_new_id())
        except (errors.ReadOnlyStoreError, errors.StoreConflictError):
            return self.rows.state()  # the store is read-only, or a concurrent open has stored it
        return self.rows.state()

    # Reads.

    @property
    def view(self) -> View:
        """The current view, as this process knows it."""
        return self.state.view

    @property
    def clock(self) -> CompactionClock:
        """The counters of the session between two compactions."""
        return self.state.clock

    @property
    def next_seq(self) -> int:
        """The number of messages that were ever appended."""
        return self.state.end

    @property
    def context_window(self) -> int | None:
        """The context window in tokens: the given one, or the learned limit of the provider if smaller.

        Between a refusal and the next answer it is what the refusal leaves, by our own count.
        """
        clock = self.state.clock
        if not clock.limits and self.refused_window is None:
            return self.given_window
        limit = clock.limit(self.given_window)
        known = (self.given_window, None if limit is None else limit.tokens, self.refused_window)
        return min((each for each in known if each is not None), default=None)

    @property
    def recall_tokens(self) -> int:
        """Tokens that are kept free for a recalled block."""
        config = self.recall
        return config.cap(self.context_window) if config is not None and config.enabled else 0

    @property
    def told_window(self) -> int | None:
        """The window without a limit that no provider named. Such a limit refuses no request."""
        limit = self.state.clock.limit(self.given_window)
        return self.given_window if limit is not None and limit.source == CUT else self.context_window

    @property
    def counts(self) -> tuple[float, int]:
        """How many tokens the provider counts for one of ours, and for all that is sent beside the messages.

        As the host says for the window after a refusal: it was measured with all that was sent.
        """
        state = self.state
        known = state.clock.known() if state.clock.limits and self.refused_window is None else None
        if known is None or known.rule != state.view.rule.name:
            return 1.0, self.reserved_tokens
        return known.factor, max(known.fixed, self.reserved_tokens)

    @property
    def room(self) -> tuple[int | None, int]:
        """The window and what is sent beside the messages, both by our own count, with some slack."""
        window, (factor, beside) = self.context_window, self.counts
        if window is None or (factor, beside) == (1.0, self.reserved_tokens):
            return window, self.reserved_tokens
        return int(window * (1 - SLACK) / factor), ceil(beside / factor)

    def reported(self, tokens: int) -> int:
        """The provider's count of a request whose messages have *tokens* by ours."""
        factor, beside = self.counts
        return int(tokens * factor) + beside

    @property
    def usage(self) -> UsageRecord:
        """The sum of siltstone's own model calls, including earlier processes."""
        return self.state.clock.usage or total_usage(())

    def redact_text(self, text: str) -> str:
        """*text* without secrets, if the session redacts. Only such a text is written, or sent to a model."""
        return text if self.redacting is None else self.redacting.text(text)

    def redacted_rows(self, start: int, end: int) -> Iterable[LogRow]:
        """Messages of the log, redacted by the session's current rules."""
        found = self.rows.read(start, end)
        return found if self.redacting is None else self.redacting.rows(found)

    def check_open(self) -> None:
        """Raises an error if the session is closed, or was opened in another process."""
        self.origin.check()
        if self.is_closed:
            raise errors.StoreClosedError(
                f"session {self.session_id!r} was closed", session_id=self.session_id
            )

    def locked(self, step: Callable[[], T]) -> T:
        """Runs *step* under the lock.

        Raises:
            StoreForkedError: the session was opened in another process.
        """
        self.origin.check()
        with self._lock:
            return step()

    def follow(self) -> SessionState:
        """The state after reading the store: it has all changes of other workers."""
        return self.locked(self.followed)

    def reload(self) -> SessionState:
        """Reads the store, and accepts messages of other workers: the next write goes after them."""
        return self.locked(self._reload)

    def log(self, start: int, end: int | None) -> list[dict[str, Any]]:
        """Messages of the log, from *start* up to *end*."""
        self.check_open()
        for name, value in (("start", start), ("end", end)):
            if type(value) is not int and not (name == "end" and value is None):
                errors.refuse(name, "the number of a message, such as 5", value)
        end = self.follow().end if end is None else end
        return [decode(row.raw) for row in self.rows.read(start, end)]

    def compactions(self) -> tuple[list[CompactionRow], set[int]]:
        """Every row ever committed, and the ids of those that led to the current view."""
        head = self.follow().version.head
        found = self.rows.compactions()
        parents, current = {row.compaction_id: row.parent for row in found}, set()
        while head is not None and head in parents:
            current.add(head)
            head = parents[head]
        return found, current

    def text_of(self, seq: int) -> str | None:
        """The text of message *seq* of the log; None if it has no text, or was forgotten."""
        self.check_open()
        for message, _ in self.rows.messages(seq, seq + 1):
            if message.provenance != "placeholder":
                texts = [
                    part.text or part.arguments or "" for part in message.parts if part.kind != "reasoning"
                ]
                return "\n".join(text for text in texts if text) or None
        return None

    def view_left_by(self, row: NewCompaction) -> list[RawMessage]:
        """The view right after *row*."""
        return [item.message.raw for item in shown(self.rows, self.state.view, row)]

    def view_before(self, row: CompactionRow | None) -> list[RawMessage]:
        """The view right before *row*; for None, the current view, read from the log."""
        state = self.follow()
        parent, end = state.head, state.end
        if row is not None:
            parent, end = self._row(row.parent), row.compaction.next_seq
        return [item.message.raw for item in load(self.rows, state.view, parent, end)]

    def line(self) -> RangeSet:
        """The messages of the current line, as ranges of sequence numbers.

        The line is every message that the view shows, or that its summaries replace.
        """
        state = self.follow()
        return line_of(self.rows, content_of(state.head), state.end)

    # Changes.

    def append(self, raws: Sequence[RawMessage], usage: Any = None, call: Call | None = None) -> range:
        """Writes *raws* to the log, and then to the view: all, or none. Returns their sequence numbers."""
        numbers = self.locked(lambda: self.append_now(raws, usage, call))
        if self._spans or self._untold != 0:
            self.tell_secrets()
        if self.knowing.is_learning and self.knowing.config.tool_facts:
            from siltstone.session.learning import learn_results  # few sessions make facts of results

            learn_results(self)
        return numbers

    def pin(self, seq: int, *, pinned: bool) -> None:
        """Pins message *seq* of the view, or removes its pin. Durable when it returns."""
        before = self.state
        self.locked(lambda: retried(lambda: self._pin(seq, pinned, before)))

    def renew(self, derived_id: int, content: str, version: SessionVersion) -> None:
        """Gives a forgotten summary the new text *content*."""
        text = content if self.redacting is None else self.redacting.text(unmarked(content))

        def step() -> None:
            self.rows.renew(derived_id, text, expected=version, write_id=self.pend())
            self.followed()

        self.locked(step)

    def pass_boundary(self, band: int = 0) -> SessionState:
        """Counts one more boundary.

        There the window had reached the band at *band* per cent.
        The count is stored with the next write, so a turn costs one write.
        """
        return self.locked(lambda: self._passed(band))

    def failed(self, at: int, end: int, records: Sequence[UsageRecord], threshold: int | None = None) -> None:
        """Records a failed attempt that was due at *threshold*, with the *end* of the log at that time."""
        self._count(lambda clock: clock.failed(at, end, threshold or 0).charged(records))

    def charge(self, records: Sequence[UsageRecord]) -> None:
        """Adds the usage of siltstone's own model calls that belong to no committed compaction."""
        if records:
            self._count(lambda clock: clock.charged(records))

    def use_model(self, model: object) -> None:
        """Notes which *model* gets the next request; ignored if it is no name.

        The limit of another model ends then. It is stored with the next write.
        """

        def step() -> None:
            clock = replace(self.clock, agent_model=str(model), accepted=0, cached_tokens=0)
            self.state, self.refused_window = replace(self.state, clock=clock), None

        if isinstance(model, str) and model and model != self.clock.agent_model:
            self.locked(step)

    def learn_limit(self, limit: LearnedLimit | None) -> None:
        """Stores *limit* with the session; None: forgets all that was learned."""
        before, told, self.refused_window = self.context_window, self.clock.known().tokens, None
        self._count(lambda clock: clock.learned(limit))
        if limit is not None and limit.tokens != told:
            self.tell_limits(before)

    def tell_limits(self, before: int | None) -> None:
        """Tells which learned limit counts instead of the window *before*, and which ones do not count."""
        from siltstone.events import WindowLearned

        clock = self.clock
        limit = clock.limit(self.given_window)
        for each in clock.limits:
            if not each.tokens:
                continue
            binds = each is limit and (before is None or each.tokens < before)
            _log.log(
                logging.WARNING if binds else logging.INFO,
                "requests of session %r %s to %d tokens, by %s (model %r); session.reset_limits() ends it",
                self.session_id, "keep" if binds else "need not keep", each.tokens, each.source, each.model,
            )  # fmt: skip
            if binds:
                told = before, each.tokens, each.model, each.source
                notify(self.hooks, WindowLearned(self.session_id, *told))

    def tell_overhead(self, policy: str, threshold: int) -> None:
        """Tells once in the life of the session that what is sent beside the messages is too much."""
        clock = self.state.clock
        if clock.fixed_told:
            return
        from siltstone.events import OverheadTooLarge

        def step() -> None:
            self._save_clock(self.followed().clock.told_of_fixed())

        self._quietly(lambda: retried(step))
        window, history = self.context_window, self.state.view.tokens
        event = OverheadTooLarge(self.session_id, policy, self.counts[1], history, threshold, window)
        _log.warning("%s", event.sentence)
        notify(self.hooks, event)

    def tell_secrets(self) -> None:
        """Tells hooks where the last write had secrets, and of the limit that it taught."""
        before, self._untold = self._untold, 0
        if before != 0:
            self.tell_limits(before)
        spans, self._spans = self._spans, ()
        if spans:
            from siltstone.events import SecretsRedacted

            notify(self.hooks, SecretsRedacted(self.session_id, spans))

    def tell_repair(self) -> None:
        """Logs once that calls and results do not match, and that the session's requests are repaired."""
        if not self._has_told_repair:
            self._has_told_repair = True
            _log.warning(
                "calls and results of session %r do not match, and its requests are repaired: "
                "siltstone.messages.validate_history(session.history(), pending_ok=False) names them",
                self.session_id,
                extra={"session_id": self.session_id},
            )

    def tell_damage(self, count: int | None = None) -> None:
        """Tells hooks which damaged entries searches leave out, if that has changed.

        *count* is their number, if the caller knows it: an unchanged number saves a read of the store.
        """
        if count == len(self._damaged):
            return
        damaged = self.store.quarantined(self.session_id)
        if damaged != self._damaged:
            self._damaged = damaged
            if damaged:
                from siltstone.events import EntriesQuarantined

                _log.warning("%d entries of session %r are damaged", len(damaged), self.session_id)
                notify(self.hooks, EntriesQuarantined(self.session_id, damaged))

    def catch_up(self) -> None:
        """Updates the files beside the store. A failure is logged; the next call tries again."""
        if self.live is None:
            return
        try:
            self.live.catch_up()
        except (errors.SiltstoneError, OSError):
            _log.exception("the files of session %r are behind its store", self.session_id)

    def close(self, owns_store: bool) -> None:
        """Stores the clock if it has changed since the last write. Closes the store with *owns_store*."""

        def step() -> None:
            if self.is_closed:
                return
            self.is_closed = True
            try:
                self.catch_up()
                with hurried():
                    state = self.followed()
                    if (self.recalls or state.clock != state.stored) and not state.deleted:
                        self._save_clock(state.clock)
            except (errors.ReadOnlyStoreError, errors.StoreConflictError, errors.StoreUnavailableError):
                pass  # the store is read-only or away, or another worker has stored a newer clock
            finally:
                if owns_store:
                    self.store.close()

        self.locked(step)

    # Under the lock.

    def _passed(self, band: int) -> SessionState:
        state, self.is_asked = self.state, True
        self.state = passed = replace(state, clock=state.clock.passed(band))
        return passed

    def followed(self) -> SessionState:
        """:meth:`follow` for a caller that holds the lock."""
        state, pending = self.state, self.pending
        if pending is None:
            version = self.rows.version()
            if version is state.version or version == state.version:
                return state
            if version is None and state.deleted:
                return state
        written: Iterable[Item] = ()
        if pending is not None and pending.items and self._is_durable(pending):
            written = pending.items
        self.state = next_state(self.rows, state, self.rows.state(), self.session_id, written)
        if written:  # our own messages: an interrupted write that had become durable
            self.state = replace(self.state, own_end=self.state.end)
        self.pending = None
        return self.state

    def _reload(self) -> SessionState:
        self.check_open()
        state = self.followed()
        self.state = replace(state, own_end=state.end)
        return self.state

    def _is_durable(self, write: Write) -> bool:
        first = write.items[0].message.seq
        return any(row.write_id == write.write_id for row in self.rows.read(first, first + 1))

    def pend(self, items: Sequence[Item] = ()) -> int:
        """Notes a write of *items* that is about to begin. Returns its id."""
        self._last_id = write_id = self._last_id % LAST_ID + 1
        self.pending = Write(write_id, items)
        return write_id

    def append_now(self, raws: Sequence[RawMessage], usage: Any, call: Call | None = None) -> range:
        """:meth:`append` for a caller that holds the lock."""
        if self.is_closed:
            self.check_open()
        raws = [raw for raw in raws if not isinstance(raw, RecalledMessage)]  # belongs to one request only
        for tried in range(TRIES):
            is_known = not tried and self.pending is None  # the write itself compares the version
            state = self.state if is_known else self.followed()
            if call is not None and call.write_id and (answer := self.appended_before(call, len(raws))):
                return answer
            items, end = self.measured(raws, state), state.version.next_seq
            if call is not None:  # the host's own append, and no list that came as it is
                state.view.check_answers(items)
            clock, error = self.heard(usage, state)
            if self.is_asked and any(item.message.role == "assistant" for item in items):
                clock = self._answered(clock, usage, state)
            written = self.message_rows(items, state.view)
            write_id = self.pend(items)
            if call is not None:
                call.write_id, call.answer = write_id, range(end, end + len(items))
            try:
                version = self.rows.append(
                    written,
                    expected=state.version,
                    clock=clock.to_json(),
                    write_id=write_id,
                    recalls=self.unwritten() if self.recalls else (),
                )
            except errors.StoreConflictError:
                if self.rows.version() == state.version:
                    raise
                continue  # another worker has compacted, or stored its clock: append after that
            self.recalls.clear()
            after = state.appended(items, version, clock)
            self.state = after if error is None else replace(after, estimate_error=error)
            self.pending = None
            return range(end, end + len(items))
        raise self.conflict(self.followed())

    def appended_before(self, call: Call, length: int) -> range | None:
        """The sequence numbers of an interrupted append that had become durable, else None."""
        answer: range = call.answer
        stored = self.rows.read(answer.start, answer.start + 1)
        if length and stored and stored[0].write_id == call.write_id:
            return answer
        return None

    def heard(self, usage: Any, state: SessionState) -> tuple[CompactionClock, float | None]:
        """The clock with the provider's count of the last request, and the relative error of our estimate.

        The recalled block belongs to one request only, so its share of the count is left out.
        """
        if usage is None:
            return state.clock, None
        counted = input_tokens(usage)
        sent = self.requests.sent_tokens(state.view.sendable())
        block = self.recalled_tokens
        (factor, beside), whole = self.counts, sent + self.reserved_tokens + block
        is_known = (factor, beside) != (1.0, self.reserved_tokens)
        counted -= min(counted, int(block * factor) if is_known else counted * block // max(1, whole))
        cached = min(cached_tokens(usage), counted)  # a provider has no more in its cache than it was sent
        known = None
        if counted and sent and not state.view.is_mostly_media():
            before = state.clock.known()
            if not state.clock.last_input_tokens and before.pairs and before.pairs[-1][0] < sent:
                before = before._replace(pairs=())  # the history is another one, not one that has grown
            known = before.counted(sent, counted, state.view.rule.name, self.reserved_tokens)
            known = known.cut(self.given_window or 0)
            if known.tokens != before.tokens:
                self._untold = self.context_window
        clock = state.clock.heard(counted, state.end, cached, self.milliseconds(), known)
        return clock, (sent + self.reserved_tokens) / counted - 1 if counted else None

    def _answered(self, clock: CompactionClock, usage: Any, state: SessionState) -> CompactionClock:
        """*clock* after the last request was answered, by the provider's count or a cautious one of ours."""
        self.is_asked, self.refused_window = False, None
        sent = self.requests.sent_tokens(state.view.sendable()) + self.reserved_tokens
        return clock.answered(input_tokens(usage) or sent * 3 // 4, self.given_window)

    def _check_own_end(self, state: SessionState) -> None:
        if state.own_end != state.end and not state.deleted:
            raise self.conflict(state)

    def conflict(self, state: SessionState) -> errors.StoreConflictError:
        """The error of a write to a log that another worker has appended to."""
        return errors.StoreConflictError(
            f"another worker appended to session {self.session_id!r}: its log ends at {state.end}, and this "
            f"one knows it up to {state.own_end}; nothing was written; session.reload() goes on from there",
            session_id=self.session_id,
            expected=state.own_end,
            found=state.end,
        )

    def unwritten(self) -> list[NewRecall]:
        """The recalls since the last write, which the next write stores."""
        if not self.recalls:
            return []
        from siltstone.session import rows

        return rows.recall_rows(self.recalls.copy())  # another thread's ``prepare`` may add one meanwhile

    def message_rows(self, items: Sequence[Item], view: View) -> list[Any]:
        """*items* as rows for the log, without secrets if the session redacts.

        Raises:
            SecretRefusedError: a rule of the session refuses one of the messages.
        """
        if self.redacting is not None:
            items, self._spans = self.redacting.said(items)
        rows, rule = [], view.rule
        for item in items:
            message, tokens = item.message, rule.tokens(item.units)
            said = message.role, message.dialect, message.provenance
            rows.append(NewMessage(logged(message.raw), *said, tokens, item.created_at))
        return rows

    def measured(self, raws: Sequence[RawMessage], state: SessionState) -> list[Item]:
        """*raws* as the next messages of the log.

        Raises:
            InvalidMessageError: one of *raws* is no message.
            StoreConflictError: another worker has appended to the log.
        """
        seq = state.version.next_seq
        if state.own_end != seq:
            self._check_own_end(state)
        rule, created_at, items = state.view.rule, self.milliseconds(), list[Item]()
        for raw in raws:
            message = read_message(raw, seq)
            items.append(Item(message, rule.units(message), created_at))
            seq += 1
        return items

    def _pin(self, seq: int, pinned: bool, before: SessionState) -> None:
        self.check_open()
        state = self.followed()
        if pinned and not any(is_at(item.message, seq) for item in state.view):
            if any(is_at(item.message, seq) for item in before.view):
                raise errors.StoreConflictError(
                    f"message {seq} of session {self.session_id!r} has left the view: another worker "
                    "compacted it; nothing was written",
                    session_id=self.session_id,
                )
            raise errors.ConfigError(
                f"seq must be that of a message in the view of session {self.session_id!r}, got {seq!r}: "
                "what was discarded cannot be pinned",
                "seq",
                seq,
            )
        clock = state.clock.pinned(seq) if pinned else state.clock.unpinned(seq)
        if pinned:
            held = (item.message for item in state.view if item.message.seq in clock.pins)
            originals = [message for message in held if is_at(message, message.seq)]
            check_pin_budget(originals, state.view.rule, self.context_window)
        if clock != state.clock:
            self._save_clock(clock)

    def _save_clock(self, clock: CompactionClock) -> None:
        state, recalls = self.state, self.unwritten()
        version = self.rows.append(
            (), expected=state.version, clock=clock.to_json(), write_id=self.pend(), recalls=recalls
        )
        self.recalls.clear()
        self.state = state.ticked(version, clock)
        self.pending = None

    def save_settings(self, settings: str) -> None:
        """Writes the settings of the session, a JSON text."""

        def step() -> None:
            state = self.followed()
            self.rows.save_settings(settings, expected=state.version, write_id=self.pend())
            self.followed()

        self.locked(lambda: retried(step))

    def infer_clock(self) -> None:
        """Counts the boundaries of a log that was written without a session, and stores the number."""
        state = self.state
        if state.head is None:  # nothing has left the view
            history = (item.message for item in state.view)
        else:
            history = (message for message, _ in self.rows.messages(0, state.end))
        clock = replace(state.clock, boundary=CompactionClock.inferred(history).boundary)
        if clock == state.stored:
            return
        try:
            self._save_clock(clock)
        except errors.ReadOnlyStoreError:
            self.state = replace(state, clock=clock)  # kept in memory alone

    def _count(self, change: Callable[[CompactionClock], CompactionClock]) -> None:
        """Changes the clock, in memory first, so that no count is lost if the store refuses the write."""

        def step() -> None:
            try:
                self.followed()
            finally:
                self.state = replace(self.state, clock=change(self.state.clock))
            retried(save)

        def save() -> None:
            before = self.state.stored
            state = self.followed()
            if state.stored is not before:  # another worker's clock has replaced ours: change that one
                self.state = replace(state, clock=change(state.clock))
            self._save_clock(self.state.clock)

        self._quietly(step)

    def _quietly(self, step: Callable[[], None]) -> None:
        """Runs *step* under the lock. If the store refuses the write, logs that and keeps it in memory."""
        try:
            self.locked(step)
        except errors.StoreError:
            _log.exception("where session %r stands could not be stored", self.session_id)

    def retain(self) -> None:
        """Removes expired entries from the search, and entries beyond the session's retention."""
        retain(self.store, self.session_id, self.retention, self.hooks, self._now())

    def _row(self, compaction_id: int | None) -> CompactionRow | None:
        return None if compaction_id is None else self.rows.compaction(compaction_id)

    def milliseconds(self) -> int:
        """The time, in milliseconds since 1970."""
        return int(self._now() * 1000)


def is_at(message: Message, seq: int) -> bool:
    """Whether *message* is message *seq* of the log itself, not a summary that begins at that message."""
    return message.seq == seq and message.provenance != "compaction_summary"


def _new_id() -> int:
    """The id before the first write: 63 random bits. The ids of a worker follow it."""
    return int.from_bytes(os.urandom(8)) >> 1


# Tells which messages of a session are in context, so that a search need not return them.


class Outside(NamedTuple):
    """The messages that are not in context verbatim, and can be found.

    Attributes:
        left: Ranges of messages that are not shown.
        substituted: Messages of which the context shows a shorter text.
    """

    left: RangeSet
    substituted: frozenset[int]


class InContext:
    """The context of a session: its view, or the last request if the policy shapes requests."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._known: tuple[object, Outside] | None = None

    def outside(self) -> Outside:
        """The messages that are not in context. The same object is returned until they change."""
        core = self._core
        state, request = core.state, core.requests.last
        head = None if state.head is None else state.head.compaction_id
        at = head, state.version.redactions, request
        if self._known is None or self._known[0] != at:
            if request is not None:
                line = line_of(core.rows, content_of(state.head), MAX_INTEGER)
                outside = Outside(minus(line, request.shown), frozenset())
            else:
                view = () if state.head is None else state.view
                cut = frozenset(item.message.seq for item in view if item.message.provenance == "substitute")
                outside = Outside(() if state.head is None else state.head.compaction.covers, cut)
            self._known = at, outside
        return self._known[1]

    def shows(self, session_id: str, source_range: SourceRange) -> bool:
        """Whether the context has one of the messages of *source_range* verbatim."""
        if session_id != self._core.session_id:
            return False
        start, end = source_range
        outside = self.outside()
        if end - start == 1 and start in outside.substituted:
            return False
        end = min(end, self._core.state.end)
        return not has(outside.left, start, end)
