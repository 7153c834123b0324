"""What ``Session`` and ``AsyncSession`` have in common: everything that neither waits nor calls a model."""

from __future__ import annotations

from typing import Any, Final, Generic, NoReturn, TypeVar

from siltstone.compaction.base import Compactor, Reason, Trigger
from siltstone.errors import ConfigError
from siltstone.llm import Flow, Steps
from siltstone.memory.entry import ForgetReport, SearchHit
from siltstone.messages import RawMessage
from siltstone.outcome import Outcome, Plan, Skipped
from siltstone.session.boundary import Prepared, again, boundary, compaction, forecast
from siltstone.session.core import Core
from siltstone.session.forgetting import Criteria, forgetting
from siltstone.session.opening import check_overhead, check_policy
from siltstone.session.recovery import recovery
from siltstone.tools import Tool, context_compact, memory_search
from siltstone.tools.memory_search import INSTRUCTIONS
from siltstone.usage import UsageRecord

__all__ = ["OWN_POLICY", "Face", "OwnPolicy"]

ModelT = TypeVar("ModelT")

WISH_SPACING = 3  # boundaries between the last attempt and one that the model asks for


class OwnPolicy:
    """The type of :data:`OWN_POLICY`."""

    def __repr__(self) -> str:
        return "OWN_POLICY"


OWN_POLICY: Final = OwnPolicy()
"""Stands for "the policy that the session was opened with", since None means "no policy"."""


class Face(Generic[ModelT]):
    """The state of a session, the flows over it, and what can be read of it at once."""

    def __init__(
        self,
        core: Core,
        *,
        policy: Compactor | None,
        model: ModelT | None,
        owns_store: bool,
    ) -> None:
        self._core = core
        self._policy = policy
        self._model = model
        self._owns_store = owns_store
        self._last: tuple[tuple[int, int], Prepared] | None = None
        self._asked: Trigger | None = None
        self._retried = (0, 0)  # what the log held at the last recovery, and how many there were since

    @property
    def session_id(self) -> str:
        """The id it was opened with."""
        return self._core.session_id

    @property
    def usage(self) -> UsageRecord:
        """Every model call of ours, summed over the life of the session."""
        return self._core.usage

    @property
    def memory_instructions(self) -> str:
        """Optional text for the system prompt: teaches a model when to use ``memory_search``."""
        return INSTRUCTIONS

    @property
    def memory_search(self) -> Tool:
        """The tool for the model, bound to this session. A call takes microseconds, and is not async.

        Raises:
            ConfigError: the session was opened with ``memory=False``.
        """
        self._require_memory()
        return memory_search(self._search)

    @property
    def compact_tool(self) -> Tool:
        """The tool ``context_compact``: by it the model asks for a compaction at the next ``prepare``.

        A wish within three boundaries of the last attempt is not granted, and the model is told.
        """
        return context_compact(self._wish)

    @property
    def estimate_error(self) -> float | None:
        """By what share our estimate of the last request was over the provider's own count.

        0.1 is a tenth too much, -0.1 a tenth too little; None until a message was appended with its
        ``usage`` since the session was opened. The estimate is that of the view, and ``reserved_tokens``.
        """
        return self._core.estimate_error

    def history(self) -> list[RawMessage]:
        """The current view, without asking whether a compaction is due."""
        return self._core.view.raws()

    def __repr__(self) -> str:
        core, kind = self._core, type(self).__name__
        return (
            f"<{kind} {core.session_id!r}: {len(core.view)} messages in context, {core.next_seq} in the log>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be pickled; open it where it is needed")

    def _known(self, policy: Compactor | OwnPolicy | None) -> Prepared | None:
        """The last answer of ``prepare``, where nothing has happened since."""
        if not isinstance(policy, OwnPolicy) or self._last is None:
            return None
        self._core.refresh()
        return again(self._last[1]) if self._last[0] == self._core.mark else None

    def _boundary(self, policy: Compactor | OwnPolicy | None) -> Steps[Prepared]:
        own = isinstance(policy, OwnPolicy)
        chosen = self._policy if isinstance(policy, OwnPolicy) else policy
        check_policy(chosen)
        check_overhead(chosen, self._core.reserved_tokens, self._core.context_window)
        asked = self._asked if chosen is not None else None
        if asked is not None:
            self._asked = None
        prepared = yield from boundary(self._core, chosen, asked)
        self._last = (self._core.mark, prepared) if own else None
        return again(prepared)

    def _plan(self) -> Plan:
        return forecast(self._core, self._policy, self._asked)

    def _recovery(self, error: Exception) -> Steps[Prepared]:
        seen, retries = self._retried
        retries = retries if seen == self._core.next_seq else 0
        prepared = yield from recovery(self._core, self._policy, error, retries)
        self._retried = (self._core.next_seq, retries + 1)
        self._last = (self._core.mark, prepared)
        return again(prepared)

    def _forgetting(self, criteria: Criteria) -> Flow[ForgetReport]:
        self._last = None
        return forgetting(self._core, self._policy, renew=self._model is not None, **criteria)

    def _wish(self, focus: str | None) -> dict[str, Any]:
        """Notes that the model asked for a compaction; what it is told."""
        cadence = self._core.cadence
        if self._policy is None:
            return {"status": "skipped", "reason": "no_policy"}
        since = None if cadence.last_attempt is None else cadence.boundary - cadence.last_attempt
        if since is not None and since < WISH_SPACING:
            return {"status": "skipped", "reason": "cooling_down", "steps_left": WISH_SPACING - since}
        self._asked, self._last = self._trigger("model", focus), None
        return {"status": "scheduled", "context_tokens": self._core.view.tokens}

    def _trigger(self, reason: Reason, focus: str | None) -> Trigger:
        core = self._core
        return Trigger(
            reason, focus=focus, context_window=core.context_window, reserved_tokens=core.reserved_tokens
        )

    def _compaction(self, focus: str | None) -> Steps[Outcome]:
        self._core.check_open()
        if self._policy is None:
            view = self._core.view
            message = "the session was opened without a policy"
            return Skipped(view.raws(), view.tokens, view.tokens, reason="no_policy", message=message)
        self._last = None
        trigger = self._trigger("manual", focus)
        at = max(self._core.cadence.boundary - 1, 0)
        return (yield from compaction(self._core, self._policy, trigger, at))

    def _search(self, query: str, limit: int, **options: Any) -> list[SearchHit]:
        hits = self._core.store.search(self._core.session_id, query, limit, **options)
        self._core.tell_damage()
        return hits

    def _require_memory(self) -> None:
        if not self._core.indexed:
            raise ConfigError(
                f"session {self.session_id!r} has memory=False; open it with memory=True to search",
                field="memory",
                value=False,
            )
