"""Four ways in which summarising middleware is known to lose a history, each as the history that shows it.

They were reported of a widely used one: a result without its call is kept, thirty tool calls give way to
a sentence that no model wrote, the summariser is shown the end alone, and its failure ends the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, system, user
from siltstone import CompactionConfig, Session, ThresholdCompactor, compact
from siltstone.engine import Compacted, Failed
from siltstone.llm import CompletionRequest
from siltstone.messages import broken_tool_groups, repair, validate_history
from siltstone.testing import RecordingHook, ScriptedModel


def keeping(turns: int, **settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(recent_turn_budget=turns, **settings))


def material(model: ScriptedModel) -> str:
    """All that the summariser was shown."""
    return "\n".join(message["content"] for request in model.requests for message in request.messages[:-1])


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
    for given in (history, healed.messages):
        outcome = compact(given, keeping(turns), model=ScriptedModel(["What was said."]))
        assert isinstance(outcome, Compacted)
        called = [call["id"] for raw in outcome.messages for call in raw.get("tool_calls", ())]  # type: ignore[union-attr]
        answered = [raw["tool_call_id"] for raw in outcome.messages if raw["role"] == "tool"]  # type: ignore[index]
        assert called == answered
        assert validate_history(outcome.messages) == []


def test_thirty_calls_of_one_turn_are_summarised_by_a_model_or_stay() -> None:
    """One request and thirty calls with results of 4,000 characters: a turn with nothing before it to cut.
    The history is never replaced by a sentence without the summariser having been asked."""
    history: list[Any] = [user("build me X")]
    for number in range(30):
        history += exchange(f"c{number}", f"result {number} " + "x" * 4_000)
    model = ScriptedModel(["They built half of X."])
    outcome = compact(history, keeping(4, retained_token_budget=4_000), model=model)
    assert isinstance(outcome, Compacted)
    assert len(model.requests) == 1
    assert outcome.messages[0] is history[0], "the request in flight stays, word for word"
    assert outcome.messages[-1] is history[-1]
    assert "They built half of X." in outcome.messages[1]["content"]  # type: ignore[index]
    shown = material(model)
    gone = [raw for raw in outcome.discarded if raw["role"] == "tool"]  # type: ignore[index]
    assert len(gone) > 20
    assert all(raw["content"] in shown for raw in gone)  # type: ignore[index]
    strict = keeping(4, retained_token_budget=4_000, on_model_failure="fail")
    refused = compact(history, strict, model=ScriptedModel([""]))
    assert isinstance(refused, Failed)
    assert refused.messages == history


@pytest.mark.parametrize("window", [None, 8_000, 32_000])
def test_the_summariser_is_shown_all_sixty_turns(window: int | None) -> None:
    """Sixty turns of 300 words each: with a cap of 4,000 tokens on what is shown, the first turn that the
    summariser sees is the forty-sixth. Here every discarded message is in a request, whatever the window."""
    history: list[Any] = [system("Rules.")]
    for number in range(60):
        history += [user(f"turn {number} " + "w " * 300), assistant(f"reply {number} " + "a " * 300)]
    model = ScriptedModel(["A part of it."])
    outcome = compact(history, keeping(2, summarizer_window=window), model=model)
    assert len(outcome.discarded) == 116
    shown = material(model)
    for raw in outcome.discarded:
        assert f"{raw['content'].split(' w ')[0].split(' a ')[0].strip()} " in shown  # type: ignore[index]
    assert sum(shown.count(f"turn {number} w") for number in range(60)) == 58
    assert outcome.covers == ((1, 117),)


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
