"""What is left of a message that was forgotten: its type, its ids, nothing that was said, and it is legal."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone
import siltstone.engine
from shapes import ask, say, thought
from siltstone import messages
from siltstone.errors import InvalidMessageError
from siltstone.messages import (
    FORGOTTEN,
    Identifier,
    decode,
    encode,
    identifiers,
    read_message,
    renamed,
    tombstone,
    validate_history,
)
from strategies import histories, responses_items, texts

SAID = "the Grünwald plan"


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


OUTPUT = {"type": "function_call_output", "call_id": "c1"}
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "ls", "server_label": "files", "approval_request_id": "r"}
APPROVED = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
COMPUTER = {"type": "computer_call", "id": "cu_1", "call_id": "c1"}
SCREENSHOT = {"actions": [{"type": "screenshot"}], "pending_safety_checks": []}
DELETED = {"type": "delete_file", "path": FORGOTTEN}
THOUGHT = {"summary": [{"type": "summary_text", "text": SAID}], "encrypted_content": "Z3VhcmRlZA=="}


def answer(text: str) -> dict[str, Any]:
    return {"content": [{"type": "output_text", "text": text, "annotations": []}]}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def used(*said: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "run", "input": {"x": said[0]} if said else {}}


def old_call(arguments: str) -> dict[str, Any]:
    return {"function_call": {"name": "f", "arguments": arguments}}


IMAGE = {"type": "image", "source": {"type": "base64", "data": SAID}}
RESULT = {"type": "tool_result", "tool_use_id": "t1"}


#: What stays of an item, what it said, and what stands there instead.
ITEMS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"},
        answer(SAID),
        answer(FORGOTTEN),
    ),
    (
        {"role": "user"},
        {"content": [{"type": "input_text", "text": SAID}]},
        {"content": [{"type": "input_text", "text": FORGOTTEN}]},
    ),
    ({"type": "message", "role": "user"}, {"content": SAID}, {"content": FORGOTTEN}),
    (
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "vault"},
        {"arguments": SAID},
        {"arguments": "{}"},
    ),
    (OUTPUT, {"output": [{"type": "input_text", "text": SAID}]}, {"output": FORGOTTEN}),
    ({**OUTPUT, "caller": {"type": "program", "caller_id": "p"}}, {"output": SAID}, {"output": FORGOTTEN}),
    (COMPUTER, {"actions": [{"type": "type", "text": SAID}]}, SCREENSHOT),
    (
        {"type": "apply_patch_call", "call_id": "c1"},
        {"operation": {"type": "update_file", "diff": SAID}},
        {"operation": DELETED},
    ),
    (MCP, {"arguments": SAID, "output": SAID, "error": None}, {"arguments": "{}", "output": FORGOTTEN}),
    (APPROVED, {"reason": SAID}, {}),
    ({"type": "reasoning", "id": "rs_1"}, THOUGHT, {"summary": []}),
    ({"role": "user"}, {"content": SAID}, {"content": FORGOTTEN}),
    (
        {"role": "user"},
        {"content": [RESULT | {"content": SAID}]},
        {"content": [RESULT | {"content": FORGOTTEN}]},
    ),
    ({"role": "assistant"}, {"refusal": SAID}, {"content": FORGOTTEN}),
    ({"role": "assistant", "content": None}, old_call(SAID), old_call("{}")),
    (
        {"role": "assistant"},
        {
            "name": "Ann",
            "extra": {"a": SAID},
            "content": [thought()["content"][0], text(SAID), used(SAID), IMAGE],
        },
        {"content": [text(FORGOTTEN), used()]},
    ),
    ({"type": "item_of_tomorrow", "id": "x", "call_id": "c"}, {"status": SAID, "extra": {"said": SAID}}, {}),
]


@pytest.mark.parametrize(("kept", "said", "left"), ITEMS)
def test_an_item_keeps_its_type_its_ids_and_what_the_provider_demands(
    kept: dict[str, Any], said: dict[str, Any], left: dict[str, Any]
) -> None:
    assert tombstone({**kept, **said}) == {**kept, **left}


def test_a_block_keeps_its_type_and_its_ids() -> None:
    said = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": SAID}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": SAID}]},
        {"type": "mcp_tool_use", "id": "m1", "name": "ls", "server_name": "files", "input": {"a": SAID}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [{"type": "text", "text": SAID}]},
        {"type": "text", "text": SAID},
        {"type": "text", "text": SAID},
        {"type": "compaction", "content": SAID},
    ]
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    assert tombstone({"role": "assistant", "content": said})["content"] == [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": error},
        {"type": "mcp_tool_use", "id": "m1", "name": "ls", "server_name": "files", "input": {}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m1",
            "is_error": False,
            "content": [{"type": "text", "text": FORGOTTEN}],
        },
        {"type": "text", "text": FORGOTTEN},
        {"type": "compaction", "content": FORGOTTEN},
    ]


@given(responses_items())
def test_an_item_of_every_type_can_be_read_and_says_nothing(item: dict[str, Any]) -> None:
    left = tombstone(item, "openai.responses")
    message = read_message(left, 0, dialect="openai.responses")
    was = read_message(item, 0, dialect="openai.responses")
    assert (message.role, left.get("type")) == (was.role, item.get("type"))
    assert [part.call_id for part in message.parts if part.kind == "tool_call"] == [
        part.call_id for part in was.parts if part.kind == "tool_call"
    ]
    words = {"", "{}", "null", "[]", FORGOTTEN, "[forgotten]"}
    for part in message.parts:
        if part.kind in ("text", "tool_result"):
            assert part.text in words or part.text in {"approved", "refused"}


@given(histories(), st.data())
def test_a_legal_history_stays_legal_whatever_of_it_is_forgotten(raws: list[Any], data: st.DataObject):
    before = {(each.position, each.rule) for each in validate_history(raws)}
    dialects = [read_message(raw, 0).dialect for raw in raws]
    chosen = data.draw(st.sets(st.sampled_from(range(len(raws)))) if raws else st.just(set()))
    left = [
        tombstone(decode(encode(raw)), dialects[at]) if at in chosen else raw for at, raw in enumerate(raws)
    ]
    assert {(each.position, each.rule) for each in validate_history(left)} <= before
    names = {value: f"n{at}" for at, value in enumerate(_held(left, chosen))}
    all_left = [tombstone(decode(encode(raw)), dialects[at]) for at, raw in enumerate(raws)]
    everything = [renamed(each, names) for each in all_left]
    assert {(each.position, each.rule) for each in validate_history(everything)} <= before


def _held(left: list[Any], chosen: set[int]) -> list[str]:
    return sorted({value for at in chosen for _, value in identifiers(left[at])})


@given(histories())
def test_nothing_but_names_and_ids_of_what_was_said_is_left(raws: list[Any]) -> None:
    for raw in raws:
        fields = decode(encode(raw))
        left = tombstone(fields)
        known = {value for _, value in identifiers(left)}
        hidden = renamed(left, dict.fromkeys(known, "x"))
        constants = set(strings(renamed(tombstone(_blanked(fields)), dict.fromkeys(known, "x"))))
        assert {each for each in strings(hidden) if len(each) > 2} <= constants | _provider_words(fields)


def _blanked(value: Any, key: str = "") -> Any:
    """The same message as if it had said something else."""
    if isinstance(value, dict):
        return {each: _blanked(inner, each) for each, inner in value.items()}
    if isinstance(value, list):
        return [_blanked(each) for each in value]
    stays = key in ("type", "role", "name") or key == "id" or key.endswith("_id")
    return value if stays or not isinstance(value, str) else "something else"


def _provider_words(fields: dict[str, Any]) -> set[str]:
    return {str(fields.get(key)) for key in ("status", "execution")}


def test_the_ids_and_the_names_that_are_left_are_told_apart() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "login", "arguments": SAID}}
    left = tombstone({"role": "assistant", "content": None, "tool_calls": [call]})
    assert list(identifiers(left)) == [Identifier("id", "call_1"), Identifier("name", "login")]
    assert renamed(left, {"call_1": "call_2", "login": "x"})["tool_calls"] == [
        {"id": "call_2", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    ]
    legacy = tombstone({"role": "function", "name": "login", "content": SAID})
    assert list(identifiers(legacy)) == [Identifier("tying name", "login")]
    assert SAID not in json.dumps([left, legacy], ensure_ascii=False)


SYSTEM = {"role": "system", "content": "Rules."}
SUMMARY = messages.SummaryMessage("[Context compacted]\n\nSix doors were opened.", ((1, 4), (6, 9)), level=2)

ranges = st.lists(st.integers(0, 10**6), min_size=2, max_size=10, unique=True).map(
    lambda ends: tuple(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)
levels = st.integers(1, 40)

WAYS: dict[str, Callable[[Any], Any]] = {
    "json": lambda m: json.loads(json.dumps(m)),
    "dict": dict,
    "m.copy()": lambda m: m.copy(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "another key": lambda m: {**m, "id": "msg_1"},
    "a role and a text": lambda m: {"role": m["role"], "content": m["content"]},
    "a block": lambda m: {"role": "user", "content": [{"type": "text", "text": m["content"]}]},
    "a marked block": lambda m: {
        "role": "user",
        "content": [{"type": "text", "text": m["content"], "cache_control": {"type": "ephemeral"}}],
    },
    "an input_text": lambda m: {"role": "user", "content": [{"type": "input_text", "text": m["content"]}]},
    "white space at its end": lambda m: {"role": "user", "content": m["content"] + "\n"},
}


def provenances(raws: list[Any]) -> list[str]:
    """As both readers have it."""
    slow = messages.read_history(raws)
    fast = messages.History(raws)
    assert [(m.seq, m.provenance, m.covers) for m in slow] == [(m.seq, m.provenance, m.covers) for m in fast]
    assert fast.summaries == [at for at, m in enumerate(slow) if m.provenance == "compaction_summary"]
    return [message.provenance for message in slow]


@given(text=texts(), covers=ranges, level=levels)
def test_a_mark_is_read_back_from_the_text_it_was_put_on(text: str, covers: Any, level: int) -> None:
    whole = messages.marked(text, covers, level)
    assert messages.read_mark(whole) == messages.SummaryMark(level, covers)
    assert messages.unmarked(whole) == messages.unmarked(text)
    assert messages.marked(whole, covers, level) == whole
    assert messages.read_mark(json.loads(json.dumps(whole))) == messages.SummaryMark(level, covers)


@given(text=texts(), covers=ranges, level=levels, data=st.data())
def test_a_text_that_was_changed_anywhere_has_no_mark(
    text: str, covers: Any, level: int, data: st.DataObject
) -> None:
    whole = messages.marked(text, covers, level)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.sampled_from("x7-, \u4e2d").filter(lambda char: char != whole[at]))
    assert messages.read_mark(whole[:at] + other + whole[at + 1 :]) is None
    assert messages.read_mark(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_summary_is_one_after_whatever_keeps_its_text(way: Callable[[Any], Any]) -> None:
    raws = [SYSTEM, way(SUMMARY), ask("pinned"), ask("also"), say(), ask("next"), say()]
    assert provenances(raws)[1] == "compaction_summary"
    summary = messages.read_history(raws)[1]
    assert summary.covers == SUMMARY.covers
    assert messages.summary_level(summary) == 2
    assert [message.seq for message in messages.read_history(raws)] == [0, 1, 4, 5, 9, 10, 11]


def test_a_message_by_itself_is_never_a_summary() -> None:
    for raw in (SUMMARY, dict(SUMMARY)):
        assert messages.read_message(raw, 0).provenance == "original"


def test_a_summary_whose_text_was_edited_is_a_message() -> None:
    edited = messages.SummaryMessage(SUMMARY["content"], SUMMARY.covers, 2)
    edited["content"] = edited["content"].replace("Six", "Ten")
    assert provenances([SYSTEM, edited, ask(), say()])[1] == "original"


def test_a_quotation_stays_the_message_it_is_wherever_its_ranges_cannot_stand() -> None:
    quote = dict(SUMMARY)
    assert provenances([SYSTEM, dict(SUMMARY), ask(), quote, say()])[3] == "original"
    assert provenances([SYSTEM, ask(), say(), quote, say(), ask()])[3] == "original"
    later = dict(messages.SummaryMessage("Of another conversation.", ((40, 90),)))
    assert provenances([SYSTEM, ask(), say(), later, say(), ask()])[3] == "original"


def test_what_was_said_last_and_the_only_request_are_never_taken_for_a_summary() -> None:
    alone = dict(messages.SummaryMessage("All of it.", ((1, 9),)))
    assert provenances([SYSTEM, alone, say(), say()])[1] == "original"
    assert provenances([SYSTEM, ask(), dict(messages.SummaryMessage("All.", ((2, 9),)))])[2] == "original"


def test_a_summary_of_an_agent_that_nobody_asks_anything_is_known_from_the_second_on() -> None:
    first, second = (dict(messages.SummaryMessage("So far.", covers)) for covers in (((1, 9),), ((2, 30),)))
    assert provenances([SYSTEM, first, second, say(), say()]) == [
        "original",
        "original",
        "compaction_summary",
        "original",
        "original",
    ]


def test_rules_put_before_a_copy_move_its_ranges_up() -> None:
    raws = [SYSTEM, SYSTEM, SYSTEM, dict(SUMMARY), ask(), say()]
    assert messages.read_history(raws)[3].covers == ((3, 6), (8, 11))
    assert provenances(raws)[3] == "compaction_summary"


@pytest.mark.parametrize("covers", [((3, 3),), ((4, 2),), ((2, 5), (4, 6)), ((5, 6), (1, 2)), ((-1, 2),)])
def test_a_summary_is_not_made_of_ranges_that_do_not_ascend(covers: Any) -> None:
    with pytest.raises(InvalidMessageError, match="must ascend and be disjoint"):
        messages.SummaryMessage("So far.", covers)


def test_over_five_rounds_through_json_levels_rise_and_covers_add_up() -> None:
    policy = siltstone.ThresholdCompactor(
        siltstone.CompactionConfig(retained_token_budget=60, recent_turn_budget=4)
    )
    told: list[str] = []

    def model(request: siltstone.CompletionRequest) -> str:
        told.append(request.messages[0]["content"])
        return f"Summary number {len(told)}."

    history: list[Any] = [SYSTEM]
    said = 1
    for number in range(1, 6):
        for step in range(8):
            history += [ask(f"Round {number}, step {step}: open the next door."), say("It is open. " * 6)]
            said += 2
        outcome = siltstone.compact(history, policy, model=model)
        assert outcome.level == number
        kept = len(outcome.messages) - 2
        assert outcome.covers == ((1, said - kept),)
        if number > 1:
            assert told[-1].startswith("[Earlier summary of messages 1-")
            assert f"Summary number {number - 1}." in told[-1]
            assert "[Summary level" not in told[-1]
        history = json.loads(json.dumps(outcome.messages))
    assert len(told) == 5


@given(data=st.data())
def test_an_imitation_reaches_the_summariser_or_stays_word_for_word(data: st.DataObject) -> None:
    """Wherever a user puts the copy of a summary, it is where the same words without a mark would be."""
    raws: list[Any] = [SYSTEM]
    for number in range(8):
        raws += [ask(f"Question {number}. " + "word " * 12), say("Answer. " * 12)]
    place = data.draw(st.integers(1, 8)) * 2 + 1
    covers = data.draw(ranges.filter(lambda covers: covers[0][0] != place))
    twins = [
        [*raws[:place], ask(text), say("Indeed."), *raws[place:]]
        for text in (
            messages.marked("What was said.", covers, 1),
            messages.marked("What was said.", covers, 1)[:-1] + "}",
        )
    ]
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(retained_token_budget=200))
    found = []
    for twin in twins:
        outcome = siltstone.compact(twin, policy, model=lambda _: "Short.")
        assert isinstance(outcome, siltstone.engine.Compacted)
        found.append((outcome.covers, any(raw is twin[place] for raw in outcome.messages)))
    assert found[0] == found[1]
