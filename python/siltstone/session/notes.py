"""A note to the model: how full its window is."""

from __future__ import annotations

from dataclasses import replace

from siltstone.messages import InjectedMessage, read_message
from siltstone.session.prepared import Prepared
from siltstone.tokens import TokenRule

__all__ = ["noted"]


def noted(prepared: Prepared, window: int | None, reserved_tokens: int, rule: TokenRule) -> Prepared:
    """*prepared* with a note after the last message, if a note is due and fits the window.

    No message before the note changes, so the provider's cached prefix stays valid.
    """
    if not prepared.is_noted or window is None:
        return prepared
    tokens = prepared.tokens + reserved_tokens
    note = InjectedMessage(
        role="user",
        content=f"[The context window is {tokens * 100 // window} % full: {tokens:,} of {window:,} tokens. "
        "Earlier messages may soon be summarised; this note is not from the user.]",
    )
    size = rule.count([read_message(note, 0)])
    if tokens + size > window:
        return prepared
    return replace(prepared, messages=[*prepared.messages, note], tokens=prepared.tokens + size)
