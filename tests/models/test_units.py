"""Reading the material of a summary request as who said what, by the slow twin of the core."""

from typing import Any

from hypothesis import given

from compacting import assistant, exchange, user
from reference.tokenize import lower, repaired
from reference.units import LONGEST_UNIT, Unit, read_items
from siltstone.compaction.material import Material, items_of
from siltstone.compaction.prompts import SUMMARY_PREFIX, framed
from siltstone.messages import MaterialItem, SummaryMessage, read_history
from siltstone.tokens import rule
from strategies import histories


def read(content: str, role: str = "user") -> list[Unit]:
    return read_items([MaterialItem("text", content, role)], leave_out="A header:")  # type: ignore[arg-type]


def units_of(*raws: Any) -> list[Unit]:
    return read_items(items_of(read_history(raws), SUMMARY_PREFIX), leave_out="A header:")


def said(*raws: Any) -> list[tuple[str, str]]:
    return [(unit.speaker, unit.text) for unit in units_of(*raws)]


def test_parts_are_read_with_their_speakers():
    call, result = exchange("c1", "first line\nsecond line]")
    assert said(user("Read it.\nAssistant: no"), call, result, assistant("Done: it is [1].")) == [
        ("User", "Read it."),
        ("User", "Assistant: no"),
        ("Tool call", 'read_file({"path": "src/c1.py"})'),
        ("Tool result", "first line"),
        ("Tool result", "second line]"),
        ("Assistant", "Done: it is [1]."),
    ]


def test_a_failed_tool_is_told_apart():
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such file"}
    assert said({"role": "user", "content": [result]}) == [("Tool error", "no such file")]


def test_an_earlier_selection_is_read_with_its_speakers_and_known_as_earlier():
    selection = "A header:\nUser: Fix it.\n  In src/a.py.\nTool error: No such file.\nDone so far."
    units = units_of(SummaryMessage(framed(SUMMARY_PREFIX, selection), ((0, 4),)))
    assert [(unit.speaker, unit.text, unit.is_earlier) for unit in units] == [
        ("User", "Fix it.", True),
        ("User", "In src/a.py.", True),
        ("Tool error", "No such file.", True),
        ("Tool error", "Done so far.", True),
    ]
    assert [unit.is_first for unit in units] == [True, False, True, False]


def test_an_earlier_summary_of_a_model_is_read_as_plain_text():
    summary = SummaryMessage(framed(SUMMARY_PREFIX, "## State\n\n* All tests pass."), ((0, 4),))
    assert said(summary) == [("Earlier", "## State"), ("Earlier", "* All tests pass.")]


def test_long_lines_are_parted_into_sentences_and_stretches():
    one, two = (
        "This sentence is long enough to fill most of a line by itself, or so it seems.",
        "Is it? It is so.",
    )
    assert [unit.text for unit in read(f"{one} {two} {one.upper()}x")] == [
        one,
        "Is it?",
        "It is so.",
        f"{one.upper()}x",
    ]
    units = read("word, " * 5_000 + "x" * 1_000)
    assert 250 < max(len(unit.text) for unit in units) <= LONGEST_UNIT


@given(histories())
def test_no_word_of_a_history_is_lost(raws: list[Any]):
    seen = in_lower_case("".join(unit.text for unit in units_of(*raws)))
    for message in read_history(raws):
        for part in message.parts:
            for line in part.text.split("\n") if part.kind == "text" else ():
                if len(line) < 100 and any(map(str.isalnum, line)):
                    assert in_lower_case(repaired(line)) in seen


def in_lower_case(text: str) -> str:
    return "".join(map(lower, "".join(text.split())))


def test_the_rest_of_a_result_that_is_cut_in_two_is_no_request_of_the_user():
    """Its second half has no head, and was read as words of the user, which a summary keeps first."""
    material = Material(read_history(exchange("c1", "row of the table\n" * 400)), "", rule("blocks"))
    units = []
    while material:
        units += [read_items(material.take(300).items, "")]
    assert len(units) > 3
    assert {unit.speaker for piece in units[1:] for unit in piece} == {"Tool result"}
    assert not [unit for piece in units[2:] for unit in piece if unit.is_first]
