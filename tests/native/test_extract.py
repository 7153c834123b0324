"""Summaries of lines from the core: against the slow twin."""

import pytest
from hypothesis import given, strategies as st

from reference import selection as twin
from siltstone import _native
from siltstone.messages import MaterialItem
from strategies_text import texts_of_words

CUES = [
    "It failed: timed out in src/a.py", "We decided to use load_tariff()", "- [ ] next steps, TODO",
    "必须记住", "エラー 3", "a//b",
    "see ~/x/y and http://a", "naïve_x", "caféError",
    "PR-12 is fixed", "bug؀", "٣ ways",
    "/", "User: a\nTool error: b c\n  d e\nEarlier: f", "x\\ny\\n",
    "one. Two! Three? 四。五！", " a  b\t", "a\x1cb\u3000c",
    "Lines selected from those messages, oldest first:", "same words here", "Same WORDS here",
    "here words same",
]  # fmt: skip
_lines = st.one_of(
    texts_of_words(),
    st.sampled_from(CUES),
    st.lists(
        st.sampled_from(["alpha", "bravo,", "charlie.", "漢字", "дельта", "👩\u200d🚀", "x"]), max_size=8
    ).map(" ".join),
    st.builds(
        str.__mul__, st.sampled_from(["word, ", "語", "It is so. ", "é" * 40, "好。 "]), st.integers(1, 90)
    ),
)
_texts = st.lists(_lines, max_size=5).map("\n".join)
_items = st.builds(
    MaterialItem,
    st.sampled_from(["text", "text", "tool_call", "tool_result", "context", "summary"]),
    _texts,
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    st.sampled_from(["", "read", "漢"]),
    is_error=st.booleans(),
    shown=st.sampled_from([None, None, "User: ", "  "]),
)


@pytest.mark.parametrize("code_points", [False, True])
@given(st.lists(_items, max_size=8), st.lists(st.integers(0, 3_000) | st.integers(0, 150), max_size=4))
def test_summaries_are_those_of_the_twin(code_points: bool, items: list[MaterialItem], rooms: list[int]):
    core, slow = _native.Selection(items, code_points), twin.Selection(items, code_points)
    assert core.earlier_size == slow.earlier_size
    for room in [*rooms, 100_000]:
        assert core.within(room) == slow.within(room)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.integers(0, 300))
def test_of_lines_that_tell_the_same_the_first_is_taken(letters: list[str], room: int):
    """Lines of one item and of one weight: those at equal places differ by nothing else."""
    texts = ["\n".join(f"{letter}{n} same" for n in range(3)) for letter in letters]
    items = [MaterialItem("text", text, "assistant") for text in texts]
    assert _native.Selection(items, False).within(room) == twin.Selection(items, False).within(room)


@pytest.mark.parametrize("line", CUES)
def test_each_cue_counts_as_the_twin_counts_it(line: str):
    """The order of lines shows the factor: each is between lines with fewer and with more cues."""
    items = [MaterialItem("text", f"{line} zz{n} {cue}", "tool") for n, cue in enumerate([*CUES, "plain"])]
    core, slow = _native.Selection(items, False), twin.Selection(items, False)
    for room in range(100, 2_000, 60):
        assert core.within(room) == slow.within(room)


def test_what_is_no_item_is_refused():
    with pytest.raises(AttributeError):
        _native.Selection(["text"], False)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        _native.Selection([MaterialItem("text", 3)], False)  # type: ignore[arg-type]
