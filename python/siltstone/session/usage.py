"""Reads the input tokens of a model call, and how many of them are cached, from a provider's usage."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["cached_tokens", "input_tokens"]

_log = logging.getLogger("siltstone")


# Anthropic's input_tokens leave out what was read from or written to its cache; OpenAI's do not.
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_SUMMED = ("input_tokens", _READ, _WRITTEN)
_ALONE = ("prompt_tokens",)
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


def input_tokens(usage: Any) -> int:
    """Input tokens of a model call; 0 if *usage* has none.

    Args:
        usage: A count, a provider's usage as a mapping, or its SDK object, with ``input_tokens`` (and the
            counts of the cache) or ``prompt_tokens``. Anything else is logged and counts as unknown, since
            bad usage data must not end a turn.
    """
    if usage is None:
        return 0
    if type(usage) is int and usage >= 0:
        return usage
    for keys in (_SUMMED, _ALONE):
        counts = [_field(usage, key) for key in keys]
        if type(counts[0]) is int:
            return sum(_counts(counts))
    _log.warning("usage %r has no input_tokens or prompt_tokens; taken as unknown", usage)
    return 0


def cached_tokens(usage: Any) -> int:
    """Input tokens that are in the provider's cache after the call; 0 if *usage* has none.

    For Anthropic this is what was read and what was written (``cache_read_input_tokens`` and
    ``cache_creation_input_tokens``), for OpenAI what was read (``cached_tokens`` of
    ``prompt_tokens_details`` or ``input_tokens_details``). A gateway such as LiteLLM gives the tokens that
    were read under the names of both: the largest number counts, once.
    """
    if usage is None or isinstance(usage, int):
        return 0
    details = [_field(usage, key) for key in _DETAILS]
    reads = [_field(each, "cached_tokens") for each in details if each is not None]
    reads.append(_field(usage, _READ))
    written = _field(usage, _WRITTEN)
    return max(_counts(reads), default=0) + sum(_counts([written]))


def _counts(values: Iterable[Any]) -> list[int]:
    """The *values* that are counts."""
    return [value for value in values if type(value) is int and value >= 0]


def _field(usage: Any, key: str) -> Any:
    return usage.get(key) if isinstance(usage, Mapping) else getattr(usage, key, None)
