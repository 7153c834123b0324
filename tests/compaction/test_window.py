"""Windows and three tiers: what is in view, when a run is due, what a failing model leaves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import assistant, distinct, exchange, filler, system, user
from playing import Play, committed, said, shown
from reference.groups import groups
from shapes import ask, call, result, say
from siltstone import ConfigError, ExtractiveModel, MemoryStore, Session, WindowCompactor
from siltstone.compaction import CompactionContext, Trigger
from siltstone.compaction.breakdown import alert_of, breakdown, level_of_ratio
from siltstone.compaction.without_model import smart_fallback_summary
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import StoreError, StoreOpenError
from siltstone.events import ContextCritical, ContextWarning
from siltstone.messages import encode, read_history, repair, unmarked, validate_history
from siltstone.messages.dialects.base import NO_RESULT
from siltstone.systems.rustant import WindowConfig, tiers


def play(model: Any = None, window: int | None = None, **settings: Any) -> Play:
    return Play(WindowCompactor(WindowConfig(**{"retry_delay": 0, **settings})), model, window=window)


def down(request: Any) -> str:
    raise OSError("the line is dead")


def test_ru_03_a_call_over_6_messages_with_limit_3_summarises_and_moves_3():
    session = play(working_limit=3)
    session.append(*said(6))
    outcome = session.compact()
    assert len(outcome.discarded) == 3
    assert shown(session.view) == ["S", "3", "4", "5"]
    assert unmarked(session.view[0].text) == "[Summary of earlier messages]\n\nSummary 1."


def test_ru_04_the_facts_of_both_summaries_survive_within_the_budget():
    session = play(
        lambda request: f"Fact {len(session.requests)} " + distinct(100), summary_budget_tokens=400
    )
    session.add(*said(32))
    (summary,) = session.summaries()
    assert "Fact 1" in summary.text
    assert "Fact 2" in summary.text
    session.add(*said(200, 32))
    assert session.policy.token_rule.count_text(session.summaries()[0].text) <= 400 + 20


def test_ru_04_a_summary_without_room_is_made_anew_of_the_earlier_one():
    session = play(lambda request: distinct(300), summary_budget_tokens=500)
    session.append(*({"role": "user", "content": f"Entry {n}: {filler(300)}"} for n in range(21)))
    session.boundary()
    session.add(*({"role": "user", "content": f"Entry {n}: {filler(300)}"} for n in range(21, 32)))
    materials = [next(iter(request.messages))["content"] for request in session.requests]
    assert materials[1].startswith("[Earlier summary of messages 0-10: ")


def test_what_is_sent_beside_the_history_counts_with_it():
    policy = WindowCompactor(WindowConfig())
    threshold = policy.config.threshold(1_000)
    context = CompactionContext(3, estimated_history_tokens=threshold - 10, context_window=1_000)
    assert policy.should_compact(replace(context, reserved_tokens=9)) is None
    due = policy.should_compact(replace(context, reserved_tokens=10))
    assert (due.reason, due.tokens, due.reserved_tokens) == ("history_tokens", threshold, 10)


@pytest.mark.parametrize(("tokens", "is_due"), [(700, False), (701, True)])
def test_a_run_is_due_where_its_share_of_the_window_is_reached(tokens: int, is_due: bool):
    """0.7 of 1,001 is 700.7, and half of it is 500.5."""
    policy = WindowCompactor(WindowConfig())
    context = CompactionContext(3, estimated_history_tokens=tokens, context_window=1_001)
    assert (policy.should_compact(context) is not None) is is_due
    assert policy.config.target(1_001) == 500


def test_ru_05_inside_the_limit_nothing_happens():
    session = play()
    assert session.add(*said(20)) == []
    outcome = session.compact()
    assert (type(outcome), outcome.reason) == (Skipped, "nothing_to_discard")


def test_a_call_over_two_messages_is_refused_as_too_few():
    session = play()
    session.append(*said(2))
    outcome = session.compact()
    assert (type(outcome), outcome.reason) == (Skipped, "too_few")


def test_ru_07_13_pins_have_exact_bounds_and_survive_with_the_summary_when_it_is_opened_again(tmp_path: Path):
    policy = WindowCompactor(WindowConfig(working_limit=4, retry_delay=0))
    with Session.open(tmp_path, "s", policy=policy, model=ExtractiveModel()) as session:
        session.append(*({"role": "user", "content": f"Entry {n} says topic{n}."} for n in range(3)))
        session.pin(0)
        for seq in (-1, 3):
            with pytest.raises(ConfigError):
                session.pin(seq)
        for n in range(3, 12):
            session.append({"role": "user", "content": f"Entry {n} says topic{n}."})
            session.prepare()
        view = session.history()
        assert session.compactions()
    with Session.open(tmp_path, "s", policy=policy, model=ExtractiveModel()) as session:
        assert session.history() == view
        assert view[0]["content"] == "Entry 0 says topic0."
        assert unmarked(view[1]["content"]).startswith("[Summary of earlier messages]")
        session.unpin(0)
        for n in range(12, 18):
            session.append({"role": "user", "content": f"Entry {n} says topic{n}."})
            session.prepare()
        assert "Entry 0 says topic0." not in [raw.get("content") for raw in session.history()]


def test_ru_08_a_pinned_message_survives_and_fewer_than_3_move():
    session = play(working_limit=3)
    session.append(*said(6))
    session.pins = {1}
    outcome = session.compact()
    assert outcome.covers == ((0, 1), (2, 3))
    assert shown(session.view) == ["S", "1", "3", "4", "5"]


@pytest.mark.parametrize("pinned", [2, 3])
def test_ru_09_a_pinned_result_keeps_its_call_and_the_reverse(pinned: int):
    session = play(working_limit=3)
    session.append(*said(2), *exchange("a", "out"), *said(6, 4))
    session.pins = {pinned}
    assert isinstance(session.compact(), Compacted)
    assert {"2", "3"} <= set(shown(session.view))


def test_ru_10_an_unpinned_pair_across_the_cut_is_not_split():
    session = play(working_limit=3)
    session.append(*said(3), *exchange("a", "out"), *said(2, 5))
    assert isinstance(session.compact(), Compacted)
    assert shown(session.view) == ["S", "3", "4", "5", "6"]


@given(data=st.data())
def test_ru_11_every_message_is_in_view_in_the_summary_or_pinned(data: st.DataObject):
    session = play(
        data.draw(st.sampled_from([None, down, ExtractiveModel()])),
        data.draw(st.sampled_from([None, 2_000, 16_000])),
        working_limit=data.draw(st.integers(1, 8)),
        working_slack=data.draw(st.integers(0, 8)),
    )
    for step in range(data.draw(st.integers(1, 40))):
        if data.draw(st.booleans()):
            session.add(*said(1, len(session.log)))
        else:
            call, result = exchange(f"c{step}", "out " * data.draw(st.integers(1, 40)))
            session.add(call)
            session.add(result)
        if data.draw(st.integers(0, 9)) == 9:
            session.pins.add(data.draw(st.sampled_from([m.seq for m in session.view if not m.covers])))
        assert session.stands_for() == list(range(len(session.log)))
        assert session.pins <= {m.seq for m in session.view if not m.covers}
        in_view = {id(m) for m in session.view}
        for group in groups(session.log):
            assert len({id(session.log[at]) in in_view for at in group.positions}) == 1


def test_ru_12_chats_without_tools_are_compacted_and_200_messages_cost_at_most_20_calls():
    session = play(window=16_000)
    most = 0
    for raw in said(200):
        session.add(raw)
        most = max(most, sum(not message.covers for message in session.view))
    assert most == 20
    assert len(session.requests) <= 20
    assert session.runs[:2] == [21, 32]


def test_the_documented_slack_runs_at_twice_the_limit_and_leaves_the_limit():
    session = Play(WindowCompactor(WindowConfig.documented()))
    session.add(*said(61))
    assert session.runs == [40, 60]
    assert shown(session.view) == ["S", *(str(n) for n in range(40, 61))]


def test_tokens_are_a_trigger_whatever_the_number_and_more_goes_down_to_the_target():
    session = play(window=10_000)
    session.append(system("Rules."))
    session.add(*({"role": "user", "content": f"Entry {n}: {filler(400)}"} for n in range(14)))
    assert session.runs == [15], "0.7 of the window, before there are 20 messages"
    tokens = session.policy.token_rule.count(session.view)
    assert tokens <= 5_000
    assert shown(session.view)[:2] == ["0", "S"]


def test_the_request_in_flight_and_the_newest_group_stay_however_large():
    session = play(window=4_000)
    session.append(user("Do it."), *exchange("a", filler(1500)), *exchange("b", filler(2000)))
    session.boundary()
    assert shown(session.view) == ["0", "S", "3", "4"]


def test_nothing_runs_by_itself_where_auto_summarize_is_off():
    session = play(auto_summarize=False)
    assert session.add(*said(60)) == []
    assert isinstance(session.compact(), Compacted)


def test_a_request_has_the_documented_bounds_and_asks_for_sentences():
    session = play(window=100_000)
    session.add(*({"role": "user", "content": filler(2000)} for _ in range(21)))
    (request,) = session.requests
    assert (request.max_tokens, request.temperature) == (500, None)
    assert "3 to 5 sentences" in session.prompts[0]


def test_ru_20_a_failing_model_gives_way_to_the_deterministic_summary():
    session = play(down)
    (outcome,) = committed(session.add(user("Fix the import."), *exchange("a", "done"), *said(18, 3)))
    assert outcome.degraded
    assert "Fix the import." in outcome.summary
    assert "read_file" in outcome.summary
    assert session.stands_for() == list(range(21))


def test_ru_20_first_and_latest_stay_whole_and_the_middle_is_cut():
    raws = [user("The first request."), *(raw for n in range(30) for raw in exchange(f"c{n}", "x" * 200))]
    raws.append(assistant("The latest answer."))
    for most in (100, 200, 500):
        text = smart_fallback_summary(read_history(raws), most)
        assert len(text.encode()) <= most + 3
        assert "Request: The first request." in text
        assert text.endswith("Latest: The latest answer.")
        assert "Tool: read_file" in text
        assert "..." in text
    assert len(smart_fallback_summary(read_history(raws), 500)) > len(
        smart_fallback_summary(read_history(raws), 200)
    )
    assert smart_fallback_summary([], 500) == ""


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "pair"]), st.text(max_size=400)), max_size=8),
    st.integers(0, 600),
)
def test_ru_20_the_bytes_hold_for_any_text(said_: list[tuple[str, str]], most: int):
    raws: list[Any] = []
    for number, (kind, text) in enumerate(said_):
        raws += exchange(f"c{number}", text) if kind == "pair" else [{"role": kind, "content": text}]
    result = smart_fallback_summary(read_history(raws), most)
    assert len(result.encode()) <= most + 3
    assert result or not raws or most < 40 or not any(text.strip() for kind, text in said_ if kind != "pair")


def test_ru_21_messages_of_several_blocks_are_read():
    block = {"type": "text", "text": "hit"}
    raw = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "grep", "input": {"q": "x"}},
        ],
    }
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [block]}]}
    text = smart_fallback_summary(read_history([user("Find x."), raw, result]), 500)
    assert text.split("\n") == ["Request: Find x.", "Tool: grep", "Result: hit", "Latest: I look."]


def test_ru_22_the_rendering_names_the_roles_and_a_non_text_answer_is_no_summary():
    session = play(lambda request: 7)
    (outcome,) = committed(session.add(*said(21)))
    assert outcome.degraded
    assert "User: Entry 0\nAssistant: Entry 1" in next(iter(session.requests[0].messages))["content"]


def test_ru_52_the_breakdown_counts_and_the_ratio_is_clamped():
    session = play(working_limit=3)
    session.append(system("Rules."), *said(6, 1))
    session.compact()
    session.pins = {5}
    full = breakdown(session.view, 100, pins=session.pins, facts_count=2, rules_count=1)
    assert full.message_count == 4
    assert full.messages_seen == 7
    assert full.pinned_count == 1
    assert full.has_summary
    assert full.summary_tokens > 0
    assert full.total_tokens == session.policy.token_rule.count(session.view)
    assert full.remaining_tokens == 100 - full.total_tokens
    assert (full.facts_count, full.rules_count) == (2, 1)
    assert breakdown(session.view, 10).ratio == 1.0
    assert breakdown(session.view, 0).ratio == 0.0
    assert breakdown(session.view, None).percent == 0


def test_ru_53_the_bands_are_strict():
    assert [level_of_ratio(r) for r in (0.5, 0.51, 0.8, 0.81, 0.95, 0.96)] == [
        "ok", "warning", "warning", "critical", "critical", "overflow",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "told"), [(69, None), (70, ContextWarning), (89, ContextWarning), (90, ContextCritical)]
)
def test_the_alerts_come_at_70_and_90_per_cent(tokens: int, told: type | None):
    view = read_history([user("x")])
    from dataclasses import replace

    full = replace(breakdown(view, 100), total_tokens=tokens)
    alert = alert_of(tokens, 100)
    assert (alert is None) if told is None else isinstance(alert, told)
    assert full.is_warning == (tokens >= 70)


def test_ru_60_the_newest_100_that_left_are_short_term_and_older_ones_long_term():
    session = play()
    session.add(*said(200))
    found = tiers(session.view, len(session.log))
    shown_ = [m.seq for m in session.view if not m.covers]
    left = 200 - len(shown_)
    assert found.of(shown_[0]) == "working"
    assert found.of(left - 1) == "short_term"
    assert found.of(left - 100) == "short_term"
    assert found.of(left - 101) == "long_term"
    assert found.of(0) == "long_term"
    assert found.of(200) is None


def test_a_run_by_tokens_that_would_not_shrink_is_no_run():
    session = play(lambda request: distinct(100), window=400, summary_budget_tokens=10_000)
    session.append(user("a"), assistant("b"), user("c" * 1300))
    outcome = session.compact(Trigger("history_tokens", context_window=400))
    assert (type(outcome), outcome.reason) == (Failed, "no_reduction")


POLICY = WindowCompactor(WindowConfig(working_limit=3, retry_delay=0))


def opened(path: Path, session_id: str = "s") -> Session:
    return Session.open(
        path, session_id, policy=POLICY, model=lambda _: "What was said.", context_window=4_000
    )


def test_ru_02_a_window_of_three_over_six_messages_shows_the_last_three(tmp_path: Path):
    with opened(tmp_path) as session:
        session.append(*said(6))
        session.compact()
        shown = [message.seq for message in read_history(session.history()) if not message.covers]
        assert shown == [3, 4, 5]
        parts = tiers(read_history(session.history()), len(session.log()))
        assert (list(parts.working), list(parts.short_term)) == ([(3, 6)], [(0, 3)])


def test_ru_06_what_is_cleared_is_gone_pins_too(tmp_path: Path):
    with MemoryStore.open(tmp_path) as store:
        with Session.open(None, "s", memory=store, policy=POLICY, model=lambda _: "Short.") as session:
            session.append(*said(6))
            session.pin(2)
            session.compact()
            assert session.search("Entry 0")
        store.delete_session("s")
        store.revive("s")
        with Session.open(None, "s", memory=store, policy=POLICY, model=lambda _: "Short.") as session:
            assert (session.history(), session.log(), session.search("Entry")) == ([], [], [])
            session.append(*said(6))
            session.compact()
            assert 2 not in [message.seq for message in read_history(session.history()) if not message.covers]


def test_ru_50_a_session_comes_back_and_its_folders_are_made(tmp_path: Path):
    path = tmp_path / "not" / "there"
    with opened(path) as session:
        session.append(system("Be brief."), *said(8))
        session.compact()
        view, log = [encode(raw) for raw in session.history()], session.log()
    with opened(path) as session:
        assert ([encode(raw) for raw in session.history()], session.log()) == (view, log)


def test_ru_50_a_store_that_is_missing_or_damaged_is_a_typed_error(tmp_path: Path):
    with pytest.raises(StoreError):
        MemoryStore.open(tmp_path / "nowhere", read_only=True)
    with opened(tmp_path) as session:
        session.append(*said(8))
    file = max(tmp_path.rglob("*.sqlite*"), key=lambda path: path.stat().st_size)
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreOpenError):
        opened(tmp_path)


def test_ru_51_nothing_waits_to_be_written(tmp_path: Path):
    """There is no flusher: appended messages are in the file while the session is open."""
    with opened(tmp_path) as session:
        for count in range(1, 6):
            session.append(*said(1, count))
            with MemoryStore.open(tmp_path, read_only=True) as other:
                assert other.open_log("s").state().next_seq == count


def test_ru_54_rules_between_a_call_and_its_result_are_moved_and_unanswered_calls_are_answered():
    rule = {"role": "system", "content": "Be brief."}
    history = [ask(), call("a"), rule, result("a"), say(), call("b"), ask()]
    healed = repair(history)
    assert validate_history(healed.messages) == []
    assert {"role": "tool", "tool_call_id": "b", "content": NO_RESULT} in healed.messages
    assert rule in healed.messages
