"""What comes through the wall, whatever is thrown at it: texts, values as JSON, long calls."""

import enum
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict, UserDict
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, strategies as st

from reference.tokens import json_size
from siltstone import Session, SimpleMemoryStore, _native
from siltstone.errors import ConfigError, InternalError
from siltstone.memory.convert import NewEntry
from siltstone.messages import History
from strategies import json_values
from strategies_text import any_texts
from vector_cases import cases


@pytest.mark.parametrize("detached", [False, True])
def test_a_panic_is_an_internal_error_with_its_message(detached, capfd):
    with pytest.raises(InternalError, match=r"the core panicked: on purpose; .* please report it"):
        _native._panic("on purpose", detached)
    assert "on purpose" in capfd.readouterr().err  # where it happened is on standard error
    assert _native.words("still here") == ["still", "here"]


@given(any_texts())
def test_no_text_is_refused_for_its_content(text):
    _native.words(text)
    _native.whitespace_words(text)
    _native.word_hash(text)
    _native.text_size(text)
    _native.json_size({text: [text]})
    for rule in ("xxh3", "poly31"):
        _native.bucket(text, rule)
        _native.embed_batch([text], rule)
        _native.embed_sparse([text], rule)


@given(any_texts())
def test_a_text_is_read_as_its_repaired_form(text):
    """Surrogates are paired where they pair, and U+FFFD where they do not."""
    repaired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert _native.words(text) == _native.words(repaired)
    assert _native.word_hash(text) == _native.word_hash(repaired)
    assert _native.embed_sparse([text], "poly31") == _native.embed_sparse([repaired], "poly31")


@pytest.mark.parametrize(
    "call",
    [lambda texts: _native.embed_batch(texts, "xxh3"), lambda texts: _native.embed_sparse(texts, "xxh3")],
)
def test_an_item_that_is_no_str_is_named_with_its_place(call):
    with pytest.raises(TypeError, match=r"texts\[2\] must be a str, got bytes"):
        call(["a", "b", b"c"])
    with pytest.raises(TypeError):
        call("abc")


def test_an_error_of_the_core_pickles_with_its_fields():
    with pytest.raises(ConfigError) as caught:
        _native.bucket("word", "md5")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is ConfigError
    assert (str(copy), copy.field, copy.value) == (str(caught.value), "hash_rule", "md5")


LEVELS = """
from siltstone import _native
from siltstone.errors import ConfigError
try:
    print(_native.embed_sparse(["Silt settles; silt stays."], "xxh3"))
except ConfigError as error:
    print(error.field, repr(error.value), error)
"""


def printed_by(code: str, *arguments: object, **more: str) -> str:
    """What a process of its own prints that runs *code*."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ran = subprocess.run(command, env=os.environ | more, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def at_level(name: str) -> str:
    return printed_by(LEVELS, SILTSTONE_SIMD=name)


def test_the_environment_forces_a_path_and_a_wrong_one_is_refused():
    assert at_level("portable") == at_level("")
    assert at_level("sse9") == (
        "SILTSTONE_SIMD 'sse9' SILTSTONE_SIMD must be one of 'portable', 'avx2', got 'sse9'\n"
    )
    printed = at_level("avx2")  # the same numbers, or the reason why it cannot be
    assert printed == at_level("") or printed.startswith("SILTSTONE_SIMD 'avx2' SILTSTONE_SIMD is")


CHILD = """
import sys
sys.path[:] = {path!r}
try:
    import siltstone._native
except ImportError as error:
    print(error, flush=True)
"""

TWO_INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
    child = interpreters.create("legacy")  # one that shares the GIL
except ImportError:
    import _xxsubinterpreters as interpreters
    child = interpreters.create()
from siltstone import _native
interpreters.run_string(child, sys.argv[1].format(path=sys.path))
del sys.modules["siltstone._native"]
from siltstone import _native  # the first may load it as often as it likes
print(_native.words("still here"))
"""


def test_a_second_interpreter_is_refused_and_the_first_goes_on():
    refused, printed = printed_by(TWO_INTERPRETERS, CHILD).splitlines()
    assert refused.startswith("siltstone works in one interpreter of a process")
    assert printed == "['still', 'here']"


LIMITED = """
import resource, sys
from siltstone import Session
import siltstone.session.tools  # which the first search imports
many = [{"role": "user", "content": f"{at} river " * 250} for at in range(5_000)]
with Session.open(sys.argv[1], "a") as session:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]) * 2**20, resource.RLIM_INFINITY))
    for call in sys.argv[3:]:
        try:
            eval(call)
        except MemoryError:
            print("MemoryError")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(len(session.log()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the size of a process")
@pytest.mark.parametrize("room", [1, 20, 40, 70])
def test_a_limit_of_memory_is_a_memory_error_and_not_the_end_of_the_process(tmp_path, room):
    with Session.open(tmp_path, "a") as session:
        session.append(*({"role": "user", "content": f"{at} river " * 2_000} for at in range(2_000)))
    calls = ["session.append({'role': 'user', 'content': 'x'})", "session.search('7 river')"] * (room == 1)
    calls += ["session.append(*many)"] * (room < 70)
    printed = printed_by(LIMITED, tmp_path, room, "session.log()", *calls).split()
    assert printed == [*["MemoryError"] * (1 + len(calls)), "2000"]


def test_a_limit_of_memory_that_is_far_away_hinders_no_branch(tmp_path):
    lists = ("abc", "xyz")  # the second is a branch
    calls = [f"session.observe([{{'role': 'user', 'content': each}} for each in {text!r}])" for text in lists]
    assert printed_by(LIMITED, tmp_path, 8_000, *calls).split() == ["6"]


MANY = 1_024
RAWS = [{"role": "user", "content": f"message {number}"} for number in range(MANY)]


def moments(call: Callable[[], object]) -> int:
    """The moments of *call* in which a thread that has waited for the interpreter gets it."""
    found = list[str]()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == "<string>":
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len(found)


def inserted(count: int) -> Any:
    """A call that stores *count* entries, which a native iterator hands out."""
    entries = [NewEntry(f"text {number}", number, number + 1, "user", None, "", 1) for number in range(count)]
    store = SimpleMemoryStore()
    return lambda: store._native.insert_entries("s", iter(entries), 1)


CALLS: dict[str, Callable[[int], Callable[[], object]]] = {
    "entries are stored": inserted,
    "messages are outlined": lambda count: lambda: History(RAWS[:count]),
    "messages are written as lines": lambda count: lambda: _native.render_messages(RAWS, 0, count),
    "messages are written as items": lambda count: lambda: _native.message_items(RAWS, 0, count),
    "lines are counted": lambda count: lambda: _native.rendered_tokens(RAWS, 0, count, "blocks"),
    "digests are made": lambda count: lambda: _native.json_digests(RAWS[:count]),
    "lists are compared": lambda count: lambda: _native.begins_alike(RAWS[:count], RAWS),
}


@pytest.mark.parametrize("name", CALLS)
def test_others_may_take_the_interpreter_during_a_long_call(name: str) -> None:
    """A native loop is one step for Python: without such a moment a thread waits for all of it."""
    assert moments(CALLS[name](MANY)) - moments(CALLS[name](8)) >= MANY // 64


def test_what_a_moment_raises_ends_the_call_before_anything_is_written() -> None:
    """A handler of a signal runs in such a moment: an interrupt does not wait for the end of a long call."""
    store = SimpleMemoryStore()
    entries = [NewEntry(f"text {number}", number, number + 1, "user", None, "", 1) for number in range(MANY)]

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == "<string>":
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store._native.insert_entries("s", iter(entries), 1)
    finally:
        sys.setprofile(before)
    assert store.stats("s").entries == 0


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
