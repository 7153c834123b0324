"""The peers of `make quality`: those that need nothing but the standard library are measured here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from siltstone import Entry
from siltstone.evaluation import Conversation, Dataset, Question, Turn, evaluate

QUALITY = Path(__file__).parent.parent.parent / "benches" / "quality"


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("peers", QUALITY / "peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["peers"]


DATASET = Dataset(
    "silt",
    (
        Conversation(
            "river",
            (
                Turn("1", "the river carries silt", name="Ann"),
                Turn("2", 'a "delta" OR (nothing', name="Bob"),
                Turn("3", "silt settles", name="Ann"),
            ),
            (
                Question("What settled?", ("3",), "stem"),
                Question("What settles?", ("3",), "word"),
                Question('Is it a "delta" AND NOT (a ford*?', ("2",), "syntax"),
                Question("?!", ("1",), "no word"),
            ),
        ),
    ),
)


@pytest.mark.parametrize("name", ["SQLite FTS5 unicode61", "SQLite FTS5 porter"])
def test_full_text_in_sqlite_is_measured(peers: ModuleType, name: str) -> None:
    (peer,) = [each for each in peers.LEXICAL if each.name == name]
    if not peer.is_here:
        pytest.skip("this SQLite has no FTS5")
    report = evaluate(peer.make, DATASET)
    found = {category: figures.recall[1] for category, figures in report.categories.items()}
    assert found == {"stem": float("porter" in name), "word": 1, "syntax": 1, "no word": 0}
    assert report.pooled.tokens[1] == pytest.approx(
        {"SQLite FTS5 porter": 12 + 12 + 21, "SQLite FTS5 unicode61": 12 + 21}[name] / 4 / 4
    )


def test_peers_index_who_said_it(peers: ModuleType) -> None:
    assert peers.said(Entry("a text", name="Ann")) == "Ann: a text"
    assert peers.said(Entry("a text", role="assistant")) == "assistant: a text"
