"""The commands, their options and their exit codes.

Exit codes: 0: all is well. 1: the command ran, and found or left a fault. 2: bad usage or bad input; nothing
was changed.
"""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from siltstone import __version__, presets
from siltstone.cli import demo as demonstration, edit, replay as replaying, show, stores
from siltstone.cli.bench import bench
from siltstone.cli.doctor import Diagnosis, SecretsFound, examine, scan
from siltstone.cli.postgres import postgres
from siltstone.cli.serve import inspect, mcp
from siltstone.compaction import Compactor
from siltstone.config import policy_names
from siltstone.memory.opening import is_database
from siltstone.presets import preset_names
from siltstone.systems.base import Preset


class _Command(TyperCommand):
    """Says what to type to somebody who names a session, or a store, without its option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, extra, _ = self.make_parser(ctx).parse_args(args=list(args))
        named = {"--store", "--session"} - {*args}
        options = [name for each in self.params for name in each.opts if name in named]
        if extra and options:
            raise typer.BadParameter(f"what is {extra[0]!r}? Type {options[0]} {shlex.quote(extra[0])}")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="siltstone",
    help="Long-horizon memory for LLM agents: compaction, archive, search.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut long lines at the width of the terminal
)
for _command in (
    *(show.sessions, show.search, show.facts, show.show, show.log, show.compactions, show.context),
    *(show.timeline, show.recalls, show.expand, edit.undo, edit.forget, edit.delete, edit.compact_store),
    *(edit.import_transcripts, show.export, edit.copy, show.memory_status, show.compact_memories),
    *(mcp, inspect, bench),
):
    _name = _command.__name__.replace("_", "-").replace("import-transcripts", "import")
    app.command(_name, cls=_Command)(_command)
app.command(name="claude-hook", hidden=True)(edit.claude_hook)
app.add_typer(postgres)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"siltstone {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_tell_version),
    ] = False,
) -> None:
    """Long-horizon memory for LLM agents: compaction, archive, search."""


@app.command(name="demo")
def demo_command(
    store: Annotated[
        str,
        typer.Option(
            help="Directory of the store, or postgresql://USER@HOST/DATABASE; a second run goes on where the "
            "first ended."
        ),
    ] = "siltstone-demo",
    window: Annotated[int, typer.Option(min=4000, help="The model's window in tokens.")] = 16_000,
    turns: Annotated[int | None, typer.Option(min=1, help="Turns of the script at most.")] = None,
    preset: Annotated[
        str | None, typer.Option(help=f"A documented system: {', '.join(preset_names())}.")
    ] = None,
    as_json: stores.AsJson = False,
) -> None:
    """Let an offline agent work in a small window.

    It reads the Python standard library, and is asked about texts that have left its window.

    Example: siltstone demo --window 16000

    It needs no key, no network and no model: the agent is a script, its tool calls and their outputs are
    real.
    """
    with stores.refusals(), stores.progress(hidden=as_json) as bar:
        task = bar.add_task("reading the standard library", total=None)

        def tell(done: int, total: int, tokens: int) -> None:
            label = f"reading the standard library, {tokens:,} of {window:,} tokens in context"
            bar.update(task, completed=done, total=total, description=label)

        system = None if preset is None else presets.preset(preset)
        outcome = demonstration.run(store, window=window, preset=system, limit=turns, progress=tell)
    if as_json:
        stores.print_json(outcome.to_json())
        return
    demonstration.show(outcome, stores.output)
    stores.output.print(
        f"\nThe store is in {stores.shown(store)}: run the command again to reopen it.", highlight=False
    )


@app.command(name="replay")
def replay_command(
    transcript: Annotated[
        str, typer.Argument(help="A file, directory or zip of any format that import knows.")
    ],
    window: Annotated[int, typer.Option(min=1, help="The model's window in tokens.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of: {', '.join(policy_names())}; or a TOML file. May be given several times. "
            "[default: threshold]"
        ),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(help=f"A documented system: {', '.join(preset_names())}. May be given several times."),
    ] = None,
    model: Annotated[str, typer.Option(help=f"One of: {', '.join(replaying.MODELS)}.")] = "extractive",
    store: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="A new directory to keep the store in; a temporary one otherwise."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Draw the tokens over time, a stores.line for each policy: an SVG or PNG file."
        ),
    ] = None,
    as_json: stores.AsJson = False,
) -> None:
    """Run a policy over a recorded transcript.

    The messages are appended one by one, as in the life of an agent.

    Example: siltstone replay transcript.jsonl --window 20000 --policy threshold --policy tiered

    Exit code 1: a message was lost, a tool group was broken, or the window was exceeded.
    """
    stores.choice("--model", model, replaying.MODELS)
    if picture is not None:
        replaying.check_plot(picture)
    names, systems = policy or ([] if preset else ["threshold"]), preset or []
    if len(set(names)) < len(names):
        raise typer.BadParameter("each policy once", param_hint="--policy")
    if len(set(systems)) < len(systems):
        raise typer.BadParameter("each preset once", param_hint="--preset")
    with stores.refusals(), tempfile.TemporaryDirectory(prefix="siltstone-") as temporary:
        if store is not None and is_database(store):
            raise typer.BadParameter(
                "a replay makes a store of its own for each session, and takes a new directory, not the "
                "address of a database",
                param_hint="--store",
            )
        if store is not None and Path(store).exists():
            raise typer.BadParameter(f"{store} exists; a replay wants a new directory", param_hint="--store")
        policies: list[tuple[str, Compactor | Preset]] = [replaying.named_policy(name) for name in names]
        policies += [(name, presets.preset(name)) for name in systems]
        sessions = replaying.read_transcripts(transcript)
        replays: dict[str, list[replaying.Replay]] = {}
        with stores.progress(hidden=as_json) as bar:
            length = sum(len(session.messages) for session in sessions)
            task = bar.add_task("replaying", total=length * len(policies))
            for place, (label, chosen) in enumerate(policies):
                folder = Path(store or temporary)
                folder = folder if len(policies) == 1 else folder / str(place)
                replays[label] = [
                    replaying.replay(
                        session,
                        folder / str(number),
                        policy=chosen,
                        model=replaying.MODELS[model](),
                        window=window,
                        progress=lambda: bar.advance(task),
                    )
                    for number, session in enumerate(sessions)
                ]
    if picture is not None:
        replaying.plot(replays, window, picture)
    totals = {label: replaying.summed(results) for label, results in replays.items()}
    if as_json:
        told = [
            {
                "policy": label,
                "sessions": [result.to_json() for result in results],
                "total": totals[label].to_json(),
            }
            for label, results in replays.items()
        ]
        stores.print_json(told[0] if len(told) == 1 else {"policies": told})
    elif len(replays) == 1:
        stores.output.print(_replay_table([*next(iter(replays.values())), *totals.values()]))
    else:
        stores.output.print(_replay_table([replace(total, name=label) for label, total in totals.items()]))
    raise typer.Exit(0 if all(total.clean for total in totals.values()) else 1)


@app.command(name="doctor")
def doctor_command(
    path: show.StorePath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild derived rows; set damaged rows aside.")
    ] = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Look for secrets in its texts instead; nothing is changed.")
    ] = False,
    as_json: stores.AsJson = False,
) -> None:
    """Check every row of a store for damage, or for secrets.

    Example: siltstone doctor agent-data --repair

    Nothing is changed without --repair. With --secrets every text is checked by the rules of redaction. The
    place of each secret is printed, never the secret itself.

    Exit code 1: damage or a secret was found, and is still there.
    """
    if secrets:
        if repair:
            stores.refuse(
                "--secrets changes nothing, and goes without --repair; siltstone forget takes secrets out"
            )
        with stores.refusals(), stores.working("reading every text", hidden=as_json):
            found = scan(path)
        if as_json:
            stores.print_json(found.to_json())
        else:
            _show_secrets(found)
        raise typer.Exit(1 if found.secrets else 0)
    with stores.refusals(), stores.working("reading every row", hidden=as_json):
        diagnosis = examine(path, repair=repair)
    if as_json:
        stores.print_json(diagnosis.to_json())
    else:
        _show_diagnosis(diagnosis)
    raise typer.Exit(0 if diagnosis.healthy else 1)


def _show_secrets(found: SecretsFound) -> None:
    for each in found.secrets:
        place = f"{each.table} {each.id}".replace("session 0", "title") + f" {each.path}".rstrip()
        stores.line(f"{each.rule}: session {each.session!r}, {place}, {each.start}-{each.end}", "red")
    said = f"{len(found.secrets):,} secrets" if found.secrets else "no secret"
    stores.line(f"{found.path}: {found.texts:,} texts read; {said}")


def _show_diagnosis(diagnosis: Diagnosis) -> None:
    stats = diagnosis.stats
    held = "its contents cannot be told"
    if stats is not None:
        held = f"{stats.sessions:,} sessions, {stats.messages:,} messages, {stats.entries:,} entries"
        held += f", {stats.quarantined:,} in quarantine" * bool(stats.quarantined)
    for finding in diagnosis.findings:
        said = f"{'repaired: ' * finding.repaired}{finding.code}: {finding.message}"
        stores.line(said, "yellow" if finding.repaired else "red")
    wrong = [finding for finding in diagnosis.findings if not finding.repaired]
    said = f"{len(wrong):,} findings" if wrong else "nothing is wrong"
    stores.line(f"{diagnosis.path}: {held}; {said}")


def _replay_table(results: list[replaying.Replay]) -> Table:
    table = Table()
    for name in ("", *(result.name for result in results)):
        table.add_column(escape(name), overflow="fold")
    rows: list[dict[str, Any]] = [result.to_json() for result in results]
    for key in rows[0]:
        if key == "added_latency_us":
            for share in ("p50", "p99"):
                table.add_row(f"added latency, {share}, µs", *(f"{row[key][share]:,}" for row in rows))
        elif key == "retention":
            for kind in rows[0][key]:
                kept = [row[key][kind] for row in rows]
                said = (f"{each['in_context']} / {each['found']} / {each['lost']}" for each in kept)
                table.add_row(f"{kind}: in context / found / lost", *said)
        elif key == "evidence_kept":
            shares = (row[key] for row in rows)
            table.add_row("evidence kept", *("-" if each is None else f"{each:.1%}" for each in shares))
        elif key != "name":
            table.add_row(key.replace("_", " "), *(f"{row[key]:,}" for row in rows))
    return table
