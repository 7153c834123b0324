"""A session's plan: what `prepare` would do, and nothing done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, small, user
from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.engine import Compacted, Plan
from siltstone.hooks import Guidance
from siltstone.testing import ScriptedModel


def grown(session: Session, count: int) -> None:
    session.prepare()  # boundary 0 never compacts
    session.append(*conversation(count))


def test_what_is_planned_is_what_prepare_then_does(tmp_path: Path) -> None:
    model = ScriptedModel()
    with Session.open(tmp_path, "s", policy=small(), model=model) as session:
        grown(session, 20)
        before = session.history()
        planned = session.plan()
        assert planned == session.plan(), "a plan changes nothing"
        assert (model.requests, session.history()) == ([], before)
        done = session.prepare().compaction
    assert isinstance(done, Compacted)
    assert (planned.compacts, planned.policy, planned.cause) == (True, "threshold", "history_tokens")
    assert planned.requests == len(model.requests) == 1
    assert (planned.covers, planned.retained, planned.discarded) == (
        done.covers,
        len(done.retained),
        len(done.discarded),
    )
    assert planned.tokens_before == done.tokens_before
    assert done.tokens_after <= planned.tokens_after < planned.tokens_before


def test_with_nothing_due_it_says_so_and_looks_at_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session.open(tmp_path, "s", policy=small()) as session:
        session.prepare()
        session.append(user("hello"), assistant("hi"))
        tokens = session.prepare().tokens
        monkeypatch.setattr(type(session._core.view), "messages", None)
        planned = session.plan()
        assert planned == Plan(False, "not_due", 2, 0, (), 0, tokens, tokens, "threshold")
    with Session.open(tmp_path, "none") as session:
        assert session.plan() == Plan(False, "no_policy", 0, 0, (), 0, 0, 0)


def test_it_asks_no_hook_and_no_curator_and_counts_no_boundary(tmp_path: Path) -> None:
    asked: list[object] = []

    def before(planned: Plan) -> Guidance | None:
        asked.append(planned)
        return None

    def curate(messages: list[Any]) -> str:
        asked.append(messages)
        return "Curated."

    policy = small(curator=curate)
    with Session.open(tmp_path, "s", policy=policy, on_before_compact=before) as session:
        grown(session, 20)
        boundary = session._core.clock.boundary
        planned = session.plan()
        assert (asked, planned.compacts, planned.requests) == ([], True, 0)
        assert session._core.clock.boundary == boundary
        session.prepare()
        assert len(asked) == 2, "the hook and the curator, once each"


def test_where_the_net_alone_is_due_its_plan_is_given(tmp_path: Path) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600))
    with Session.open(tmp_path, "s", policy=policy, context_window=1_000) as session:
        session.append(*conversation(20))  # boundary 0
        planned = session.plan()
        assert (planned.compacts, planned.policy, planned.requests) == (True, "emergency", 0)
        done = session.prepare().compaction
        assert done.covers == planned.covers


def test_a_wish_of_the_model_is_planned_and_still_granted(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        grown(session, 5)
        assert session.plan().reason == "not_due"
        session.compact_tool.call({})
        assert session.plan().cause == "model"
        assert isinstance(session.prepare().compaction, Compacted)
