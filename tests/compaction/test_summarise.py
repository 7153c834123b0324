"""The summariser sees all of what is discarded, in pieces it can take, and somebody answers in the end."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import SHORT, Window, assistant, distinct, exchange, filler, long, policy, run, turn, user
from siltstone import CompactionConfig, Session, ThresholdCompactor, compact, plan
from siltstone.compaction.material import Material, at_most, lines, render
from siltstone.compaction.prompts import MERGE_NOTE, PART_NOTE, PROMPT
from siltstone.engine import Compacted, Failed
from siltstone.llm import CompletionRequest
from siltstone.messages import (
    Excerpt,
    History,
    SummaryMessage,
    broken_tool_groups,
    read_history,
    repair,
    validate_history,
)
from siltstone.testing import RecordingHook, ScriptedModel
from siltstone.tokens import rule
from strategies import histories

BLOCKS = rule("blocks")
ESTIMATORS = ["blocks", "bytes/4", "chars/3"]


def material(requests: Sequence[CompletionRequest]) -> str:
    """The messages of the summary requests, in order; cut messages are whole again."""
    shown = ""
    for request in requests:
        if request.purpose == "summary":
            text = request.messages[0]["content"]
            shown += text[2:] if text.startswith("  ") else f"\n{text}"
    return shown


def test_rule_05_what_does_not_fit_is_shown_in_pieces_and_merged():
    model = ScriptedModel([SHORT])
    _, compaction = run(long(), policy(summarizer_window=4_000), model)
    summaries = [request for request in model.requests if request.purpose == "summary"]
    merges = [request for request in model.requests if request.purpose == "merge"]
    assert len(summaries) >= 3
    assert len(merges) == 1
    assert all(PART_NOTE in request.messages[-1]["content"] for request in summaries)
    assert MERGE_NOTE in merges[0].messages[-1]["content"]
    assert all(PROMPT in request.messages[-1]["content"] for request in model.requests)
    shown = material(model.requests)
    for message in compaction.discarded:
        assert shown.count(message.text) == 1
    labels = re.findall(r"\[Earlier summary of messages ([\d, -]+): ", merges[0].messages[0]["content"])
    assert labels[0].startswith("1-")
    assert labels[-1].endswith("-80")
    assert compaction.summary == SHORT


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("window", [1_024, 4_000, 16_000])
def test_mk_42_every_request_fits_the_summarisers_window(window: int, estimator: str):
    model = ScriptedModel(["".join(f"w{n:05d} " for n in range(20_000))])
    compacting = policy(summarizer_window=window, estimator=estimator)
    run(long(60), compacting, model)
    assert len(model.requests) > 1
    for request in model.requests:
        used = sum(compacting.token_rule.count_text(message["content"]) for message in request.messages)
        assert used + request.max_tokens <= window


def test_mk_42_a_group_is_not_split_across_pieces():
    raws = [user("Go."), *(m for n in range(30) for m in exchange(f"c{n}", filler(300))), assistant("Done.")]
    model = ScriptedModel([SHORT])
    run([*raws, *turn(1)], policy(summarizer_window=4_000), model)
    assert len(model.requests) > 3
    for request in model.requests:
        text = request.messages[0]["content"]
        assert re.findall(r"^\[Tool call (c\d+):", text, re.MULTILINE) == re.findall(
            r"^\[Tool result (c\d+):", text, re.MULTILINE
        )


def test_mk_42_a_message_larger_than_the_window_is_sent_whole_in_parts():
    text = "".join(f"{n}: naïve 記憶 😀\n" for n in range(4_000)) + "Assistant: I never said this\n" * 9
    model = ScriptedModel([SHORT])
    run(
        [user("Go."), *exchange("a", text), assistant("Done."), *turn(1)],
        policy(summarizer_window=2_000),
        model,
    )
    shown = material(model.requests)
    assert text.replace("\n", "\n  ") in shown
    assert not re.search(r"^Assistant: I never", shown, re.MULTILINE)
    for request in model.requests:
        assert not re.search(r"^Assistant: I never", request.messages[0]["content"], re.MULTILINE)


def test_rule_14_many_summaries_are_merged_until_one_is_left():
    answers = {"summary": distinct(200), "merge": distinct(180, "fused")[:900]}
    asked: list[CompletionRequest] = []

    def model(request: CompletionRequest) -> str:
        asked.append(request)
        return answers[request.purpose]

    _, compaction = run(long(200), policy(summarizer_window=2_000), model)
    merges = [request for request in asked if request.purpose == "merge"]
    assert len(merges) > len(asked) / 10
    assert "fused000 fused001" in merges[-1].messages[0]["content"], "merged ones are merged again"
    assert compaction.summary.startswith("fused")
    assert BLOCKS.count_text(compaction.summary) <= 250


def test_a_plan_counts_the_requests():
    model = ScriptedModel([distinct(300)])
    compacting = policy(summarizer_window=4_000)
    outcome = compact(long(), compacting, model=model)
    assert isinstance(outcome, Compacted)
    assert plan(long(), compacting).requests == len(model.requests)


@given(histories(min_turns=1), st.sampled_from(ESTIMATORS), st.integers(16, 200))
def test_rule_05_pieces_are_the_rendering_and_nothing_else(raws: list[Any], estimator: str, tokens: int):
    history = [message for message in read_history(raws) if message.role not in ("system", "developer")]
    token_rule = rule(estimator)
    material = Material(history, "[Context compacted]", token_rule)
    shown: list[str] = []
    while material:
        piece = material.take(tokens)
        assert sum(token_rule.count_text(item.line) for item in piece.items) <= tokens
        assert lines(piece.items) == piece.text
        shown.append(piece.text)
    whole = "".join(text[2:] if text.startswith("  ") else f"\n{text}" for text in shown)
    assert whole == (f"\n{rendered}" if (rendered := render(history, "")) else "")


@given(histories(min_turns=1), st.sampled_from(ESTIMATORS), st.integers(16, 200), st.data())
def test_rule_05_pieces_of_an_outline_are_the_rendering_too(
    raws: list[Any], estimator: str, tokens: int, data: st.DataObject
):
    """And one that is given back is handed out again, in smaller pieces."""
    if data.draw(st.booleans()):
        raws.insert(
            data.draw(st.integers(0, len(raws))), SummaryMessage("[Context compacted]\n\nX.", ((0, 3),))
        )
    history = History(raws)
    spans = history.outline.closed(data.draw(st.lists(st.integers(0, len(raws)))))
    token_rule, excerpt = rule(estimator), Excerpt(history, spans)
    material = Material(excerpt, "[Context compacted]", token_rule)
    shown: list[str] = []
    covers: list[tuple[int, int]] = []
    given_back = False
    while material:
        piece = material.take(tokens)
        if tokens > 16 and data.draw(st.booleans()):
            material.give_back(piece)
            tokens, given_back = max(16, tokens // 2), True
            continue
        assert piece.text
        assert sum(token_rule.count_text(item.line) for item in piece.items) <= tokens
        shown.append(piece.text)
        covers += piece.covers
    whole = "".join(text[2:] if text.startswith("  ") else f"\n{text}" for text in shown)
    rendered = render(list(excerpt), "[Context compacted]")
    if given_back:  # a line that was cut and given back goes on, indented, in the same piece
        whole, rendered = whole.replace("\n  ", ""), rendered.replace("\n  ", "")
    assert whole == (f"\n{rendered}" if rendered else "")
    assert {n for start, end in covers for n in range(start, end)} >= {
        n
        for message in excerpt
        if render([message], "")
        for start, end in message.covers or ((message.seq, message.seq + 1),)
        for n in range(start, end)
    }


@given(histories(min_turns=1), st.sampled_from(ESTIMATORS))
def test_the_bound_that_spares_a_rendering_is_one(raws: list[Any], estimator: str):
    history = read_history(raws)
    token_rule = rule(estimator)
    assert token_rule.count_text(render(history, "")) <= at_most(history, token_rule)


def test_mk_51_a_capacity_error_is_answered_by_smaller_pieces():
    model = Window(3_000)
    _, compaction = run(long(), policy(max_summary_tokens=300), model)
    assert model.refused >= 1
    assert len(model.requests) >= 3
    shown = material(model.requests)
    assert all(message.text in shown for message in compaction.discarded)
    assert not compaction.degraded


def test_rule_38_a_finished_piece_is_never_asked_for_again():
    raws = long(30)

    class Fickle(Window):
        def __call__(self, request: CompletionRequest) -> str:
            if len(self.requests) == 2:
                self.tokens = 1_500
            return super().__call__(request)

    model = Fickle(4_000)
    run(raws, policy(summarizer_window=4_000), model)
    assert model.refused >= 1
    shown = material(model.requests)
    assert all(shown.count(message["content"]) == 1 for message in raws[1:])


def test_mk_51_without_any_capacity_the_summary_is_mechanical_and_says_so():
    hook = RecordingHook()
    outcome = compact(long(), policy(), model=Window(0), hooks=[hook])
    assert outcome.degraded
    assert outcome.summary.startswith("Earlier messages no longer shown: 80 (numbers 1 to 80).")
    assert hook.names == ["CompactionStarted", "CompactionCompleted"]
    assert outcome.usage == ()


def test_mk_51_or_the_attempt_fails_if_that_is_asked_for():
    outcome = compact(long(), policy(on_summarizer_overflow="fail"), model=Window(0))
    assert (type(outcome), outcome.reason) == (Failed, "summarizer_overflow")
    assert len(outcome.messages) == 81


def test_a_merge_that_is_too_large_merges_fewer_at_a_time():
    class Narrow(Window):
        def __call__(self, request: CompletionRequest) -> str:
            labels = request.messages[0]["content"].count("[Earlier summary")
            if request.purpose == "merge" and labels > 2:
                self.refused += 1
                raise ValueError("context_length_exceeded")
            return super().__call__(request)

    model = Narrow(10**9)
    _, compaction = run(long(), policy(summarizer_window=2_000), model)
    assert model.refused >= 1
    assert compaction.summary == SHORT


def keeping(turns: int, **settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(recent_turn_budget=turns, **settings))


@pytest.mark.parametrize("turns", [0, 1])
def test_a_result_never_outlives_its_call(turns: int) -> None:
    """A cut between a call and its result, and a result whose call was gone before: user, call b, a result
    of a call that nobody made, the result of b, answer, user. A tail of four messages would begin with the
    stray result, and the provider refuses every request from then on."""
    stray = {"role": "tool", "tool_call_id": "gone", "content": "orphan"}
    history = [user("question " * 90), exchange("b", "ok")[0], stray, exchange("b", "ok")[1]]
    history += [assistant("done " * 90), user("next " * 9), assistant("yes")]
    assert broken_tool_groups(history) == 1
    healed = repair(history)
    assert [finding.rule for finding in healed.findings] == ["orphan-result"]
    for raws in (history, healed.messages):
        outcome = compact(raws, keeping(turns), model=ScriptedModel(["What was said."]))
        assert isinstance(outcome, Compacted)
        called = [call["id"] for raw in outcome.messages for call in raw.get("tool_calls", ())]  # type: ignore[union-attr]
        answered = [raw["tool_call_id"] for raw in outcome.messages if raw["role"] == "tool"]  # type: ignore[index]
        assert called == answered
        assert validate_history(outcome.messages) == []


@pytest.mark.parametrize("error", [RuntimeError("503"), TimeoutError("slow"), ValueError("bad key")])
def test_a_summariser_that_fails_does_not_end_the_run(tmp_path: Path, error: Exception) -> None:
    """Any long history, and a summariser that raises: the error leaves the hook before the model call and
    the agent is dead. Here the attempt fails, the history is as it was, and the next call goes out."""
    hook = RecordingHook()

    def model(request: CompletionRequest) -> str:
        raise error

    policy = keeping(1, auto_compact_threshold=500, on_model_failure="fail")
    with Session.open(
        tmp_path, "s", policy=policy, model=model, hooks=[hook], context_window=4_000
    ) as session:
        session.append(user("hello"))
        session.prepare()
        for number in range(10):
            session.append(assistant("answer " * 40), user(f"question {number} " + "word " * 40))
            prepared = session.prepare()
            assert prepared.tokens <= 4_000
            assert prepared.messages[-1] == session.log()[-1]
        assert session.history() == session.log()
    assert hook.names[:2] == ["CompactionStarted", "CompactionFailed"]
    assert str(error) in hook.events[1].message  # type: ignore[union-attr]
