"""Messages that must stay together: groups, and the independent count of broken ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, result, results, say, thought, use
from siltstone.messages import Group, broken_tool_groups, groups, read_history
from strategies import histories


@given(raws=histories())
def test_every_message_is_in_exactly_one_group(raws: list[dict[str, Any]]) -> None:
    counts = Counter(position for group in groups(read_history(raws)) for position in group.positions)
    assert counts == Counter(range(len(raws)))


@given(raws=histories())
def test_groups_come_in_order_of_their_first_message(raws: list[dict[str, Any]]) -> None:
    found = groups(read_history(raws))
    assert [group.positions[0] for group in found] == sorted(group.positions[0] for group in found)
    assert all(list(group.positions) == sorted(group.positions) for group in found)


@given(raws=histories(), data=st.data())
def test_leaving_out_whole_groups_breaks_nothing(raws: list[dict[str, Any]], data: st.DataObject) -> None:
    found = groups(read_history(raws))
    gone = data.draw(st.sets(st.sampled_from([g for g in found if not g.pending] or [Group(())])))
    lost = {position for group in gone for position in group.positions}
    assert broken_tool_groups(raws) == 0
    assert broken_tool_groups([raw for at, raw in enumerate(raws) if at not in lost]) == 0


@given(raws=histories(min_turns=1))
def test_tearing_a_result_from_its_call_is_seen(raws: list[dict[str, Any]]) -> None:
    """The check can fail: any history with a call and its result, once the calling message is gone."""
    for group in groups(read_history(raws)):
        history = read_history(raws)
        called = [at for at in group.positions if any(p.kind == "tool_call" for p in history[at].parts)]
        if called and len(group.positions) > 1 and not group.pending:
            torn = [raw for at, raw in enumerate(raws) if at in group.positions and at not in called]
            if any(part.kind == "tool_result" for m in read_history(torn) for part in m.parts):
                assert broken_tool_groups(torn) >= 1


@given(raws=histories(min_turns=1, ending="pending"))
def test_only_the_group_at_the_end_is_pending(raws: list[dict[str, Any]]) -> None:
    found = groups(read_history(raws))
    pending = [group for group in found if group.pending]
    assert len(pending) == 1
    assert pending[0].positions[-1] == len(raws) - 1


@given(raws=histories(ending="answered"))
def test_nothing_is_pending_once_all_is_answered(raws: list[dict[str, Any]]) -> None:
    assert not any(group.pending for group in groups(read_history(raws)))


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
