"""Reads the input tokens of a model call from what the provider said of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

__all__ = ["input_tokens"]

_log = logging.getLogger("siltstone")

# Anthropic's input_tokens leave out what was read from or written to its cache; OpenAI's do not.
_SUMMED = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_ALONE = ("prompt_tokens",)


def input_tokens(usage: Any) -> int:
    """Input tokens of a model call; 0 where *usage* does not say.

    Args:
        usage: A count, a provider's usage as a mapping, or its SDK object: ``input_tokens`` (with the
            cache's share beside it) or ``prompt_tokens``. Anything else is logged and counts as unknown:
            bad usage data never ends a turn.
    """
    if usage is None:
        return 0
    if type(usage) is int and usage >= 0:
        return usage
    for keys in (_SUMMED, _ALONE):
        counts = [_field(usage, key) for key in keys]
        if type(counts[0]) is int:
            known = [count for count in counts if type(count) is int and count >= 0]
            return sum(known)
    _log.warning("usage %r has no input_tokens or prompt_tokens; taken as unknown", usage)
    return 0


def _field(usage: Any, key: str) -> Any:
    return usage.get(key) if isinstance(usage, Mapping) else getattr(usage, key, None)
