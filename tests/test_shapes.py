"""What takes the place of typing and of library modules says what they say."""

from __future__ import annotations

import datetime as dt
import functools
import json
import pickle
import threading
import typing

import pytest

from siltstone import light, shapes
from siltstone.compaction.base import BackgroundCompactor, Compactor
from siltstone.memory.convert import filters_in
from siltstone.memory.kinds import SearchFilters
from siltstone.session.opening import OPTIONS
from siltstone.session.options import Options


def protocol_of(base: type, mark: typing.Any) -> type:
    """A protocol of a method and a property, and one that asks for more, of *base*."""

    @mark
    class Asked(base):
        @property
        def kind(self) -> str:
            """A word."""

        def runs(self) -> bool:
            """Does it run?"""

    return Asked


def having(members: dict[str, object], own: dict[str, object]) -> object:
    """An object with *members* on its class and *own* on itself."""
    made = type("Made", (), members)()
    vars(made).update(own)
    return made


@pytest.mark.parametrize("kind", [..., None, "x", len], ids=repr)
@pytest.mark.parametrize("runs", [..., None, "x", len], ids=repr)
@pytest.mark.parametrize("own", [{}, {"kind": "x"}, {"runs": len, "kind": None}], ids=["none", "one", "two"])
def test_an_object_is_of_a_protocol_where_typing_says_so(kind, runs, own):
    """``...`` is a name that the class of the object does not have."""
    members = {name: value for name, value in (("kind", kind), ("runs", runs)) if value is not ...}
    value = having(members, own)
    ours = protocol_of(shapes.Protocol, shapes.runtime_checkable)
    theirs = protocol_of(typing.Protocol, typing.runtime_checkable)
    assert isinstance(value, ours) == isinstance(value, theirs)


def test_what_derives_from_a_protocol_is_of_it_and_of_no_other():
    class Named(Compactor):
        """It has the names of Compactor from that class itself."""

    assert isinstance(Named(), Compactor)
    assert issubclass(Named, Compactor)
    assert not isinstance(Named(), BackgroundCompactor)
    assert not isinstance(object(), Named)


def test_a_protocol_for_types_alone_has_only_what_derives_from_it():
    class Silent(shapes.Protocol):
        def runs(self) -> bool:
            """Does it run?"""

    assert not isinstance(having({"runs": len}, {}), Silent)


def test_the_names_of_light_are_those_of_the_documented_modules():
    assert (light.datetime, light.timedelta, light.tzinfo, light.UTC) == (
        dt.datetime, dt.timedelta, dt.tzinfo, dt.UTC,
    )  # fmt: skip
    assert light.partial is functools.partial
    assert (type(light.Lock()), type(light.RLock())) == (type(threading.Lock()), type(threading.RLock()))
    assert light.get_ident() == threading.get_ident()
    assert light.json.loads is json.loads
    assert light.json.JSONDecodeError is json.JSONDecodeError
    now = light.datetime.now(light.UTC)
    assert pickle.loads(pickle.dumps(now)) == now


def test_every_option_of_a_type_checker_is_known_when_a_session_is_opened():
    assert Options.__annotations__.keys() == OPTIONS


def test_every_filter_of_a_type_checker_is_known_to_a_search():
    for name in SearchFilters.__annotations__:
        filters_in({name: None})  # type: ignore[misc]
    with pytest.raises(TypeError, match="speaker"):
        filters_in({"speaker": None})  # type: ignore[typeddict-unknown-key]
