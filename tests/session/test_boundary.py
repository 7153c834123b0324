"""A session at its boundaries: what it plans and sends, when it compacts, what it keeps, and its pins."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone
from conversations import assistant, conversation, play, small, user
from shapes import call, result
from siltstone.compaction import Compactor
from siltstone.engine import Compacted, Plan
from siltstone.hooks import Guidance
from siltstone.messages import read_message
from siltstone.session.state import View, common, count, has, minus, numbers, union, within
from siltstone.testing import RecordingHook, ScriptedModel
from siltstone.tokens import rule

SYSTEM = {"role": "system", "content": "Be exact."}
RULES = {"role": "system", "content": "rule " * 300}


def test_mk_52_discarded_messages_are_searchable_in_the_owning_session_alone(tmp_path: Path) -> None:
    with siltstone.MemoryStore.open(tmp_path) as store:
        a = siltstone.Session.open(None, "a", policy=small(), model=ScriptedModel(), memory=store)
        b = siltstone.Session.open(None, "b", policy=small(), model=ScriptedModel(), memory=store)
        for session, word in ((a, "walrus"), (b, "condor")):
            session.append(
                user(f"tell me of the {word} " * 40),
                assistant("a long story " * 30),
                user("and now?"),
                assistant("now"),
            )
            assert isinstance(session.compact(), Compacted)
        assert a.search("walrus")[0].source_range == (0, 1)
        assert a.search("condor") == []
        assert b.search("walrus") == []


def test_a_reopened_session_has_the_same_view_log_usage_and_entries(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(SYSTEM)
        play(session, conversation(12))
        history, log, usage = session.history(), session.log(), session.usage
        levels = [getattr(raw, "level", 0) for raw in history]
        hits = session.search("topic1")
        clock = session._core.clock
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        assert session.history() == history
        assert [getattr(raw, "level", 0) for raw in session.history()] == levels
        assert max(levels) >= 2
        assert session.log() == log
        assert session.usage == usage
        assert session.search("topic1") == hits
        assert session._core.clock == clock
        play(session, conversation(6))
        assert session.log()[: len(log)] == log


def test_mk_13_boundaries_count_over_the_life_of_a_session(tmp_path: Path) -> None:
    big = user("word " * 2000)
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(user("a"), assistant("b"), big)
        assert session.prepare().compaction is None, "boundary 0 never compacts"
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(assistant("c"), user("d"))
        assert isinstance(session.prepare().compaction, Compacted)


def test_the_provider_s_count_is_a_trigger_of_its_own(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", policy=small(5000), model=ScriptedModel()) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("a long story " * 750), user("c"))
        session.prepare()
        session.append(assistant("d"), user("e"), usage={"prompt_tokens": 6000})
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "input_tokens"  # type: ignore[union-attr]
        assert session._core.clock.last_input_tokens == 0


@pytest.mark.parametrize(
    ("policy", "said"),
    [  # a request has an artificial result for each call without one; calls here may have the same id
        (
            siltstone.Emergency(estimator="chars/3"),
            [call("b", "a", "a"), result("b", "x" * 400), user("x" * 150), result("a", "x" * 60), user("q")],
        ),
        (small(82, recent_turn_budget=0), [result("c", "x" * 800), call("a", "b"), user("q")]),
        (small(80), [*conversation(8), RULES, user("and now?")]),
    ],
    ids=["a note between a call and its result", "what is never sent", "rules"],
)
def test_a_request_that_a_compaction_makes_too_large_is_refused_before_anything_is_changed(
    policy: Compactor, said: list[dict[str, Any]]
) -> None:
    held = []
    for window in range(84, 600, 4):
        hook, model = RecordingHook(), ScriptedModel()
        options: Any = {"policy": policy, "model": model, "context_window": window, "hooks": [hook]}
        with siltstone.Session.open(None, "s", memory=siltstone.SimpleMemoryStore(), **options) as session:
            session.append(*said)
            session._core.pass_boundary()  # boundary 0 never compacts
            before, told = session.history(), len(hook.events)
            try:
                held.append(session.prepare().tokens <= window)
            except siltstone.ContextOverflowError:
                assert session.history() == before
                assert (model.requests, hook.events[told:], session.compactions()) == ([], [], [])
    assert all(held)
    assert 0 < len(held) < 129


def test_the_lists_of_an_answer_are_its_own_and_those_of_its_moment_whenever_they_are_read(tmp_path: Path):
    said = [user("one"), assistant("two")]
    with siltstone.Session.open(tmp_path, "s", policy=small()) as session:
        session.append(*said)
        early, unread, other = session.prepare(), session.prepare(), session.prepare()
        early.messages.append("a note of the host")
        early.history.clear()
        session.append(user("three"))
        assert unread.messages == unread.history == said
        assert unread.messages is unread.messages
        assert unread.messages is not unread.history
        assert all(a is b for a, b in zip(unread.messages, said, strict=True))
        assert other == unread
        assert pickle.loads(pickle.dumps(other)) == unread
        assert early.messages[2:] == ["a note of the host"]
        assert early.history == []
        assert session.prepare().messages == [*said, user("three")]


def grown(session: siltstone.Session, count: int) -> None:
    session.prepare()  # boundary 0 never compacts
    session.append(*conversation(count))


def test_what_is_planned_is_what_prepare_then_does(tmp_path: Path) -> None:
    model = ScriptedModel()
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=model) as session:
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


def test_with_nothing_due_it_says_so_and_looks_at_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with siltstone.Session.open(tmp_path, "s", policy=small()) as session:
        session.prepare()
        session.append(user("hello"), assistant("hi"))
        tokens = session.prepare().tokens
        monkeypatch.setattr(type(session._core.view), "messages", None)
        planned = session.plan()
        assert planned == Plan(False, "not_due", 2, 0, (), 0, tokens, tokens, "threshold")
    with siltstone.Session.open(tmp_path, "none") as session:
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
    with siltstone.Session.open(tmp_path, "s", policy=policy, on_before_compact=before) as session:
        grown(session, 20)
        boundary = session._core.clock.boundary
        planned = session.plan()
        assert (asked, planned.compacts, planned.requests) == ([], True, 0)
        assert session._core.clock.boundary == boundary
        session.prepare()
        assert len(asked) == 2, "the hook and the curator, once each"


def test_where_the_net_alone_is_due_its_plan_is_given(tmp_path: Path) -> None:
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=600))
    with siltstone.Session.open(tmp_path, "s", policy=policy, context_window=1_000) as session:
        session.append(*conversation(20))  # boundary 0
        planned = session.plan()
        assert (planned.compacts, planned.policy, planned.requests) == (True, "emergency", 0)
        done = session.prepare().compaction
        assert done.covers == planned.covers


def test_a_wish_of_the_model_is_planned_and_still_granted(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        grown(session, 5)
        assert session.plan().reason == "not_due"
        session.compact_tool.call({})
        assert session.plan().cause == "model"
        assert isinstance(session.prepare().compaction, Compacted)


POLICY = siltstone.ThresholdCompactor(
    siltstone.CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50)
)


@pytest.mark.parametrize("seq", [-1, 48, 10**9])
def test_what_is_not_in_the_view_cannot_be_pinned(tmp_path: Path, seq: int) -> None:
    with siltstone.Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(*conversation())
        with pytest.raises(siltstone.ConfigError, match=f"got {seq}") as caught:
            session.pin(seq)
        assert caught.value.field == "seq"
        assert isinstance(session.compact(), Compacted)
        with pytest.raises(siltstone.ConfigError, match="cannot be pinned"):
            session.pin(0)


def test_rule_10_a_policy_for_one_boundary_is_checked_too(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", reserved_tokens=700) as session:
        session.append(user("hello"))
        with pytest.raises(siltstone.ConfigError, match="reserved_tokens, got 700"):
            session.prepare(policy=POLICY)


def test_rule_16_what_came_since_the_provider_counted_is_added(tmp_path: Path) -> None:
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=5_000))
    with siltstone.Session.open(
        tmp_path, "s", policy=policy, model=ScriptedModel(), reserved_tokens=100
    ) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("a long story " * 750), user("c"))
        session.prepare()
        session.append(assistant("d"), user("e"), usage=4_900)
        assert session.prepare().compaction is None
        session.append(user("word " * 120))
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "forecast"  # type: ignore[union-attr]


def test_rule_16_the_error_of_our_estimate_is_exposed(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", reserved_tokens=50) as session:
        assert session.estimate_error is None
        session.append(user("word " * 200))
        ours = siltstone.estimate_tokens(session.history(), "blocks") + 50
        session.append(assistant("ok"), usage={"input_tokens": 200})
        assert session.estimate_error == pytest.approx(ours / 200 - 1)
        session.append(user("more"))
        assert session.estimate_error == pytest.approx(ours / 200 - 1)


def test_mk_12_the_bytes_of_the_request_are_a_trigger_in_a_session(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 40_000}}
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(max_request_bytes=100_000))
    with siltstone.Session.open(tmp_path, "s", policy=policy, model=ScriptedModel()) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("b"), {"role": "user", "content": [image]}, assistant("c"), user("d"))
        assert session.prepare().compaction is None
        session.append(assistant("e"), {"role": "user", "content": [image]}, assistant("f"), user("g"))
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "bytes"  # type: ignore[union-attr]


ROLES = ("system", "developer", "user", "assistant")


@given(
    st.lists(st.lists(st.sampled_from(ROLES), max_size=4), max_size=6),
    st.frozensets(st.integers(0, 20), max_size=3),
)
def test_a_view_that_grows_counts_as_one_that_is_counted_whole(grown: list[list[str]], pins: Any) -> None:
    view, seq, fixed = View(rule("blocks")), 0, 0
    for roles in grown:
        items = []
        for role in roles:
            message = read_message({"role": role, "content": "text"}, seq)
            fixed += role in ("system", "developer")
            seq += 1
            items.append(view.measured(message, 0))
        before, view = view, view.extended(items)
        assert before.fixed(()) <= view.fixed(()) == fixed
        pinned = sum(item.message.seq in pins and item.message.role in ("user", "assistant") for item in view)
        assert view.fixed(pins) == fixed + pinned
        assert view.fixed(()) == fixed


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def plain(spans: list[tuple[int, int]]) -> set[int]:
    return {number for start, end in spans for number in range(start, end)}


@given(SPANS, SPANS)
def test_a_range_set_is_the_set_of_its_numbers(one: list[tuple[int, int]], other: list[tuple[int, int]]):
    first, second = union(one), union(other)
    assert numbers(first) == sorted(plain(one))
    assert numbers(union(one, other)) == sorted(plain(one) | plain(other))
    assert minus(first, second) == union(minus(first, second))
    assert numbers(minus(first, second)) == sorted(plain(one) - plain(other))
    assert numbers(common(first, second)) == sorted(plain(one) & plain(other))
    assert count(first) == len(plain(one))


@given(SPANS, st.integers(0, 31), st.integers(0, 31))
def test_a_range_is_in_a_set_that_has_all_of_its_numbers(spans: list[tuple[int, int]], start: int, end: int):
    held = plain(spans)
    assert has(union(spans), start, end) == held.issuperset(range(start, end))
    assert has(union(spans), start) == (start in held)
    assert numbers(within(union(spans), start, end)) == sorted(held & set(range(start, end)))
