"""Waterfall summaries, row by row: when they run, what they ask, and what a failure leaves."""

import json
import random
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import distinct, exchange
from playing import Play, committed, said, shown
from siltstone import CompletionRequest, ConfigError, Session, WaterfallCompactor
from siltstone.compaction import CompactionContext, Trigger
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import summary_message
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.messages import MaterialItem, SummaryMessage, encode, read_history, unmarked
from siltstone.systems.waterfall.config import RECENT_PREFIX, WaterfallConfig, combining, slice_of
from siltstone.systems.waterfall.policy import WaterfallState

OLDER = "# Older Summary:"


def play(model: Any = None, **settings: Any) -> Play:
    config = replace(WaterfallConfig.documented(), retry_delay=0.0, **settings)
    return Play(WaterfallCompactor(config), model)


def state(session: Play) -> WaterfallState:
    found = WaterfallState.read(session.state)
    assert found is not None
    return found


def texts(session: Play) -> list[str]:
    """The summaries of the view without their frames."""
    return [unmarked(message.text).partition("\n\n")[2] for message in session.summaries()]


@pytest.mark.parametrize(
    ("windows", "runs"),
    [((64, 64), [129, 193, 257, 321]), ((24, 24), [49, 73, 97]), ((1, 1), [3, 4, 5]), ((5, 3), [9, 12, 15])],
)
def test_wf_01_02_03_both_windows_fill_before_the_first_run_and_the_next_come_at_steps(
    windows: tuple[int, int], runs: list[int]
):
    documented = WaterfallConfig.documented()
    assert (documented.immediate_window, documented.recent_window) == (64, 64)
    session = play(immediate_window=windows[0], recent_window=windows[1])
    session.add(*said(runs[-1]))
    assert session.runs == runs


def test_wf_03_steps_of_their_own_count_from_the_size_that_was_captured():
    session = play(immediate_window=4, recent_window=4, step=2)
    session.append(*said(11))
    session.boundary()
    session.add(*said(4, 11))
    assert session.runs == [11, 13, 15]


def test_wf_04_05_09_10_22_the_first_run_asks_once_for_all_but_the_newest_64_and_a_forced_one_finds_none():
    session = play(lambda request: " \n I remember.\n\n")
    entries = said(129)
    (outcome,) = committed(session.add(*entries))
    assert session.prompts == [slice_of([f"Entry {n}" for n in range(65)])]
    assert state(session) == WaterfallState(last=129, covered=65, longterm_end=0, passes=1)
    assert shown(session.view) == ["S", *(str(n) for n in range(65, 129))]
    assert texts(session) == ["I remember."]
    assert session.summaries()[0].covers == outcome.covers == ((0, 65),)
    kept = [m.raw for m in session.view if m.provenance == "original"]
    assert [id(raw) for raw in kept] == [id(raw) for raw in entries[65:]]
    refused = session.compact()
    assert (type(refused), refused.reason) == (Skipped, "nothing_to_discard")
    assert "no new entries" in refused.message
    assert len(session.requests) == 1


def test_wf_06_the_second_run_puts_the_old_recent_text_into_long_term_first():
    answers = iter(["old recent", "long", "new recent"])
    session = play(lambda request: next(answers))
    session.add(*said(193))
    assert [request.purpose for request in session.requests] == ["summary", "merge", "summary"]
    assert session.prompts[1] == combining("old recent", "")
    assert session.prompts[2] == slice_of([f"Entry {n}" for n in range(65, 129)])
    assert texts(session) == ["long", "new recent"]
    assert [message.covers for message in session.summaries()] == [((0, 65),), ((65, 129),)]


def test_wf_07_the_older_section_is_there_once_long_term_is():
    session = play()
    session.add(*said(257))
    merges = [request for request in session.requests if request.purpose == "merge"]
    prompts = [next(iter(request.messages))["content"] for request in merges]
    assert [OLDER in prompt for prompt in prompts] == [False, True]


def test_wf_08_the_documented_prompts_byte_for_byte():
    assert slice_of(["I went out.", "It rained."]) == (
        "# Memories:\nI went out.\nIt rained.\n\n"
        "# Summary (first-person perspective, I/me/my, no meta-commentary):\n> "
    )
    assert combining("new", "old") == (
        "# Recent Summary:\nnew\n\n# Older Summary:\nold\n\n"
        "# Combined Summary (first-person perspective, I/me/my, no meta-commentary):\n> "
    )
    assert combining("new", "") == (
        "# Recent Summary:\nnew\n\n"
        "# Combined Summary (first-person perspective, I/me/my, no meta-commentary):\n> "
    )


@pytest.mark.parametrize("answer", ["", " \n\t"])
@pytest.mark.parametrize("call", [1, 2])
def test_wf_11_a_blank_answer_keeps_the_old_values_and_the_schedule(answer: str, call: int):
    answers: list[Any] = ["first", "long", "second"]
    answers[call] = answer
    given_ = iter(answers)
    session = play(lambda request: next(given_))
    session.add(*said(192))
    before, view = session.state, shown(session.view)
    (outcome,) = session.add(*said(1, 192))
    assert (type(outcome), outcome.reason) == (Failed, "empty_summary")
    assert session.state is before
    assert shown(session.view) == [*view, "192"]
    assert texts(session) == ["first"]


@pytest.mark.parametrize("error", [OSError("the line is dead"), TimeoutError("no answer within 5 s")])
def test_wf_12_an_error_or_a_timeout_is_told_and_tried_again_16_entries_later(error: Exception):
    broken = [True]

    def model(request: Any) -> str:
        if broken[0]:
            raise error
        return "fine"

    session = play(model)
    (outcome,) = session.add(*said(129))
    assert (type(outcome), outcome.reason) == (Failed, "llm_failed")
    assert len(session.requests) == 3, "three attempts"
    assert session.state is None
    broken[0] = False
    session.add(*said(15, 129))
    assert session.runs == []
    session.add(*said(1, 144))
    assert session.runs == [145]


def test_wf_13_no_summariser_is_a_skip_that_says_so():
    session = Play(WaterfallCompactor(), has_model=False)
    (outcome,) = session.add(*said(129))
    assert (type(outcome), outcome.reason) == (Skipped, "no_model")
    assert session.state is None
    assert shown(session.view) == [str(n) for n in range(129)]


def test_wf_14_a_forced_run_refuses_up_to_the_immediate_window_with_the_numbers():
    session = play()
    session.add(*said(64))
    refused = session.compact()
    assert (type(refused), refused.reason) == (Skipped, "too_few")
    assert "have 64" in refused.message
    assert "more than 64" in refused.message
    session.add(*said(1, 64))
    assert isinstance(session.compact(), Compacted)
    assert session.prompts == [slice_of(["Entry 0"])]


def test_wf_19_a_restart_goes_on_with_the_counters():
    session = play()
    session.add(*said(130))
    again = Play(WaterfallCompactor(replace(WaterfallConfig.documented(), retry_delay=0.0)))
    again.log, again.view, again.state = session.log, session.view, session.state
    again.add(*said(62, 130))
    assert again.runs == []
    again.add(*said(1, 192))
    assert again.runs == [193]


def test_wf_19_without_the_state_the_summaries_say_where_a_run_ended():
    session = play()
    session.add(*said(257))
    session.state = None
    assert isinstance(session.compact(), Skipped), "all but the immediate window is summarised"
    session.add(*said(1, 257))
    assert state(session) == WaterfallState(last=258, covered=194, longterm_end=193, passes=3)
    assert session.prompts[-1] == slice_of(["Entry 193"]), "and no more than that again"
    assert session.stands_for() == list(range(258))


@given(data=st.data())
def test_wf_20_every_entry_is_in_view_or_covered_whatever_happens(data: st.DataObject):
    """Random adds, runs, failures and restarts: ranges stay contiguous from 0, and nothing is in neither."""
    immediate, recent = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    answers = st.sampled_from(["A summary.", "", OSError("down")])

    def model(request: Any) -> str:
        answer = data.draw(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    config = WaterfallConfig(immediate_window=immediate, recent_window=recent, retry_delay=0, attempts=1)
    session, done = Play(WaterfallCompactor(config), model), 0
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["add", "add", "append", "force", "restart"]))
        count = data.draw(st.integers(1, 9))
        if step == "add":
            session.add(*said(count, len(session.log)))
        elif step == "append":
            session.append(*said(count, len(session.log)))
        elif step == "force":
            session.compact()
        else:
            done += len(session.runs)
            session = restarted(session, model)
        assert session.stands_for() == list(range(len(session.log)))
        found = WaterfallState.read(session.state)
        assert (found is None) == (done + len(session.runs) == 0)
        if found is not None:
            assert 0 <= found.longterm_end <= found.covered <= len(session.log)
            assert found.covered == sum(end - start for m in session.summaries() for start, end in m.covers)
            in_view = {m.seq for m in session.view if m.provenance == "original"}
            assert in_view == set(range(found.covered, len(session.log)))


def restarted(session: Play, model: Any) -> Play:
    """The session in another process: stored values come back from JSON, all others are made anew."""
    policy = session.policy
    assert isinstance(policy, WaterfallCompactor)
    again = Play(WaterfallCompactor(policy.config), model)
    again.log = read_history(json.loads(json.dumps([message.raw for message in session.log])))
    again.view = read_history(json.loads(json.dumps([message.raw for message in session.view])))
    again.past = read_history(json.loads(json.dumps([message.raw for message in session.past])))
    again.state = json.loads(json.dumps(session.state))
    return again


def test_wf_21_entries_added_during_a_run_go_into_the_next_slice():
    session = play()
    session.add(*said(192))
    added = []

    def model(request: Any) -> str:
        if not added:
            added.append(True)
            session.append(*said(70, 193))
        return "text"

    session._answer = model
    session.add(*said(1, 192))
    assert state(session).last == 193
    session.boundary()
    assert state(session).covered == 263 - 64
    assert "Entry 129\n" in session.prompts[-1]
    assert session.stands_for() == list(range(263))


def test_wf_23_a_first_run_far_beyond_the_windows_takes_pieces_and_leaves_nothing_out():
    session = play()
    session.append(*said(400))
    session.boundary()
    slices = [p for p in session.prompts if p.startswith("# Memories")]
    counts = [prompt.count("Entry ") for prompt in slices]
    assert counts == [64, 64, 64, 64, 80]
    assert len(session.requests) == 1 + 4 * 2
    assert state(session) == WaterfallState(last=400, covered=336, longterm_end=256, passes=5)
    assert session.stands_for() == list(range(400))
    assert len(session.past) == 4, "the recent summaries in between are kept beside"


def test_wf_23_a_failure_halfway_keeps_the_pieces_that_were_finished():
    answers = iter(["one", "long", "two", OSError("down"), OSError("down"), OSError("down")])

    def model(request: Any) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    session = play(model)
    session.append(*said(400))
    assert isinstance(session.boundary(), Compacted)
    assert state(session) == WaterfallState(0, covered=128, longterm_end=64, passes=2, failed_at=400)
    assert session.stands_for() == list(range(400))
    session._answer = lambda request: "again"
    session.add(*said(15, 400))
    assert len(session.runs) == 1
    session.add(*said(1, 415))
    assert session.runs == [400, 416]
    assert state(session).covered == 352


def test_wf_24_the_schedule_counts_what_was_said_and_not_what_is_in_view():
    policy = WaterfallCompactor(WaterfallConfig.documented())
    state = {"last": 129, "covered": 65, "longterm_end": 0, "passes": 1}
    for size, due in ((192, False), (193, True)):
        context = CompactionContext(1, message_count=10, next_seq=size, policy_state=state)
        assert (policy.should_compact(context) is not None) is due


def test_wf_25_long_term_stays_within_its_budget():
    session = Play(WaterfallCompactor(WaterfallConfig(longterm_budget_tokens=100)), lambda r: distinct(400))
    session.add(*said(300))
    for message in session.summaries()[:1]:
        assert session.policy.token_rule.count_text(unmarked(message.text).partition("\n\n")[2]) <= 100


def test_wf_25_long_term_is_made_anew_of_the_recent_summaries_now_and_then():
    config = WaterfallConfig(immediate_window=2, recent_window=2, longterm_refresh=4)
    session = Play(WaterfallCompactor(config))
    session.add(*said(11))
    prompts = session.prompts
    assert state(session).passes == 4
    remade = [p for p in prompts if p.startswith("# Memories") and "Summary " in p.split("\n\n")[0]]
    assert len(remade) == 1
    recents = [text for text in ("Summary 1.", "Summary 3.", "Summary 5.") if text in remade[0]]
    assert len(recents) == 3


def test_wf_26_long_term_comes_first_then_recent_then_the_messages():
    session = play()
    session.add({"role": "system", "content": "Rules."}, *said(400, 1))
    assert shown(session.view)[:3] == ["0", "S", "S"]
    longterm, recent = session.summaries()
    assert "Long-term memory" in longterm.text
    assert "Recent memory" in recent.text
    assert isinstance(longterm.raw, SummaryMessage)


def test_wf_26_a_host_s_own_prompt_has_the_three_scales_in_one_record():
    answers = iter(["old recent", "long", "new recent"])
    session = play(lambda request: next(answers))
    policy = session.policy
    assert isinstance(policy, WaterfallCompactor)
    session.add(*said(100))
    early = policy.recent_context(session.view, session.state, 3)
    assert [m.text for m in early.immediate] == ["Entry 97", "Entry 98", "Entry 99"]
    assert (early.recent_summary, early.longterm_summary, early.has_summaries) == ("", "", False)
    session.add(*said(93, 100))
    late = policy.recent_context(session.view, session.state, 2)
    assert [m.text for m in late.immediate] == ["Entry 191", "Entry 192"]
    assert (late.recent_summary, late.longterm_summary, late.has_summaries) == ("new recent", "long", True)
    assert len(policy.recent_context(session.view, session.state).immediate) == 64
    assert policy.recent_context(session.view, session.state, 0).immediate == ()
    with pytest.raises(ConfigError, match="count"):
        policy.recent_context(session.view, session.state, -1)


def test_wf_27_the_status_tells_ranges_and_the_bands_are_strict():
    session = play()
    session.add(*said(200))
    policy = session.policy
    assert isinstance(policy, WaterfallCompactor)
    status = policy.status(session.view, session.state, next_seq=200)
    assert (status.longterm, status.recent) == ((0, 65), (65, 129))
    assert (status.pending, status.immediate) == ((129, 136), (136, 200))
    assert (status.last_run, status.next_run) == (193, 257)
    assert status.line == "[Memory: OK]"
    assert "- **Recent summary**: 64 entries (65 to 128)" in status.markdown
    times = [1_000.0] * len(session.view)
    assert policy.status(session.view, session.state, times=times, now=4_600.0).line == "[Memory: OK]"
    old = policy.status(session.view, session.state, times=times, now=4_601.0)
    assert old.line == "[Memory: WARNING - 1 issues]"
    undated = policy.status(session.view, session.state, times=[None, *times[1:]])
    assert undated.warnings == ("1 entries without timestamp",)


@pytest.mark.parametrize(
    ("count", "cap", "warns"),
    [(96, 128, None), (97, 128, "filling"), (117, 130, "filling"), (118, 130, "almost full")],
)
def test_wf_27_how_full_it_is(count: int, cap: int, warns: str | None):
    config = WaterfallConfig(immediate_window=64, recent_window=64, ram_cap=cap)
    session = Play(WaterfallCompactor(config))
    session.append(*said(count))
    policy = session.policy
    assert isinstance(policy, WaterfallCompactor)
    status = policy.status(session.view, session.state)
    assert [warns in issue for issue in status.warnings] == ([True] if warns else [])  # type: ignore[operator]


def test_wf_27_a_gap_is_an_error_and_a_blank_entry_a_warning():
    session = play()
    session.append(*said(10), {"role": "user", "content": ""})
    del session.view[3]
    policy = session.policy
    assert isinstance(policy, WaterfallCompactor)
    status = policy.status(session.view, None)
    assert status.errors == ("coverage gap: 1 entries, the first is 3",)
    assert status.warnings == ("1 entries without content",)
    assert status.line == "[Memory: WARNING - 2 issues]"
    assert "- ERROR: coverage gap" in status.markdown


def test_wf_31_a_failing_second_call_changes_neither_summary():
    answers = iter(["recent one", "long one", OSError("x"), OSError("x"), OSError("x")])

    def model(request: Any) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    session = play(model)
    session.add(*said(192))
    before = texts(session), session.state
    (outcome,) = session.add(*said(1, 192))
    assert isinstance(outcome, Failed)
    assert (texts(session), session.state) == before


def test_wf_41_the_base_form_is_one_plain_text_with_stop_texts_and_a_temperature():
    session = play(stop=("\n#", "</s>"), temperature=0.2)
    session.add(*said(129))
    (request,) = session.requests
    assert len(request.messages) == 1
    assert request.messages[0] == {"role": "user", "content": session.prompts[0]}
    assert request.stop == ("\n#", "</s>")
    assert request.temperature == 0.2
    assert request.max_tokens == 1024


def test_the_instruct_form_says_what_to_write_and_who_speaks():
    session = play(prompt_style="instruct")
    session.add(*said(193))
    assert "User: Entry 0\nAssistant: Entry 1" in session.prompts[0]
    assert "first person" in session.prompts[0]
    assert "# Recent summary" in session.prompts[1]


def test_wf_43_long_term_has_no_bound_where_none_is_set():
    session = play(lambda request: distinct(3000))
    session.add(*said(193))
    longterm = texts(session)[0]
    assert len(longterm) == len(distinct(3000)) - 1
    assert all(request.max_tokens == 1024 for request in session.requests)


def test_a_tool_group_on_the_border_stays_whole_and_coverage_stays_exact():
    session = play(immediate_window=4, recent_window=4)
    session.append(*said(4))
    session.append(*exchange("a", "out"))  # 4, 5
    session.append(*said(3, 6))
    session.boundary()
    assert state(session).covered == 5, "n - 4, in the middle of the group"
    assert shown(session.view) == ["S", "4", "5", "6", "7", "8"]
    assert "Tool call a" in session.prompts[0]
    assert "Tool result a" not in session.prompts[0]
    session.add(*said(4, 9))
    assert state(session).covered == 9
    assert shown(session.view) == ["S", "S", "9", "10", "11", "12"]
    assert session.stands_for() == list(range(13))


def test_a_view_that_the_net_has_cut_goes_on_as_long_term():
    from siltstone import Emergency

    session = play(immediate_window=4, recent_window=4)
    session.add(*said(20))
    waterfall = session.policy
    session.policy = Emergency(110)
    session.compact(Trigger("overflow", context_window=200))
    session.policy = waterfall
    assert len(session.summaries()) == 1
    session.add(*said(8, 20))
    assert session.stands_for() == list(range(28))
    assert len(session.summaries()) == 2


def test_wf_29_bootstrap_covers_an_old_history_as_if_the_runs_had_happened():
    session = play()
    session.append(*said(300))
    outcome = session.compact(Trigger("manual", "bootstrap"))
    assert isinstance(outcome, Compacted)
    assert state(session) == WaterfallState(last=300, covered=236, longterm_end=172, passes=4)
    assert session.prompts[-1] == slice_of([f"Entry {n}" for n in range(172, 236)])
    again = session.compact(Trigger("manual", "bootstrap"))
    assert (type(again), again.reason) == (Skipped, "has_summary")


@pytest.mark.parametrize("end", [128, 236])
def test_wf_29_bootstrap_takes_stored_recent_summaries_in_order_and_what_came_after_them(end: int):
    past = [((64, end), "Then it rained."), ((0, 64), "I went out.")]
    stored = tuple(summary_message(framed(RECENT_PREFIX, text), (span,)) for span, text in past)
    session = play()
    session.append(*said(300))
    assert isinstance(session.compact(Trigger("manual", "bootstrap", past=stored)), Compacted)
    of_messages = [p for p in session.prompts if "Entry" in p]
    assert session.prompts[0] == slice_of(["I went out.", "Then it rained."])
    newest = slice_of([f"Entry {n}" for n in range(172, 236)])
    between = [slice_of([f"Entry {n}" for n in range(128, 172)])] if end == 128 else []
    assert of_messages == [*between, newest]
    assert (state(session).covered, state(session).longterm_end) == (236, 172)
    assert session.stands_for() == list(range(300))


def test_wf_29_bootstrap_refuses_too_few_entries_with_need_and_have():
    session = play()
    session.append(*said(128))
    refused = session.compact(Trigger("manual", "bootstrap"))
    assert (type(refused), refused.reason) == (Skipped, "too_few")
    assert "have 128 (128 loaded), need more than 128" in refused.message


@given(st.integers(0, 1 << 32))
def test_wf_20_coverage_holds_over_a_store_that_is_closed_or_left_open_by_a_process_that_died(seed: int):
    """Real sessions one after the other over one folder, each with a policy of its own."""
    chance = random.Random(seed)
    config = WaterfallConfig(immediate_window=3, recent_window=2, retry_delay=0, attempts=1)

    def model(request: Any) -> str:
        answer = chance.choice(["A summary.", "A summary.", "", OSError("down")])
        if isinstance(answer, Exception):
            raise answer
        return answer

    with TemporaryDirectory() as folder, ExitStack() as left_open:

        def opened() -> Session:
            session = Session.open(folder, "s", policy=WaterfallCompactor(config), model=model)
            left_open.callback(session.close)
            return session

        session, size = opened(), 0
        for _ in range(2):
            for _ in range(chance.randint(0, 6)):
                session.append(*said(1, size))
                size += 1
                session.prepare()
            match chance.choice(["force", "close", "die"]):
                case "force":
                    session.compact()
                case "close":
                    before = [encode(raw) for raw in session.history()]
                    session.close()
                    session = opened()
                    assert [encode(raw) for raw in session.history()] == before
                case _:
                    session = opened()
            view = read_history(session.history())
            covered = [n for m in view for start, end in m.covers for n in range(start, end)]
            assert covered + [m.seq for m in view if not m.covers] == list(range(size))
            assert [raw["content"] for raw in session.log()] == [f"Entry {n}" for n in range(size)]


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_the_material_of_the_portions_is_every_text_once_with_its_speaker(style: str):
    """Portions were given as text alone, and a model that selects lines read the speakers out of it."""
    material: list[list[MaterialItem]] = []

    def keep(request: CompletionRequest) -> str:
        if request.purpose == "summary":
            assert request.material is not None
            material.append(list(request.material))
        return "A summary."

    config = WaterfallConfig(
        immediate_window=4, recent_window=8, summarizer_window=1_024, max_tokens=100, prompt_style=style
    )
    session = Play(WaterfallCompactor(config), keep)
    roles = "assistant", "user"
    raws = [{"role": roles[n % 2], "content": f"Entry {n}:\n" + f"word{n} " * 100} for n in range(13)]
    session.append(*raws)
    assert isinstance(session.boundary(), Compacted)
    assert len(material) > 1
    assert all(material)
    read: dict[int | None, str] = {}
    for item in (item for portion in material for item in portion):
        assert item.role == roles[(item.seq or 0) % 2]
        assert item.continues is (item.seq in read)
        read[item.seq] = read.get(item.seq, "") + item.text
    assert [read[n].split() for n in range(9)] == [raws[n]["content"].split() for n in range(9)]
