"""Commands on waterfall memory: ``memory-status`` and ``compact-memories``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from siltstone.cli.console import AsJson, line, print_json, refusals, working
from siltstone.cli.looking import SessionId, StorePath
from siltstone.cli.stores import Place, find_store, opened
from siltstone.figures.reading import require_session
from siltstone.outcome import Compacted, Failed
from siltstone.session import Session

__all__ = ["compact_memories", "memory_status"]


def memory_status(store: StorePath, session: SessionId, as_json: AsJson = False) -> None:
    """Show the state of the memory of a waterfall session.

    It shows the range of each summary, and messages that are missing.

    Example: siltstone memory-status agent-data chat-1

    Exit code 1: a message is missing.
    """
    with refusals(), _session(store, session) as held:
        report = held.memory_status()
    if as_json:
        told = {name: getattr(report, name) for name in ("line", "warnings", "errors", "markdown")}
        print_json({"session": session, **told})
    else:
        line(report.markdown.rstrip())
    raise typer.Exit(1 if report.errors else 0)


def compact_memories(store: StorePath, session: SessionId, as_json: AsJson = False) -> None:
    """Summarise a waterfall session now, even if no run is due.

    Example: siltstone compact-memories agent-data chat-1

    Exit code 1: nothing was compacted; the reason is printed.
    """
    with refusals(), _session(store, session) as held, working("summarising", hidden=as_json):
        outcome = held.compact_memories()
    done = isinstance(outcome, Compacted)
    reason = "" if isinstance(outcome, Compacted) else f"{outcome.reason}: {outcome.message}"
    if as_json:
        kind = "compacted" if done else "failed" if isinstance(outcome, Failed) else "skipped"
        figures = {"tokens_before": outcome.tokens_before, "tokens_after": outcome.tokens_after}
        print_json({"session": session, "outcome": kind, "reason": reason, **figures})
    else:
        line(reason or f"compacted: {outcome.tokens_before:,} to {outcome.tokens_after:,} tokens")
    raise typer.Exit(0 if done else 1)


@contextmanager
def _session(store: Place, session_id: str) -> Iterator[Session]:
    """The session, with the preset that it was begun with."""
    path = find_store(store)
    with opened(path, read_only=True) as held:
        require_session(held, session_id)
    with Session.open(path, session_id) as session:
        yield session
