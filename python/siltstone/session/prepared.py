"""The answer of ``prepare``, whose lists are copied when they are first read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siltstone.events import Event
from siltstone.outcome import Outcome
from siltstone.session.range_set import RangeSet
from siltstone.session.view import Lent

__all__ = ["Prepared", "answer_of", "copied"]


class _LentSlot:
    """A slot beside the fields of a ``Prepared``."""

    __slots__ = ("lent",)

    lent: tuple[Lent, Lent]  #: the lists that its two lists are copies of, if it was made of a view


@dataclass(frozen=True, slots=True)
class Prepared(_LentSlot):
    """The answer of ``prepare``: the messages to send to the model, and how they came about.

    Attributes:
        messages: The request: the current view with the caller's own objects, the summary if there is one,
            and recalled context. A call without a result has one that says that it was interrupted, and
            results without a call are left out.
        history: The list that a host may store: the view without recalled context and such repairs, and with
            the messages that only this request leaves out.
        tokens: The size of *messages*, by the policy's estimator.
        outcomes: The attempts at this boundary: the policy's compaction if one was due, then the emergency
            compactions if the window was still exceeded.
        recalled: The content of the recalled message; empty if there is none.
        told: Events of this boundary that belong to no attempt: the results of recall.
        is_noted: Whether the request passed one of the session's ``warn_at`` shares of the window. The
            request then ends with a note that says how full it is, if there is room for the note.
        trimmed: Ranges of messages that are in the history and not in this request. Only policies that shape
            each request have some (``SmartTrimConfig.trim_scope``).
    """

    messages: list[Any]
    history: list[Any]
    tokens: int
    outcomes: tuple[Outcome, ...] = ()
    recalled: str = ""
    told: tuple[Event, ...] = ()
    is_noted: bool = False
    trimmed: RangeSet = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Copies a list when it is first read: for a long view that takes longer than all the rest."""
            if name in _LISTS:
                listed, length = self.lent[_LISTS.index(name)]
                copied = listed[:length]
                _SETTERS[name](self, copied)
                return copied
            raise AttributeError(f"a Prepared has no {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        done = f", {self.outcomes}" if self.outcomes else ""
        return f"<Prepared: {len(self.messages)} messages, {self.tokens:,} tokens{done}>"

    @property
    def compaction(self) -> Outcome | None:
        """The outcome of the last attempt at this boundary; None where no compaction was due."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of this boundary, in order."""
        return (*(event for outcome in self.outcomes for event in outcome.events), *self.told)


def copied(answer: Prepared) -> Prepared:
    """A copy of *answer*, which nobody else has, with lists of its own for the caller."""
    try:
        lent = answer.lent
    except AttributeError:
        lent = (answer.messages, len(answer.messages)), (answer.history, len(answer.history))
    made = Prepared.__new__(Prepared)
    _SET_LENT(made, lent)
    for get, put in _COPIED:
        put(made, get(answer))
    return made


def answer_of(
    sent: Lent, history: Lent, tokens: int, outcomes: tuple[Outcome, ...], *, is_noted: bool
) -> Prepared:
    """The answer for a request whose messages are *sent*, and the view *history*. No list is copied."""
    answer = Prepared.__new__(Prepared)
    _SET_LENT(answer, (sent, history))
    for put, default in _PUT_DEFAULTS:
        put(answer, default)
    _SETTERS["tokens"](answer, tokens)
    _SETTERS["outcomes"](answer, outcomes)
    _SETTERS["is_noted"](answer, is_noted)
    return answer


_LISTS = ("messages", "history")
_SETTERS = {name: getattr(Prepared, name).__set__ for name in Prepared.__annotations__}
_SET_LENT = getattr(_LentSlot, "lent").__set__  # noqa: B009 - type checkers take ``_LentSlot.lent`` for a value
_COPIED = [(getattr(Prepared, name).__get__, put) for name, put in _SETTERS.items() if name not in _LISTS]
_PUT_DEFAULTS = [
    (_SETTERS[name], default) for name, default in (("recalled", ""), ("told", ()), ("trimmed", ()))
]
