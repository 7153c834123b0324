"""The history of a worker: a long task loop in segments. A recap replaces its oldest calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from siltstone.compaction import rewrite as rewrites
from siltstone.compaction.base import Compaction, CompactionContext, Configured, Skip, Substitute, Trigger
from siltstone.compaction.prompts import LEFT_OUT, unframed
from siltstone.compaction.results import tool_results
from siltstone.llm import Flow
from siltstone.messages import History, Message, as_history, read_substitute, unmarked, with_results
from siltstone.systems.spacebot.config import WORKER_MARKER, TieredConfig
from siltstone.systems.spacebot.run import aligned_cut

SEGMENT: Final = "segment"
SUPERSEDE: Final = "supersede"
LEAST: Final = 4  # live messages: with no more than this nothing leaves
FLOOR: Final = 2  # live messages that always stay
MOST_BYTES: Final = 200  # the maximum bytes of the arguments of a call, and of a result
NOTHING: Final = "- nothing significant happened"


class WorkerCompactor(Configured[TieredConfig]):
    """Keeps the history of a worker small, without a model.

    A worker has one task and many model calls; each call is a boundary of its session. At the end of a
    segment of calls, if 0.70 of the window is in use, the oldest half of the messages leaves. The task and
    the newest messages always stay. A marker tells the number of messages that left, and a recap lists their
    calls, notes and results.

    Only the newest result of each tool in ``superseding_tools`` stays whole; a line replaces the others. This
    is done before each call, if the caller stores substitutes, as a session does.

    Args:
        config: The settings whose names begin with ``worker_``, and ``superseding_tools``.
    """

    name = "worker"
    keeps_task = True

    def __init__(self, config: TieredConfig | None = None) -> None:
        super().__init__(config or TieredConfig())

    @property
    def overflow_retries(self) -> int:
        """The maximum number of retries of a request that the provider found too large."""
        return self.config.overflow_retries

    def segment(self, boundary: int) -> int:
        """The segment that model call *boundary* is in; both count from 0."""
        return boundary // self.config.worker_turns_per_segment

    def is_over(self, boundary: int) -> bool:
        """Whether all segments of the worker are over before model call *boundary*."""
        return self.segment(boundary) >= self.config.worker_max_segments

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if the window is too full at the end of a segment; else that for stale results."""
        config = self.config
        window = config.window(context.context_window)
        tokens = max(context.tokens, context.forecast_tokens)
        threshold = config.worker_tokens(window)
        at_end = context.boundary > 0 and context.boundary % config.worker_turns_per_segment == 0
        if at_end and tokens >= threshold:
            return context.trigger("fraction", SEGMENT, tokens, threshold)
        if config.superseding_tools:
            return context.trigger("count", SUPERSEDE, tokens)
        return None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Replaces stale results first, then discards the oldest messages. It yields no request."""
        yield from ()
        stale = self._stale(history, trigger)
        first = rewrites.clamped_alone(history, stale) if stale else None
        if trigger.action == SUPERSEDE:
            return first or Skip("nothing_to_discard", "no result is stale")
        overflowed = trigger.reason == "overflow"
        fraction = self.config.overflow_fraction if overflowed else self.config.worker_fraction
        left = history if first is None else tuple(first.messages)
        result = self._shortened(as_history(left), trigger, fraction)
        if first is None:
            return result
        if not isinstance(result, Skip):
            return rewrites.composed(history, [first, result], None)
        count = self._token_rule.count
        # A line may be as long as the result that it replaces. Such a rewrite alone is useless.
        return first if count(first.messages) < count(history) else result

    def _shortened(self, read: History, trigger: Trigger, fraction: float) -> Compaction | Skip:
        """*read* without its oldest messages, and with a recap of them."""
        fixed = {*read.rules, *read.summaries, *read.outline.requests[:1]}
        start = next((at for at in range(len(read)) if at not in fixed), len(read))
        live = read[start:]
        if len(live) <= LEAST:
            return Skip("too_few", f"{len(live)} messages are live, more than {LEAST} are needed")
        count = aligned_cut(live, fraction, FLOOR, or_earlier=True)
        kept = rewrites.must_stay(read, trigger.pins, task=True)
        gone = {*range(start, start + count), *read.summaries} - kept | rewrites.superseded(read, trigger)
        selection = rewrites.kept_apart(read, set(range(len(read))) - gone)
        if count == 0 or not selection.is_worthwhile:
            return Skip("no_valid_cut", f"tool calls and pins hold all {len(live)} live messages")
        covers = rewrites.covered(selection.discarded)
        number = sum(end - first for first, end in covers)
        text = self._text(number, selection.discarded, self.config.window(trigger.context_window))
        made = rewrites.summary_message(text, covers, role=self.config.summary_role)
        if self._token_rule.count([made]) >= self._token_rule.count(selection.discarded):
            return Skip("nothing_to_discard", f"{number} messages are smaller than their recap")
        return rewrites.layered(selection, [made], text, degraded=True)

    def _text(self, number: int, discarded: Sequence[Message], window: int) -> str:
        """The marker, and as many of the newest lines of the recap as fit."""
        marker = WORKER_MARKER.format(n=number)
        earlier = [
            line
            for message in discarded
            if message.provenance == "compaction_summary"
            for line in unframed(unmarked(message.text), "").split("\n")[1:]
            if line not in (NOTHING, LEFT_OUT)
        ]
        new = recap([message for message in discarded if message.provenance != "compaction_summary"])
        lines = [*earlier, *(line for line in new if line != NOTHING)]
        room = self.config.stack_budget(window) - self._token_rule.count_text(marker)
        shown: list[str] = []
        for line in reversed(lines):
            room -= self._token_rule.count_text(line) + 1
            if room < 0:
                shown.append(LEFT_OUT)
                break
            shown.append(line)
        return "\n".join([marker, *(reversed(shown) if lines else [NOTHING])])

    def _stale(self, history: Sequence[Message], trigger: Trigger) -> dict[int, Substitute]:
        """Substitutes for results of superseding tools that have a newer result, by position."""
        if not trigger.keeps_substitutes:
            return {}
        seen: set[str] = set()
        found: dict[int, Substitute] = {}
        for result in reversed(tool_results(history, trigger)):
            names = {call_id: call.name for call_id, call in result.calls.items()}
            stale = frozenset(seen)

            fields = with_results(result.message, partial(self._superseded, names, stale))
            if fields is not None:
                message = read_substitute(result.message, fields, "superseded")
                found[result.at] = Substitute(result.message, message)
            seen.update(name for name in names.values() if name and name in self.config.superseding_tools)
        return dict(sorted(found.items()))

    def _superseded(
        self, names: Mapping[str | None, str | None], stale: frozenset[str], text: str, call_id: str | None
    ) -> str:
        """The replacement of a result's *text*: a line if the tool has a newer result, else the text."""
        name = names.get(call_id)
        line = f"[superseded: a newer result of {name} is below]"
        count = self._token_rule.count_text
        return line if name in stale and count(text) > count(line) else text


def recap(messages: Sequence[Message]) -> list[str]:
    """The events in *messages*: a line for each call, each result, and each text of the assistant.

    Arguments and results are cut at 200 bytes. Line breaks and runs of blank space become one space.
    """
    return list(_lines(messages)) or [NOTHING]


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if part.kind == "tool_call":
                yield f"- called {part.name or '-'} ({_cut(part.arguments or '')})"
            elif part.kind == "tool_result":
                yield f"  result: {_cut(part.text)}"
            elif part.kind == "text" and message.role == "assistant" and part.text.strip():
                yield f"- noted: {' '.join(part.text.split())}"


def _cut(text: str) -> str:
    """*text* in one line of at most 200 bytes, cut between two characters."""
    line = " ".join(text.split())
    return line.encode("utf-8", "replace")[:MOST_BYTES].decode("utf-8", "ignore")
