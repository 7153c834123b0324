"""The tokens of a context, by category."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.figures.reading import log_rows
from siltstone.memory.convert import message_of
from siltstone.memory.log import SessionLog
from siltstone.messages import Message, summary_level
from siltstone.messages.message import RULE_ROLES
from siltstone.session.rows import derived_item
from siltstone.tokens import TokenRule

__all__ = ["categories", "in_context"]


def categories(view: Sequence[Message], rule: TokenRule) -> dict[str, int]:
    """The tokens of *view* by what they are, in the order in which a request has them; none is empty."""
    groups: dict[str, list[Message]] = {}
    for message in view:
        groups.setdefault(_category(message), []).append(message)
    order = sorted(groups, key=lambda name: (_place(name), name))
    return {name: rule.count(groups[name]) for name in order}


def in_context(log: SessionLog, rule: TokenRule) -> int:
    """The tokens in context now, by *rule*: the sum of the breakdown of the session's history."""
    state = log.state()
    head = None if state.head is None else state.head.compaction
    pieces = [] if head is None else [*head.view]
    view = [derived_item(each) for each in log.derived([each for each in pieces if isinstance(each, int)])]
    spans = [each for each in pieces if isinstance(each, tuple)]
    for start, end in (*spans, (0 if head is None else head.next_seq, state.next_seq)):
        view += [message_of(row) for row in log_rows(log, start, end)]
    return rule.count(view)


def _category(message: Message) -> str:
    if message.provenance == "compaction_summary":
        return f"summaries, level {summary_level(message)}"
    if message.role in RULE_ROLES:
        return "system"
    if any(part.kind == "tool_result" for part in message.parts):
        return "tool results"
    if any(part.kind == "tool_call" for part in message.parts):
        return "tool calls"
    return message.role


def _place(name: str) -> int:
    order = ("system", "summaries", "user", "assistant", "tool calls", "tool results")
    return next((place for place, each in enumerate(order) if name.startswith(each)), len(order))
