"""The size of a value as JSON: against ``json.dumps``, over everything that it takes."""

from __future__ import annotations

import enum
import json
import sys
import threading
from collections import OrderedDict, UserDict
from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import example, given, strategies as st

from reference.json import json_size
from siltstone import _native
from strategies_text import any_texts
from vector_cases import cases


class Color(enum.IntEnum):
    RED = 7


class Shade(enum.StrEnum):
    DARK = "dark \N{SNOWMAN}"


class Half(float):
    def __repr__(self) -> str:
        return "a half"


class Backwards(list[int]):
    def __iter__(self):
        return reversed([*super().__iter__(), 1_000])


class Renamed(dict[str, int]):
    def items(self):
        return [("another", 1), ("", 22)]


class Point(NamedTuple):
    x: object
    y: object


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    any_texts(),
    st.sampled_from([Color.RED, Shade.DARK, Half(0.5), 2**63, -(2**63), 2**63 - 1, -(2**63) - 1]),
    st.sampled_from([Backwards([1, 2]), Renamed(a=1)]),
)
keys = st.one_of(any_texts(), st.integers(), st.floats(), st.booleans(), st.none(), st.just(Color.RED))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(any_texts(), inner, max_size=3).map(OrderedDict),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=20,
)


@given(values)
@example([chr(code) for code in range(0x80)])
@example({chr(code): None for code in range(0x80)})
def test_the_size_is_that_of_the_text_that_json_dumps_writes(value):
    assert _native.json_size(value) == json_size(value)


@pytest.mark.parametrize("case", cases("json_sizes", "values"), ids=lambda case: case["json"][:40])
def test_sizes_are_those_of_the_vectors(case):
    assert json.dumps(case["value"], ensure_ascii=False, separators=(",", ":")) == case["json"]
    assert _native.json_size(case["value"]) == (case["bytes"], case["code_points"])


@pytest.mark.parametrize("case", cases("json_sizes", "strings"), ids=lambda case: ascii(case["text"])[:40])
def test_sizes_of_strings_are_those_of_the_vectors(case):
    assert _native.json_size(case["text"]) == (case["bytes"], case["code_points"])
    assert json_size(case["text"]) == (case["bytes"], case["code_points"])


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        ([{"a": [object()]}], "object"),
        (1j, "complex"),
        (Decimal(1), "Decimal"),
        (UserDict(), "UserDict"),
        ({(1, 2): 3}, "tuple"),
        ({b"k": 3}, "bytes"),
    ],
)
def test_what_json_cannot_say_is_refused_and_its_type_is_named(value, named):
    with pytest.raises(TypeError, match=rf"\b{named}\b"):
        _native.json_size(value)
    with pytest.raises(TypeError):
        json_size(value)


def nested(depth: int, *, mapping: bool = False) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"k": value} if mapping else [value]
    return value


@pytest.mark.parametrize("mapping", [False, True])
def test_a_thousand_levels_are_measured_and_one_more_is_refused(mapping):
    assert _native.json_size(nested(1000, mapping=mapping))[0] == 1000 * (6 if mapping else 2) + 1
    with pytest.raises(ValueError, match="1000 deep"):
        _native.json_size(nested(1001, mapping=mapping))


def test_a_value_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append({"again": (loop,)})
    with pytest.raises(ValueError, match="must not contain itself"):
        _native.json_size(loop)


def test_a_deep_value_is_refused_on_the_smallest_stack_a_thread_may_have():
    """Each level once took a frame; a thread with a small stack would have crashed the process."""
    outcome: list[str] = []

    def work() -> None:
        for value in (nested(1000), nested(100_000)):
            try:
                outcome.append(str(_native.json_size(value)[0]))
            except ValueError:
                outcome.append("refused")

    size = threading.stack_size(64 * 1024)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    finally:
        threading.stack_size(size)
    assert outcome == ["2001", "refused"]


def test_an_int_that_python_does_not_write_is_refused_as_json_dumps_refuses_it():
    huge = 10 ** (sys.get_int_max_str_digits() + 1)
    for measure in (_native.json_size, json_size):
        with pytest.raises(ValueError, match="digits"):
            measure([huge])


def test_what_a_method_of_the_callers_raises_comes_through():
    class Broken(dict[str, int]):
        def items(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _native.json_size([Broken(a=1)])


def test_a_container_may_change_while_it_is_measured():
    """json.dumps takes a copy of what it walks; so a change neither crashes nor goes on for ever."""
    outer: dict[str, object] = {str(number): number for number in range(10)}

    class Meddler(dict[str, int]):
        def items(self):
            outer.clear()
            return []

    outer["meddler"] = Meddler()
    outer["after"] = 1
    assert _native.json_size(outer)[0] > 2
