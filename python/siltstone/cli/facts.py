"""The command ``facts``: lists the facts of a session."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from siltstone.cli.console import AsJson, line, moment, print_json, refusals
from siltstone.cli.looking import SessionId, StorePath
from siltstone.cli.stores import opened
from siltstone.figures.reading import plain
from siltstone.knowledge import Fact
from siltstone.memory.convert import datetime_from
from siltstone.session import Session

__all__ = ["facts"]


def facts(
    store: StorePath,
    session: SessionId,
    query: Annotated[str | None, typer.Argument(help="What to look for; all facts without it.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Facts at most.")] = 100,
    as_of: Annotated[datetime | None, typer.Option(help="What held then, in local time.")] = None,
    topic: Annotated[str | None, typer.Option(help="Facts of this topic alone.")] = None,
    entity: Annotated[str | None, typer.Option(help="Facts with this entity alone.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also what was superseded, taken back, or has ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the facts of a session that hold now.

    The newest facts come first; with a query, the best matches.

    Example: siltstone facts agent-data chat-1 "favourite colour"
    """
    with (
        refusals(),
        opened(store, read_only=True) as held,
        Session.open(None, session, memory=held, preset=None) as known,
    ):
        found = known.facts(
            query,
            limit,
            as_of=None if as_of is None else as_of.astimezone(),
            topic=topic,
            entity=entity,
            history=history,
        )
    if as_json:
        print_json({"session": session, "facts": [plain(asdict(fact)) for fact in found]})
        return
    for fact in found:
        line(f"{fact.id}  {fact.type}, {moment(datetime_from(fact.created_at))}{_ended(fact)}", "dim")
        line(f"{fact.content}\n")
    line(f"{len(found)} facts")


def _ended(fact: Fact) -> str:
    if fact.deleted_at is not None:
        return ", taken back"
    return "" if fact.superseded_by is None else f", superseded by {fact.superseded_by}"
