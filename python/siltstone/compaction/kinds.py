"""The types that policies, and who runs them, name in annotations alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from siltstone.messages.kinds import RawMessage

__all__ = ["Curator", "Reason", "State"]

State: TypeAlias = Mapping[str, Any]
"""The state that a policy keeps with the session: small JSON, without the text of any message.

A forgotten text leaves messages and summaries; a state that quotes them would keep it.
"""

Reason: TypeAlias = Literal[
    "input_tokens",
    "history_tokens",
    "bytes",
    "forecast",
    "fraction",
    "count",
    "overflow",
    "manual",
    "model",
]

Curator: TypeAlias = Callable[[list[RawMessage]], str]
"""A function that writes a summary of discarded messages, which may include earlier summaries."""
