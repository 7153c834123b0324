"""What comes through the wall, whatever is thrown at it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given

from siltstone import Session, _native
from siltstone.errors import ConfigError, InternalError
from strategies_text import any_texts


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
with Session.open(sys.argv[1], "a") as session:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]) * 2**20, resource.RLIM_INFINITY))
    try:
        session.log()
    except MemoryError:
        print("MemoryError")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(len(session.log()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the size of a process")
@pytest.mark.parametrize("room", [1, 40, 70])
def test_a_limit_of_memory_is_a_memory_error_and_not_the_end_of_the_process(tmp_path, room):
    with Session.open(tmp_path, "a") as session:
        session.append(*({"role": "user", "content": f"{at} river " * 2_000} for at in range(2_000)))
    assert printed_by(LIMITED, tmp_path, room).split() == ["MemoryError", "2000"]
