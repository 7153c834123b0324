"""One large result costs neither itself nor the rest: it is cut where it stands, and stays a result."""

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import Raw, assert_lawful, assistant, exchange, filler, outcome, run, shape, turn, user
from siltstone import CompactionConfig, Emergency, Session, SimpleMemoryStore, ThresholdCompactor, compact
from siltstone.compaction import Compaction, CompactionError, Trigger
from siltstone.compaction.emergency import WORDS, check_room
from siltstone.compaction.rewrite import clamp_result, select
from siltstone.compaction.validate import validate
from siltstone.errors import ContextOverflowError
from siltstone.messages import (
    SubstituteMessage,
    as_history,
    opens_turn,
    read_history,
    read_message,
    validate_history,
)
from siltstone.tokens import rule

BLOCKS = rule("blocks")
LINES = "".join(f"row {number} of the table\n" for number in range(2_000))
DUE = Trigger("history_tokens", threshold=6_400, context_window=8_000, keeps_substitutes=True)

WORD = "Build B instead."


def anthropic_step(call_id: str, output: Any, words: str | None = None) -> list[Raw]:
    use = {"type": "tool_use", "id": call_id, "name": "read", "input": {"file": call_id}}
    result: list[Raw] = [{"type": "tool_result", "tool_use_id": call_id, "content": output}]
    beside = [] if words is None else [{"type": "text", "text": words}]
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [*result, *beside]}]


def item_step(call_id: str, output: Any) -> list[Raw]:
    call = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": call_id, "output": output}]


def steps(count: int, words: int = 300) -> list[Raw]:
    """Exchanges of some 400 tokens."""
    return [raw for n in range(count) for raw in anthropic_step(f"a{n}", f"KEPT{n} " + "data " * words)]


def due(raws: list[Raw]) -> Trigger:
    return replace(DUE, tokens=BLOCKS.count(read_history(raws)))


@pytest.mark.parametrize(
    "raws",
    [
        exchange("a", LINES),
        anthropic_step("a", LINES),
        anthropic_step("a", [{"type": "text", "text": LINES}, {"type": "text", "text": "short"}]),
        item_step("a", LINES),
        item_step("a", [{"type": "input_text", "text": LINES}]),
    ],
    ids=["chat", "anthropic", "blocks", "responses", "items"],
)
def test_a_result_of_each_dialect_keeps_its_head_and_its_tail(raws: list[Raw]):
    history = read_history([user("Read it."), *raws])
    before = json.dumps(raws)
    cut = clamp_result(history[2], 500, BLOCKS, "memory_get")
    assert cut is not None
    assert 350 < BLOCKS.count([cut]) <= 500
    assert json.dumps(raws) == before
    shown = json.dumps(cut.raw)
    assert "row 0 of the table" in shown
    assert "row 1999 of the table" in shown
    assert 'tokens cut; memory_get(\\"m2\\") reads them' in shown
    assert (cut.seq, cut.role, cut.dialect) == (2, history[2].role, history[2].dialect)
    assert validate_history([*history[:2], cut]) == []


def test_what_was_cut_is_counted_and_cut_again_it_adds_up():
    history = read_history([user("Read it."), *exchange("a", LINES)])
    once = clamp_result(history[2], 2_000, BLOCKS)
    assert once is not None
    twice = clamp_result(once, 200, BLOCKS)
    assert twice is not None
    lines = [content(cut).split("[… ")[1].split(" tokens cut …]")[0] for cut in (once, twice)]
    told = [int(line.replace(",", "")) for line in lines]
    whole = BLOCKS.count_text(LINES)
    assert 0.8 * (whole - 2_000) < told[0] <= whole
    assert 0.9 * (whole - 200) < told[1] <= whole


def content(message: Any) -> str:
    return str(message.raw["content"])


def test_nothing_is_cut_where_nothing_is_too_large_or_no_result():
    history = read_history([user(LINES), *exchange("a", "short"), assistant(LINES)])
    assert [clamp_result(message, 500, BLOCKS) for message in history] == [None] * 4


@given(tokens=st.integers(0, 400), text=st.text(max_size=3_000))
def test_a_cut_result_is_smaller_and_never_below_its_least(tokens: int, text: str):
    (message,) = read_history([exchange("a", text)[1]])
    cut = clamp_result(message, tokens, BLOCKS)
    if cut is not None:
        assert BLOCKS.count([cut]) < BLOCKS.count([message])
        assert "tokens cut" in content(cut)


def test_a_substitute_is_known_by_its_type_and_survives_copies():
    raw = SubstituteMessage({"role": "tool", "tool_call_id": "a", "content": "cut"}, "clamped")
    for each in (raw, copy.copy(raw), copy.deepcopy(raw), pickle.loads(pickle.dumps(raw))):
        assert read_message(each, 0).provenance == "substitute"
        assert each.kind == "clamped"
    assert read_message(dict(raw), 0).provenance == "original"


@pytest.mark.parametrize("rows", [700, 1_400, 2_500])
def test_a_large_newest_result_is_cut_and_the_older_ones_stay(rows: int):
    big = anthropic_step("big", "BIG " + "row of the big table\n" * rows)
    raws = [user("Find the valve."), *steps(10), *big]
    history, compaction = run(raws, ThresholdCompactor(), None, trigger=due(raws))
    assert_lawful(history, compaction)
    assert shape(compaction) == [*map(str, range(22)), "22-"]
    assert BLOCKS.count(compaction.messages) <= 6_400 * 4 // 5
    assert not compaction.degraded
    assert validate_history(compaction.messages) == []
    validate(history, compaction, "", due(raws))


@pytest.mark.parametrize("rows", [700, 1_400, 2_500, 20_000])
def test_the_net_cuts_before_it_discards(rows: int):
    big = anthropic_step("big", "BIG " + "row of the big table\n" * rows)
    history, compaction = run([user("Find the valve."), *steps(10), *big], Emergency(7_000), None)
    assert_lawful(history, compaction)
    assert shape(compaction)[:-1] == [*map(str, range(22))]
    assert 4_500 < BLOCKS.count(compaction.messages) <= 7_000


def test_a_caller_that_keeps_no_substitutes_gets_none():
    raws = [user("Find the valve."), *steps(10), *anthropic_step("big", LINES)]
    for policy in (ThresholdCompactor(), Emergency(8_000)):
        _, result = outcome(raws, policy, trigger=replace(due(raws), keeps_substitutes=False))
        assert isinstance(result, Compaction)
        assert result.substitutes == ()


def test_a_pinned_result_is_never_cut():
    raws = [user("Find the valve."), *steps(2), *anthropic_step("big", LINES[:15_000]), *steps(2)]
    history, compaction = run(raws, Emergency(6_000), None, trigger=replace(due(raws), pins=frozenset({6})))
    assert "6" in shape(compaction)
    assert_lawful(history, compaction)


def test_compact_cuts_without_a_session_and_tells_which():
    raws = [user("Find the valve."), *steps(10), *anthropic_step("big", LINES)]
    result = compact(raws, Emergency(8_000), check=True)
    assert result.substituted == (raws[-1],)  # type: ignore[union-attr]
    assert len(result.messages) == len(raws)
    assert "tokens cut …]" in json.dumps(result.messages[-1], ensure_ascii=False)
    again = compact([*result.messages, *steps(14)[20:]], Emergency(5_500), check=True)
    assert again.tokens_after <= 5_500


def words_beside(size: int) -> list[Raw]:
    """A request, and words beside a result of a call that is as large as *size* words."""
    step = anthropic_step("big", "ok", WORD)
    step[0]["content"][0]["input"]["text"] = filler(size)
    return [user("Build A."), *steps(3), *step]


def test_the_users_words_stand_alone_where_their_group_is_too_large():
    raws = words_beside(5_000)
    history, compaction = run(raws, Emergency(4_000), None)
    assert shape(compaction)[-1] == "8-"
    (alone,) = compaction.substitutes
    assert alone.message.raw == {"role": "user", "content": [{"type": "text", "text": WORD}]}
    assert alone.message.raw.kind == WORDS  # type: ignore[union-attr]
    assert opens_turn(alone.message)
    assert validate_history(compaction.messages) == []
    assert 8 not in [n for start, end in compaction.covers for n in range(start, end)]
    with pytest.raises(ContextOverflowError):
        check_room(history, 4_000, BLOCKS, Trigger("overflow"))
    check_room(history, 4_000, BLOCKS, Trigger("overflow", keeps_substitutes=True))


def test_the_results_are_cut_before_the_words_stand_alone():
    raws = [user("Build A."), *steps(3), *anthropic_step("big", LINES, WORD), *steps(20)[6:]]
    _, compaction = run(raws, Emergency(4_000), None)
    (cut,) = [each.message for each in compaction.substitutes if each.message.seq == 8]
    assert WORD in cut.text
    assert "7" in shape(compaction)


def test_the_validator_knows_a_substitute_and_refuses_a_false_one():
    raws = [user("Find the valve."), *steps(10), *anthropic_step("big", LINES, WORD)]
    history, good = run(raws, ThresholdCompactor(), None, trigger=due(raws))
    validate(history, good, "")
    (cut,) = good.substitutes
    block = {**cut.message.raw["content"][0], "tool_use_id": "other"}  # type: ignore[index]
    words = cut.message.raw["content"][1]  # type: ignore[index]
    for raw, fault in (
        ({"role": "user", "content": [block, words]}, "calls or answers otherwise"),
        ({"role": "user", "content": [cut.message.raw["content"][0]]}, "not the user's words"),  # type: ignore[index]
        ({"role": "user", "content": [words]}, "is split"),
    ):
        message = read_message(SubstituteMessage(raw, "x"), cut.message.seq)
        bad = replace(
            good, substitutes=(replace(cut, message=message),), messages=(*good.messages[:-1], message)
        )
        with pytest.raises(CompactionError, match=fault):
            validate(history, bad, "")
    for change, fault in (
        ({"substitutes": ()}, "nothing is discarded"),
        ({"summary": "something"}, "there is a summary"),
        ({"messages": good.messages[1:]}, "not the retained messages"),
    ):
        with pytest.raises(CompactionError, match=fault):
            validate(history, replace(good, **change), "")
    with pytest.raises(CompactionError, match="may not be cut"):
        validate(history, good, "", replace(due(raws), pins=frozenset({cut.message.seq})))


def test_a_model_reads_the_whole_of_what_leaves():
    raws = [user("Read it."), *anthropic_step("big", LINES), *turn(1, 2_000), *turn(2)]
    asked: list[str] = []

    def model(request: Any) -> str:
        asked.append(request.messages[0]["content"])
        return "Read."

    config = CompactionConfig(auto_compact_threshold=20_000, recent_turn_budget=4)
    run(raws, ThresholdCompactor(config), model)
    assert "row 1000 of the table" in "".join(asked)


def test_messages_that_were_cut_are_worth_a_summary_in_a_list_as_in_outline():
    """A substitute is what was said, only shorter: the outline counts it so, and a list no less."""
    raws = [
        SubstituteMessage(user("Old, cut."), "clamped"),
        SubstituteMessage(assistant("Done, cut."), "clamped"),
        user("Now."),
    ]
    for history in (read_history(raws), as_history(read_history(raws))):
        selection = select(history, 0, ())
        assert [message.seq for message in selection.discarded] == [0, 1]
        assert selection.is_worthwhile


@pytest.mark.parametrize("number", [",", "9" * 5_000, "1,2", "٣", "999,999,999,999,999,999", ""])
def test_a_tool_that_prints_a_note_of_ours_stops_no_compaction(number: str) -> None:
    """It may print what it was told by a stranger. A number that is none, or too long, counts nothing."""
    said = f"{LINES}[… {number} tokens cut …]\n{LINES}"
    message = read_message({"role": "tool", "tool_call_id": "c", "content": said}, 1)
    cut = clamp_result(message, 500, BLOCKS)
    assert cut is not None
    assert BLOCKS.count([cut]) <= 500
    with Session.open(None, "s", memory=SimpleMemoryStore(), context_window=4_000) as session:
        session.append(user("go"), *exchange("c", said))
        assert session.prepare().tokens <= 4_000
