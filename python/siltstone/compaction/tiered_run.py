"""The common part of both modes of tiered compaction: one run over one history."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol

from siltstone.compaction.base import Compaction, Skip, Trigger
from siltstone.compaction.calls import Calls, SummarizerOverflow
from siltstone.compaction.keeping import kept_apart, superseded
from siltstone.compaction.rewrite import covered, summary_message
from siltstone.compaction.select import Selection, must_stay
from siltstone.compaction.summarise import Brief, summarise
from siltstone.compaction.tiered_config import TieredConfig
from siltstone.compaction.tiered_cut import cut_positions
from siltstone.compaction.tiered_prompts import FORK_MARKER, OVERFLOW_MARKER
from siltstone.compaction.tiered_stack import live_start
from siltstone.errors import ModelError
from siltstone.llm import CompletionRequest, Flow
from siltstone.messages import History, Message, RawMessage, as_history, groups
from siltstone.tokens import TokenRule

__all__ = ["EMERGENCY", "FORK", "Extract", "TieredRun", "TieredWorker"]

_log = logging.getLogger("siltstone")

Extract = Callable[[Sequence[RawMessage]], Any]
"""A function, sync or async, of the messages that a compaction summarises. It extracts memories from them."""

EMERGENCY: Final = "emergency"
FORK: Final = "fork"
LEAST_OF_OVERFLOW: Final = 4  # live messages: with no more than this an overflow discards nothing


class TieredWorker(Protocol):
    """The settings of the policy that a run belongs to."""

    @property
    def config(self) -> TieredConfig:
        """The settings."""

    @property
    def prompt(self) -> str:
        """The instruction of a summary."""

    @property
    def extract(self) -> Extract | None:
        """The caller's extraction, if there is one."""

    @property
    def tools(self) -> tuple[Any, ...]:
        """The tools that the summarising model may call."""

    @property
    def token_rule(self) -> TokenRule:
        """The token rule."""

    def window(self, named: int | None) -> int:
        """The window in tokens, for a caller that names *named*."""


class TieredRun(ABC):
    """One run: the start of the live messages, the positions that must stay, and the calls of the model."""

    def __init__(self, policy: TieredWorker, history: Sequence[Message], trigger: Trigger) -> None:
        self.policy, self.history, self.trigger = policy, history, trigger
        self.config, self.rule = policy.config, policy.token_rule
        self.read: History = as_history(history)
        self.window = policy.window(trigger.context_window)
        self.start = live_start(self.read)
        self.held = must_stay(self.read, trigger.pins)

    @abstractmethod
    def marked(self, end: int, marker: str) -> Compaction | Skip:
        """Discards all before position *end*; *marker* tells the number of these messages."""

    def calls(self) -> Calls:
        """The model calls of this run."""
        config = self.config
        return Calls(
            config.attempts, config.call_timeout, False, config.retry_delay, self.trigger.model_calls
        )

    def written(
        self,
        told: Sequence[Message],
        calls: Calls,
        note: str = "",
        *,
        cap: int | None = None,
        more: str = "",
        offers_tools: bool = False,
    ) -> Flow[str]:
        """A summary of *told*, of at most *cap* tokens.

        Raises:
            CompactionError: no model gave a summary, or even small requests were too large.
        """
        most = self.config.summary_cap(self.window)
        brief = Brief(
            prompt=self.policy.prompt,
            focus=self.trigger.focus,
            cap=most if cap is None else min(cap, most),
            window=self.config.summarizer_window or self.trigger.context_window,
            summary_prefix="",
            token_rule=self.rule,
            offered=self.policy.tools if offers_tools else (),
            more="\n\n".join(filter(None, (note, more, self.trigger.instructions))),
        )
        try:
            return (yield from summarise(told, brief, calls))
        except SummarizerOverflow as error:
            raise calls.too_large(error) from error.__cause__

    def extracted(self, told: Sequence[Message]) -> Flow[None]:
        """Hands *told* to the caller's extraction. The driver of the flow reports a failure to the hooks."""
        extract = self.policy.extract
        if extract is None:
            return
        raws = [message.raw for message in told]

        def curator(_: CompletionRequest) -> str:
            extract(raws)
            return ""

        async def awaiting(_: CompletionRequest) -> str:
            await extract(raws)
            return ""

        asked: Any = awaiting if iscoroutinefunction(extract) else curator
        with suppress(ModelError):
            yield CompletionRequest((), 1, "extraction", deadline=self.config.call_timeout, curator=asked)

    def truncated(self) -> Compaction | Skip:
        """Discards the oldest messages; a marker tells their number. No model is asked.

        In an emergency half of them leave, after an overflow three quarters. In a fork as many leave as are
        necessary for the rest to fit.
        """
        config = self.config
        if self.trigger.action == FORK:
            return self._forked(self.trigger.threshold or 0)
        if self.trigger.action == EMERGENCY:
            floor = config.retain_floor
            return self._cut_off(config.emergency_fraction, floor, max(2, floor), config.emergency_marker)
        return self._cut_off(config.overflow_fraction, 2, LEAST_OF_OVERFLOW, OVERFLOW_MARKER)

    def _cut_off(self, fraction: float, floor: int, least: int, marker: str) -> Compaction | Skip:
        live = len(self.history) - self.start
        if live <= least:
            return Skip("too_few", f"{live} messages are live, more than {least} are needed")
        end = self.cut(fraction, floor, or_earlier=True)
        return self.no_cut() if end is None else self.marked(end, marker)

    def _forked(self, budget: int) -> Compaction | Skip:
        """Discards the oldest messages until the rest fits *budget*, but keeps at least ``fork_floor``."""
        config, start = self.config, self.start
        live = self.read[start:]
        tokens = self.rule.count(self.history)
        gone = 0
        while tokens > budget and len(live) - gone > config.fork_floor:
            rest = live[gone:]
            count = cut_positions(len(rest), groups(rest), config.fork_fraction, config.fork_floor)
            if count == 0:
                break
            gone += count
            tokens = self._tokens_without(set(range(start, start + gone)) - self.held)
        if gone == 0:
            return Skip("too_few", f"{len(live)} messages are live, and a fork keeps {config.fork_floor}")
        if tokens > budget:
            _log.warning("a fork begins with %d tokens, %d more than fit", tokens, tokens - budget)
        return self.marked(start + gone, FORK_MARKER)

    def _tokens_without(self, gone: set[int]) -> int:
        """The tokens of a fork after the marker has replaced its messages at *gone*."""
        covers = covered([self.read[at] for at in sorted(gone)])
        made = [summary_message(FORK_MARKER.format(n=len(gone)), covers)] if gone else []
        return self.rule.count([*made, *(each for at, each in enumerate(self.read) if at not in gone)])

    def cut(self, fraction: float, floor: int, *, or_earlier: bool = False) -> int | None:
        """The position up to which live messages leave; None if there is no valid place for the cut."""
        live = self.read[self.start :]
        count = cut_positions(len(live), groups(live), fraction, floor, or_earlier=or_earlier)
        return None if count == 0 else self.start + count

    def selection(self, end: int, folded: Sequence[int] = ()) -> Selection:
        """A selection that discards the live messages before *end* and the summaries at *folded*.

        Loose messages among these summaries and superseded rules leave too.
        """
        gone = {*range(self.start, end), *self.folding(folded), *superseded(self.read, self.trigger)}
        kept = self.held | (set(range(len(self.history))) - gone)
        return kept_apart(self.history, self.read, kept)

    def folding(self, summaries: Sequence[int]) -> list[int]:
        """*summaries*, and the messages before the last of them that may leave now, in whole groups."""
        if not summaries:
            return []
        fixed = {*self.read.rules, *self.read.summaries, *self.held}
        loose = {at for at in range(summaries[-1]) if at not in fixed}
        others = [at for at in range(len(self.read)) if at not in loose]
        for start, end in self.read.outline.closed(others):
            loose.difference_update(range(start, end))
        return sorted({*summaries, *loose})

    def first_live(self, end: int) -> int:
        """The sequence number of the message at position *end*, or of the next message to come."""
        live = self.read[end].seq if end < len(self.read) else None
        return live if live is not None else self.read[end - 1].seq + 1

    def no_cut(self) -> Skip:
        """The answer of a run that finds no place to cut."""
        live = len(self.history) - self.start
        return Skip(
            "no_valid_cut", f"tool calls, pins or the request hold all {live} messages that may leave"
        )
