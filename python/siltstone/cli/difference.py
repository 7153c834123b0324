"""The effect of one compaction on each message (kept, summarised, archived), and its reason."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len, set_cell_size

from siltstone.cli.console import line, output
from siltstone.figures.difference import Change, Fate, why
from siltstone.messages import decode, in_words, read_message

__all__ = ["change_json", "show_difference"]

_LONGEST = 60  #: the maximum characters of a message; a narrow terminal shows fewer
_BEFORE, _LEAST = 33, 20  #: the columns before a message, and the minimum columns of a message
_SUMMARY = 12  #: the maximum lines of a summary in a terminal
_INDENT = " " * 15
_CALL = re.compile(r"\[(call|result) \S+: ")  #: the ids of calls, which are left out


def change_json(change: Change) -> dict[str, Any]:
    """The figures of a compaction, and its messages by their numbers."""
    record = change.record
    return {
        "compaction": record.id,
        "policy": record.policy,
        "reason": record.reason,
        "threshold": record.threshold,
        "reserved_tokens": record.reserved_tokens,
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "before": {kind: asdict(share) for kind, share in change.shares_before.items()},
        "after": {kind: asdict(share) for kind, share in change.shares_after.items()},
        "model_calls": len(record.usage),
        "input_tokens": sum(each.input_tokens for each in record.usage),
        "output_tokens": sum(each.output_tokens for each in record.usage),
        "seconds": record.seconds,
        "summary": record.summary,
        "summarised": [_shown(fate) for fate in change.gone],
        "archived": [fate.seq for fate in change.gone if fate.is_archived],
        "summarised_earlier": change.earlier,
        "kept": [_shown(fate) for fate in change.kept],
    }


def show_difference(change: Change) -> None:
    """Prints *change*: a line for each message, with its fate."""
    record = change.record
    saved = record.tokens_before - record.tokens_after
    line(f"compaction {record.id} by {record.policy or 'nobody'}", "bold")
    said = why(record)
    line(f"reason {record.reason}{f': {said}' if said else ''}")
    line(f"{record.tokens_before:,} to {record.tokens_after:,} tokens: {saved:,} fewer in each request")
    if record.seconds is not None:
        line(f"took {record.seconds:,.3f} s")
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
    width = max((len(fate.rule) + 2 for fate in change.fates if fate.rule), default=0)
    room = max(_LEAST, output.width - _BEFORE - width)
    for fate in change.gone:
        each, mark = _shown(fate), "- archived    " if fate.is_archived else "- log only    "
        line(
            f"{mark}{each['seq']:>6}  {each['role']:<9}  {fate.rule:<{width}}{_cut(each['text'], room)}",
            "red",
        )
    for place, text in enumerate(_summary_lines(record.summary)):
        line(f"{'+ summary      ' if place == 0 else _INDENT}{text}", "green")
    for fate in change.kept:
        each, mark = _shown(fate), "kept        " if fate.kind == "kept" else "shortened   "
        line(f"  {mark}{each['seq']:>6}  {each['role']:<9}  {fate.rule:<{width}}{_cut(each['text'], room)}")
    found = sum(fate.is_archived for fate in change.gone)
    line(
        f"{len(change.gone):,} summarised, {found:,} of them can be found by a search, "
        f"{len(change.kept):,} kept"
    )


def _summary_lines(summary: str) -> list[str]:
    """The lines of the summary; in a terminal only its first lines, cut to the width."""
    lines = [text for text in summary.strip().splitlines() if text.strip()]
    if not output.is_terminal:
        return lines
    room = max(_LEAST, output.width - len(_INDENT))
    shown = [_cut(text, room) for text in lines[:_SUMMARY]]
    if len(lines) > _SUMMARY:
        shown.append(f"... {len(lines) - _SUMMARY} more lines; without --diff all of them are shown")
    return shown


def _shown(fate: Fate) -> dict[str, Any]:
    message = read_message(decode(fate.row.raw), fate.seq)
    text = _CALL.sub(r"[\1 ", " ".join(in_words(message).split()))
    return {"seq": fate.seq, "role": message.role, "rule": fate.rule, "text": _cut(text, _LONGEST)}


def _cut(text: str, room: int) -> str:
    """*text* cut to *room* columns."""
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 1).rstrip()}…"
