"""What of a session's past is placed before the model, and where does a session look for it?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from siltstone.errors import EntryNotFoundError, StoreCorruptError
from siltstone.events import RecallFailed, RecallInjected, notify
from siltstone.knowledge import find_facts
from siltstone.memory.entry import SourceRange
from siltstone.messages import RawMessage, RecalledMessage, read_history, read_message
from siltstone.recall import Detail, FactLine, Recall, RecallBlock, RecallConfig, position, query_of
from siltstone.session.boundary import Prepared
from siltstone.session.core import SessionCore
from siltstone.session.learning import known
from siltstone.session.state import SessionState
from siltstone.session.view import View
from siltstone.tools.budget import best_part

__all__ = ["Recalling"]

MOST_QUERY = 4_000  #: characters of a query, the newest: what a user pastes is seldom what is asked

_log = logging.getLogger("siltstone")


class Recalling:
    """The recall of one session: it works the block of a turn out, and puts it into requests."""

    def __init__(self, core: SessionCore, config: RecallConfig) -> None:
        count = core.view.rule.count_text

        def excerpt(text: str, query: str, tokens: int) -> str:
            return best_part(text, query[-MOST_QUERY:], tokens, count)

        self._core, self._config = core, config
        self._recall = Recall(config, _Shelf(core), count, excerpt)
        self._told: RecallBlock | None = None

    def forget(self) -> None:
        """What is remembered has changed: the next request has a block that is worked out anew."""
        self._recall.forget()

    def leave_out(self, state: SessionState) -> None:
        """The turn goes on without a block, since its request was refused as too large."""
        self._recall.leave_out(state.view.messages(), state.version.redactions)

    def text(self, asked: str | Sequence[RawMessage]) -> str:
        """The block for a query, or for the last user messages of a list; empty where there is none."""
        query = asked if isinstance(asked, str) else query_of(read_history(list(asked)))
        return self._recall.search((), context_window=self._core.context_window, query=query).text

    def placed(self, state: SessionState, prepared: Prepared) -> Prepared:
        """*prepared*, whose view is that of *state*, with the block of its turn; whoever listens is told.

        Whatever fails leaves the request as it was.
        """
        try:
            block, answer = self._placed(state, prepared)
        except Exception as error:
            _log.exception("nothing was recalled in session %r", self._core.session_id)
            self._told = None
            failed = RecallFailed(self._core.session_id, str(error), type(error).__name__)
            notify(self._core.hooks, failed)
            return replace(prepared, told=(*prepared.told, failed))
        if block is self._told:
            return answer  # as in the step before
        self._told = block
        event = RecallInjected(
            self._core.session_id,
            block.tokens,
            self._config.cap(self._core.context_window),
            block.knowledge_count,
            block.detail_count,
            block.reason,
        )
        notify(self._core.hooks, event)
        return replace(answer, told=(*answer.told, event))

    def _placed(self, state: SessionState, prepared: Prepared) -> tuple[RecallBlock, Prepared]:
        core, view = self._core, state.view
        history = view.messages()
        room = None
        if core.context_window is not None:
            around = _added(view, RecalledMessage(""))
            room = core.context_window - core.reserved_tokens - prepared.tokens - around - 1
        block = self._recall.block(
            history, context_window=core.context_window, room=room, version=state.version.redactions
        )
        if not block.text:
            return block, prepared
        raw = RecalledMessage(block.text)
        messages = list(prepared.messages)
        messages.insert(position(history, self._config.placement), raw)
        tokens = prepared.tokens + _added(view, raw)
        return block, replace(prepared, messages=messages, tokens=tokens, recalled=block.text)


def _added(view: View, raw: RawMessage) -> int:
    """The tokens that *raw* adds to *view*."""
    return view.rule.tokens(view.rule.units(read_message(raw, 0)))


class _Shelf:
    """Where the recall of a session looks: its entries that are not in context, and its facts."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._shown: tuple[View, frozenset[int]] | None = None

    def details(self, query: str, limit: int) -> list[Detail]:
        """What was said that fits *query* and is not in context, best first."""
        hits = self._core.store.search(self._core.session_id, query[-MOST_QUERY:], limit)
        self._core.tell_damage()
        return [
            Detail(hit.content, hit.score, hit.role, hit.created_at, hit.entry_id)
            for hit in hits
            if not self._is_shown(hit.source_range)
        ]

    def neighbours(self, detail: Detail, distance: int) -> list[tuple[int, Detail]]:
        """The entries of the session that were stored directly before and after *detail*."""
        found: list[tuple[int, Detail]] = []
        for step in (-1, 1):
            for away in range(1, distance + 1):
                near = self._entry(detail.entry_id + step * away)
                if near is None:
                    break
                found.append((away, near))
        return found

    def facts(self, query: str, limit: int) -> list[FactLine]:
        """What is known that fits *query*, best first."""
        if not self._core.knowing.keeps_facts:
            return []
        found = find_facts(known(self._core), query[-MOST_QUERY:], limit, as_of=self._core.milliseconds())
        return [FactLine(fact.type, fact.content, score) for fact, score in found]

    def _entry(self, entry_id: int) -> Detail | None:
        try:
            entry = self._core.store.get(entry_id)
        except (EntryNotFoundError, StoreCorruptError):
            return None
        if entry.session_id != self._core.session_id or self._is_shown(entry.source_range):
            return None
        return Detail(entry.content, 0.0, entry.role, entry.created_at, entry.entry_id)

    def _is_shown(self, source_range: SourceRange) -> bool:
        """Whether the view has one of these messages as it was said."""
        start, end = source_range
        shown = self._shown_now()
        if end - start == 1:
            return start in shown
        return any(start <= seq < end for seq in shown)

    def _shown_now(self) -> frozenset[int]:
        view = self._core.view
        if self._shown is None or self._shown[0] is not view:
            seqs = (item.message.seq for item in view if item.message.provenance == "original")
            self._shown = view, frozenset(seqs)
        return self._shown[1]
