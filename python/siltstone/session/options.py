"""The options of a session, as type checkers read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypedDict, TypeVar

from siltstone.compaction.base import Compactor
from siltstone.events import Hook
from siltstone.llm import Models
from siltstone.memory.base import Store
from siltstone.outcome import AfterCompact, BeforeCompact
from siltstone.session.host_list import Unrelated
from siltstone.session.retention import Retention

if TYPE_CHECKING:
    from siltstone.archive import ContextArchive
    from siltstone.knowledge import KnowledgeConfig
    from siltstone.presets import Preset, System
    from siltstone.recall import RecallConfig
    from siltstone.redaction import RedactionConfig, Redactor


__all__ = ["Options", "SessionOptions", "StoreOptions"]

ModelT = TypeVar("ModelT")
BeforeT = TypeVar("BeforeT")
AfterT = TypeVar("AfterT")


class SessionOptions(TypedDict, Generic[ModelT, BeforeT, AfterT], total=False):
    """The options of ``store.session(id, ...)``; :meth:`siltstone.Session.open` explains each."""

    preset: str | Preset | System | None
    policy: Compactor | None
    model: ModelT | None
    context_window: int | Literal["auto"] | None
    agent_model: str | None
    reserved_tokens: int
    namespace: str
    cross_session: bool
    index_tools: bool
    recall: bool | RecallConfig
    redaction: bool | RedactionConfig | Redactor | None
    knowledge: bool | KnowledgeConfig
    allow_forget: bool
    archive: str | os.PathLike[str] | ContextArchive | None
    hooks: Sequence[Hook]
    on_before_compact: BeforeT | None
    on_after_compact: AfterT | None
    hook_timeout: float | None
    compaction_timeout: float | None
    check: bool
    retention: Retention | None
    cache_ttl: float | None
    warn_at: Sequence[float]
    answer_budget: int | None
    time_zone: tzinfo | str | None
    language: str | Sequence[str] | None
    background: bool
    unrelated: Unrelated


class Options(SessionOptions[ModelT, BeforeT, AfterT], Generic[ModelT, BeforeT, AfterT], total=False):
    """The same, and the store of the session: what ``Session.open`` and ``AsyncSession.open`` take."""

    memory: bool | Store


StoreOptions: TypeAlias = "SessionOptions[Models, BeforeCompact, AfterCompact]"
"""The options of :meth:`siltstone.Session.open`, without the store."""
