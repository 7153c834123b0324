"""The asyncio twin of ``Session``: the same state, the same order of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, Unpack

from siltstone.compaction.base import Compactor
from siltstone.events import Hook
from siltstone.hooks import HOOK_TIMEOUT, Guards
from siltstone.llm import AsyncModels, Steps
from siltstone.memory.base import Store
from siltstone.memory.entry import ForgetReport, Ranker, SearchHit
from siltstone.messages import RawMessage
from siltstone.outcome import AsyncAfterCompact, AsyncBeforeCompact, Outcome, Plan
from siltstone.session.boundary import Prepared
from siltstone.session.core import Core, OnConflict
from siltstone.session.face import OWN_POLICY, Face, OwnPolicy
from siltstone.session.forgetting import Criteria
from siltstone.session.lineage import AsyncLineage
from siltstone.session.opening import Path, open_core
from siltstone.session.retention import Retention

__all__ = ["AsyncSession"]

T = TypeVar("T")


class AsyncSession(AsyncLineage, Face[AsyncModels]):
    """One conversation, from asyncio. See :class:`siltstone.Session` for what each method does.

    Writes and compactions run in worker threads, the model on the event loop. A task that is
    cancelled leaves the session as it was before the step it was in, or as it is after it.
    """

    @classmethod
    async def open(
        cls,
        path: Path | None,
        session_id: str,
        *,
        policy: Compactor | None = None,
        model: AsyncModels | None = None,
        context_window: int | None = None,
        reserved_tokens: int = 0,
        memory: bool | Store = True,
        index_tools: bool = True,
        recall: bool = False,
        hooks: Sequence[Hook] = (),
        on_before_compact: AsyncBeforeCompact | None = None,
        on_after_compact: AsyncAfterCompact | None = None,
        hook_timeout: float | None = HOOK_TIMEOUT,
        check: bool = False,
        retention: Retention | None = None,
    ) -> Self:
        """Opens the session *session_id*. Arguments and errors are those of :meth:`Session.open`.

        *model* and the two hooks may be async callables.
        """

        def opening() -> tuple[Core, bool]:
            return open_core(
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

        core, owned = await _in_thread(opening)
        return cls(core, policy=policy, model=model, owns_store=owned)

    async def append(self, message: RawMessage, *more: RawMessage, usage: Any = None) -> None:
        """Adds messages to the end of the history. They are durable when it returns: all, or none."""
        await _in_thread(lambda: self._core.append((message, *more), usage))

    async def observe(
        self, history: Sequence[RawMessage], *, usage: Any = None, on_conflict: OnConflict = "branch"
    ) -> int:
        """Brings the session in step with *history*, the list of a host that keeps its own."""
        return await _in_thread(lambda: self._core.observe(history, usage, on_conflict))

    async def prepare(self, *, policy: Compactor | OwnPolicy | None = OWN_POLICY) -> Prepared:
        """What to send to the model now. Call it before every model call."""
        prepared = await _in_thread(lambda: self._known(policy))
        if prepared is None:
            prepared = await _drive(self._boundary(policy), self._model)
        return prepared

    async def plan(self) -> Plan:
        """What :meth:`prepare` would do now: no model and no hook is called, nothing is changed."""
        return await _in_thread(self._plan)

    async def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not."""
        return await _drive(self._compaction(focus), self._model)

    async def recover(self, error: Exception) -> Prepared:
        """A smaller request, after the provider refused the prepared one as too large."""
        return await _drive(self._recovery(error), self._model)

    async def pin(self, seq: int) -> None:
        """Keeps message *seq* of the log, and its group, verbatim in every view. Durable at once."""
        await _in_thread(lambda: self._core.pin(seq, pinned=True))

    async def unpin(self, seq: int) -> None:
        """Lets go of message *seq*. One that is not pinned is left alone."""
        await _in_thread(lambda: self._core.pin(seq, pinned=False))

    async def search(self, query: str, limit: int = 5, *, ranker: Ranker | None = None) -> list[SearchHit]:
        """What was discarded and is most like *query*, best first."""
        self._require_memory()
        return await _in_thread(lambda: self._search(query, limit, ranker=ranker))

    async def forget(self, **criteria: Unpack[Criteria]) -> ForgetReport:
        """Forgets what was said in this session: in the log, the entries, the summaries and the files."""
        return await _drive(self._forgetting(criteria), self._model)

    async def log(self) -> list[dict[str, Any]]:
        """Every message ever appended, in order, read back from the store."""
        return await _in_thread(self._core.log)

    async def close(self) -> None:
        """Writes what is left to write, and closes the store where the session opened it."""
        await _in_thread(lambda: self._core.close(self._owns_store))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


# asyncio takes longer to import than all of siltstone; whoever awaits these has it already.


async def _in_thread(step: Callable[[], T]) -> T:
    from siltstone.session.threads import in_thread

    return await in_thread(step)


async def _drive(flow: Steps[T], model: AsyncModels | None) -> T:
    from siltstone.session.threads import drive

    return await drive(flow, model)
