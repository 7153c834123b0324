"""Draws the screens of docs/command-line.md: commands over a session of made-up valves, 80 columns wide.

python scripts/screens.py           writes docs/screens/*.svg
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.terminal_theme import MONOKAI

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.cli import show
from siltstone.cli.demo import SYSTEM, turns
from siltstone.cli.stores import output

FOLDER = Path(__file__).parent.parent / "docs" / "screens"
COLUMNS = 80
STORE = "agent-data"
ASKED = "service of valve 7"
CONTEXT = {"session": "reader", "window": 8_000, "estimator": "blocks", "recall": True}
EXPLAIN = {"query": ASKED, "limit": 2, "ranker": "lexical", "explain": True}
#: Rich's own form without the fonts that it would fetch: a page of ours loads nothing from elsewhere.
FORM = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def filled(folder: str) -> None:
    """A session that was compacted several times: an agent reads gauges by a tool."""
    config = CompactionConfig(auto_compact_threshold=1_400, recent_turn_budget=2, max_summary_tokens=300)
    with Session.open(folder, "chat-1", policy=ThresholdCompactor(config), context_window=2_000) as session:
        session.append({"role": "system", "content": "You look after a pumping station. Be brief."})
        for valve in range(30):
            call = {"name": "read_gauge", "arguments": f'{{"valve": {valve}}}'}
            session.append({"role": "user", "content": f"How is valve {valve}?"})
            session.prepare()
            calls = [{"id": f"call_{valve}", "type": "function", "function": call}]
            session.append(
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": f"call_{valve}", "content": gauge(valve)},
                {"role": "assistant", "content": f"Valve {valve} holds {valve * 3} bar, as it should."},
            )


def read(folder: str) -> None:
    """A session with a wish: an agent reads the standard library, and is asked about what has left."""
    with Session.open(folder, "reader", context_window=8_000, recall=True) as session:
        session.append(SYSTEM, {"role": "user", "content": "From now on name the file of each answer."})
        session.append({"role": "assistant", "content": "I will."})
        for number, turn in enumerate(turns()):
            for message in turn.messages(number):
                if message["role"] == "assistant":
                    session.prepare()
                session.append(message)
        session.append({"role": "user", "content": "Where does json decode a surrogate pair?"})
        session.prepare()


def gauge(valve: int) -> str:
    """The answer of the tool about a valve."""
    rows = (f"  minute {minute:02}: {valve * 3 + minute % 2}.{minute} bar" for minute in range(5))
    return "\n".join([f"valve {valve}, last service {1 + valve % 28:02} March", *rows])


def drawn(name: str, title: str, command: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Runs *command*, and writes its output."""
    output.record, output.width, output._force_terminal = True, COLUMNS, True
    try:
        command(*arguments, **options)
    except typer.Exit as end:
        if end.exit_code:
            raise
    svg = output.export_svg(title=f"$ {title}", theme=MONOKAI, code_format=FORM, unique_id=name)
    (FOLDER / f"{name}.svg").write_text(f"{svg}\n", "utf-8")


def main() -> int:
    """The exit code."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        filled(folder)
        store = Path(folder)
        with Session.open(folder, "chat-1", policy=None) as session:
            second = session.compactions()[1].id
        read(folder)
        for name, arguments, command, options in (
            ("context", "context {} -s reader --window 8000 --recall", show.context, CONTEXT),
            ("timeline", "timeline {} -s chat-1", show.timeline, {}),
            ("diff", f"compactions {{}} -s chat-1 --diff {second}", show.compactions, {"diff": second}),
            ("explain", f'search {{}} "{ASKED}" -s chat-1 --limit 2 --explain', show.search, EXPLAIN),
        ):
            drawn(
                name,
                f"siltstone {arguments.format(STORE)}",
                command,
                store,
                **{"session": "chat-1", **options},
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
