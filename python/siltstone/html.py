"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table: *head*, and *rows* with as many cells. The text of every cell is escaped."""
    from html import escape  # with a table of all entities: only a notebook needs it

    def row(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    lines = ["<table>", row("th", head), *(row("td", cells) for cells in rows), "</table>"]
    return "\n".join(lines)
