"""Shows the results of the demo: the questions, a table, and tokens over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from siltstone.cli.demo.run import Answer, Demo
from siltstone.evaluation.measures import percentile

__all__ = ["picture", "show"]

HEIGHT = 10  #: rows of the picture
BARS = " ▁▂▃▄▅▆▇█"


def show(demo: Demo, console: Console, *, draw: bool) -> None:
    """Prints all results; the picture only if *draw* is set and this run had turns."""
    console.print(f"\n[bold]{len(demo.answers)} questions about what was compacted away[/bold]\n")
    for answer in demo.answers:
        _show_answer(answer, console)
    console.print(_table(demo))
    if draw and demo.timeline:
        console.print("\n[bold]Tokens in context over time[/bold]")
        width = max(min(console.width - 12, 100), 20)
        console.print("\n".join(picture(demo.timeline, demo.window, demo.threshold, width)), highlight=False)


def picture(timeline: Sequence[int], window: int, threshold: int, width: int) -> list[str]:
    """*timeline* as rows of text. Each column is the peak of several boundaries.

    The top of the picture is the window, and a line in it is the threshold.
    """
    columns = _peaks(timeline, min(width, len(timeline)))
    line = min(round(threshold / window * HEIGHT), HEIGHT)
    rows = []
    for row in range(HEIGHT, 0, -1):
        cells = "".join(_cell(tokens / window * HEIGHT - (row - 1), row == line) for tokens in columns)
        label = f"{window:>9,} " if row == HEIGHT else f"{threshold:>9,} " if row == line else " " * 10
        rows.append(f"{label}│{cells}")
    rows.append(" " * 10 + "└" + "─" * len(columns))
    rows.append(" " * 11 + f"model call 1 … {len(timeline):,}")
    return rows


def _cell(fill: float, on_line: bool) -> str:
    if fill <= 0:
        return "┄" if on_line else " "
    return BARS[min(round(fill * 8), 8)]


def _peaks(values: Sequence[int], columns: int) -> list[int]:
    edges = [index * len(values) // columns for index in range(columns + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


def _show_answer(answer: Answer, console: Console) -> None:
    mark = "[green]found[/green] " if answer.rank else "[red]missed[/red]"
    console.print(f"{mark} {escape(answer.question.text)}", soft_wrap=True)
    if not answer.hits:
        console.print("         nothing returned")
        return
    hit = answer.hits[(answer.rank or 1) - 1]
    start, end = hit["source_range"]["start"], hit["source_range"]["end"]
    excerpt = _excerpt(answer, hit["content"])
    where = f"hit {answer.rank or 1} of {len(answer.hits)}, score {hit['score']:.2f}, messages {start}–{end}"
    console.print(
        f"         [dim]{where}, {answer.microseconds:.0f} µs[/dim]", highlight=False, soft_wrap=True
    )
    console.print(f"         {escape(excerpt)}", highlight=False, soft_wrap=True)


def _excerpt(answer: Answer, content: str) -> str:
    """The line with the evidence."""
    found = answer.question.evidence.search(content)
    at = found.start() if found else 0
    start = content.rfind("\n", 0, at) + 1
    return content[start:].split("\n", 1)[0].strip()


def _table(demo: Demo) -> Table:
    table = Table(title="\nWhat it came to", show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for name, value in _rows(demo):
        table.add_row(name, value)
    return table


def _rows(demo: Demo) -> list[tuple[str, str]]:
    earlier = demo.turns - demo.turns_now
    turns = f"{demo.turns:,}" + (f" ({earlier:,} of them in earlier runs)" if earlier else "")
    p50, p99 = percentile(demo.latencies, 0.50), percentile(demo.latencies, 0.99)
    return [
        ("turns", turns),
        ("messages", f"{demo.messages:,}"),
        ("tokens seen", f"{demo.tokens_seen:,}"),
        ("tokens in context now", f"{demo.tokens_in_context:,} of {demo.window:,}"),
        ("compactions", f"{demo.compactions:,}"),
        ("entries", f"{demo.entries:,}"),
        ("recall@5", f"{demo.recall_at_5:.2f} ({len(demo.answers)} questions)"),
        ("added latency per turn, median", f"{p50 / 1000:.2f} ms" if demo.latencies else "–"),
        ("added latency per turn, p99", f"{p99 / 1000:.2f} ms" if demo.latencies else "–"),
        ("bytes on disk", f"{demo.bytes_on_disk:,}"),
        ("seconds", f"{demo.seconds:.1f}"),
    ]
