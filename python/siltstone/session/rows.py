"""A session's messages and compactions as rows of its log, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.memory.entry import Entry
from siltstone.memory.log import LogRow, NewCompaction, NewMessage
from siltstone.messages import Message, SummaryMessage, decode, encode, indexable_text, read_message
from siltstone.session.view import Item, view_items
from siltstone.usage import UsageRecord

__all__ = ["compaction_row", "entries", "message_of", "message_row", "summary_of", "usage_of"]


def message_row(item: Item, tokens: int) -> NewMessage:
    """A message on its way into the log."""
    message = item.message
    return NewMessage(
        encode(message.raw), message.role, message.dialect, message.provenance, tokens, item.created_at
    )


def message_of(row: LogRow) -> Message:
    """A message read back from the log."""
    return read_message(decode(row.raw), row.seq, dialect=row.dialect, provenance=row.provenance)


def entry(item: Item, *, index_tools: bool) -> Entry | None:
    """What is remembered of a message that leaves the view; None where it has no text to index."""
    message = item.message
    text = indexable_text(message, index_tools=index_tools)
    if not text.strip():
        return None
    name = next((part.name for part in message.parts if part.name), None)
    source_range = (message.seq, message.seq + 1)
    return Entry(text, source_range, message.role, name, created_at=item.created_at / 1000)


def entries(items: Iterable[Item], *, index_tools: bool) -> list[Entry]:
    """What is remembered of *items*, in order."""
    found = (entry(item, index_tools=index_tools) for item in items)
    return [each for each in found if each is not None]


def compaction_row(
    compaction: Compaction,
    policy: Compactor,
    trigger: Trigger,
    *,
    next_seq: int,
    tokens: tuple[int, int],
    messages_before: int,
    created_at: int,
) -> NewCompaction:
    """A compaction on its way into the log; *tokens* are those before and after."""
    stays = compaction.messages[: len(compaction.messages) - len(compaction.injected)]
    summary = next(m for m in compaction.messages if m.provenance == "compaction_summary")
    return NewCompaction(
        policy=policy.name,
        reason=trigger.reason,
        level=compaction.level,
        degraded=compaction.degraded,
        summary=summary.text,
        covers=compaction.covers,
        view=view_items(stays),
        next_seq=next_seq,
        model=compaction.usage[-1].model if compaction.usage else "",
        usage=json.dumps([asdict(record) for record in compaction.usage]),
        tokens_before=tokens[0],
        tokens_after=tokens[1],
        messages_before=messages_before,
        messages_after=len(compaction.messages),
        created_at=created_at,
    )


def summary_of(row: NewCompaction) -> Message:
    """The summary that a compaction left in the view."""
    return read_message(SummaryMessage(row.summary, row.covers, row.level), row.covers[0][0])


def usage_of(row: NewCompaction) -> list[UsageRecord]:
    """The model calls of a compaction."""
    return [UsageRecord(**record) for record in json.loads(row.usage)]
