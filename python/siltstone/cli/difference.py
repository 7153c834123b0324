"""What one compaction did with each message: kept, summarised, archived; and why it was due."""

from __future__ import annotations

import re
from typing import Any

from rich.cells import cell_len, set_cell_size

from siltstone.cli.console import line, output
from siltstone.errors import CompactionNotFoundError
from siltstone.messages import in_words, read_message
from siltstone.session import CompactionRecord, Session
from siltstone.stores import MemoryStore
from siltstone.values import dataclass

__all__ = ["Change", "difference", "show_difference"]

_LONGEST = 60  #: characters that are told of a message; a narrow terminal shows fewer
_BEFORE, _LEAST = 33, 20  #: columns before them, and so many there are at least
_SUMMARY = 12  #: lines of a summary that a terminal shows
_INDENT = " " * 15
_CALL = re.compile(r"\[(call|result) \S+: ")  #: ids tell nothing here
_REASONS = {
    "history_tokens": "the history had reached the threshold",
    "input_tokens": "the last request had reached the threshold",
    "bytes": "the request had reached the threshold in bytes",
    "fraction": "a share of the window had been reached",
    "count": "there were too many messages",
    "overflow": "the request did not fit the window",
    "manual": "it was asked for",
    "model": "the model asked for it",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One compaction.

    Attributes:
        record: What the log remembers of it.
        summarised: The messages that left with it: number, role and beginning.
        archived: Of these, the numbers of those that a search finds.
        earlier: How many messages earlier compactions had summarised, for which its summary stands as well.
        kept: The messages that stayed.
    """

    record: CompactionRecord
    summarised: list[dict[str, Any]]
    archived: list[int]
    earlier: int
    kept: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """The figures, and the messages by their numbers."""
        record = self.record
        return {
            "compaction": record.id,
            "policy": record.policy,
            "reason": record.reason,
            "tokens_before": record.tokens_before,
            "tokens_after": record.tokens_after,
            "model_calls": len(record.usage),
            "input_tokens": sum(each.input_tokens for each in record.usage),
            "output_tokens": sum(each.output_tokens for each in record.usage),
            "summary": record.summary,
            "summarised": self.summarised,
            "archived": self.archived,
            "summarised_earlier": self.earlier,
            "kept": self.kept,
        }


def difference(session: Session, store: MemoryStore, compaction_id: int) -> Change:
    """What compaction *compaction_id* of *session* did.

    Raises:
        CompactionNotFoundError: the session has no such compaction.
    """
    records = {record.id: record for record in session.compactions(undone=True)}
    record = records.get(compaction_id)
    if record is None:
        raise CompactionNotFoundError(
            f"session {session.session_id!r} has no compaction {compaction_id}", compaction_id=compaction_id
        )
    parent = records.get(-1 if record.parent is None else record.parent)
    before = set() if parent is None else _numbers(parent.covers)
    covered = _numbers(record.covers)
    left = sorted(covered - before)
    rows = {row.compaction_id: row for row in store.open_log(session.session_id).compactions()}
    end = rows[compaction_id].compaction.next_seq
    kept = [seq for seq in range(end) if seq not in covered]
    archived = set()
    for start, stop in record.covers:
        offset = 0
        while True:
            page = store.entries(session.session_id, overlaps=(start, stop), offset=offset, limit=1_000)
            for entry in page.entries:
                archived |= set(range(entry.source_range.start, entry.source_range.end))
            if page.next_offset is None:
                break
            offset = page.next_offset
    return Change(
        record,
        [_shown(session, seq) for seq in left],
        [seq for seq in left if seq in archived],
        len(covered) - len(left),
        [_shown(session, seq) for seq in kept],
    )


def show_difference(change: Change) -> None:
    """Prints *change*: a line for each message, with what became of it."""
    record = change.record
    saved = record.tokens_before - record.tokens_after
    line(f"compaction {record.id} by {record.policy or 'nobody'}", "bold")
    line(f"reason {record.reason}{_why(record)}")
    line(f"{record.tokens_before:,} to {record.tokens_after:,} tokens: {saved:,} fewer in each request")
    if record.usage:
        sent, received = (
            sum(getattr(each, name) for each in record.usage) for name in ("input_tokens", "output_tokens")
        )
        line(f"cost: {len(record.usage)} model calls, {sent:,} tokens sent, {received:,} received")
    if change.earlier:
        line(
            f"{change.earlier:,} messages had been summarised before: the new summary stands for them too",
            "dim",
        )
    found = set(change.archived)
    room = max(_LEAST, output.width - _BEFORE)
    for each in change.summarised:
        mark = "- archived    " if each["seq"] in found else "- log only    "
        line(f"{mark}{each['seq']:>6}  {each['role']:<9}  {_cut(each['text'], room)}", "red")
    for place, text in enumerate(_summary_lines(record.summary)):
        line(f"{'+ summary      ' if place == 0 else _INDENT}{text}", "green")
    for each in change.kept:
        line(f"  kept        {each['seq']:>6}  {each['role']:<9}  {_cut(each['text'], room)}")
    line(
        f"{len(change.summarised):,} summarised, {len(change.archived):,} of them can be found by a search, "
        f"{len(change.kept):,} kept"
    )


def _why(record: CompactionRecord) -> str:
    said = _REASONS.get(record.reason, "")
    return f": {said}" if said else ""


def _summary_lines(summary: str) -> list[str]:
    """The summary; in a terminal its beginning, each line as long as there is room."""
    lines = [text for text in summary.strip().splitlines() if text.strip()]
    if not output.is_terminal:
        return lines
    room = max(_LEAST, output.width - len(_INDENT))
    shown = [_cut(text, room) for text in lines[:_SUMMARY]]
    if len(lines) > _SUMMARY:
        shown.append(f"... {len(lines) - _SUMMARY} more lines; without --diff all of them are shown")
    return shown


def _numbers(covers: tuple[tuple[int, int], ...]) -> set[int]:
    return {seq for start, end in covers for seq in range(start, end)}


def _shown(session: Session, seq: int) -> dict[str, Any]:
    (raw,) = session.log(seq, seq + 1)
    message = read_message(raw, seq)
    text = _CALL.sub(r"[\1 ", " ".join(in_words(message).split()))
    return {"seq": seq, "role": message.role, "text": _cut(text, _LONGEST)}


def _cut(text: str, room: int) -> str:
    """*text* in *room* columns."""
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 1).rstrip()}…"
