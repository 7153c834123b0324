"""Dialogues with long answers: is what the user said found in them, and more of it in order of time?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from siltstone import MemoryStore
from siltstone.evaluation import evaluate

QUALITY = Path(__file__).parent.parent.parent / "benches" / "quality"


@pytest.fixture
def assistant() -> Iterator[Any]:
    """The bench that makes the dialogues."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(QUALITY))
        yield import_module("assistant")
    del sys.modules["assistant"]


# Answers are pages of this Python, so figures move a little from one to the next.
@pytest.mark.parametrize(("name", "least"), [("assistant_set", 0.83), ("project_set", 0.81)])
def test_what_a_user_said_beside_long_answers_is_found(
    assistant: Any, tmp_path_factory: pytest.TempPathFactory, name: str, least: float
) -> None:
    report = evaluate(
        lambda: MemoryStore.open(tmp_path_factory.mktemp("store")),
        getattr(assistant, name)(),
        abstention=False,
    )
    assert report.pooled.recall[10] >= least


def test_questions_about_order_find_more_in_order_of_time(assistant: Any) -> None:
    found = assistant.in_time(assistant.assistant_set())
    for category in ("order", "pooled"):
        best, timed = found[category]
        assert timed > best, category
    assert found["order"][1] >= 0.95
    assert found["pooled"][1] >= 0.84
