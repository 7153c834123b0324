"""Which answers of a model are kept as a summary, and what of them?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compacting import long, policy
from siltstone import compact
from siltstone.compaction.prompts import PROMPT, judged
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.models import ExtractiveModel

MATERIAL = "\n".join(
    f"User: Crate {n} holds {3 * n} lamps. The store is dry and quiet today.\nAssistant: Noted."
    for n in range(30)
)
REQUEST = CompletionRequest(
    [{"role": "user", "content": MATERIAL}, {"role": "user", "content": PROMPT}], max_tokens=500
)
ANSWERS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "answers.json").read_text("utf-8")
)
GOOD = "The parser is done and has 41 tests; the printer is open. The release is on Friday."


def reason(answer: str, stop_reason: str | None = None) -> str:
    return judged(Completion(answer, stop_reason=stop_reason), REQUEST).reason


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [
        ("refusal", "refused_summary"),
        ("content_filter", "refused_summary"),
        ("SAFETY", "refused_summary"),
        ("stop", ""),
        ("end_turn", ""),
        ("length", "unusable_summary"),
        ("MAX_TOKENS", "unusable_summary"),
    ],
)
def test_rule_06_what_the_provider_says_of_its_answer_counts(stop_reason: str, expected: str):
    assert reason(GOOD, stop_reason) == expected


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: f"{row['kind']}-{row['lang']}-{row['id']}")
def test_a_summary_is_kept_and_another_answer_is_not(row: dict[str, Any]):
    """Rows with an even id were seen while the rules were written; the odd ones judged them."""
    text = row["text"].replace("{material}", MATERIAL).replace("{instruction}", PROMPT)
    found = judged(Completion(text, stop_reason=row.get("stop")), REQUEST)
    assert (not found.reason) is row["keep"], found.fault
    assert bool(found.text) is row["keep"]
    if row["kind"] in ("reasoning_then", "loop_tail"):
        assert row.get("without", text) not in found.text
        assert len(found.text) < 250
    elif row["keep"]:
        assert found.text == text


def test_what_stands_around_a_summary_is_taken_off():
    for framed in (
        f"<think>First the parser.</think>\n{GOOD}",
        f"First the parser.\n</think>\n{GOOD}",
        f"Thinking aloud.\n\n## Summary\n{GOOD}",
        f"```markdown\n{GOOD}\n```",
        f"<summary>{GOOD}</summary>",
        f"{GOOD}<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>",
        f"{GOOD}<end_of_turn>",
        f"{GOOD}\n" + "Nothing else. " * 30,
    ):
        kept = judged(Completion(framed), REQUEST).text
        assert kept.removesuffix("Nothing else.").strip() == GOOD


def test_a_summary_brought_up_to_date_may_begin_as_the_earlier_one():
    earlier = GOOD * 4
    shown = f"[Earlier summary of messages 0-9: {earlier}]\nUser: Crate 3 is full."
    request = CompletionRequest(
        [{"role": "user", "content": shown}, {"role": "user", "content": PROMPT}], max_tokens=500
    )
    assert not judged(Completion(f"{earlier} Crate 3 is full."), request).reason
    assert judged(Completion(shown), request).reason == "unusable_summary"


def test_the_extractive_model_is_not_judged():
    usage = UsageRecord("extractive")
    assert judged(Completion("ok", usage), REQUEST).text == "ok"
    outcome = compact(long(3), policy(), model=ExtractiveModel())
    assert not outcome.degraded
