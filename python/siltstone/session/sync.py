"""A session: the turn boundary of an agent, over a log that loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack

from siltstone.compaction.base import Checkpoint, Compactor, MemoryReport
from siltstone.errors import SessionBusyError
from siltstone.memory.entry import ForgetReport, Ranker, SearchFilters, SearchHit, SearchOrder, SearchScope
from siltstone.session.background_thread import BackgroundThread
from siltstone.session.base import BaseSession
from siltstone.session.calls import OFFLOAD_TOKENS, OWN_POLICY, OwnPolicy
from siltstone.session.learning_thread import LearningThread
from siltstone.session.opening import Opened, Options, Path, SessionOptions, open_session
from siltstone.session.slot import Claim

if TYPE_CHECKING:
    from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType
    from siltstone.llm import Models, Steps
    from siltstone.memory.recalled import RecallRecord
    from siltstone.messages import RawMessage
    from siltstone.outcome import AfterCompact, BeforeCompact, Outcome, Plan
    from siltstone.session.asking import Answer
    from siltstone.session.boundary import Prepared
    from siltstone.session.compactions import CompactionRecord
    from siltstone.session.forgetting import Criteria
    from siltstone.session.observing import OnConflict

__all__ = ["Session", "StoreOptions"]

T = TypeVar("T")
StoreOptions: TypeAlias = "SessionOptions[Models, BeforeCompact, AfterCompact]"
"""The options of :meth:`Session.open`, beside the store."""


class Session(BaseSession):
    """One conversation: appended message by message, prepared before every model call.

    Open it with :meth:`open`. It may be used from many threads; one compaction runs at a time.
    """

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`open`."""
        super().__init__(opened)
        self._learning = LearningThread(self._calls, opened.model)
        self._background = BackgroundThread(opened.core.background, opened.model)

    @classmethod
    def open(
        cls,
        path: Path | None,
        session_id: str,
        **options: Unpack[Options[Models, BeforeCompact, AfterCompact]],
    ) -> Self:
        """Opens the session *session_id*, new or as it was left.

        Args:
            path: A directory. The session's log and entries are kept in ``memory/memory.sqlite3`` below
                it, together with those of other sessions. Ignored where *memory* is a store.
            session_id: Any text of 1 to 1,024 bytes. It is data, never a path.
            preset: A documented system by its name, or made by ``siltstone.presets``: it says the policy and
                whatever else the system has. A store holds sessions of one. Left out: a session goes on with
                the preset and the settings that it was last opened with, and a new one in the store of a
                preset is an error. None: without a preset.
            policy: When and what to give up. Left out: ``ThresholdCompactor()`` where there is a window, else
                none. None: compaction is off, and ``prepare`` returns the whole history.
            model: Writes summaries: a callable ``CompletionRequest -> Completion | str``; or a list of them,
                each asked where those before it failed. Left out: ``ExtractiveModel()``, which needs no
                network. None: no model at all.
            context_window: The model's window in tokens. With a policy, ``prepare`` never returns more. Where
                the provider names a smaller limit in an error, :meth:`recover` learns it for the session.
                ``"auto"``: that of *agent_model*, by the table of ``siltstone.windows``; for a model that it
                does not have 200,000, and a warning is logged.
            agent_model: The name of the agent's model, for ``context_window="auto"``.
            reserved_tokens: Tokens of what you send beside the history: tool definitions, a system prompt
                that is a parameter, the room for the answer. They count against thresholds and window.
            memory: True: what is discarded becomes searchable. False: it is kept in the log alone. A
                store: the same in that store, which stays yours to close.
            namespace: A text that sessions of one owner share, such as ``acme/user-42``. It is fixed when the
                session is first opened; another one later is an error. "" is none, left out any. With
                ``scope="namespace"`` each of them finds what the others said, from its first message on; of
                one that was opened with ``memory=False`` nothing.
            cross_session: The tool ``memory_search`` searches all of the namespace.
            index_tools: False leaves the names, arguments and results of tools out of what is searchable.
                They are half of what agents are asked about.
            recall: True: before each model call, what was compacted away and fits the last user messages
                is placed before the model, within ``min(4,000 tokens, a tenth of the window)``. A
                :class:`RecallConfig` says how much, of what, and where. False: nothing is.
            redaction: True: secrets are taken out of everything before it is written, and placeholders stand
                in their place. A :class:`RedactionConfig`, or a ``siltstone.redaction.Redactor``: by its
                rules. What you appended stays as it is until the session is opened anew. Left out: where it
                recalls.
            knowledge: Whether the session learns facts from what it discards. True: by patterns at each
                compaction, and by its model, beside the conversation, where that is not the extractive one. A
                ``siltstone.knowledge.KnowledgeConfig``: the same, as it says. Left out: where it recalls.
                Facts that are saved are kept in either case.
            allow_forget: Whether the model is offered the tool ``memory_forget``. What may forget can be
                talked into it.
            archive: A folder for the documented files of an archive (``segments.jsonl``, ``knowledge.jsonl``,
                ``vectors.bin``), or a ``siltstone.archive.ContextArchive``: written after each compaction,
                beside the store, and read where they were there before the session.
            hooks: Called with each event. One that raises is logged and breaks nothing.
            on_before_compact: Told the :class:`Plan` of a compaction that is due; may veto it, pin messages
                for it or add instructions: :class:`Guidance`. None goes on.
            on_after_compact: Told what a compaction came to before it is committed; may give user messages,
                which go to the end of the history. They open no turn and are not indexed.
            hook_timeout: Seconds that either of them may take, in a thread of its own; None for any time,
                in yours. Where one raises, hangs or gives anything else, the compaction comes to nothing.
                The emergency net asks neither.
            compaction_timeout: Seconds that a call waits while another thread's call compacts; None for any
                time. Then it raises ``SessionBusyError``.
            check: Every view that would go out is held to the rules of its provider, for a walk over all
                of it. An illegal rewrite fails and changes nothing; where the history itself is illegal,
                ``prepare`` raises ``IllegalHistoryError``.
            answer_budget: Tokens that an answer of ``memory_search`` or ``memory_get`` has at most, 100 or
                more. None: a twentieth of the window, from 600 to 2,000; 2,000 where no window is known.
            time_zone: Where days begin when the model asks ``memory_search`` for what was said yesterday: a
                ``tzinfo``, or a name such as ``"Europe/Paris"``. None: that of the machine.
            language: In which languages texts in Latin letters are read, as for ``MemoryStore.open``: settled
                for the store by who first says so. None is what was settled, or else ``"auto"``.
            background: Whether a policy with tiers asks the model in a thread of its own while the
                conversation goes on. False: ``prepare`` waits for it.
            retention: How much of the session stays findable, and how long. None: all of it, for ever.
            cache_ttl: Seconds for which the provider keeps the beginning of a request in its cache, 300 if
                left out; None: for ever. Policies may wait for that, ``CacheBroken`` tells what is lost.
            warn_at: Shares of the window, ascending, such as ``(0.7, 0.9)``: the request that passes one ends
                with a note of that to the model, which is in ``messages`` alone.

        Raises:
            ConfigError: an argument out of its bounds.
            StoreOpenError: the store cannot be opened.
            InvalidEntryError: *session_id* is empty, too long, or not valid Unicode.
        """
        return cls(open_session(path, session_id, options, is_async=False))

    def append(self, message: RawMessage, *more: RawMessage, usage: Any = None) -> range:
        """Adds messages to the end of the history. They are durable when it returns: all, or none.

        A call that was interrupted may be repeated: what had become durable is not written twice.

        Args:
            message: A message in any dialect; the same object comes back from :meth:`prepare`.
            more: Further messages. One call with many costs one write.
            usage: What the provider said the call cost that gave this message: its usage object, or
                its input tokens. A trigger of its own.

        Returns:
            Their sequence numbers: the first message ever appended is 0.

        Raises:
            InvalidMessageError: not a message, or one over the size limit. Nothing was written.
            StoreConflictError: another worker appended to the session since this one last wrote to it.
                Nothing was written; :meth:`reload` goes on from there.
            StoreError: the store could not write. Nothing was written.
        """
        return self._core.append((message, *more), usage)

    def offload(self, result: RawMessage, tokens: int = OFFLOAD_TOKENS, *, usage: Any = None) -> range:
        """Appends a message with a large result of a tool, of which the context is never sent all.

        The log has it whole. The view has its head and its tail, and between them how much was cut and the
        handle by which ``memory_get`` reads it, by lines or by a pattern; a search finds it. One transaction
        writes both. A result that is small enough, or words, are appended as by :meth:`append`.

        Args:
            result: A message in any dialect with the result of a tool.
            tokens: The most tokens of it in view, 64 or more.
            usage: As for :meth:`append`.

        Returns:
            Its sequence number, as a range of one.

        Raises:
            ConfigError: *tokens* is too small.
            InvalidMessageError: not a message. Nothing was written.
            StoreError: the store could not write; nothing was.
            SessionBusyError: another thread's compaction took longer than ``compaction_timeout``.
        """
        call = self._core.calls.begin("offload", (result, tokens, usage), threading.get_ident())
        seqs = self._run(self._calls.offload(call, result, tokens, usage))
        # fmt: off
        call.is_answered = True; return seqs  # noqa: E702 - no tracer stops in between
        # fmt: on

    def reload(self) -> None:
        """Goes on from where the session is now, after another worker appended to it.

        Reading calls follow another worker by themselves. Those that write onto the end of the log do not:
        a message that was said without knowing of the other's would stand in the wrong place.
        """
        self._core.reload()

    def observe(
        self, history: Sequence[RawMessage], *, usage: Any = None, on_conflict: OnConflict = "branch"
    ) -> int:
        """Brings the session in step with *history*, the list of a host that keeps its own.

        Hand in the whole list before every :meth:`prepare`: what it has beyond the log is appended. The
        list may be the host's full one, or the ``history`` of an earlier answer with what came since;
        summaries in it are known and skipped. It may leave messages out before its last known one: the
        session keeps them. The same list twice changes nothing.

        Where the list changes or takes back what was said (a message was edited and sent again, an answer
        made anew, an agent set back to an earlier state) the session follows it: the view is what both have
        in common, and then the rest of the list. What left is neither shown nor found any more, and stays in
        :meth:`log`. ``HistoryBranched`` is told, :meth:`compactions` lists it with the reason ``"branch"``,
        :meth:`expand` reads what left, and :meth:`undo_compaction` brings it back.

        Args:
            history: Messages in any dialect.
            usage: As for :meth:`append`, of the call that gave the first new message.
            on_conflict: ``"branch"``: as above. ``"raise"``: a list that has rewritten the past is an error.

        Returns:
            How many messages were new.

        Raises:
            HistoryConflictError: *history* has rewritten the past, and *on_conflict* is ``"raise"``, or it
                cannot be followed: it is empty, or has a summary that is not of this history. Nothing was
                written.
            InvalidMessageError: one of the new messages is none. Nothing was written.
            StoreConflictError: another worker appended messages that *history* lacks. Nothing was written;
                :meth:`reload` goes on from there.
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

        Compacts first, if that is due: what is discarded is durable and searchable before it leaves
        the view. A policy with tiers does so in the background: this call puts the summary in its place
        that was asked for at an earlier one, and waits for no model. A failed attempt leaves the history as
        it was and shows in ``compaction``.
        Without a message in between, a second call gives the first one's answer.

        Args:
            policy: For this call alone: another policy, or None for no compaction.
            request_bytes: The size of the whole request in bytes, where the host knows it; otherwise it is
                reckoned from the messages.
            recall: False leaves out of this call what the session would recall.

        Raises:
            ContextOverflowError: the system prompt, the request in flight and pending calls alone
                exceed the window. Nothing was changed.
            IllegalHistoryError: the provider would refuse the history, and the session was opened with
                ``check=True``. It was illegal when it came: nothing was changed.
            SessionBusyError: another thread's compaction took longer than ``compaction_timeout``.
        """
        try:
            with self._one_look():
                known = self._calls.known(policy, recall)
                answer = known or self._run(self._calls.boundary(policy, request_bytes, recall))
        finally:
            self._background.start()
        self._learning.start()
        return answer

    def wait_for_compaction(self, timeout: float | None = None) -> bool:
        """Waits until the compaction in the background has its summary, which the next ``prepare`` shows.

        Nobody has to: it is for a host that has time, and for tests. Without one it returns at once.

        Args:
            timeout: Seconds at most; None for any time.

        Returns:
            Whether no compaction is under way any more.
        """
        self._core.origin.check()
        return self._core.background.wait(timeout)

    def recall(self, query: str | Sequence[RawMessage]) -> str:
        """The block that would be recalled for *query*, or for the last user messages of a list.

        It is worked out now and changes nothing; empty where nothing is relevant.

        Raises:
            ConfigError: the session was opened without recall.
        """
        with self._one_look():
            return self._calls.recall(query)

    def plan(self) -> Plan:
        """The plan of :meth:`prepare` for now. No model and no hook is called, nothing is changed.

        Returns:
            The plan of the compaction that is due, the emergency net's where that alone is. With nothing
            due ``compacts`` is False and ``reason`` is ``"not_due"``, or ``"no_policy"``; that costs
            microseconds at any length. ``covers`` are sequence numbers of the log. The net may have to
            follow a compaction that leaves more than the window; it is not in the plan then.
        """
        return self._calls.plan()

    def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not.

        Args:
            focus: A subject that the summary should keep in particular.

        Returns:
            ``Compacted``, ``Skipped(reason)`` or ``Failed(reason)``. While another call compacts, it is
            skipped with the reason ``in_flight``.
        """
        flow = self._calls.compaction(focus)
        try:
            outcome = self._run(flow, timeout=0)
        except SessionBusyError:
            return self._calls.in_flight()
        self._learning.start()
        return outcome

    def fork(self, session_id: str, *, prompt: str = "") -> Self:
        """A new session that begins as a copy of this one: log, view, what is found and known, and options.

        A policy that knows how (``TieredCompactor``) fits it to the window before its first call.

        Args:
            session_id: Its id; the store must have no messages of it.
            prompt: The first user message of the fork; it counts against the window. "": none.

        Raises:
            ConfigError: the id is taken, a call in view waits for its result, or *prompt* is no text. Nothing
                was written.
        """
        from siltstone.session.forking import fitted, forked

        fork = type(self)(forked(self._opened, session_id, prompt, is_async=False))
        try:
            fork._run(fitted(fork._opened, prompt))
            if prompt:
                fork.append({"role": "user", "content": prompt})
        except BaseException:
            fork.close()
            raise
        return fork

    def memory_status(self) -> MemoryReport:
        """The state of waterfall memory: the messages of each summary, the time of the next run, and faults.

        Known as ``@memory-status``. Nothing is asked and nothing is changed. ``print(report.markdown)`` is
        for people, ``report.line`` for a prompt.

        Raises:
            ConfigError: the session's policy keeps no such memory.
        """
        return self._calls.memory_status()

    def checkpoints(self) -> list[Checkpoint]:
        """The chronicle of the session: every checkpoint on the way to its view, and the roll-ups, in order.

        ``log(start, end)`` reads the messages that a checkpoint covers. Nothing is changed.

        Raises:
            ConfigError: the session's policy writes no checkpoints.
        """
        return self._calls.checkpoints()

    def compact_memories(self) -> Outcome:
        """Runs waterfall summaries now, below their trigger too; like :meth:`compact`."""
        self._calls.check_reporter("compact_memories")
        return self.compact()

    def resummarize(self, focus: str | None = None) -> Outcome:
        """Writes the summaries in the view again, from the messages that they stand for.

        A summary of a summary of a summary has lost something each time. This reads the originals in the
        log again, without what was forgotten, and puts one new summary of level 1 in the place of the
        earlier ones. Nothing else leaves the view. ``ThresholdCompactor`` does the same by itself when the
        levels pass ``max_summary_level``. :meth:`undo_compaction` takes it back.

        Args:
            focus: A subject that the new summary should keep in particular.

        Returns:
            ``Compacted``; ``Failed(reason)``; or ``Skipped`` with the reason ``nothing_to_discard`` (there
            is no summary), ``not_supported`` (the policy cannot) or ``in_flight``.
        """
        flow = self._calls.resummarizing(focus)
        try:
            return self._run(flow, timeout=0)
        except SessionBusyError:
            return self._calls.in_flight()

    def recover(self, error: Exception) -> Prepared:
        """A smaller request, after the provider refused the prepared one as too large.

        Compacts by the policy, or without a model where that comes to nothing; the second time for the
        same request the emergency net leaves half of it. Call it where the model is called::

            while True:
                try:
                    answer = ask(prepared.messages)
                    break
                except Exception as error:
                    prepared = session.recover(error)

        Raises:
            Exception: *error* itself, where it is no overflow (``siltstone.overflow`` knows), where the
                session has no policy, and after two retries: so the loop above ends.
        """
        return self._run(self._calls.recovery(error))

    def ask(self, call: Callable[[list[Any]], T]) -> Answer[T]:
        """Prepares a request, hands it to *call*, and sends it again smaller where the provider refuses it.

        At most twice, or as often as the policy says, with a last user message that tells the model to go on.
        That message goes into no log. After that the assistant's last text is the partial answer.

        Args:
            call: Sends a list of messages to the agent's model. What it gives is ``Answer.value``; append it
                to the session yourself.

        Raises:
            Exception: whatever *call* raises that is no overflow; or the overflow itself, where nothing can
                be discarded.
            ContextOverflowError: every request was too large and there is no partial answer.
        """
        from siltstone.session.asking import Answer, again, ended

        prepared = self.prepare()
        messages, retries = prepared.messages, 0
        while True:
            try:
                return Answer(call(messages), "", retries, prepared)
            except Exception as error:
                try:
                    prepared = self.recover(error)
                except Exception as refused:
                    if refused is not error:
                        raise
                    return ended(error, retries, self._calls.policy, prepared, self.history())
            messages, retries = again(prepared), retries + 1

    def pin(self, seq: int) -> None:
        """Keeps message *seq* of the log, and its group, verbatim in every view. Durable at once.

        Args:
            seq: Its sequence number: the first message ever appended is 0.

        Raises:
            ConfigError: no message of that number is in the view. A discarded message cannot be pinned.
            StoreConflictError: it has left the view, since another worker compacted it.
        """
        self._core.pin(seq, pinned=True)

    def unpin(self, seq: int) -> None:
        """Lets go of message *seq*. One that is not pinned is left alone."""
        self._core.pin(seq, pinned=False)

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
        scope: SearchScope = "session",
        order: SearchOrder = "score",
        **filters: Unpack[SearchFilters],
    ) -> list[SearchHit]:
        """The discarded messages most like *query*, best first. Arguments are those of ``Store.search``.

        Raises:
            ConfigError: the session was opened with ``memory=False``, or the store lacks the ranker.
            InvalidEntryError: *limit*, *min_score* or *query* is out of bounds.
        """
        return self._calls.search(
            query,
            limit,
            ranker=ranker,
            min_score=min_score,
            explain=explain,
            scope=scope,
            order=order,
            **filters,
        )

    def forget(self, **criteria: Unpack[Criteria]) -> ForgetReport:
        """Forgets what was said in this session: in the log, the entries, the summaries and the files.

        Criteria are those of ``MemoryStore.forget`` without the session: ``entry_ids``, ``start``, ``end``,
        ``name``, ``before``, ``text``, ``fact_ids``; all that are given must hold, and none means all of the
        session.
        ``identifiers`` and ``dry_run`` are those of the store.
        Summaries that covered it are made anew of what is left, by the session's model; where it has
        none, or it fails, a sentence stands in their place. The view is rid of it when this returns.
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
    ) -> list[Fact]:
        """The facts that hold, the newest first; with a *query* those that fit it, the best first.

        A fact must have both words of a query of two, half of those of up to eight, and 30 % of more.

        Args:
            query: Any text; None for all facts.
            limit: The most facts.
            as_of: Facts that held at that time; facts that hold now, where left out. A number is seconds
                since 1970.
            types: Facts of these types alone.
            topic: Facts of that topic alone, of the documented table: ``database``, ``deployment``, ....
            entity: Facts with that entity alone, such as ``person:Ann``, or ``Ann``.
            history: Also what was superseded, taken back or has ended. The query is left aside.

        Raises:
            ConfigError: the session has ``memory=False``, or *limit* is below 0.
        """
        return self._calls.facts(
            query, limit, as_of=as_of, types=types, topic=topic, entity=entity, everything=history
        )

    def fact_history(self, fact_id: str) -> list[Fact]:
        """The facts that came one in the place of the other, the oldest first; empty for an unknown id."""
        return self._calls.fact_history(fact_id)

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
            memory_type: One of the nine of ``memory_save``, or of the six of an extraction.
            importance: 0..1; left out, that of the type.
            context: The subject of the fact, if the sentence does not name it.
            source: The person or system that says so.
            tags: Words of your own.
            valid_until: When it ceases to hold. A number is seconds since 1970.

        Returns:
            The fact; where the same text of the same type is known and holds, that one.

        Raises:
            ConfigError: an unknown type, an empty text, or *importance* out of its range.
        """
        return self._calls.save(
            text,
            memory_type,
            importance=importance,
            context=context,
            source=source,
            tags=tags,
            valid_until=valid_until,
        )

    def retract(self, fact_id: str) -> bool:
        """Takes a fact back: it holds no more, and stays in the history. Whether there was one that held.

        To have its text gone, ``forget(fact_ids=[...])``.
        """
        return self._calls.retract(fact_id)

    def record_denial(
        self, tool: str, arguments: str | Mapping[str, Any], reason: str = "", goal: str = ""
    ) -> Correction:
        """Keeps that the user would not have *tool* called so: corrections become rules.

        The rules are in ``memory_instructions``, for this session and later ones of its scope. A call that
        was interrupted may be repeated: what had become durable is not written twice.

        Args:
            tool: The tool's name.
            arguments: The arguments of the call, as text or as a mapping; 200 characters are kept.
            reason: The wish of the user instead, if there is one.
            goal: The purpose of the call.

        Raises:
            ConfigError: one of them is no text, or *tool* is blank; carries ``field``.
        """
        said = tool, arguments, reason, goal
        call = self._core.calls.begin("record_denial", said, threading.get_ident())
        kept = self._calls.record_denial(call, *said)
        # fmt: off
        call.is_answered = True; return kept  # noqa: E702 - no tracer stops in between
        # fmt: on

    def learn(self) -> Learned:
        """Reads what was discarded and is still unread for facts now, with the model; what came of it.

        ``prepare`` starts the same in a thread of its own, and waits for nothing. A call that runs is waited
        for.
        """
        return self._learning.run(self._timeout)

    def log(self, start: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """Messages as they were appended, in order, read back from the store.

        Args:
            start: The first sequence number.
            end: The one behind the last; None for all.
        """
        return self._core.log(start, end)

    def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions and branches that led to the current view, oldest first.

        Args:
            undone: Whether to list those that were undone as well. Nothing is ever deleted of them.
        """
        from siltstone.session import compactions

        return compactions.records(self._core, undone=undone)

    def recalls(self, limit: int = 100) -> list[RecallRecord]:
        """What was recalled before the calls of the model, and what was left out, the newest first.

        The log keeps the newest 1,000, as ids and figures: no text is kept a second time. A recall is written
        with what the session writes next, so a process that is killed loses the last one. A fork begins
        without any.

        Args:
            limit: The most records, >= 1.

        Raises:
            ConfigError: *limit* is below 1.
        """
        from siltstone.session.recalls import recalls  # for who looks back

        return recalls(self._core, limit)

    def view_at(self, n: int) -> list[Any]:
        """The view that the *n*-th of :meth:`compactions` left, without what was appended later.

        Args:
            n: 0 for the history before any: what the first compaction read.

        Raises:
            ConfigError: there are fewer compactions than *n*.
        """
        from siltstone.session import compactions

        return compactions.view_at(self._core, n)

    def undo_compaction(self) -> CompactionRecord | None:
        """Takes the last compaction or branch back, in one transaction. None where no step is left.

        Of a branch, the view is then exactly what it was before: what was said on the branch leaves it, and
        what had left can be found again as before. A host that hands in the list of the branch once more
        branches once more.

        Of a compaction, the view is then what it was before, and after it whatever was appended since. What
        is in context again is not found by a search any more: the entries that this compaction brought are
        deleted; those that were indexed by a caller stay. The next compaction brings entries anew. When the
        next one is due does not change.

        A call that was interrupted may be repeated: one compaction is undone, not two.

        Raises:
            StoreConflictError: another worker moved on meanwhile. Nothing was changed.
            SessionBusyError: another thread's compaction took longer than ``compaction_timeout``.
        """
        call = self._core.calls.begin("undo", (), threading.get_ident())
        undone = self._run(self._calls.undo(call))
        # fmt: off
        call.is_answered = True; return undone  # noqa: E702 - no tracer stops in between
        # fmt: on

    def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a compaction's summary stands for, through summaries of summaries.

        Where it put shorter messages in the place of larger ones, the larger ones are among them.

        Args:
            summary_id: The id of a compaction of this session, undone or not; or of a branch, for the
                messages that left with it.

        Raises:
            CompactionNotFoundError: this session has no such compaction.
        """
        from siltstone.session import compactions

        return compactions.expand(self._core, summary_id)

    def close(self) -> None:
        """Writes what is left to write, and closes the store where the session opened it.

        A model that reads for facts is waited for, up to 10 seconds; what it has not read then is read when
        the session is next opened. A compaction in the background is given up: what it read stays in view.
        In a fork of the process that opened the session it does nothing: the session is the parent's.
        """
        if not self._core.origin.is_here:
            return
        self._calls.end_background()
        self._learning.end()
        self._core.close(self._owns_store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, flow: Steps[T], timeout: float | EllipsisType | None = ...) -> T:
        """Drives *flow*, when no other call of this session is under way that may compact."""
        from siltstone import llm

        self._core.origin.check()  # before any lock
        seconds = self._timeout if isinstance(timeout, EllipsisType) else timeout
        slot, claim = self._core.slot, Claim(flow)
        try:
            if not slot.take(claim, seconds):
                raise self._calls.busy(seconds)
            return llm.run(flow, self._model)
        finally:
            slot.holder = None if slot.holder is claim else slot.holder
            flow.close()
            slot.wake()
