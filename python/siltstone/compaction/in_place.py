"""Steps that discard no message: they replace long results by short ones with a handle to the original."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from siltstone.compaction.base import Compaction, CompactionContext, Skip, Substitute, Trigger
from siltstone.compaction.cheap_config import InPlaceConfig
from siltstone.compaction.clamp import clamped_alone, tokens_cut
from siltstone.compaction.tool_results import ToolResult, tool_results
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule

__all__ = ["InPlace", "receipt"]


class InPlace(ABC):
    """A policy that replaces results by substitutes, and asks no model.

    It is due at any boundary if the history fills a share of the window. The originals are in the log, so
    nothing is lost, and an undo brings them back.
    """

    def __init__(self, config: InPlaceConfig) -> None:
        self._config = config
        self._token_rule = rule(config.estimator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config!r})"

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for events and rows."""

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if the history has reached the share of the window; at any boundary."""
        tokens = context.estimated_history_tokens + context.reserved_tokens
        threshold = self._config.threshold(context.context_window)
        if tokens < threshold or self._config.waits(context, tokens):
            return None
        return Trigger(
            "history_tokens",
            self.name,
            tokens=tokens,
            threshold=threshold,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
        )

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Replaces results by substitutes. It yields no request."""
        yield from ()
        if not trigger.keeps_substitutes:
            return Skip("nothing_to_discard", "results are replaced in a session alone, which keeps them")
        found: dict[int, Substitute] = {}
        reclaimed = 0
        for result, message in self.replaced(self._results(history, trigger), trigger):
            won = self._token_rule.count([result.message]) - self._token_rule.count([message])
            if won > 0:
                found[result.at] = Substitute(result.message, message)
                reclaimed += won
        if not found:
            return Skip("nothing_to_discard", "no result may be replaced by a shorter one")
        if reclaimed < self._config.min_reclaim:
            least = self._config.min_reclaim
            return Skip("too_little", f"{reclaimed} tokens would be reclaimed, min_reclaim is {least}")
        return clamped_alone(history, found)

    @abstractmethod
    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """The results that are replaced, each with its substitute message."""

    def _results(self, history: Sequence[Message], trigger: Trigger) -> list[ToolResult]:
        """The results that may be replaced: all that are not in use."""
        return [each for each in tool_results(history, trigger) if not self._config.in_use(each)]


def receipt(text: str, what: str, message: Message, token_rule: TokenRule, reader: str) -> str:
    """The line that replaces *text*: *what* happened to it, its size, and the handle that reads it."""
    tokens = token_rule.count_text(text) + tokens_cut(text)
    lines = text.count("\n") + 1
    handle = f'; {reader}("m{message.seq}") reads it' if reader else ""
    return f"[{what}: {tokens:,} tokens in {lines:,} line{'s' * (lines != 1)}{handle}]"
