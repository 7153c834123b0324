"""The emergency net: whatever came before, a history is made to fit its window, without a model.

What must stay stays: system and developer messages, pinned ones, the request of the turn in flight, groups
with a pending call. Of the rest the newest groups stay longest; a group that is too large by itself goes even
if it is the newest, and is quoted in the mechanical summary that takes the place of what left.
"""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.compaction.base import RULE_ROLES, Compaction, Trigger, rules_in_force
from siltstone.compaction.mechanical import mechanical_summary, roomiest_note
from siltstone.compaction.prompts import SUMMARY_PREFIX, framed
from siltstone.compaction.rewrite import covered, rewrite, summary_message
from siltstone.compaction.select import Selection, closed, parted
from siltstone.compaction.validate import validate
from siltstone.errors import ContextOverflowError
from siltstone.messages import Message, RequestRule, groups, in_flight, is_request, turns
from siltstone.tokens import TokenRule

__all__ = ["check_room", "fit"]

# Eighths of the window. What stays is aimed at five and the summary has one, so that a quarter is left
# and the next message is not an emergency again.
STAYING_EIGHTHS = 5
SUMMARY_EIGHTHS = 1


def fit(
    history: Sequence[Message],
    context_window: int,
    token_rule: TokenRule,
    *,
    reserved_tokens: int = 0,
    summary_prefix: str = SUMMARY_PREFIX,
    trigger: Trigger | None = None,
    request_rule: RequestRule = is_request,
) -> Compaction | None:
    """A rewrite of *history* that fits the window; None where it fits as it is.

    Args:
        history: The view to rewrite.
        context_window: The model's window in tokens.
        token_rule: How tokens are counted: the result has at most ``context_window - reserved_tokens``.
        reserved_tokens: Tokens of what is sent beside the history.
        summary_prefix: What the summary message begins with.
        trigger: What it holds stays too.
        request_rule: Which text beside tool results is a request.

    Raises:
        ContextOverflowError: what must stay is larger than the window by itself.
    """
    net = _Net(history, context_window - reserved_tokens, token_rule, summary_prefix, trigger, request_rule)
    if token_rule.tokens(sum(net.units)) <= net.window:
        return None
    if net.least > net.window:
        raise _overflow(net.least + reserved_tokens, context_window)
    kept = net.select()
    selection = parted(history, kept)
    summary = net.summary(selection, kept)
    compaction = rewrite(history, selection, summary, summary_prefix, degraded=True)
    validate(history, compaction, framed(summary_prefix, summary), trigger)
    return compaction


def check_room(
    history: Sequence[Message],
    context_window: int,
    token_rule: TokenRule,
    trigger: Trigger,
    request_rule: RequestRule = is_request,
) -> None:
    """Refuses a *history* that :func:`fit` could not fit, whatever else is done to it before.

    Raises:
        ContextOverflowError: what must stay is larger than the window by itself.
    """
    net = _Net(
        history, context_window - trigger.reserved_tokens, token_rule, SUMMARY_PREFIX, trigger, request_rule
    )
    if net.least > net.window:
        raise _overflow(net.least + trigger.reserved_tokens, context_window)


class _Net:
    """One history against one window."""

    def __init__(
        self,
        history: Sequence[Message],
        window: int,
        token_rule: TokenRule,
        summary_prefix: str,
        trigger: Trigger | None,
        request_rule: RequestRule,
    ) -> None:
        self.history, self.window = history, window
        self._trigger = trigger or Trigger("overflow")
        self.units = [token_rule.units(message) for message in history]
        self._rule, self._prefix = token_rule, summary_prefix
        self._groups = groups(history)
        self._request_rule = request_rule
        self._fixed = self._must_stay()
        self._fixed_units = sum(self.units[at] for at in self._fixed)
        going = [message for at, message in enumerate(history) if at not in self._fixed]
        self._least_summary = self._least_summary_units(going)

    @property
    def least(self) -> int:
        """Tokens of what must stay, and of the shortest note on everything else."""
        return self._rule.tokens(self._fixed_units + self._least_summary)

    def select(self) -> set[int]:
        """The positions that stay: the newest groups that fit the aim, the very newest if it fits at all."""
        kept, used = set(self._fixed), self._fixed_units
        aim = self.window * STAYING_EIGHTHS // 8
        is_newest = True
        for positions in self._newest_first():
            units = sum(self.units[at] for at in positions)
            holds = self._rule.tokens(used + units + self._least_summary) <= self.window
            if holds and (is_newest or self._rule.tokens(used + units) <= aim):
                kept.update(positions)
                used += units
            elif self._rule.tokens(self._fixed_units + units) <= aim:
                break  # it would fit by itself: what is older must not stay in its place
            is_newest = False
        return kept

    def summary(self, selection: Selection, kept: set[int]) -> str:
        """The mechanical summary, as detailed as its share and the window allow."""
        covers = covered(selection.discarded)
        staying = sum(self.units[at] for at in kept)
        share = self.window * SUMMARY_EIGHTHS // 8

        def fits(text: str) -> bool:
            units = self._rule.units(summary_message(framed(self._prefix, text), covers))
            return self._rule.tokens(units) <= share and self._rule.tokens(staying + units) <= self.window

        # A token is about four characters; `fits` has the last word.
        return mechanical_summary(selection.told, covers, self._prefix, 4 * share, fits)

    def _must_stay(self) -> set[int]:
        kept = rules_in_force(self.history)
        kept.update(at for at, message in enumerate(self.history) if self._trigger.holds(message))
        kept.update(at for group in self._groups if group.pending for at in group.positions)
        if in_flight(self.history, self._request_rule):
            kept.add(turns(self.history, self._request_rule)[-1].request)
        return closed(self._groups, kept)

    def _least_summary_units(self, going: Sequence[Message]) -> int:
        if not going:
            return 0
        covers = covered(going)
        return self._rule.units(summary_message(framed(self._prefix, roomiest_note(covers)), covers))

    def _newest_first(self) -> list[tuple[int, ...]]:
        """The groups that may stay or go. An earlier summary always goes."""
        loose = [group.positions for group in self._groups if self._fixed.isdisjoint(group.positions)]
        loose = [at for at in loose if self._may_stay(self.history[at[0]])]
        return sorted(loose, key=lambda positions: positions[-1], reverse=True)

    def _may_stay(self, message: Message) -> bool:
        return message.provenance != "compaction_summary" and message.role not in RULE_ROLES


def _overflow(tokens: int, context_window: int) -> ContextOverflowError:
    return ContextOverflowError(
        f"what must stay (system and pinned messages, the request in flight, pending calls, a note on the "
        f"rest) needs {tokens} tokens; the context window has {context_window}",
        tokens=tokens,
        context_window=context_window,
    )
