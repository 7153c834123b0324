"""The bytes of a message are the same however it is written or made, and others for another message."""

from __future__ import annotations

import copy
import json
import pickle
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import blocks
from siltstone.messages import Message, Part, canonical_bytes, canonical_digest, decode, encode, read_message
from strategies import histories


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


def called(arguments: dict[str, Any]) -> dict[str, Any]:
    return blocks("assistant", {"type": "tool_use", "id": "t", "name": "f", "input": arguments})


class Dumped:
    """An SDK's own object."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self.fields


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_keys_and_the_form_of_json_do_not_count(raws: list[Any], order: random.Random) -> None:
    for raw in raws:
        fields = decode(encode(raw))
        known = canonical_bytes(raw)
        assert canonical_bytes(shuffled(fields, order)) == known
        assert canonical_bytes(json.loads(json.dumps(fields, indent=2))) == known
        assert canonical_bytes(Dumped(fields)) == known
        assert canonical_bytes({**fields, "refusal": None} if "refusal" not in fields else fields) == known


@given(histories())
def test_other_messages_have_other_bytes(raws: list[Any]) -> None:
    by_bytes: dict[bytes, Any] = {}
    for raw in raws:
        fields = decode(encode(raw))
        other = by_bytes.setdefault(canonical_bytes(raw), fields)
        assert _bare(other) == _bare(fields)
        assert canonical_bytes({**fields, "more": "said"}) != canonical_bytes(raw)


def _bare(value: Any) -> Any:
    """Without what does not count; Python takes 1 for equal to 1.0 by itself."""
    if isinstance(value, dict):
        kept = {key: _bare(each) for key, each in value.items() if each is not None}
        return {key: each for key, each in kept.items() if key != "cache_control"}
    return [_bare(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            blocks("user", {"type": "text", "text": "a"}),
            blocks("user", {"text": "a", "type": "text", "cache_control": {"type": "ephemeral"}}),
        ),
        (called({"n": 1}), called({"n": 1.0})),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": None},
            {"arguments": "{}", "name": "f", "call_id": "c", "type": "function_call"},
        ),
        ({"role": "user", "content": "\ud83d\ude00"}, {"role": "user", "content": "\U0001f600"}),
    ],
)
def test_the_same_message_in_two_forms(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical_bytes(one) == canonical_bytes(other)


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "Yes"},
        {"role": "user", "content": "yes "},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "yes", "name": "Ann"},
    ],
)
def test_a_message_that_differs_is_another(other: dict[str, Any]) -> None:
    assert canonical_bytes({"role": "user", "content": "yes"}) != canonical_bytes(other)


def test_a_mark_of_the_cache_inside_of_arguments_is_what_was_said() -> None:
    assert canonical_bytes(called({"cache_control": "on"})) != canonical_bytes(called({}))


def test_a_digest_is_the_same_in_every_process_and_of_one_length() -> None:
    said = {"role": "user", "content": "yes"}
    assert canonical_digest(said).hex() == "fbe185aa62a477df5133aefd8b23c4a6"
    assert canonical_digest({"content": "yes", "role": "user", "name": None}) == canonical_digest(said)
    assert canonical_digest({"role": "user", "content": "no"}) != canonical_digest(said)
    assert len(canonical_digest(said)) == 16


def test_a_message_of_one_text_is_the_one_that_was_made_from_its_part():
    raw = {"role": "user", "content": "one text"}
    made = read_message(raw, 7)
    other = Message(7, "user", (Part("text", "one text"),), raw)
    assert made.said == made.text == "one text"
    assert other.said is None
    for like in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert like == other
        assert repr(like) == repr(other)
        assert like.parts == other.parts
    assert made.numbered(8) == other.numbered(8) == replace(made, seq=8)
    assert made.parts is made.parts
    with pytest.raises(AttributeError, match="no 'content'"):
        made.content  # noqa: B018
    raw["content"] = "changed"
    assert read_message({"role": "user", "content": ""}, 0).parts == (Part("text", ""),)
    late = read_message({"role": "user", "content": "said"}, 0)
    late.raw["content"] = "changed"
    assert (late.text, late.parts[0].text) == ("said", "said")
