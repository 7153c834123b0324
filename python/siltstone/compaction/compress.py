"""Makes new tool results shorter by their structure, before the model sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from siltstone.compaction import checks
from siltstone.compaction.base import Compaction, CompactionContext, Skip, Substitute, Trigger
from siltstone.compaction.clamp import clamped_alone
from siltstone.compaction.fallback import size
from siltstone.compaction.tool_results import InUse, ToolResult, loads_what_is_used, tool_results
from siltstone.llm import Flow
from siltstone.messages import Message, condensed, read_substitute, with_results
from siltstone.tokens import TokenRule, rule

__all__ = ["ACTION", "COMPRESSED", "CompressConfig", "CompressToolOutput"]

COMPRESSED = "compressed"  #: the kind of a substitute that is a shorter result
ACTION = "compress"  #: the action of the trigger; it makes no other step of a chain due
NEVER = 1 << 62  # tokens: a threshold that no history reaches


@dataclass(frozen=True, slots=True)
class CompressConfig:
    """The settings of :class:`CompressToolOutput`.

    Attributes:
        least_tokens: A result with fewer tokens stays as it is.
        min_saving: The minimum share of its tokens that a result must lose, above 0; else it stays as it is.
        seen_bytes: The maximum UTF-8 bytes of earlier results that are compared with the new ones. The
            newest results come first; the first result that has no room ends the list.
        exclude_tools: Tools whose results stay.
        estimator: The token rule, as in :class:`CompactionConfig`.
        in_use: A function that tells whether a result is needed word for word; such a result stays as it is.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    least_tokens: int = 100
    min_saving: float = 0.25
    seen_bytes: int = 262_144
    exclude_tools: tuple[str, ...] = ()
    estimator: str | TokenRule = "blocks"
    in_use: InUse = loads_what_is_used

    def __post_init__(self) -> None:
        checks.positive("least_tokens", self.least_tokens)
        checks.share("min_saving", self.min_saving, above_zero=True)
        checks.at_least("seen_bytes", self.seen_bytes, 0)
        object.__setattr__(self, "exclude_tools", checks.names("exclude_tools", self.exclude_tools))
        checks.estimator(self.estimator)
        if not callable(self.in_use):
            checks.refuse("in_use", "a function of a result", self.in_use)


class CompressToolOutput:
    """Shortens tool results that no model has seen yet, by their structure and without a model.

    JSON keys that every row repeats are written once. Runs of log lines and unchanged stretches of diffs keep
    only their ends. Lines that are already in an earlier result in the view become a reference to it. Inline
    base64 is cut. The first line tells how ``memory_get`` reads the original. Earlier messages never change,
    so the provider's cached prefix stays valid.

    The step is due at every boundary, and skips if no new result can be shortened. Without a tool that reads
    the original it does nothing.

    Args:
        config: Which results it shortens.
    """

    def __init__(self, config: CompressConfig | None = None) -> None:
        self.config = config or CompressConfig()
        self._token_rule = rule(self.config.estimator)

    def __repr__(self) -> str:
        return f"CompressToolOutput({self.config!r})"

    @property
    def name(self) -> str:
        """``compress-tool-output``."""
        return "compress-tool-output"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, at every boundary: only ``flow`` reads the results."""
        return Trigger(
            "history_tokens",
            ACTION,
            tokens=context.estimated_history_tokens + context.reserved_tokens,
            threshold=NEVER,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
        )

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Compresses the results after the last message of the assistant. It yields no request."""
        yield from ()
        if not (trigger.keeps_substitutes and trigger.reader):
            return Skip("nothing_to_discard", "there is no tool that reads an original")
        new = [each for each in _unseen(history, trigger) if self._may_touch(each)]
        if not new:
            return Skip("nothing_to_discard", "no new result is large enough")
        found: dict[int, Substitute] = {}
        earlier = self._earlier(history, new[0].at)
        for result in new:
            shorter = self._shorter(result, earlier, trigger.reader)
            if shorter is not None:
                found[result.at] = Substitute(result.message, shorter)
            else:
                earlier.append((f"m{result.message.seq}", _text(result.message)))
        if not found:
            return Skip("nothing_to_discard", "no new result has a structure that repeats")
        return clamped_alone(history, found)

    def _may_touch(self, result: ToolResult) -> bool:
        config = self.config
        return (
            result.message.provenance == "original"
            and self._token_rule.count([result.message]) >= config.least_tokens
            and set(config.exclude_tools).isdisjoint(result.tools)
            and not config.in_use(result)
        )

    def _shorter(self, result: ToolResult, earlier: list[tuple[str, str]], reader: str) -> Message | None:
        message = result.message
        note = f'[compressed; {reader}("m{message.seq}") reads the original]\n'

        def change(text: str, _: str | None) -> str:
            if self._token_rule.count_text(text) < self.config.least_tokens:
                return text
            shorter = note + condensed(text, earlier)
            return shorter if len(shorter) < len(text) else text

        fields = with_results(message, change)
        if fields is None:
            return None
        made = read_substitute(message, fields, COMPRESSED)
        before, after = self._token_rule.count([message]), self._token_rule.count([made])
        return made if before - after >= before * self.config.min_saving else None

    def _earlier(self, history: Sequence[Message], end: int) -> list[tuple[str, str]]:
        """Handles and texts of the results before *end* that the view shows whole, the newest last."""
        found: list[tuple[str, str]] = []
        room = self.config.seen_bytes
        for at in range(end - 1, -1, -1):
            message = history[at]
            if message.provenance != "original" or not _holds_results(message):
                continue
            text = _text(message)
            room -= size(text)
            if room < 0:
                break
            found.append((f"m{message.seq}", text))
        found.reverse()
        return found


def _unseen(history: Sequence[Message], trigger: Trigger) -> list[ToolResult]:
    """The results after the last message of the assistant: no model has received them yet."""
    start = len(history)
    while start and history[start - 1].role != "assistant":
        start -= 1
    calls = start
    while calls and history[calls - 1].role == "assistant":
        calls -= 1
    tail = [history[at] for at in range(calls, len(history))]
    return [replace(each, at=each.at + calls) for each in tool_results(tail, trigger)]


def _holds_results(message: Message) -> bool:
    return message.role != "assistant" and any(part.kind == "tool_result" for part in message.parts)


def _text(message: Message) -> str:
    """The text of a message as ``memory_get`` numbers its lines."""
    return "\n".join(part.text for part in message.parts if part.text and part.kind != "reasoning")
