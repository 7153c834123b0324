"""The counters of a session between two compactions, and the tokens that a provider reports."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple

from siltstone.compaction.base import Compaction, Trigger
from siltstone.errors import StoreCorruptError
from siltstone.llm import UsageRecord, total_usage
from siltstone.messages import Message

# The counters of a session between two compactions, as they are stored with the session.

MOST_RUNS = 50  #: the newest runs of a host whose beginnings are kept
MOST_LIMITS = 8  #: models whose learned limits are kept, the newest

MOST_PAIRS = 8  #: the newest requests by which a model's count is fitted
ALIKE = 4  #: the newest of these, of which the largest factor counts
LEAST_CUT = 1_000  #: no server has a smaller window
GROWN = 16  #: tokens by which a request has to grow for its count to grow, too
CUT = "a server that cuts requests without an error (in Ollama num_ctx or OLLAMA_CONTEXT_LENGTH is too small)"
LEAST_FACTOR, MOST_FACTOR = 0.3, 4.0  #: tokens that a provider may count for one of ours

CACHE_TTL = 300  #: seconds for which a provider keeps the beginning of a request
LOW_YIELD = 0.05  #: an attempt that reclaims less than this share of the tokens counts as failed


def _stays(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether the count does not follow a request that has grown. Below half, it lacks what is cached."""
    grown = after[0] - before[0]
    return grown >= GROWN and before[1] <= 2 * after[1] and after[1] - before[1] <= grown // 5


class LearnedLimit(NamedTuple):
    """What the provider of a model told: the largest request that it takes, and how it counts.

    Attributes:
        model: The agent's model; empty if nobody named it.
        tokens: The limit, in the provider's tokens; 0 if it told none.
        source: How it was learned.
        window: The window that the session was opened with at that time; 0 for none. The limit of a model
            without a name ends when the session is opened with another one.
        rule: The token rule that is compared with the provider's count; empty if it told none.
        factor: How many tokens the provider counts for one of ours.
        fixed: The provider's tokens beside the messages, such as tool definitions.
        pairs: The newest requests by which both were fitted: our tokens of the messages, and the provider's
            of the request.
    """

    model: str
    tokens: int = 0
    source: str = ""
    window: int = 0
    rule: str = ""
    factor: float = 1.0
    fixed: int = 0
    pairs: tuple[tuple[int, int], ...] = ()

    def counted(self, ours: int, theirs: int, rule: str, reserved: int) -> LearnedLimit:
        """After a request of *ours* tokens by *rule*, of which the provider counted *theirs*.

        What is fixed comes from the requests since the last compaction, if the largest has at least twice
        the messages of the smallest. Else it stays, within its bounds; at the first request it is what the
        host has *reserved*. The factor is the largest of the last requests of such a size: a request that is
        a little too small costs less than one that is refused. A count that cannot be teaches nothing.
        """
        known = self if self.rule == rule else self._replace(fixed=-1, pairs=())
        pairs = (*known.pairs, (ours, theirs))[-MOST_PAIRS:]
        if theirs < LEAST_FACTOR * ours:  # no tokenizer counts so few
            return self._replace(rule=rule, factor=1.0, fixed=0, pairs=pairs)
        if len(pairs) > 1 and _stays(*pairs[-2:]):
            return self._replace(pairs=pairs)  # it is not known what the provider left out
        falls = (at for at in range(len(pairs) - 1, 0, -1) if pairs[at] < pairs[at - 1])
        grown = pairs[next(falls, 0) :]
        (x, y), (most, of_most) = grown[0], grown[-1]
        slope = (of_most - y) / (most - x) if most >= 2 * x else 0
        fixed = known.fixed
        if LEAST_FACTOR <= slope <= MOST_FACTOR:
            fixed = int(y - slope * x)
        elif fixed < 0:
            fixed = min(reserved, theirs - ours)
            if theirs - fixed > MOST_FACTOR * ours:
                fixed = theirs - ours
        fixed = min(fixed, int(theirs - LEAST_FACTOR * ours))
        fixed = max(fixed, int(theirs - MOST_FACTOR * ours), 0)
        alike = ((y - fixed) / x for x, y in pairs[-ALIKE:] if 2 * x >= ours)
        least = LEAST_FACTOR if len(pairs) > 1 else 1.0  # one small request proves little
        factor = min(max(least, round(max(alike), 3)), MOST_FACTOR)
        return self._replace(rule=rule, factor=factor, fixed=fixed, pairs=pairs)

    def cut(self, window: int) -> LearnedLimit:
        """The same with the limit of a server that cuts requests without an error, if it is one.

        Its count stayed or fell in two requests, each larger than the one before. *window* as above.
        """
        if len(self.pairs) < 3:
            return self
        first, second, third = self.pairs[-3:]
        stays = _stays(first, second) and _stays(first, third) and third[0] >= second[0] + GROWN
        if not stays or third[1] < LEAST_CUT or third[1] - second[1] > (third[0] - second[0]) // 3:
            return self
        return self._replace(tokens=max(first[1], second[1], third[1]), source=CUT, window=window, pairs=())


@dataclass(frozen=True, slots=True)
class CompactionClock:
    """Counts boundaries, the moments just before a model call, for the life of a session.

    Attributes:
        boundary: The number of the next boundary.
        last_compaction: The boundary of the last committed compaction.
        last_attempt: The boundary of the last attempt, successful or not.
        low_yield_attempts: Attempts in a row that failed, reclaimed less than ``LOW_YIELD``, or used the
            fallback because the model failed.
        last_input_tokens: Input tokens of the last model call, by the provider's count; 0 after a compaction
            or a branch.
        last_input_seq: The first message that this count does not include.
        pins: Sequence numbers of pinned messages, ascending.
        agent_model: The model of the last request; empty if nobody named it.
        limits: What providers have told of their limits and counts, one for each model, the newest last.
        accepted: The tokens of the largest request that this model has accepted, by the provider's count; 0
            if unknown.
        usage: The sum of siltstone's own model calls; None before the first.
        failed_at: The length of the log at the last attempt, if that attempt failed; else None.
        failed_threshold: The threshold of that failed attempt in tokens; 0 if it had none, or if the last
            attempt did not fail.
        band: The band of the window, in per cent, at the last boundary; 0 below all bands.
        cached_tokens: Tokens at the beginning of the request that are in the provider's cache, by its last
            usage, without the part rewritten since; 0 if unknown.
        heard_at: The time of that usage, in milliseconds since 1970; 0 if unknown.
        runs: The first message of each run of the host after the first run, ascending; the newest
            ``MOST_RUNS``.
        fixed_told: 1 if the host was told that too much is sent beside the messages, else 0.
    """

    boundary: int = 0
    last_compaction: int | None = None
    last_attempt: int | None = None
    low_yield_attempts: int = 0
    last_input_tokens: int = 0
    last_input_seq: int = 0
    pins: tuple[int, ...] = ()
    agent_model: str = ""
    limits: tuple[LearnedLimit, ...] = ()
    accepted: int = 0
    usage: UsageRecord | None = None
    failed_at: int | None = None
    failed_threshold: int = 0
    band: int = 0
    cached_tokens: int = 0
    heard_at: int = 0
    runs: tuple[int, ...] = ()
    fixed_told: int = 0

    @classmethod
    def inferred(cls, history: Iterable[Message]) -> CompactionClock:
        """The clock of a session that begins with *history*: each answer in it counts as one boundary.

        An answer is an assistant message; in the Responses API, a run of assistant items.
        """
        answers, going_on = 0, False
        for message in history:
            is_answer = message.role == "assistant"
            answers += is_answer and not (going_on and message.dialect == "openai.responses")
            going_on = is_answer
        return cls(boundary=answers)

    def passed(self, band: int = 0) -> CompactionClock:
        """The clock after one more boundary, at which the window had reached *band* per cent."""
        return replace(self, boundary=self.boundary + 1, band=band)

    def heard(
        self, input_tokens: int, seq: int, cached: int = 0, at: int = 0, known: LearnedLimit | None = None
    ) -> CompactionClock:
        """The clock after a model call with the provider's count. The call saw the messages before *seq*.

        *known* is what the provider of its model told now.
        """
        return replace(
            self,
            last_input_tokens=input_tokens,
            last_input_seq=seq,
            cached_tokens=cached,
            heard_at=at,
            limits=self.limits if known is None else self._limits(known),
        )

    def _limits(self, limit: LearnedLimit) -> tuple[LearnedLimit, ...]:
        """The limits with *limit* in the place of the one of its model."""
        return (*(each for each in self.limits if each.model != limit.model), limit)[-MOST_LIMITS:]

    def known(self) -> LearnedLimit:
        """What the provider of the next request's model told."""
        for each in self.limits:
            if each.model == self.agent_model:
                return each
        return LearnedLimit(self.agent_model)

    def told_of_fixed(self) -> CompactionClock:
        """After the host was told of too many fixed tokens."""
        return replace(self, fixed_told=1)

    def cached(self, now: int) -> int:
        """The tokens in the provider's cache at *now* (milliseconds)."""
        return 0 if now - self.heard_at >= CACHE_TTL * 1000 else self.cached_tokens

    def cut(self, tokens: int) -> CompactionClock:
        """The clock after a rewrite that kept only the first *tokens* of the request unchanged."""
        return replace(self, cached_tokens=min(self.cached_tokens, tokens))

    def limit(self, window: int | None) -> LearnedLimit | None:
        """The limit of the next request's model, in a session with the given *window*; None if unknown."""
        known = self.known()
        is_valid = known.tokens and (known.model or window is None or known.window == window)
        return known if is_valid else None

    def learned(self, limit: LearnedLimit | None) -> CompactionClock:
        """The clock with *limit* in the place of the one of its model; None: without all that was learned."""
        return replace(self, limits=() if limit is None else self._limits(limit))

    def answered(self, tokens: int, window: int | None) -> CompactionClock:
        """The clock after the model took a request of *tokens*. That raises a smaller limit of this model."""
        clock, limit = self, self.limit(window)
        if tokens > self.accepted:
            clock = replace(self, accepted=tokens)
        if limit is not None and tokens > limit.tokens:
            clock = clock.learned(limit._replace(tokens=tokens, source="a larger request that was accepted"))
        return clock

    def pinned(self, seq: int) -> CompactionClock:
        """With message *seq* pinned."""
        return replace(self, pins=tuple(sorted({*self.pins, seq})))

    def unpinned(self, seq: int) -> CompactionClock:
        """With message *seq* no longer pinned."""
        return replace(self, pins=tuple(pin for pin in self.pins if pin != seq))

    def committed(
        self, compaction: Compaction, trigger: Trigger, at: int, before: int, after: int
    ) -> CompactionClock:
        """The clock after *compaction* was committed at boundary *at*.

        A compaction that asked no model (the emergency fit, a cut result, an open breaker) is no attempt. It
        tells nothing about the model, so it neither closes the breaker nor delays the next attempt.
        """
        if trigger.action == "emergency" or trigger.model_calls == 0 or not compaction.discarded:
            return replace(self, last_compaction=at, last_input_tokens=0)
        return self.compacted(at, before, after, degraded=compaction.degraded)

    def compacted(self, at: int, before: int, after: int, *, degraded: bool = False) -> CompactionClock:
        """The clock after a committed attempt at boundary *at*; *degraded* if its model failed."""
        low = degraded or (before - after) < before * LOW_YIELD
        attempts = self.low_yield_attempts + 1 if low else 0
        return replace(
            self,
            last_compaction=at,
            last_attempt=at,
            low_yield_attempts=attempts,
            last_input_tokens=0,
            failed_at=None,
            failed_threshold=0,
        )

    def rewritten(self, tokens: int) -> CompactionClock:
        """The clock after the past was rewritten, with only the first *tokens* of the request unchanged.

        The provider's last count no longer fits the request.
        """
        return replace(self.cut(tokens), last_input_tokens=0)

    def failed(self, at: int, end: int, threshold: int = 0) -> CompactionClock:
        """The clock after a failed attempt at boundary *at*, due at *threshold*; the log ended at *end*."""
        return replace(
            self,
            last_attempt=at,
            low_yield_attempts=self.low_yield_attempts + 1,
            failed_at=end,
            failed_threshold=threshold,
        )

    def charged(self, records: Iterable[UsageRecord]) -> CompactionClock:
        """The clock after siltstone's own model calls, successful or not."""
        records = tuple(records)
        known = () if self.usage is None else (self.usage,)
        return replace(self, usage=total_usage([*known, *records])) if records else self

    def after(self, other: CompactionClock) -> CompactionClock:
        """This clock, as another worker stored it, with the boundaries that *other* has not stored yet."""
        ahead = other if other.boundary > self.boundary else self
        runs = max(self.runs, other.runs, key=lambda runs: runs[-1:])
        return replace(self, boundary=ahead.boundary, band=ahead.band, runs=runs)

    def run_of(self, end: int) -> int:
        """The first message of the run to which message *end* - 1 of the log belongs."""
        return next((start for start in reversed(self.runs) if start < end), 0)

    def begun(self, start: int) -> CompactionClock:
        """The clock after a run of the host began with message *start*."""
        return replace(self, runs=(*(run for run in self.runs if run < start), start)[-MOST_RUNS:])

    def to_json(self) -> str:
        """The stored form, without values that are as at the beginning of a session."""
        told = {
            name: value for name, value in zip(_FIELDS, _VALUES(self), strict=True) if value != _BEGUN[name]
        }
        if self.usage is not None:
            told["usage"] = asdict(self.usage)
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str, session_id: str) -> CompactionClock:
        """Reads what :meth:`to_json` wrote; an empty text is a session that has not begun.

        Raises:
            StoreCorruptError: *text* is anything else. No value is guessed.
        """
        if not text:
            return cls()
        try:
            values = json.loads(text)
            usage, model = values.pop("usage", None), values.pop("agent_model", "")
            lists: dict[str, Any] = {
                name: tuple(map(_count, values.pop(name, ()))) for name in ("pins", "runs")
            }
            limits = tuple(_limit(*each) for each in values.pop("limits", ()))
            values = {name: _count(value) for name, value in values.items()}
            usage = None if usage is None else UsageRecord(**usage)
            return cls(**values, **lists, limits=limits, agent_model=model, usage=usage)
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreCorruptError(
                f"the stored clock of session {session_id!r} cannot be read: {text[:80]!r}",
                session_id=session_id,
            ) from error


_BEGUN = {each.name: each.default for each in fields(CompactionClock)}
_FIELDS = tuple(_BEGUN)
_VALUES = attrgetter(*_FIELDS)


def _limit(
    model: str, tokens: int, source: str, window: int, rule: str, factor: float, fixed: int, pairs: Any
) -> LearnedLimit:
    if not 0 < factor <= MOST_FACTOR:
        raise ValueError(f"not a factor: {factor!r}")
    counts = tuple((_count(ours), _count(theirs)) for ours, theirs in pairs)
    return LearnedLimit(model, _count(tokens), source, _count(window), rule, factor, _count(fixed), counts)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"not a count: {value!r}")
    return value


# Reads the input tokens of a model call, and how many of them are cached, from a provider's usage.

_log = logging.getLogger("siltstone")


# Anthropic's input_tokens leave out what was read from or written to its cache; OpenAI's do not.
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_SUMMED = ("input_tokens", _READ, _WRITTEN)
_ALONE = ("prompt_tokens",)
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


def input_tokens(usage: Any) -> int:
    """Input tokens of a model call; 0 if *usage* has none.

    Args:
        usage: A count, a provider's usage as a mapping, or its SDK object, with ``input_tokens`` (and the
            counts of the cache) or ``prompt_tokens``. Anything else is logged and counts as unknown, since
            bad usage data must not end a turn.
    """
    if usage is None:
        return 0
    if type(usage) is int and usage >= 0:
        return usage
    for keys in (_SUMMED, _ALONE):
        counts = [_field(usage, key) for key in keys]
        if type(counts[0]) is int:
            return sum(_counts(counts))
    _log.warning("usage %r has no input_tokens or prompt_tokens; taken as unknown", usage)
    return 0


def cached_tokens(usage: Any) -> int:
    """Input tokens that are in the provider's cache after the call; 0 if *usage* has none.

    For Anthropic this is what was read and what was written (``cache_read_input_tokens`` and
    ``cache_creation_input_tokens``), for OpenAI what was read (``cached_tokens`` of
    ``prompt_tokens_details`` or ``input_tokens_details``). A gateway such as LiteLLM gives the tokens that
    were read under the names of both: the largest number counts, once.
    """
    if usage is None or isinstance(usage, int):
        return 0
    details = [_field(usage, key) for key in _DETAILS]
    reads = [_field(each, "cached_tokens") for each in details if each is not None]
    reads.append(_field(usage, _READ))
    written = _field(usage, _WRITTEN)
    return max(_counts(reads), default=0) + sum(_counts([written]))


def _counts(values: Iterable[Any]) -> list[int]:
    """The *values* that are counts."""
    return [value for value in values if type(value) is int and value >= 0]


def _field(usage: Any, key: str) -> Any:
    return usage.get(key) if isinstance(usage, Mapping) else getattr(usage, key, None)
