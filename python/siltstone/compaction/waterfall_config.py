"""The settings of waterfall summaries, each checked when it is set."""

from __future__ import annotations

from typing import Literal

from siltstone.compaction import checks
from siltstone.tokens import TokenRule
from siltstone.values import dataclass, replace

__all__ = ["WaterfallConfig"]


@dataclass(frozen=True, slots=True)
class WaterfallConfig:
    """When :class:`WaterfallCompactor` acts, and what it asks for.

    Attributes:
        immediate_window: The newest messages, which stay word for word.
        recent_window: Messages of one slice, which the recent summary stands for.
        step: New messages between two runs, counted from the size that the last one began with. None: as
            many as ``recent_window``.
        prompt_style: ``base`` is the documented prompt: one plain text that base and chat models continue.
            ``instruct`` says what to write and names the speakers.
        stop: Texts at which the provider ends an answer. None by default: a line break would leave a
            summary of one line.
        temperature: How freely an answer is sampled, 0..1.
        max_tokens: The most tokens of a summary.
        attempts: Calls of one model for one answer; one that raises is called again.
        call_timeout: Seconds that a call may take; None for any time.
        retry_delay: Seconds before the second call for one answer; each further one waits twice as long.
        longterm_budget_tokens: Tokens of the long-term summary; a longer one is summarised again. None: no
            bound.
        longterm_refresh: Every so many passes the long-term summary is made anew of the stored recent
            summaries, not of itself; 0 never.
        cap_share: A summary has at most this share of what it stands for, 0..1; 1 leaves it to
            ``max_tokens``.
        ram_cap: Messages in context that count as full in a status report.
        summarizer_window: The window of the model that writes summaries, in tokens; None: the session's.
        estimator: How tokens are counted, as in :class:`CompactionConfig`.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    immediate_window: int = 64
    recent_window: int = 64
    step: int | None = None
    prompt_style: Literal["base", "instruct"] = "base"
    stop: tuple[str, ...] = ()
    temperature: float | None = 0.2
    max_tokens: int = 1024
    attempts: int = 3
    call_timeout: float | None = 120.0
    retry_delay: float = 0.5
    longterm_budget_tokens: int | None = 2000
    longterm_refresh: int = 8
    cap_share: float = 0.5
    ram_cap: int = 65_536
    summarizer_window: int | None = None
    estimator: str | TokenRule = "blocks"

    def __post_init__(self) -> None:
        checks.positive("immediate_window", self.immediate_window)
        checks.positive("recent_window", self.recent_window)
        if self.step is not None:
            checks.positive("step", self.step, or_else="None or ")
        checks.one_of("prompt_style", self.prompt_style, ("base", "instruct"))
        if not isinstance(self.stop, list | tuple) or not all(
            isinstance(each, str) and each for each in self.stop
        ):
            checks.refuse("stop", "texts that are not empty", self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))
        if self.temperature is not None:
            checks.share("temperature", self.temperature)
        checks.positive("max_tokens", self.max_tokens)
        checks.positive("attempts", self.attempts)
        checks.seconds("call_timeout", self.call_timeout)
        if not checks.is_number(self.retry_delay) or self.retry_delay < 0:
            checks.refuse("retry_delay", "a number of seconds >= 0", self.retry_delay)
        if self.longterm_budget_tokens is not None:
            checks.positive("longterm_budget_tokens", self.longterm_budget_tokens, or_else="None or ")
        checks.at_least("longterm_refresh", self.longterm_refresh, 0)
        checks.share("cap_share", self.cap_share, above_zero=True)
        checks.at_least("ram_cap", self.ram_cap, self.immediate_window + self.recent_window)
        if self.summarizer_window is not None:
            checks.positive("summarizer_window", self.summarizer_window, or_else="None or ")
        checks.estimator(self.estimator)

    @classmethod
    def documented(cls) -> WaterfallConfig:
        """The documented numbers without our bounds: long-term grows, and is only ever combined."""
        return cls(longterm_budget_tokens=None, longterm_refresh=0, cap_share=1)

    def for_prompt(self, shown: int) -> WaterfallConfig:
        """The same with both windows as large as the *shown* entries of the host's own prompt."""
        return replace(self, immediate_window=shown, recent_window=shown)

    @property
    def every(self) -> int:
        """New messages between two runs."""
        return self.recent_window if self.step is None else self.step
