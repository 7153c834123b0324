"""``rustant``: a few messages in view, a summary of the others, and a search over all that left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Final, Literal

from siltstone import checks
from siltstone.checks import reached_at, setting, share_of
from siltstone.compaction import base, rewrite as rewrites
from siltstone.compaction.prompts import clip, unframed
from siltstone.compaction.summarise import LEAST_SUMMARY, Brief, Calls, SummarizerOverflow, summarise
from siltstone.compaction.without_model import smart_fallback_summary
from siltstone.knowledge import KnowledgeConfig
from siltstone.llm import Flow
from siltstone.memory import Decay
from siltstone.memory.opening import open_store
from siltstone.messages import History, Message, as_history
from siltstone.systems.base import Preset, System, chosen
from siltstone.systems.reading import Table, known_tables, toml
from siltstone.tokens import TokenRule

# The settings of windows, each checked when it is set.

WINDOW_PREFIX: Final = "[Summary of earlier messages]"
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class WindowConfig(checks.Summarising):
    """The settings of :class:`WindowCompactor`: when it compacts, and how many messages stay.

    Attributes:
        working_limit: The maximum number of messages in view, without system messages, the summary, pinned
            messages, and a group that crosses the limit.
        short_term_limit: The number of newest messages outside the view that are short-term; older ones are
            long-term.
        auto_summarize: False: compacts only when ``compact`` is called.
        working_slack: With 0 the limit is a strict maximum. Else a run is due at the limit plus this number.
        working_target: Messages that stay after a run due by their number. ``"auto"``: half of a strict
            limit, so that one model call summarises many messages; else the limit. A run by ``compact``
            leaves the limit.
        auto_summarize_threshold: Share of the window at which a run is due, for any number of messages.
        auto_summarize_target: Share of the window that such a run aims at.
        summary_max_tokens: The maximum tokens of one answer.
        summary_temperature: The sampling temperature of the answer, 0..1. None, since some models refuse one,
            is the model's own.
        summary_budget_tokens: The maximum tokens of the summary in view. If a new summary has no room after
            the earlier ones, it is made from them and the messages together.
        fallback_bytes: The maximum bytes of the fallback summary, which needs no model.
        attempts: Calls of one model for one answer.
        summary_timeout: Seconds for the whole of a summary, with all calls and pauses; None for no limit.
        retry_delay: Seconds before the second call for one answer.
        summarizer_window: The window of the model that writes summaries, in tokens; None: the session's.
        estimator: The token rule, as in :class:`CompactionConfig`.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    working_limit: int = setting(20, checks.positive)
    short_term_limit: int = setting(100, checks.positive)
    auto_summarize: bool = True
    working_slack: int = setting(0, checks.at_least, 0)
    working_target: int | Literal["auto"] = setting(AUTO, checks.positive, unless=(AUTO,))
    auto_summarize_threshold: float = setting(0.7, checks.share, above_zero=True)
    auto_summarize_target: float = setting(0.5, checks.share, above_zero=True)
    summary_max_tokens: int = setting(500, checks.positive)
    summary_temperature: float | None = setting(None, checks.share, unless=(None,))
    summary_budget_tokens: int = setting(1500, checks.positive)
    fallback_bytes: int = setting(500, checks.positive)
    estimator: str | TokenRule = setting("bytes/4", checks.estimator)

    def _check_together(self) -> None:
        if self.working_target != AUTO and self.working_target > self.working_limit:
            most = f"at most working_limit, {self.working_limit}"
            checks.refuse("working_target", most, self.working_target)
        if not self.auto_summarize_target < self.auto_summarize_threshold:
            bound = f"< auto_summarize_threshold, {self.auto_summarize_threshold}"
            checks.refuse("auto_summarize_target", bound, self.auto_summarize_target)

    @classmethod
    def documented(cls) -> WindowConfig:
        """The documented slack of 20: a run is due at twice the limit, and leaves the limit."""
        return cls(working_slack=20)

    @property
    def left(self) -> int:
        """The number of messages that stay after a run due by their number."""
        if self.working_target != AUTO:
            return self.working_target
        return self.working_limit if self.working_slack else max(1, self.working_limit // 2)

    def due_at(self, count: int) -> bool:
        """Whether a run is due with *count* messages in view."""
        if self.working_slack:
            return count >= self.working_limit + self.working_slack
        return count > self.working_limit

    def threshold(self, context_window: int) -> int:
        """The tokens at which a run is due: its share of the window, rounded up."""
        return reached_at(context_window, self.auto_summarize_threshold)

    def target(self, context_window: int) -> int:
        """The maximum tokens that a run due by tokens aims at: its share of the window, rounded down."""
        return share_of(context_window, self.auto_summarize_target)


# The window policy: a few messages in view, a summary of the others, and a search over all that left.

LEAST_LEFT = 2  # messages: with no more than this a call of `compact` does nothing

PROMPT = (
    "Summarise the conversation above in 3 to 5 sentences. Keep the decisions that were made, the facts and "
    "figures that were found, what the tools returned, and what is to be achieved. Write plain sentences, "
    "without an introduction."
)


class WindowCompactor(base.Configured[WindowConfig]):
    """Keeps the newest messages in view, and one summary of the others, which stay searchable.

    A run is due at any boundary if there are more messages than ``working_limit``, or if they fill 0.7 of the
    window. System messages, pinned messages with their groups, groups with a pending call and the request in
    flight always stay. If the model fails, ``smart_fallback_summary`` writes the summary, and the compaction
    is ``degraded``.

    Args:
        config: The settings: limits, shares and budgets.
        prompt: The instruction that ends a request for a summary.
    """

    name = "window"

    def __init__(self, config: WindowConfig | None = None, *, prompt: str = PROMPT) -> None:
        super().__init__(config or WindowConfig())
        self.prompt = prompt

    def should_compact(self, context: base.CompactionContext) -> base.Trigger | None:
        """The trigger, by tokens or by the number of messages; at any boundary."""
        config = self.config
        if not config.auto_summarize:
            return None
        if context.context_window is not None:
            threshold = config.threshold(context.context_window)
            if context.tokens >= threshold:
                return context.trigger("history_tokens", "compact", context.tokens, threshold)
        due = config.due_at(context.message_count - context.fixed_count)
        return context.trigger("count", "compact", context.tokens) if due else None

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Summarises the oldest messages, and appends the summary to the text of the earlier one.

        Raises:
            CompactionError: ``no_reduction``, if a run due by tokens would not make the view smaller.
        """
        read = as_history(history)
        loose = [at for at in rewrites.originals(read) if read[at].seq not in trigger.pins]
        if trigger.reason == "manual" and len(loose) <= LEAST_LEFT:
            return base.Skip(
                "too_few", f"{len(loose)} messages are in view, more than {LEAST_LEFT} are needed"
            )
        selection = self._select(read, loose, trigger)
        if not selection.is_worthwhile:
            return base.Skip("nothing_to_discard", f"{len(loose)} messages are within the limits")
        config = self.config
        calls = Calls(config, trigger.model_calls, temperature=config.summary_temperature)
        earlier = "\n\n".join(
            unframed(each.text, WINDOW_PREFIX).strip() for each in rewrites.summaries_of(read)
        )
        summary, degraded = yield from self._summary(selection, earlier, calls, trigger)
        compaction = rewrites.rewrite(
            selection, summary, WINDOW_PREFIX, usage=tuple(calls.usage), degraded=degraded
        )
        if trigger.reason == "history_tokens":
            base.check_shrunk(self._token_rule, history, compaction)
        return compaction

    def _select(self, read: History, loose: list[int], trigger: base.Trigger) -> rewrites.Selection:
        """A selection that retains the newest messages: as many as the limit leaves, or fewer large ones."""
        fixed = rewrites.must_stay(read, trigger.pins)
        left = self.config.left if trigger.reason == "count" else self.config.working_limit
        count = min(len(loose), left)
        if trigger.reason == "history_tokens" and trigger.context_window is not None:
            count = self._fitting(read, loose, count, fixed, trigger)
        newest = loose[len(loose) - count :]
        return rewrites.kept_apart(read, {*fixed, *newest})

    def _fitting(
        self, read: History, loose: list[int], count: int, fixed: set[int], trigger: base.Trigger
    ) -> int:
        """The number of the newest messages, at most *count*, that fit the target; at least 1."""
        window = trigger.context_window or 0
        target = self.config.target(window) - trigger.reserved_tokens
        sums = read.sums(self._token_rule)
        units = sum(sums[at + 1] - sums[at] for at in fixed)
        room = target - min(self.config.summary_budget_tokens, max(0, target) // 4)
        taken = 0
        for at in reversed(loose[len(loose) - count :]):
            units += 0 if at in fixed else sums[at + 1] - sums[at]
            if taken and self._token_rule.tokens(units) > room:
                break
            taken += 1
        return max(1, taken)

    def _summary(
        self, selection: rewrites.Selection, earlier: str, calls: Calls, trigger: base.Trigger
    ) -> Flow[tuple[str, bool]]:
        """The text of the new summary, and whether the fallback wrote its newest part."""
        config = self.config
        budget = self._budget(trigger)
        half = self._token_rule.count(selection.discarded) // 2
        cap = min(config.summary_max_tokens, budget, max(LEAST_SUMMARY, half))
        appends = not earlier or self._token_rule.count_text(earlier) + cap <= budget
        new = [message for message in selection.told if message.provenance != "compaction_summary"]
        told = new if appends else selection.told
        brief = Brief(
            prompt=self.prompt,
            focus=trigger.focus,
            cap=cap if appends else max(cap, budget * 2 // 3),
            window=config.summarizer_window or trigger.context_window,
            summary_prefix=WINDOW_PREFIX,
            token_rule=self._token_rule,
            more=trigger.instructions,
            is_ours=self.prompt == PROMPT,
        )
        degraded = False
        try:
            text = yield from summarise(told, brief, calls)
        except (base.CompactionError, SummarizerOverflow):
            text, degraded, appends = smart_fallback_summary(new, config.fallback_bytes), True, True
        text = text or "The messages held no text."
        if appends and earlier:
            room = budget - self._token_rule.count_text(text) - 1
            text = f"{clip(earlier, max(0, room), self._token_rule)}\n\n{text}".lstrip()
        return clip(text, budget, self._token_rule), degraded

    def _budget(self, trigger: base.Trigger) -> int:
        """The maximum tokens of the summary in view: the budget, but at most an eighth of the window."""
        budget = self.config.summary_budget_tokens
        return budget if trigger.context_window is None else max(1, min(budget, trigger.context_window // 8))


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tier of each message of a session, as half-open ranges of sequence numbers.

    Attributes:
        working: The messages in view.
        short_term: The newest messages outside the view.
        long_term: All older messages outside the view.
    """

    working: tuple[base.Range, ...]
    short_term: tuple[base.Range, ...]
    long_term: tuple[base.Range, ...]

    def of(self, seq: int) -> Literal["working", "short_term", "long_term"] | None:
        """The tier of message *seq*; None if there is no such message."""
        if _within(self.working, seq):
            return "working"
        if _within(self.short_term, seq):
            return "short_term"
        return "long_term" if _within(self.long_term, seq) else None


def tiers(view: Iterable[Message], next_seq: int, short_term_limit: int = 100) -> Tiers:
    """The tiers of a session.

    Args:
        view: The messages in view.
        next_seq: The number of messages ever appended.
        short_term_limit: The maximum number of short-term messages.
    """
    shown = {message.seq for message in view if message.provenance != "compaction_summary"}
    left = [seq for seq in range(next_seq) if seq not in shown]
    border = max(0, len(left) - short_term_limit)
    return Tiers(_ranges(sorted(shown)), _ranges(left[border:]), _ranges(left[:border]))


def _ranges(numbers: Sequence[int]) -> tuple[base.Range, ...]:
    return rewrites.joined((number, number + 1) for number in numbers)


def _within(ranges: Sequence[base.Range], seq: int) -> bool:
    return any(start <= seq < end for start, end in ranges)


# ``rustant``: a few messages in view, a hundred more as short-term, the others in a shared memory.

MOST_RESULTS: Final = 20
INDEX_DIR: Final = ".siltstone/search_index"

#: siltstone's alone, which no configuration of the system has.
_OWN: Final = (
    "working_target", "attempts", "summary_timeout", "retry_delay", "summarizer_window", "estimator",
)  # fmt: skip
_FACT_KEYS: Final = ("fact_min", "fact_max", "fact_unit", "fact_inclusive", "max_facts", "max_corrections")
_WINDOW_KEYS: Final = tuple(each.name for each in fields(WindowConfig) if each.name not in _OWN)
_MEMORY: Final = (*_WINDOW_KEYS, "long_term_enabled", *_FACT_KEYS)
#: The documented bounds of a fact: 10 to 5,000 characters, both included.
_FACTS: Final[Mapping[str, Any]] = {"fact_unit": "chars", "fact_inclusive": True}


_UNUSED: Final = (("memory", "persist_path"), ("knowledge", "knowledge_path"))  # a store has one place


class Rustant(System):
    """Windows of messages; facts and corrections that later sessions of the namespace know.

    A configuration is TOML with the tables ``[memory]``, ``[search]`` and ``[knowledge]``.
    """

    name: ClassVar[str] = "rustant"
    #: The two documented pages of the configuration have names of their own for the same settings.
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "memory": {
            **{name: name for name in _MEMORY},
            "window_size": "working_limit",
            "compression_threshold": "auto_summarize_threshold",
            "enable_persistence": "long_term_enabled",
        },
        "search": {
            "enabled": "search_enabled",
            "index_dir": "index_dir",
            "index_path": "index_dir",
            "max_results": "max_results",
        },
        "knowledge": {
            "enabled": "knowledge_enabled",
            "max_rules": "max_rules",
            "min_entries": "min_entries",
            "min_entries_for_distillation": "min_entries",
            "tool_rules": "tool_rules",
        },
    }

    def _read(self, text: str) -> Mapping[str, Table]:
        read = toml(text)
        for name, key in _UNUSED:
            if isinstance(read.get(name), dict) and key in read[name]:
                read[f"{name}.{key}"] = read[name].pop(key)
        return known_tables(read, list(self.tables))

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        said = {"long_term_enabled": True, "search_enabled": True, "knowledge_enabled": True, **settings}
        for name in ("long_term_enabled", "search_enabled", "knowledge_enabled"):
            checks.boolean(name, said[name])
        checks.text("index_dir", said.get("index_dir", INDEX_DIR))
        most = said.get("max_results", MOST_RESULTS)
        checks.at_least("max_results", most, 1)
        if most > 1000:
            checks.refuse("max_results", "at most 1000", most)
        window = WindowConfig(**chosen(settings, WindowConfig))
        facts = {**(_FACTS if documented else {}), **chosen(settings, KnowledgeConfig)}
        learns = KnowledgeConfig(
            tool_facts=True,
            rules=said["knowledge_enabled"],
            patterns=not documented,
            knowledge_extraction=not documented,  # the system documents no model call for facts
            **facts,
        )
        is_long: bool = said["long_term_enabled"]
        ranked = partial(open_store, ranker="hybrid", decay=Decay(1.0, 1.0))
        return Preset(
            self.name,
            documented,
            {"policy": WindowCompactor(window), "knowledge": learns if is_long else False},
            settings,
            most_hits=most if said["search_enabled"] else 0,
            most_entries=None if is_long else window.short_term_limit,
            instructs="rules" if is_long else "",
            open_store=ranked if documented else open_store,
        )


rustant: Final = Rustant()
