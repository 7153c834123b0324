"""Opens what a session stands on: its store, its log, its counting rule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from siltstone.compaction.base import Compactor, OverheadChecker
from siltstone.errors import ConfigError
from siltstone.events import Hook
from siltstone.hooks import Guards
from siltstone.memory import MemoryStore
from siltstone.memory.base import Store
from siltstone.session.core import Core
from siltstone.session.retention import Retention

__all__ = ["Path", "check_overhead", "check_policy", "check_window", "open_core"]

Path = str | os.PathLike[str]


def open_core(
    path: Path | None,
    session_id: str,
    *,
    policy: Compactor | None,
    context_window: int | None,
    reserved_tokens: int,
    memory: bool | Store,
    index_tools: bool,
    recall: bool,
    hooks: Sequence[Hook],
    guards: Guards,
    retention: Retention | None = None,
) -> tuple[Core, bool]:
    """The session's state, and whether the store behind it is ours to close.

    Raises:
        ConfigError: a switch that cannot be: no path and no store, a window <= 0 or one that the fixed
            tokens fill, something that is not a policy.
        StoreError: the store cannot be opened.
    """
    check_policy(policy)
    check_window(context_window, reserved_tokens)
    check_overhead(policy, reserved_tokens, context_window)
    if recall:
        raise ConfigError(
            "recall=True is not part of this version; give the model the tool session.memory_search",
            field="recall",
            value=recall,
        )
    store, owned = _store(path, memory)
    try:
        token_rule = policy.token_rule if policy else None
        core = Core(
            store,
            session_id,
            indexed=memory is not False,
            index_tools=index_tools,
            token_rule=token_rule,
            hooks=hooks,
            guards=guards,
            context_window=context_window,
            reserved_tokens=reserved_tokens,
            retention=retention,
        )
    except BaseException:
        if owned:
            store.close()
        raise
    return core, owned


def check_policy(policy: Any) -> None:
    """Refuses what is not a policy (a policy's class, most often)."""
    if policy is None or (isinstance(policy, Compactor) and not isinstance(policy, type)):
        return
    raise ConfigError(
        f"policy must be a policy such as ThresholdCompactor(), or None, got {policy!r}",
        field="policy",
        value=policy,
    )


def check_overhead(policy: Compactor | None, reserved_tokens: int, context_window: int | None) -> None:
    """Refuses a set-up under which *policy* could never act, or would at every boundary."""
    if isinstance(policy, OverheadChecker):
        policy.check_overhead(reserved_tokens, context_window)


def check_window(context_window: int | None, reserved_tokens: int = 0) -> None:
    """Refuses a window that holds nothing, or nothing beside the reserved tokens."""
    if type(reserved_tokens) is not int or reserved_tokens < 0:
        raise ConfigError(
            f"reserved_tokens must be an integer >= 0, got {reserved_tokens!r}",
            field="reserved_tokens",
            value=reserved_tokens,
        )
    if context_window is None:
        return
    if type(context_window) is int and 0 < context_window <= reserved_tokens:
        raise ConfigError(
            f"reserved_tokens must be < the window of {context_window}, got {reserved_tokens}",
            field="reserved_tokens",
            value=reserved_tokens,
        )
    if type(context_window) is not int or context_window <= 0:
        raise ConfigError(
            f"context_window must be an integer > 0, got {context_window!r}",
            field="context_window",
            value=context_window,
        )


def _store(path: Path | None, memory: bool | Store) -> tuple[Store, bool]:
    if not isinstance(memory, bool):
        return memory, False
    if path is None:
        raise ConfigError("a session needs a path, or a store as memory=", field="path", value=path)
    return MemoryStore.open(path), True
