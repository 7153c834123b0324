"""The common part of the repairs of all dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from siltstone.messages.message import Message, Part, RepairedMessage
from siltstone.messages.repairs.fence import quoted
from siltstone.messages.validators import Finding

__all__ = ["HEALED", "STRANDED", "Faults", "calls_of", "nth_call", "quotations", "results_of"]

Faults: TypeAlias = Mapping[int, Sequence[Finding]]
"""The findings to repair, by position."""

#: Rules about a result that cannot stay a result.
STRANDED: Final = frozenset({"orphan-result", "duplicate-result", "late-result", "result-type"})

#: Rules that a repair heals in every dialect.
HEALED: Final = STRANDED | {"unanswered-call", "result-place", "reasoning-alone"}

_REASONS: Final = {
    "orphan-result": "no call before it",
    "duplicate-result": "its call has a result already",
    "late-result": "it came after its exchange had ended",
    "result-type": "its call is answered by another type",
}


def calls_of(message: Message) -> list[Part]:
    """The calls of *message*, in order."""
    return [part for part in message.parts if part.kind == "tool_call"]


def results_of(message: Message) -> list[Part]:
    """The results of *message*, in order, each with the placeholders of the media inside it."""
    results: list[Part] = []
    for part in message.parts:
        if part.kind == "tool_result":
            results.append(part)
        elif part.kind == "blob" and results:
            last = results[-1]
            text = "\n".join(filter(None, (last.text, part.text)))
            results[-1] = Part("tool_result", text, last.call_id, last.name, None, last.is_error)
    return results


def nth_call(message: Message, finding: Finding) -> Part:
    """The call that *finding* is about."""
    return calls_of(message)[finding.nth]


def quotations(message: Message, found: Iterable[Finding]) -> list[RepairedMessage]:
    """The stranded results of *message* as untrusted text, in order."""
    results = results_of(message)
    stranded = [each for each in found if each.rule in STRANDED]
    return [quoted(results[each.nth], _REASONS[each.rule], each.rule) for each in stranded]
