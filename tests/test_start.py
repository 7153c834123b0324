"""What does a process import and make until it has its first session? Counted, so that it stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest

FIRST = """
import sys
before = set(sys.modules)
import siltstone
session = siltstone.Session.open(
    sys.argv[1], "agent", policy=siltstone.ThresholdCompactor(), model=siltstone.ExtractiveModel(),
    context_window=32_000,
)
assert session.history() == []
from siltstone import values
modules = [name for name in sys.modules if name.partition(".")[0] == "siltstone"]
made = [cls.__name__ for cls in values._PLANS if type(cls.__dict__["__init__"]) is not values._Init]
late = [cls.__name__ for cls in values._PLANS]
others = sorted(sys.modules.keys() - before)
print(repr({"modules": modules, "others": others, "defined": late, "made": made}))
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("start")
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(path)], capture_output=True, text=True, check=True
    )
    return ast.literal_eval(done.stdout)


def test_a_first_session_imports_no_more_modules_than_it_did(start):
    assert len(start["modules"]) <= 67, sorted(start["modules"])


def test_a_first_session_makes_the_functions_of_few_value_classes(start):
    assert len(start["defined"]) <= 45, start["defined"]
    assert len(start["made"]) <= 10, start["made"]


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
        "asyncio", "calendar", "concurrent.futures", "contextlib", "copy", "dataclasses", "datetime", "enum",
        "fractions", "functools", "hashlib", "html", "importlib.metadata", "inspect", "json", "logging",
        "numpy", "pathlib", "queue", "random", "re", "sqlite3", "tempfile", "textwrap", "threading",
        "tokenize", "tomllib", "traceback", "typing", "unicodedata", "urllib.parse", "uuid", "weakref",
    ],
)  # fmt: skip
def test_a_first_session_does_without_the_library(start, module):
    assert module not in start["others"]


TURN = """
import sys
import siltstone
session = siltstone.Session.open(
    sys.argv[1], "agent", policy=siltstone.ThresholdCompactor(), model=siltstone.ExtractiveModel(),
    context_window=32_000,
)
session.append({"role": "user", "content": "hello"})
before = set(sys.modules)
session.prepare()
session.append({"role": "assistant", "content": "hello"})
session.prepare()
print(repr([name for name in sys.modules.keys() - before if name.partition(".")[0] == "siltstone"]))
"""


def test_a_first_turn_imports_what_a_boundary_needs_and_no_compaction(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TURN, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert set(ast.literal_eval(done.stdout)) <= {
        "siltstone.compaction.breakdown", "siltstone.events", "siltstone.llm",
        "siltstone.outcome", "siltstone.session.boundary", "siltstone.session.prepared",
    }  # fmt: skip
