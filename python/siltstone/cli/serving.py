"""The command ``mcp``: serves a session to clients of the Model Context Protocol."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from siltstone.cli.console import errors, print_json, refusals, refuse
from siltstone.cli.stores import find_store
from siltstone.memory.opening import is_database

__all__ = ["mcp"]

_TOKEN_BYTES = 24


def mcp(
    store: Annotated[
        str,
        typer.Option(
            help="The directory of a store, or a path above or below it; or postgresql://USER@HOST/DATABASE."
        ),
    ],
    session: Annotated[
        str | None, typer.Option(help="The session's id; left out, the only session of the store.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Search what every session of this namespace said.")
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
        refuse("--port and --json go with --http")
    try:
        from siltstone.mcp import Access, open_memory, serve_http, serve_stdio
    except ImportError as error:
        refuse(str(error))
    access = Access(allow_write, allow_forget)
    with refusals():
        path = store if access.write and _is_free(store) else find_store(store)
        memory = open_memory(path, session, access=access, namespace=namespace)
    with memory, refusals():
        if not http:
            serve_stdio(memory)
            return
        made = token or secrets.token_urlsafe(_TOKEN_BYTES)

        def tell(address: str) -> None:
            if as_json:
                print_json({"address": address, "token": made})
                return
            shown = "" if token else f" with the token {made}"
            errors.print(f"siltstone: serving {address}{shown}", highlight=False, soft_wrap=True)

        serve_http(memory, made, port, tell)


def _is_free(store: str) -> bool:
    """Whether a new store can be made at *store*: an absent or empty directory."""
    path = Path(store)
    return not is_database(store) and (not path.exists() or (path.is_dir() and not any(path.iterdir())))
