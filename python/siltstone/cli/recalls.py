"""The command ``recalls``: shows the recalls of a session before the calls of its model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from siltstone.cli.console import AsJson, line, moment, print_json, refusals
from siltstone.cli.looking import SessionId, StorePath
from siltstone.cli.stores import opened_session
from siltstone.figures.reading import plain
from siltstone.figures.recalls import PLACINGS, REASONS, RecalledEntry, ShownRecall, recalls as recalls_of
from siltstone.memory import RecallRecord
from siltstone.tools.budget import best_part

__all__ = ["recalls"]

_SHORT = 30  #: the maximum tokens of a shown text


def recalls(
    store: StorePath,
    session: SessionId,
    limit: Annotated[int, typer.Option(min=1, help="Recalls at most, the newest first.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the recalls of a session.

    For each call of the model it shows the entries that were placed before it, the entries that had no room,
    and the time.

    Example: siltstone recalls agent-data chat-1 --limit 3
    """
    with refusals(), opened_session(store, session, read_only=True) as (held, shown):
        found = recalls_of(shown, held, limit)
    if as_json:
        print_json({"session": session, "recalls": [_json(each) for each in found]})
        return
    for each in found:
        line(f"before message {each.record.position}  {moment(each.record.at)}", "cyan")
        line(f"  {_figures(each.record)}")
        if each.query:
            line(f"  asked: {_short(each.query, each.query)}", "dim")
        for entry in each.entries:
            line(f"  {_told(entry, each.query)}")
    line(f"{len(found)} recalls")


def _figures(record: RecallRecord) -> str:
    """The figures of a recall as one line."""
    said = [f"{record.tokens:,} of {record.cap:,} tokens", f"{len(record.placed)} entries placed"]
    if record.facts:
        said.append(f"{record.facts} facts placed")
    if record.left_out:
        said.append(f"{len(record.left_out)} had no room")
    said += [f"{record.below} scored too little", f"{record.seconds * 1e3:.1f} ms"]
    return ", ".join([*([REASONS.get(record.reason, record.reason)] if record.reason else []), *said])


def _told(found: RecalledEntry, query: str) -> str:
    candidate, entry = found.candidate, found.entry
    tokens = "" if candidate.tokens is None else f"{candidate.tokens:,} tokens, "
    said = f"{candidate.score:.3f}  {tokens}{PLACINGS[candidate.placing]}"
    if entry is None:
        return f"{said}: forgotten"
    return f"{said}: {_short(entry.content, query)}"


def _short(text: str, query: str) -> str:
    """The best part of *text* for *query*, on one line."""
    return " ".join(best_part(text, query, _SHORT).split())


def _json(shown: ShownRecall) -> dict[str, Any]:
    record: dict[str, Any] = plain(asdict(shown.record))
    for candidate, each in zip(record["candidates"], shown.entries, strict=True):
        candidate["content"] = None if each.entry is None else each.entry.content
    return {**record, "asked": shown.query}
