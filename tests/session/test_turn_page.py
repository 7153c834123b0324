"""The tables of the design pages have every public call, with a word for each way of being disturbed."""

import re
from pathlib import Path

import pytest

from siltstone import AsyncSession, MemoryStore, Session

PAGES = Path(__file__).parents[2] / "docs" / "design"
NAMED = re.compile(r"`([a-z_]+)[(`]")
#: The modules that open one, the parts of a session, and the calls of a core to a store.
TOLD_ELSEWHERE = {
    "open", "session_id", "store", "open_log", "session", "path", "ranker", "hash_rule", "limits",
    "read_only", "lacking_vectors",
}  # fmt: skip


def calls_of(page: str, heading: str) -> dict[str, str]:
    """The rows of the table under *heading*, by each call that they are of."""
    text = (PAGES / page).read_text(encoding="utf-8").split(heading, 1)[1]
    rows = [line for line in text.split("\n## ", 1)[0].splitlines() if line.startswith("| ")]
    return {name: row for row in rows for name in NAMED.findall(row.split("|")[1])}


@pytest.mark.parametrize(
    ("kind", "page", "heading"),
    [
        (Session, "turn.md", "| call |"),
        (AsyncSession, "turn.md", "| call |"),
        (MemoryStore, "storage.md", "## What a call guarantees when it is disturbed"),
    ],
)
def test_every_public_call_is_in_the_table_of_guarantees(kind: type, page: str, heading: str) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")} - TOLD_ELSEWHERE
    rows = calls_of(page, heading)
    if kind is MemoryStore:
        public -= {"close"}  # it ends what the rest of the page is about
    assert public <= rows.keys()
    assert {row.count("|") for row in rows.values()} == {6}
