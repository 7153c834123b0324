"""``compact``, ``acompact`` and ``plan`` on plain lists: acting now, without a session."""

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from conversations import Raw, turns
from siltstone import (
    Chain,
    CompactionConfig,
    Completion,
    CompletionRequest,
    ConfigError,
    ThresholdCompactor,
    acompact,
    compact,
    plan,
)
from siltstone.engine import Compacted, Failed
from siltstone.llm import UsageRecord
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
SYSTEM: Raw = {"role": "system", "content": "Be exact."}


def conversation(count: int = 10) -> list[Raw]:
    return [SYSTEM, *(message for turn in turns(count) for message in turn)]


@pytest.mark.parametrize("policy", [None, ThresholdCompactor, "chain"])
def test_a_policy_that_is_none_is_refused_by_name(policy: Any) -> None:
    for call in (compact, plan):
        with pytest.raises(ConfigError, match="policy must be a policy such as ThresholdCompactor"):
            call(conversation(), policy)


def test_a_policy_that_is_not_derived_from_the_base_is_refused_with_the_remedy() -> None:
    class Alike:
        name, token_rule = "alike", POLICY.token_rule
        should_compact, flow = ThresholdCompactor.should_compact, ThresholdCompactor.flow

    remedy = re.escape("derive it from siltstone.compaction.Compactor")
    for refused in (lambda: compact(conversation(), Alike()), lambda: Chain(POLICY, Alike())):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=remedy):
            refused()


def test_the_outcome_tells_what_happened_and_the_list_given_is_untouched() -> None:
    messages = conversation()
    before = copy.deepcopy(messages)
    model = ScriptedModel([Completion("They spoke of topics.", UsageRecord("m", 900, 6))])
    outcome = compact(messages, POLICY, model=model)
    assert isinstance(outcome, Compacted)
    assert messages == before
    assert outcome.summary == "They spoke of topics."
    assert outcome.tokens_after < outcome.tokens_before
    assert outcome.messages[0] is SYSTEM
    assert str(outcome.messages[1]["content"]).startswith("[Context compacted]")
    assert [id(raw) for raw in outcome.retained] == [id(raw) for raw in outcome.messages if raw in messages]
    assert sorted(map(id, (*outcome.retained, *outcome.discarded))) == sorted(map(id, messages))
    assert sum(end - start for start, end in outcome.covers) == len(outcome.discarded)
    assert outcome.usage == (UsageRecord("m", 900, 6),)
    assert [type(event).__name__ for event in outcome.events] == ["CompactionStarted", "CompactionCompleted"]


def test_a_second_compaction_reads_the_first_summary_and_covers_what_it_covered() -> None:
    model = ScriptedModel(["The first summary.", "The second summary."])
    first = compact(conversation(), POLICY, model=model)
    second = compact([*first.messages, *(m for turn in turns(6) for m in turn)], POLICY, model=model)
    assert isinstance(first, Compacted)
    assert isinstance(second, Compacted)
    assert "The first summary." in model.requests[1].messages[0]["content"]
    assert second.covers[0][0] == first.covers[0][0]
    assert second.covers[-1][1] > first.covers[-1][1]
    assert second.level == 2
    kept = [raw for raw in second.messages if str(raw["content"]).startswith("[Context compacted]")]
    assert len(kept) == 1


@pytest.mark.anyio
async def test_the_async_door_gives_the_same_and_takes_either_kind_of_model() -> None:
    async def model(request: CompletionRequest) -> str:
        return "A summary."

    expected = compact(conversation(), POLICY, model=ScriptedModel())
    for given in (model, ScriptedModel()):
        outcome = await acompact(conversation(), POLICY, model=given)
        assert outcome.messages == expected.messages
        assert outcome.tokens_after == expected.tokens_after


def test_a_plan_calls_no_model_and_says_what_compact_does() -> None:
    messages = conversation()
    before = copy.deepcopy(messages)
    planned = plan(messages, POLICY)
    outcome = compact(messages, POLICY, model=ScriptedModel())
    assert isinstance(outcome, Compacted)
    assert messages == before
    assert planned.compacts
    assert planned.requests == 1
    assert planned.covers == outcome.covers
    assert (planned.retained, planned.discarded) == (len(outcome.retained), len(outcome.discarded))
    assert planned.tokens_before == outcome.tokens_before
    assert outcome.tokens_after <= planned.tokens_after < planned.tokens_before


def test_a_plan_of_a_history_smaller_than_a_summary_may_be_still_finds_one_that_shrinks_it() -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=4096))
    planned = plan(conversation(), policy)
    assert planned.compacts
    assert planned.tokens_after < planned.tokens_before


def test_without_a_model_a_policy_that_wants_one_fails_and_says_what_to_pass() -> None:
    strict = ThresholdCompactor(replace(POLICY.config, on_model_failure="fail"))
    outcome = compact(conversation(), strict)
    assert (type(outcome), outcome.reason) == (Failed, "llm_failed")
    assert "pass model=" in outcome.message
    assert outcome.messages == conversation()
    selected = compact(conversation(), POLICY)
    assert selected.degraded


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_that_holds_nothing_is_refused(window: int) -> None:
    with pytest.raises(ConfigError, match=f"context_window must be > 0, got {window}"):
        compact(conversation(), POLICY, context_window=window)
