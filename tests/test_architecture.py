"""Does a room import rooms of lower floors alone? The floors are those of docs/design/house.md."""

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
PACKAGE, CORE = CHECKOUT / "python" / "siltstone", CHECKOUT / "rust" / "core" / "src"
FLOORS = {  # lowest first: a room imports rooms of earlier lines, and itself
    PACKAGE: [
        "_native errors",
        "embedding hooks messages refusals",
        "documented index limits llm redaction tokens",
        "checks events",
        "compaction knowledge memory models",
        "archive evaluation recall testing tools",
        "systems",
        "config engine presets",
        "session",
        "figures stores transcripts",
        "postgres",
        "__init__",
        "adapters inspector mcp telemetry",
        "cli",
        "__main__",
    ],
    CORE: [
        "cache error fork simd whole_file",
        "condense documented grep id index_file tokenize tokens",
        "json",
        "analyse extract fusion postings redact sqlite top_k vector",
        "bm25 embed outline recall_block",
        "index",
        "memory",
    ],
}
APART = {  # lower rooms that a room does without all the same
    "engine": {"memory"}, "session": {"models"}, "evaluation": {"compaction", "messages", "models"},
    "embed": {"sqlite"}, "bm25": {"sqlite"}, "index": {"sqlite", "embed", "bm25"},
}  # fmt: skip


def imported(source: str) -> set[str]:
    """What a Python file imports of the package, at its top, in functions and for type checkers."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    rooms = {room for floor in FLOORS[PACKAGE] for room in floor.split()}
    found = {name.split(".")[1] for name in names if name.startswith("siltstone.")}
    return {room if room in rooms else "__init__" for room in found}


def used(source: str) -> set[str]:
    """What a file of the core uses of the core, outside its tests."""
    code = re.sub(r"//.*", "", source.partition("#[cfg(test)]\nmod tests")[0])
    return set(re.findall(r"\bcrate::(\w+)", code))


def refused(home: str, found: set[str], floors: list[str]) -> set[str]:
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms.split()}
    return {room for room in found - {home} if floor[room] >= floor[home] or room in APART.get(home, ())}


@pytest.mark.parametrize(("root", "reads", "suffix"), [(PACKAGE, imported, ".py"), (CORE, used, ".rs")])
def test_a_room_imports_rooms_of_lower_floors_alone(root, reads, suffix):
    wrong = {}
    for path in root.rglob(f"*{suffix}"):
        home = path.relative_to(root).parts[0].removesuffix(suffix)
        if home != "lib":
            wrong[path.relative_to(root).as_posix()] = refused(
                home, reads(path.read_text("utf-8")), FLOORS[root]
            )
    assert len(wrong) > 50
    assert not {path: rooms for path, rooms in wrong.items() if rooms}
