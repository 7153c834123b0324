"""Does every row that was promised have a test that is named after it, and does the page say which?"""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENTED = TESTS.parent / "docs" / "systems" / "rows.md"

#: The documented rows of the five systems.
ROWS = {
    "MK": [
        1, 2, 4, 5, 7, 20, 24, 50, 52, 53, 60, 70, 71, 73, 74, 76,
    ],
    "SB": [
        1, 2, 3, 4, 25, 26, 27, 30, 70, 71, 72, 73, 74, 75, 76, 77, 78,
    ],
    "RU": [
        20, 30, 32, 35, 40, 60, 61, 62, 63,
    ],
    "WF": [
        1, 2, 4, 5, 6, 8, 9, 14, 15, 19, 40, 41, 42, 43,
    ],
    "OC": [
        1, 2, 3, 4, 5, 6, 7, 9, 12, 16, 17, 18, 19, 21, 22, 24, 29, 31, 32, 33, 34, 36,
        41, 45, 52, 53, 54, 58, 61, 62, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80,
        81, 82, 83,
    ],
}  # fmt: skip

#: Rows that no system documents: established behaviour that is kept, and known defects that must not occur.
OURS = {
    "MK": [
        3, 6, *range(8, 17), 21, 22, 23, *range(25, 38), 40, 41, 42, 43, 51, *range(54, 60), *range(61, 67),
        69, 72, 75, *range(77, 81),
    ],
    "SB": [*range(5, 8), *range(10, 14), *range(20, 25), 31, 32, 33, 34, *range(40, 45), *range(50, 61)],
    "RU": [*range(2, 14), 21, 22, 31, 33, 34, *range(50, 55)],
    "WF": [3, 7, *range(10, 14), 16, 17, 18, *range(20, 32)],
    "OC": [8, 10, 11, 13, 14, 15, 23, *range(25, 29), 30, 42, 43, 44, *range(46, 52), 55, 56, 57, 59, 63, 64],
}  # fmt: skip
_NAMED = re.compile(r"_(mk|sb|ru|wf|oc)((?:_\d\d)+)(?=_)")
_PROMISE = re.compile(r"^\| ((?:MK|SB|RU|WF|OC)-\d\d) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def listed(rows: dict[str, list[int]]) -> list[str]:
    return [f"{family}-{number:02}" for family, numbers in rows.items() for number in numbers]


def named() -> dict[str, set[str]]:
    """The files that have tests of each row; a test may be of several."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for family, numbers in _NAMED.findall(node.name):
                    for number in numbers[1:].split("_"):
                        files[f"{family.upper()}-{number}"].add(path.relative_to(TESTS).as_posix())
    return files


def test_every_row_has_a_test_that_is_named_after_it():
    files = named()
    assert [row for row in [*listed(ROWS), *listed(OURS)] if row not in files] == []


def test_the_page_has_every_documented_row_and_the_files_that_hold_it():
    files = named()
    promises = _PROMISE.findall(DOCUMENTED.read_text("utf-8"))
    assert [row for row, _, _ in promises] == listed(ROWS)
    for row, _, where in promises:
        told = re.findall(r"`([^`]+)`", where)
        assert told, row
        assert set(told) <= files[row], row
