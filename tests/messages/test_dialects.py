"""How items and messages of each provider are read, and what of them stays together."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, fc, out, result, say, thought
from siltstone._native import json_size
from siltstone.errors import InvalidMessageError
from siltstone.messages import (
    OWN_TOOLS,
    Part,
    SummaryMessage,
    broken_tool_groups,
    detect,
    groups,
    in_flight,
    indexable_text,
    indexable_texts,
    read_history,
    read_message,
)
from siltstone.messages.conversion import convert
from siltstone.messages.dialects.base import CALLS
from siltstone.tokens import estimate_tokens
from strategies import PIXEL, histories

PICTURE = f"data:image/png;base64,{PIXEL}"
BIG = f"data:image/png;base64,{'QUJD' * 25_000}"  # 100,000 bytes of base64


def sealed(item_id: str = "rs_1") -> dict[str, Any]:
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
    return Part("blob", "[image: image/png]", call_id, modality="image", size=len(PIXEL), extent=(1, 1))


RAN = {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
DOWN = {"type": "http_error", "code": 500, "message": "down"}
LOGS = [{"type": "logs", "logs": "42"}]
SCREENSHOT = {"type": "computer_screenshot", "image_url": PICTURE}
SUMMARY = [{"type": "summary_text", "text": "hm"}]
SAID = [{"type": "output_text", "text": "no", "annotations": []}, {"type": "refusal", "refusal": "never"}]
MESSAGE = {"type": "message", "id": "msg_1", "status": "completed"}
OF_THE_ASSISTANT = [
    (fc("a", id="fc_1"), asked("ls", "{}")),
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
    (sealed(), Part("reasoning", size=12)),
    ({**MESSAGE, "role": "assistant", "content": SAID}, Part("text", "no"), Part("text", "never")),
]
OF_A_TOOL = [
    (out("a"), told("ok")),
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
    raws = [ask(), sealed(), fc("a"), fc("b"), out("b"), out("a"), sealed("rs_2"), say()]
    assert grouped(*raws) == [(0,), (1, 2, 3, 4, 5), (6, 7)]


def test_an_approved_call_belongs_to_its_approval() -> None:
    asked = {"type": "mcp_approval_request", "id": "r", "name": "rm", "arguments": "{}"}
    given = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    ran = {"type": "mcp_call", "id": "m", "name": "rm", "arguments": "{}", "approval_request_id": "r"}
    assert grouped(ask(), asked, given, ran, say()) == [(0,), (1, 2, 3), (4,)]


def test_what_a_program_calls_belongs_to_the_program() -> None:
    program = {"type": "program", "id": "p", "call_id": "p1", "code": "ls()"}
    caller = {"type": "program", "caller_id": "p1"}
    done = {"type": "program_output", "id": "q", "call_id": "p1", "result": "ok"}
    raws = [ask(), program, fc("a", caller=caller), out("a"), done, say()]
    assert grouped(*raws) == [(0,), (1, 2, 3, 4), (5,)]


def test_unknown_items_that_share_an_id_are_one_group() -> None:
    raws = [ask(), {"type": "oracle_call", "call_id": "o"}, say(), {"type": "oracle_answer", "call_id": "o"}]
    assert grouped(*raws) == [(0,), (1, 3), (2,)]
    assert broken_tool_groups(raws) == 0


def test_an_output_whose_call_the_provider_holds_belongs_to_the_reference() -> None:
    raws = [ask(), {"type": "item_reference", "id": "fc_1"}, out("a"), say()]
    assert grouped(*raws) == [(0,), (1, 2), (3,)]
    assert broken_tool_groups(raws) == 0


def test_a_call_before_the_last_words_of_an_answer_keeps_its_turn_in_flight() -> None:
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]}
    assert in_flight(read_history([ask(), fc("a"), words]))
    assert broken_tool_groups([ask(), fc("a"), words]) == 0
    assert not in_flight(read_history([ask(), fc("a"), out("a"), words]))


def test_what_was_said_called_and_answered_is_indexed() -> None:
    history = read_history([fc("a"), out("a", output="found"), sealed()])
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
        out("a", output=[{"type": "input_image", "detail": "auto", "image_url": BIG}]),
        {"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": BIG}]},
        {"type": "code_interpreter_call", "id": "c", "code": "", "outputs": [{"type": "image", "url": BIG}]},
    ],
    ids=lambda raw: raw.get("type", "message"),
)  # fmt: skip
def test_a_picture_costs_what_a_picture_costs(raw: dict[str, Any]) -> None:
    assert 1_600 <= estimate_tokens(raw, rule="blocks") < 1_660


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
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "any"),
        ({"role": "user", "content": []}, "any"),
        ({"role": "developer", "content": "x"}, "openai.chat"),
        ({"role": "tool", "content": "x", "tool_call_id": "a"}, "openai.chat"),
        ({"role": "assistant", "content": None}, "openai.chat"),
        ({"role": "assistant", "content": "x", "refusal": None}, "openai.chat"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}, "openai.chat"),
        ({"role": "user", "content": [{"type": "image", "source": {}}]}, "anthropic"),
        ({"role": "user", "content": [{"type": "text", "text": ""}, {"type": "tool_result"}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "bash_code_execution_tool_result"}]}, "anthropic"),
    ],
)
def test_the_dialect_is_found_out(raw: dict[str, Any], dialect: str) -> None:
    assert detect(raw) == dialect
    assert read_message(raw, 0).dialect == dialect


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


def blob(kind: str, modality: str, **more: Any) -> Part:
    return Part("blob", f"[{modality}: {kind}]", modality=modality, **more)


def url(address: str) -> dict[str, Any]:
    return {"url": address}


def answer_of(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "a", "content": content, **more}


def document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


SIZE: dict[str, Any] = {"size": len(PIXEL), "extent": (1, 1)}
WAV = {"data": PIXEL, "format": "wav"}
ADDRESS = "https://example.org/secret/a"
MINUTES = {"type": "text", "media_type": "text/plain", "data": "the minutes"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
IMAGE = {"type": "image", "source": {**PDF, "media_type": "image/png"}}
PAGE = {"type": "web_search_result", "title": "A page", "url": "https://x", "encrypted_content": "q"}
EXECUTED = {"type": "code_execution_result", "stdout": "42", "stderr": "", "return_code": 0, "content": []}
UNAVAILABLE = {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
SILENT = {"type": "block_of_tomorrow", "file_id": "file_1"}
UPLOAD = {"type": "container_upload", "file_id": "file_1"}
CITED = {"type": "char_location", "cited_text": "minutes"}
#: Blocks, and the parts that are read of each.
CHAT: list[tuple[Any, ...]] = [
    ("bare text", Part("text", "bare text")),
    ({"type": "refusal", "refusal": "I will not"}, Part("text", "I will not")),
    ({"type": "image_url", "image_url": url(PICTURE)}, blob("image/png", "image", **SIZE)),
    ({"type": "image_url", "image_url": url(ADDRESS)}, blob("image/*", "image")),
    ({"type": "input_audio", "input_audio": WAV}, blob("audio/wav", "audio", **SIZE)),
    (
        {"type": "file", "file": {"file_id": "file-1", "filename": "plan.pdf"}},
        blob("application/octet-stream", "document"),
    ),
    *(
        ({"type": "file", "file": {"file_data": f"data:{kind};base64,{PIXEL}"}}, blob(kind, modality, **SIZE))
        for kind, modality in (("application/pdf", "document"), ("image/webp", "image"))
    ),
    (
        {"type": "video_url", "video_url": url(ADDRESS), "duration_ms": 1500},
        blob("video/*", "video", duration_ms=1500),
    ),
]
CLAUDE: list[tuple[Any, ...]] = [
    ({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, Part("reasoning", "hm", size=4)),
    ({"type": "redacted_thinking", "data": "b3BhcXVl"}, Part("reasoning", size=8)),
    (
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": ".", "n": 1.5}},
        asked("ls", '{"path":".","n":1.5}'),
    ),
    *((answer_of(content), told("ok")) for content in ("ok", [text("ok")], ["ok"])),
    (answer_of("no such file", is_error=True), told("no such file", is_error=True)),
    (answer_of([text("one"), IMAGE, text("two")]), told("one\ntwo"), picture("a")),
    (document(MINUTES, title="Monday", citations={"enabled": True}), Part("other", "Monday\nthe minutes")),
    (document(PDF), blob("application/pdf", "document", **SIZE)),
    (document({"type": "url", "url": ADDRESS}), blob("application/octet-stream", "document")),
    (
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        asked("web_search", '{"query":"x"}', "s"),
    ),
    ({"type": "web_search_tool_result", "tool_use_id": "s", "content": [PAGE]}, told("A page", call_id="s")),
    (
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": EXECUTED},
        told("42", call_id="s"),
    ),
    (
        {"type": "web_fetch_tool_result", "tool_use_id": "t", "content": UNAVAILABLE},
        told("", call_id="t", is_error=True),
    ),
    (
        {"type": "mcp_tool_use", "id": "m", "name": "ls", "server_name": "files", "input": {}},
        asked("ls", "{}", "m"),
    ),
    (
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": "a.txt"},
        told("a.txt", call_id="m"),
    ),
    ({"type": "block_of_tomorrow", "content": [text("hello")]}, Part("other", "hello")),
    *((each, Part("other", "", size=json_size(each)[0])) for each in (SILENT, UPLOAD, {})),
    (
        {"type": "hologram", "data": "QUJD" * 100},
        Part(
            "other", "", modality="document", size=json_size({"type": "hologram", "data": ""})[0], extent=(1,)
        ),
    ),
    ({"type": "compaction", "content": None}, Part("compaction")),
    (text("so", citations=[CITED]), Part("text", "so")),
]


@pytest.mark.parametrize(
    ("dialect", "rows"), [("openai.chat", CHAT), ("anthropic", CLAUDE)], ids=["chat", "claude"]
)
def test_the_parts_of_blocks_come_in_their_order(dialect: Any, rows: list[tuple[Any, ...]]) -> None:
    for block, *parts in rows:
        raw = {"role": "user", "content": [text("look"), block, text("on")]}
        expected = (Part("text", "look"), *parts, Part("text", "on"))
        assert read_message(raw, 0, dialect=dialect).parts == expected


def call_of(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **fields}]}


AUDIO = {"id": "audio_1", "data": PIXEL, "transcript": "hello", "expires_at": 1}
LS = {"name": "ls", "arguments": '{ "path" : "." }'}
WHOLE: list[tuple[dict[str, Any], str, tuple[Part, ...]]] = [
    (call_of(type="function", function=LS), "assistant", (asked("ls", '{ "path" : "." }'),)),
    (
        call_of(type="custom", custom={"name": "sql", "input": "select 1"}),
        "assistant",
        (asked("sql", "select 1"),),
    ),
    (call_of(function={**LS, "arguments": {"path": "é"}}), "assistant", (asked("ls", '{"path":"é"}'),)),
    (
        {**call_of(function=LS), "content": "well", "reasoning_content": "hm", "refusal": "no"},
        "assistant",
        (Part("reasoning", "hm"), Part("text", "well"), Part("text", "no"), asked("ls", LS["arguments"])),
    ),
    (
        {"role": "assistant", "content": None, "audio": AUDIO},
        "assistant",
        (blob("audio/*", "audio", **SIZE), Part("other", "hello")),
    ),
    ({"role": "tool", "tool_call_id": "a", "content": [text("x"), "y"]}, "tool", (told("x\ny"),)),
    (
        {"role": "function", "name": "ls", "content": "a.txt"},
        "tool",
        (Part("tool_result", "a.txt", None, "ls"),),
    ),
    (
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        "assistant",
        (Part("tool_call", "", None, "ls", "{}"),),
    ),
]


@pytest.mark.parametrize(("raw", "role", "parts"), WHOLE)
def test_a_message_of_openai_chat_is_read(raw: dict[str, Any], role: str, parts: tuple[Part, ...]) -> None:
    message = read_message(raw, 0, dialect="openai.chat")
    assert (message.role, message.parts) == (role, parts)


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "assistant", "content": None, "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": []},
    ],
)
def test_an_assistant_may_say_nothing(raw: dict[str, Any]) -> None:
    assert read_message(raw, 0).parts == ()


def text_of(raw: Any, **options: Any) -> str:
    return indexable_text(read_message(raw, 0), **options)


@pytest.mark.parametrize(
    ("raw", "indexed", "without_tools"),
    [
        (ask("where is it?"), "where is it?", "where is it?"),
        (say("here"), "here", "here"),
        (call("a", text="I look"), "I look\nls {}", "I look"),
        (result("a", "a.txt\nb.txt"), "a.txt\nb.txt", ""),
        ({"role": "function", "name": "ls", "content": "a.txt"}, "ls a.txt", ""),
        (blocks("user", {"type": "text", "text": "look"}, IMAGE), "look", "look"),
        (thought(), "", ""),
        ({"role": "user", "content": ["", "a", "", "b"]}, "a\nb", "a\nb"),
        ({"role": "system", "content": "be brief"}, "", ""),
        ({"role": "developer", "content": "be brief"}, "", ""),
    ],
)
def test_texts_calls_and_results_are_indexed(raw: Any, indexed: str, without_tools: str) -> None:
    assert text_of(raw) == indexed
    assert text_of(raw, index_tools=False) == without_tools


def test_a_summary_is_not_indexed() -> None:
    (summary,) = read_history([SummaryMessage("[Context compacted] x", ((0, 1),))])
    assert indexable_text(summary) == ""


@pytest.mark.parametrize("provenance", ["injected_context", "recalled_context", "placeholder", "repaired"])
def test_only_originals_are_indexed(provenance: Any) -> None:
    assert indexable_text(read_message(ask("x"), 0, provenance=provenance)) == ""


@given(raws=histories())
def test_every_text_that_was_said_is_found_in_what_is_indexed(raws: list[dict[str, Any]]) -> None:
    for message in read_history(raws):
        if message.role in ("system", "developer"):
            continue
        indexed = indexable_text(message)
        for part in message.parts:
            if part.kind in ("text", "tool_result"):
                assert part.text in indexed
            if part.kind == "tool_call":
                assert (part.arguments or "") in indexed


SECRET = "quoted-by-our-own-tool"
names = st.builds(
    lambda prefix, name: prefix + name,
    st.sampled_from(["", "mcp__siltstone__", "mcp__notes__", "siltstone.", "functions.", "siltstone_"]),
    st.sampled_from(sorted(OWN_TOOLS)),
)
foreign = st.sampled_from(["read_file", "graph_memory_search", "memory_searches", "search", "mcp__x__ls"])


def openai_turn(calls: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """An assistant's parallel calls (id, name, answer), and their answers."""
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps({"of": answer})}}
        for id_, name, answer in calls
    ]
    answers = [{"role": "tool", "tool_call_id": id_, "content": answer} for id_, _, answer in calls]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *answers]


@st.composite
def transcripts(draw: Any) -> list[dict[str, Any]]:
    """Turns with our own tools and others, side by side and with ids that are used again."""
    raws: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(1, 4))):
        raws.append(ask(f"Question {turn}."))
        count = draw(st.integers(1, 3))
        calls = []
        for at in range(count):
            own = draw(st.booleans())
            name = draw(names if own else foreign)
            calls.append((f"call_{at}", name, f"{SECRET if own else 'found'} {turn}-{at}"))
        raws += openai_turn(calls)
        raws.append(say(f"Answer {turn}."))
    return raws


@pytest.mark.parametrize("dialect", ["openai.chat", "openai.responses", "anthropic"])
@given(raws=transcripts())
def test_nothing_of_our_own_tools_is_indexed_and_all_else_is(dialect: Any, raws: Any) -> None:
    history = read_history(convert(raws, dialect).messages)
    texts = "\n".join(indexable_texts(history))
    assert SECRET not in texts
    said = json.dumps(raws)
    for turn in range(4):
        for what in (f"Question {turn}.", f"Answer {turn}.", *(f"found {turn}-{at}" for at in range(3))):
            assert texts.count(what) == said.count(what)


def test_a_server_tool_of_a_provider_holds_its_answer_in_the_call() -> None:
    item = {
        "type": "mcp_call", "id": "mcp_1", "server_label": "siltstone", "name": "memory_search",
        "arguments": '{"query": "x"}', "output": SECRET,
    }  # fmt: skip
    use = {"type": "mcp_tool_use", "id": "t1", "name": "memory_search", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": SECRET}]}
    for raws in ([item], [{"role": "assistant", "content": [use, result]}]):
        assert list(indexable_texts(read_history(raws))) == [""]


def test_a_function_without_ids_is_known_by_its_name() -> None:
    raws = [
        {"role": "assistant", "content": None, "function_call": {"name": "memory_get", "arguments": "{}"}},
        {"role": "function", "name": "memory_get", "content": SECRET},
    ]
    assert list(indexable_texts(read_history(raws))) == ["", ""]


def test_what_is_said_beside_a_call_is_indexed() -> None:
    call_chat, answer = openai_turn([("c", "memory_search", SECRET)])
    call_chat["content"] = "Let me look."
    history = read_history([call_chat, answer])
    assert list(indexable_texts(history)) == ["Let me look.", ""]
    assert indexable_text(history[0]) == "Let me look."


def test_an_answer_without_its_call_is_a_tools_answer_like_any_other() -> None:
    answer = {"role": "tool", "tool_call_id": "c", "content": "found"}
    assert list(indexable_texts(read_history([answer]))) == ["found"]
    assert list(indexable_texts(read_history([{**answer, "name": "memory_search"}]))) == [""]
