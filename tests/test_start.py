"""What does a process import and make until it has its first session? Counted, so that it stays cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

FIRST = """
import json, re, sys
import siltstone
from siltstone import values

compiled = []
compile_pattern = re._compiler.compile


def noted(text, flags=0):
    if "/siltstone/" in sys._getframe(3).f_code.co_filename:
        compiled.append(text)
    return compile_pattern(text, flags)


re._compiler.compile = noted
session = siltstone.Session.open(
    sys.argv[1], "agent", policy=siltstone.ThresholdCompactor(), model=siltstone.ExtractiveModel(),
    context_window=32_000,
)
assert session.history() == []
modules = [name for name in sys.modules if name.partition(".")[0] == "siltstone"]
made = [cls.__name__ for cls in values._PLANS if type(cls.__dict__["__init__"]) is not values._Init]
late = [cls.__name__ for cls in values._PLANS]
print(json.dumps({"modules": modules, "others": sorted(sys.modules), "defined": late, "made": made,
    "compiled": compiled}))
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("start")
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_first_session_imports_no_more_modules_than_it_did(start):
    assert len(start["modules"]) <= 67, sorted(start["modules"])


def test_a_first_session_makes_the_functions_of_few_value_classes(start):
    assert len(start["defined"]) <= 52, start["defined"]
    assert len(start["made"]) <= 12, start["made"]


def test_a_first_session_compiles_no_regular_expression_of_ours(start):
    assert start["compiled"] == []


@pytest.mark.parametrize(
    "room",
    [
        "adapters", "archive", "cli", "compaction.emergency", "compaction.select", "compaction.tiered",
        "compaction.validate", "compaction.waterfall", "compaction.window", "documented", "embedding",
        "engine", "evaluation", "events", "index", "knowledge", "llm", "memory.sayings", "memory.vectors",
        "messages.conversion", "messages.groups", "messages.read", "messages.repairs", "messages.validators",
        "outcome", "presets", "recall", "redaction", "session.aio", "session.boundary", "session.host_list",
        "session.learning", "session.rows", "stores.hnsw", "tools", "vault",
    ],
)  # fmt: skip
def test_a_first_session_does_without(start, room):
    assert f"siltstone.{room}" not in start["modules"]


@pytest.mark.parametrize(
    "module",
    [
        "asyncio", "calendar", "concurrent.futures", "copy", "dataclasses", "fractions", "hashlib", "html",
        "importlib.metadata", "inspect", "logging", "numpy", "pathlib", "queue", "random", "sqlite3",
        "tempfile", "textwrap", "tokenize", "tomllib", "traceback", "unicodedata", "urllib.parse", "uuid",
        "weakref",
    ],
)  # fmt: skip
def test_a_first_session_does_without_the_library(start, module):
    assert module not in start["others"]
