"""The types of a message's own words, and of what a caller may give as one.

They are apart from the classes that they describe: ``typing`` takes longer to import than a session to open,
and only annotations name them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

__all__ = ["Dialect", "LiveObject", "PartKind", "Provenance", "RawMessage", "RequestRule", "Role"]

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
"""``system`` and ``developer`` carry rules; ``tool`` is OpenAI's role of a tool result."""

PartKind: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "blob", "compaction", "other"]
"""``compaction`` is a summary that the provider made: it is sent back as it came, and never indexed."""

Provenance: TypeAlias = Literal[
    "original",
    "compaction_summary",
    "injected_context",
    "recalled_context",
    "placeholder",
    "repaired",
    "substitute",
]
"""The origin of a message. Only ``original`` messages are indexed. They open turns, and so does a
``substitute``, the shorter text that replaces an original."""

Dialect: TypeAlias = Literal["any", "openai.chat", "openai.responses", "anthropic"]
"""``any`` is a plain ``{"role", "content": str}``, which reads alike in every dialect."""


class LiveObject(Protocol):
    """A message, or a block of one, as an SDK's own object: anything that dumps itself as pydantic does."""

    def model_dump(
        self, *, mode: str = "python", exclude_unset: bool = False, exclude_none: bool = False
    ) -> dict[str, Any]:
        """The object as a dict."""


RawMessage: TypeAlias = Mapping[str, Any] | LiveObject
"""A message as the caller has it. It is never changed, and comes back as the same object."""

RequestRule: TypeAlias = Callable[[str], bool]
"""A function: whether a text beside tool results is from the user, or a reminder of the host."""
