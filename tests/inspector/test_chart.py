"""The drawing of a session with its threshold, and the page of a compaction with both views."""

import re
from itertools import pairwise
from pathlib import Path

from hypothesis import given, strategies as st

from conversations import turns
from inspecting import figure, inspected, shown, told
from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.figures import Mark, TurnTokens, why
from siltstone.inspector.sessions import chart, level
from siltstone.testing import ScriptedModel

END = 1_000
WHOLE = [TurnTokens(1, 0, END, 5_000, 5_000)]


def mark(number: int, seq: int, threshold: int | None = None, reason: str = "history_tokens") -> Mark:
    reserved = 100 if threshold else 0
    return Mark(number, seq, reason, 4_000, 2_000, "2026-01-01T00:00:00+00:00", threshold, reserved)


def corners(points: str) -> list[tuple[float, float]]:
    return [tuple(map(float, each.split(","))) for each in points.split()]  # type: ignore[misc]


def test_the_threshold_is_a_line_that_steps_where_it_changed() -> None:
    marks = [mark(1, 200, 3_100), mark(2, 400, 3_100), mark(3, 500), mark(4, 700, 2_100)]
    drawn = chart(WHOLE, marks, None)
    (a, b, c, d) = corners(drawn.threshold)
    assert [a[0], b[0], c[0], d[0]] == [0, 40, 40, 100]
    assert a[1] == b[1] < c[1] == d[1], "downwards is less"
    assert drawn.last_threshold is not None
    assert drawn.last_threshold.value == 2_000 == level(marks[-1]), "what is reserved counts against it"


def test_the_net_under_a_policy_moves_the_line_only_where_nothing_else_acted() -> None:
    net = mark(2, 400, 8_100, "overflow")
    both, alone = (chart(WHOLE, marks, None) for marks in ([mark(1, 200, 3_100), net], [net]))
    assert both is not None
    assert alone is not None
    assert both.last_threshold is not None
    assert both.last_threshold.value == 3_000
    assert alone.last_threshold is not None
    assert alone.last_threshold.value == 8_000


@given(st.lists(st.integers(1, END), max_size=80))
def test_no_number_lies_on_another_and_the_first_is_always_there(places: list[int]) -> None:
    marks = [mark(number, seq) for number, seq in enumerate(sorted(places), start=1)]
    drawn = chart(WHOLE, marks, None)
    assert drawn is not None
    for rank, width in ((1, 980), (2, 330)):
        told = [each for each in drawn.marks if each.numbered >= rank]
        assert bool(told) == bool(marks)
        for one, other in pairwise(told):
            room = (len(str(one.mark.id)) + len(str(other.mark.id))) * 3
            assert width * (other.x - one.x) / 100 > room


def test_a_reason_names_its_threshold() -> None:
    assert why(mark(1, 1, 3_100)) == (
        "the history had reached the threshold of 3,100 tokens, 100 of them beside the history"
    )
    assert why(mark(1, 1)) == "the history had reached the threshold"
    assert why(mark(1, 1, None, "elsewhere")) == ""


def test_the_page_has_the_threshold_and_the_numbers_of_the_commands(tmp_path: Path) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=700))
    options = {"policy": policy, "model": ScriptedModel(), "reserved_tokens": 100, "context_window": 4_000}
    with Session.open(tmp_path, "s", **options) as session:
        for turn in turns(60):
            session.append(*turn)
            session.prepare()
        assert isinstance(session.compact(), Compacted)
        assert session.compactions()[0].threshold == 700
        assert session.compactions()[0].context_window == 4_000
        assert session.compactions()[-1].threshold is None, "it was asked for"
        assert session.undo_compaction() is not None
    marks = told("timeline", tmp_path, "-s", "s")["compactions"]
    assert len(marks) > 2
    records = told("compactions", tmp_path, "-s", "s", "--undone")["compactions"]
    records = [each for each in records if not each["undone"]]
    assert [each["threshold"] for each in records] == [each["threshold"] for each in marks]
    with inspected(tmp_path) as (client, _):
        page = shown(client, "/session?session=s")
        assert figure(page, "threshold") == marks[-1]["threshold"] - marks[-1]["reserved_tokens"] == 600
        assert '<polyline class="threshold"' in page
        assert figure(page, "context_window") == 4_000, "as the last compaction knew it"
        free = told("context", tmp_path, "-s", "s", "--window", 4_000)["remaining_tokens"]
        assert figure(page, "remaining_tokens") == free
        assert figure(shown(client, "/session?session=s&window=5000"), "context_window") == 5_000
        numbered = [int(each) for each in re.findall(r'data-mark="(\d+)"', page)]
        assert numbered == [each["id"] for each in records]
        assert set(re.findall(r'class="number[^>]*>(\d+)<', page)) <= {str(each) for each in numbered}
        said = "the history had reached the threshold of 700 tokens, 100 of them beside the history"
        assert page.count(said) >= len(numbered)
        assert said in shown(client, f"/compaction?session=s&id={numbered[0]}")
        assert told("compactions", tmp_path, "-s", "s", "--diff", numbered[0])["threshold"] == 700
