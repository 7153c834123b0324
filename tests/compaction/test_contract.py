"""The contract of every policy: one suite, every member, over generated histories."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import SHORT, assert_lawful
from siltstone import llm
from siltstone.compaction import Compaction, CompactionContext, CompactionError, Compactor, Skip, Trigger
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.validate import validate
from siltstone.errors import ContextOverflowError
from siltstone.llm import CompletionRequest
from siltstone.messages import History, Message, read_history
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from strategies import histories

ESTIMATORS = st.sampled_from(["blocks", "bytes/4", "chars/3"])
REFUSALS = {
    "llm_failed",
    "empty_summary",
    "unusable_summary",
    "no_reduction",
}  # how an attempt may fail that is no defect

thresholds = st.builds(
    ThresholdCompactor,
    st.builds(
        CompactionConfig,
        auto_compact_threshold=st.integers(1, 2_000),
        recent_turn_budget=st.integers(0, 5),
        max_summary_tokens=st.integers(1, 400),
        retained_token_budget=st.sampled_from(["auto", None]) | st.integers(1, 500),
        max_request_bytes=st.none() | st.integers(1, 4_000),
        min_reduction=st.sampled_from([0, 0.2]),
        estimator=ESTIMATORS,
        summary_prefix=st.sampled_from(["[Context compacted]", "[Context compacted] Data."]),
    ),
)
emergencies = st.builds(Emergency, st.integers(30, 600), estimator=ESTIMATORS)
POLICIES: dict[str, st.SearchStrategy[Compactor]] = {"threshold": thresholds, "emergency": emergencies}


def attempt(
    policy: Compactor, history: Sequence[Message], model: Any, window: int | None
) -> Compaction | None:
    """One attempt; None for a skip or a failure that is none of the policy's fault."""
    trigger = Trigger("manual", context_window=window)
    try:
        result = llm.run(policy.flow(history, trigger), model)
    except CompactionError as error:
        if error.reason not in REFUSALS:
            raise
        return None
    except ContextOverflowError:
        return None
    return None if isinstance(result, Skip) else result


@pytest.mark.parametrize("kind", POLICIES)
@given(data=st.data())
def test_a_policy_is_pure(kind: str, data: st.DataObject):
    """The same history gives the same rewrite, and asking twice changes nothing."""
    policy, history = data.draw(POLICIES[kind]), read_history(data.draw(histories()))
    context = CompactionContext(
        data.draw(st.integers(0, 9)), estimated_history_tokens=data.draw(st.integers(0, 3_000))
    )
    assert policy.should_compact(context) == policy.should_compact(context)
    assert attempt(policy, history, lambda request: SHORT, 400) == attempt(
        policy, history, lambda request: SHORT, 400
    )


@pytest.mark.parametrize("kind", POLICIES)
@given(data=st.data())
def test_a_history_in_outline_comes_to_what_its_messages_come_to(kind: str, data: st.DataObject):
    """The same positions, summary, ranges and requests, whichever of the two a policy is given."""
    raws: list[Any] = data.draw(histories(min_turns=1))
    policy, window = data.draw(POLICIES[kind]), data.draw(st.none() | st.integers(40, 4_000))
    for _ in range(2):
        messages, history = read_history(raws), History(raws)
        asked: tuple[list[Any], list[Any]] = [], []
        made = []
        for given_as, requests in zip((messages, history), asked, strict=True):

            def model(request: CompletionRequest, requests: list[Any] = requests) -> str:
                requests.append((request.purpose, request.max_tokens, [*request.messages]))
                return SHORT

            made.append(attempt(policy, given_as, model, window))
        plain, outlined = made
        assert (plain is None) == (outlined is None)
        if plain is None or outlined is None:
            return
        assert_lawful(history, outlined)
        validate(history, outlined, framed(outlined))
        for part in ("retained", "discarded", "messages"):
            one, other = getattr(plain, part), getattr(outlined, part)
            assert [m.raw for m in one] == [m.raw for m in other]
            assert [m.seq for m in one] == [m.seq for m in other]
        for field in ("summary", "covers", "level", "degraded", "suspect"):
            assert getattr(plain, field) == getattr(outlined, field)
        if window is None:
            assert asked[0] == asked[1]
        shown = [
            "".join(each[2][0]["content"] for each in requests if each[0] == "summary") for requests in asked
        ]
        assert "".join(shown[0].split()) == "".join(shown[1].split())
        raws = [*(m.raw for m in outlined.messages), *data.draw(histories(min_turns=1))]


def framed(compaction: Compaction) -> str:
    """The content of a rewrite's summary message."""
    return next(m.text for m in compaction.messages if m.provenance == "compaction_summary")


@given(histories(), st.integers(1, 600), st.integers(0, 50), ESTIMATORS)
def test_after_an_emergency_a_history_fits_its_window(
    raws: list[Any], window: int, fixed: int, estimator: str
):
    policy, history = Emergency(window, estimator=estimator), read_history(raws)
    trigger = Trigger("overflow", reserved_tokens=fixed)
    tokens = policy.token_rule.count(history)
    overflow = None
    try:
        result = llm.run(policy.flow(history, trigger), None)
    except ContextOverflowError as error:
        overflow = error
    if overflow is not None:
        assert overflow.tokens > window
        assert overflow.context_window == window
        return
    if isinstance(result, Skip):
        assert tokens + fixed <= window
    else:
        assert tokens + fixed > window
        assert policy.token_rule.count(result.messages) + fixed <= window
