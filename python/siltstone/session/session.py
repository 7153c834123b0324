"""A session: prepares the messages for each model call of an agent, and keeps all messages in a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from siltstone.compaction.base import Checkpoint, Compactor, MemoryStatus
from siltstone.errors import ConfigError, SessionBusyError, explains
from siltstone.hooks import started
from siltstone.llm import Models, Steps, at_once, run
from siltstone.memory.database_log import RecallRecord
from siltstone.memory.entry import ForgetCriteria, ForgetReport, SearchHit, SearchOptions, SearchScope
from siltstone.messages import RawMessage
from siltstone.session.background import Job
from siltstone.session.boundary import Prepared, forecast
from siltstone.session.calls import (
    CLOSING_SECONDS,
    COMPACTION_TIMEOUT,
    OFFLOAD_TOKENS,
    OWN_POLICY,
    BaseSession,
    OwnPolicy,
)
from siltstone.session.concurrency import Call, Claim, Slot
from siltstone.session.opening import Options, Path, open_session, shows_options

if TYPE_CHECKING:
    from siltstone.engine import AfterCompact, BeforeCompact, Outcome, Plan
    from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType
    from siltstone.session.compactions import CompactionRecord
    from siltstone.session.observing import OnConflict
    from siltstone.session.recovery import Answer


T = TypeVar("T")


_log = logging.getLogger("siltstone")


@explains
class Session(BaseSession):
    """One conversation. Append each message, and call :meth:`prepare` before every model call.

    Open it with :meth:`open`. Many threads may use it; one compaction runs at a time.
    """

    @classmethod
    @shows_options
    def open(
        cls,
        path: Path | None,
        session_id: str,
        **options: Unpack[Options[Models, BeforeCompact, AfterCompact]],
    ) -> Self:
        """Opens the session *session_id*, new or as it was left.

        Args:
            path: A directory. The session's log and entries are in ``memory/memory.sqlite3`` below it,
                together with other sessions. Ignored if *memory* is a store.
            session_id: Any text of 1 to 1,024 bytes. It is data, never a path.
            preset: The name of a documented system, or a preset from ``siltstone.presets``. It sets the
                policy and the other options of that system. All sessions of a store have the same preset.
                Left out: a session keeps the preset and settings of its last opening; a new session in the
                store of a preset is an error. None: no preset.
            policy: Decides when to compact, and which messages to discard. Left out: ``ThresholdCompactor()``
                if there is a window, else none. None: compaction is off, and ``prepare`` returns the whole
                history.
            model: Writes summaries: a callable ``CompletionRequest -> Completion | str``; or a list of them,
                each asked if those before it failed. Left out: ``ExtractiveModel()``, which needs no network.
                None: no model at all.
            context_window: The model's window in tokens. With a policy, ``prepare`` never returns more. If
                the provider names a smaller limit in an error, :meth:`recover` learns it for the session.
                ``"auto"``: the window of *agent_model*, from the table of ``siltstone.limits``; for an
                unknown model 200,000, and a warning is logged.
            agent_model: The name of the agent's model, for ``context_window="auto"`` and :attr:`limits`.
                Without a policy of yours, tokens are counted as its family of tokenizers counts them: see
                :func:`siltstone.tokens.rule_for`.
            reserved_tokens: Tokens that you send beside the history: tool definitions, a system prompt passed
                as a parameter, the room for the answer. They count against thresholds and window.
            memory: True: discarded messages become searchable. False: they stay in the log alone. A store:
                like True, in that store, which you close yourself.
            namespace: A text that sessions of one owner share, such as ``acme/user-42``. It is fixed when the
                session is first opened; another one later is an error. "" means no namespace; left out, the
                stored one is kept. Searches, tools, recall and facts of each session reach those of the
                others, from their first message on, but nothing of a session that was opened with
                ``memory=False``.
            index_tools: False leaves the names, arguments and results of tools out of the search. About half
                of the questions to agents are about them.
            recall: True: before each model call, discarded messages that match the last user messages are
                added to the request, at most 4,000 tokens and three tenths of the window. A
                :class:`RecallConfig` sets the size, the sources and the place. False: no recall.
            redaction: True: secrets are replaced by placeholders in all written texts. A
                :class:`RedactionConfig`, or a ``siltstone.redaction.Redactor``: the same by its rules. Your
                own appended objects keep their secrets in memory until the session is opened again. Left out:
                on if *recall* is on.
            knowledge: Whether the session learns facts from discarded messages. True: by patterns at each
                compaction, and in the background by its model, unless that is the extractive one. A
                ``siltstone.knowledge.KnowledgeConfig``: the same with its settings. Left out: on if *recall*
                is on. Facts that you or the model save are kept in either case.
            allow_forget: Whether the model gets the tool ``memory_forget``. Text in the conversation can
                persuade a model to forget.
            archive: A folder for the documented files of an archive (``segments.jsonl``, ``knowledge.jsonl``,
                ``vectors.bin``), or a ``siltstone.archive.ContextArchive``. The files are written after each
                compaction, beside the store. A new session reads files that are there already.
            hooks: Called with each event. An exception of a hook is logged, and changes nothing else.
            on_before_compact: Receives the :class:`Plan` of a due compaction. Its :class:`Guidance` may veto
                the compaction, pin messages or add instructions. None goes on.
            on_after_compact: Receives the result of a compaction before the commit. It may return user
                messages, which are added to the end of the history. They open no turn and are not indexed.
            hook_timeout: Seconds that each of these two hooks may take, in a thread of its own; None for no
                limit, in your thread. If a hook raises, hangs or returns a wrong value, the compaction fails.
                The emergency fit calls neither.
            check: Whether every request is checked against all rules of its provider; this reads the whole
                view. Calls and results that do not match are repaired in every request, with and without it.
                If a fault is left that no repair heals, such as an empty message or messages of two dialects,
                ``prepare`` raises ``IllegalHistoryError``. An illegal rewrite fails and changes nothing.
            time_zone: The zone in which days begin when the model searches for "yesterday": a ``tzinfo``, or
                a name such as ``"Europe/Paris"``. None: the zone of the machine.
            background: Whether a policy with tiers asks the model in a thread of its own while the
                conversation goes on. False: ``prepare`` waits for it.
            unrelated: What a list for ``observe`` means that shares no request with the session, as after a
                restart of the host. ``"first"``: the first one after the session was opened begins a **run**:
                it is appended, and all earlier messages stay; a later one is a branch. ``"always"``: each one
                begins a run, for a host that sends only what is new. ``"branch"``: each one is a branch, for
                a server that opens the session for each request and lets a user edit the first message.
                ``"raise"``: each one is an error.
            retention: How many messages of the session stay findable, and how long. None: all, for ever.

        Raises:
            TypeError: an option does not exist.
            ConfigError: an argument out of its bounds.
            StoreOpenError: the store cannot be opened.
            InvalidEntryError: *session_id* is empty, too long, or not valid Unicode.
        """
        return cls(open_session(path, session_id, options, is_async=False))

    def append(self, message: RawMessage, *more: RawMessage, usage: Any = None) -> range:
        """Adds messages to the end of the history. They are durable when it returns: all, or none.

        An interrupted call may be repeated: messages that are durable already are not written twice.

        Args:
            message: A message in any dialect; the same object comes back from :meth:`prepare`.
            more: Further messages. One call with many messages costs one write.
            usage: The provider's usage for the call that gave this message: its usage object, or its number
                of input tokens. Policies use this count beside their own estimate.

        Returns:
            The sequence numbers: the first message ever appended is 0.

        Raises:
            InvalidMessageError: not a message, or one over the size limit. Nothing was written.
            IllegalHistoryError: the messages end with a tool result that answers no call: the call is not
                there, or has a result. Nothing was written. A result that comes late, after other messages,
                is taken.
            StoreConflictError: another worker appended to the session since this one last wrote to it.
                Nothing was written; call :meth:`reload`, and append again.
            StoreError: the store could not write. Nothing was written.
        """
        raws = (message, *more)
        return self._once(
            "append", (*raws, usage), lambda call: self._step(partial(self._core.append, raws, usage, call))
        )

    def offload(self, result: RawMessage, tokens: int = OFFLOAD_TOKENS, *, usage: Any = None) -> range:
        """Appends a message with a large tool result. Requests show only a part of the result.

        The log keeps the whole result. The view shows its head and its tail; between them it tells how much
        was cut, and the handle with which ``memory_get`` reads the rest by lines or by a pattern. A search
        finds it, too. One transaction writes both. A small result, or a message without a tool result, is
        appended as by :meth:`append`.

        Args:
            result: A message in any dialect with the result of a tool.
            tokens: The maximum tokens of the result in view, 64 or more.
            usage: As for :meth:`append`.

        Returns:
            Its sequence number, as a range of one.

        Raises:
            ConfigError: *tokens* is too small.
            InvalidMessageError: not a message. Nothing was written.
            IllegalHistoryError: as for :meth:`append`.
            StoreError: the store could not write. Nothing was written.
            SessionBusyError: another thread's compaction took longer than ten minutes.
        """
        given = result, tokens, usage
        return self._once("offload", given, lambda call: self._run(self._calls.offload(call, *given)))

    def reload(self) -> None:
        """Reads the session's current state from the store, after another worker appended to it.

        Calls that read follow other workers by themselves. Calls that append do not, because a message
        written without knowledge of the other worker's messages would be in the wrong place.
        """
        self._core.reload()

    def observe(
        self, history: Sequence[RawMessage], *, usage: Any = None, on_conflict: OnConflict = "branch"
    ) -> int:
        """Brings the session in step with *history*, the message list that the host keeps itself.

        Pass the list before every :meth:`prepare`. Messages that the log lacks are appended. The list may be
        the host's full list, its newest part, or the ``history`` of an earlier answer followed by newer
        messages; summaries in it are recognised and skipped. The list may lack messages before its last known
        one: the session keeps them. The same list twice changes nothing. The request has the host's current
        objects: system messages are not compared, and their newest form is sent.

        A host that was restarted begins with an empty list. Its list begins a **run**: it is appended, and
        what was said before stays in context and can be found. Hooks hear ``HistoryContinued``. See the
        option ``unrelated`` of :meth:`open`, and :meth:`new_run`.

        If the list changes or removes earlier messages of its run (the user edited a message, an answer was
        generated again, the agent returned to an earlier state), the session branches: the view is the common
        part, then the rest of the list. Messages that left are neither shown nor found any more, and stay in
        :meth:`log`. Hooks hear ``HistoryBranched``, :meth:`compactions` lists the branch with the reason
        ``"branch"``, :meth:`expand` reads the messages that left, and :meth:`undo_compaction` restores them.

        Args:
            history: Messages in any dialect.
            usage: As for :meth:`append`, for the call that gave the first new message.
            on_conflict: ``"branch"``: as above. ``"raise"``: a list that has rewritten the past is an error.

        Returns:
            The number of new messages.

        Raises:
            HistoryConflictError: *history* has rewritten the past, and *on_conflict* is ``"raise"``, or the
                session cannot follow: *history* is empty, has a summary of another history, or goes on with
                an earlier run, as when two lists use one session. Nothing was written.
            InvalidMessageError: one of the new messages is no message. Nothing was written.
            StoreConflictError: another worker appended messages that *history* lacks. Nothing was written;
                call :meth:`reload` first.
            ConfigError: *on_conflict* is neither.
        """
        from siltstone.session.observing import observe

        return observe(self._core, history, usage, on_conflict)

    def prepare(
        self,
        *,
        policy: Compactor | OwnPolicy | None = OWN_POLICY,
        request_bytes: int | None = None,
        recall: bool = True,
    ) -> Prepared:
        """The messages to send to the model now. Call it before every model call.

        Compacts first, if that is due. Discarded messages are durable and searchable before they leave the
        view. A policy with tiers compacts in the background: this call inserts a summary that an earlier call
        has requested, and does not wait for a model. A failed attempt leaves the history as it was, and is
        reported in ``compaction``. A second call without a new message in between gives the same answer.

        Args:
            policy: For this call alone: another policy, or None for no compaction.
            request_bytes: The size of the whole request in bytes, if the host knows it; otherwise it is
                computed from the messages.
            recall: False leaves recalled context out of this request.

        Raises:
            ContextOverflowError: the system prompt, the request in flight and pending calls alone
                exceed the window. Nothing was changed.
            IllegalHistoryError: the provider would refuse the history, and the session was opened with
                ``check=True``. The messages were illegal when they were appended. Nothing was changed.
            SessionBusyError: another thread's compaction took longer than ten minutes.
        """
        try:
            with self._core.one_look():
                known = self._calls.known(policy, recall)
                answer = known or self._run(self._calls.boundary(policy, request_bytes, recall))
        finally:
            self._begin_driver()
        self._begin_reader()
        return answer

    def wait_for_compaction(self, timeout: float | None = None) -> bool:
        """Waits until the background compaction has its summary. The next ``prepare`` shows the summary.

        The call is optional: it is for a host with idle time, and for tests. It returns at once if no
        compaction is under way.

        Args:
            timeout: The maximum number of seconds; None for no limit.

        Returns:
            Whether no compaction is under way any more.
        """
        self._core.origin.check()
        if self._driver is not None:
            wait([self._driver[1]], timeout)
        return not self._core.background.is_running

    def recall(self, query: str | Sequence[RawMessage]) -> str:
        """The block that would be recalled for *query*, or for the last user messages of a list.

        It is computed now, and changes nothing. Empty if nothing is relevant.

        Raises:
            ConfigError: the session was opened without recall.
        """
        with self._core.one_look():
            self._core.check_open()
            if self._calls.recalling is None:
                raise ConfigError(
                    f"session {self.session_id!r} was opened without recall; open it with recall=True",
                    "recall",
                    False,
                )
            return self._calls.recalling.text(query)

    def plan(self) -> Plan:
        """Tells what :meth:`prepare` would do now. Calls no model and no hook, and changes nothing.

        Returns:
            The plan of the due compaction, or of the emergency fit if only that is due. If nothing is due,
            ``compacts`` is False, ``reason`` is ``"not_due"`` or ``"no_policy"``, and the call takes
            microseconds at any length. ``covers`` are sequence numbers of the log. If a compaction leaves
            more than the window, the emergency fit follows it; the plan does not show that.
        """
        return forecast(self._core, self._calls.policy, self._calls.asked)

    def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not.

        Args:
            focus: A subject that the summary should keep in particular.

        Returns:
            ``Compacted``, ``Skipped(reason)`` or ``Failed(reason)``. While another call compacts, it is
            skipped with the reason ``in_flight``.
        """
        return self._at_once(self._calls.compaction(focus), reads=True)

    def fork(self, session_id: str, *, prompt: str = "") -> Self:
        """A new session that begins as a copy of this one: log, view, search entries, facts and options.

        ``TieredCompactor`` compacts the fork, if it is too large, before its first call.

        Args:
            session_id: The id of the fork; the store must have no messages of it.
            prompt: The first user message of the fork; it counts against the window. "": none.

        Raises:
            ConfigError: the id is taken, a call in view waits for its result, or *prompt* is no text. Nothing
                was written.
            StoreConflictError: another worker began to write to *session_id* meanwhile. Its messages stay.
        """
        from siltstone.session.transfer import fitted, forked

        fork = type(self)(forked(self._opened, session_id, prompt, is_async=False))
        try:
            fork._run(fitted(fork._opened, prompt))
            if prompt:
                fork.append({"role": "user", "content": prompt})
        except BaseException:
            fork.close()
            raise
        return fork

    def memory_status(self) -> MemoryStatus:
        """The state of waterfall memory: the messages of each summary, the time of the next run, and faults.

        Known as ``@memory-status``. Calls no model, and changes nothing. ``report.markdown`` is for people,
        ``report.line`` for a prompt.

        Raises:
            ConfigError: the session's policy keeps no such memory.
        """
        self._core.check_open()
        core, policy = self._core, self._calls.check_reporter("memory_status")
        state = core.follow()
        items = state.view.items()
        report: MemoryStatus = policy.status(
            [item.message for item in items],
            core.policy_line.state(policy.name, state.head),
            next_seq=state.end,
            times=[item.created_at / 1000 if item.created_at else None for item in items],
            now=core.milliseconds() / 1000,
        )
        return report

    def checkpoints(self) -> list[Checkpoint]:
        """The chronicle of the session: all checkpoints and roll-ups that lead to its view, in order.

        ``log(start, end)`` reads the messages that a checkpoint covers. Nothing is changed.

        Raises:
            ConfigError: the session's policy writes no checkpoints.
        """
        from siltstone.session import compactions

        return compactions.checkpoints(self._core, self._calls.policy)

    def compact_memories(self) -> Outcome:
        """Runs waterfall summaries now, even below their trigger; like :meth:`compact`."""
        self._calls.check_reporter("compact_memories")
        return self.compact()

    def resummarize(self, focus: str | None = None) -> Outcome:
        """Writes the summaries in the view again, from the messages that they replace.

        Each summary of a summary loses details. This call reads the original messages in the log again,
        without forgotten ones, and replaces the earlier summaries by one new summary of level 1. No other
        message leaves the view. It makes as many model calls as the original messages need.
        :meth:`undo_compaction` takes it back.

        Args:
            focus: A subject that the new summary should keep in particular.

        Returns:
            ``Compacted``; ``Failed(reason)``; or ``Skipped`` with the reason ``nothing_to_discard`` (there
            is no summary), ``not_supported`` (the policy cannot) or ``in_flight``.
        """
        return self._at_once(self._calls.resummarizing(focus))

    def recover(self, error: Exception) -> Prepared:
        """A smaller request, after the provider refused the prepared one as too large.

        Compacts by the policy, or without a model if that fails. The second time for the same request the
        emergency fit keeps half of it. Call it around the model call::

            while True:
                try:
                    answer = ask(prepared.messages)
                    break
                except Exception as error:
                    prepared = session.recover(error)

        Raises:
            Exception: *error* itself, if it is no overflow (by ``siltstone.limits``), if the session has no
                policy, and after two retries. So the loop above ends.
        """
        return self._run(self._calls.recovery(error))

    def ask(self, call: Callable[[list[Any]], T]) -> Answer[T]:
        """Prepares a request and passes it to *call*. After an overflow it sends a smaller request.

        There are at most two retries, or as many as the policy allows. Each ends with a user message that
        tells the model to go on; this message is not in the log. If the last retry is too large, the
        assistant's last text is the partial answer.

        Args:
            call: Sends a list of messages to the agent's model. Its result is ``Answer.value``; append it to
                the session yourself.

        Raises:
            ConfigError: *call* is not callable.
            Exception: an exception of *call* that is no overflow; or the overflow itself, if nothing can be
                discarded.
            ContextOverflowError: every request was too large, and there is no partial answer.
        """
        from siltstone.session.recovery import asked

        answer: Answer[T] = at_once(asked(self, call, waits=False))
        return answer

    def pin(self, seq: int) -> None:
        """Keeps message *seq* of the log, and its group, verbatim in every view. Durable at once.

        Args:
            seq: Its sequence number: the first message ever appended is 0.

        Raises:
            ConfigError: no message with that number is in the view. A discarded message cannot be pinned.
            StoreConflictError: another worker's compaction has discarded the message.
        """
        self._core.pin(seq, pinned=True)

    def unpin(self, seq: int) -> None:
        """Takes the pin from message *seq*. A message without a pin is left alone."""
        self._core.pin(seq, pinned=False)

    def search(self, query: str, limit: int = 5, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """The messages that match *query* best, best first: discarded ones, and those still in context.

        A hit that is still in context has ``in_context``. See ``Store.search`` for the arguments.

        In a namespace its sessions are searched; ``scope="session"`` searches this one alone.

        Raises:
            ConfigError: the session was opened with ``memory=False``, or the store lacks the ranker.
            InvalidEntryError: *limit*, *min_score* or *query* is out of bounds.
        """
        return self._calls.search(query, limit, options)

    def forget(self, **criteria: Unpack[ForgetCriteria]) -> ForgetReport:
        """Forgets what was said in this session: in the log, the entries, the summaries and the files.

        The criteria are those of ``MemoryStore.forget`` without the session: ``entry_ids``, ``start``,
        ``end``, ``name``, ``before``, ``text``, ``fact_ids``. A message must meet all given criteria; without
        criteria the whole session is forgotten. ``near``, ``identifiers`` and ``dry_run`` are as there.
        When the call returns, the view has no forgotten text: a sentence replaces each affected summary. No
        model is asked. After the next ``prepare`` a model writes those in the view again from the remaining
        messages, in the background, with at most two calls.
        """
        return self._run(self._calls.forgetting(criteria))

    def facts(
        self,
        query: str | None = None,
        limit: int = 100,
        *,
        as_of: datetime | float | None = None,
        types: Sequence[str] = (),
        topic: str | None = None,
        entity: str | None = None,
        history: bool = False,
        scope: SearchScope | None = None,
    ) -> list[Fact]:
        """The facts that hold, newest first; with a *query*, the facts that match it, best first.

        A fact must contain both words of a query of two words, half of the words of a query of up to eight,
        and 30 % of the words of a longer query.

        Args:
            query: Any text; None for all facts.
            limit: The maximum number of facts.
            as_of: A time: facts that held then; left out, facts that hold now. A number is seconds since
                1970.
            types: Only facts of these types.
            topic: Only facts of this topic, from the documented table: ``database``, ``deployment``, ....
            entity: Only facts with this entity, such as ``person:Ann``, or ``Ann``.
            history: Whether to add superseded, retracted and ended facts. The query is then ignored.
            scope: ``session``: only facts of this session; left out, those of its namespace, too.

        Raises:
            ConfigError: the session has ``memory=False``, or *limit* is below 0.
        """
        from siltstone.session.learning import find

        self._calls.check_facts()
        return find(
            self._core,
            query,
            limit,
            as_of=as_of,
            types=types,
            topic=topic,
            entity=entity,
            everything=history,
            scope=scope,
        )

    def standing(self) -> list[Fact]:
        """The user's wishes that stay in force: rules, limits, likes, names; the newest first.

        They are learned from the user's own words without a model, and each request has those whose messages
        have left the context, as far as a twentieth of the window holds them. :meth:`retract` takes one back;
        ``save(text, tags=["standing"])`` adds one.

        Raises:
            ConfigError: the session has ``memory=False``.
        """
        from siltstone.session.learning import standing

        self._calls.check_facts()
        return standing(self._core)

    def fact_history(self, fact_id: str) -> list[Fact]:
        """The versions of a fact, each in place of the one before, oldest first; [] for an unknown id."""
        from siltstone.session import learning

        self._calls.check_facts()
        return learning.history(self._core, fact_id)

    def save(
        self,
        text: str,
        memory_type: MemoryType | FactType = "fact",
        *,
        importance: float | None = None,
        context: str = "",
        source: str = "",
        tags: Sequence[str] = (),
        valid_until: datetime | float | None = None,
    ) -> Fact:
        """Keeps *text* as a fact. Durable when it returns.

        Args:
            text: A sentence that can be understood alone.
            memory_type: One of the nine types of ``memory_save``, or of the six types of an extraction.
            importance: 0..1; left out, the importance of the type.
            context: The subject of the fact, if the sentence does not name it.
            source: The person or system that states it.
            tags: Your own words.
            valid_until: The time at which it stops to hold. A number is seconds since 1970.

        Returns:
            The fact; or the known fact, if one with the same text and type holds already.

        Raises:
            ConfigError: an unknown type, an empty text, or *importance* out of its range.
        """
        from siltstone.session import learning

        with self._calls.changing_facts():
            return learning.save(
                self._core,
                text,
                memory_type,
                importance=importance,
                context=context,
                source=source,
                tags=tags,
                valid_until=valid_until,
            )

    def retract(self, fact_id: str) -> bool:
        """Takes a fact back. It holds no more, and stays in the history. False if no such fact held.

        To delete its text, call ``forget(fact_ids=[...])``.
        """
        from siltstone.session import learning

        with self._calls.changing_facts():
            return learning.retract(self._core, fact_id)

    def restore(self, fact_id: str) -> bool:
        """Brings back a fact that was replaced or taken back; what replaced it holds as well.

        False if no such fact is history.
        """
        from siltstone.session import learning

        with self._calls.changing_facts():
            return learning.retract(self._core, fact_id, back=True)

    def record_denial(
        self, tool: str, arguments: str | Mapping[str, Any], reason: str = "", goal: str = ""
    ) -> Correction:
        """Records that the user refused a call of *tool*. Corrections that repeat become rules.

        The rules are in ``memory_instructions``, for this session and later ones of its scope. An interrupted
        call may be repeated: a durable correction is not written twice.

        Args:
            tool: The tool's name.
            arguments: The arguments of the call, as text or as a mapping; 200 characters are kept.
            reason: The wish of the user instead, if known.
            goal: The purpose of the call.

        Raises:
            ConfigError: an argument is no text, or *tool* is blank; carries ``field``.
        """
        from siltstone.session import learning

        given = tool, arguments, reason, goal

        def record(call: Call) -> Correction:
            with self._calls.changing_facts():
                return learning.record_denial(self._core, call, *given)

        return self._once("record_denial", given, lambda call: self._step(partial(record, call)))

    def learn(self) -> Learned:
        """Asks the model now for facts in discarded messages that it has not read yet.

        ``prepare`` starts the same in a thread of its own, without waiting for it. If such a reading is under
        way, this call waits for its end.
        """
        self._calls.check_facts()
        return self._read(COMPACTION_TIMEOUT)

    def log(self, start: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """The appended messages in order, read back from the store.

        Args:
            start: The first sequence number.
            end: One past the last sequence number; None for all.
        """
        return self._core.log(start, end)

    def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions and branches that led to the current view, oldest first.

        Args:
            undone: Whether to list undone ones too. They are never deleted.
        """
        from siltstone.session import compactions

        return compactions.records(self._core, undone=undone)

    def recalls(self, limit: int = 100) -> list[RecallRecord]:
        """Records of the session's recalls, newest first: the entries in each block, and those left out.

        The log keeps the newest 1,000 as ids and figures, without a second copy of any text. A recall is
        stored with the next write of the session, so a process that is killed loses its last one. A fork
        begins without records.

        Args:
            limit: The maximum number of records, >= 1.

        Raises:
            ConfigError: *limit* is below 1.
        """
        from siltstone.session.recalling import recalls  # for who looks back

        return recalls(self._core, limit)

    def view_at(self, n: int) -> list[Any]:
        """The view right after the *n*-th of :meth:`compactions`, without messages appended later.

        Args:
            n: The first compaction is 1; 0 is the history that the first compaction read.

        Raises:
            ConfigError: *n* is negative, or there are fewer compactions than *n*.
        """
        from siltstone.session import compactions

        return compactions.view_at(self._core, n)

    def undo_compaction(self, *, compaction_id: int | None = None) -> CompactionRecord | None:
        """Undoes the last compaction or branch, in one transaction. None if there is none.

        Args:
            compaction_id: The id of the compaction or branch that is to be undone, if it is the last one.

        After the undo of a branch, the view is exactly as before the branch: messages of the branch leave it,
        and messages that had left can be found again. If a host passes the list of the branch again, the
        session branches again.

        After the undo of a compaction, the view is as before the compaction, followed by all messages
        appended since. A search does not find messages that are in context again: the entries that this
        compaction added are deleted. Entries that a caller indexed stay. The next compaction adds entries
        again. The time at which the next compaction is due does not change.

        An interrupted call may be repeated: it undoes one compaction, not two.

        Raises:
            StoreConflictError: another worker changed the session meanwhile, or *compaction_id* is not the
                last one. Nothing was changed.
            SessionBusyError: another thread's compaction took longer than ten minutes.
        """
        key = () if compaction_id is None else (compaction_id,)
        return self._once("undo", key, lambda call: self._run(self._calls.undo(call)))

    def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a compaction's summary replaces, also through summaries of summaries.

        If the compaction replaced large messages by shorter ones, the large ones are included.

        Args:
            summary_id: The id of a compaction of this session, undone or not; or of a branch, for the
                messages that left the view with it.

        Raises:
            CompactionNotFoundError: this session has no such compaction.
        """
        from siltstone.session import compactions

        return compactions.expand(self._core, summary_id)

    def close(self) -> None:
        """Writes pending changes, and closes the store if the session opened it.

        Waits up to a second for a model that reads for facts. The next opening of the session reads the
        rest. A background compaction is given up, and its messages stay in the view. In a forked child
        process the call does nothing, because the session belongs to the parent.
        """
        if not self._core.origin.is_here:
            return
        self._calls.end_background()
        reader = self._reader
        is_inside = self._core.knowing.slot.is_own  # the reader would wait for itself
        if reader is not None and not is_inside and wait([reader], CLOSING_SECONDS).not_done:
            _log.warning("facts of session %r are read when it is next opened", self.session_id)
        self._core.close(self._owns_store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _beside(self, work: Callable[[], T]) -> Future[T]:
        return started(lambda _: work(), None, "siltstone-background")

    def _drive(self, job: Job) -> None:
        run(job.steps(), self._model)

    def _read(self, timeout: float) -> Learned:
        from siltstone.knowledge import Learned
        from siltstone.session.learning import extraction

        model = self._calls.extraction_model(self._model)
        if model is None:
            return Learned()
        try:
            return self._run(extraction(self._core), timeout, self._core.knowing.slot, model)
        except SessionBusyError:
            return Learned()

    def _at_once(self, flow: Steps[Outcome], *, reads: bool = False) -> Outcome:
        """Drives *flow*, and then reads for facts; or tells that another call may compact now."""
        try:
            outcome = self._run(flow, timeout=0)
        except SessionBusyError:
            return self._calls.in_flight()
        if reads:
            self._begin_reader()
        return outcome

    def _once(self, what: str, key: tuple[object, ...], work: Callable[[Call], T]) -> T:
        """Does *work*, whose effect a repeated call must not have again: see :class:`Call`."""
        with self._core.calls.begin(what, key, get_ident()) as call:
            return work(call)

    def _step(self, step: Callable[[], T]) -> T:
        return step()

    def _run(
        self,
        flow: Steps[T],
        timeout: float | None = None,
        slot: Slot | None = None,
        model: Models | None = None,
    ) -> T:
        """Drives *flow* when no other call of this session may compact, or has the given *slot*."""
        self._core.origin.check()  # before any lock
        seconds = COMPACTION_TIMEOUT if timeout is None else timeout
        slot, model = slot or self._core.slot, model or self._model
        claim = Claim(flow)
        try:
            if not slot.take(claim, seconds):
                raise self._calls.busy(seconds)
            return run(flow, model)
        finally:
            flow.close()
            slot.wake()
