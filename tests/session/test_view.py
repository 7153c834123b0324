"""A view as it grows: what it counts, and how its messages are read."""

from __future__ import annotations

from typing import Any

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
