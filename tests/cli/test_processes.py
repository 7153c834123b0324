"""Every command in a process of its own: its output for people and for programs, and its end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from conversations import small, turns
from siltstone import Entry, Session
from siltstone.cli.app import app
from siltstone.engine import Compacted
from siltstone.testing import ScriptedModel

SERVED = {"claude-hook", "inspect", "mcp"}  # their clients are in tests/inspector and tests/mcp


class Case(NamedTuple):
    """A command as it is typed. STORE, FILE and NEW stand for paths; *code* is its exit code."""

    typed: str
    keys: str
    code: int = 0

    @property
    def name(self) -> str:
        return self.typed.split()[0]


CASES = [
    Case("demo --store NEW --turns 12", "turns compactions questions"),
    Case("replay FILE --window 4000", "policy sessions total"),
    Case("sessions STORE", "sessions next_offset"),
    Case("search STORE -s work question --explain", "session query hits"),
    Case("facts STORE -s work", "session facts"),
    Case("show STORE -s work", "session messages"),
    Case("log STORE -s work --grep question", "session messages"),
    Case("compactions STORE -s work", "session compactions"),
    Case("compactions STORE -s work --diff 1", "session compaction summarised kept archived"),
    Case("context STORE -s work --window 100000", "session total_tokens categories percent"),
    Case("context STORE -s work --window 10", "session total_tokens categories percent", 1),
    Case("timeline STORE -s work", "session turns compactions"),
    Case("recalls STORE -s work", "session recalls"),
    Case("expand STORE -s work 1", "session compaction messages"),
    Case("undo STORE -s work", "session undone"),
    Case("undo STORE -s notes", "session undone", 1),
    Case("forget STORE --text question --dry-run", "store messages dry_run"),
    Case("forget STORE --text question --yes", "store messages erased"),
    Case("delete STORE -s work --yes", "store session messages entries"),
    Case("compact-store STORE", "store before after"),
    Case("import FILE NEW", "store sessions"),
    Case("export STORE -s work NEW", "session transcript messages"),
    Case("memory-status WATERFALL -s work", "session line warnings errors"),
    Case("compact-memories WATERFALL -s work", "session outcome", 1),
    Case("copy STORE NEW", "source target sessions"),
    Case("bench --messages 100", "siltstone messages microseconds"),
    Case("doctor STORE", "path healthy findings"),
    Case("doctor STORE --secrets", "path texts secrets"),
]


def siltstone(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [sys.executable, "-m", "siltstone", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, one of the preset ``waterfall``, and a transcript; each test has a copy."""
    folder = tmp_path_factory.mktemp("made")
    with Session.open(folder / "STORE", "work", policy=small(), model=ScriptedModel()) as session:
        session.append(*(message for turn in turns(8) for message in turn))
        assert isinstance(session.compact(), Compacted)
        session.store.index("notes", [Entry("the fox", (0, 1))])
    with Session.open(folder / "WATERFALL", "work", preset="waterfall", context_window=20_000) as session:
        session.append(*(message for turn in turns(2) for message in turn))
    lines = [json.dumps(message) for turn in turns(6) for message in turn]
    (folder / "FILE").write_text("\n".join(lines), "utf-8")
    return folder


@pytest.fixture
def typed(made: Path, tmp_path: Path) -> Any:
    """The arguments of a case, over a copy."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)

    def arguments(case: Case, *more: str) -> list[str]:
        places = ("STORE", "FILE", "NEW", "WATERFALL")
        return [str(tmp_path / word) if word in places else word for word in (*case.typed.split(), *more)]

    return arguments


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.typed)
def test_it_prints_one_json_object_and_ends_with_its_exit_code(case: Case, typed: Any) -> None:
    told = CliRunner().invoke(app, typed(case, "--json"))
    assert (told.exit_code, told.stderr) == (case.code, "")
    assert set(case.keys.split()) <= json.loads(told.stdout).keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.typed)
def test_where_it_is_piped_there_is_no_colour_and_no_bar(case: Case, typed: Any) -> None:
    told = siltstone(*typed(case))
    assert told.returncode == case.code, told.stderr
    assert told.stdout.strip()
    assert told.stderr == ""
    assert not re.search("[\x1b\x08\r█░⠋]", told.stdout)


@pytest.mark.parametrize(
    "command", [*sorted({case.name for case in CASES} - {"bench", "demo", "import", "replay"}), "mcp --store"]
)
def test_a_store_that_is_not_there_is_one_line_and_exit_code_2(command: str, tmp_path: Path) -> None:
    more = {
        "search": ["q"], "copy": ["other"], "expand": ["1"], "forget": ["--name", "x"], "delete": ["--whole"],
    }  # fmt: skip
    told = siltstone(*command.split(), str(tmp_path / "none"), *more.get(command, []))
    assert (told.returncode, told.stdout) == (2, "")
    assert re.fullmatch(r"siltstone: .*none.*\n", told.stderr)
    assert list(tmp_path.iterdir()) == []


def test_every_command_is_run_here_and_its_help_has_an_example() -> None:
    names = {command.name for command in app.registered_commands}
    assert {case.name for case in CASES} | SERVED == names
    for command in app.registered_commands:
        said = " ".join((command.callback.__doc__ or "").split())
        assert f"Example: siltstone {command.name} " in said, command.name


def test_the_help_of_a_command_says_when_its_exit_code_is_1() -> None:
    may_end_with_1 = {
        command.name
        for command in app.registered_commands
        if "Exit code 1: " in " ".join((command.callback.__doc__ or "").split())
    }
    assert {case.name for case in CASES if case.code == 1} <= may_end_with_1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    told = siltstone("--show-completion", shell)
    assert told.returncode == 0, told.stderr
    assert "siltstone" in told.stdout.lower()


def test_a_word_that_was_begun_is_completed() -> None:
    told = siltstone(_SILTSTONE_COMPLETE="complete_bash", COMP_WORDS="siltstone comp", COMP_CWORD="1")
    assert {"compactions", "compact-memories"} <= set(told.stdout.split())
