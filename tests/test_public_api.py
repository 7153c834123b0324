"""Are the public names sorted, documented, complete, and light to import?"""

import ast
import inspect
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

import siltstone

CLASSES = [name for name in siltstone.__all__ if inspect.isclass(getattr(siltstone, name))]

# The names that users type. A name leaves this list only together with a line in the changelog.
PROMISED = {
    "AsyncSession", "Chain", "ClearToolResults", "CompactionConfig", "Completion", "CompletionRequest",
    "CompressToolOutput", "ConfigError", "ContextOverflowError", "DropDuplicateReads", "Emergency",
    "Entry", "ExtractiveModel", "HistoryConflictError", "HnswIndex", "HnswMemoryStore",
    "InvalidArgumentsError", "KnowledgeConfig", "MemoryStore", "ModelError", "Prepared", "RecallConfig",
    "RedactionConfig", "Retention", "SearchHit", "Session", "SiltstoneError", "SimpleMemoryStore",
    "SmartTrim", "SmartTrimConfig", "StoreError", "ThresholdCompactor", "TieredCompactor",
    "TieredConfig", "Tool", "WaterfallCompactor", "WaterfallConfig", "WindowCompactor", "WindowConfig",
    "WorkerCompactor", "__version__", "acompact", "compact", "estimate_tokens", "plan",
}  # fmt: skip

# Imported when they are needed: an array, a command, an event loop.
LATE = {"asyncio", "numpy", "onnxruntime", "tokenizers", "pydantic", "rich", "sqlite3", "typer"}


def test_what_is_promised_is_exported_and_nothing_else():
    assert set(siltstone.__all__) == PROMISED


def test_nothing_is_reachable_that_is_not_exported():
    names = {name for name, value in vars(siltstone).items() if not isinstance(value, types.ModuleType)}
    assert {name for name in names if not name.startswith("_")} <= PROMISED


def test_every_error_is_a_siltstone_error():
    errors = [name for name in CLASSES if issubclass(getattr(siltstone, name), BaseException)]
    assert len(errors) >= 7
    assert [
        name for name in errors if not issubclass(getattr(siltstone, name), siltstone.SiltstoneError)
    ] == []


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert siltstone.__version__ == version("siltstone")


def imported_by(statement: str) -> set[str]:
    """The modules that a new process holds after *statement*."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_an_import_brings_nothing_that_is_needed_later():
    modules = imported_by("import siltstone")
    assert not {name for name in modules if name.startswith("siltstone.")}
    assert {name.split(".")[0] for name in modules} & LATE == set()


def test_every_room_together_needs_no_array():
    modules = imported_by("from siltstone import *")
    assert modules >= {"siltstone.session", "siltstone.index", "siltstone._native"}
    assert {name.split(".")[0] for name in modules} & LATE <= {"asyncio"}  # of AsyncSession


def test_every_name_is_listed_and_an_unknown_one_is_refused_by_name():
    assert set(dir(siltstone)) >= PROMISED
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = siltstone.sesion


def test_type_checkers_are_told_of_the_names_and_the_homes_that_the_interpreter_has():
    tree = ast.parse(Path(siltstone.__file__).read_text(encoding="utf-8"))
    told = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert sorted(told) == siltstone.__all__
    for name, home in told.items():
        assert getattr(siltstone, name) is getattr(import_module(home), name)
