"""The emergency fit as a policy: it acts only if a history is larger than its window, and asks no model."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.compaction import checks
from siltstone.compaction.base import Compaction, CompactionContext, Skip, Trigger
from siltstone.compaction.emergency_fit import fit
from siltstone.compaction.prompts import SUMMARY_PREFIX
from siltstone.llm import Flow
from siltstone.messages import Message, RequestRule, is_request
from siltstone.tokens import TokenRule

__all__ = ["Emergency"]


class Emergency:
    """Makes a history fit its window by discarding the oldest groups. Every summary is ``degraded``.

    Args:
        context_window: The window in tokens, for callers that do not name it with the call; if both are
            known, the smaller one counts.
        estimator: The token rule: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``, or your own rule, such as
            :class:`siltstone.TokenizerRule`.
        summary_prefix: The first text of a summary message, before a blank line.
        request_rule: Decides which text beside tool results is a request.
        task: Whether the first request stays too, as long as there is room for it.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    def __init__(
        self,
        context_window: int | None = None,
        *,
        estimator: str | TokenRule = "blocks",
        summary_prefix: str = SUMMARY_PREFIX,
        request_rule: RequestRule = is_request,
        task: bool = False,
    ) -> None:
        if context_window is not None:
            checks.positive("context_window", context_window, or_else="None or ")
        checks.text("summary_prefix", summary_prefix)
        if not callable(request_rule):
            checks.refuse("request_rule", "a function of a text", request_rule)
        self.context_window = context_window
        self._token_rule = checks.estimator(estimator)
        self._summary_prefix = summary_prefix
        self._request_rule = request_rule
        self._task = task

    def __repr__(self) -> str:
        return f"Emergency({self.context_window!r}, estimator={self._token_rule.name!r})"

    @property
    def name(self) -> str:
        """``emergency``."""
        return "emergency"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the estimator names."""
        return self._token_rule

    @property
    def request_rule(self) -> RequestRule:
        """The rule that decides which texts beside tool results are requests."""
        return self._request_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger if history and reserved tokens exceed the window, at any boundary."""
        window = self._window(context.context_window)
        tokens = context.estimated_history_tokens + context.reserved_tokens
        if window is None or tokens <= window:
            return None
        return Trigger(
            "overflow",
            "emergency",
            tokens=tokens,
            threshold=window,
            context_window=window,
            reserved_tokens=context.reserved_tokens,
        )

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Fits *history* into the window. It yields no request.

        Raises:
            ContextOverflowError: the messages that must stay are larger than the window by themselves.
        """
        yield from ()
        window = self._window(trigger.context_window)
        if window is None:
            return Skip("no_context_window", "an emergency is measured by a window; pass context_window=")
        compaction = fit(
            history,
            window,
            self._token_rule,
            reserved_tokens=trigger.reserved_tokens,
            summary_prefix=self._summary_prefix,
            trigger=trigger,
            request_rule=self._request_rule,
            task=self._task,
        )
        if compaction is None:
            tokens = self._token_rule.count(history) + trigger.reserved_tokens
            return Skip("not_due", f"{tokens} tokens fit the window of {window}")
        return compaction

    def _window(self, named: int | None) -> int | None:
        known = [window for window in (self.context_window, named) if window is not None]
        return min(known, default=None)
