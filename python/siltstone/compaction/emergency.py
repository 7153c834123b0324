"""The emergency fit: makes any history fit its window, without a model."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import sub
from typing import Final

from siltstone import checks, messages as chat
from siltstone.checks import LEAST_RESULT
from siltstone.compaction import rewrite as rewrites
from siltstone.compaction.base import Compaction, CompactionContext, Compactor, Skip, Substitute, Trigger
from siltstone.compaction.prompts import SUMMARY_PREFIX, framed
from siltstone.compaction.without_model import mechanical_summary, roomiest_note
from siltstone.errors import ContextOverflowError
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.messages.legality import sendable
from siltstone.messages.message import RULE_ROLES, SAID
from siltstone.messages.read import read_message
from siltstone.tokens import TokenRule, message_bytes, request_bytes, rule

# The emergency fit: makes any history fit its window, without a model.
#
# Large results are cut first. If that is not enough, the oldest groups leave. The messages that
# ``must_stay`` names always stay. Of the other groups the newest stay. But a group that is too large by
# itself leaves even if it is the newest. A mechanical summary replaces all groups that left, and quotes the
# newest of them.

WORDS = "words"  #: the kind of a substitute with the user's words only, without the results beside them

# Eighths of the window. If only results are cut, the aim for the history is six. If groups leave, the aim for
# the messages that stay is five, and the summary has one. So a quarter of the window is free, and the next
# message is not an emergency again.
CUT_EIGHTHS = 6
STAYING_EIGHTHS = 5
SUMMARY_EIGHTHS = 1
RESULT_EIGHTHS = 1  # the smallest size to which large results are cut before any group leaves


def fit(
    history: Sequence[Message],
    context_window: int,
    token_rule: TokenRule,
    *,
    reserved_tokens: int = 0,
    trigger: Trigger | None = None,
    request_rule: chat.RequestRule = chat.is_request,
    task: bool = False,
) -> Compaction | None:
    """A rewrite of *history* that fits the window; None if the history fits as it is.

    Args:
        history: The view to rewrite.
        context_window: The model's window in tokens.
        token_rule: The token rule. By it the result has at most ``context_window - reserved_tokens``.
        reserved_tokens: Tokens that are sent beside the history.
        trigger: Its pinned messages stay too.
        request_rule: Decides which text beside tool results is a request.
        task: Whether the first request, the task of a worker, stays too, as long as there is room for it.

    Raises:
        ContextOverflowError: the messages that must stay are larger than the window by themselves.
    """
    of_fit = history, context_window - reserved_tokens, token_rule, trigger, request_rule
    fit = _Fit(*of_fit, task=task)
    if fit.size <= fit.window:
        return None
    try:
        compaction = fit.cut() or fit.shortened(reserved_tokens, context_window)
    except ContextOverflowError:
        if not task:
            raise
        compaction = _Fit(*of_fit).shortened(reserved_tokens, context_window)
    return compaction


def check_room(
    history: Sequence[Message],
    context_window: int,
    token_rule: TokenRule,
    trigger: Trigger,
    request_rule: chat.RequestRule = chat.is_request,
) -> None:
    """Refuses a *history* that :func:`fit` could not make fit, even after another compaction.

    Raises:
        ContextOverflowError: the messages that must stay are larger than the window by themselves.
    """
    fit = _Fit(history, context_window - trigger.reserved_tokens, token_rule, trigger, request_rule)
    if fit.size > fit.window:
        fit.make_room(trigger.reserved_tokens, context_window)


class _Fit:
    """The fit for one history and one window."""

    def __init__(
        self,
        history: Sequence[Message],
        window: int,
        token_rule: TokenRule,
        trigger: Trigger | None,
        request_rule: chat.RequestRule,
        *,
        task: bool = False,
    ) -> None:
        self.history, self.window = history, window
        self._trigger = trigger or Trigger("overflow")
        self._rule = token_rule
        self._substitutes: dict[int, Substitute] = {}
        self._read = read = chat.as_history(history, request_rule)
        sums = read.sums(token_rule)
        self.units = list(map(sub, islice(sums, 1, None), sums))
        self._results = [
            at
            for at, message in enumerate(history)
            if message.said is None
            and message.provenance in SAID
            and any(part.kind == "tool_result" for part in message.parts)
        ]
        self._request = read.outline.requests[-1] if read.outline.in_flight else None
        # A session repairs its requests, a plain list is sent as it is. Of a sound list each part is sound.
        self._is_sound = self._trigger.originals is None or sendable(history) is None
        spans = read.outline.closed(sorted(rewrites.must_stay(read, self._trigger.pins, task=task)))
        self._fix(at for span in spans for at in range(*span))

    @property
    def size(self) -> int:
        """The tokens of the whole history, as it is sent."""
        return self._rule.tokens(sum(self.units) + self._repair(range(len(self.history))))

    def cut(self) -> Compaction | None:
        """The history with its largest results cut; None if that is not enough.

        All of them are cut to the same size, at least an eighth of the window.
        """
        substitutes = self._clamped(range(len(self.history)), self._common_size())
        if not substitutes:
            return None
        compaction = rewrites.clamped_alone(self.history, substitutes)
        added = self._rule.tokens(self._repair(range(len(self.history))))
        fits = self._rule.count(compaction.messages) + added <= self.window * (CUT_EIGHTHS + 1) // 8
        return compaction if fits else None

    def shortened(self, reserved_tokens: int, context_window: int) -> Compaction:
        """The history without its oldest groups, and with large results cut.

        Raises:
            ContextOverflowError: the messages that must stay are larger than the window by themselves.
        """
        self.make_room(reserved_tokens, context_window)
        kept = self._fixed.union(*self._staying())
        if len(kept) == len(self.history):  # the cuts alone were enough
            return rewrites.clamped_alone(self.history, self._substitutes)
        selection = rewrites.parted(self.history, kept)
        summary = self._summary(selection, kept)
        return rewrites.rewrite(
            selection, summary, SUMMARY_PREFIX, degraded=True, substitutes=self._substitutes
        )

    def make_room(self, reserved_tokens: int, context_window: int) -> None:
        """Cuts results until the messages that must stay fit, together with the shortest note on the others.

        Raises:
            ContextOverflowError: they do not fit after all cuts.
        """
        size = max(LEAST_RESULT, self.window * RESULT_EIGHTHS // 8)
        self._replace(self._clamped(range(len(self.history)), size))
        while self._least > self.window and size > LEAST_RESULT:
            size = max(LEAST_RESULT, size // 2)
            self._replace(self._clamped(self._fixed, size))
        if self._least > self.window:
            self._let_words_stand_alone()
        if self._least > self.window:
            tokens = self._least + reserved_tokens
            rules = sum(self.units[at] for at in self._fixed if self.history[at].role in RULE_ROLES)
            system = self._rule.tokens(rules)
            raise ContextOverflowError(
                f"what must stay needs {tokens} tokens; the context window has {context_window}: system "
                f"messages {system}, tools and what else is reserved {reserved_tokens}, the last turn (with "
                f"pinned messages and a note on the rest) {self._least - system}",
                tokens=tokens,
                context_window=context_window,
            )

    def _fix(self, positions: Iterable[int]) -> None:
        """Takes the messages at *positions* as those that must stay."""
        self._fixed = set(positions)
        self._least_added = self._beside(self._fixed)

    @property
    def _least(self) -> int:
        """Tokens of the messages that must stay, as they are sent, and of the shortest note on the others."""
        return self._rule.tokens(self._fixed_units + self._least_added)

    @property
    def _fixed_units(self) -> int:
        return sum(self.units[at] for at in self._fixed)

    def _repair(self, kept: Collection[int]) -> int:
        """Units that the repair of a request adds to the messages at *kept* and the note on the others.

        The note may stand between a call and its result, where calls have the same id.
        """
        if self._is_sound:
            return 0
        shown = {at: each.message for at, each in self._substitutes.items()}
        staying = [shown.get(at, self.history[at]) for at in sorted(kept)]
        if (note := self._shortest_note(kept)) is not None:
            staying.insert(next(at for at in range(len(self.history)) if at not in kept), note)
        repaired = sendable(staying)
        if repaired is None:
            return 0
        known = {id(message.raw): self._rule.units(message) for message in staying}
        sent = (known.get(id(raw)) or self._rule.units(read_message(raw, 0)) for raw in repaired.messages)
        return max(0, sum(sent) - sum(known.values()))

    def _beside(self, kept: set[int]) -> int:
        """Units beside the messages at *kept*: of the shortest note on the others, and of the repair."""
        note = self._shortest_note(kept)
        return self._repair(kept) + (0 if note is None else self._rule.units(note))

    def _shortest_note(self, kept: Collection[int]) -> Message | None:
        """The shortest note on all messages except *kept*. More ranges make it longer."""
        spans = rewrites.joined((at, at + 1) for at in kept)
        gaps = rewrites.left_out(spans, len(self._read))
        if not gaps:
            return None
        covers = rewrites.joined(span for gap in gaps for span in self._read.numbers(*gap))
        return rewrites.summary_message(framed(SUMMARY_PREFIX, roomiest_note(covers)), covers)

    def _common_size(self) -> int:
        """The size in tokens to which the largest results are cut, so that all is well below the window."""
        size = max(LEAST_RESULT, self.window * RESULT_EIGHTHS // 8)
        sizes = sorted((self._rule.tokens(self.units[at]) for at in self._results), reverse=True)
        beside = self._rule.tokens(sum(self.units)) - sum(sizes)
        room = self.window * CUT_EIGHTHS // 8 - beside
        for count in range(1, len(sizes) + 1):  # the `count` largest share the room beside the others
            share = (room - sum(sizes[count:])) // count
            if share >= (sizes[count] if count < len(sizes) else 0):
                return max(size, share)
        return size

    def _clamped(self, positions: Container[int], tokens: int) -> dict[int, Substitute]:
        among = (at for at in self._results if at in positions)
        large = [at for at in among if self._rule.tokens(self.units[at]) > tokens]
        return rewrites.clamp(((at, self.history[at]) for at in large), tokens, self._rule, self._trigger)

    def _replace(self, substitutes: Mapping[int, Substitute]) -> None:
        for at, substitute in substitutes.items():
            self._substitutes[at] = substitute
            self.units[at] = self._rule.units(substitute.message)

    def _let_words_stand_alone(self) -> None:
        """Separates the user's newest words from the results beside them, so that their group may leave."""
        request = self._request
        if request is None or not self._trigger.keeps_substitutes:
            return
        outline = self._read.outline
        group = {at for span in outline.closed([request]) for at in range(*span)}
        fields = chat.words_alone(self.history[request])
        held = any(self._trigger.holds(self.history[at]) for at in group)
        if fields is None or held or request in outline.pending:
            return
        message = chat.read_substitute(self.history[request], fields, WORDS)
        self._replace({request: Substitute(self.history[request], message)})
        self._fix(self._fixed - group | {request})

    def _staying(self) -> list[list[int]]:
        """The groups that stay: the newest ones up to the aim; the very newest up to the window.

        The oldest of them leave if the note on all others needs their room.
        """
        staying: list[list[int]] = []
        fixed = used = self._fixed_units
        aim = self.window * STAYING_EIGHTHS // 8
        is_newest = True
        for positions in self._newest_first():
            units = sum(self.units[at] for at in positions)
            holds = self._rule.tokens(used + units + self._least_added) <= self.window
            if holds and (is_newest or self._rule.tokens(used + units) <= aim):
                staying.append(positions)
                used += units
            elif self._rule.tokens(fixed + units) <= aim:
                break  # it would fit by itself, so no older group may stay instead of it
            is_newest = False
        while staying:
            kept = self._fixed.union(*staying)
            if self._rule.tokens(used + self._beside(kept)) <= self.window:
                break
            used -= sum(self.units[at] for at in staying.pop())
        return staying

    def _summary(self, selection: rewrites.Selection, kept: set[int]) -> str:
        """The mechanical summary, with as much detail as its share and the window allow."""
        covers = rewrites.covered(selection.discarded)
        staying = sum(self.units[at] for at in kept) + self._repair(kept)
        share = self.window * SUMMARY_EIGHTHS // 8

        def fits(text: str) -> bool:
            units = self._rule.units(rewrites.summary_message(framed(SUMMARY_PREFIX, text), covers))
            return self._rule.tokens(units) <= share and self._rule.tokens(staying + units) <= self.window

        # First guess: four characters a token. `fits` decides.
        return mechanical_summary(selection.told, covers, SUMMARY_PREFIX, 4 * share, fits)

    def _newest_first(self) -> Iterator[list[int]]:
        """The groups that may stay or leave, newest first, without earlier summaries, which always leave."""
        for last in range(len(self._read) - 1, -1, -1):
            positions = self._read.outline.group_ending_at(last)
            if positions and self._fixed.isdisjoint(positions):
                first = self.history[positions[0]]
                if first.provenance != "compaction_summary" and first.role not in RULE_ROLES:
                    yield positions


class Emergency(Compactor):
    """Makes a history fit its window by discarding the oldest groups. Every summary is ``degraded``.

    Args:
        context_window: The window in tokens, for callers that do not name it with the call; if both are
            known, the smaller one counts.
        estimator: The token rule: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``, or your own rule, such as
            :class:`siltstone.tokens.TokenizerRule`.
        request_rule: Decides which text beside tool results is a request.
        task: Whether the first request stays too, as long as there is room for it.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    name = "emergency"

    def __init__(
        self,
        context_window: int | None = None,
        *,
        estimator: str | TokenRule = "blocks",
        request_rule: chat.RequestRule = chat.is_request,
        task: bool = False,
    ) -> None:
        if context_window is not None:
            checks.positive("context_window", context_window, or_else="None or ")
        checks.function("request_rule", request_rule, "a text")
        self.context_window = context_window
        checks.estimator("estimator", estimator)
        self._token_rule = rule(estimator)
        self._request_rule = request_rule
        self._task = task

    def __repr__(self) -> str:
        return f"Emergency({self.context_window!r}, estimator={self._token_rule.name!r})"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the estimator names."""
        return self._token_rule

    @property
    def request_rule(self) -> chat.RequestRule:
        """The rule that decides which texts beside tool results are requests."""
        return self._request_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger if history and reserved tokens exceed the window, at any boundary."""
        window = self._window(context.context_window)
        tokens = context.estimated_history_tokens + context.reserved_tokens
        if window is None or tokens <= window:
            return None
        return replace(context, context_window=window).trigger("overflow", "emergency", tokens, window)

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Fits *history* into the window. It yields no request.

        Raises:
            ContextOverflowError: the messages that must stay are larger than the window by themselves.
        """
        yield from ()
        window = self._window(trigger.context_window)
        if window is None:
            return Skip("no_context_window", "an emergency is measured by a window; pass context_window=")
        compaction = fit(
            history,
            window,
            self._token_rule,
            reserved_tokens=trigger.reserved_tokens,
            trigger=trigger,
            request_rule=self._request_rule,
            task=self._task,
        )
        if compaction is None:
            tokens = self._token_rule.count(history) + trigger.reserved_tokens
            return Skip("not_due", f"{tokens} tokens fit the window of {window}")
        return compaction

    def _window(self, named: int | None) -> int | None:
        known = [window for window in (self.context_window, named) if window is not None]
        return min(known, default=None)


LIGHT: Final = "light"  #: the kind of a substitute without its pictures, sounds and files
_BODY: Final = "[a picture, sound or file was here; it left this request, which had too many bytes]"


class Lighten(Emergency):
    """Makes a request smaller in bytes, without a model: its largest bodies leave, the newest request's last.

    Args:
        most: The bytes that the request may have.
        token_rule: The token rule.
    """

    def __init__(self, most: int, token_rule: TokenRule) -> None:
        super().__init__(estimator=token_rule)
        self._most = most

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Takes bodies out, the largest first. It yields no request."""
        yield from ()
        read, found = chat.as_history(history), dict[int, Substitute]()
        sizes = list(map(message_bytes, read))
        newest = read.outline.requests[-1] if read.outline.in_flight else len(sizes)
        left = sum(sizes)
        for at in sorted(range(len(sizes)), key=lambda at: (at >= newest, -sizes[at])):
            message = read[at]
            if request_bytes(left) <= self._most or not trigger.keeps_substitutes:
                break
            if message.said is not None or message.provenance not in SAID or trigger.holds(message):
                continue
            fields = chat.without_bodies(message, _BODY)
            lighter = None if fields is None else chat.read_substitute(message, fields, LIGHT)
            if lighter is None:
                tokens = max(LEAST_RESULT, self._token_rule.count([message]) // 8)
                lighter = rewrites.clamp_result(message, tokens, self._token_rule, trigger.reader)
            if lighter is not None and (saved := sizes[at] - message_bytes(lighter)) > len(_BODY):
                found[at], left = Substitute(message, lighter), left - saved
        return (
            rewrites.clamped_alone(history, found)
            if found
            else Skip("nothing_to_discard", "no body can leave")
        )
