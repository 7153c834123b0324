"""Does the count of a tree's lines tell code, comments and tests apart?"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "sizes.py"

RUST = """\
//! What the file is.

/// A function.
fn brace() -> &'static str {
    "{ // no comment" // but this is one
}

/* two
lines */
#[cfg(test)]
mod tests {
    // A comment of a test.
    #[test]
    fn closes() {
        assert_eq!(super::brace(), r#"{"#);
    }
}

fn after() {}
"""

PYTHON = '''\
"""What the file is.

Two paragraphs.
"""

# A comment.
TEXT = """
no docstring
"""


def call() -> int:
    """What it does."""
    return 1  # one
'''


@pytest.fixture(scope="module")
def sizes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizes", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sizes"] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def test_a_line_of_rust_is_code_or_comment_or_test(sizes: ModuleType) -> None:
    assert sizes.rust_lines(RUST) == sizes.Lines(code=4, comments=4, tests=8)


def test_docstrings_are_comments_and_other_texts_are_code(sizes: ModuleType) -> None:
    assert sizes.python_lines(PYTHON) == sizes.Lines(code=5, comments=5)


def test_a_file_below_tests_has_nothing_but_tests(sizes: ModuleType) -> None:
    assert sizes.lines(PurePosixPath("tests/test_one.py"), PYTHON) == sizes.Lines(tests=10)
    assert sizes.lines(PurePosixPath("rust/core/tests/one.rs"), RUST) == sizes.Lines(tests=16)


def test_the_table_has_every_room_and_the_sum_of_each_crate(sizes: ModuleType) -> None:
    table = sizes.table()
    for name in ("rust/core: sqlite", "python: session", "**rust/core**", "**rust/py**", "**tests**"):
        assert f"| {name} |" in table


def test_a_room_above_its_budget_and_a_file_with_one_importer_are_named(
    sizes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = (SCRIPT.parent.parent / "sizes.toml").read_text("utf-8")
    before = sizes.over_budget()
    tight = re.sub(r'("python: session" = \{ lines = )[\d_]+', r"\g<1>10", budgets)
    tight = re.sub(r'"siltstone\.[\w.]+",\n', "", tight, count=1)
    monkeypatch.setattr(sizes, "BUDGETS", tmp_path / "sizes.toml")
    (tmp_path / "sizes.toml").write_text(tight, "utf-8")
    first, second = [fault for fault in sizes.over_budget() if fault not in before]
    assert "alone, and sizes.toml does not name it" in second + first
    assert "python: session has " in first + second
    assert "more than its budget of 10" in first + second
