"""A fork: a session that begins as a copy of another one, to try another way or to brief a helper agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from siltstone.archive.everything import Record
from siltstone.compaction.base import ForkFitter, Trigger
from siltstone.errors import ConfigError
from siltstone.llm import Steps
from siltstone.messages import groups
from siltstone.outcome import Outcome
from siltstone.session.boundary import compaction
from siltstone.session.carrying import records_of, write_session
from siltstone.session.core import SessionCore
from siltstone.session.opening import Opened, open_session

__all__ = ["fitted", "forked"]

_AS_READ: Final = frozenset({"message", "entry"})  #: kinds whose bodies JSON would leave as they are


def forked(opened: Opened, session_id: str, prompt: str, *, is_async: bool) -> Opened:
    """A copy of the session under another id, opened with the same options.

    The log, the view, the entries and the facts are copied as they are now. Facts that are shared in a
    namespace (``KnowledgeConfig(scope="namespace")``) are not copied, since the fork shares them too. If a
    copy breaks off, what it wrote is deleted, so that it can be made again.

    Raises:
        ConfigError: the store has messages of *session_id* already, a call in view waits for its result, or
            *prompt* is no text. Nothing was written.
        StoreConflictError: another worker began to write to *session_id* meanwhile. Its rows stay.
    """
    core = opened.core
    core.check_open()
    if not isinstance(prompt, str):
        raise ConfigError(f"prompt must be a text, got {prompt!r}", field="prompt", value=prompt)
    if session_id == core.session_id:
        raise ConfigError(
            f"session_id of a fork must be another one than {session_id!r}",
            field="session_id",
            value=session_id,
        )

    def step() -> None:
        state = core.followed()
        _check_answered(core, state.view.messages())
        write_session(core.store, session_id, _copied(core))

    core.locked(step)
    options: Any = dict(opened.options)
    if not opened.owns_store:
        options["memory"] = core.store
    namespace = core.rows.state().namespace
    if namespace:
        options["namespace"] = namespace
    return open_session(opened.path, session_id, options, is_async=is_async)


def fitted(opened: Opened, prompt: str) -> Steps[Outcome | None]:
    """Compacts the fork by its policy, if it is too large for its window. Returns the outcome, if any."""
    core, policy = opened.core, opened.policy
    if not isinstance(policy, ForkFitter):
        return None
    state = core.follow()
    rule = policy.token_rule
    fixed = core.reserved_tokens + (rule.count_text(prompt) if prompt else 0)
    tokens = state.view.recounted(rule).tokens
    trigger: Trigger | None = policy.fork_trigger(tokens, fixed, core.context_window)
    if trigger is None:
        return None
    trigger = replace(trigger, reserved_tokens=core.reserved_tokens)
    return (yield from compaction(core, policy, trigger, max(state.clock.boundary - 1, 0)))


def _copied(core: SessionCore) -> Iterator[Record]:
    """The records of the session, as if read from an exported file, without facts that a namespace shares."""
    for record in records_of(core.store, core.session_id):
        if record.kind in _AS_READ:
            yield record
        elif record.kind != "known" or not core.knowing.is_shared:
            yield replace(record, body=json.loads(json.dumps(record.body)))


def _check_answered(core: SessionCore, view: Iterable[Any]) -> None:
    waiting = [group for group in groups(list(view)) if group.pending]
    if waiting:
        raise ConfigError(
            f"session {core.session_id!r} has {len(waiting)} calls without a result: a fork would wait for "
            "them for ever; fork it when they are answered",
            field="session_id",
            value=core.session_id,
        )
