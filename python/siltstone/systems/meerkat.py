"""``meerkat``: one summary replaces old turns when a history has reached a threshold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import sub
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from siltstone import checks
from siltstone.checks import setting
from siltstone.compaction import base
from siltstone.compaction.prompts import PROMPT, SUMMARY_PREFIX, clip, framed
from siltstone.compaction.rewrite import Selection, clamp, clamped_alone, covered, parted, rewrite, select
from siltstone.compaction.without_model import mechanical_summary
from siltstone.errors import ConfigError, ModelError, explains
from siltstone.llm import CompletionRequest, Flow, UsageRecord
from siltstone.memory.opening import open_documented_store, open_store
from siltstone.messages import Message, RequestRule, as_history, is_request, opens_turn
from siltstone.systems.base import Preset, System, chosen
from siltstone.systems.reading import Table, known_tables, table, toml
from siltstone.tokens import TokenRule, message_bytes, request_bytes, rule

if TYPE_CHECKING:
    from siltstone.compaction.summarise import Brief


# The settings of threshold compaction, each checked when it is set.

AUTO: Final = "auto"  # a budget that is a share of the effective threshold
UNKNOWN_WINDOW_THRESHOLD = 100_000  # tokens, for an unknown window
USER_MESSAGE_SHARE = 4  # kept user messages have at most a quarter of the effective threshold
RESULT_SHARE = 6  # a message with results has at most a sixth of the effective threshold
SHORTEST_SUMMARY = 1  # tokens: a window of less than eight still asks for so many


@dataclass(frozen=True, slots=True)
class CompactionConfig(checks.Summarising):
    """The settings of :class:`ThresholdCompactor`: when it compacts, and how much it retains.

    Attributes:
        auto_compact_threshold: Tokens at which a compaction is due. ``"auto"``: nine tenths of a known
            window, less the room that is kept for a recalled block (four fifths of the window with a
            ``recent_turn_budget``), else 100,000. A number is used as it is; a session or a call with a
            smaller window refuses it.
        recent_turn_budget: The maximum number of retained complete turns; 0 retains none. None: as many as
            ``retained_token_budget`` has room for, and of the next one its request and newest groups.
        max_summary_tokens: The maximum tokens of a summary; never more than an eighth of a known window.
        min_turns_between_compactions: Boundaries (calls of ``prepare``) between two attempts.
        retained_token_budget: The maximum tokens of retained turns. ``"auto"``: five ninths of the effective
            threshold, with recall four ninths, or of the history if that is smaller; half the threshold with
            a ``recent_turn_budget``.
            None: no bound, so exactly ``recent_turn_budget`` turns and the whole turn in flight stay; if the
            history is this turn alone, its older groups leave as with ``"auto"``.
        strict_guard: Whether the spacing holds for every trigger, even if the history itself is over its
            threshold.
        trigger_fraction: A share of the window, 0..1, at which a compaction is due. With a known window it
            replaces ``auto_compact_threshold``.
        max_messages: Messages in the history at which a compaction is due. It obeys the spacing.
        max_request_bytes: The provider's maximum request size; four fifths of it are a trigger, and a quarter
            of it bounds the retained turns. ``"auto"``: what the provider of the agent's model documents, if
            that is known (see ``siltstone.limits.request_bytes_of``). None: no bound.
        keep_user_messages: Whether messages that open turns stay verbatim, the newest within
            ``user_message_budget``; older ones are summarised. The emergency fit may discard them.
        user_message_budget: The maximum tokens of the messages that ``keep_user_messages`` keeps. ``"auto"``:
            a quarter of the effective threshold. None: no bound.
        min_reduction: A compaction that reclaims less than this share, 0..1, is refused.
        estimator: The token rule: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``, or your own rule, such as
            :class:`siltstone.tokens.TokenizerRule`.
        summary_prefix: The first text of a summary message, before a blank line.
        summarizer_window: The window of the model that writes summaries, in tokens. None: the window of the
            session. Longer material is summarised in pieces, which are then merged.
        summary_timeout: Seconds for the whole of a summary, with all calls and pauses; None for no limit.
        attempts: The maximum calls of one model for one answer; a call that raises is repeated.
        retry_delay: Seconds between the first call and the second; each further call waits twice as long,
            at most eight seconds. 0: no pause.
        min_summary_tokens: A summary with fewer tokens is marked ``suspect`` if it replaces at least 1,000
            tokens.
        on_model_failure: The reaction if no model gave a summary in time. ``"fallback_summary"``: the
            extractive model writes one, marked ``degraded``. ``"fail"``: the attempt fails.
        on_summarizer_overflow: The reaction if even small requests are too large for the provider.
            ``"mechanical"``: the summary lists the archived messages and quotes the newest, marked
            ``degraded``. ``"fail"``: the attempt fails.
        curator: Writes the summary instead of a model: a function of the discarded messages that returns a
            text. If it raises or its text is blank, the attempt fails.
        max_result_tokens: The maximum tokens of tool results in one message of the rewrite. A larger result
            keeps its head and its tail. If that frees enough, nothing is discarded and no model is asked.
            ``"auto"``: a sixth of the effective threshold. None: no bound.
        request_rule: Decides whether a user's text beside tool results is a request. The default: it is one,
            unless it begins with one of ``siltstone.messages.REMINDER_TAGS``.
        prefix_preserving: Whether the request for the summary is the live request with the instruction as its
            last message, so that the provider's cache is used. Only if the whole history fits the
            summariser's window.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    auto_compact_threshold: int | Literal["auto"] = setting(AUTO, checks.positive, unless=(AUTO,))
    recent_turn_budget: int | None = setting(None, checks.at_least, 0, unless=(None,))
    max_summary_tokens: int = setting(4096, checks.positive)
    min_turns_between_compactions: int = setting(3, checks.positive)
    retained_token_budget: int | Literal["auto"] | None = setting(AUTO, checks.positive, unless=(AUTO, None))
    strict_guard: bool = False
    max_request_bytes: int | Literal["auto"] | None = setting(AUTO, checks.positive, unless=(AUTO, None))
    min_reduction: float = setting(0.0, checks.share)
    estimator: str | TokenRule = setting("blocks", checks.estimator)
    summary_prefix: str = setting(SUMMARY_PREFIX, checks.text)
    min_summary_tokens: int = setting(16, checks.at_least, 0)
    on_model_failure: Literal["fail", "fallback_summary"] = "fallback_summary"
    on_summarizer_overflow: Literal["mechanical", "fail"] = "mechanical"
    curator: base.Curator | None = setting(None, checks.function, "the discarded messages", unless=(None,))
    prefix_preserving: bool = False
    trigger_fraction: float | None = setting(None, checks.fraction, unless=(None,))
    max_messages: int | None = setting(None, checks.positive, unless=(None,))
    keep_user_messages: bool = False
    request_rule: RequestRule = setting(is_request, checks.function, "a text")
    max_result_tokens: int | Literal["auto"] | None = setting(
        AUTO, checks.at_least, checks.LEAST_RESULT, unless=(AUTO, None)
    )
    user_message_budget: int | Literal["auto"] | None = setting(AUTO, checks.positive, unless=(AUTO, None))

    def effective_threshold(self, context_window: int | None, recall_tokens: int = 0) -> int:
        """The tokens at which a compaction is due under a window; pass None for an unknown window.

        The first of these that applies: the share ``trigger_fraction`` of a known window;
        ``auto_compact_threshold``, if it is a number; ``UNKNOWN_WINDOW_THRESHOLD`` for an unknown window;
        four fifths of the window with a ``recent_turn_budget``; nine tenths of it, less *recall_tokens*.
        """
        if context_window is not None and self.trigger_fraction is not None:
            return checks.reached_at(context_window, self.trigger_fraction)
        if self.auto_compact_threshold != AUTO:
            return self.auto_compact_threshold
        if context_window is None:
            return UNKNOWN_WINDOW_THRESHOLD
        if self.recent_turn_budget is not None:
            return max(1, context_window * 4 // 5)
        return max(1, context_window * 9 // 10 - recall_tokens)

    def summary_cap(self, context_window: int | None) -> int:
        """The smallest of ``max_summary_tokens`` and an eighth of each known window, at least 1 token."""
        windows = [window for window in (context_window, self.summarizer_window) if window is not None]
        return max(SHORTEST_SUMMARY, min([self.max_summary_tokens, *(window // 8 for window in windows)]))

    def result_tokens(self, threshold: int) -> int | None:
        """The maximum tokens of a message with results, for an effective *threshold*; None: no bound."""
        if self.max_result_tokens != AUTO:
            return self.max_result_tokens
        return max(checks.LEAST_RESULT, threshold // RESULT_SHARE)

    def user_message_tokens(self, threshold: int) -> int | None:
        """The budget of kept user messages in tokens, for an effective *threshold*; None: no bound."""
        if self.user_message_budget != AUTO:
            return self.user_message_budget
        return max(1, threshold // USER_MESSAGE_SHARE)

    def retained_tokens(self, threshold: int, recall_tokens: int = 0) -> int | None:
        """The budget of retained turns in tokens, for an effective *threshold*; None: no bound.

        *recall_tokens* are kept free for a recalled block, which brings back more than old turns do.
        """
        if self.retained_token_budget != AUTO:
            return self.retained_token_budget
        if self.recent_turn_budget is not None:
            return threshold // 2
        return threshold * (4 if recall_tokens else 5) // 9


# Threshold compaction: one summary replaces old turns when the history has reached a threshold.

_OF_TOKENS = frozenset({"history_tokens", "fraction", "input_tokens", "forecast"})

SUSPECT_FROM = 1_000  # discarded tokens: a short summary of fewer is not suspect


@explains
class ThresholdCompactor(base.Configured[CompactionConfig]):
    """Replaces old turns by one summary when the history has reached a threshold.

    Args:
        config: The settings: when it compacts, and how much it retains.
        prompt: The instruction that ends the request for a summary. None: the documented one, and a sentence
            that asks for the language of the conversation.
        tools: The tool definitions that the agent sends with its requests. A ``prefix_preserving`` request
            must send the same ones.
    """

    name = "threshold"

    def __init__(
        self, config: CompactionConfig | None = None, *, prompt: str | None = None, tools: Sequence[Any] = ()
    ) -> None:
        super().__init__(config or CompactionConfig())
        self.prompt, self.tools, self._is_ours = prompt or PROMPT, tuple(tools), prompt is None

    @property
    def request_rule(self) -> RequestRule:
        """The rule of the configuration that decides which text beside tool results is a request."""
        return self.config.request_rule

    def should_compact(self, context: base.CompactionContext) -> base.Trigger | None:
        """The trigger, if a compaction is due; never at boundary 0.

        A history or a request at or over its own threshold overrides the spacing of attempts. The provider's
        count, the forecast and the number of messages do not.

        After three attempts in a row with low yield the circuit breaker opens: the next attempt is made after
        10 boundaries, then after 20 more, then after 40 each, with one model call. No trigger overrides this;
        the session's emergency fit guards the window. With ``on_model_failure="fallback_summary"``
        compactions go on meanwhile, without a model of the caller between two attempts.
        """
        if context.boundary == 0:
            return None
        trigger = self._fired(context)
        if trigger is None:
            return None
        if context.low_yield_attempts >= base.BREAKER_ATTEMPTS:
            pauses = base.breaker_pauses(context)
            if pauses and self.config.on_model_failure == "fail":
                return None
            trigger = replace(trigger, model_calls=0 if pauses else 1)
        over_capacity = trigger.reason == "bytes" or context.estimated_history_tokens >= (
            trigger.threshold or 0
        )
        if self._guard_holds(context) and (self.config.strict_guard or not over_capacity):
            return None
        return trigger

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Asks for a summary of the discarded messages, in one or more requests, and replaces them by it.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``curator_failed``,
                ``summarizer_overflow`` or ``no_reduction``.
        """
        from siltstone.compaction.summarise import Calls, SummarizerOverflow, summarise

        most_bytes = self._most_bytes(trigger)
        substitutes = {} if trigger.fold else self._clamped(history, trigger)
        if substitutes and self._is_enough(substitutes, trigger):
            return clamped_alone(history, substitutes)
        if trigger.reason == "bytes" and self.config.max_result_tokens is not None and most_bytes is not None:
            from siltstone.compaction.emergency import Lighten  # few requests have too many bytes

            lighter = yield from Lighten(most_bytes * 3 // 5, self.token_rule).flow(history, trigger)
            left = () if isinstance(lighter, base.Skip) else lighter.messages
            if left and request_bytes(sum(map(message_bytes, left))) < most_bytes * 4 // 5:
                return lighter
        selection = self._summaries(history) if trigger.fold else self._select(history, trigger, substitutes)
        if trigger.fold and not selection.discarded:
            return base.Skip("nothing_to_discard", f"there is no summary among {len(history)} messages")
        if not trigger.fold and not selection.is_worthwhile:
            if substitutes:
                return clamped_alone(history, substitutes)
            return base.Skip("nothing_to_discard", f"all {len(history)} messages are to be retained")
        brief = self._brief(history, trigger)
        config = self.config
        calls = Calls(config, trigger.model_calls, last_resort=config.on_model_failure != "fail")
        overflowed = False
        if self.config.curator is not None:
            text = yield from _curated(self.config.curator, selection, brief.cap)
            summary = clip(text, brief.cap, self.token_rule)
        else:
            try:
                told = _originals(selection, trigger) if trigger.fold else selection.told
                summary = yield from summarise(told, brief, calls)
            except SummarizerOverflow as error:
                if self.config.on_summarizer_overflow == "fail":
                    raise calls.too_large(error) from error.__cause__
                summary, overflowed = self._mechanical(selection, brief), True
        compaction = rewrite(
            selection,
            summary,
            brief.summary_prefix,
            usage=tuple(calls.usage),
            degraded=calls.degraded or overflowed,
            suspect=self._is_suspect(selection, summary),
            substitutes=substitutes,
            level=1 if trigger.fold else None,
        )
        compaction = replace(compaction, requests_left=self._requests_left(selection))
        if trigger.fold:
            return compaction
        base.check_shrunk(self.token_rule, history, compaction, self.config.min_reduction)
        return compaction

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None, model_calls: int | None
    ) -> Flow[tuple[str, tuple[UsageRecord, ...]]]:
        """The content of a summary message for *messages*, with its frame, and the model calls it cost.

        Raises:
            CompactionError: no model gave a summary.
        """
        from siltstone.compaction.summarise import Calls, SummarizerOverflow, summarise

        brief = self._brief(messages, base.Trigger("manual", context_window=context_window))
        calls = Calls(self.config, model_calls, last_resort=self.config.on_model_failure != "fail")
        try:
            summary = yield from summarise(messages, replace(brief, live=None), calls)
        except SummarizerOverflow as error:
            raise calls.too_large(error) from error.__cause__
        return framed(brief.summary_prefix, summary), tuple(calls.usage)

    def _brief(self, history: Sequence[Message], trigger: base.Trigger) -> Brief:
        from siltstone.compaction.summarise import Brief

        return Brief(
            prompt=self.prompt,
            focus=trigger.focus,
            cap=self.config.summary_cap(trigger.context_window),
            window=self.config.summarizer_window or trigger.context_window,
            summary_prefix=self.config.summary_prefix,
            token_rule=self.token_rule,
            live=history if self.config.prefix_preserving and not trigger.fold else None,
            tools=self.tools,
            more=trigger.instructions,
            is_ours=self._is_ours,
        )

    def _mechanical(self, selection: Selection, brief: Brief) -> str:
        def fits(text: str) -> bool:
            return self.token_rule.count_text(text) <= brief.cap

        covers = covered(selection.discarded)
        # First guess: four characters a token. `fits` decides, and clip cuts a note that is too long.
        text = mechanical_summary(selection.told, covers, brief.summary_prefix, 4 * brief.cap, fits)
        return clip(text, brief.cap, self.token_rule)

    def _summaries(self, history: Sequence[Message]) -> Selection:
        """A selection that discards only the earlier summaries."""
        kept = {at for at, message in enumerate(history) if message.provenance != "compaction_summary"}
        return parted(history, kept)

    def _is_suspect(self, selection: Selection, summary: str) -> bool:
        if self.token_rule.count_text(summary) >= self.config.min_summary_tokens:
            return False
        count, discarded = self.token_rule.count, selection.discarded
        if isinstance(discarded, tuple) and count(discarded[:SUSPECT_FROM]) >= SUSPECT_FROM:
            return True  # so of many messages the first are enough
        return count(discarded) >= SUSPECT_FROM

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Checks that the threshold can work.

        Raises:
            ConfigError: it is larger than the window, so it would never be reached; or not larger than the
                reserved tokens, so it would be reached at every boundary.
        """
        threshold = self.config.effective_threshold(context_window)
        if context_window is not None and threshold > context_window:
            raise ConfigError(
                f"auto_compact_threshold must be <= the window of {context_window} tokens, got {threshold}: "
                'it would never be reached; "auto" is a share of the window',
                "auto_compact_threshold",
                threshold,
            )
        if reserved_tokens < threshold:
            return
        window = "" if context_window is None else f" of a window of {context_window}"
        raise ConfigError(
            f"the threshold of {threshold} tokens{window} must be > reserved_tokens, got {reserved_tokens}: "
            f"{reserved_tokens - threshold + 1} more are needed",
            "auto_compact_threshold",
            self.config.auto_compact_threshold,
        )

    def _fired(self, context: base.CompactionContext) -> base.Trigger | None:
        window = context.context_window
        threshold = self.config.effective_threshold(window, context.recall_tokens)
        if window is not None and threshold > window:  # of a window that became smaller meanwhile
            threshold = max(1, window * 4 // 5)
        reason = self._reason(context, threshold)
        if reason is None:
            return None
        figures = {"input_tokens": context.last_input_tokens, "forecast": context.forecast_tokens}
        return context.trigger(reason, "compact", figures.get(reason, context.tokens), threshold)

    def _reason(self, context: base.CompactionContext, threshold: int) -> base.Reason | None:
        """The reason of the most important crossed threshold; None if none was crossed."""
        byte_cap, most_messages = self._most_bytes(context), self.config.max_messages
        if context.tokens >= threshold:
            by_share = self.config.trigger_fraction is not None and context.context_window is not None
            return "fraction" if by_share else "history_tokens"
        if byte_cap is not None and context.request_bytes >= byte_cap * 4 // 5:
            return "bytes"
        if context.last_input_tokens >= threshold:
            return "input_tokens"
        if context.forecast_tokens >= threshold:
            return "forecast"
        if most_messages is not None and context.message_count >= most_messages:
            return "count"
        return None

    def _most_bytes(self, known: base.CompactionContext | base.Trigger) -> int | None:
        most = self.config.max_request_bytes
        return known.max_request_bytes if most == AUTO else most

    def _guard_holds(self, context: base.CompactionContext) -> bool:
        """Whether the last compaction, or the last attempt, was too few boundaries ago."""
        ends = context.last_compaction_boundary, context.last_attempt_boundary
        last = max((at for at in ends if at is not None), default=None)
        return last is not None and context.boundary - last < self.config.min_turns_between_compactions

    def _clamped(self, history: Sequence[Message], trigger: base.Trigger) -> dict[int, base.Substitute]:
        """The substitutes for results that are too large, by position."""
        most = self.config.result_tokens(self._threshold(trigger))
        if most is None:
            return {}
        rule = self.token_rule
        outlined = as_history(history)
        if rule.tokens(outlined.largest(rule)) <= most:
            return {}
        sums = outlined.sums(rule)
        sizes = list(map(sub, islice(sums, 1, None), sums))
        by_size = sorted(set(sizes))
        first = bisect_right(by_size, most, key=rule.tokens)
        large = ((at, history[at]) for at, size in enumerate(sizes) if size >= by_size[first])
        return clamp(large, most, rule, trigger)

    def _is_enough(self, substitutes: Mapping[int, base.Substitute], trigger: base.Trigger) -> bool:
        """Whether the history is well below its threshold again once large results are cut."""
        if trigger.reason not in _OF_TOKENS:
            return False
        count = self.token_rule.count
        reclaimed = sum(count([each.original]) - count([each.message]) for each in substitutes.values())
        return trigger.tokens - reclaimed <= self._threshold(trigger) * 4 // 5

    def _threshold(self, trigger: base.Trigger) -> int:
        window, recall_tokens = trigger.context_window, trigger.recall_tokens
        return trigger.threshold or self.config.effective_threshold(window, recall_tokens)

    def _select(
        self, history: Sequence[Message], trigger: base.Trigger, substitutes: Mapping[int, base.Substitute]
    ) -> Selection:
        threshold = self._threshold(trigger)
        room = max(1, threshold - trigger.reserved_tokens)
        limits = []
        if self.config.recent_turn_budget is None:  # a history that is due for another reason shrinks as well
            read = as_history(history)
            room = min(room, max(1, self.token_rule.tokens(read.sums(self.token_rule)[-1])))
        tokens = self.config.retained_tokens(room, trigger.recall_tokens)
        if tokens is not None:
            limits.append((self.token_rule, tokens))
        if (most_bytes := self._most_bytes(trigger)) is not None:  # a quarter, at four bytes a token
            limits.append((rule("bytes/4"), -(-most_bytes // 16)))
        most = self.config.user_message_tokens(threshold)
        of_requests = [] if most is None else [(self.token_rule, most)]

        def within(limits: Sequence[tuple[TokenRule, int]]) -> Selection:
            return select(
                history,
                self.config.recent_turn_budget,
                limits,
                trigger.pins,
                request_limits=of_requests if self.config.keep_user_messages else None,
                request_rule=self.config.request_rule,
                substitutes=substitutes,
            )

        selection = within(limits)
        if tokens is None and not selection.is_worthwhile:  # the history is only a turn in flight
            return within([*limits, (self.token_rule, room // 2)])
        return selection

    def _requests_left(self, selection: Selection) -> int:
        """The number of user messages that leave because the budget of kept messages is used up."""
        if not self.config.keep_user_messages:
            return 0
        return sum(opens_turn(message, self.config.request_rule) for message in selection.discarded)


def _curated(curator: base.Curator, selection: Selection, cap: int) -> Flow[str]:
    """The curator's summary. It is requested like a model's, so that a dry run need not call the curator."""

    def write(_: CompletionRequest) -> str:
        try:
            text = curator([message.raw for message in selection.told])
        except Exception as error:
            name = type(error).__name__
            raise ModelError(f"the curator raised {name}: {error}", error_class=name) from error
        if not isinstance(text, str):
            raise ModelError(f"the curator must give a str, got {type(text).__name__}")
        return text

    try:
        completion = yield CompletionRequest((), cap, curator=write)
    except ModelError as error:
        error_class = getattr(error, "error_class", type(error).__name__)
        cause = error.__cause__ or error
        raise base.CompactionError(str(error), reason="curator_failed", error_class=error_class) from cause
    if not completion.text.strip():
        raise base.CompactionError("the curator's summary is empty", reason="empty_summary")
    return completion.text.strip()


def _originals(selection: Selection, trigger: base.Trigger) -> Sequence[Message]:
    """The messages behind the summaries of *selection*; the summaries, if the caller cannot read these."""
    return selection.told if trigger.originals is None else trigger.originals(covered(selection.discarded))


# ``meerkat``: threshold compaction, a semantic memory of hashed words, and the tool ``memory_search``.

_KEYS: Final = {
    name: name
    for name in (
        "auto_compact_threshold",
        "recent_turn_budget",
        "max_summary_tokens",
        "min_turns_between_compactions",
        "max_request_bytes",
        "retained_token_budget",
        "strict_guard",
        "min_reduction",
        "on_summarizer_overflow",
        "summary_prefix",
    )
}
#: The documented guard, estimate, retained turns and failures. No result is cut.
_DOCUMENTED: Final[Mapping[str, Any]] = {
    "max_request_bytes": None,
    "recent_turn_budget": 4,
    "strict_guard": True,
    "estimator": "bytes/4",
    "retained_token_budget": None,
    "on_model_failure": "fail",
    "on_summarizer_overflow": "fail",
    "max_result_tokens": None,
}


class Meerkat(System):
    """Threshold compaction of whole turns. A search by hashed words in a graph finds discarded messages.

    A configuration is TOML: the table ``[compaction]``, or its keys at the top.
    """

    name: ClassVar[str] = "meerkat"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {"compaction": _KEYS}

    def _read(self, text: str) -> Mapping[str, Table]:
        read = toml(text)
        inner = table(read.pop("compaction", {}), "compaction")
        top = {key: read.pop(key) for key in _KEYS if key in read}
        known_tables(read, ["compaction", *_KEYS])
        return {"compaction": top | inner}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        given = chosen(settings, CompactionConfig)
        if "recent_turn_budget" in given:
            checks.positive("recent_turn_budget", given["recent_turn_budget"])
        form = _DOCUMENTED if documented else {}
        prompt = PROMPT if documented else None
        policy = ThresholdCompactor(CompactionConfig(**{**form, **given}), prompt=prompt)
        store = open_documented_store if documented else open_store
        return Preset(
            self.name,
            documented,
            {"policy": policy},
            settings,
            is_plain=documented,
            instructs="search" if documented else "",
            open_store=store,
        )


meerkat: Final = Meerkat()
