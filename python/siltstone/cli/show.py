"""Commands that read a store and change nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.cells import cell_len, set_cell_size

from siltstone import figures, models, tokens
from siltstone._native import matching_lines
from siltstone.cli import stores
from siltstone.compaction.breakdown import ContextBreakdown
from siltstone.engine import Compacted, Failed
from siltstone.knowledge import MAX_FACTS, Fact
from siltstone.llm import EXTRACTIVE
from siltstone.memory import Ranker, RecallRecord, SearchHit, SearchOrder
from siltstone.memory.base import sessions_of
from siltstone.memory.convert import datetime_from
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.log import LogRow
from siltstone.messages import decode, in_words, read_history, read_message
from siltstone.session import Session
from siltstone.session.compactions import CompactionRecord
from siltstone.session.transfer import export_everything, export_knowledge, export_segments, export_vectors
from siltstone.tools.base import best_part

# The effect of one compaction on each message (kept, summarised, archived), and its reason.

_LONGEST = 60  #: the maximum characters of a message; a narrow terminal shows fewer
_BEFORE, _LEAST = 33, 20  #: the columns before a message, and the minimum columns of a message
_SUMMARY = 12  #: the maximum lines of a summary in a terminal
_INDENT = " " * 15
_CALL = re.compile(r"\[(call|result) \S+: ")  #: the ids of calls, which are left out


def change_json(change: figures.Change) -> dict[str, Any]:
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


def show_difference(change: figures.Change) -> None:
    """Prints *change*: a line for each message, with its fate."""
    record = change.record
    saved = record.tokens_before - record.tokens_after
    stores.line(f"compaction {record.id} by {record.policy or 'nobody'}", "bold")
    said = figures.why(record)
    stores.line(f"reason {record.reason}{f': {said}' if said else ''}")
    stores.line(
        f"{record.tokens_before:,} to {record.tokens_after:,} tokens: {saved:,} fewer in each request"
    )
    if record.seconds is not None:
        stores.line(f"took {record.seconds:,.3f} s")
    if record.usage:
        sent, received = (
            sum(getattr(each, name) for each in record.usage) for name in ("input_tokens", "output_tokens")
        )
        stores.line(f"cost: {len(record.usage)} model calls, {sent:,} tokens sent, {received:,} received")
    if change.earlier:
        stores.line(f"{change.earlier:,} messages had left before", "dim")
    width = max((len(fate.rule) + 2 for fate in change.fates if fate.rule), default=0)
    room = max(_LEAST, stores.output.width - _BEFORE - width)
    for fate in change.gone:
        each, mark = _shown(fate), "- archived    " if fate.is_archived else "- log only    "
        stores.line(
            f"{mark}{each['seq']:>6}  {each['role']:<9}  {fate.rule:<{width}}{_cut(each['text'], room)}",
            "red",
        )
    for place, text in enumerate(_summary_lines(record.summary)):
        stores.line(f"{'+ summary      ' if place == 0 else _INDENT}{text}", "green")
    for fate in change.kept:
        each, mark = _shown(fate), "kept        " if fate.kind == "kept" else "shortened   "
        stores.line(
            f"  {mark}{each['seq']:>6}  {each['role']:<9}  {fate.rule:<{width}}{_cut(each['text'], room)}"
        )
    found = sum(fate.is_archived for fate in change.gone)
    stores.line(
        f"{len(change.gone):,} summarised, {found:,} of them can be found by a search, "
        f"{len(change.kept):,} kept"
    )


def _summary_lines(summary: str) -> list[str]:
    """The lines of the summary; in a terminal only its first lines, cut to the width."""
    lines = [text for text in summary.strip().splitlines() if text.strip()]
    if not stores.output.is_terminal:
        return lines
    room = max(_LEAST, stores.output.width - len(_INDENT))
    shown = [_cut(text, room) for text in lines[:_SUMMARY]]
    if len(lines) > _SUMMARY:
        shown.append(f"... {len(lines) - _SUMMARY} more lines; without --diff all of them are shown")
    return shown


def _shown(fate: figures.Fate) -> dict[str, Any]:
    message = read_message(decode(fate.row.raw), fate.seq)
    text = _CALL.sub(r"[\1 ", " ".join(in_words(message).split()))
    return {"seq": fate.seq, "role": message.role, "rule": fate.rule, "text": _cut(text, _LONGEST)}


def _cut(text: str, room: int) -> str:
    """*text* cut to *room* columns."""
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 1).rstrip()}…"


# Shows the tokens of a context by category, with a bar for each.

_BAR, _LEAST_BAR = 60, 8  #: maximum and minimum columns of a full bar; the terminal's width decides
_FIGURES = 21  #: columns of the figures beside it
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_STYLES = {"sys": "magenta", "sum": "green", "wish": "red", "recall": "yellow", "rec": "blue", "new": "cyan"}


def draw(bands: dict[str, int], full: ContextBreakdown, window: int | None) -> None:
    """Prints a line for each category, with its tokens and its share.

    A terminal also gets a bar in each line, and a sentence about the whole above the lines.
    """
    whole = window or full.total_tokens
    shown = {**bands, "free": full.remaining_tokens} if window else bands
    widest = max(map(len, shown), default=0)
    room = max(_LEAST_BAR, min(_BAR, stores.output.width - widest - _FIGURES))
    if stores.output.is_terminal:
        stores.line(_sentence(full, window), "bold")
    for name, count in shown.items():
        share = min(1.0, count / whole) if whole else 0.0
        bar = f"{_share_bar(share, room, free=name == 'free')}  " if stores.output.is_terminal else ""
        stores.line(f"{name:<{widest}}  {bar}{count:>9,}  {share:>6.1%}", _style(name))


def _sentence(full: ContextBreakdown, window: int | None) -> str:
    said = f"{full.total_tokens:,} tokens"
    if window is not None:
        said += f" of {window:,}, {full.total_tokens / window:.0%}"
    summaries = " and summaries" * bool(full.summary_tokens)
    return f"{said}: {full.message_count:,} of {full.messages_seen:,} messages{summaries}"


def _share_bar(share: float, room: int, *, free: bool) -> str:
    """A bar of *share* of *room* columns. A share above 0 has at least an eighth of a column."""
    if free:
        return f"{'·' * round(room * share):<{room}}"
    eighths = max(round(room * 8 * share), share > 0)
    return f"{'█' * (eighths // 8) + _EIGHTHS[eighths % 8]:<{room}}"


def _style(name: str) -> str:
    return next((style for start, style in _STYLES.items() if name.startswith(start)), "dim")


# Commands that read a store and change nothing.

StorePath = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="The directory of a store, or a path above or below it; or postgresql://USER@HOST/DATABASE.",
    ),
]
SessionId = Annotated[
    str | None, typer.Option("--session", "-s", help="The session's id. [default: the only one of the store]")
]

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
    as_json: stores.AsJson = False,
) -> None:
    """List the sessions of a store.

    The sessions are in the order of their first writes.

    Example: siltstone sessions agent-data --limit 20
    """
    with stores.refusals(), stores.opened(store, read_only=True) as held:
        page = held.sessions(namespace, start, limit)
    if as_json:
        stores.print_json(figures.plain(asdict(page)))
        return
    for each in page.sessions:
        active = "no messages" if each.last_at is None else f"last active {stores.moment(each.last_at)}"
        said = [f"{each.messages:,} messages", f"{each.tokens:,} tokens", f"{each.entries:,} entries"]
        said += [f"{each.compactions:,} compactions", active]
        stores.line(
            f"{each.session_id}  {f'[{each.namespace}]  ' if each.namespace else ''}{', '.join(said)}"
        )
        if each.title:
            stores.line(f"  {' '.join(each.title.split())}", "dim")
    stores.line(f"{len(page.sessions)} sessions")
    if page.next_offset is not None:
        stores.line(f"more with --start {page.next_offset}")


def search(
    store: StorePath,
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    session: SessionId = None,
    namespace: Annotated[
        str | None, typer.Option(help="Search the sessions of this namespace alone.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Hits at most.")] = 5,
    ranker: Annotated[str, typer.Option(help=f"One of: {', '.join(_RANKERS)}.")] = "lexical",
    order: Annotated[str, typer.Option(help="score: the best first; time: as they were said.")] = "score",
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    as_json: stores.AsJson = False,
) -> None:
    """Search the memory of a session; without one, of all sessions of the store.

    It has the messages that compactions discarded, those that are still in context, and entries that the host
    indexed. A session with a namespace finds what all sessions of it said.

    Example: siltstone search agent-data "door code" --session chat-1
    """
    stores.choice("--ranker", ranker, _RANKERS)
    stores.choice("--order", order, dict.fromkeys(get_args(SearchOrder)))
    with stores.refusals(), stores.opened(store, read_only=True) as memory, stores.working("searching"):
        hits = list[SearchHit]()
        for name in [session] if session is not None else _each_once(memory, namespace):
            with Session.open(
                None, figures.require_session(memory, name), memory=memory, preset=None
            ) as held:
                hits += held.search(query, limit, ranker=ranker, explain=explain, order=order)  # type: ignore[arg-type]
        if session is None:
            hits = sorted(hits, key=lambda hit: hit.score, reverse=True)[:limit]
            hits.sort(key=lambda hit: hit.created_at if order == "time" else 0)
    if as_json:
        stores.print_json(
            {"session": session, "query": query, "hits": [figures.plain(asdict(hit)) for hit in hits]}
        )
        return
    for hit in hits:
        start, end = hit.source_range
        place = f"message {start}" if end == start + 1 else f"messages {start}-{end - 1}"
        said = f", of {hit.session_id}" if hit.session_id != session else ""
        said += ", in context" if hit.in_context else ""
        said += f", {hit.times} times" if hit.times > 1 else ""
        stores.line(f"{hit.score:.3f}  {place}, {hit.role}, {stores.moment(hit.created_at)}{said}", "cyan")
        stores.line(hit_text(hit.content, query, is_terminal=stores.output.is_terminal))
        for said in figures.explained(hit.explain or {}):
            stores.line(f"  {said}", "dim")
        stores.line("")
    stores.line(f"{len(hits)} hits")


def _each_once(store: stores.AnyStore, namespace: str | None) -> list[str]:
    """A session of each namespace, whose search finds what all of it said, and every session without one."""
    scopes = {
        (each.namespace, each.namespace or each.session_id): each.session_id
        for each in sessions_of(store, namespace)
    }
    if namespace is not None and not scopes:
        known = ", ".join(sorted({repr(each.namespace) for each in sessions_of(store)} - {"''"}))
        stores.refuse(
            f"the store has no session of the namespace {namespace!r}; it has {known or 'no namespace'}"
        )
    return list(scopes.values())


def hit_text(content: str, query: str, *, is_terminal: bool) -> str:
    """*content* of a hit. In a terminal a long text is cut to its best part for *query*, with its length."""
    part = best_part(content, query, MOST_SHOWN) if is_terminal else content
    if part == content:
        return content
    return f"{part}\n(a part of {len(content):,} characters: siltstone show has all of it)"


def show(
    store: StorePath,
    session: SessionId = None,
    start: Annotated[int, typer.Option(min=0, help="From this message on.")] = 0,
    end: Annotated[int | None, typer.Option(min=0, help="Up to this message, which is left out.")] = None,
    as_json: stores.AsJson = False,
) -> None:
    """Show the messages of a session, with their numbers.

    The log has every message ever appended.

    Example: siltstone show agent-data --start 40 --end 60
    """
    with stores.refusals(), stores.opened(store, read_only=True) as held:
        session = figures.require_session(held, session)
        with stores.working("reading", hidden=as_json):
            rows = list(figures.log_rows(held.open_log(session), start, end))
        if as_json:
            stores.print_json({"session": session, "messages": [_row(row) for row in rows]})
            return
        for row in rows:
            said = f"{row.seq}  {row.role}, {row.tokens} tokens, {stores.moment(_time(row))}"
            stores.line(said if row.provenance == "original" else f"{said}, {row.provenance}", "dim")
            stores.line(f"{_text(row)}\n")


def log(
    store: StorePath,
    session: SessionId = None,
    grep: Annotated[
        str, typer.Option("--grep", help="A regular expression; (?i) at its beginning ignores case.")
    ] = "",
    as_json: stores.AsJson = False,
) -> None:
    """Search the log of a session for lines that match.

    The log has every message ever appended, wherever it is now. Without --grep every line is shown.

    Example: siltstone log agent-data --grep "door code"
    """
    found: list[dict[str, Any]] = []
    with stores.refusals(), stores.opened(store, read_only=True) as held, stores.working("reading"):
        session = figures.require_session(held, session)
        for row in figures.log_rows(held.open_log(session), 0, None):
            lines = _text(row).split("\n")
            matched = [lines[number] for number in matching_lines("\n".join(lines), grep)]
            if matched:
                said = stores.moment(_time(row))
                found.append({"message": row.seq, "role": row.role, "said": said, "lines": matched})
    if as_json:
        stores.print_json({"session": session, "messages": found})
        return
    for each in found:
        stores.line(f"{each['message']}  {each['role']}, {each['said']}", "dim")
        for text in each["lines"]:
            stores.line(text)
    hint = "; (?i) at the beginning of --grep ignores case" if grep and not found else ""
    stores.line(f"{len(found)} messages{hint}")


def compactions(
    store: StorePath,
    session: SessionId = None,
    undone: Annotated[bool, typer.Option("--undone", help="Those that were taken back as well.")] = False,
    diff: Annotated[
        int | None, typer.Option("--diff", help="The id of one: its kept, summarised and archived messages.")
    ] = None,
    as_json: stores.AsJson = False,
) -> None:
    """List the compactions of a session, oldest first.

    Each is shown with its summary. A branch of the history is listed too.

    Example: siltstone compactions agent-data --diff 2
    """
    if diff is not None:
        with stores.refusals(), stores.opened_session(store, session, read_only=True) as (memory, held):
            session = held.session_id
            change = figures.difference(held, memory, diff)
        if as_json:
            stores.print_json({"session": session, **change_json(change)})
        else:
            show_difference(change)
        return
    with stores.refusals(), stores.opened_session(store, session, read_only=True) as (_, held):
        session, records = held.session_id, held.compactions(undone=undone)
    if as_json:
        listed = [figures.plain(asdict(record)) for record in records]
        stores.print_json({"session": session, "compactions": listed})
        return
    for record in records:
        stores.line(heading(record), "dim")
        stores.line(f"{record.summary}\n")
    stores.line(f"{len(records)} compactions")


def context(
    store: StorePath,
    session: SessionId = None,
    window: Annotated[int | None, typer.Option(min=1, help="The model's window in tokens.")] = None,
    estimator: Annotated[str, typer.Option(help="How tokens are counted.")] = "blocks",
    recall: Annotated[bool, typer.Option("--recall", help="Also what recall added to all requests.")] = False,
    as_json: stores.AsJson = False,
) -> None:
    """Show the tokens of the last request of a session, by category.

    Example: siltstone context agent-data --window 200000

    Exit code 1: the context is larger than the window.
    """
    with stores.refusals(), stores.opened_session(store, session, read_only=True) as (memory, held):
        session, rule = held.session_id, tokens.rule(estimator)
        records, log = held.recalls(MOST_RECALLS), memory.open_log(session)
        bands, full = figures.filling(held, window, rule, memory.stats(session).messages, records)
        cost = figures.recall_cost(log, figures.told(log)[1], records) if recall else {}
    names = ("summary_tokens", "message_tokens", "total_tokens", "message_count", "messages_seen")
    shown: dict[str, Any] = {name: getattr(full, name) for name in names}
    if window is not None:
        shown |= {
            "context_window": window,
            "remaining_tokens": full.remaining_tokens,
            "percent": full.percent,
        }
    if as_json:
        costs = {"categories": bands} | ({"recall": cost} if recall else {})
        stores.print_json({"session": session, "estimator": estimator, **shown, **costs})
    else:
        draw(bands, full, window)
        for name, value in ({**cost} if stores.output.is_terminal else {**shown, **cost}).items():
            stores.line(f"{name.replace('_', ' ')}: {value:,}")
    raise typer.Exit(1 if window is not None and full.total_tokens > window else 0)


def expand(
    store: StorePath,
    compaction: Annotated[int, typer.Argument(help="Its id, as `siltstone compactions` shows it.")],
    session: SessionId = None,
    as_json: stores.AsJson = False,
) -> None:
    """Show the messages that a summary replaced.

    For a branch, they are the messages that left with it.

    Example: siltstone expand agent-data 2 --session chat-1
    """
    with stores.refusals(), stores.opened_session(store, session, read_only=True) as (_, held):
        session, messages = held.session_id, held.expand(compaction)
    if as_json:
        stores.print_json({"session": session, "compaction": compaction, "messages": messages})
        return
    for place, raw in enumerate(messages):
        message = read_message(raw, place)
        stores.line(message.role, "dim")
        stores.line(f"{in_words(message)}\n")
    stores.line(f"{len(messages)} messages")


def export(
    store: StorePath,
    session: SessionId = None,
    transcript: Annotated[
        Path | None, typer.Argument(help="A new file; standard output where it is left out.")
    ] = None,
    kind: Annotated[
        FileFormat, typer.Option("--format", help="What to write; all but a transcript need a file.")
    ] = FileFormat.transcript,
    as_json: stores.AsJson = False,
) -> None:
    """Write the messages of a session as JSON lines.

    The messages are as they were appended, and `import` reads them back.

    Example: siltstone export agent-data chat-1.jsonl --session chat-1

    The format `everything` has the whole session. The other formats are the documented files of an archive.
    With --json a file is needed, and the command prints the figures of the export.
    """
    if kind is not FileFormat.transcript:
        _export_archive(store, session, transcript, kind, as_json=as_json)
        return
    if as_json and transcript is None:
        stores.refuse("--json tells what was written to a file: name one")
    with stores.refusals(), stores.opened(store, read_only=True) as held:
        session = figures.require_session(held, session)
        texts = (row.raw for row in figures.log_rows(held.open_log(session), 0, None))
        if transcript is None:
            for text in texts:
                typer.echo(text)
            return
        count = 0
        with (
            stores.working(f"writing {transcript.name}", hidden=as_json),
            transcript.open("x", encoding="utf-8") as file,
        ):
            for count, text in enumerate(texts, 1):  # noqa: B007 - the number of texts
                file.write(f"{text}\n")
    stores.tell(
        {"session": session, "transcript": str(transcript), "messages": count},
        f"{count} messages of session {session!r} are in {transcript}",
        as_json=as_json,
    )


def _export_archive(
    store: stores.Place, session: str | None, path: Path | None, kind: FileFormat, *, as_json: bool
) -> None:
    if path is None:
        stores.refuse(f"--format {kind.value} needs a file")
    if path.exists():
        stores.refuse(f"{path} exists already")
    with stores.refusals(), stores.opened(store, read_only=True) as held:
        session = figures.require_session(held, session)
        with stores.working(f"writing {path.name}", hidden=as_json):
            count = _WRITERS[kind](held, [session], path)
    stores.tell(
        {"session": session, "format": kind.value, "file": str(path), "records": count},
        f"{count} records of session {session!r} are in {path}",
        as_json=as_json,
    )


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
    covers = ", ".join(
        f"{start}-{end - 1}" if end - start > 1 else f"{start}" for start, end in record.covers
    )
    said = [
        f"compaction {record.id}, {stores.moment(record.created_at)}: {record.reason}",
        f"messages {covers or 'none'}",
        f"{record.tokens_before:,} to {record.tokens_after:,} tokens",
        f"{record.messages_before:,} to {record.messages_after:,} messages",
    ]
    if record.seconds is not None:
        said.append(f"{record.seconds:,.3f} s")
    said += [word for word in ("degraded", "suspect", "undone", "redacted") if getattr(record, word)]
    return "; ".join(said)


def _time(row: LogRow) -> datetime:
    return datetime_from(row.created_at)


# The command ``timeline``: shows each turn of a session, and the tokens in context after it.

_SAID = 44  # columns before the bar


def timeline(store: StorePath, session: SessionId = None, as_json: stores.AsJson = False) -> None:
    """Show a session turn by turn, in tokens.

    It shows the tokens of each turn, the tokens in context after it, and each compaction.

    Example: siltstone timeline agent-data
    """
    with stores.refusals(), stores.opened(store, read_only=True) as held, stores.working("reading"):
        session = figures.require_session(held, session)
        turns, marks = figures.told(held.open_log(session))
    if as_json:
        shown = {"turns": [asdict(each) for each in turns], "compactions": [asdict(each) for each in marks]}
        stores.print_json(figures.plain({"session": session, **shown}))
        return
    most = max([*(turn.context for turn in turns), *(mark.tokens_before for mark in marks)], default=0)
    if turns:
        stores.line(f"{'turn':>4}  {'messages':<13}  {'said':>9}  {'in context':>10}", "bold")
    waiting = list(marks)
    for turn in turns:
        span = f"{turn.start}-{turn.end - 1}" if turn.end - turn.start > 1 else f"{turn.start}"
        said = f"{turn.turn:>4}  {span:<13}  {turn.tokens:>9,}  {turn.context:>10,}"
        stores.line(f"{said}  {_bar(turn.context, most)}".rstrip())
        while waiting and waiting[0].seq <= turn.end:
            stores.line(_mark_line(waiting.pop(0)), "yellow")
    stores.line(f"{len(turns)} turns, {len(marks)} compactions")


def _mark_line(mark: figures.Mark) -> str:
    change = f"{mark.tokens_before:,} to {mark.tokens_after:,} tokens"
    return f"   ▼  compaction {mark.id} before message {mark.seq}: {mark.reason}, {change}"


def _bar(tokens: int, most: int) -> str:
    """*tokens* as a bar; empty without a terminal."""
    if not stores.output.is_terminal or not most:
        return ""
    longest = max(_LEAST_BAR, min(_BAR, stores.output.width - _SAID))
    return "█" * round(longest * tokens / most)


# The command ``recalls``: shows the recalls of a session before the calls of its model.

_SHORT = 30  #: the maximum tokens of a shown text


def recalls(
    store: StorePath,
    session: SessionId = None,
    limit: Annotated[int, typer.Option(min=1, help="Recalls at most, the newest first.")] = 10,
    as_json: stores.AsJson = False,
) -> None:
    """Show the recalls of a session.

    For each call of the model it shows the entries that were placed before it, the entries that had no room,
    and the time.

    Example: siltstone recalls agent-data --limit 3
    """
    with stores.refusals(), stores.opened_session(store, session, read_only=True) as (held, shown):
        session, found = shown.session_id, figures.recalls(shown, held, limit)
    if as_json:
        stores.print_json({"session": session, "recalls": [_json(each) for each in found]})
        return
    for each in found:
        stores.line(f"before message {each.record.position}  {stores.moment(each.record.at)}", "cyan")
        stores.line(f"  {_figures(each.record)}")
        if each.query:
            stores.line(f"  asked: {_short(each.query, each.query)}", "dim")
        for entry in each.entries:
            stores.line(f"  {_hit_line(entry, each.query)}")
    stores.line(f"{len(found)} recalls")


def _figures(record: RecallRecord) -> str:
    """The figures of a recall as one line."""
    said = [f"{record.tokens:,} of {record.cap:,} tokens", f"{len(record.placed)} entries placed"]
    if record.facts:
        said.append(f"{record.facts} facts placed")
    if record.left_out:
        said.append(f"{len(record.left_out)} had no room")
    said += [f"{record.below} scored too little", f"{record.seconds * 1e3:.1f} ms"]
    return ", ".join(
        [*([figures.RECALL_REASONS.get(record.reason, record.reason)] if record.reason else []), *said]
    )


def _hit_line(found: figures.RecalledEntry, query: str) -> str:
    candidate, entry = found.candidate, found.entry
    tokens = "" if candidate.tokens is None else f"{candidate.tokens:,} tokens, "
    said = f"{candidate.score:.3f}  {tokens}{figures.PLACINGS[candidate.placing]}"
    if entry is None:
        return f"{said}: forgotten"
    return f"{said}: {_short(entry.content, query)}"


def _short(text: str, query: str) -> str:
    """The best part of *text* for *query*, on one line."""
    return " ".join(best_part(text, query, _SHORT).split())


def _json(shown: figures.ShownRecall) -> dict[str, Any]:
    record: dict[str, Any] = figures.plain(asdict(shown.record))
    for candidate, each in zip(record["candidates"], shown.entries, strict=True):
        candidate["content"] = None if each.entry is None else each.entry.content
    return {**record, "asked": shown.query}


# The command ``facts``: lists the facts of a session.


def facts(
    store: StorePath,
    session: SessionId = None,
    query: Annotated[str | None, typer.Argument(help="What to look for; all facts without it.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Facts at most.")] = 100,
    as_of: Annotated[datetime | None, typer.Option(help="What held then, in local time.")] = None,
    topic: Annotated[str | None, typer.Option(help="Facts of this topic alone.")] = None,
    entity: Annotated[str | None, typer.Option(help="Facts with this entity alone.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also what was superseded, taken back, or has ended.")
    ] = False,
    why: Annotated[
        str | None, typer.Option(help="The id of a fact: from which messages it is, and what it replaced.")
    ] = None,
    standing: Annotated[bool, typer.Option("--standing", help="The user's standing wishes alone.")] = False,
    retract: Annotated[str | None, typer.Option(help="The id of a fact that holds no more.")] = None,
    restore: Annotated[str | None, typer.Option(help="The id of a past fact that holds again.")] = None,
    as_json: stores.AsJson = False,
) -> None:
    """List the facts of a session that hold now, or take one back.

    The newest facts come first; with a query, the best matches.

    Example: siltstone facts agent-data "favourite colour"
    """
    with (
        stores.refusals(),
        stores.opened_session(store, session, read_only=not (retract or restore)) as (_, known),
    ):
        session = known.session_id
        for fact_id, change in ((retract, known.retract), (restore, known.restore)):
            if fact_id is not None and not change(fact_id):
                raise typer.BadParameter(f"session {session!r} has no such fact to change: {fact_id}")
        sources: list[str] = []
        found = (
            known.standing()
            if standing
            else known.facts(
                query,
                limit if why is None else MAX_FACTS,
                as_of=None if as_of is None else as_of.astimezone(),
                topic=topic,
                entity=entity,
                history=history or why is not None,
            )
        )
        if why is not None:
            found = [fact for fact in found if why in (fact.id, fact.superseded_by)]
            if not found:
                raise typer.BadParameter(f"session {session!r} has no such fact to explain: {why}")
            sources = [said for fact in found for said in _source(fact, known)]
    if as_json:
        stores.print_json({"session": session, "facts": [figures.plain(asdict(fact)) for fact in found]})
        return
    for said in sources:
        stores.line(said)
    for fact in found:
        learned = stores.moment(datetime_from(fact.created_at))
        stores.line(f"{fact.id}  {fact.type}, {learned}{_ended(fact)}", "dim")
        stores.line(f"{fact.content}\n")
    stores.line(f"{len(found)} facts")


def _source(fact: Fact, known: Session) -> Iterator[str]:
    """The messages that *fact* is from."""
    said = "; ".join(f"messages {start} to {end - 1}" for start, end in fact.source_ranges) or "no message"
    who = fact.speaker or "nobody who is known"
    yield f"{fact.id} was said by {who}: {said} of session {fact.session_id}"
    for start, end in fact.source_ranges if fact.session_id == known.session_id else ():
        for message in read_history(known.log(start, end)):
            yield f"  {message.role}: {message.text[:200]}"


def _ended(fact: Fact) -> str:
    if fact.deleted_at is not None:
        return ", taken back"
    if fact.superseded_by is None:
        return ""
    return f", superseded by {fact.superseded_by} ({fact.superseded_because})"


# Commands on waterfall memory: ``memory-status`` and ``compact-memories``.


def memory_status(store: StorePath, session: SessionId = None, as_json: stores.AsJson = False) -> None:
    """Show the state of the memory of a waterfall session.

    It shows the range of each summary, and messages that are missing.

    Example: siltstone memory-status agent-data

    Exit code 1: a message is missing.
    """
    with stores.refusals(), _session(store, session, EXTRACTIVE) as held:  # a report asks no model
        session, report = held.session_id, held.memory_status()
    if as_json:
        told = {name: getattr(report, name) for name in ("line", "warnings", "errors", "markdown")}
        stores.print_json({"session": session, **told})
    else:
        stores.line(report.markdown.rstrip())
    raise typer.Exit(1 if report.errors else 0)


def compact_memories(
    store: StorePath,
    session: SessionId = None,
    model: Annotated[
        str | None,
        typer.Option(help="gpt-5-mini, claude-sonnet-5, URL or URL#NAME; extractive quotes lines."),
    ] = None,
    as_json: stores.AsJson = False,
) -> None:
    """Summarise a waterfall session now, even if no run is due.

    Example: siltstone compact-memories agent-data

    If a model has written the summaries so far, name it with --model. Exit code 1: nothing was compacted; the
    reason is printed.
    """
    with (
        stores.refusals(),
        _session(store, session, model) as held,
        stores.working("summarising", hidden=as_json),
    ):
        writers = {use.model for each in held.compactions() for use in each.usage}
        if model is None and writers - {EXTRACTIVE}:
            stores.refuse("a model wrote the summaries of this session: name it with --model, or say "
                   "--model extractive to quote lines")  # fmt: skip
        session, outcome = held.session_id, held.compact_memories()
    done = isinstance(outcome, Compacted)
    reason = "" if isinstance(outcome, Compacted) else f"{outcome.reason}: {outcome.message}"
    if as_json:
        kind = "compacted" if done else "failed" if isinstance(outcome, Failed) else "skipped"
        sizes = {"tokens_before": outcome.tokens_before, "tokens_after": outcome.tokens_after}
        stores.print_json({"session": session, "outcome": kind, "reason": reason, **sizes})
    else:
        stores.line(reason or f"compacted: {outcome.tokens_before:,} to {outcome.tokens_after:,} tokens")
    raise typer.Exit(0 if done else 1)


@contextmanager
def _session(store: stores.Place, session_id: str | None, model: str | None = None) -> Iterator[Session]:
    """The session, with the preset that it was begun with, and with the named *model*."""
    path = stores.find_store(store)
    with stores.opened(path, read_only=True) as held:
        session_id = figures.require_session(held, session_id)
    options: Any = {} if model is None else {"model": _writer(model)}
    with Session.open(path, session_id, **options) as session:
        yield session


def _writer(name: str) -> Any:
    """The model of a provider, or of an endpoint that completes texts."""
    try:
        if "://" in name:
            return models.CompletionModel(*name.split("#", 1))
        maker = models.anthropic if "claude" in name else models.openai
        return models.ExtractiveModel() if name == EXTRACTIVE else maker(name)
    except Exception as error:  # of an SDK that is not installed, or finds no key
        stores.refuse(f"--model {name!r}: {error}")
