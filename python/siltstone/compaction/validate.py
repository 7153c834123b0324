"""Whether a rewrite is one: refuses every rewrite that loses, changes, splits or invents something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from siltstone.compaction.base import (
    RULE_ROLES,
    Compaction,
    CompactionError,
    Trigger,
    rules_in_force,
)
from siltstone.compaction.rewrite import covered
from siltstone.messages import Message, SummaryMessage, groups

__all__ = ["validate"]


def validate(
    history: Sequence[Message], compaction: Compaction, content: str, trigger: Trigger | None = None
) -> None:
    """Checks *compaction* against the *history* it rewrites; *content* is the summary's framed text.

    What *trigger* holds must be retained.

    Messages are told apart by identity, so equal ones are never confused.

    Raises:
        CompactionError: with reason ``rewrite_invalid``, for the first fault found.
    """
    fault = next(_faults(history, compaction, content, trigger), None)
    if fault is not None:
        raise CompactionError(
            f"the rewrite is not valid: {fault}", reason="rewrite_invalid", usage=compaction.usage
        )


def _faults(
    history: Sequence[Message], compaction: Compaction, content: str, trigger: Trigger | None
) -> Iterator[str]:
    """Every check in turn. A later one may rest on the earlier ones, so only the first fault counts."""
    yield from _strangers(history, compaction)
    places = {id(message): at for at, message in enumerate(history)}
    retained = [places[id(message)] for message in compaction.retained]
    discarded = [places[id(message)] for message in compaction.discarded]
    yield from _disorder(retained, discarded)
    yield from _holes(len(history), retained, discarded)
    yield from _losses(history, set(retained))
    rules = rules_in_force(history)
    for at in retained:
        pinned = trigger is not None and trigger.holds(history[at])
        if history[at].role in RULE_ROLES and at not in rules and not pinned:
            yield f"the superseded {history[at].role} message at position {at} is retained"
    for message in compaction.discarded:
        if trigger is not None and trigger.holds(message):
            yield f"message {message.seq} is pinned and is discarded"
    yield from _misplaced(compaction, discarded[0])
    yield from _false_summary(compaction, discarded[0], content)


def _strangers(history: Sequence[Message], compaction: Compaction) -> Iterator[str]:
    known = {id(message) for message in history}
    for message in (*compaction.retained, *compaction.discarded):
        if id(message) not in known:
            yield f"message {message.seq} is not one of the history"


def _disorder(retained: list[int], discarded: list[int]) -> Iterator[str]:
    for what, positions in (("retained", retained), ("discarded", discarded)):
        for one, following in pairwise(positions):
            if following <= one:
                yield f"position {following} follows position {one} in what is {what}"


def _holes(length: int, retained: list[int], discarded: list[int]) -> Iterator[str]:
    if not discarded:
        yield "nothing is discarded"
    for position in sorted(set(retained) & set(discarded)):
        yield f"position {position} is both retained and discarded"
    for position in sorted(set(range(length)) - set(retained) - set(discarded)):
        yield f"position {position} is neither retained nor discarded"


def _losses(history: Sequence[Message], retained: set[int]) -> Iterator[str]:
    rules = rules_in_force(history)
    for at, message in enumerate(history):
        if message.provenance == "compaction_summary" and at in retained:
            yield f"the earlier summary at position {at} is retained"
        if at in rules and at not in retained:
            yield f"the {message.role} message at position {at} is discarded"
    for group in groups(history):
        stay = [at in retained for at in group.positions]
        if any(stay) and not all(stay):
            yield f"the group of positions {group.positions} is split"
        if group.pending and not all(stay):
            yield f"the group of positions {group.positions} has a pending call and is discarded"


def _misplaced(compaction: Compaction, place: int) -> Iterator[str]:
    """All that stands before *place*, where the first discarded message stood, is retained."""
    messages = compaction.messages
    if len(messages) != len(compaction.retained) + 1:
        yield f"{len(messages)} messages are not the {len(compaction.retained)} retained and one summary"
    others = (*messages[:place], *messages[place + 1 :])
    if any(one is not other for one, other in zip(others, compaction.retained, strict=True)):
        yield f"the view is not what is retained with one summary at position {place}"


def _false_summary(compaction: Compaction, place: int, content: str) -> Iterator[str]:
    summary, covers = compaction.messages[place], covered(compaction.discarded)
    if not isinstance(summary.raw, SummaryMessage):
        yield f"the summary is a {type(summary.raw).__name__}, not a SummaryMessage"
        return
    if summary.role != "user" or summary.raw.get("role") != "user":
        yield f"the summary's role is {summary.role!r}, not 'user'"
    if summary.provenance != "compaction_summary":
        yield f"the summary's provenance is {summary.provenance!r}"
    if not compaction.summary.strip() or not content.endswith(compaction.summary):
        yield "the summary is blank, or not what its frame holds"
    if summary.text != content or summary.raw.get("content") != content:
        yield "the summary message does not hold the framed summary"
    if compaction.covers != covers or summary.covers != covers or summary.seq != covers[0][0]:
        yield f"the summary covers {summary.covers}, what is discarded is {covers}"
