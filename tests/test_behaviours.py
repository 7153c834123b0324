"""Does every row that was promised have its tests, and do the pages say which?"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "design" / "compaction.md"

#: The rows: numbers between these are not used.
NUMBERS = [*range(1, 17), *range(20, 38), *range(40, 44), *range(50, 67), *range(69, 81)]
_ROW = re.compile(r"^\| MK-(\d\d) \| ([DCN]) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_NAMED = re.compile(r"test_mk_(\d\d)_")


def named() -> dict[int, list[str]]:
    """The files that have tests of each row, in order."""
    files: defaultdict[int, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            found = (
                _NAMED.match(node.name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
            )
            if found:
                files[int(found[1])].add(path.relative_to(TESTS).as_posix())
    return {number: sorted(found) for number, found in files.items()}


def test_every_row_has_a_test_that_is_named_after_it():
    files = named()
    assert [f"MK-{number:02}" for number in NUMBERS if number not in files] == []


def test_the_page_lists_every_row_once_and_the_files_that_hold_it():
    """A new test of a row, or one that moved, is a new word in the page."""
    files = named()
    listed = [(int(number), where) for number, _, _, where in _ROW.findall(PAGE.read_text("utf-8"))]
    expected = [(number, ", ".join(f"`{file}`" for file in files[number])) for number in NUMBERS]
    assert listed == expected


def test_the_figures_of_the_page_are_those_of_its_table():
    text = PAGE.read_text("utf-8")
    kinds = [kind for _, kind, _, _ in _ROW.findall(text)]
    said = f"{len(kinds)} rows: {kinds.count('D')} D, {kinds.count('C')} C, {kinds.count('N')} N."
    assert said in text


ARCHIVE_PAGE = TESTS.parent / "docs" / "design" / "knowledge.md"

#: The rows of the archive and of what is known.
ARCHIVE_ROWS = [
    *(f"OC-{number}" for number in (*range(21, 32), *range(41, 56), 57, 59, 61, 62, 63, 72, *range(78, 82))),
    *(f"RU-{number}" for number in (*range(30, 36), 40, 61, 63)),
]
_ARCHIVE_ROW = re.compile(r"^\| ((?:OC|RU)-\d\d) \| ([DCN]) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_ROWS_OF_A_TEST = re.compile(r"test_((?:(?:oc|ru)_\d\d_)+)")


def files_of_rows() -> dict[str, list[str]]:
    """The files that have tests of each row, in order; a test may be of several."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            found = _ROWS_OF_A_TEST.match(node.name)
            for letters, number in re.findall(r"(oc|ru)_(\d\d)", found[1]) if found else ():
                files[f"{letters.upper()}-{number}"].add(path.relative_to(TESTS).as_posix())
    return {row: sorted(found) for row, found in files.items()}


def test_every_row_of_the_archive_has_tests_and_the_page_says_which():
    files = files_of_rows()
    assert [row for row in ARCHIVE_ROWS if row not in files] == []
    listed = {row: where for row, _, _, where in _ARCHIVE_ROW.findall(ARCHIVE_PAGE.read_text("utf-8"))}
    assert list(listed) == ARCHIVE_ROWS
    said = [(row, file) for row, where in listed.items() for file in re.findall(r"`([^`]+)`", where)]
    assert {row for row, _ in said} == set(ARCHIVE_ROWS)
    assert [(row, file) for row, file in said if file not in files[row]] == []


def test_the_figures_of_the_archive_s_page_are_those_of_its_table():
    text = ARCHIVE_PAGE.read_text("utf-8")
    kinds = [kind for _, kind, _, _ in _ARCHIVE_ROW.findall(text)]
    said = f"{len(kinds)} rows: {kinds.count('D')} D, {kinds.count('C')} C, {kinds.count('N')} N."
    assert said in text


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
_ANY = re.compile(r"(?<=_)(mk|sb|ru|wf|oc)_(\d\d)(?=_)")
_PROMISE = re.compile(r"^\| ((?:MK|SB|RU|WF|OC)-\d\d) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def named_after_any() -> dict[str, set[str]]:
    """The files that have tests of each row of any system."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for family, number in _ANY.findall(node.name):
                    files[f"{family.upper()}-{number}"].add(path.relative_to(TESTS).as_posix())
    return files


def test_every_documented_row_of_the_five_systems_has_a_test():
    expected = [f"{family}-{number:02}" for family, numbers in ROWS.items() for number in numbers]
    files = named_after_any()
    assert [row for row in expected if row not in files] == []
    assert [row for row, _, _ in _PROMISE.findall(DOCUMENTED.read_text("utf-8"))] == expected


def test_the_page_of_documented_rows_names_the_files_that_hold_them():
    files = named_after_any()
    for row, _, where in _PROMISE.findall(DOCUMENTED.read_text("utf-8")):
        told = re.findall(r"`([^`]+)`", where)
        assert told, row
        assert set(told) <= files[row], row
