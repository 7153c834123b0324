"""The cost of each documented system, and the evidence that it keeps of the same sessions; ours, too.

``python benches/quality/systems.py``: agent-dev of the evaluation data; the summaries are by ExtractiveModel.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from siltstone import ExtractiveModel, Session, ThresholdCompactor, presets
from siltstone.evaluation import load_dataset
from siltstone.evaluation.report import percentile
from siltstone.llm import CompletionRequest
from survival import (
    Survival,
    answerable,
    as_messages,
    calls_of,
    in_session,
    when_asked as evidence_when_asked,
)

WINDOWS = {"waterfall": 64_000}
WINDOW = 16_000


class Counted:
    """The extractive model, and how often it was asked for how much."""

    def __init__(self) -> None:
        self._model = ExtractiveModel()
        self.calls = self.tokens = 0

    def __call__(self, request: CompletionRequest) -> Any:
        self.calls += 1
        self.tokens += sum(len(str(message["content"])) for message in request.messages) // 4
        return self._model(request)


def figures(name: str, options: dict[str, Any], window: int) -> dict[str, Any]:
    """The figures of one system over all conversations."""
    dataset = load_dataset("agent-dev")
    calls = calls_of(dataset)
    kept, asked = Survival(), Counted()
    context, when_asked, samples = 0, 0, list[float]()
    for conversation in answerable(dataset):
        messages = as_messages(conversation, calls)
        with tempfile.TemporaryDirectory() as place:
            kept += in_session(conversation, messages, asked, window, Path(place), **options)
            with Session.open(place, "evidence", context_window=window, **options) as session:
                context += session.prepare().tokens
            when_asked += evidence_when_asked(conversation, window, Path(place), **options)
        with (
            tempfile.TemporaryDirectory() as place,
            Session.open(
                place, "timed", model=ExtractiveModel(), context_window=window, **options
            ) as session,
        ):
            for message in messages:
                if message["role"] == "assistant":
                    began = time.perf_counter()
                    session.prepare()
                    samples.append((time.perf_counter() - began) * 1e3)
                session.append(message)
    return {
        "system": name,
        "window": window,
        "model_calls": asked.calls,
        "tokens_to_models": asked.tokens,
        "tokens_in_context": context,
        "questions": kept.questions,
        "in_context": kept.in_context,
        "with_search": kept.with_search,
        "when_asked": when_asked,
        "prepare_p50_ms": round(percentile(samples, 0.5), 2),
        "prepare_p99_ms": round(percentile(samples, 0.99), 1),
    }


def main() -> None:
    """Prints a JSON line a system."""
    for window in (WINDOW, 64_000):
        print(json.dumps(figures("default", {"policy": ThresholdCompactor()}, window)), flush=True)
    for name in presets.preset_names():
        options = {"preset": name}
        print(json.dumps(figures(name, options, WINDOWS.get(name, WINDOW))), flush=True)


if __name__ == "__main__":
    main()
