"""A session: the turn boundary of an agent, over a log that loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, Unpack

from siltstone import llm
from siltstone.compaction.base import Compactor
from siltstone.events import Hook
from siltstone.hooks import HOOK_TIMEOUT, Guards
from siltstone.llm import Models
from siltstone.memory.base import Store
from siltstone.memory.entry import ForgetReport, Ranker, SearchHit
from siltstone.messages import RawMessage
from siltstone.outcome import AfterCompact, BeforeCompact, Outcome, Plan
from siltstone.session.boundary import Prepared
from siltstone.session.core import OnConflict
from siltstone.session.face import OWN_POLICY, Face, OwnPolicy
from siltstone.session.forgetting import Criteria
from siltstone.session.lineage import Lineage
from siltstone.session.opening import Path, open_core
from siltstone.session.retention import Retention

__all__ = ["Session"]


class Session(Lineage, Face[Models]):
    """One conversation: appended message by message, prepared before every model call.

    Open it with :meth:`open`. It may be used from many threads; one compaction runs at a time.
    """

    @classmethod
    def open(
        cls,
        path: Path | None,
        session_id: str,
        *,
        policy: Compactor | None = None,
        model: Models | None = None,
        context_window: int | None = None,
        reserved_tokens: int = 0,
        memory: bool | Store = True,
        index_tools: bool = True,
        recall: bool = False,
        hooks: Sequence[Hook] = (),
        on_before_compact: BeforeCompact | None = None,
        on_after_compact: AfterCompact | None = None,
        hook_timeout: float | None = HOOK_TIMEOUT,
        check: bool = False,
        retention: Retention | None = None,
    ) -> Self:
        """Opens the session *session_id*, new or as it was left.

        Args:
            path: A directory. The session's log and entries are kept in ``memory/memory.sqlite3`` below
                it, together with those of other sessions. Ignored where *memory* is a store.
            session_id: Any text of 1 to 1,024 bytes. It is data, never a path.
            policy: When and what to give up. None: compaction is off, and ``prepare`` returns the whole
                history.
            model: Writes summaries: a callable ``CompletionRequest -> Completion | str``, such as
                ``ExtractiveModel()``; or a list of them, each asked where those before it failed.
            context_window: The model's window in tokens. With a policy, ``prepare`` never returns more.
            reserved_tokens: Tokens of what you send beside the history: tool definitions, a system prompt
                that is a parameter, the room for the answer. They count against thresholds and window.
            memory: True: what is discarded becomes searchable. False: it is kept in the log alone. A
                store: the same in that store, which stays yours to close.
            index_tools: False leaves the names, arguments and results of tools out of what is searchable.
                They are half of what agents are asked about.
            recall: Only False is part of this version.
            hooks: Called with each event. One that raises is logged and breaks nothing.
            on_before_compact: Told the :class:`Plan` of a compaction that is due; may veto it, pin messages
                for it or add instructions: :class:`Guidance`. None goes on.
            on_after_compact: Told what a compaction came to before it is committed; may give user messages,
                which go to the end of the history. They open no turn and are not indexed.
            hook_timeout: Seconds that either of them may take, in a thread of its own; None for any time,
                in yours. Where one raises, hangs or gives anything else, the compaction comes to nothing.
                The emergency net asks neither.
            check: Every view that would go out is held to the rules of its provider, for a walk over all
                of it. An illegal rewrite fails and changes nothing; where the history itself is illegal,
                ``prepare`` raises ``IllegalHistoryError``.
            retention: How much of the session stays findable, and how long. None: all of it, for ever.

        Raises:
            ConfigError: an argument out of its bounds.
            StoreOpenError: the store cannot be opened.
            InvalidEntryError: *session_id* is empty, too long, or not valid Unicode.
        """
        core, owned = open_core(
            path,
            session_id,
            policy=policy,
            context_window=context_window,
            reserved_tokens=reserved_tokens,
            memory=memory,
            index_tools=index_tools,
            recall=recall,
            hooks=hooks,
            guards=Guards(on_before_compact, on_after_compact, hook_timeout, check),
            retention=retention,
        )
        return cls(core, policy=policy, model=model, owns_store=owned)

    def append(self, message: RawMessage, *more: RawMessage, usage: Any = None) -> None:
        """Adds messages to the end of the history. They are durable when it returns: all, or none.

        Args:
            message: A message in any dialect; the same object comes back from :meth:`prepare`.
            more: Further messages. One call with many costs one write.
            usage: What the provider said the call cost that gave this message: its usage object, or
                its input tokens. A trigger of its own.

        Raises:
            InvalidMessageError: not a message, or one over the size limit. Nothing was written.
            StoreError: the store could not write. Nothing was written.
        """
        self._core.append((message, *more), usage)

    def history(self) -> list[RawMessage]:
        """The current view, without asking whether a compaction is due."""
        self._core.refresh()
        return super().history()

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
            StoreConflictError: another process changed the session meanwhile. Nothing was written.
            ConfigError: *on_conflict* is neither.
        """
        return self._core.observe(history, usage, on_conflict)

    def prepare(self, *, policy: Compactor | OwnPolicy | None = OWN_POLICY) -> Prepared:
        """What to send to the model now. Call it before every model call.

        Compacts first, if that is due: what is discarded is durable and searchable before it leaves
        the view. A failed attempt leaves the history as it was and shows in ``compaction``.
        Without a message in between, a second call gives the first one's answer.

        Args:
            policy: For this call alone: another policy, or None for no compaction.

        Raises:
            ContextOverflowError: the system prompt, the request in flight and pending calls alone
                exceed the window. Nothing was changed.
            IllegalHistoryError: the provider would refuse the history, and the session was opened with
                ``check=True``. It was illegal when it came: nothing was changed.
        """
        return self._known(policy) or llm.run(self._boundary(policy), self._model)

    def plan(self) -> Plan:
        """What :meth:`prepare` would do now: no model and no hook is called, nothing is changed.

        Returns:
            The plan of the compaction that is due, the emergency net's where that alone is. With nothing
            due ``compacts`` is False and ``reason`` is ``"not_due"``, or ``"no_policy"``; that costs
            microseconds at any length. ``covers`` are sequence numbers of the log. The net may have to
            follow a compaction that leaves more than the window; it is not in the plan then.
        """
        return self._plan()

    def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not.

        Args:
            focus: What the summary should look at in particular.

        Returns:
            ``Compacted``, ``Skipped(reason)`` or ``Failed(reason)``.
        """
        return llm.run(self._compaction(focus), self._model)

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
        return llm.run(self._recovery(error), self._model)

    def pin(self, seq: int) -> None:
        """Keeps message *seq* of the log, and its group, verbatim in every view. Durable at once.

        Args:
            seq: Its sequence number: the first message ever appended is 0.

        Raises:
            ConfigError: no message of that number is in the view. What was discarded cannot be pinned.
        """
        self._core.pin(seq, pinned=True)

    def unpin(self, seq: int) -> None:
        """Lets go of message *seq*. One that is not pinned is left alone."""
        self._core.pin(seq, pinned=False)

    def search(self, query: str, limit: int = 5, *, ranker: Ranker | None = None) -> list[SearchHit]:
        """What was discarded and is most like *query*, best first.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        self._require_memory()
        return self._search(query, limit, ranker=ranker)

    def forget(self, **criteria: Unpack[Criteria]) -> ForgetReport:
        """Forgets what was said in this session: in the log, the entries, the summaries and the files.

        Criteria are those of ``MemoryStore.forget`` without the session: ``entry_ids``, ``start``, ``end``,
        ``name``, ``before``, ``text``; all that are given must hold, and none means all of the session.
        ``identifiers`` and ``dry_run`` are those of the store.
        Summaries that covered it are made anew of what is left, by the session's model; where it has
        none, or it fails, a sentence stands in their place. The view is rid of it when this returns.
        """
        return llm.run(self._forgetting(criteria), self._model)

    def log(self) -> list[dict[str, Any]]:
        """Every message ever appended, in order, read back from the store."""
        return self._core.log()

    def close(self) -> None:
        """Writes what is left to write, and closes the store where the session opened it."""
        self._core.close(self._owns_store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
