"""The extractive summaries of a fixed corpus, compared with those of an earlier state of the package.

``tests/data/summaries.json`` has a digest of each summary and its token numbers. Who changes the selection on
purpose writes the file again with ``python tests/models/test_stored_summaries.py``.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from compacting import Raw, assistant, exchange, system, user
from siltstone import Completion, CompletionRequest, ExtractiveModel, Session, SimpleMemoryStore
from siltstone.compaction import Compactor
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.systems.rustant import WindowCompactor
from siltstone.systems.spacebot.config import TieredConfig
from siltstone.systems.spacebot.tiered import TieredCompactor
from siltstone.systems.waterfall.config import WaterfallConfig
from siltstone.systems.waterfall.policy import WaterfallCompactor

STORED = Path(__file__).parents[1] / "data" / "summaries.json"

FACTS = [
    "The staging database is at 10.20.30.40:5433 under the name ledger_2024.",
    "Error: KeyError 'tariff_id' in billing/rates.py line 217.",
    "我们决定使用PostgreSQL 14，因为托管合同要求。",
    "TODO: rename parse_tariff() before the release of 2024-11-03.",
    "エラー: tariff_id が見つかりません。次に rates.py を直す必要があります。",
]


def working(rounds: int, *, lines: int = 4) -> list[Raw]:
    """A coding session: calls with results of several lines, a failure now and then, facts by the way."""
    raws: list[Raw] = [user("Please make the nightly report faster.\nKeep its format: [Tool result x: y]")]
    for n in range(rounds):
        output = "\n".join(
            f"line {n}.{at}: option_{n * at} is read from section {at}." for at in range(lines)
        )
        raws += exchange(f"call_{n}", output)
        if n % 3 == 0:
            raws.append(
                assistant(f"Step {n} is done.\r\n{FACTS[n % len(FACTS)]}\u2028Assistant: not a speaker")
            )
        if n % 7 == 0:
            failed = {
                "type": "tool_result",
                "tool_use_id": f"t{n}",
                "is_error": True,
                "content": f"no file {n}",
            }
            used = {
                "type": "tool_use",
                "id": f"t{n}",
                "name": "write",
                "input": {"text": f"a = {n}\nb = 1\n"},
            }
            raws += [{"role": "assistant", "content": [used]}, {"role": "user", "content": [failed]}]
        if n % 5 == 4:
            raws.append(user(f"Question {n}: what does handle_{n} do? " + "It has arguments. " * (n % 11)))
    return raws


def talking(turns: int) -> list[Raw]:
    """A conversation without tools."""
    raws = [system("Rules of the house.")]
    for n in range(turns):
        raws += [
            user(
                f"In week {n} I met Ann in Café {n % 4}; she paid {n * 7} EUR. "
                + "We talked long. " * (n % 6)
            ),
            assistant(f"Noted: Café {n % 4}.\n\n- {n * 7} EUR\n- next steps: call Ann on day {n}."),
        ]
    return raws


def threshold(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(recent_turn_budget=400, **settings))


def waterfall(**settings: Any) -> WaterfallCompactor:
    return WaterfallCompactor(WaterfallConfig(immediate_window=8, recent_window=24, **settings))


CASES: dict[str, tuple[list[Raw], Compactor, int]] = {
    "work": (working(90), threshold(), 4_000),
    "work-in-pieces": (working(90), threshold(summarizer_window=1_600, max_summary_tokens=300), 6_000),
    "work-short": (working(60), threshold(max_summary_tokens=60), 3_000),
    "talk": (talking(150), threshold(), 4_000),
    "talk-in-pieces": (talking(150), threshold(summarizer_window=1_300, max_summary_tokens=200), 8_000),
    "checkpoints": (working(90), TieredCompactor(TieredConfig(mode="chronicle")), 4_000),
    "tiers": (working(90), TieredCompactor(), 4_000),
    "window": (talking(150), WindowCompactor(), 4_000),
    "waterfall": (talking(150), waterfall(), 4_000),
    "waterfall-of-work": (working(90), waterfall(), 4_000),
    "waterfall-in-portions": (talking(150), waterfall(summarizer_window=1_024, max_tokens=256), 4_000),
    "waterfall-instruct": (talking(150), waterfall(prompt_style="instruct"), 4_000),
    "waterfall-instruct-of-work": (working(90), waterfall(prompt_style="instruct"), 4_000),
}


def answers(name: str) -> list[list[Any]]:
    """A digest, the input tokens and the output tokens of each answer of the model in a session."""
    raws, policy, window = CASES[name]
    model, told = ExtractiveModel(), list[list[Any]]()

    def recorded(request: CompletionRequest) -> Completion:
        completion = model(request)
        usage = completion.usage
        assert usage is not None
        digest = sha256(completion.text.encode()).hexdigest()[:16]
        told.append([digest, usage.input_tokens, usage.output_tokens])
        return completion

    options = {"policy": policy, "context_window": window, "background": False}
    with (
        SimpleMemoryStore() as store,
        Session.open(None, name, model=recorded, memory=store, **options) as session,
    ):  # type: ignore[arg-type]
        for raw in raws:
            if raw["role"] == "assistant":
                session.prepare()
            session.append(raw)
    return told


@pytest.mark.parametrize("name", CASES)
def test_every_summary_of_a_session_is_the_stored_one(name: str):
    stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
    assert len(stored) >= 2
    assert answers(name) == stored


if __name__ == "__main__":
    found = [f"  {json.dumps(name)}: {json.dumps(answers(name))}" for name in CASES]
    STORED.write_text("{\n" + ",\n".join(found) + "\n}\n", encoding="utf-8")
