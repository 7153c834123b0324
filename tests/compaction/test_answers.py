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
from siltstone.testing import ScriptedModel

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

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I am sorry, I cannot comply with this request as it may contain harmful content.",
    "Sorry, I am unable to summarize this conversation.",
    "I apologize, but I'm not able to provide a summary of this content.",
    "I cannot assist with that.",
    "I can't help with creating this summary.",
    "As an AI language model, I cannot provide this.",
    "As an AI assistant, I won't continue with this.",
    "Unfortunately, I can't summarise material like this.",
    "I'm unable to process this conversation.",
    "I must decline.",
    "Your request violates our usage policy.",
]

SUMMARIES = [
    "The user asked for a keylogger; the assistant refused: I'm sorry, but I can't help with that.",
    "I can't reproduce the failure on main, so the cause lies in the branch.",
    "I cannot find the file config.yaml; the next step is to ask where it is.",
    "We won't use Redis. Decided: SQLite with WAL.",
    "Sorry state of the tests: 14 of 20 fail in CI.",
    "Unable to connect to db-3 since Monday; a ticket is open.",
    "Progress: parser done. Open: the help text.",
    "I am in the middle of the migration; step 3 of 5 is running.",
    "I can't help with that. " + " ".join(f"Crate {n} holds {3 * n} lamps." for n in range(30)),
    "抱歉的是测试失败了。下一步：修复解析器。",
]


def reason(answer: str, stop_reason: str | None = None) -> str:
    return judged(Completion(answer, stop_reason=stop_reason), REQUEST).reason


@pytest.mark.parametrize("answer", REFUSALS)
def test_rule_06_a_refusal_is_recognised(answer: str):
    assert reason(answer) == "refused_summary"


@pytest.mark.parametrize("answer", SUMMARIES)
def test_rule_06_a_summary_that_speaks_of_one_is_none(answer: str):
    assert not reason(answer)


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


@pytest.mark.parametrize(
    "answer", ["<think>I will", "{}", "抱歉，我无法协助处理该请求。", Completion(GOOD, stop_reason="length")]
)
def test_the_next_model_is_asked_and_then_the_extractive_one(answer: str | Completion):
    models = ScriptedModel([answer]), ScriptedModel([GOOD])
    outcome = compact(long(3), policy(), model=models)
    assert (outcome.summary, outcome.degraded) == (GOOD, False)
    assert len(models[0].requests) == 1, "the same question gives the same answer"
    alone = compact(long(3), policy(), model=ScriptedModel([answer]))
    assert alone.degraded
    assert alone.summary == compact(long(3), policy(), model=ExtractiveModel()).summary  # type: ignore[union-attr]
