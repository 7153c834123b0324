"""Commands that read a store and change nothing."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from siltstone import tokens
from siltstone.cli.console import AsJson, choice, line, moment, output, print_json, refusals, refuse, working
from siltstone.cli.difference import change_json, show_difference
from siltstone.cli.filling import draw
from siltstone.cli.stores import Place, opened, opened_session
from siltstone.compaction import breakdown
from siltstone.figures.difference import difference
from siltstone.figures.filling import categories
from siltstone.figures.reading import log_rows, plain, require_session
from siltstone.figures.scores import explained
from siltstone.memory import Ranker, SearchOrder
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import LogRow
from siltstone.messages import decode, in_words, read_history, read_message
from siltstone.session import (
    CompactionRecord,
    export_everything,
    export_knowledge,
    export_segments,
    export_vectors,
)
from siltstone.tools.budget import best_part

__all__ = [
    "SessionId",
    "StorePath",
    "compactions",
    "context",
    "expand",
    "export",
    "heading",
    "search",
    "sessions",
    "show",
]

StorePath = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="The directory of a store, or a path above or below it; or postgresql://USER@HOST/DATABASE.",
    ),
]
SessionId = Annotated[str, typer.Argument(help="The session's id.")]

_RANKERS = {ranker: None for ranker in get_args(Ranker) if ranker not in ("dense", "fused")}
MOST_SHOWN = 120  #: the maximum tokens of a hit in a terminal


class FileFormat(StrEnum):
    """The formats of `export`."""

    transcript = "transcript"
    everything = "everything"
    segments = "segments"
    knowledge = "knowledge"
    vectors = "vectors"


_WRITERS = {
    FileFormat.everything: export_everything,
    FileFormat.segments: export_segments,
    FileFormat.knowledge: export_knowledge,
    FileFormat.vectors: export_vectors,
}


def sessions(
    store: StorePath,
    namespace: Annotated[
        str | None, typer.Option(help="Only sessions of this namespace; '' for those without one.")
    ] = None,
    start: Annotated[int, typer.Option(min=0, help="How many to leave out first.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Sessions at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a store.

    The sessions are in the order of their first writes.

    Example: siltstone sessions agent-data --limit 20
    """
    with refusals(), opened(store, read_only=True) as held:
        page = held.sessions(namespace, start, limit)
    if as_json:
        print_json(plain(asdict(page)))
        return
    for each in page.sessions:
        active = "no messages" if each.last_at is None else f"last active {moment(each.last_at)}"
        said = [f"{each.messages:,} messages", f"{each.tokens:,} tokens", f"{each.entries:,} entries"]
        said += [f"{each.compactions:,} compactions", active]
        line(f"{each.session_id}  {f'[{each.namespace}]  ' if each.namespace else ''}{', '.join(said)}")
        if each.title:
            line(f"  {' '.join(each.title.split())}", "dim")
    line(f"{len(page.sessions)} sessions")
    if page.next_offset is not None:
        line(f"more with --start {page.next_offset}")


def search(
    store: StorePath,
    session: SessionId,
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    limit: Annotated[int, typer.Option(min=0, help="Hits at most.")] = 5,
    ranker: Annotated[str, typer.Option(help=f"One of: {', '.join(_RANKERS)}.")] = "lexical",
    order: Annotated[str, typer.Option(help="score: the best first; time: as they were said.")] = "score",
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the memory of a session.

    The memory has the messages that compactions discarded, and entries that the host indexed.

    Example: siltstone search agent-data chat-1 "door code" --explain
    """
    choice("--ranker", ranker, _RANKERS)
    choice("--order", order, dict.fromkeys(get_args(SearchOrder)))
    with refusals(), opened(store, read_only=True) as held:
        require_session(held, session)
        hits = held.search(session, query, limit, ranker, explain=explain, order=order)  # type: ignore[arg-type]
    if as_json:
        print_json({"session": session, "query": query, "hits": [plain(asdict(hit)) for hit in hits]})
        return
    for hit in hits:
        start, end = hit.source_range
        place = f"message {start}" if end == start + 1 else f"messages {start}-{end - 1}"
        line(f"{hit.score:.3f}  {place}, {hit.role}, {moment(hit.created_at)}", "cyan")
        line(hit_text(hit.content, query, is_terminal=output.is_terminal))
        for said in explained(hit.explain or {}):
            line(f"  {said}", "dim")
        line("")
    line(f"{len(hits)} hits")


def hit_text(content: str, query: str, *, is_terminal: bool) -> str:
    """*content* of a hit. In a terminal a long text is cut to its best part for *query*, with its length."""
    part = best_part(content, query, MOST_SHOWN) if is_terminal else content
    if part == content:
        return content
    return f"{part}\n(a part of {len(content):,} characters: siltstone show has all of it)"


def show(
    store: StorePath,
    session: SessionId,
    start: Annotated[int, typer.Option(min=0, help="From this message on.")] = 0,
    end: Annotated[int | None, typer.Option(min=0, help="Up to this message, which is left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the messages of a session, with their numbers.

    The log has every message ever appended.

    Example: siltstone show agent-data chat-1 --start 40 --end 60
    """
    with refusals(), opened(store, read_only=True) as held:
        require_session(held, session)
        rows = list(log_rows(held.open_log(session), start, end))
        if as_json:
            print_json({"session": session, "messages": [_row(row) for row in rows]})
            return
        for row in rows:
            said = f"{row.seq}  {row.role}, {row.tokens} tokens, {moment(_time(row))}"
            line(said if row.provenance == "original" else f"{said}, {row.provenance}", "dim")
            line(f"{_text(row)}\n")


def compactions(
    store: StorePath,
    session: SessionId,
    undone: Annotated[bool, typer.Option("--undone", help="Those that were taken back as well.")] = False,
    diff: Annotated[
        int | None, typer.Option("--diff", help="The id of one: its kept, summarised and archived messages.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the compactions of a session, oldest first.

    Each is shown with its summary. A branch of the history is listed too.

    Example: siltstone compactions agent-data chat-1 --diff 2
    """
    if diff is not None:
        with refusals(), opened_session(store, session, read_only=True) as (memory, held):
            change = difference(held, memory, diff)
        if as_json:
            print_json({"session": session, **change_json(change)})
        else:
            show_difference(change)
        return
    with refusals(), opened_session(store, session, read_only=True) as (_, held):
        records = held.compactions(undone=undone)
    if as_json:
        print_json({"session": session, "compactions": [plain(asdict(record)) for record in records]})
        return
    for record in records:
        line(heading(record), "dim")
        line(f"{record.summary}\n")
    line(f"{len(records)} compactions")


def context(
    store: StorePath,
    session: SessionId,
    window: Annotated[int | None, typer.Option(min=1, help="The model's window in tokens.")] = None,
    estimator: Annotated[str, typer.Option(help="How tokens are counted.")] = "blocks",
    as_json: AsJson = False,
) -> None:
    """Show the tokens in the context of a session, by category.

    Example: siltstone context agent-data chat-1 --window 200000

    Exit code 1: the context is larger than the window.
    """
    with refusals(), opened_session(store, session, read_only=True) as (memory, held):
        rule = tokens.rule(estimator)
        view = read_history(held.history())
        full = breakdown(view, window, estimator=rule, messages_seen=memory.stats(session).messages)
        bands = categories(view, rule)
    shown: dict[str, Any] = {
        "summary_tokens": full.summary_tokens,
        "message_tokens": full.message_tokens,
        "total_tokens": full.total_tokens,
        "message_count": full.message_count,
        "messages_seen": full.messages_seen,
    }
    if window is not None:
        shown |= {
            "context_window": window,
            "remaining_tokens": full.remaining_tokens,
            "percent": full.percent,
        }
    if as_json:
        print_json({"session": session, "estimator": estimator, **shown, "categories": bands})
    else:
        draw(bands, full, window)
        if not output.is_terminal:
            for name, value in shown.items():
                line(f"{name.replace('_', ' ')}: {value:,}")
    raise typer.Exit(1 if window is not None and full.total_tokens > window else 0)


def expand(
    store: StorePath,
    session: SessionId,
    compaction: Annotated[int, typer.Argument(help="Its id, as `siltstone compactions` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show the messages that a summary replaced.

    For a branch, they are the messages that left with it.

    Example: siltstone expand agent-data chat-1 2
    """
    with refusals(), opened_session(store, session, read_only=True) as (_, held):
        messages = held.expand(compaction)
    if as_json:
        print_json({"session": session, "compaction": compaction, "messages": messages})
        return
    for place, raw in enumerate(messages):
        message = read_message(raw, place)
        line(message.role, "dim")
        line(f"{in_words(message)}\n")
    line(f"{len(messages)} messages")


def export(
    store: StorePath,
    session: SessionId,
    transcript: Annotated[
        Path | None, typer.Argument(help="A new file; standard output where it is left out.")
    ] = None,
    kind: Annotated[
        FileFormat, typer.Option("--format", help="What to write; all but a transcript need a file.")
    ] = FileFormat.transcript,
    as_json: AsJson = False,
) -> None:
    """Write the messages of a session as JSON lines.

    The messages are as they were appended, and `import` reads them back.

    Example: siltstone export agent-data chat-1 chat-1.jsonl

    The format `everything` has the whole session. The other formats are the documented files of an archive.
    With --json a file is needed, and the command prints the figures of the export.
    """
    if kind is not FileFormat.transcript:
        _export_archive(store, session, transcript, kind, as_json=as_json)
        return
    if as_json and transcript is None:
        refuse("--json tells what was written to a file: name one")
    with refusals(), opened(store, read_only=True) as held:
        require_session(held, session)
        texts = (row.raw for row in log_rows(held.open_log(session), 0, None))
        if transcript is None:
            for text in texts:
                typer.echo(text)
            return
        count = 0
        with (
            working(f"writing {transcript.name}", hidden=as_json),
            transcript.open("x", encoding="utf-8") as file,
        ):
            for count, text in enumerate(texts, 1):  # noqa: B007 - the number of texts
                file.write(f"{text}\n")
    if as_json:
        print_json({"session": session, "transcript": str(transcript), "messages": count})
    else:
        line(f"{count} messages of session {session!r} are in {transcript}")


def _export_archive(
    store: Place, session: str, path: Path | None, kind: FileFormat, *, as_json: bool
) -> None:
    if path is None:
        refuse(f"--format {kind.value} needs a file")
    if path.exists():
        refuse(f"{path} exists already")
    with (
        refusals(),
        working(f"writing {path.name}", hidden=as_json),
        opened(store, read_only=True) as held,
    ):
        require_session(held, session)
        count = _WRITERS[kind](held, [session], path)
    if as_json:
        print_json({"session": session, "format": kind.value, "file": str(path), "records": count})
    else:
        line(f"{count} records of session {session!r} are in {path}")


def _row(row: LogRow) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "role": row.role,
        "provenance": row.provenance,
        "tokens": row.tokens,
        "created_at": _time(row).isoformat(),
        "message": decode(row.raw),
    }


def _text(row: LogRow) -> str:
    return in_words(read_message(decode(row.raw), row.seq))


def heading(record: CompactionRecord) -> str:
    """A compaction or a branch in one line, without its summary."""
    covers = ", ".join(f"{start}-{end - 1}" for start, end in record.covers)
    said = [
        f"compaction {record.id}, {moment(record.created_at)}: {record.reason}",
        f"messages {covers or 'none'}",
        f"{record.tokens_before:,} to {record.tokens_after:,} tokens",
        f"{record.messages_before:,} to {record.messages_after:,} messages",
    ]
    if record.seconds is not None:
        said.append(f"{record.seconds:,.3f} s")
    said += [word for word in ("degraded", "undone", "redacted") if getattr(record, word)]
    return "; ".join(said)


def _time(row: LogRow) -> datetime:
    return datetime_from(row.created_at)
