"""Commands that change a store: ``undo``, ``forget``, ``import`` and ``copy``."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from siltstone.cli.show import SessionId, StorePath, heading
from siltstone.cli.stores import (
    AnyStore,
    AsJson,
    Place,
    errors,
    find_store,
    line,
    opened,
    opened_session,
    print_json,
    printable,
    progress,
    refusals,
    refuse,
    shown,
    working,
)
from siltstone.cli.transcripts import read_transcripts
from siltstone.figures import plain, require_session
from siltstone.memory import ForgetReport
from siltstone.memory.limits import Limits
from siltstone.session import Session
from siltstone.session.opening import preset_of_store
from siltstone.session.transfer import import_everything, import_knowledge, import_segments, kind_of
from siltstone.stores import MemoryStore
from siltstone.stores.transfer import Copied, copy_store

# Commands that change a store: ``undo``, ``forget``, ``import``.


def undo(store: StorePath, session: SessionId, as_json: AsJson = False) -> None:
    """Take the last compaction of a session back.

    The messages that it covered, or that a branch left out, are in context again.

    Example: siltstone undo agent-data chat-1

    Exit code 1: there was no compaction to take back.
    """
    with refusals(), opened_session(store, session, read_only=False) as (_, held):
        record = held.undo_compaction()
    if as_json:
        print_json({"session": session, "undone": None if record is None else plain(asdict(record))})
    else:
        line("there is no compaction to take back" if record is None else f"taken back: {heading(record)}")
    raise typer.Exit(1 if record is None else 0)


def forget(
    store: StorePath,
    session: Annotated[str | None, typer.Option(help="This session alone.")] = None,
    start: Annotated[int | None, typer.Option(min=0, help="From this message on; needs --session.")] = None,
    end: Annotated[int | None, typer.Option(min=0, help="Up to this message, which stays.")] = None,
    entry: Annotated[list[int] | None, typer.Option(help="The id of an entry; may be repeated.")] = None,
    name: Annotated[str | None, typer.Option(help="Who said it, or the tool.")] = None,
    before: Annotated[datetime | None, typer.Option(help="Only entries from before, in local time.")] = None,
    text: Annotated[str | None, typer.Option(help="Only this text; `-` reads it from the input.")] = None,
    near: Annotated[bool, typer.Option("--near", help="Near spellings of the text too.")] = False,
    identifiers: Annotated[
        bool, typer.Option("--identifiers", help="The names of tools and the ids of calls too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget messages for ever.

    They leave the log, the memory, the summaries and the files. This cannot be undone.

    Example: siltstone forget agent-data --session chat-1 --text "door code" --dry-run

    A message is forgotten only if all given options apply to it. Without --yes the command shows the figures
    of a dry run and asks first; without a terminal it refuses. Exit code 1: some of the bytes are still
    there.
    """
    if text == "-":
        text = sys.stdin.read().removesuffix("\n")
    criteria: dict[str, Any] = {
        "session_id": session,
        "start": start,
        "end": end,
        "entry_ids": entry or None,
        "name": name,
        "before": None if before is None else before.astimezone(),
        "text": text,
        "near": near,
        "identifiers": identifiers,
    }
    with refusals():
        path = find_store(store)
        with opened(path, read_only=True) as held:
            if session is not None:
                require_session(held, session)
            report = held.forget(**criteria, dry_run=True)
        if not dry_run:
            if not yes:
                _ask(path, report)
            with working("forgetting", hidden=as_json), opened(path, read_only=False) as held:
                report = held.forget(**criteria)
    if as_json:
        print_json({"store": shown(path), **plain(asdict(report))})
    else:
        _tell(path, report)
    raise typer.Exit(0 if report.erased or report.dry_run else 1)


def import_transcript(
    transcript: Annotated[Path, typer.Argument(help="JSON lines: a message, or a session, each.")],
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="The directory of a store; a new one is made. Or postgresql://..."
        ),
    ],
    session: Annotated[str | None, typer.Option(help="The new session's id; of one session alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Append recorded messages to new sessions of a store.

    Messages keep all of their keys. Transcripts of Claude Code and exports of ChatGPT are recognised by their
    content.

    Example: siltstone import ~/.claude/projects/my-project/session.jsonl agent-data

    If a session already has messages, the whole transcript is refused, and nothing is written. A file of
    `siltstone export` with everything, a segments.jsonl or a knowledge.jsonl (with --session) is recognised
    by its first line; bad lines are counted.
    """
    with refusals():
        kind = kind_of(transcript)
    if kind != "transcript":
        _import_archive(transcript, store, session, kind, as_json=as_json)
        return
    with refusals():
        transcripts = read_transcripts(transcript, whole=True)
        if session is not None and len(transcripts) > 1:
            refuse(f"--session names one session, and {transcript} has {len(transcripts)}")
        names = [each.name if session is None else session for each in transcripts]
        if len(set(names)) < len(names):
            refuse(f"{transcript} has two sessions of the same id: {_twice(names)!r}")
        with working(f"importing {transcript.name}", hidden=as_json), _written(store) as held:
            for session_id in names:
                if held.stats(session_id).messages:
                    refuse(f"the store {shown(store)!r} has messages of session {session_id!r} already")
            own = preset_of_store(held)
            for session_id, each in zip(names, transcripts, strict=True):
                with Session.open(None, session_id, memory=held, preset=own) as new:
                    new.append(*each.messages)
    written = [
        {"session": session_id, "messages": len(each.messages)}
        for session_id, each in zip(names, transcripts, strict=True)
    ]
    if as_json:
        print_json({"store": shown(store), "sessions": written})
        return
    for done in written:
        line(f"{done['messages']} messages are in session {done['session']!r}")


def _import_archive(path: Path, store: Place, session: str | None, kind: str, *, as_json: bool) -> None:
    with refusals(), working(f"importing {path.name}", hidden=as_json), _written(store) as held:
        if kind == "everything":
            done = import_everything(held, path, session_id=session)
        elif kind == "segments":
            done = import_segments(held, path, session_id=session)
        elif session is None:
            refuse("facts belong to a session: name it with --session")
        else:
            done = import_knowledge(held, path, session_id=session)
    if as_json:
        print_json({"store": shown(store), "format": kind, **asdict(done)})
        return
    names = ", ".join(map(repr, done.sessions)) or "no session"
    line(
        f"{done.messages} messages, {done.compactions} compactions, {done.entries} entries and {done.facts} "
        f"facts are in {names}"
    )
    if done.duplicates or done.skipped:
        line(f"{done.duplicates} were there already; {done.skipped} lines could not be read")


def _written(store: Place) -> AbstractContextManager[AnyStore]:
    return opened(store, read_only=False, make=True)


def _ask(path: Place, report: ForgetReport) -> None:
    """Asks on the terminal. Without a terminal it refuses; if the answer is no, the command ends."""
    if not sys.stdin.isatty():
        refuse("nobody can be asked: say --yes, or --dry-run to see what would be forgotten")
    errors.print(printable(_figures(path, report)), highlight=False, markup=False, soft_wrap=True)
    if not typer.confirm("Forget this for ever?", err=True):
        raise typer.Exit(2)


def _tell(path: Place, report: ForgetReport) -> None:
    line(_figures(path, report))
    if report.kept:
        line(f"kept, as names and ids: {', '.join(report.kept)}")
    if "identifiers" in report.remaining:
        line("the text is in what is kept: --identifiers takes that as well")
    if report.near:
        line(f"other spellings stay: {', '.join(map(repr, report.near))}; --near takes them as well")
    if {"pages", "wal", "copies"} & set(report.remaining):
        line("PostgreSQL keeps the bytes for a while: siltstone postgres erase clears the tables")
    if "files" in report.remaining:
        line("a file of your own in a vault has the text; or another process used the store, and it goes "
             "with the next forget")  # fmt: skip


def _figures(path: Place, report: ForgetReport) -> str:
    done = "would be forgotten" if report.dry_run else "were forgotten"
    return (
        f"{shown(path)}: {report.messages} messages, {report.entries} entries and "
        f"{report.summaries} summaries of {report.sessions} sessions {done}"
    )


def _twice(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


# The command ``copy``: copies a whole store into another store.

#: The widest limits, so that every text is copied, whatever the limits of its writer were.
_WIDEST = Limits(text_bytes=256 << 20)


def copy(
    source: StorePath,
    target: Annotated[
        str,
        typer.Argument(
            metavar="OTHER", help="The directory of a store; a new one is made. Or postgresql://..."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Copy every session of a store into another store.

    Both are compared afterwards. If a copy was stopped, the same command continues it.

    Example: siltstone copy agent-data other-data

    Exit code 1: a session was written to meanwhile, and is not the same; run the command again. A session
    that has another history in the target is refused.
    """
    with (
        refusals(),
        opened(source, read_only=True) as here,
        opened(target, read_only=False, make=True, limits=_WIDEST) as there,
        progress(hidden=as_json) as bar,
    ):
        if shown(_place_of(here, source)) == shown(_place_of(there, target)):
            refuse(f"{shown(source)} and {shown(target)} are the same store")
        task = bar.add_task("copying", total=None)

        def tell(session: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"copying session {session!r}")

        copied = copy_store(here, there, progress=tell)
    if as_json:
        print_json({"source": shown(source), "target": shown(target), **asdict(copied)})
    else:
        _show(copied, target)
    raise typer.Exit(1 if copied.differing else 0)


def _place_of(store: AnyStore, place: Place) -> Place:
    """The place of *store*; *place* may be a path above or below its directory."""
    return store.path if isinstance(store, MemoryStore) else place


def _show(copied: Copied, target: Place) -> None:
    line(
        f"{shown(target)} has all {copied.sessions:,} sessions, {copied.skipped:,} of them from before: "
        f"{copied.messages:,} messages, {copied.compactions:,} compactions, {copied.entries:,} entries, "
        f"{copied.facts:,} facts; all of it was compared"
        if not copied.differing
        else f"written to meanwhile, and not the same: {', '.join(map(repr, copied.differing))}"
    )
