"""The cheap steps: they make tool results shorter, and discard no message."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from siltstone import checks
from siltstone.checks import reached_at, setting
from siltstone.compaction.base import Compaction, CompactionContext, Configured, Skip, Substitute, Trigger
from siltstone.compaction.rewrite import clamped_alone, tokens_cut
from siltstone.compaction.without_model import size
from siltstone.llm import Flow
from siltstone.messages import Message, Part, condensed, read_substitute, with_results
from siltstone.messages.groups import call_key
from siltstone.messages.message import SAID, as_fields
from siltstone.tokens import TokenRule

# The tool results in a history, with the calls that they answer, and a test whether they are in use.

LOADERS: Final = frozenset(
    {"skill", "load_skill", "use_skill", "tool_search", "toolsearch", "load_tool", "load_tools"}
)
"""Names of tools, in lower case, whose results stay in use: the text of a skill, the definition of a tool."""

_REFERENCE: Final = "tool_reference"
_DEEPEST: Final = 6  # the maximum depth of nested blocks that are searched


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A message with tool results.

    Attributes:
        at: Its position in the history.
        message: The message.
        calls: The calls that it answers, by their ids, as far as they are in the history.
    """

    at: int
    message: Message
    calls: Mapping[str | None, Part] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, each once, in order."""
        return tuple(dict.fromkeys(call.name for call in self.calls.values() if call.name))

    def asked(self, call_id: str | None) -> tuple[str, str] | None:
        """The tool and its arguments, with the keys in one order; None if the call is unknown."""
        call = self.calls.get(call_id)
        if call is None or not call.name:
            return None
        return call.name, _in_one_form(call.arguments or "")


InUse: TypeAlias = Callable[[ToolResult], bool]
"""A function that tells whether a result is still in use, and stays as it is.

The default is :func:`loads_what_is_used`.
"""


def loads_what_is_used(result: ToolResult) -> bool:
    """Whether the result loaded a skill or the definition of a tool, which the next steps need."""
    if any(name.lower() in LOADERS for name in result.tools):
        return True
    kept = result.message.kept
    if _REFERENCE not in kept:
        fields = as_fields(result.message.raw)
        kept[_REFERENCE] = fields is not None and _has_reference(fields.get("content"), _DEEPEST)
    return bool(kept[_REFERENCE])


class Walk(NamedTuple):
    """The results in a list of messages. A walk over the list, once it has grown, goes on from here."""

    messages: list[Message]
    pins: frozenset[int]
    results: list[ToolResult]
    calls: dict[Hashable, Part]

    def on(self, history: Sequence[Message], trigger: Trigger) -> Walk:
        """The walk over the whole of *history*."""
        messages, seen = list(history), len(self.messages)
        if len(messages) < seen or self.pins != trigger.pins or not all(map(is_, self.messages, messages)):
            return _NO_WALK._replace(pins=trigger.pins).on(messages, trigger)
        results, calls = self.results.copy(), self.calls.copy()
        for at, message in enumerate(messages[seen:], seen):
            if message.said is not None:  # one text is no call and no result
                continue
            calls.update((call_key(part), part) for part in message.parts if part.kind == "tool_call")
            answers = [part for part in message.parts if part.kind == "tool_result"]
            if not answers or message.role == "assistant":
                continue
            if message.provenance in SAID and not trigger.holds(message):
                answered = {part.call_id: calls[key] for part in answers if (key := call_key(part)) in calls}
                results.append(ToolResult(at, message, answered))
        return Walk(messages, trigger.pins, results, calls)


_NO_WALK: Final = Walk([], frozenset(), [], {})
_walks: WeakKeyDictionary[object, Walk] = WeakKeyDictionary()  # by policy: its last walk


def tool_results(history: Sequence[Message], trigger: Trigger) -> list[ToolResult]:
    """The messages of *history* with results that may be changed: parts of the conversation, not pinned."""
    return _NO_WALK.on(history, trigger).results


def _has_reference(value: Any, deepest: int) -> bool:
    """Whether a block of the type ``tool_reference`` is in *value*."""
    if deepest == 0:
        return False
    if isinstance(value, Mapping):
        return value.get("type") == _REFERENCE or _has_reference(value.get("content"), deepest - 1)
    return isinstance(value, list | tuple) and any(_has_reference(each, deepest - 1) for each in value)


def _in_one_form(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


# The settings of the cheap steps, each checked when it is set.

UNKNOWN_WINDOW: Final = 50_000  #: the tokens at which a step is due, if the window is unknown
WAIT_UNTIL: Final = 0.75  #: the share of the window at which a step waits for no cache


@dataclass(frozen=True, slots=True)
class InPlaceConfig(checks.Settings):
    """The common settings of steps that replace long results by shorter ones.

    Attributes:
        trigger_fraction: Share of the window at which the step is due, above 0.
        min_reclaim: The minimum tokens that a step must free. For less, the provider's cached prefix is left
            unchanged.
        least_tokens: A result with fewer tokens stays as it is.
        estimator: The token rule, as in :class:`CompactionConfig`.
        wait_for_cache: Whether the step waits, up to three quarters of the window, while the provider has the
            beginning of the request in its cache. A change would make the provider read the rest again.
        in_use: A function that tells whether a result is still in use; such a result stays as it is.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    trigger_fraction: float = setting(0.5, checks.share, above_zero=True)
    min_reclaim: int = setting(2_000, checks.at_least, 0)
    least_tokens: int = setting(100, checks.positive)
    estimator: str | TokenRule = setting("blocks", checks.estimator)
    wait_for_cache: bool = True
    in_use: InUse = setting(loads_what_is_used, checks.function, "a result")

    def waits(self, context: CompactionContext, tokens: int) -> bool:
        """Whether a history of *tokens* stays as it is, because its beginning is in the provider's cache."""
        if not (self.wait_for_cache and context.cached_tokens) or context.context_window is None:
            return False
        return tokens < reached_at(context.context_window, WAIT_UNTIL)

    def threshold(self, context_window: int | None) -> int:
        """The tokens at which the step is due."""
        if context_window is None:
            return UNKNOWN_WINDOW
        return reached_at(context_window, self.trigger_fraction)


@dataclass(frozen=True, slots=True)
class ClearConfig(InPlaceConfig):
    """The settings of :class:`ClearToolResults`, in addition to the common ones.

    Attributes:
        keep_results: The number of newest messages with results that stay as they are.
    """

    keep_results: int = setting(3, checks.at_least, 0)


# Steps that discard no message: they replace long results by short ones with a handle to the original.


C = TypeVar("C", bound=InPlaceConfig)


class InPlace(Configured[C]):
    """A policy that replaces results by substitutes, and asks no model.

    It is due at any boundary if the history fills a share of the window. The originals are in the log, so
    nothing is lost, and an undo brings them back.
    """

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if the history has reached the share of the window; at any boundary."""
        threshold = self.config.threshold(context.context_window)
        if context.tokens < threshold or self.config.waits(context, context.tokens):
            return None
        return context.trigger("history_tokens", self.name, context.tokens, threshold)

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Replaces results by substitutes. It yields no request."""
        yield from ()
        if not trigger.keeps_substitutes:
            return Skip("nothing_to_discard", "results are replaced in a session alone, which keeps them")
        found, reclaimed = self.substitutes(history, trigger)
        if not found:
            return Skip("nothing_to_discard", "no result may be replaced by a shorter one")
        if reclaimed < self.config.min_reclaim:
            least = self.config.min_reclaim
            return Skip("too_little", f"{reclaimed} tokens would be reclaimed, min_reclaim is {least}")
        return clamped_alone(history, found)

    def substitutes(self, history: Sequence[Message], trigger: Trigger) -> tuple[dict[int, Substitute], int]:
        """The substitutes by the positions of their originals, and the tokens that they free."""
        found: dict[int, Substitute] = {}
        reclaimed = 0
        walk = _walks[self] = _walks.get(self, _NO_WALK).on(history, trigger)
        for result, message in self.replaced(walk.results, trigger):
            won = self._token_rule.count([result.message]) - self._token_rule.count([message])
            if won > 0:
                found[result.at] = Substitute(result.message, message)
                reclaimed += won
        return found, reclaimed

    @abstractmethod
    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """Those of *results* that are replaced, each with its substitute message. Results in use stay."""


def receipt(text: str, what: str, message: Message, token_rule: TokenRule, reader: str) -> str:
    """The line that replaces *text*: *what* happened to it, its size, and the handle that reads it."""
    tokens = token_rule.count_text(text) + tokens_cut(text)
    lines = text.count("\n") + 1
    handle = f'; {reader}("m{message.seq}") reads it' if reader else ""
    return f"[{what}: {tokens:,} tokens in {lines:,} line{'s' * (lines != 1)}{handle}]"


# Replaces old tool results in the view by receipts.

CLEARED = "cleared"  #: the kind of a substitute that is a receipt
_UNKNOWN: Final = None, False


class ClearToolResults(InPlace[ClearConfig]):
    """Replaces old results by receipts. A receipt tells the size of the result and the handle that reads it.

    The newest results, results still in use, pinned results and small results stay. Calls keep their
    arguments. Nothing is lost: ``memory_get`` reads a result by range or pattern, a search finds it, and an
    undo brings it back.

    Args:
        config: When the step is due, and which results it spares.
    """

    name = "clear-tool-results"

    def __init__(self, config: ClearConfig | None = None) -> None:
        super().__init__(config or ClearConfig())

    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """All results except the newest ones and the results of excluded tools."""
        newest, found = self.config.keep_results, []
        for result in reversed(results):
            is_small = not newest and result.message.kept.get(self, _UNKNOWN)[1] is None
            if is_small or self.config.in_use(result):
                continue
            if newest:
                newest -= 1
            elif (message := self._cleared(result, trigger)) is not None:
                found.append((result, message))
        found.reverse()
        return found

    def _cleared(self, result: ToolResult, trigger: Trigger) -> Message | None:
        message, key = result.message, (trigger.reader, result.calls)
        known: tuple[Any, Message | None] | None = message.kept.get(self)
        if known is not None and known[0] == key:  # a policy that shapes each request asks each time
            return known[1]

        def change(text: str, call_id: str | None) -> str:
            if self._token_rule.count_text(text) < self.config.least_tokens:
                return text
            asked = result.asked(call_id)
            what = f"result of {asked[0]} cleared" if asked is not None else "result cleared"
            return receipt(text, what, message, self._token_rule, trigger.reader)

        fields = with_results(message, change)
        made = None if fields is None else read_substitute(message, fields, CLEARED)
        message.kept[self] = key, made
        return made


# Keeps a text that was read several times only once in the view, at its last reading.

SUPERSEDED = "superseded"  #: the kind of a substitute for a result that a later result replaces

_READS: Final = re.compile(
    r"(?:^|[_\W])(?:read|cat|view|open|get|fetch|list|ls|glob|grep|search|find|show|load|notebookread)"
    r"(?:[_\W]|file|files|dir|directory|$)",
    re.IGNORECASE,
)


class DropDuplicateReads(InPlace[InPlaceConfig]):
    """Replaces a result that was read again later by a receipt, which names the later result.

    Two results belong together if a reading tool was called with the same arguments, or if they have the
    same text. The last result stays whole. A failed result replaces no other. So the old content of a file
    that has changed leaves the view; ``memory_get`` still reads it.

    Args:
        config: When the step is due, and which tools are reading tools.
    """

    name = "drop-duplicate-reads"

    def __init__(self, config: InPlaceConfig | None = None) -> None:
        super().__init__(config or InPlaceConfig())

    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """The results that a later result repeats, or has read again."""
        later: dict[object, int] = {}  # a tool with its arguments, or a text: the last message with it
        found = []
        for result in reversed([each for each in results if not self.config.in_use(each)]):
            message = self._superseded(result, later, trigger)
            if message is not None:
                found.append((result, message))
            self._remember(result, later)
        found.reverse()
        return found

    def _remember(self, result: ToolResult, later: dict[object, int]) -> None:
        for part in result.message.parts:
            if part.kind != "tool_result" or part.is_error or result.message.provenance != "original":
                continue
            if self._token_rule.count_text(part.text) >= self.config.least_tokens:
                later.setdefault(part.text, result.message.seq)
            asked = result.asked(part.call_id)
            if asked is not None and _READS.search(asked[0]):
                later.setdefault(asked, result.message.seq)

    def _superseded(self, result: ToolResult, later: dict[object, int], trigger: Trigger) -> Message | None:
        message = result.message
        errors = {part.call_id for part in message.parts if part.is_error}

        def change(text: str, call_id: str | None) -> str:
            if self._token_rule.count_text(text) < self.config.least_tokens or call_id in errors:
                return text
            asked = result.asked(call_id)
            seq = later.get(text, None if asked is None else later.get(asked))
            if seq is None:
                return text
            said = "the same text" if text in later else "read again"
            return receipt(text, f"{said} in m{seq}", message, self._token_rule, trigger.reader)

        fields = with_results(message, change)
        return None if fields is None else read_substitute(message, fields, SUPERSEDED)


# Makes new tool results shorter by their structure, before the model sees them.

COMPRESSED = "compressed"  #: the kind of a substitute that is a shorter result
ACTION = "compress"  #: the action of the trigger; it makes no other step of a chain due
MIN_SAVING = 0.25  #: the minimum share of its tokens that a result must lose; else it stays as it is
SEEN_BYTES = 262_144  #: UTF-8 bytes of the newest earlier results, whose lines the new ones may repeat
NEVER = 1 << 62  # tokens: a threshold that no history reaches


@dataclass(frozen=True, slots=True)
class CompressConfig(checks.Settings):
    """The settings of :class:`CompressToolOutput`.

    Attributes:
        least_tokens: A result with fewer tokens stays as it is.
        estimator: The token rule, as in :class:`CompactionConfig`.
        in_use: A function that tells whether a result is needed word for word; such a result stays as it is.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    least_tokens: int = setting(100, checks.positive)
    estimator: str | TokenRule = setting("blocks", checks.estimator)
    in_use: InUse = setting(loads_what_is_used, checks.function, "a result")


class CompressToolOutput(Configured[CompressConfig]):
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

    name = "compress-tool-output"

    def __init__(self, config: CompressConfig | None = None) -> None:
        super().__init__(config or CompressConfig())

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, at every boundary: only ``flow`` reads the results."""
        return context.trigger("history_tokens", ACTION, context.tokens, NEVER)

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
        return made if before - after >= before * MIN_SAVING else None

    def _earlier(self, history: Sequence[Message], end: int) -> list[tuple[str, str]]:
        """Handles and texts of the results before *end* that the view shows whole, the newest last."""
        found: list[tuple[str, str]] = []
        room = SEEN_BYTES
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
