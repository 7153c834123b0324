"""Which answers are refusals, and which only speak of one?"""

from __future__ import annotations

import pytest

from siltstone.compaction.prompts import is_refusal

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
    "I can't help with that. " + "But here is what was said: the tests pass. " * 30,
    "抱歉的是测试失败了。下一步：修复解析器。",
]


@pytest.mark.parametrize("answer", REFUSALS)
def test_rule_06_a_refusal_is_recognised(answer: str):
    assert is_refusal(answer)


@pytest.mark.parametrize("answer", SUMMARIES)
def test_rule_06_a_summary_that_speaks_of_one_is_none(answer: str):
    assert not is_refusal(answer)


@pytest.mark.parametrize(
    ("stop_reason", "refused"),
    [("refusal", True), ("content_filter", True), ("SAFETY", True), ("stop", False), ("length", False)],
)
def test_rule_06_what_the_provider_calls_a_refusal_is_one(stop_reason: str, refused: bool):
    assert is_refusal("All went well.", stop_reason) is refused
