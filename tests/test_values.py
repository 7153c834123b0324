"""Are value classes what ``dataclasses`` would have made of them?"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest

import siltstone
from siltstone import values

T = TypeVar("T")


@values.dataclass(frozen=True, slots=True)
class Plain:
    """A class with all kinds of fields."""

    kinds: ClassVar[int] = 3
    first: int
    second: list[int] = values.field(default_factory=list)
    third: str = values.field(default="c", repr=False)
    fourth: int = values.field(default=4, compare=False, kw_only=True)
    fifth: int = values.field(default=5, init=False)


@values.dataclass(frozen=True, slots=True)
class Derived(Plain):
    """A field more, and another default."""

    third: str = "d"
    sixth: int = 6


@values.dataclass(slots=True)
class Open(Generic[T]):
    """A value that can be changed, with a step of its own."""

    value: T
    doubled: object = None

    def __post_init__(self) -> None:
        self.doubled = [self.value, self.value]


@values.dataclass(frozen=True)
class WithDict:
    """One without slots, with an equality of its own."""

    value: int = 1
    other: int = values.field(default=2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithDict) and self.value == other.value

    def __hash__(self) -> int:
        return 7


def twin(cls: type) -> type:
    """What ``dataclasses`` makes of the same fields."""
    body = {"__annotations__": dict(cls.__annotations__), "__doc__": "", "__qualname__": cls.__qualname__}
    plan = values._PLANS[cls]
    for name, given in plan.given.items():
        body[name] = dataclasses.field(**given.options) if isinstance(given, values._Field) else given
    for name in ("__post_init__", "__eq__", "__hash__", "__orig_bases__"):
        if name in cls.__dict__ and not isinstance(cls.__dict__[name], values._Late):
            body[name] = cls.__dict__[name]
    bases = tuple(twin(base) if base in values._PLANS else base for base in cls.__bases__)
    return dataclasses.dataclass(**plan.options)(type(cls)(cls.__name__, bases, body))


def said(found: tuple[dataclasses.Field, ...]) -> list[tuple[object, ...]]:
    return [(f.name, f.type, f.default, f.init, f.repr, f.compare, f.hash, f.kw_only) for f in found]


@pytest.mark.parametrize("cls", [Plain, Derived, Open, WithDict])
def test_a_class_has_the_fields_and_the_signature_that_dataclasses_would_give_it(cls):
    like = twin(cls)
    assert said(dataclasses.fields(cls)) == said(dataclasses.fields(like))
    ours, theirs = inspect.signature(cls).parameters, inspect.signature(like).parameters
    assert [(p.name, p.kind, p.annotation) for p in ours.values()] == [
        (p.name, p.kind, p.annotation) for p in theirs.values()
    ]
    assert cls.__match_args__ == like.__match_args__
    assert dataclasses.is_dataclass(cls)


def test_objects_are_equal_hash_and_show_as_those_of_dataclasses_do():
    like = twin(Plain)
    ours, theirs = Plain(1, (2,), fourth=9), like(1, (2,), fourth=9)
    assert repr(ours) == repr(theirs) == "Plain(first=1, second=(2,), fourth=9, fifth=5)"
    assert hash(ours) == hash(theirs)
    assert ours == Plain(1, (2,), fourth=10)
    assert ours != Plain(1, (2,), "x")
    assert ours != theirs
    assert Plain(1).second is not Plain(1).second
    assert not hasattr(ours, "__dict__")
    assert WithDict(1, 3) == WithDict(1, 4)
    assert hash(WithDict()) == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_a_frozen_object_refuses_a_change_and_an_open_one_takes_it():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        Plain(1).first = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
        del Plain(1).first
    box = Open("a")
    box.value = "b"
    assert (box.value, box.doubled) == ("b", ["a", "a"])


@pytest.mark.parametrize("value", [Plain(1), Derived(1, [2], "x", sixth=3), Open(4), WithDict(5)])
def test_a_value_is_replaced_copied_and_pickled(value):
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert again == value
        assert type(again) is type(value)
    assert values.replace(value) == dataclasses.replace(value) == value
    name = dataclasses.fields(value)[0].name
    changed = values.replace(value, **{name: 70})
    assert changed == dataclasses.replace(value, **{name: 70}) != value
    assert dataclasses.asdict(value)[name] == getattr(value, name)


class Place(NamedTuple):
    start: int
    end: Any


LATER = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "given",
    [
        "text",
        [1, ("a", b"c", None)],
        Place(1, Place(2, [3])),
        [Plain(1, [2]), (Derived(3), WithDict(4))],
        (LATER, LATER.date(), LATER.time(), timedelta(1)),
        {"a": [Plain(1), {2}]},
        [{"a": 1}],
    ],
)
def test_asdict_takes_apart_what_dataclasses_does(given):
    value = Open(given)
    ours, theirs = values.asdict(value), dataclasses.asdict(value)
    assert ours == theirs
    assert list(ours) == list(theirs) == ["value", "doubled"]
    assert type(ours["value"]) is type(theirs["value"])
    if isinstance(given, list):
        assert ours["value"] is not given
    assert values.asdict(value, dict_factory=list) == dataclasses.asdict(value, dict_factory=list)


def test_asdict_refuses_what_dataclasses_refuses():
    with pytest.raises(TypeError, match="asdict"):
        values.asdict(3)


def test_a_field_that_is_not_given_is_not_replaced_either():
    with pytest.raises(ValueError, match="fifth"):
        values.replace(Plain(1), fifth=6)
    with pytest.raises(TypeError, match="seventh"):
        values.replace(Plain(1), seventh=6)


def test_a_match_takes_an_object_apart():
    match Derived(1, [2], "x"):
        case Derived(first, second, third):
            assert (first, second, third) == (1, [2], "x")


def test_threads_that_use_a_class_for_the_first_time_get_one_class():
    for _ in range(50):

        @values.dataclass(frozen=True, slots=True)
        class Fresh:
            value: int = 1

        made: list[object] = []
        gate = threading.Barrier(4)

        def work(cls=Fresh, gate=gate, made=made) -> None:
            gate.wait()
            made.append((cls(2), hash(cls(2)), repr(cls(2)), cls.__match_args__))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({repr(each) for each in made}) == 1
        assert len(made) == 4


def test_every_value_class_of_the_package_can_be_finished():
    _ = [getattr(siltstone, name) for name in siltstone.__all__]
    ours = [cls for cls in values._PLANS if cls.__module__.startswith("siltstone")]
    assert len(ours) > 100
    for cls in ours:
        assert inspect.signature(cls).parameters.keys() == inspect.signature(twin(cls)).parameters.keys(), cls
        assert cls.__dataclass_params__.frozen == values._PLANS[cls].options["frozen"]


@values.dataclass(frozen=True, slots=True)
class Settled:
    """A class that is copied slot by slot."""

    first: int
    second: tuple[int, ...] = ()


@values.dataclass(frozen=True, slots=True)
class Checked:
    """A class that looks at its values."""

    first: int

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("first is below 0")


def test_a_copy_has_the_changes_alone_and_passes_the_check_of_its_class():
    before = Settled(1, (2,))
    after = values.replace(before, first=3)
    assert (before, after, after.second is before.second) == (Settled(1, (2,)), Settled(3, (2,)), True)
    with pytest.raises(TypeError, match="third"):
        values.replace(before, third=4)
    with pytest.raises(ValueError, match="below 0"):
        values.replace(Checked(1), first=-1)
