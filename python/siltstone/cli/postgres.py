"""The commands ``postgres setup``, ``check`` and ``erase``, for the operator of a store in PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from siltstone.cli.stores import AsJson, line, parts_of, print_json, refusals, tell, working
from siltstone.memory import Finding

Address = Annotated[
    str,
    typer.Argument(
        help="postgresql://USER@HOST/DATABASE, with #SCHEMA behind it if that is not `siltstone`. "
        "Give a password by PGPASSWORD or ~/.pgpass."
    ),
]

postgres = typer.Typer(
    name="postgres",
    help="Make the tables of a store in PostgreSQL, look at them, or erase what was deleted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@postgres.command(name="setup")
def setup(address: Address, as_json: AsJson = False) -> None:
    """Make the tables of a store, if they do not exist.

    Example: siltstone postgres setup postgresql://owner@db.example/app

    The role needs the right to create tables. Several processes may run it at once.
    """
    from siltstone.postgres import PostgresStore, administration as operator

    with refusals():
        conninfo, schema = parts_of(address)
        shown = operator.address(conninfo)
        with working("making tables", hidden=as_json):
            PostgresStore.open(conninfo, schema=schema, setup=True).close()
    tell(
        {"address": shown, "schema": schema},
        f"{shown}: schema {schema!r} has the tables of a store",
        as_json=as_json,
    )


@postgres.command(name="check")
def check(address: Address, as_json: AsJson = False) -> None:
    """Compare every row with its checksum, and check the durability of writes.

    Example: siltstone postgres check postgresql://app@db.example/app

    Exit code 1: a row is damaged, or a crash of the server may lose acknowledged writes.
    """
    from siltstone.postgres import PostgresStore, administration as operator

    with refusals():
        conninfo, schema = parts_of(address)
        shown = operator.address(conninfo)
        with working("reading every row", hidden=as_json):
            standing = operator.look(conninfo, schema)
            with PostgresStore.open(conninfo, schema=schema, read_only=True) as store:
                findings, stats = store.check(), store.stats()
    if as_json:
        held = {"sessions": stats.sessions, "messages": stats.messages, "entries": stats.entries}
        told: dict[str, Any] = {"address": shown, "schema": schema, **asdict(standing), **held}
        print_json({**told, "findings": [asdict(finding) for finding in findings]})
    else:
        role = ", a standby" if standing.is_standby else ""
        line(f"{shown}: PostgreSQL {standing.server}{role}, schema {schema!r} of version {standing.tables}")
        fsync, standbys = "on" if standing.fsync else "off", standing.standbys or "no standby"
        commit = standing.synchronous_commit
        line(f"fsync is {fsync}, synchronous_commit is {commit}; a write waits for {standbys}")
        line(f"{stats.sessions:,} sessions, {stats.messages:,} messages, {stats.entries:,} entries")
        _tell(findings, standing.warnings)
    raise typer.Exit(1 if findings or standing.warnings else 0)


def _tell(findings: list[Finding], warnings: tuple[str, ...]) -> None:
    for finding in findings:
        line(f"{finding.code}: {finding.message}", "red")
    for warning in warnings:
        line(warning, "yellow")
    if not findings and not warnings:
        line("nothing is wrong")


@postgres.command(name="erase")
def erase(address: Address, as_json: AsJson = False) -> None:
    """Rewrite the tables, so that forgotten texts leave their files.

    Example: siltstone postgres erase postgresql://owner@db.example/app

    Each table is locked meanwhile, and needs disk space for a second copy. Exit code 1: some forgotten texts
    are still in the files of the tables.
    """
    from siltstone.postgres import administration as operator

    with refusals():
        conninfo, schema = parts_of(address)
        shown = operator.address(conninfo)
        with working("rewriting tables", hidden=as_json):
            erased = operator.erase(conninfo, schema)
    if as_json:
        print_json({"address": shown, "schema": schema, "done": erased.done, **asdict(erased)})
    else:
        line(f"{shown}: the tables of schema {schema!r} were rewritten, {erased.bytes_before:,} to "
             f"{erased.bytes_after:,} bytes")  # fmt: skip
        if not erased.checkpoint:
            line("the old files go with the next checkpoint, which needs the role pg_checkpoint", "yellow")
        if erased.transactions:
            line(f"{erased.transactions} transactions are open, which may keep rows: run it again", "yellow")
        following = "" if erased.standbys is None else f" ({erased.standbys} now)"
        line("out of reach: the server's log until it is recycled" + ", its archive" * erased.archive
             + f", standbys{following} until theirs is, and backups")  # fmt: skip
    raise typer.Exit(0 if erased.done else 1)
