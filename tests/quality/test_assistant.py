"""Dialogues with long answers: does an order of time find more of what is asked about order and themes?"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

QUALITY = Path(__file__).parent.parent.parent / "benches" / "quality"


def test_questions_about_order_and_themes_find_more_in_order_of_time() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(QUALITY))
        assistant = import_module("assistant")
    for module in ("assistant", "assistant_turns"):
        del sys.modules[module]
    found = assistant.in_time(assistant.assistant_set())
    for category in ("order", "theme", "pooled"):
        best, timed = found[category]
        assert timed > best, category
    # Answers are pages of this Python, so figures move a little from one to the next.
    assert found["order"][1] >= 0.90
    assert found["pooled"][1] >= 0.78
