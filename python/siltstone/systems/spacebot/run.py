"""The common part of both modes of tiered compaction: one run over one history."""

from __future__ import annotations

import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from itertools import chain
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from siltstone.checks import share_of
from siltstone.compaction import rewrite as rewrites
from siltstone.compaction.base import Checkpoint, Compaction, Skip, State, Trigger
from siltstone.compaction.summarise import Brief, Calls, SummarizerOverflow, summarise
from siltstone.errors import ModelError, SiltstoneError
from siltstone.llm import LAST_RESORT, Completion, CompletionRequest, Flow, ToolCall, relayed
from siltstone.messages import History, Message, RawMessage, as_history, opens_turn, unmarked
from siltstone.systems.spacebot.config import CHECKPOINT_PROMPT, FORK_MARKER, OVERFLOW_MARKER, SUMMARY_PROMPT
from siltstone.tools.memory import SAVE, SAVE_NAME, read_memory

if TYPE_CHECKING:
    from siltstone.systems.spacebot.tiered import TieredCompactor

# Finds places to cut a history that do not split a group.


def aligned_cut(messages: Sequence[Message], fraction: float, floor: int, *, or_earlier: bool = False) -> int:
    """The number of the oldest *messages* that may leave; 0 if no cut is possible.

    The wanted cut is ``min(max(1, floor(n * fraction)), n - floor)``. The result is the first place from
    there on, up to ``n - floor``, at which no group lies on both sides and no call before it is pending.

    Args:
        messages: The messages that may leave, oldest first, without the rules and summaries before them.
        fraction: The wanted share, above 0 and below 1.
        floor: The minimum number of messages that stay.
        or_earlier: Whether the largest possible cut below the wanted one is taken if there is no other.
    """
    count = len(messages)
    most = count - floor
    if most < 1:
        return 0
    wanted = min(max(1, share_of(count, fraction)), most)
    outline = as_history(messages).outline
    latest, places = min(outline.pending, default=count), outline.breaks([(0, count)])
    after = [cut for cut in places if wanted <= cut <= min(most, latest)]
    before = [cut for cut in places if cut <= min(wanted - 1, latest)] if or_earlier else []
    return next(chain(after, reversed(before)), 0)


# The stack of summaries before the live messages of a view: their numbers, their turns, and their end.

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Layer:
    """A summary of the stack.

    Attributes:
        seq: The first message that it covers; it identifies the summary.
        numbers: Its first and last number; they differ for a summary that was folded from several. (0, 0)
            for a marker.
        turns: The first and last turn in it, from 1; (0, 0) if unknown.
    """

    seq: int
    numbers: tuple[int, int] = (0, 0)
    turns: tuple[int, int] = (0, 0)

    @property
    def is_marker(self) -> bool:
        """Whether it is a line that tells only the number of its messages."""
        return self.numbers == (0, 0) != self.turns


@dataclass(frozen=True, slots=True)
class Stack:
    """The summaries of a view in order, and counters of the messages before the live ones.

    Attributes:
        positions: The positions of the summaries.
        layers: The layer of each summary.
        start: The position of the first live message: after the last summary, else after the leading rules.
        number: The highest number that a summary ever had.
        turns: The number of turns that began before ``start``.
    """

    positions: tuple[int, ...]
    layers: tuple[Layer, ...]
    start: int
    number: int
    turns: int

    @classmethod
    def of(cls, read: History, trigger: Trigger, heading: str) -> Stack:
        """The stack of *read*, from the stored state, else from the headings of the summaries."""
        positions = tuple(read.summaries)
        start = live_start(read)
        known = _Kept.read(trigger.policy_state)
        layers = tuple(_layer(read, at, known, heading) for at in positions)
        said = max((layer.turns[1] for layer in layers), default=0)
        if known is not None:
            number, turns = known.number, known.turns + _turns_since(read, trigger, start, known.end)
        else:
            number = max((layer.numbers[1] for layer in layers), default=0)
            turns = said or _turns_since(read, trigger, start, 0)
        return cls(positions, layers, start, number, max(turns, said))

    def state(self, *, end: int) -> dict[str, object]:
        """The state that the session keeps; *end* is the number of the first live message."""
        layers = [[layer.seq, *layer.numbers, *layer.turns] for layer in self.layers]
        return {"number": self.number, "turns": self.turns, "end": end, "stack": layers}


def live_start(read: History) -> int:
    """The position of the first live message: after the last summary, else after the leading rules."""
    if read.summaries:
        return read.summaries[-1] + 1
    rules = set(read.rules)
    return next((at for at in range(len(read)) if at not in rules), len(read))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A stored state: layers by their first message, the highest number, the turns up to message *end*."""

    layers: dict[int, Layer]
    number: int
    turns: int
    end: int

    @classmethod
    def read(cls, state: State | None) -> _Kept | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        if not isinstance(state, dict):
            return None
        number, turns, end = (state.get(name) for name in ("number", "turns", "end"))
        rows = state.get("stack")
        if not (_is_count(number) and _is_count(turns) and _is_count(end) and isinstance(rows, list)):
            return None
        if not all(isinstance(row, list) and len(row) == 5 and all(map(_is_count, row)) for row in rows):
            return None
        layers = {row[0]: Layer(row[0], (row[1], row[2]), (row[3], row[4])) for row in rows}
        return cls(layers, number, turns, end)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _layer(read: History, at: int, known: _Kept | None, heading: str) -> Layer:
    message = read[at]
    if known is not None and message.seq in known.layers:
        return known.layers[message.seq]
    first_line = unmarked(message.text).partition("\n")[0]
    head = heading.partition("{")[0]
    found = [int(number) for number in _NUMBER.findall(first_line)] if head else []
    if not first_line.startswith(head) or len(found) not in (3, 4):
        return Layer(message.seq)
    return Layer(message.seq, (found[0], found[-3]), (found[-2], found[-1]))


def _turns_since(read: History, trigger: Trigger, start: int, end: int) -> int:
    """The number of requests before position *start* that the count up to message *end* does not have.

    Another policy has compacted them since. Their messages are read from the log, if the caller can.
    """
    shown = sum(1 for at in read.outline.requests if at < start and read[at].seq >= end)
    if trigger.originals is None:
        return shown
    spans = rewrites.joined(span for at in read.summaries for span in read[at].covers)
    unseen = [(max(first, end), last) for first, last in spans if last > end]
    return shown + sum(map(opens_turn, trigger.originals(unseen))) if unseen else shown


# The state of a chronicle that the session keeps. It has only numbers, because the texts are in the log.

MODE: Final = "chronicle"
KINDS: Final = ("interval", "bootstrap", "pressure", "emergency", "rollup")

Known = dict[tuple[int, int, int], Checkpoint]
"""Checkpoints with their texts, by level and range."""


@dataclass(frozen=True, slots=True)
class ChronicleState:
    """The end of a chronicle, and its checkpoints that no roll-up covers.

    Attributes:
        number: The highest number of a checkpoint; 0 before the first.
        end: The first message that no checkpoint covers.
        fixed: Tokens of the view after the last run, without the messages that no checkpoint covers.
        open: The checkpoints that no roll-up covers, in order, without their texts. Each level has fewer of
            them than the threshold of a roll-up, so their number stays small.
        made: The checkpoints that the last run wrote.
    """

    number: int = 0
    end: int = 0
    fixed: int = 0
    open: tuple[Checkpoint, ...] = ()
    made: tuple[Checkpoint, ...] = ()

    @classmethod
    def read(cls, state: State | None) -> ChronicleState | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        state = chronicle_in(state)
        if state is None:
            return None
        numbers = [state.get(name) for name in ("number", "end", "fixed")]
        opened, made = _rows(state.get("open")), _rows(state.get("made"))
        if opened is None or made is None or not all(type(each) is int and each >= 0 for each in numbers):
            return None
        return cls(numbers[0], numbers[1], numbers[2], opened, made)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The state as stored JSON."""
        return {
            "mode": MODE,
            "number": self.number,
            "end": self.end,
            "fixed": self.fixed,
            "open": [_row(each) for each in self.open],
            "made": [_row(each) for each in self.made],
        }

    def with_new(self, made: Checkpoint) -> ChronicleState:
        """The state after *made* was written; the checkpoints that a roll-up covers are no longer open."""
        left = [each for each in self.open if not _covers(made, each)]
        opened = tuple(sorted([*left, made], key=lambda each: each.start))
        return replace(
            self,
            number=max(self.number, made.last),
            end=max(self.end, made.end),
            open=opened,
            made=(*self.made, made),
        )


def chronicle_in(state: State | None) -> dict[str, Any] | None:
    """The chronicle in *state*, or None. A state of the rolling mode keeps the chronicle as a part."""
    if not isinstance(state, dict):
        return None
    found = state if state.get("mode") == MODE else state.get(MODE)
    return found if isinstance(found, dict) and found.get("mode") == MODE else None


def key_of(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """The key of a checkpoint: its level and its range of messages."""
    return checkpoint.level, checkpoint.start, checkpoint.end


def listed(states: Iterable[State], known: Known) -> list[Checkpoint]:
    """Every checkpoint in *states*, in order, with its text if it is *known*.

    Checkpoints of level 0 stand in the order of their messages; a roll-up stands after its last checkpoint.
    """
    found: Known = {}
    for state in states:
        read = ChronicleState.read(state)
        for each in read.made if read is not None else ():
            text = known.get(key_of(each), each)
            found[key_of(each)] = replace(each, title=text.title, summary=text.summary)
    rollups = [each for each in found.values() if each.level]
    return [
        replace(each, is_rolled_up=any(_covers(rollup, each) for rollup in rollups))
        for each in sorted(found.values(), key=lambda each: (each.last, each.level))
    ]


def _covers(rollup: Checkpoint, other: Checkpoint) -> bool:
    return other.level < rollup.level and rollup.first <= other.first and other.last <= rollup.last


def _row(each: Checkpoint) -> list[int]:
    times = [0 if at is None else int(at) for at in (each.said_from, each.said_to)]
    kind = KINDS.index(each.kind)
    return [
        each.level, each.first, each.last, kind, each.start, each.end, each.messages, each.tokens, *times,
    ]  # fmt: skip


def _rows(rows: object) -> tuple[Checkpoint, ...] | None:
    if not isinstance(rows, Sequence) or not all(map(_is_row, rows)):
        return None
    return tuple(
        Checkpoint(
            one, last, level, KINDS[kind], start, end, messages, tokens, said_from or None, said_to or None
        )
        for level, one, last, kind, start, end, messages, tokens, said_from, said_to in rows
    )


def _is_row(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 10
        and all(type(each) is int and each >= 0 for each in row)
        and row[3] < len(KINDS)
    )


# The common part of both modes of tiered compaction: one run over one history.

_log = logging.getLogger("siltstone")

Extract = Callable[[Sequence[RawMessage]], Any]
"""A function, sync or async, of the messages that a compaction summarises. It extracts memories from them."""

EMERGENCY: Final = "emergency"
FORK: Final = "fork"
TURN_BYTES: Final = 8  # for each token of an answer: the room of a worker's earlier calls and their results
LEAST_OF_OVERFLOW: Final = 4  # live messages: with no more than this an overflow discards nothing


def _turn(completion: Completion, called: int) -> list[dict[str, Any]]:
    """An answer with calls, and their results, in the form of Chat Completions; *called* counts all calls."""
    first = called - len(completion.tool_calls)
    calls, results = list[dict[str, Any]](), list[dict[str, Any]]()
    for at, each in enumerate(completion.tool_calls, first):
        name, function = each.id or f"call_{at}", {"name": each.name, "arguments": _written(each) or "{}"}
        calls.append({"id": name, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": name, "content": _result(each)})
    answer = {"role": "assistant", "content": completion.text or None, "tool_calls": calls}
    is_whole = completion.said and all(map(_written, completion.tool_calls))
    return [{**answer, **({"said": completion.said} if is_whole else {})}, *results]


def _written(call: ToolCall) -> str:
    """The arguments of *call* as JSON. Empty if they are broken: servers refuse these in what was said."""
    try:
        return json.dumps(dict(SAVE.read(call.arguments)))
    except SiltstoneError:
        return ""


def _result(call: ToolCall) -> str:
    """What the worker is told of *call*. A memory is saved when the summary is committed."""
    if call.name != SAVE_NAME:
        return f"there is no tool {call.name!r}; the only one is {SAVE_NAME}"
    try:
        memory = read_memory(call.arguments)
    except SiltstoneError as error:
        return str(error)
    return json.dumps({"saved": memory.content, "memory_type": memory.memory_type})


class TieredRun(ABC):
    """One run: the start of the live messages, the positions that must stay, and the calls of the model."""

    def __init__(self, policy: TieredCompactor, history: Sequence[Message], trigger: Trigger) -> None:
        self.policy, self.history, self.trigger = policy, history, trigger
        self.config, self.rule = policy.config, policy.token_rule
        self.read: History = as_history(history)
        self.window = policy.window(trigger.context_window)
        self.start = live_start(self.read)
        self.held = rewrites.must_stay(self.read, trigger.pins)

    def message(self, content: str, covers: tuple[tuple[int, int], ...], level: int = 1) -> Message:
        """A summary or a marker as a message of the history."""
        return rewrites.summary_message(content, covers, level, self.config.summary_role)

    @abstractmethod
    def marked(self, end: int, marker: str) -> Compaction | Skip:
        """Discards all before position *end*; *marker* tells the number of these messages."""

    def calls(self) -> Calls:
        """The model calls of this run."""
        falls_back = self.config.on_model_failure != "fail" and not self.policy.keeps_checkpoints
        return Calls(self.config, self.trigger.model_calls, last_resort=falls_back)

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
            window=self._reading_window(most if cap is None else min(cap, most)),
            summary_prefix="",
            token_rule=self.rule,
            offered=self.policy.tools if offers_tools else (),
            more="\n\n".join(filter(None, (note, more, self.trigger.instructions))),
            is_ours=self.policy.prompt in (SUMMARY_PROMPT, CHECKPOINT_PROMPT),
        )
        flow = summarise(told, brief, calls)
        try:
            return (yield from relayed(flow, partial(self._worked, calls)) if self.policy.tools else flow)
        except SummarizerOverflow as error:
            raise calls.too_large(error) from error.__cause__

    def _reading_window(self, cap: int) -> int | None:
        """The window of a request without the room for the turns of a worker, which has tools."""
        window = self.config.summarizer_window or self.trigger.context_window
        room = 2 * cap if self.policy.tools else 0
        return None if window is None else max(window // 2, window - room)

    def _worked(self, calls: Calls, request: CompletionRequest) -> Flow[Completion]:
        """The last answer of the worker to *request*, with the tools that all its answers have called.

        The prompt is a system prompt. The worker gets a result for each of its calls, and answers again, up
        to ``max_turns`` answers. A text beside calls is no summary. If the last answer that is allowed still
        has calls, there is none.
        """
        if request.rank == LAST_RESORT:
            return (yield request)
        *material, instruction = request.messages
        head = [{"role": "system", "content": instruction["content"]}, *material]
        end = inf if request.deadline is None else monotonic() + request.delay + request.deadline
        asked, turns, called = replace(request, messages=head), list[list[dict[str, Any]]](), list[ToolCall]()
        for left in reversed(range(self.config.max_turns)):
            completion = yield asked
            seconds = end - monotonic()
            called += completion.tool_calls if request.tools else ()
            if not (request.tools and completion.tool_calls):
                break
            if left == 0 or seconds <= 0 or calls.left == 1:
                completion = replace(completion, text="")
                break
            if completion.usage:
                calls.usage.append(completion.usage)
            calls.left = None if calls.left is None else calls.left - 1
            turns.append(_turn(completion, len(called)))
            while len(turns) > 1 and len(json.dumps(turns, default=str)) > TURN_BYTES * request.max_tokens:
                del turns[0]  # so that no request outgrows the window
            deadline = None if request.deadline is None else seconds
            asked = replace(request, messages=[*head, *chain(*turns)], delay=0.0, deadline=deadline)
        return replace(completion, tool_calls=tuple(called))

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
            yield CompletionRequest((), 1, "extraction", deadline=self.config.summary_timeout, curator=asked)

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
            count = aligned_cut(rest, config.fork_fraction, config.fork_floor)
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
        covers = rewrites.covered([self.read[at] for at in sorted(gone)])
        made = [self.message(FORK_MARKER.format(n=len(gone)), covers)] if gone else []
        return self.rule.count([*made, *(each for at, each in enumerate(self.read) if at not in gone)])

    def cut(self, fraction: float, floor: int, *, or_earlier: bool = False) -> int | None:
        """The position up to which live messages leave; None if there is no valid place for the cut."""
        live = self.read[self.start :]
        count = aligned_cut(live, fraction, floor, or_earlier=or_earlier)
        return None if count == 0 else self.start + count

    def selection(self, end: int, folded: Sequence[int] = ()) -> rewrites.Selection:
        """A selection that discards the live messages before *end* and the summaries at *folded*.

        Loose messages among these summaries and superseded rules leave too.
        """
        gone = {*range(self.start, end), *self.folding(folded), *rewrites.superseded(self.read, self.trigger)}
        kept = self.held | (set(range(len(self.history))) - gone)
        return rewrites.kept_apart(self.read, kept)

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
