"""Who is asked for a summary, how often and for how long, and which answers are kept as one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from compacting import SHORT, Window, distinct, exchange, long, policy, run
from siltstone import acompact, compact, llm
from siltstone.compaction import CompactionError, Trigger, summarise
from siltstone.compaction.prompts import PROMPT, judged
from siltstone.engine import Compacted, Failed, Plan
from siltstone.errors import ModelError
from siltstone.hooks import Guidance
from siltstone.llm import Completion, CompletionRequest, UsageRecord
from siltstone.messages import read_history
from siltstone.models import ExtractiveModel
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.testing import RecordingHook, ScriptedModel


def test_rule_38_a_call_that_raises_is_made_again():
    model = ScriptedModel([OSError("reset"), SHORT])
    assert run(long(3), policy(), model)[1].summary == SHORT
    assert len(model.requests) == 2
    once = ScriptedModel([OSError("reset"), SHORT])
    with pytest.raises(CompactionError, match="reset"):
        run(long(3), policy(attempts=1), once)


def test_rule_38_calls_of_one_model_are_further_and_further_apart_and_at_most_eight_seconds(
    pauses: list[float],
):
    pauses.clear()
    model = ScriptedModel([OSError("down")] * 7 + [SHORT])
    outcome = compact(long(3), policy(attempts=8), model=model)
    assert isinstance(outcome, Compacted)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert [request.delay for request in model.requests] == [0, *pauses]
    pauses.clear()
    asyncio.run(acompact(long(3), policy(attempts=2, retry_delay=3), model=ScriptedModel([OSError()])))
    compact(long(3), policy(attempts=2, retry_delay=0), model=ScriptedModel([OSError("down")]))
    assert pauses == [3]


def test_the_next_model_and_the_next_piece_are_asked_without_a_pause(pauses: list[float]):
    pauses.clear()
    first, second = ScriptedModel([OSError("down")]), ScriptedModel([SHORT])
    compact(long(), policy(summarizer_window=4_000, attempts=1), model=(first, second))
    assert pauses == []


@pytest.mark.parametrize("answer", ["", "I'm sorry, but I can't help with that.", OSError("down")])
def test_rule_38_the_next_model_is_asked_where_one_fails(answer: Any):
    first, second = ScriptedModel([answer]), ScriptedModel([SHORT])
    outcome = compact(long(3), policy(), model=[first, second])
    assert outcome.summary == SHORT
    assert not outcome.degraded
    assert len(first.requests) == (2 if isinstance(answer, OSError) else 1)


def test_at_last_the_extractive_model_answers_if_it_may():
    hook = RecordingHook()
    compacting = policy()
    outcome = compact(long(3), compacting, model=ScriptedModel([OSError("down")]), hooks=[hook])
    assert outcome.degraded
    assert outcome.summary == compact(long(3), policy(), model=ExtractiveModel()).summary  # type: ignore[union-attr]
    assert [record.model for record in outcome.usage] == ["extractive"]
    assert isinstance(compact(long(3), compacting), Compacted), "without any model too"
    assert hook.names == ["CompactionStarted", "CompactionCompleted"]


def test_the_last_resort_needs_the_engine():
    """A flow that is driven by hand has no extractive model: the failure is the model's."""
    flow = policy(on_model_failure="fallback_summary").flow(read_history(long(3)), Trigger("manual"))
    with pytest.raises(CompactionError, match="down"):
        llm.run(flow, ScriptedModel([OSError("down")]))


def test_rule_06_a_refusal_is_a_failure():
    usage = UsageRecord("m", 10, 5)
    answer = Completion("I cannot help with that.", usage)
    outcome = compact(long(3), policy(on_model_failure="fail"), model=ScriptedModel([answer]))
    assert (type(outcome), outcome.reason) == (Failed, "refused_summary")
    assert outcome.usage == (usage,)


def test_rule_06_a_summary_too_short_for_what_it_replaces_is_suspect():
    hook = RecordingHook()
    outcome = compact(long(40), policy(), model=lambda request: "Done.", hooks=[hook])
    assert outcome.suspect
    assert hook.events[-1].suspect  # type: ignore[union-attr]
    for raws, answer in ((long(40), distinct(20)), (long(3), "Done.")):
        other = compact(raws, policy(), model=lambda request, answer=answer: answer)  # type: ignore[misc]
        assert not other.suspect


def test_all_calls_for_a_summary_have_one_deadline(monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr(summarise, "monotonic", lambda: now[0])
    asked: list[float | None] = []

    def slow(request: CompletionRequest) -> str:
        asked.append(request.deadline)
        now[0] += 20
        raise OSError("reset")

    outcome = compact(long(3), policy(attempts=5), model=[slow, ScriptedModel([SHORT])])
    assert outcome.degraded, "the time is over, so nobody else is asked"
    assert asked == [30.0, 9.5], "a pause counts too"
    now[0] = 0.0
    failed = compact(long(3), policy(attempts=5, on_model_failure="fail"), model=slow)
    assert isinstance(failed, Failed)
    assert "reset" in failed.message
    unbounded = ScriptedModel([SHORT])
    compact(long(3), policy(summary_timeout=None), model=unbounded)
    assert [request.deadline for request in unbounded.requests] == [None]


def test_the_pieces_of_a_summary_share_the_deadline(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(summarise, "monotonic", lambda: now[0])
    deadlines: list[float | None] = []

    def model(request: CompletionRequest) -> str:
        deadlines.append(request.deadline)
        now[0] += 12
        return SHORT

    outcome = compact(long(), policy(summarizer_window=4_000), model=model)
    assert (deadlines, outcome.degraded) == ([30.0, 18.0, 6.0], True)


@pytest.mark.anyio
async def test_rule_38_an_async_call_is_broken_off_at_its_deadline():
    started = 0

    async def hang(request: CompletionRequest) -> str:
        nonlocal started
        started += 1
        await asyncio.Event().wait()
        return SHORT

    failing = policy(summary_timeout=0.01, on_model_failure="fail")
    outcome = await acompact(long(3), failing, model=hang)
    assert isinstance(outcome, Failed)
    assert (outcome.reason, started) == ("llm_failed", 1)
    assert "no answer within 0.0" in outcome.message
    assert isinstance(outcome.cause, CompactionError)
    assert outcome.cause.error_class == "TimeoutError"
    kept = await acompact(long(3), policy(summary_timeout=0.01), model=hang)
    assert kept.degraded


@pytest.mark.anyio
async def test_a_timeout_of_the_model_s_own_keeps_its_words():
    async def late(request: CompletionRequest) -> str:
        raise TimeoutError("the gateway said 504")

    outcome = await acompact(long(3), policy(on_model_failure="fail"), model=late)
    assert isinstance(outcome, Failed)
    assert "the gateway said 504" in outcome.message


def test_mk_56_a_curator_writes_the_summary_and_no_model_is_called():
    given: list[Any] = []

    def curate(messages: list[Any]) -> str:
        given.extend(messages)
        return "  As I see it.\n"

    raws, model = long(3), ScriptedModel()
    outcome = compact(raws, policy(curator=curate), model=model)
    assert (outcome.summary, outcome.usage, model.requests) == ("As I see it.", (), [])
    assert all(one is other for one, other in zip(given, raws[1:], strict=True))


@pytest.mark.anyio
async def test_a_hook_before_a_compaction_does_not_make_a_curator_write_twice():
    """The plan that the hook is told is that of a dry run."""
    calls: list[int] = []
    told: list[Plan] = []

    def curate(messages: list[Any]) -> str:
        calls.append(len(messages))
        return "Curated."

    curated = policy(curator=curate)
    compact(long(3), curated, on_before_compact=told.append)
    await acompact(long(3), curated, on_before_compact=told.append)
    assert calls == [6, 6]
    compact(long(3), curated, on_before_compact=lambda planned: Guidance(veto="not now"))
    assert calls == [6, 6], "what is vetoed is not written"
    assert [planned.compacts for planned in told] == [True, True]


def test_mk_56_a_curator_that_fails_is_a_typed_failure_without_a_fallback():
    def curate(messages: list[Any]) -> str:
        raise KeyError("notes")

    model = ScriptedModel()
    for curator, reason in (
        (curate, "curator_failed"),
        (lambda m: 7, "curator_failed"),
        (lambda m: " ", "empty_summary"),
    ):
        outcome = compact(long(3), policy(curator=curator, on_model_failure="fallback_summary"), model=model)
        assert (type(outcome), outcome.reason) == (Failed, reason)
        assert len(outcome.messages) == 7
    assert model.requests == []


def test_a_live_request_goes_on_with_the_instruction_last():
    tools = [{"type": "function", "function": {"name": "ls"}}]
    model, raws = ScriptedModel([SHORT]), long(4)
    compacting = ThresholdCompactor(
        CompactionConfig(recent_turn_budget=2, prefix_preserving=True), tools=tools
    )
    outcome = compact(raws, compacting, model=model, context_window=100_000)
    assert isinstance(outcome, Compacted)
    (request,) = model.requests
    assert request.prefix_preserving
    assert request.tools == tuple(tools)
    assert all(one is other for one, other in zip(request.messages, raws, strict=False))
    assert request.messages[-1]["content"].endswith(" words at most.")
    assert len(request.messages) == len(raws) + 1
    assert request.material is not None
    assert [item.text for item in request.material] == [raw["content"] for raw in outcome.discarded]


@pytest.mark.parametrize("why", ["too large", "refused", "pending"])
def test_a_live_request_that_cannot_be_is_a_rendering(why: str):
    raws = long(40)
    if why == "pending":
        raws.append(exchange("a", "")[0])
    model = Window(2_000 if why == "refused" else 10**9)
    outcome = compact(
        raws,
        policy(prefix_preserving=True),
        model=model,
        context_window=3_000 if why == "too large" else None,
    )
    assert isinstance(outcome, Compacted)
    assert model.requests
    assert not any(request.prefix_preserving for request in model.requests)


def test_an_error_of_the_driver_names_the_rank():
    with pytest.raises(ModelError, match="asked for model 2; there are 2") as caught:
        llm.call([ScriptedModel(), ScriptedModel()], CompletionRequest([], 1, rank=2))
    assert caught.value.exhausted


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
