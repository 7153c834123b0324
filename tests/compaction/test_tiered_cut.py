"""Where a history may be cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import assistant, exchange, user
from siltstone.messages import groups, read_history
from siltstone.systems.spacebot.run import aligned_cut
from strategies import HISTORIES


def cut(raws: list[Any], fraction: float, floor: int, **options: Any) -> int:
    return aligned_cut(read_history(raws), fraction, floor, **options)


def plain(count: int) -> list[Any]:
    return [user(f"Message {n}") for n in range(count)]


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [
        (10, 0.3, 3),
        (11, 0.3, 3),
        (10, 0.5, 5),
        (11, 0.5, 5),
        (3, 0.3, 1),
        (3, 0.5, 1),
        (4, 0.75, 2),
        (2, 0.5, 0),
    ],
)
def test_sb_03_fractions_are_rounded_down_with_one_at_least_and_two_that_stay(
    count: int, fraction: float, expected: int
):
    assert cut(plain(count), fraction, 2) == expected


LONG = read_history([message for _ in range(500) for message in (user("a"), assistant("b"))])


@given(st.integers(3, len(LONG)))
def test_sb_03_fractions_are_those_of_whole_numbers(count: int):
    assert aligned_cut(LONG[:count], 0.3, 2) == min(max(1, count * 3 // 10), count - 2)
    assert aligned_cut(LONG[:count], 0.7, 2) == min(max(1, count * 7 // 10), count - 2)


def test_sb_05_a_cut_moves_on_to_the_end_of_a_pair():
    history = [user("Go"), *(raw for n in range(10) for raw in exchange(f"c{n}", "done"))]
    assert cut(history, 0.5, 2) == 11


def test_sb_06_two_pairs():
    history = [raw for n in range(2) for raw in exchange(f"c{n}", "done")]
    assert cut(history, 0.5, 2) == 2
    assert cut(history, 0.75, 1) == 0


def test_sb_07_results_that_belong_to_an_early_call_leave_no_cut():
    names = [f"c{n}" for n in range(6)]
    calls = [exchange(name, "done") for name in names]
    call = {**calls[0][0], "tool_calls": [one[0]["tool_calls"][0] for one in calls]}
    history = [call, *(one[1] for one in calls)]
    assert cut(history, 0.5, 2) == 0
    assert cut([user("Go"), *history], 0.5, 2) == 0
    assert cut([user("Go"), *history], 0.5, 2, or_earlier=True) == 1


def test_nothing_leaves_that_waits_for_its_result():
    pending = exchange("c", "done")[0]
    history = [*plain(2), pending, *plain(7)]
    assert cut(history, 0.5, 2) == 0
    assert cut(history, 0.5, 2, or_earlier=True) == 2


@pytest.mark.parametrize("dialect", list(HISTORIES))
@given(data=st.data())
def test_no_cut_parts_a_group_or_takes_a_pending_call(dialect: str, data: st.DataObject):
    history = read_history(data.draw(HISTORIES[dialect]()))
    fraction = data.draw(st.sampled_from([0.3, 0.5, 0.75]))
    floor = data.draw(st.integers(1, 4))
    place = aligned_cut(history, fraction, floor, or_earlier=data.draw(st.booleans()))
    assert 0 <= place <= max(0, len(history) - floor)
    for group in groups(history) if place else ():
        assert not group.positions[0] < place <= group.positions[-1]
        assert not (group.pending and group.positions[0] < place)


def test_an_answer_alone_is_no_group():
    assert cut([user("a"), assistant("b"), user("c"), assistant("d")], 0.5, 2) == 2
