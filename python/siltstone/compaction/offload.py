"""Offloads one tool result: its head and tail stay in the view, and the log keeps all of it."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.compaction.base import Compaction, CompactionContext, Skip, Trigger
from siltstone.compaction.clamp import clamp, clamped_alone
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.tokens import TokenRule

__all__ = ["Offload"]


class Offload:
    """Cuts the results of one message to *tokens*, and changes nothing else. It asks no model.

    Args:
        seq: The message's sequence number.
        tokens: The maximum tokens of the message that stay in view.
        token_rule: The token rule.
    """

    def __init__(self, seq: int, tokens: int, token_rule: TokenRule) -> None:
        self._seq, self._tokens, self._token_rule = seq, tokens, token_rule

    @property
    def name(self) -> str:
        """``offload``."""
        return "offload"

    @property
    def token_rule(self) -> TokenRule:
        """The given token rule."""
        return self._token_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:  # noqa: ARG002
        """None: it is never due by itself, only by a call."""
        return None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Cuts the message. It yields no request."""
        yield from ()
        found = clamp(
            ((at, message) for at, message in enumerate(history) if message.seq == self._seq),
            self._tokens,
            self._token_rule,
            trigger,
        )
        if not found:
            return Skip("nothing_to_discard", f"message {self._seq} has no result over {self._tokens} tokens")
        return clamped_alone(history, found)
