"""Which sequence numbers a list of messages gets, also after compactions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, strategies as st

from shapes import ask
from siltstone.messages import SummaryMessage, read_history

SYSTEM = {"role": "system", "content": "rules"}


def summary(*covers: tuple[int, int]) -> SummaryMessage:
    return SummaryMessage("[Context compacted] …", covers)


def numbers(*raws: Any, first_seq: int = 0) -> list[int]:
    return [message.seq for message in read_history(raws, first_seq=first_seq)]


def test_pins_take_the_holes_between_covered_ranges() -> None:
    assert numbers(SYSTEM, summary((1, 3), (4, 7)), ask("pin"), ask()) == [0, 1, 3, 7]
    assert numbers(summary((0, 2), (4, 5)), ask(), ask(), ask()) == [0, 2, 3, 5]


def test_ranges_move_up_where_messages_were_put_before_a_summary() -> None:
    history = read_history([SYSTEM, SYSTEM, SYSTEM, summary((1, 3), (4, 7)), ask("pin"), ask()])
    assert [message.seq for message in history] == [0, 1, 2, 3, 5, 9]
    assert history[3].covers == ((3, 5), (6, 9))


def test_a_summary_twice_in_a_list_still_counts_up() -> None:
    assert numbers(summary((0, 3)), summary((0, 3)), ask()) == [0, 3, 6]
    assert numbers(summary((0, 2), (5, 6)), summary((3, 6)), ask()) == [0, 6, 9]


def test_a_summary_that_covers_nothing_takes_a_number_of_its_own() -> None:
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
    seqs = [message.seq for message in history]
    assert all(before < after for before, after in pairwise(seqs))
    covered = [seq for message in history for start, end in message.covers for seq in range(start, end)]
    originals = [message.seq for message in history if not message.covers]
    assert len(set(covered + originals)) == len(covered + originals)
