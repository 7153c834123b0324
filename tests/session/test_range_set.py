"""Are sets of ranges the sets that they stand for?"""

from __future__ import annotations

from hypothesis import given, strategies as st

from siltstone.session.state import common, count, has, minus, numbers, union, within

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
