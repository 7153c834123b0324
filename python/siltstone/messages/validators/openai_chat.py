"""The rules of the OpenAI chat completions API.

Roles may follow each other in any order, and rules may stand anywhere. The provider refuses a call if its
results do not follow directly, before any other message.
"""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.messages.validators.base import Finding, Ledger, Placed

__all__ = ["check"]


def check(history: Placed, pending_ok: bool) -> Iterator[Finding]:
    """The findings, in no order."""
    ledger = Ledger()
    for position, message in history:
        if message.role != "tool":
            yield from ledger.close()
        if not message.parts:
            yield Finding(position, "empty-content", f"the {message.role} message has no content")
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                yield from ledger.answer(position, part, results)
                results += 1
    if not pending_ok:
        yield from ledger.close()
