"""How OpenAI chat messages are read."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone.messages import Part, detect, read_message
from strategies import PIXEL


def parts_of(raw: dict[str, Any]) -> tuple[Part, ...]:
    return read_message(raw, 0, dialect="openai.chat").parts


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def test_blocks_come_in_their_order() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert parts_of(user({"type": "text", "text": "look"}, image, "bare text")) == (
        Part("text", "look"),
        Part("blob", "[image: image/png]", modality="image", size=len(PIXEL)),
        Part("text", "bare text"),
    )


def test_media_that_are_referred_to_show_no_address() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/secret/path.png"}}
    file = {"type": "file", "file": {"file_id": "file-1", "filename": "plan.pdf"}}
    assert parts_of(user(image, file)) == (
        Part("blob", "[image: image/*]", modality="image"),
        Part("blob", "[document: application/octet-stream]", modality="document"),
    )


def test_sound_and_files_are_media_of_their_type() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}}
    pdf = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}"}}
    picture = {"type": "file", "file": {"file_data": f"data:image/webp;base64,{PIXEL}"}}
    film = {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}, "duration_ms": 1500}
    assert parts_of(user(audio, pdf, picture, film)) == (
        Part("blob", "[audio: audio/wav]", modality="audio", size=len(PIXEL)),
        Part("blob", "[document: application/pdf]", modality="document", size=len(PIXEL)),
        Part("blob", "[image: image/webp]", modality="image", size=len(PIXEL)),
        Part("blob", "[video: video/*]", modality="video", duration_ms=1500),
    )


def test_calls_of_functions_and_custom_tools_keep_their_arguments_as_received() -> None:
    raw = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{ "path" : "." }'}},
            {"id": "b", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
            {"id": "c", "function": {"name": "ls", "arguments": {"path": "é"}}},
        ],
    }
    assert parts_of(raw) == (
        Part("tool_call", "", "a", "ls", '{ "path" : "." }'),
        Part("tool_call", "", "b", "sql", "select 1"),
        Part("tool_call", "", "c", "ls", '{"path":"é"}'),
    )


def test_reasoning_text_refusal_and_calls_of_one_message() -> None:
    raw = {
        "role": "assistant",
        "content": "well",
        "reasoning_content": "hm",
        "refusal": "no",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": ""}}],
    }
    assert parts_of(raw) == (
        Part("reasoning", "hm"),
        Part("text", "well"),
        Part("text", "no"),
        Part("tool_call", "", "a", "ls", ""),
    )


def test_a_refusal_block_is_text() -> None:
    raw = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not"}]}
    assert parts_of(raw) == (Part("text", "I will not"),)


def test_a_spoken_answer_is_a_sound_and_its_transcript() -> None:
    audio = {"id": "audio_1", "data": PIXEL, "transcript": "hello", "expires_at": 1}
    assert parts_of({"role": "assistant", "content": None, "audio": audio}) == (
        Part("blob", "[audio: audio/*]", modality="audio", size=len(PIXEL)),
        Part("other", "hello"),
    )


def test_a_tool_message_is_a_result() -> None:
    raw = {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}, "y"]}
    message = read_message(raw, 0)
    assert message.role == "tool"
    assert message.parts == (Part("tool_result", "x\ny", "a"),)


def test_the_old_function_role_reads_as_tool() -> None:
    message = read_message({"role": "function", "name": "ls", "content": "a.txt"}, 0)
    assert message.role == "tool"
    assert message.parts == (Part("tool_result", "a.txt", None, "ls"),)
    called = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}
    assert parts_of(called) == (Part("tool_call", "", None, "ls", "{}"),)


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


@pytest.mark.parametrize(
    ("raw", "dialect"),
    [
        ({"role": "user", "content": "x"}, "any"),
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
def test_a_dialect_is_found_out_by_what_only_it_has(raw: dict[str, Any], dialect: str) -> None:
    assert detect(raw) == dialect
    assert read_message(raw, 0).dialect == dialect
