"""Does the page of the policies say which tests hold each row, and does every such test stand in it?"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "design" / "policies.md"
FILES = [TESTS / "test_vault.py", *(TESTS / "compaction").glob("test_*.py")]

_ROW = re.compile(r"^\| ((?:SB|RU|WF|OC)-\d\d) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_NAMED = re.compile(r"test_(sb|ru|wf|oc)_(\d\d(?:_\d\d)*)_")


def test_the_page_lists_every_row_once_and_the_files_that_hold_it():
    named: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            found = _NAMED.match(node.name) if is_function else None
            if found and found[1] != "sb" and path not in FILES:
                continue  # their rows stand in the pages of other rooms
            for number in found[2].split("_") if found else ():
                named[f"{found[1].upper()}-{number}"].add(path.relative_to(TESTS).as_posix())  # type: ignore[index]
    listed = _ROW.findall(PAGE.read_text("utf-8"))
    assert len({row for row, _ in listed}) == len(listed)
    held = {row: {file.strip(" `") for file in files.split(",")} for row, files in listed}
    missing = {row: files for row, files in named.items() if not files <= held.get(row, set())}
    assert missing == {}
    assert [row for row in held if row not in named] == []
