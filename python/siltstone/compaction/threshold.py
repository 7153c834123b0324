"""Threshold compaction: past a threshold, old turns give way to one summary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from siltstone.compaction.base import (
    Compaction,
    CompactionContext,
    CompactionError,
    Reason,
    Skip,
    Trigger,
)
from siltstone.compaction.clip import clip
from siltstone.compaction.config import CompactionConfig
from siltstone.compaction.prompts import PROMPT, framed, instruction
from siltstone.compaction.render import RequestMessages
from siltstone.compaction.rewrite import rewrite
from siltstone.compaction.select import Room, Selection, select
from siltstone.compaction.validate import validate
from siltstone.errors import ModelError
from siltstone.llm import Completion, CompletionRequest, Flow
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule
from siltstone.usage import UsageRecord

__all__ = ["ThresholdCompactor"]

BREAKER_ATTEMPTS = 3  # attempts in a row of low yield after which the breaker opens
BREAKER_COOLDOWN = 10  # boundaries between two attempts while it is open

_SUMMARY_HEADING = re.compile(r"^##[ \t]+Summary[ \t]*:?[ \t]*$", re.MULTILINE | re.IGNORECASE)


class ThresholdCompactor:
    """Replaces old turns by one summary once the history has grown past a threshold.

    Args:
        config: When to act and how much to retain.
        prompt: The instruction that ends the request for a summary.
    """

    def __init__(self, config: CompactionConfig | None = None, *, prompt: str = PROMPT) -> None:
        self.config = config or CompactionConfig()
        self.prompt = prompt
        self._token_rule = self.config.token_rule()

    def __repr__(self) -> str:
        return f"ThresholdCompactor({self.config!r})"

    @property
    def name(self) -> str:
        """``threshold``."""
        return "threshold"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if a compaction is due; never at boundary 0.

        A history or a request at or over its own threshold overrides the spacing of attempts, the
        provider's count of the last call alone does not. While the breaker is open nothing does: the
        window is guarded by the session's emergency net.
        """
        if context.boundary == 0:
            return None
        trigger = self._fired(context)
        if trigger is None or self._breaker_holds(context):
            return None
        over_capacity = trigger.reason != "input_tokens"
        if self._guard_holds(context) and (self.config.strict_guard or not over_capacity):
            return None
        return trigger

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Asks for one summary of what is discarded, and puts it in its place.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``no_reduction`` or ``rewrite_invalid``.
        """
        selection = self._select(history, trigger)
        if not selection.is_worthwhile:
            return Skip("nothing_to_discard", f"all {len(history)} messages are to be retained")
        prefix = self.config.summary_prefix
        cap = self.config.summary_cap(trigger.context_window)
        messages = RequestMessages(selection.discarded, instruction(self.prompt, trigger.focus), prefix)
        try:
            completion = yield CompletionRequest(messages, cap)
        except ModelError as error:
            error_class = getattr(error, "error_class", type(error).__name__)
            raise CompactionError(str(error), reason="llm_failed", error_class=error_class) from error
        usage = (completion.usage,) if completion.usage else ()
        summary = clip(_summary_in(completion, usage), cap, self.token_rule)
        compaction = rewrite(history, selection, summary, prefix, usage=usage)
        validate(history, compaction, framed(prefix, summary))
        self._check_shrunk(history, compaction)
        return compaction

    def _fired(self, context: CompactionContext) -> Trigger | None:
        threshold = self.config.effective_threshold(context.context_window)
        history = context.estimated_history_tokens + context.fixed_tokens
        byte_cap = self.config.max_request_bytes
        reason: Reason
        if history >= threshold:
            reason, tokens = "history_tokens", history
        elif byte_cap is not None and context.request_bytes >= byte_cap * 4 // 5:
            reason, tokens = "bytes", history
        elif context.last_input_tokens >= threshold:
            reason, tokens = "input_tokens", context.last_input_tokens
        else:
            return None
        return Trigger(
            reason,
            tokens=tokens,
            threshold=threshold,
            context_window=context.context_window,
            fixed_tokens=context.fixed_tokens,
        )

    def _guard_holds(self, context: CompactionContext) -> bool:
        since = _boundaries_since_last(context)
        return since is not None and since < self.config.min_turns_between_compactions

    def _breaker_holds(self, context: CompactionContext) -> bool:
        since = _boundaries_since_last(context)
        is_open = context.low_yield_attempts >= BREAKER_ATTEMPTS
        return is_open and since is not None and since < BREAKER_COOLDOWN

    def _select(self, history: Sequence[Message], trigger: Trigger) -> Selection:
        threshold = trigger.threshold or self.config.effective_threshold(trigger.context_window)
        limits = []
        tokens = self.config.retained_tokens(threshold)
        if tokens is not None:
            limits.append((self.token_rule, tokens))
        if self.config.max_request_bytes is not None:  # a quarter of the cap in bytes, four bytes a token
            limits.append((rule("bytes/4"), -(-self.config.max_request_bytes // 16)))
        return select(history, self.config.recent_turn_budget, Room(*limits))

    def _check_shrunk(self, history: Sequence[Message], compaction: Compaction) -> None:
        before, after = self.token_rule.count(history), self.token_rule.count(compaction.messages)
        if after < before and before - after >= self.config.min_reduction * before:
            return
        raise CompactionError(
            f"the rewrite has {after} tokens, the history {before}: "
            f"it must be smaller, and by {self.config.min_reduction:.0%} at least",
            reason="no_reduction",
            usage=compaction.usage,
            before=before,
            after=after,
        )


def _boundaries_since_last(context: CompactionContext) -> int | None:
    """Boundaries since the later of the last compaction and the last attempt."""
    known = [at for at in (context.last_compaction_boundary, context.last_attempt_boundary) if at is not None]
    return context.boundary - max(known) if known else None


def _summary_in(completion: Completion, usage: tuple[UsageRecord, ...]) -> str:
    """The summary in an answer: what follows a heading ``## Summary``, else all of it."""
    heading = _SUMMARY_HEADING.search(completion.text)
    text = completion.text[heading.end() if heading else 0 :].strip()
    if not text:
        raise CompactionError("the model's summary is empty", reason="empty_summary", usage=usage)
    return text
