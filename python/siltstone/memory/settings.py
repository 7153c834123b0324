"""The types of the options of ``open`` that several stores have. Only annotations use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from siltstone.events import StoreHook
from siltstone.memory.entry import Decay, Fusion
from siltstone.memory.limits import Limits
from siltstone.memory.reranking import Reranker, Scorer

__all__ = ["SearchSettings"]


class SearchSettings(TypedDict, total=False):
    """The settings of a store's searches; ``MemoryStore.open`` explains each."""

    decay: Decay | None
    fusion: Fusion
    reembed: bool
    embed_timeout: float
    reranker: Reranker | Scorer | None
    hooks: Iterable[StoreHook]
    limits: Limits
    language: str | Sequence[str] | None
