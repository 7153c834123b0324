"""What a policy is told by a session: where its last attempt failed, and what it wrote before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import assistant, user
from siltstone import (
    CompactionConfig,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    WaterfallCompactor,
)
from siltstone.compaction import CompactionContext, Trigger
from siltstone.engine import Compacted, Failed
from siltstone.events import ContextCritical, ContextWarning
from siltstone.memory.log import Derived
from siltstone.messages import Message
from siltstone.session.state import PAST, PolicyLine
from siltstone.systems.waterfall.config import WaterfallConfig
from siltstone.testing import ScriptedModel

WATERFALL = replace(
    WaterfallConfig.documented(), immediate_window=4, recent_window=8, retry_delay=0.0, attempts=1
)


class Seen(ThresholdCompactor):
    """A policy that writes down what it is told, and is due at every third message."""

    def __init__(self) -> None:
        super().__init__(CompactionConfig(attempts=1, recent_turn_budget=1, on_model_failure="fail"))
        self.contexts: list[CompactionContext] = []
        self.triggers: list[Trigger] = []

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        self.contexts.append(context)
        return Trigger("count", tokens=1) if context.message_count > 4 else None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Any:
        self.triggers.append(trigger)
        return super().flow(history, trigger)


def said(session: Session, count: int, size: int = 200) -> list[Any]:
    """*count* messages, a boundary after each; what was attempted."""
    attempts: list[Any] = []
    for _ in range(count):
        at = session._core.next_seq
        say = assistant if at % 2 else user
        session.append(say(f"Entry {at} " + "word " * (size // 5)))
        attempts += session.prepare().outcomes
    return attempts


def opened(policy: Any, model: Any, store: Any, **options: Any) -> Session:
    return Session.open(None, "s", policy=policy, model=model, memory=store, **options)


def test_a_failed_attempt_tells_the_policy_how_long_the_log_was_and_a_good_one_forgets_it():
    policy, store = Seen(), SimpleMemoryStore()
    model = ScriptedModel([ConnectionError("no route"), *["A summary of it all."] * 9])
    with opened(policy, model, store) as session:
        attempts = said(session, 5)
        assert [type(each) for each in attempts] == [Failed]
        assert policy.contexts[-1].failed_at is None
        attempts = said(session, 1)
        assert policy.contexts[-1].failed_at == 5
        assert [type(each) for each in attempts] == [Compacted]
        said(session, 1)
        assert policy.contexts[-1].failed_at is None


def test_at_most_64_earlier_summaries_are_given_the_newest():
    policy, model = Seen(), ScriptedModel([f"Summary {n} of what was said." for n in range(400)])
    with opened(policy, model, SimpleMemoryStore()) as session:
        said(session, 3 * PAST, size=30)
        texts = [each.summaries[0].text for each in session.compactions()]
    assert len(texts) > PAST + 2
    past = [message.text for message in policy.triggers[-1].past]
    assert past == texts[:-2][-PAST:], "the last is what it made of them, the one before was in view"


def test_what_was_forgotten_is_in_no_earlier_summary():
    policy, model = Seen(), ScriptedModel([f"Summary {n} of what was said." for n in range(200)])
    with opened(policy, model, SimpleMemoryStore()) as session:
        said(session, 20)
        before = {message.text for message in policy.triggers[-1].past}
        session.forget(start=0, end=1)
        said(session, 6)
    assert before
    assert not before & {message.text for message in policy.triggers[-1].past}


def test_the_state_of_a_policy_follows_the_line_back_on_an_undo():
    policy = WaterfallCompactor(WATERFALL)
    with opened(policy, ScriptedModel(), SimpleMemoryStore()) as session:
        said(session, 25)
        first, second = session.compactions()
        assert (first.state, second.state) != (None, None)
        assert [len(each.summaries) for each in (first, second)] == [1, 2]
        assert second.summaries[0].covers[0][0] == 0
        assert second.summaries[1].covers[-1][1] == second.covers[-1][1]
        assert all(each.text and each.level >= 1 and not each.redacted for each in second.summaries)
        core = session._core
        assert core.policy_line.state(policy.name, core.state.head) == second.state
        session.undo_compaction()
        assert core.policy_line.state(policy.name, core.state.head) == first.state
        session.undo_compaction()
        assert core.policy_line.state(policy.name, core.state.head) is None


def text(derived_id: int) -> Derived:
    return Derived(derived_id, "summary", f"Text {derived_id}.", ((0, 1),), None, 1, False, False, "any", 0)


COMMITS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 30))


@given(st.lists(st.one_of(COMMITS, st.none(), st.integers(0, 400)), max_size=60))
def test_earlier_summaries_are_those_that_a_new_look_finds_after_commits_undos_and_other_views(steps: Any):
    rows: dict[int, Any] = {}
    head: Any = None
    texts = 0

    class Log:
        compaction = rows.get

        def derived(self, ids: Sequence[int]) -> list[Derived]:
            return [text(each) for each in ids]

    kept = PolicyLine(Log())  # type: ignore[arg-type]
    for step in steps:
        shown: Sequence[int] = ()
        if step is None:
            head = None if head is None or head.parent is None else rows[head.parent]
        elif isinstance(step, int):
            shown = range(step, step + 40)
        else:
            policy, count = step
            content = type("Content", (), {"policy": policy, "state": ""})
            fields = {
                "compaction_id": len(rows),
                "parent": None if head is None else head.compaction_id,
                "derived_ids": tuple(range(texts, texts + count)),
                "compaction": content,
            }
            texts += count
            head = rows[len(rows)] = type("Row", (), fields)
        found = [message.text for message in kept.past_summaries("a", head, shown)]
        again = PolicyLine(Log()).past_summaries("a", head, shown)  # type: ignore[arg-type]
        assert found == [message.text for message in again]


@pytest.mark.parametrize("policy", [None, ThresholdCompactor(CompactionConfig(auto_compact_threshold=990))])
def test_each_band_of_the_window_is_told_once_until_less_is_in_it(policy: Any):
    told: list[Any] = []
    options = {"context_window": 1_000, "reserved_tokens": 100}
    store = SimpleMemoryStore()
    with opened(policy, None, store, hooks=[told.append], **options) as session:
        said(session, 19, size=160)
        alerts = [each for each in told if isinstance(each, ContextWarning | ContextCritical)]
        assert [type(each) for each in alerts] == [ContextWarning, ContextCritical]
        assert [each.context_window for each in alerts] == [1_000, 1_000]
        assert 70 <= alerts[0].percent < 90 <= alerts[1].percent
        assert alerts[0].percent == alerts[0].tokens * 100 // 1_000
        assert alerts[0].tokens > session._core.reserved_tokens


def test_a_session_that_is_opened_again_is_not_told_of_the_same_band(tmp_path: Path):
    told: list[Any] = []
    for count in (6, 1):
        with (
            MemoryStore.open(tmp_path) as store,
            opened(None, None, store, hooks=[told.append], context_window=500) as session,
        ):
            said(session, count, size=200)
    assert [type(each) for each in told] == [ContextWarning]
