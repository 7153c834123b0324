"""Where turns begin and end, which messages stay together, and their sequence numbers."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, result, results, say, thought, use
from siltstone.messages import (
    Group,
    History,
    Message,
    SummaryMessage,
    Turn,
    as_history,
    broken_tool_groups,
    groups,
    opens_turn,
    read_history,
    read_message,
    turns,
)
from strategies import histories


def numbered(*items: Any) -> list[Message]:
    messages = [item if isinstance(item, Message) else read_message(item, 0) for item in items]
    return [replace(message, seq=seq) for seq, message in enumerate(messages)]


def test_a_users_words_beside_results_open_a_turn() -> None:
    history = numbered(ask(), use("a"), results("a", text="stop, build B"), say())
    assert turns(history) == [Turn(0, 2, 0), Turn(2, 4, 2)]


@pytest.mark.parametrize("text", ["<system-reminder>\nmind the lint</system-reminder>", "  \n", ""])
def test_a_reminder_or_a_blank_beside_results_opens_none(text: str) -> None:
    raws = [ask(), use("a"), results("a"), say()]
    raws[2] = {**raws[2], "content": [*raws[2]["content"], {"type": "text", "text": text}]}
    assert turns(read_history(raws)) == [Turn(0, 4, 0)]
    assert History(raws).outline.requests == [0]


def test_a_host_says_what_is_no_request() -> None:
    def rule(text: str) -> bool:
        return not text.startswith("[hook]")

    raws = [ask(), use("a"), results("a", text="[hook] tests are red"), say()]
    history = read_history(raws)
    assert len(turns(history, rule)) == 1
    assert len(turns(history)) == 2
    assert History(raws, rule=rule).outline.requests == [0]
    assert as_history(History(raws), rule).outline.requests == [0]
    assert not opens_turn(history[2], rule)


def test_a_host_is_asked_about_texts_beside_results_up_to_the_first_request() -> None:
    asked: list[str] = []

    def rule(text: str) -> bool:
        asked.append(text)
        return text == "build"

    raws = [ask(), use("a"), results("a")]
    said = [" ", "[hook]", "build", "[hook] again"]
    raws[2]["content"] += [*said[:2], *({"type": "text", "text": text} for text in said[2:])]
    history = History(raws, rule=rule)
    assert history.outline.requests == [0, 2]
    assert asked == ["[hook]", "build"]
    assert [turn.request for turn in turns(read_history(raws), rule)] == [0, 2]
    assert asked == ["[hook]", "build"] * 2


def test_a_summary_opens_no_turn_and_a_user_who_writes_like_one_opens_it() -> None:
    summary = SummaryMessage("[Context compacted] x", ((1, 5),))
    history = read_history([{"role": "system", "content": "s"}, summary, ask(), say()])
    assert turns(history) == [Turn(2, 4, 2)]
    assert turns(numbered(ask("[Context compacted] I typed this"), say())) == [Turn(0, 2, 0)]


def test_what_was_injected_before_a_request_belongs_to_its_turn_and_opens_none() -> None:
    provenance: Any
    for provenance in ("injected_context", "recalled_context"):
        beside = read_message(ask("for your information"), 0, provenance=provenance)
        assert turns(numbered(ask(), say(), beside, beside, ask(), say())) == [Turn(0, 2, 0), Turn(2, 6, 4)]
    for provenance in ("placeholder", "repaired"):
        assert turns(numbered(ask(), read_message(ask(), 0, provenance=provenance))) == [Turn(0, 2, 0)]


@given(raws=histories(), data=st.data())
def test_leaving_out_whole_groups_breaks_nothing(raws: list[dict[str, Any]], data: st.DataObject) -> None:
    found = groups(read_history(raws))
    gone = data.draw(st.sets(st.sampled_from([g for g in found if not g.pending] or [Group(())])))
    lost = {position for group in gone for position in group.positions}
    assert broken_tool_groups(raws) == 0
    assert broken_tool_groups([raw for at, raw in enumerate(raws) if at not in lost]) == 0


HM = {"role": "assistant", "content": "", "reasoning_content": "hm"}
LEGACY = [
    {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
    {"role": "function", "name": "ls", "content": "a.txt"},
]
BARE = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "ls", "arguments": {}}}] * 2}
ANSWER = {"role": "tool", "tool_name": "ls", "content": "ok"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
GROUPED: dict[str, tuple[list[Any], list[tuple[int, ...]]]] = {
    "parallel calls and their results": (
        [ask(), call("a", "b"), result("b"), result("a"), say()],
        [(0,), (1, 2, 3), (4,)],
    ),
    "results of parallel calls in two messages": (
        [ask(), use("a", "b"), results("a"), results("b"), say()],
        [(0,), (1, 2, 3), (4,)],
    ),
    "a delayed result": (
        [ask(), call("a"), say("meanwhile"), ask("still?"), result("a")],
        [(0,), (1, 4), (2,), (3,)],
    ),
    "an id that is used again": (
        [ask(), call("a"), result("a"), call("a"), result("a"), say()],
        [(0,), (1, 2), (3, 4), (5,)],
    ),
    "one message with results of several calls": (
        [ask(), use("a"), use("b"), results("a", "b"), say()],
        [(0,), (1, 2, 3), (4,)],
    ),
    "text beside a result": ([ask(), use("a"), results("a", text="and hurry"), say()], [(0,), (1, 2), (3,)]),
    "reasoning before a call": ([ask(), thought(), use("a"), results("a")], [(0,), (1, 2, 3)]),
    "reasoning before words and a call": (
        [ask(), thought(), say("I look"), use("a"), results("a")],
        [(0,), (1, 2, 3, 4)],
    ),
    "reasoning alone": ([ask(), thought(), ask()], [(0,), (1,), (2,)]),
    "answers without reasoning": (
        [ask(), say("one"), say("two"), call("a"), result("a")],
        [(0,), (1,), (2,), (3, 4)],
    ),
    "reasoning of servers of OpenAI's API": ([ask(), HM, call("a"), result("a")], [(0,), (1, 2, 3)]),
    "legacy functions by their names": ([ask(), *LEGACY, *LEGACY], [(0,), (1, 2), (3, 4)]),
    "parallel calls without ids in their order": ([ask(), BARE, ANSWER, ANSWER], [(0,), (1, 2, 3)]),
    "a tool of the provider": ([ask(), blocks("assistant", SEARCH, FOUND)], [(0,), (1,)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("what", GROUPED)
def test_what_belongs_together_is_one_group_and_nothing_is_broken_or_pending(what: str) -> None:
    raws, expected = GROUPED[what]
    assert groups(read_history(raws)) == [Group(positions) for positions in expected]
    assert broken_tool_groups(raws) == 0


def test_broken_counts_results_without_a_call_before_them() -> None:
    assert broken_tool_groups([ask(), result("a"), say()]) == 1
    assert broken_tool_groups([ask(), result("a"), call("a"), say()]) == 2
    assert broken_tool_groups([ask(), results("a", "b"), say()]) == 1


def test_broken_counts_calls_that_can_get_no_result_any_more() -> None:
    assert broken_tool_groups([ask(), call("a"), ask("stop"), say()]) == 1
    assert broken_tool_groups([ask(), call("a", "b"), result("a"), say()]) == 1
    assert broken_tool_groups([ask(), call("a"), ask("again"), call("a"), result("a")]) == 1


def test_a_call_at_the_very_end_is_pending_and_not_broken() -> None:
    assert broken_tool_groups([ask(), call("a", "b")]) == 0
    assert broken_tool_groups([ask(), call("a", "b"), result("b")]) == 0
    assert broken_tool_groups([ask(), use("a"), use("b"), results("b")]) == 0


def summary(*covers: tuple[int, int]) -> SummaryMessage:
    return SummaryMessage("[Context compacted] …", covers)


def numbers(*raws: Any, first_seq: int = 0) -> list[int]:
    return [message.seq for message in read_history(raws, first_seq=first_seq)]


def test_a_summary_counts_up_where_it_is_twice_in_a_list_or_covers_nothing() -> None:
    assert numbers(summary((0, 3)), summary((0, 3)), ask()) == [0, 3, 6]
    assert numbers(summary((0, 2), (5, 6)), summary((3, 6)), ask()) == [0, 6, 9]
    assert numbers(summary(), ask()) == [0, 1]


@st.composite
def rewritten(draw: Any) -> tuple[list[Any], list[int]]:
    """A view as a compaction leaves it, with the numbers that its messages had before."""
    size = draw(st.integers(1, 30))
    gone = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    covers: list[tuple[int, int]] = []
    for seq in gone:
        if covers and covers[-1][1] == seq:
            covers[-1] = (covers[-1][0], seq + 1)
        else:
            covers.append((seq, seq + 1))
    view: list[Any] = [ask(str(seq)) for seq in range(gone[0])]
    view.append(summary(*covers))
    view += [ask(str(seq)) for seq in range(gone[0], size) if seq not in gone]
    return view, [*range(gone[0] + 1), *(seq for seq in range(gone[0], size) if seq not in gone)]


@given(case=rewritten())
def test_a_compacted_history_keeps_its_numbers_when_it_is_read_again(case: Any) -> None:
    view, expected = case
    assert numbers(*view) == expected


@given(
    items=st.lists(
        st.one_of(st.none(), st.lists(st.integers(0, 40), min_size=2, max_size=4, unique=True).map(sorted)),
        max_size=8,
    )
)
def test_numbers_increase_and_nothing_is_covered_twice_whatever_is_in_the_list(items: Any) -> None:
    raws = [ask() if item is None else summary(*zip(item[::2], item[1::2], strict=False)) for item in items]
    history = read_history(raws)
    assert all(before.seq < after.seq for before, after in pairwise(history))
    covered = [seq for message in history for start, end in message.covers for seq in range(start, end)]
    originals = [message.seq for message in history if not message.covers]
    assert len(set(covered + originals)) == len(covered + originals)
