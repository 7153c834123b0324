"""Tells whether an answer is a refusal instead of a summary.

A model that refuses says so in its first sentence, and says little else. So an answer is a refusal if the
provider calls it one, or if it is short and begins with one of the phrases below. A summary may tell of a
refusal ("The user asked for X; I cannot do that, …"), but it begins in another way.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_refusal"]

STOP_REASONS: Final = frozenset({"refusal", "content_filter", "safety"})
"""The stop reasons of providers for a refusal: Anthropic, OpenAI, Gemini, in lower case."""

LONGEST_REFUSAL = 600  #: code points: a longer answer is a summary

_CANNOT = r"(?:can(?:no|['’])t|can not|won['’]t|will not|(?:am|['’]m) (?:not able|unable) to)"
_DOING = (
    r"(?:help|assist|comply|continue|summari[sz]e|fulfil|fulfill|provide|create|generate|produce|write"
    r"|process|do (?:that|this)|engage|participate|complete (?:this|that|your))"
)
_BEGINS: Final = re.compile(
    rf"(?:i(?:['’]m| am) (?:very |so )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately)\b.{{0,60}}?"
    rf"\b(?:i {_CANNOT}|i['’]m (?:not able|unable) to|unable to)\b"
    rf"|(?:as an ai(?: language)?(?: model| assistant)?,? )?(?:i|we) {_CANNOT} {_DOING}\b"
    rf"|i['’]m (?:not able|unable) to {_DOING}\b"
    r"|i(?:['’]m| am) (?:going to )?declin\w+|i must decline|i have to decline"
    r"|(?:this|your) request (?:violates|goes against)",
    re.IGNORECASE | re.DOTALL,
)


def is_refusal(text: str, stop_reason: str | None = None) -> bool:
    """Whether *text* refuses to summarise. It is an answer without blank space around it."""
    if stop_reason is not None and stop_reason.lower() in STOP_REASONS:
        return True
    return len(text) <= LONGEST_REFUSAL and _BEGINS.match(text) is not None
