"""Generates messages of OpenAI chat and of Anthropic for the property tests."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from strategies_values import PIXEL, Raw, json_objects, json_values, texts


@cache
def plain_messages() -> st.SearchStrategy[Raw]:
    """``{"role", "content": str}``, which reads alike in every dialect."""
    roles = st.sampled_from(["system", "developer", "user", "assistant"])
    return st.builds(lambda role, text: {"role": role, "content": text}, roles, texts())


@cache
def _text_blocks() -> st.SearchStrategy[Raw]:
    return texts().map(lambda text: {"type": "text", "text": text})


@cache
def _unknown_blocks() -> st.SearchStrategy[Raw]:
    return json_objects().map(lambda extra: {**extra, "type": "block_of_tomorrow"})


@cache
def openai_parts() -> st.SearchStrategy[Raw]:
    media = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    return st.one_of(_text_blocks(), st.sampled_from(media).map(dict), _unknown_blocks())


def openai_call(call_id: str, name: str, arguments: str, custom: bool = False) -> Raw:
    if custom:
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@cache
def openai_messages() -> st.SearchStrategy[Raw]:
    """Single OpenAI chat messages of every shape; they need not make a history."""
    names = texts(max_size=8)
    content = st.one_of(texts(), st.lists(openai_parts(), max_size=3))
    call = st.builds(openai_call, texts(min_size=1), names, texts(), st.booleans())
    refusal = texts().map(lambda text: [{"type": "refusal", "refusal": text}])
    legacy = st.fixed_dictionaries({"name": names, "arguments": texts()})
    audio = texts().map(lambda text: {"id": "audio_1", "transcript": text, "data": PIXEL, "expires_at": 1})
    assistant = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.one_of(st.none(), content, refusal)},
        optional={
            "tool_calls": st.none() | st.lists(call, max_size=3),
            "reasoning_content": st.none() | texts(),
            "refusal": st.none() | texts(),
            "function_call": st.none() | legacy,
            "audio": st.none() | audio,
            "annotations": json_values(),
        },
    )
    tool = st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": texts(min_size=1), "content": content},
        optional={"name": names},
    )
    function = st.fixed_dictionaries(
        {"role": st.just("function"), "name": texts(min_size=1), "content": st.none() | texts()}
    )
    speaker = st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user"]), "content": content},
        optional={"name": names, "metadata": json_values()},
    )
    return st.one_of(speaker, assistant, tool, function)


def _source(media_type: str, data: str, kind: str = "base64") -> Raw:
    return {"type": kind, "media_type": media_type, "data": data}


def _image() -> Raw:
    return {"type": "image", "source": _source("image/png", PIXEL)}


@cache
def anthropic_user_blocks() -> st.SearchStrategy[Raw]:
    image = st.builds(_image)
    paper = st.builds(lambda: {"type": "document", "source": _source("application/pdf", PIXEL)})
    note = texts().map(lambda text: {"type": "document", "source": _source("text/plain", text, "text")})
    return st.one_of(_text_blocks(), image, paper, note, _unknown_blocks())


@cache
def thinking() -> st.SearchStrategy[Raw]:
    plain = texts().map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
    return plain | st.builds(lambda: {"type": "redacted_thinking", "data": "b3BhcXVl"})


def anthropic_use(call_id: str, name: str, arguments: Raw, kind: str = "tool_use") -> Raw:
    return {"type": kind, "id": call_id, "name": name, "input": arguments}


def anthropic_result(call_id: str, content: Any, is_error: bool | None) -> Raw:
    block: Raw = {"type": "tool_result", "tool_use_id": call_id}
    if content is not None:
        block["content"] = content
    if is_error is not None:
        block["is_error"] = is_error
    return block


def _found(call_id: str, title: str) -> Raw:
    page = {
        "type": "web_search_result",
        "title": title,
        "url": "https://example.org",
        "encrypted_content": "x",
    }
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [page]}


@cache
def result_contents() -> st.SearchStrategy[Any]:
    blocks = st.lists(st.one_of(_text_blocks(), st.builds(_image), _unknown_blocks()), max_size=3)
    return st.one_of(st.none(), texts(), blocks)


@cache
def anthropic_messages() -> st.SearchStrategy[Raw]:
    """Single Anthropic messages of every shape; they need not make a history."""
    ids = texts(min_size=1, max_size=8)
    use = st.builds(anthropic_use, ids, texts(max_size=8), json_objects())
    server = st.builds(anthropic_use, ids, st.just("web_search"), json_objects(), st.just("server_tool_use"))
    found = st.builds(_found, ids, texts())
    result = st.builds(anthropic_result, ids, result_contents(), st.none() | st.booleans())
    compacted = st.builds(
        lambda text: {
            "type": "compaction",
            "content": text,
            "signature": "c2ln",
            "encrypted_content": "eA==",
        },
        st.none() | texts(min_size=1),
    )
    said = st.one_of(_text_blocks(), thinking(), use, server, found, compacted, _unknown_blocks())
    upload = st.builds(lambda: {"type": "container_upload", "file_id": "file_1"})
    asked = st.one_of(anthropic_user_blocks(), upload, result)
    return st.one_of(
        (texts() | st.lists(said, max_size=4)).map(lambda content: {"role": "assistant", "content": content}),
        (texts() | st.lists(asked, max_size=4)).map(lambda content: {"role": "user", "content": content}),
    )
