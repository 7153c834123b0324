"""The commands ``mcp`` and ``inspect``: they serve a store to clients of MCP, or as pages to a browser."""

from __future__ import annotations

import errno
import html
import os
import secrets
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from siltstone.cli import stores
from siltstone.cli.show import SessionId, StorePath
from siltstone.cli.stores import shown
from siltstone.figures import require_session
from siltstone.memory.base import Store
from siltstone.memory.opening import is_database

# The command ``mcp``: serves a session to clients of the Model Context Protocol.

_TOKEN_BYTES = 24


def mcp(
    store: Annotated[
        str,
        typer.Option(
            help="The directory of a store, or a path above or below it; or postgresql://USER@HOST/DATABASE."
        ),
    ],
    session: SessionId = None,
    namespace: Annotated[
        str | None, typer.Option(help="Search every session of this namespace; it needs no --session.")
    ] = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Let clients save memories and compact.")
    ] = False,
    allow_forget: Annotated[
        bool, typer.Option("--allow-forget", help="Let clients delete memories and messages for good.")
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP on 127.0.0.1, not standard input and output.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --http; 0 takes a free one.")] = 0,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SILTSTONE_MCP_TOKEN",
            help="With --http: what clients send as a bearer token. Left out, one is made and shown.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --http: print address and token as one JSON object.")
    ] = False,
) -> None:
    """Serve one session to MCP clients, such as Claude Code.

    Clients may read. They may save and forget only if the options below allow it. A client cannot choose
    another session.

    Example: siltstone mcp --store agent-data --session chat-1
    """
    if (port or as_json) and not http:
        stores.refuse("--port and --json go with --http")
    try:
        from siltstone.mcp import Access, open_memory, serve_http, serve_stdio
    except ImportError as error:
        stores.refuse(str(error))
    access = Access(allow_write, allow_forget)
    with stores.refusals():
        path = store if access.write and _is_free(store) else stores.find_store(store)
        memory = open_memory(path, session, access=access, namespace=namespace)
    with memory, stores.refusals():
        if not http:
            serve_stdio(memory)
            return
        made = token or secrets.token_urlsafe(_TOKEN_BYTES)

        def tell(address: str) -> None:
            if as_json:
                stores.print_json({"address": address, "token": made})
                return
            shown = "" if token else f" with the token {made}"
            stores.errors.print(f"siltstone: serving {address}{shown}", highlight=False, soft_wrap=True)

        serve_http(memory, made, port, tell)


def _is_free(store: str) -> bool:
    """Whether a new store can be made at *store*: an absent or empty directory."""
    path = Path(store)
    return not is_database(store) and (not path.exists() or (path.is_dir() and not any(path.iterdir())))


# The command ``inspect``: opens a page that shows a store.


def inspect(
    store: StorePath,
    session: Annotated[str | None, typer.Option("--session", "-s", help="Where to begin.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page undo, forget, pin and unpin, each after a preview.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of 127.0.0.1; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser; print the address.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write all pages into one new file, and serve nothing.")
    ] = None,
    as_json: stores.AsJson = False,
) -> None:
    """Open a live page that shows the contents of a store.

    It shows sessions, each compaction message by message, the results of searches and their reasons, facts,
    and the health of the store. It changes nothing unless --write allows it.

    Example: siltstone inspect agent-data --session chat-1

    The page is for this machine: it listens on 127.0.0.1, and the address has a token. Press Ctrl-C to stop.
    """
    try:
        from siltstone.inspector import Subject, link, serve, write_export
    except ImportError as error:
        stores.refuse(str(error))
    with stores.refusals():
        path = stores.find_store(store)
        name = shown(path)

        def open_store(read_only: bool) -> Store:
            return stores.open_place(path, read_only=read_only)

        subject = Subject(name, open_store, write=write)
    with subject, stores.refusals(), tempfile.TemporaryDirectory(prefix="siltstone-") as place:
        if session is not None:
            require_session(subject.store, session)
        if export is not None:
            with stores.working(f"writing {export.name}", hidden=as_json):
                length = write_export(subject, export, session)
            stores.tell(
                {"file": str(export), "bytes": length},
                f"{length:,} bytes are in {export}: open it in a browser",
                as_json=as_json,
            )
            return
        page = "/" if session is None else link("session", session=session)

        def tell(address: str) -> None:
            if as_json:
                stores.print_json({"address": address})
            else:
                said = f"siltstone: inspecting {name}\n{address}"
                stores.errors.print(said, highlight=False, soft_wrap=True)
            if not no_open:
                webbrowser.open(_door(Path(place), address))

        try:
            serve(subject, port, page, tell)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            stores.refuse(
                f"port {port} is in use: choose another with --port, or leave it out for a free one"
            )


def _door(place: Path, address: str) -> str:
    """The URL of a file that leads a browser to *address*.

    The address has a token, and other users can read the arguments of a process.
    """
    page = place / "open.html"
    descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        shown = html.escape(address, quote=True)
        file.write(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={shown}">'
        )
    return page.as_uri()
