"""A view as it grows: what it counts, and how its messages are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone.messages import read_message
from siltstone.session.state import View
from siltstone.tokens import rule

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


def test_messages_are_read_where_they_lie_while_the_view_grows() -> None:
    view = View(rule("blocks"))
    views = [view]
    for seq in range(5):
        message = read_message({"role": "user", "content": f"text {seq}"}, seq)
        views.append(view := view.extended([view.measured(message, 0)]))
    for view in views:
        whole, read = view.messages(), view.read()
        assert len(read) == len(whole)
        assert list(read) == whole
        assert list(reversed(read)) == whole[::-1]
        for place in range(-len(whole), len(whole)):
            assert read[place] is whole[place]
        for span in (slice(None), slice(2, None), slice(-2, None), slice(1, 4), slice(None, None, -1)):
            assert read[span] == whole[span]
        for place in (len(whole), -len(whole) - 1):
            with pytest.raises(IndexError):
                read[place]
