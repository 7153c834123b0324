"""The settings of the cheap steps, each checked when it is set."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.compaction import checks
from siltstone.compaction.base import CompactionContext
from siltstone.compaction.share import reached_at
from siltstone.compaction.tool_results import InUse, loads_what_is_used
from siltstone.tokens import TokenRule

__all__ = ["ClearConfig", "DuplicatesConfig", "InPlaceConfig"]


@dataclass(frozen=True, slots=True)
class InPlaceConfig:
    """The common settings of steps that replace long results by shorter ones.

    Attributes:
        trigger_fraction: Share of the window at which the step is due, above 0.
        trigger_tokens: The same in tokens, for an unknown window.
        min_reclaim: The minimum tokens that a step must free. For less, the provider's cached prefix is left
            unchanged.
        least_tokens: A result with fewer tokens stays as it is.
        estimator: The token rule, as in :class:`CompactionConfig`.
        wait_for_cache: Whether the step waits, up to ``wait_until``, while the provider has the beginning of
            the request in its cache. A change would make the provider read the rest again.
        wait_until: Share of the window at which the step waits no longer.
        in_use: A function that tells whether a result is still in use; such a result stays as it is.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    trigger_fraction: float = 0.5
    trigger_tokens: int = 50_000
    min_reclaim: int = 2_000
    least_tokens: int = 100
    estimator: str | TokenRule = "blocks"
    wait_for_cache: bool = True
    wait_until: float = 0.75
    in_use: InUse = loads_what_is_used

    def __post_init__(self) -> None:
        checks.share("trigger_fraction", self.trigger_fraction, above_zero=True)
        checks.positive("trigger_tokens", self.trigger_tokens)
        checks.at_least("min_reclaim", self.min_reclaim, 0)
        checks.positive("least_tokens", self.least_tokens)
        checks.estimator(self.estimator)
        checks.boolean("wait_for_cache", self.wait_for_cache)
        checks.share("wait_until", self.wait_until, above_zero=True)
        if not callable(self.in_use):
            checks.refuse("in_use", "a function of a result", self.in_use)

    def waits(self, context: CompactionContext, tokens: int) -> bool:
        """Whether a history of *tokens* stays as it is, because its beginning is in the provider's cache."""
        if not (self.wait_for_cache and context.cached_tokens) or context.context_window is None:
            return False
        return tokens < reached_at(context.context_window, self.wait_until)

    def threshold(self, context_window: int | None) -> int:
        """The tokens at which the step is due."""
        if context_window is None:
            return self.trigger_tokens
        return reached_at(context_window, self.trigger_fraction)


@dataclass(frozen=True, slots=True)
class ClearConfig(InPlaceConfig):
    """The settings of :class:`ClearToolResults`, in addition to the common ones.

    Attributes:
        keep_results: The number of newest messages with results that stay as they are.
        exclude_tools: Tools whose results stay.
    """

    keep_results: int = 3
    exclude_tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        InPlaceConfig.__post_init__(self)
        checks.at_least("keep_results", self.keep_results, 0)
        object.__setattr__(self, "exclude_tools", checks.names("exclude_tools", self.exclude_tools))


@dataclass(frozen=True, slots=True)
class DuplicatesConfig(InPlaceConfig):
    """The settings of :class:`DropDuplicateReads`, in addition to the common ones.

    Attributes:
        tools: Names of reading tools: if two calls have the same arguments, only the later answer stays.
            None: tools with a name such as ``read_file``. Two answers with the same text count as one
            reading, for any tool.
    """

    tools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        InPlaceConfig.__post_init__(self)
        if self.tools is not None:
            object.__setattr__(self, "tools", checks.names("tools", self.tools))
