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
from siltstone.cli.stores import output

FOLDER = Path(__file__).parent.parent / "docs" / "screens"
COLUMNS = 80
STORE = "agent-data"
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
        drawn(
            "context",
            f"siltstone context {STORE} chat-1 --window 2000",
            show.context,
            store,
            "chat-1",
            window=2_000,
            estimator="blocks",
        )
        drawn("timeline", f"siltstone timeline {STORE} chat-1", show.timeline, store, "chat-1")
        drawn(
            "diff",
            f"siltstone compactions {STORE} chat-1 --diff {second}",
            show.compactions,
            store,
            "chat-1",
            diff=second,
        )
        drawn(
            "explain",
            f'siltstone search {STORE} chat-1 "service of valve 7" --limit 2 --explain',
            show.search,
            store,
            "chat-1",
            "service of valve 7",
            limit=2,
            ranker="lexical",
            explain=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
