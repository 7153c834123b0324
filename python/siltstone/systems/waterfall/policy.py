"""Waterfall summaries: the newest messages verbatim, a recent and a long-term summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from siltstone import checks
from siltstone.compaction import base, rewrite as rewrites
from siltstone.compaction.prompts import framed, unframed
from siltstone.compaction.rewrite import covered
from siltstone.compaction.summarise import Calls, SummarizerOverflow
from siltstone.llm import Flow
from siltstone.messages import History, Message, as_history, summary_level
from siltstone.messages.message import RULE_ROLES
from siltstone.systems.waterfall.config import LONGTERM_PREFIX, RECENT_PREFIX, WaterfallConfig
from siltstone.systems.waterfall.writer import Writer

# The state of waterfall summaries: counters that are stored with the session, and texts in the view.


@dataclass(frozen=True, slots=True)
class WaterfallState:
    """The counters. Long-term covers messages [0, longterm_end), recent covers [longterm_end, covered).

    Attributes:
        last: The number of messages when the last complete run began; 0 before the first.
        covered: The end of the summarised messages. A run that stopped halfway advances it, but not ``last``.
        longterm_end: The first message of the recent summary.
        passes: The number of passes ever made; each makes one recent summary.
        failed_at: The number of messages at the last run, if it stopped halfway; else None.
    """

    last: int = 0
    covered: int = 0
    longterm_end: int = 0
    passes: int = 0
    failed_at: int | None = None

    @classmethod
    def read(cls, state: base.State | None) -> WaterfallState | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        if not isinstance(state, dict):
            return None
        known = {name: state.get(name, 0) for name in ("last", "covered", "longterm_end", "passes")}
        failed_at = state.get("failed_at")
        if not all(type(value) is int and value >= 0 for value in known.values()):
            return None
        if failed_at is not None and type(failed_at) is not int:
            return None
        if not known["longterm_end"] <= known["covered"]:
            return None
        return cls(**known, failed_at=failed_at)

    def to_json(self) -> dict[str, int | None]:
        """The counters as stored JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Memory:
    """The two summaries of a view, without their frames; an empty text if there is none."""

    state: WaterfallState
    longterm: str = ""
    recent: str = ""
    longterm_level: int = 0

    @classmethod
    def of(cls, read: History, trigger: base.Trigger, immediate: int) -> Memory:
        """The summaries in *read*, with the stored counters, or with counters derived from the summaries.

        A summary of another policy or of the emergency fit counts as long-term.
        """
        shown = rewrites.summaries_of(read)
        state = WaterfallState.read(trigger.policy_state)
        if not shown:
            return cls(state or WaterfallState())
        is_alone = len(shown) == 1
        first_only = is_alone and (
            state.longterm_end == 0 and state.passes > 0 if state else summary_level(shown[0]) == 1
        )
        if state is None:
            state = _inferred(shown, first_only, immediate, rewrites.end_of(read))
        if first_only:
            return cls(state, "", _text(shown[0], RECENT_PREFIX))
        older = shown if is_alone else shown[:-1]
        longterm = "\n\n".join(_text(message, LONGTERM_PREFIX) for message in older)
        recent = "" if is_alone else _text(shown[-1], RECENT_PREFIX)
        return cls(state, longterm, recent, max(summary_level(message) for message in older))


def _inferred(shown: list[Message], first_only: bool, immediate: int, end: int) -> WaterfallState:
    """The counters of a view without a stored state: a run covers all before the immediate window."""
    covered = min(max(span[1] for message in shown for span in message.covers), end)
    border = 0 if first_only else covered
    if len(shown) > 1:
        border = min(span[0] for span in shown[-1].covers)
    return WaterfallState(covered + immediate, covered, border, len(shown))


def _text(message: Message, prefix: str) -> str:
    return unframed(message.text, prefix).strip()


# A session at its three scales, for a host that writes its own prompt.


@dataclass(frozen=True, slots=True)
class RecentContext:
    """The texts of a session that a prompt shows: the long-term summary, the recent summary, the messages.

    Attributes:
        immediate: The newest messages, oldest first.
        recent_summary: The text of the recent summary; empty while there is none.
        longterm_summary: The text of the long-term summary; empty while there is none.
    """

    immediate: tuple[Message, ...]
    recent_summary: str
    longterm_summary: str

    @property
    def has_summaries(self) -> bool:
        """Whether there is a summary at all."""
        return bool(self.recent_summary or self.longterm_summary)


# The status of waterfall memory: the range of each summary, and missing messages.

STALE_SECONDS = 3_600  # a warning is due if the newest entry is older
FULL, FILLING = 0.9, 0.75  # shares of ``ram_cap``


def _warnings(
    view: Sequence[Message],
    shown: int,
    config: WaterfallConfig,
    times: Sequence[float | None] | None,
    now: float | None,
) -> list[str]:
    found = []
    known = [time for time in times or () if time is not None]
    if now is not None and known and now - max(known) > STALE_SECONDS:
        found.append(f"last entry is {int(now - max(known))} s old, more than {STALE_SECONDS}")
    use = shown / config.ram_cap
    if use > FILLING:
        word = "almost full" if use > FULL else "filling"
        found.append(f"memory is {word}: {shown} of {config.ram_cap} entries ({use:.0%})")
    blank = sum(
        not message.parts or not any(part.text or part.name for part in message.parts) for message in view
    )
    if blank:
        found.append(f"{blank} entries without content")
    if times is not None and (undated := sum(time is None for time in times)):
        found.append(f"{undated} entries without timestamp")
    return found


# Waterfall summaries: the newest messages verbatim, a recent summary of older ones, a long-term summary.

BOOTSTRAP = "bootstrap"  #: the action of a trigger that takes in a long history without summaries


class WaterfallCompactor(base.Configured[WaterfallConfig]):
    """Shows a session at three scales: messages verbatim, a recent summary, a long-term summary.

    The first run is due when there are more messages than both windows hold, without system messages and
    pins. Later runs are due after every ``step`` messages, counted from the size at which the last run began.
    A run summarises all messages before the immediate window that no summary covers, in pieces of the recent
    window. For each piece the recent summary is merged into the long-term summary first, then the piece
    becomes the new recent summary. If the border separates a tool call from its results, the messages before
    it are summarised, but stay in view until the next run.

    Both summaries change together or not at all. The counters are the policy's state. If they are lost, they
    are read from the summaries in view.

    Args:
        config: The settings: windows, prompts and bounds. ``WaterfallConfig.documented()`` has the
            documented form.
    """

    name = "waterfall"

    def __init__(self, config: WaterfallConfig | None = None) -> None:
        super().__init__(config or WaterfallConfig())

    def should_compact(self, context: base.CompactionContext) -> base.Trigger | None:
        """The trigger, if enough messages came since the last run began, and since a failed run."""
        config, size = self.config, context.next_seq or context.message_count
        state = WaterfallState.read(context.policy_state) or WaterfallState()
        failures = [at for at in (context.failed_at, state.failed_at) if at is not None]
        if failures and size - max(failures) < max(1, config.recent_window // 4):
            return None
        first = config.immediate_window + config.recent_window + 1 + context.fixed_count
        due = first if state.last == 0 else state.last + config.every
        if size < due:
            return None
        return context.trigger("count", "compact", context.estimated_history_tokens)

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Asks for summaries of all messages before the immediate window, and puts them before the rest.

        A trigger with the action ``bootstrap`` takes in a history that has no summary. The long-term summary
        is made first, of all messages except the newest two windows: of the recent summaries in
        ``trigger.past``, as far as there are any, and of the messages after them, in pieces. Then the recent
        summary is made.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary`` or
                ``summarizer_overflow``; only if not even the first piece was summarised.
        """
        read = as_history(history)
        run = _Run(self.config, history, read, trigger)
        refusal = run.refusal()
        if refusal is not None:
            return refusal
        config = self.config
        calls = Calls(config, trigger.model_calls, temperature=config.temperature)
        writer = Writer(config, calls, self._token_rule, trigger)
        failure: base.CompactionError | None = None
        is_whole = True
        try:
            for number, piece in enumerate(run.pieces()):
                is_whole = not number or calls.has(2)  # a pass after the first makes two calls
                if not is_whole:
                    break
                yield from run.summarise(piece, writer)
        except SummarizerOverflow as error:
            failure = calls.too_large(error)
        except base.CompactionError as error:
            if getattr(error.__cause__, "exhausted", False) and not calls.usage:
                return base.Skip("no_model", "no model was given; the memory is as it was")
            failure = error
        compaction = run.compaction(whole=is_whole, failed=failure is not None, usage=calls)
        if compaction is not None:
            return compaction
        if failure is not None:
            raise failure
        return base.Skip("no_valid_cut", f"a tool call and its results reach over all {run.width} messages")

    def status(
        self,
        view: Sequence[Message],
        state: base.State | None,
        *,
        next_seq: int | None = None,
        times: Sequence[float | None] | None = None,
        now: float | None = None,
    ) -> base.MemoryStatus:
        """A report on the memory in *view*, and on missing messages.

        Args:
            view: The messages in view.
            state: The state that the last run left.
            next_seq: The number of messages ever appended; None: the highest number that the view covers.
            times: The time of each message of the view, in seconds since 1970; None for an unknown time.
            now: The current time, in the same seconds; None: ages are not checked.
        """
        counters, config = WaterfallState.read(state) or WaterfallState(), self.config
        shown = {message.seq for message in view if message.provenance != "compaction_summary"}
        seen = shown.union(n for message in view for span in message.covers for n in range(*span))
        size = max([0, *(n + 1 for n in seen)]) if next_seq is None else next_seq
        border = max(counters.covered, size - config.immediate_window)
        rules = sum(message.role in RULE_ROLES for message in view)  # they are no memories
        first = config.immediate_window + config.recent_window + 1
        last = max(0, counters.last - rules)
        missing = [n for n in range(size) if n not in seen]
        errors = (f"coverage gap: {len(missing)} entries, the first is {missing[0]}",) if missing else ()
        return base.MemoryStatus(
            entries=size - rules,
            longterm=(0, counters.longterm_end) if counters.longterm_end else None,
            recent=(counters.longterm_end, counters.covered) if counters.covered else None,
            pending=(counters.covered, border),
            immediate=(border, size),
            last_run=last,
            next_run=last + config.every if last else first,
            warnings=tuple(_warnings(view, len(shown) - rules, config, times, now)),
            errors=errors,
        )

    def recent_context(
        self, view: Sequence[Message], state: base.State | None, count: int | None = None
    ) -> RecentContext:
        """The three scales of the memory that *view* shows, for a host that writes its own prompt.

        Args:
            view: The messages in view.
            state: The state that the last run left.
            count: How many of the newest messages, 0 or more; None: all of the view.

        Raises:
            ConfigError: *count* is below 0.
        """
        if count is not None:
            checks.at_least("count", count, 0, or_else="None or ")
        read = as_history(view)
        trigger = base.Trigger("manual", policy_state=state)
        memory = Memory.of(read, trigger, self.config.immediate_window)
        shown = rewrites.originals(read)
        newest = shown if count is None else shown[max(0, len(shown) - count) :]
        return RecentContext(tuple(read[at] for at in newest), memory.recent, memory.longterm)


class WaterfallRestored(WaterfallCompactor):
    """Begins a history with existing summaries. It asks no model.

    Args:
        config: The session's settings.
        memory: The summaries and their counters.
        copies: Earlier recent summaries, each with the range of messages that it replaced.
    """

    def __init__(
        self, config: WaterfallConfig, memory: Memory, copies: Sequence[tuple[base.Range, str]] = ()
    ) -> None:
        super().__init__(config)
        self._memory, self._copies = memory, tuple(copies)

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Replaces messages by their summaries. It yields no request."""
        yield from ()
        run = _Run(self.config, history, as_history(history), trigger)
        asides = tuple(
            rewrites.summary_message(framed(RECENT_PREFIX, text), (covers,)) for covers, text in self._copies
        )
        restored = run.restored(self._memory, asides)
        return restored or base.Skip("no_valid_cut", "nothing of what the summaries stand for may leave")


@dataclass(frozen=True, slots=True)
class Piece:
    """The messages that one pass summarises, and the range of numbers that it covers."""

    messages: tuple[Message, ...]
    start: int
    end: int


class _Run:
    """One run over one history: the due messages, the summaries so far, and the rewrite."""

    def __init__(
        self, config: WaterfallConfig, history: Sequence[Message], read: History, trigger: base.Trigger
    ) -> None:
        self._config, self._history, self._read, self._trigger = config, history, read, trigger
        self._size = rewrites.end_of(read)
        self._memory = Memory.of(read, trigger, config.immediate_window)
        self._before = self._memory.state
        self._shown = rewrites.originals(read)
        newest = self._shown[-config.immediate_window :]
        is_full = len(newest) == config.immediate_window
        self._cut = read[newest[0]].seq if is_full else self._size - config.immediate_window
        self._done: list[tuple[Piece, str]] = []
        recents = [each for each in trigger.past if summary_level(each) == 1]
        self._past = sorted(recents, key=lambda each: each.covers)

    @property
    def width(self) -> int:
        """The number of due messages."""
        return self._cut - self._before.covered

    def refusal(self) -> base.Skip | None:
        """The reason why there is nothing to do; None if a run is possible."""
        size = self._size - len(self._read.rules)
        immediate, recent = self._config.immediate_window, self._config.recent_window
        is_bootstrap = self._trigger.action == BOOTSTRAP
        if is_bootstrap and (self._memory.longterm or self._memory.recent):
            return base.Skip("has_summary", f"there is a summary already, of {self._before.covered} messages")
        least = immediate + recent if is_bootstrap else immediate
        if size <= least:
            shown = len(self._shown)
            return base.Skip(
                "too_few", f"not enough entries: have {size} ({shown} loaded), need more than {least}"
            )
        if not self._due():
            return base.Skip(
                "nothing_to_discard",
                f"no new entries since the last run: {self._before.covered} of {size} are summarised, and "
                f"the newest {immediate} stay as they are",
            )
        if not self._selection(self._cut).is_worthwhile:
            return base.Skip(
                "no_valid_cut", f"tool calls, pins or the request hold all {self.width} messages"
            )
        return None

    def _due(self) -> list[Message]:
        messages = (self._read[at] for at in self._shown)
        return [each for each in messages if self._before.covered <= each.seq < self._cut]

    def pieces(self) -> Iterator[Piece]:
        """The due messages in pieces for one pass each, oldest first."""
        due, size = self._due(), self._config.recent_window
        shown = (span[1] for message in rewrites.summaries_of(self._read) for span in message.covers)
        start = max([self._before.covered, *shown])  # the emergency fit may have covered more
        if self._trigger.action == BOOTSTRAP:
            last = [each for each in due if each.seq >= self._cut - size]
            due = due[: len(due) - len(last)]
        else:
            last = []
        longest = max(2 * size - 1, size + 1) if not last else size
        if self._trigger.action == BOOTSTRAP and self._past:
            start = max(start, self._told())
            due = [each for each in due if each.seq >= start]
        while due:
            count = size if len(due) > longest else len(due)
            taken, due = due[:count], due[count:]
            end = due[0].seq if due else (last[0].seq if last else self._cut)
            yield Piece(tuple(taken), start, end)
            start = end
        if last:
            yield Piece(tuple(last), last[0].seq, self._cut)

    def _told(self) -> int:
        """The end of the range from message 0 on that the stored recent summaries cover without a gap."""
        end = 0
        for first, last in rewrites.joined(span for each in self._past for span in each.covers):
            if first > end:
                break
            end = last
        return end

    def summarise(self, piece: Piece, writer: Writer) -> Flow[None]:
        """One pass: merges the recent summary into the long-term one, then makes *piece* the recent summary.

        If a request fails, both summaries stay as they were.
        """
        memory, state = self._memory, self._memory.state
        longterm, level = memory.longterm, memory.longterm_level
        recents = [*self._past, *self._asides()]
        if self._trigger.action == BOOTSTRAP and self._past and not memory.recent:
            longterm, level = (yield from writer.remade(recents, "")), 1
        elif memory.recent:
            every = self._config.longterm_refresh
            if every and (state.passes + 1) % every == 0 and recents:
                longterm = yield from writer.remade(recents, memory.recent)
            else:
                longterm = yield from writer.combined(memory.recent, longterm)
            level = max(1, level) + 1
        recent = yield from writer.slice(piece.messages)
        border = piece.start if longterm else 0
        counters = WaterfallState(state.last, piece.end, border, state.passes + 1)
        self._memory = Memory(counters, longterm, recent, level)
        self._done.append((piece, recent))

    def _asides(self) -> list[Message]:
        """The recent summaries of this run that are already merged into the long-term summary."""
        return [_recent_message(piece, text) for piece, text in self._done[:-1]]

    def compaction(self, *, whole: bool, failed: bool, usage: Calls) -> base.Compaction | None:
        """The rewrite after the passes so far; None if no message leaves.

        If no call was left for all passes, they are not *whole*: the next run is due at the next boundary.
        If one *failed*, it is due some messages later.
        """
        if not self._done:
            return None
        state = self._memory.state
        selection = self._selection(state.covered)
        if not selection.is_worthwhile:
            return None
        counters = replace(
            state,
            last=self._size if whole and not failed else self._before.last,
            failed_at=self._size if failed else None,
        )
        made, text = self._messages(covered(selection.discarded))
        return rewrites.layered(
            selection,
            made,
            text,
            state=counters.to_json(),
            asides=tuple(self._asides()),
            usage=tuple(usage.usage),
            degraded=usage.degraded,
        )

    def restored(self, memory: Memory, asides: tuple[Message, ...]) -> base.Compaction | None:
        """The rewrite with an existing *memory*; None if no message leaves."""
        self._memory = memory
        selection = self._selection(memory.state.covered)
        if not selection.is_worthwhile:
            return None
        made, text = self._messages(covered(selection.discarded))
        state = memory.state.to_json()
        return rewrites.layered(selection, made, text, state=state, asides=asides)

    def _messages(self, discarded: Sequence[base.Range]) -> tuple[list[Message], str]:
        """The summaries of the view with the ranges that each covers, and the text of the last one."""
        memory = self._memory
        if not memory.longterm:
            return [
                rewrites.summary_message(framed(RECENT_PREFIX, memory.recent), tuple(discarded))
            ], memory.recent
        older, newer = _parted(discarded, memory.state.longterm_end)
        level = max(1, memory.longterm_level)
        if not older or not newer:  # pins or a group hold one part whole, and a summary must cover a message
            text = f"{memory.longterm}\n\n{memory.recent}"
            return [rewrites.summary_message(framed(LONGTERM_PREFIX, text), tuple(discarded), level)], text
        return [
            rewrites.summary_message(framed(LONGTERM_PREFIX, memory.longterm), older, level),
            rewrites.summary_message(framed(RECENT_PREFIX, memory.recent), newer),
        ], memory.recent

    def _selection(self, cut: int) -> rewrites.Selection:
        """A selection that retains the messages from number *cut* on, and those that no policy discards."""
        kept = rewrites.must_stay(self._read, self._trigger.pins)
        kept.update(at for at in self._shown if self._read[at].seq >= cut)
        return rewrites.kept_apart(self._read, kept)


def _recent_message(piece: Piece, text: str) -> Message:
    return rewrites.summary_message(framed(RECENT_PREFIX, text), ((piece.start, piece.end),))


def _parted(
    ranges: Sequence[base.Range], border: int
) -> tuple[tuple[base.Range, ...], tuple[base.Range, ...]]:
    """*ranges* split at *border*: the parts before it, and the parts from there on."""
    older = tuple((start, min(end, border)) for start, end in ranges if start < border)
    return older, tuple((max(start, border), end) for start, end in ranges if end > border)
