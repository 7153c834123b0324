"""Messages that are refused, the errors, and messages that are never refused."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import messages
from siltstone.errors import InvalidMessageError, MessageTooLargeError, SiltstoneError
from siltstone.messages.dialects.openai_responses import ITEMS
from siltstone.messages.json_text import MAX_DEPTH
from siltstone.tokens import rule


def refusal(raw: Any, **options: Any) -> InvalidMessageError:
    with pytest.raises(InvalidMessageError) as caught:
        messages.read_message(raw, 3, **options)
    assert isinstance(caught.value, SiltstoneError)
    assert isinstance(caught.value, ValueError)
    return caught.value


@pytest.mark.parametrize("raw", [None, 7, "hello", ["role", "user"], object(), b"{}"])
def test_what_is_not_a_mapping_is_refused_by_its_type(raw: Any) -> None:
    error = refusal(raw)
    kind = type(raw).__name__
    assert f"message 3 is not a message: expected a mapping or an SDK's message, got {kind}" in str(error)
    assert (error.index, error.value_type) == (3, kind)


def test_the_index_is_the_place_in_the_list() -> None:
    with pytest.raises(InvalidMessageError, match=r"^message 1 is not a message") as caught:
        messages.read_history([{"role": "user", "content": "x"}, 5], first_seq=40)  # type: ignore[list-item]
    assert caught.value.index == 1


def test_a_message_without_a_role_is_refused() -> None:
    error = refusal({"content": "x"})
    assert str(error).startswith("message 3 is not a message: it has no role; known are 'assistant', ")
    assert (error.key, error.value_type) == ("role", "NoneType")


@pytest.mark.parametrize("role", [1, ["user"], {}])
def test_a_role_that_is_not_text_is_refused_by_its_type(role: Any) -> None:
    assert f"a role of type {type(role).__name__}" in str(refusal({"role": role, "content": "x"}))


@pytest.mark.parametrize(
    ("role", "dialect", "known"),
    [
        ("notice", None, "'assistant', 'developer', 'function', 'system', 'tool', 'toolResult', 'user'"),
        ("tool", "anthropic", "'assistant', 'system', 'user'"),
    ],
)
def test_an_unknown_role_is_named_with_the_known_ones(role: str, dialect: Any, known: str) -> None:
    error = refusal({"role": role, "content": "x"}, dialect=dialect)
    assert str(error) == f"message 3: unknown role {role!r}; known are {known}"
    assert error.role == role


@pytest.mark.parametrize(
    ("raw", "key", "kind"),
    [
        ({"role": "user", "content": 5}, "content", "int"),
        ({"role": "user", "content": None}, "content", "NoneType"),
        ({"role": "user"}, "content", "NoneType"),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, "content", "dict"),
        ({"role": "user", "content": ["x", 5]}, "content[1]", "int"),
        ({"role": "user", "content": [{"type": "text"}]}, "content[0].text", "NoneType"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "content[0].text", "int"),
        ({"role": "assistant", "content": [{"type": "thinking"}]}, "content[0].thinking", "NoneType"),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, "content[0].refusal", "NoneType"),
        ({"role": "tool", "tool_call_id": "a", "content": 5}, "content", "int"),
        ({"role": "assistant", "tool_calls": 5}, "tool_calls", "int"),
        ({"role": "assistant", "tool_calls": ["x"]}, "tool_calls[0]", "str"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "tool_calls[0].function", "NoneType"),
        ({"role": "assistant", "function_call": "ls"}, "function_call", "str"),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 5}]},
            "content[0].content",
            "int",
        ),
    ],
)
def test_content_of_a_wrong_type_is_named_by_key_and_type(raw: Any, key: str, kind: str) -> None:
    error = refusal(raw)
    assert (error.index, error.key, error.value_type) == (3, key, kind)
    assert str(error).startswith(f"message 3: {key!r} must be ")


@pytest.mark.parametrize(
    ("extra", "path", "reason"),
    [
        ({"n": math.nan}, "n", "nan"),
        ({"n": {"a": [1, -math.inf]}}, "n.a[1]", "-inf"),
        ({"when": dt.date(2026, 1, 1)}, "when", "a value of type date"),
        ({"data": b"bytes"}, "data", "a value of type bytes"),
        ({"tags": {"a", "b"}}, "tags", "a value of type set"),
        ({"pairs": {(1, 2): 3}}, "pairs", "a key of type tuple"),
        ({"n": 10**5000}, "n", "Exceeds the limit"),
    ],
)
@pytest.mark.parametrize("where", ["message", "arguments"])
def test_what_json_cannot_carry_is_named_by_its_path(extra: Any, path: str, reason: str, where: str) -> None:
    if where == "message":
        raw: dict[str, Any] = {"role": "user", "content": "x", **extra}
    else:
        block = {"type": "tool_use", "id": "a", "name": "ls", "input": extra}
        raw, path = {"role": "assistant", "content": [block]}, f"content[0].input.{path}"
    error = refusal(raw)
    assert error.path == path
    assert str(error).startswith(f"message 3 holds what JSON cannot carry at {path}: {reason}")
    with pytest.raises(InvalidMessageError, match="the message holds what JSON cannot carry"):
        messages.encode(raw)


def test_a_message_that_contains_itself_is_refused() -> None:
    raw: dict[str, Any] = {"role": "user", "content": "x"}
    raw["self"] = raw
    assert "containing itself" in str(refusal(raw))
    with pytest.raises(InvalidMessageError):
        messages.encode(raw)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 100_000])
def test_a_message_nested_too_deeply_is_refused(depth: int) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    assert f"nested more than {MAX_DEPTH} deep" in str(refusal({"role": "user", "content": "x", "n": nested}))


def test_a_message_nested_as_deeply_as_allowed_is_read_and_written() -> None:
    nested: list[Any] = []
    for _ in range(MAX_DEPTH - 5):
        nested = [nested]
    raw = {"role": "assistant", "content": [{"type": "block_of_tomorrow", "content": nested}]}
    assert messages.read_message(raw, 0).raw is raw
    assert messages.decode(messages.encode(raw)) == raw


def test_a_message_over_the_limit_is_refused_with_both_numbers() -> None:
    raw = {"role": "user", "content": "x" * 50_000_000}
    with pytest.raises(MessageTooLargeError) as caught:
        messages.read_message(raw, 3)
    assert (caught.value.index, caught.value.limit) == (3, messages.MAX_MESSAGE_BYTES)
    assert caught.value.size == len(messages.encode(raw))
    assert str(caught.value) == f"message 3 is {caught.value.size} bytes of JSON; the limit is 33554432"


@pytest.mark.parametrize("letter", ["x", "é", "\x00", "記"])
def test_the_limit_counts_bytes_of_json(letter: str) -> None:
    around = len(messages.encode({"role": "user", "content": ""}))
    each = len(messages.encode({"role": "user", "content": letter}).encode()) - around
    most = (messages.MAX_MESSAGE_BYTES - around) // each
    messages.validate({"role": "user", "content": letter * most})
    with pytest.raises(MessageTooLargeError):
        messages.validate({"role": "user", "content": letter * (most + 1)})


@pytest.mark.parametrize("content", ["", "\x00", "\ud800", "\udfff\ud800", " ", "\ufffe", "a" * 100_000])
def test_no_text_is_refused_for_its_content(content: str) -> None:
    raw = {"role": "user", "content": content}
    assert messages.read_message(raw, 0).text == content
    messages.validate(raw)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"n": NaN}', "[" * 100_000])
def test_a_stored_text_that_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageError):
        messages.decode(text)


WORDS = [
    *("type", "text", "content", "source", "data", "id", "name", "input", "image", "audio", "document"),
    *("file", "thinking", "tool_use", "tool_result", "tool_use_id", "tool_calls", "tool_call_id"),
    *("function", "function_call", "arguments", "refusal", "image_url", "url", "media_type", "custom"),
    *("duration_ms", "is_error", "title", "reasoning_content", "transcript"),
    *("call_id", "output", "outputs", "results", "result", "summary", "caller", "caller_id", "error"),
    *("action", "queries", "approval_request_id", "encrypted_content", "status", "reason", "code"),
]


def json_of_our_words() -> st.SearchStrategy[Any]:
    """JSON values whose keys and texts are those that the readers look for."""
    words = st.sampled_from(WORDS)
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
        ),
        max_leaves=12,
    )


@given(
    role=st.sampled_from([None, "system", "user", "assistant", "tool", "function"]),
    content=json_of_our_words(),
    extra=st.dictionaries(st.sampled_from(WORDS), json_of_our_words(), max_size=3),
    kind=st.sampled_from(sorted(ITEMS | {"item_of_tomorrow", "foo_output", "text"})),
    dialect=st.sampled_from([None, "any", "openai.chat", "openai.responses", "anthropic"]),
)
def test_whatever_json_comes_it_is_read_or_refused_by_our_error(
    role: str | None, content: Any, extra: dict[str, Any], kind: str, dialect: Any
) -> None:
    raw = {**extra, "role": role, "content": content}
    if role is None:  # an item of the Responses API: its type says what it is
        raw["type"] = kind
    try:
        message = messages.read_message(raw, 0, dialect=dialect)
    except InvalidMessageError:
        return
    assert message.raw is raw
    assert messages.decode(messages.encode(raw)) == raw
    assert isinstance(messages.indexable_text(message), str)
    assert len(messages.groups([message])) == 1
    for name in ("bytes/4", "chars/3", "blocks"):
        assert rule(name).units(message) >= 0


def test_a_schema_inside_a_message_is_no_trouble() -> None:
    """A ``type`` may be a list in the JSON schemas that tools send around."""
    schema = {"type": ["string", "null"], "data": "x"}
    message = messages.read_message({"role": "user", "content": [{"type": "tool_list", "schema": schema}]}, 0)
    assert [part.kind for part in message.parts] == ["other"]
