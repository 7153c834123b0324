"""How items of the OpenAI Responses API are read, and what of them stays together."""

from __future__ import annotations

from typing import Any

import pytest

from shapes import ask, say
from siltstone.errors import InvalidMessageError
from siltstone.messages import (
    Part,
    broken_tool_groups,
    detect,
    groups,
    in_flight,
    indexable_text,
    read_history,
    read_message,
)
from siltstone.messages.dialects.base import CALLS, OUTPUTS
from siltstone.tokens import IMAGE_TOKENS, estimate_tokens
from strategies import PIXEL

PICTURE = f"data:image/png;base64,{PIXEL}"
BIG = f"data:image/png;base64,{'QUJD' * 25_000}"  # 100,000 bytes of base64


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "ls", "arguments": "{}", **more}


def output(call_id: str, text: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def thought(item_id: str = "rs_1") -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "Z3VhcmRlZA=="}


def read(raw: dict[str, Any]) -> tuple[str, tuple[Part, ...]]:
    message = read_message(raw, 0)
    assert message.dialect == "openai.responses"
    return message.role, message.parts


def grouped(*raws: dict[str, Any]) -> list[tuple[int, ...]]:
    return [group.positions for group in groups(read_history(raws))]


def item(kind: str, **fields: Any) -> dict[str, Any]:
    """An item about the call ``a``, unless its *fields* name another id."""
    return {"type": kind, **({} if "id" in fields else {"call_id": "a"}), **fields}


def asked(name: str, arguments: str, call_id: str = "a") -> Part:
    return Part("tool_call", "", call_id, name, arguments)


def told(text: str, name: str | None = None, call_id: str = "a", **more: Any) -> Part:
    return Part("tool_result", text, call_id, name, **more)


def picture(call_id: str) -> Part:
    return Part("blob", "[image: image/png]", call_id, modality="image", size=len(PIXEL))


RAN = {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
DOWN = {"type": "http_error", "code": 500, "message": "down"}
LOGS = [{"type": "logs", "logs": "42"}]
SCREENSHOT = {"type": "computer_screenshot", "image_url": PICTURE}
SUMMARY = [{"type": "summary_text", "text": "hm"}]
SAID = [{"type": "output_text", "text": "no", "annotations": []}, {"type": "refusal", "refusal": "never"}]
MESSAGE = {"type": "message", "id": "msg_1", "status": "completed"}
OF_THE_ASSISTANT = [
    (call("a", id="fc_1"), asked("ls", "{}")),
    (item("custom_tool_call", name="grep", input="x y"), asked("grep", "x y")),
    (item("shell_call", action={"commands": ["ls"]}), asked("shell", '{"commands":["ls"]}')),
    (
        item("local_shell_call", id="l", call_id="a", action={"command": ["ls"]}),
        asked("local_shell", '{"command":["ls"]}'),
    ),
    (item("computer_call", action={"type": "wait"}), asked("computer", '{"type":"wait"}')),
    (item("mcp_approval_request", id="r", name="rm", arguments="{}"), asked("rm", "{}", "r")),
    (
        item("mcp_call", id="m", name="rm", arguments="{}", approval_request_id="r", error=DOWN),
        asked("rm", "{}", "m"),
        told("down", "rm", "m", is_error=True),
        Part("other", call_id="r"),
    ),
    (
        item("web_search_call", id="w", status="completed", action={"query": "x"}),
        asked("web_search", '{"query":"x"}', "w"),
        told("", "web_search", "w"),
    ),
    (
        item("file_search_call", id="f", queries=["x"], results=[{"text": "found"}]),
        asked("file_search", '["x"]', "f"),
        told("found", "file_search", "f"),
    ),
    (
        item("code_interpreter_call", id="c", code="6*7", outputs=LOGS),
        asked("code_interpreter", "6*7", "c"),
        told("42", "code_interpreter", "c"),
    ),
    (
        item("image_generation_call", id="i", result=PIXEL, output_format="png"),
        asked("image_generation", "{}", "i"),
        told("", "image_generation", "i"),
        picture("i"),
    ),
    ({"type": "reasoning", "id": "rs_1", "summary": SUMMARY}, Part("reasoning", "hm")),
    (thought(), Part("reasoning", size=12)),
    ({**MESSAGE, "role": "assistant", "content": SAID}, Part("text", "no"), Part("text", "never")),
]
OF_A_TOOL = [
    (output("a"), told("ok")),
    (item("shell_call_output", output=[RAN]), told("a.txt", "shell")),
    ({"type": "local_shell_call_output", "id": "a", "output": "a.txt"}, told("a.txt", "local_shell")),
    (item("computer_call_output", output=SCREENSHOT), told("", "computer"), picture("a")),
    (
        item("apply_patch_call_output", status="failed", output="no such file"),
        told("no such file", "apply_patch", is_error=True),
    ),
    (
        item("mcp_approval_response", id="x", approval_request_id="r", approve=False, reason="not here"),
        told("refused: not here", call_id="r"),
    ),
]
OF_A_DEVELOPER = [
    ({"type": "compaction", "encrypted_content": "x"}, Part("compaction")),
    ({"type": "item_reference", "id": "msg_1"}, Part("other", name="item_reference")),
    ({"id": "msg_1"}, Part("other", name="item_reference")),
]
OF_A_USER = [
    (
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        Part("text", "hi"),
    ),
    ({"type": "message", "role": "user", "content": "hi"}, Part("text", "hi")),
]


@pytest.mark.parametrize(
    ("role", "row"),
    [
        *(("assistant", row) for row in OF_THE_ASSISTANT),
        *(("tool", row) for row in OF_A_TOOL),
        *(("developer", row) for row in OF_A_DEVELOPER),
        *(("user", row) for row in OF_A_USER),
    ],
    ids=lambda value: value[0].get("type", "") if isinstance(value, tuple) else value,
)
def test_an_item_is_read_by_its_type(role: str, row: tuple[Any, ...]) -> None:
    raw, *parts = row
    assert read(raw) == (role, tuple(parts))


def test_an_unknown_item_is_kept_with_its_text_and_its_id() -> None:
    role, parts = read({"type": "oracle_call_output", "call_id": "a", "output": "42"})
    assert (role, parts) == ("tool", (Part("other", "42", "a"),))
    assert read({"type": "oracle", "content": "42"}) == ("assistant", (Part("other", "42"),))


def test_every_call_has_one_type_that_answers_it() -> None:
    assert len(OUTPUTS) == len(CALLS)
    assert not OUTPUTS.keys() & CALLS.keys()


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_of_each_type_is_pending_until_it_is_answered(kind: str) -> None:
    called = {"type": kind, "id": "a", "call_id": "a", "name": "ls", "arguments": "{}", "input": "x"}
    answer = {"type": CALLS[kind].output, "call_id": "a", "approval_request_id": "a", "output": "ok"}
    history = read_history([ask(), called])
    assert [group.pending for group in groups(history)] == [False, True]
    assert in_flight(history)
    assert grouped(ask(), called, answer, say()) == [(0,), (1, 2), (3,)]
    assert broken_tool_groups([ask(), called, answer, say()]) == 0
    assert broken_tool_groups([ask(), answer, say()]) == 1


def test_reasoning_is_bound_to_the_items_of_its_answer() -> None:
    raws = [ask(), thought(), call("a"), call("b"), output("b"), output("a"), thought("rs_2"), say()]
    assert grouped(*raws) == [(0,), (1, 2, 3, 4, 5), (6, 7)]


def test_calls_side_by_side_are_one_answer() -> None:
    history = read_history([ask(), call("a"), call("b"), output("b")])
    assert [(group.positions, group.pending) for group in groups(history)] == [
        ((0,), False),
        ((1, 2, 3), True),
    ]


def test_an_approved_call_belongs_to_its_approval() -> None:
    asked = {"type": "mcp_approval_request", "id": "r", "name": "rm", "arguments": "{}"}
    given = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    ran = {"type": "mcp_call", "id": "m", "name": "rm", "arguments": "{}", "approval_request_id": "r"}
    assert grouped(ask(), asked, given, ran, say()) == [(0,), (1, 2, 3), (4,)]


def test_what_a_program_calls_belongs_to_the_program() -> None:
    program = {"type": "program", "id": "p", "call_id": "p1", "code": "ls()"}
    caller = {"type": "program", "caller_id": "p1"}
    done = {"type": "program_output", "id": "q", "call_id": "p1", "result": "ok"}
    raws = [ask(), program, call("a", caller=caller), output("a"), done, say()]
    assert grouped(*raws) == [(0,), (1, 2, 3, 4), (5,)]


def test_unknown_items_that_share_an_id_are_one_group() -> None:
    raws = [ask(), {"type": "oracle_call", "call_id": "o"}, say(), {"type": "oracle_answer", "call_id": "o"}]
    assert grouped(*raws) == [(0,), (1, 3), (2,)]
    assert broken_tool_groups(raws) == 0


def test_an_output_whose_call_the_provider_holds_belongs_to_the_reference() -> None:
    raws = [ask(), {"type": "item_reference", "id": "fc_1"}, output("a"), say()]
    assert grouped(*raws) == [(0,), (1, 2), (3,)]
    assert broken_tool_groups(raws) == 0


def test_a_call_before_the_last_words_of_an_answer_keeps_its_turn_in_flight() -> None:
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]}
    assert in_flight(read_history([ask(), call("a"), words]))
    assert broken_tool_groups([ask(), call("a"), words]) == 0
    assert not in_flight(read_history([ask(), call("a"), output("a"), words]))


def test_what_was_said_called_and_answered_is_indexed() -> None:
    history = read_history([call("a"), output("a", "found"), thought()])
    assert [indexable_text(message) for message in history] == ["ls {}", "found", ""]
    assert indexable_text(read_message({"type": "compaction", "encrypted_content": "x"}, 0)) == ""
    unknown = read_message({"type": "oracle_call_output", "call_id": "a", "output": "42"}, 0)
    assert indexable_text(unknown) == "42"
    assert indexable_text(unknown, index_tools=False) == ""


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "image_generation_call", "id": "i", "result": BIG.partition(",")[2]},
        {
            "type": "computer_call_output",
            "call_id": "a",
            "output": {"type": "computer_screenshot", "image_url": BIG},
        },
        output("a", [{"type": "input_image", "detail": "auto", "image_url": BIG}]),
        {"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": BIG}]},
        {"type": "code_interpreter_call", "id": "c", "code": "", "outputs": [{"type": "image", "url": BIG}]},
    ],
    ids=lambda raw: raw.get("type", "message"),
)  # fmt: skip
def test_a_picture_costs_what_a_picture_costs(raw: dict[str, Any]) -> None:
    assert IMAGE_TOKENS <= estimate_tokens(raw, rule="blocks") < IMAGE_TOKENS + 60


@pytest.mark.parametrize(
    ("raw", "dialect"),
    [
        ({"type": "item_of_tomorrow"}, "openai.responses"),
        ({"type": "additional_tools", "role": "developer", "tools": []}, "openai.responses"),
        ({"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, "openai.responses"),
        ({"role": "user", "content": "hi"}, "any"),
        ({"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, "anthropic"),
        ({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a"}]}, "any"),
        ({"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "compaction", "content": "x"}]}, "anthropic"),
    ],
)
def test_the_dialect_is_found_out(raw: dict[str, Any], dialect: str) -> None:
    assert detect(raw) == dialect


@pytest.mark.parametrize("kind", ["text", "tool_use", "tool_result", "image_url", "input_text", "message"])
def test_a_piece_of_a_message_is_no_message(kind: str) -> None:
    with pytest.raises(InvalidMessageError, match="it has no role"):
        read_message({"type": kind, "text": "hi", "id": "a"}, 0)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"type": "function_call_output", "call_id": "a", "output": 5}, "output"),
        ({"type": "file_search_call", "id": "f", "results": 5}, "results"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text"}]}, "content[0].text"),
    ],
)
def test_what_is_malformed_is_named(raw: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        read_message(raw, 3)
    assert (caught.value.index, caught.value.key) == (3, key)
