"""Two ways in which summarising middleware is known to lose a history, each as the history that shows it.

They were reported of a widely used one: a result without its call is kept, and a failure of the summariser
ends the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, user
from siltstone import CompactionConfig, Session, ThresholdCompactor, compact
from siltstone.engine import Compacted
from siltstone.llm import CompletionRequest
from siltstone.messages import broken_tool_groups, repair, validate_history
from siltstone.testing import RecordingHook, ScriptedModel


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
    for given in (history, healed.messages):
        outcome = compact(given, keeping(turns), model=ScriptedModel(["What was said."]))
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
