"""The cost of model calls: a record for each call, and sums of records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["UsageRecord", "total"]


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """The cost of one of siltstone's model calls, or of several, in tokens.

    Attributes:
        model: The model's name; empty if the caller's callable did not report it.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        cached_tokens: The part of ``input_tokens`` that the provider read from its cache.
        purpose: The purpose of the call.
    """

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    purpose: str = "summary"


def total(records: Iterable[UsageRecord]) -> UsageRecord:
    """The sum of *records*; it names the model if all records have the same."""
    records = tuple(records)
    models = {record.model for record in records}
    return UsageRecord(
        model=models.pop() if len(models) == 1 else "",
        input_tokens=sum(record.input_tokens for record in records),
        output_tokens=sum(record.output_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        purpose="total",
    )
