"""How Anthropic messages are read."""

from __future__ import annotations

from typing import Any

from siltstone._native import json_size
from siltstone.messages import Part, indexable_text, read_message
from strategies import PIXEL


def parts_of(*blocks: Any, role: str = "assistant") -> tuple[Part, ...]:
    return read_message({"role": role, "content": list(blocks)}, 0, dialect="anthropic").parts


def image() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def test_text_thinking_and_a_call() -> None:
    assert parts_of(
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": ".", "n": 1.5}},
    ) == (
        Part("reasoning", "hm", size=4),
        Part("reasoning", size=8),
        Part("text", "I look"),
        Part("tool_call", "", "a", "ls", '{"path":".","n":1.5}'),
    )


def test_a_result_is_text_whatever_its_form() -> None:
    for content in ("ok", [{"type": "text", "text": "ok"}], ["ok"]):
        block = {"type": "tool_result", "tool_use_id": "a", "content": content}
        assert parts_of(block, role="user") == (Part("tool_result", "ok", "a"),)


def test_a_failed_result_says_so() -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": "no such file", "is_error": True}
    assert parts_of(block, role="user") == (Part("tool_result", "no such file", "a", is_error=True),)


def test_media_inside_a_result_follow_it_with_its_id() -> None:
    content = [{"type": "text", "text": "one"}, image(), {"type": "text", "text": "two"}]
    assert parts_of({"type": "tool_result", "tool_use_id": "a", "content": content}, role="user") == (
        Part("tool_result", "one\ntwo", "a"),
        Part("blob", "[image: image/png]", "a", modality="image", size=len(PIXEL)),
    )


def test_a_document_that_is_text_is_read_as_text() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "the minutes"}
    assert parts_of({"type": "document", "title": "Monday", "source": source}, role="user") == (
        Part("other", "Monday\nthe minutes"),
    )


def test_a_document_that_is_bytes_is_media() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
    assert parts_of({"type": "document", "source": source}, role="user") == (
        Part("blob", "[document: application/pdf]", modality="document", size=len(PIXEL)),
    )
    by_address = {"type": "url", "url": "https://example.org/a.pdf"}
    assert parts_of({"type": "document", "source": by_address}, role="user") == (
        Part("blob", "[document: application/octet-stream]", modality="document"),
    )


def test_server_tools_are_calls_and_results() -> None:
    assert parts_of(
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [
                {"type": "web_search_result", "title": "A page", "url": "https://x", "encrypted_content": "q"}
            ],
        },
    ) == (Part("tool_call", "", "s", "web_search", '{"query":"x"}'), Part("tool_result", "A page", "s"))


def test_a_server_result_that_is_one_object_is_read_for_its_texts() -> None:
    ran = {"type": "code_execution_result", "stdout": "42", "stderr": "", "return_code": 0, "content": []}
    failed = {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    assert parts_of(
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": ran},
        {"type": "web_fetch_tool_result", "tool_use_id": "t", "content": failed},
    ) == (Part("tool_result", "42", "s"), Part("tool_result", "", "t", is_error=True))


def test_an_unknown_block_is_kept_with_its_text_where_it_has_one() -> None:
    spoken = {"type": "block_of_tomorrow", "content": [{"type": "text", "text": "hello"}]}
    silent = {"type": "block_of_tomorrow", "file_id": "file_1"}
    assert parts_of(spoken, silent, {}) == (
        Part("other", "hello"),
        Part("other", "", size=json_size(silent)[0]),
        Part("other", "", size=2),
    )


def test_inline_data_of_an_unknown_block_is_not_counted_as_text() -> None:
    small = {"type": "hologram", "data": ""}
    (part,) = parts_of({"type": "hologram", "data": "QUJD" * 100})
    assert part == Part("other", "", modality="document", size=json_size(small)[0])


def test_a_compaction_of_the_provider_is_read_and_never_indexed() -> None:
    block = {"type": "compaction", "content": "What was said.", "signature": "c2ln", "encrypted_content": "x"}
    message = read_message({"role": "assistant", "content": [block]}, 0)
    assert message.parts == (Part("compaction", "What was said."),)
    assert indexable_text(message) == ""
    assert parts_of({"type": "compaction", "content": None}) == (Part("compaction"),)


def test_an_upload_and_a_cited_document_are_kept_as_they_came() -> None:
    upload = {"type": "container_upload", "file_id": "file_1"}
    note = {"type": "text", "media_type": "text/plain", "data": "the minutes"}
    document = {"type": "document", "source": note, "title": "Monday", "citations": {"enabled": True}}
    cited = {"type": "text", "text": "so", "citations": [{"type": "char_location", "cited_text": "minutes"}]}
    assert parts_of(upload, document, cited, role="user") == (
        Part("other", "", size=json_size(upload)[0]),
        Part("other", "Monday\nthe minutes"),
        Part("text", "so"),
    )


def test_a_tool_of_a_remote_server_is_a_call_and_a_result() -> None:
    assert parts_of(
        {"type": "mcp_tool_use", "id": "m", "name": "ls", "server_name": "files", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": "a.txt"},
    ) == (Part("tool_call", "", "m", "ls", "{}"), Part("tool_result", "a.txt", "m"))
