"""Digests of values as JSON: the same where ``json.dumps`` writes the same text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import _native
from strategies_values import json_values


def text_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(st.lists(json_values(), max_size=6), json_values())
def test_digests_are_the_same_where_the_texts_are(values: list[Any], other: Any) -> None:
    digests = _native.json_digests([*values, other])
    each = [digests[at : at + 16] for at in range(0, len(digests), 16)]
    assert len(each) == len(values) + 1
    for first, one in zip([*values, other], each, strict=True):
        for second, two in zip([*values, other], each, strict=True):
            assert (text_of(first) == text_of(second)) == (one == two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (["a", "b"], ["a,b"]),
        (["a", "b"], ['a","b']),
        ([1, 2], [12]),
        ([[1], 2], [[1, 2]]),
        ({"a": None}, {}),
        ("null", None),
        (["", ""], [""]),
    ],
    ids=str,
)
def test_values_of_different_texts_have_different_digests(one: object, two: object) -> None:
    assert _native.json_digests([one]) != _native.json_digests([two])


def test_a_key_that_is_no_text_is_its_text() -> None:
    same = _native.json_digests([{1.5: "a", None: 2, True: 3}, {"1.5": "a", "null": 2, "true": 3}])
    assert same[:16] == same[16:]


def test_a_list_begins_with_the_same_objects_or_with_values_of_their_digests() -> None:
    objects: list[Any] = [{"a": 1}, {"b": [1, 2]}, {"c": {1, 2}}]
    digests = _native.json_digests(objects[:2])
    assert _native.begins_alike([*objects, 4], objects)
    assert not _native.begins_alike([{"a": 1}, *objects[1:]], objects)
    assert _native.begins_alike([{"a": 1}, {"b": [1, 2]}, 3], objects[:2], digests)
    assert not _native.begins_alike([{"a": 1}, {"b": [2, 1]}, 3], objects[:2], digests)
    assert not _native.begins_alike([{"a": 1}], objects[:2], digests)
    assert not _native.begins_alike([{"a": 1}, {"b": [1, 2]}, {"c": {1, 2}}], objects, digests)
    assert _native.begins_alike([], [])


def test_what_cannot_be_written_has_no_digest() -> None:
    with pytest.raises(TypeError, match="set"):
        _native.json_digests([{}, {1, 2}])


def test_an_interrupt_within_a_method_of_the_caller_is_passed_on() -> None:
    class Interrupting(dict[str, Any]):
        def items(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native.begins_alike([Interrupting()], [{}], bytes(16))
