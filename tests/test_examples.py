"""Each example runs as it stands, without a key and without a network."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def absent(source: str) -> set[str]:
    """What an example imports that is not installed here: nox has an environment for each framework."""
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.add(node.module)
    return {root for root in {name.split(".")[0] for name in named} if importlib.util.find_spec(root) is None}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_remembers_what_left_its_window(example: Path, tmp_path: Path) -> None:
    source = example.read_text("utf-8")
    if lacking := absent(source):
        pytest.skip(f"{', '.join(sorted(lacking))} is not installed; `make test-adapters` has it")
    environment = {name: value for name, value in os.environ.items() if name != "SILTSTONE_MODEL"}
    told = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**environment, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "The crate of the port of Antwerp stands on quay 0" in told.stdout
    assert "SILTSTONE_MODEL" in (ast.get_docstring(ast.parse(source)) or "")
