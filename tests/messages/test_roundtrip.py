"""The law of losslessness: what was read is the caller's own object, and JSON gives it back byte for byte."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

import strategies
from siltstone.messages import SummaryMessage, decode, encode, message_size, read_history, read_message

BY_DIALECT = {
    "any": strategies.plain_messages(),
    "openai.chat": strategies.openai_messages(),
    "openai.responses": strategies.responses_items(),
    "anthropic": strategies.anthropic_messages(),
}


def assert_is_kept(raw: dict[str, Any], dialect: Any) -> None:
    before = copy.deepcopy(raw)
    message = read_message(raw, 7, dialect=dialect)
    text = encode(raw)
    assert message.raw is raw
    assert raw == before
    assert decode(text) == raw
    assert encode(decode(text)) == text
    text.encode("utf-8")  # raises where a lone surrogate was not escaped


@pytest.mark.parametrize("dialect", BY_DIALECT)
@given(data=st.data())
def test_decoding_an_encoding_gives_back_the_input_byte_for_byte(dialect: str, data: st.DataObject) -> None:
    raw = data.draw(BY_DIALECT[dialect])
    assert_is_kept(raw, dialect)
    assert_is_kept(raw, None)  # the dialect is found out


@given(extra=strategies.json_objects(), message=strategies.plain_messages())
def test_keys_that_nobody_knows_are_kept(extra: dict[str, Any], message: dict[str, Any]) -> None:
    assert_is_kept({**extra, **message}, "any")


@pytest.mark.parametrize(
    "histories",
    [strategies.openai_histories(), strategies.responses_histories(), strategies.anthropic_histories()],
    ids=["openai", "responses", "anthropic"],
)
@given(data=st.data())
def test_a_history_is_read_into_the_same_objects_in_order(histories: Any, data: st.DataObject) -> None:
    raws = data.draw(histories)
    before = copy.deepcopy(raws)
    messages = read_history(raws)
    assert [message.seq for message in messages] == list(range(len(raws)))
    assert all(message.raw is raw for message, raw in zip(messages, raws, strict=True))
    assert raws == before


@given(message=strategies.plain_messages())
def test_a_plain_message_reads_alike_in_every_dialect(message: dict[str, Any]) -> None:
    expected = read_message(message, 0, dialect="any")
    for dialect in ("openai.chat", "openai.responses", "anthropic"):
        if message["role"] == "developer" and dialect == "anthropic":
            continue  # a role that Anthropic does not have
        assert read_message(message, 0, dialect=dialect).parts == expected.parts


@given(
    raw=st.one_of(strategies.openai_messages(), strategies.responses_items(), strategies.anthropic_messages())
)
def test_the_size_is_that_of_the_json_text(raw: dict[str, Any]) -> None:
    text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
    assert message_size(raw) == (len(text.encode("utf-8", "surrogatepass")), len(text))


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert encode({"role": "user", "content": "a\udc80\x00é"}) == (
        '{"role":"user","content":"a\\udc80\\u0000é"}'
    )


def test_adjacent_halves_come_back_as_the_code_point_they_stand_for() -> None:
    """JSON cannot tell the two forms apart, so this is the one text that changes."""
    assert decode(encode({"role": "user", "content": "\ud83d\ude00"}))["content"] == "😀"


def test_a_summary_keeps_its_ranges_through_copies() -> None:
    summary = SummaryMessage("[Context compacted] …", ((1, 4), (5, 9)))
    for twin in (copy.copy(summary), copy.deepcopy(summary), pickle.loads(pickle.dumps(summary))):
        assert twin == summary
        assert twin.covers == summary.covers
        assert isinstance(twin, SummaryMessage)


def test_a_role_and_a_text_are_written_in_their_order_as_an_encoder_writes_them():
    for text in ("plain", 'a "quote"\n\x00', "é 漢 \U0001f600", "half \ud83d", ""):
        for raw in ({"role": "user", "content": text}, {"content": text, "role": "user"}):
            slow = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
            assert encode(raw) == slow.replace("\ud83d", "\\ud83d")
