"""What is no message, what each provider refuses in a history; and that no compaction adds to it."""

import datetime as dt
import importlib
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, fc, out, result, results, rs, say, thought, use
from siltstone import Emergency, ThresholdCompactor, compact, messages
from siltstone.errors import ContextOverflowError, InvalidMessageError, MessageTooLargeError, SiltstoneError
from siltstone.messages import Finding, read_history, repair, validate_history
from siltstone.messages.dialects import openai_chat
from siltstone.messages.dialects.openai_responses import ITEMS
from siltstone.messages.json_text import MAX_DEPTH
from siltstone.systems.meerkat import CompactionConfig
from siltstone.tokens import rule
from strategies import anthropic_histories, histories, openai_histories, responses_histories

Raw = dict[str, Any]


def rules(raws: Any, dialect: Any = None, **options: Any) -> list[tuple[int, str]]:
    return [(finding.position, finding.rule) for finding in validate_history(raws, dialect, **options)]


SYSTEM = {"role": "system", "content": "rules"}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}

TEXT = {"type": "text", "text": "x"}
BROKEN: dict[str, dict[str, tuple[list[Raw], list[tuple[int, str]]]]] = {
    "openai.chat": {
        "orphan": ([ask(), result("a"), say()], [(1, "orphan-result")]),
        "before its call": ([ask(), result("a"), call("a"), result("a")], [(1, "orphan-result")]),
        "twice": ([ask(), call("a"), result("a"), result("a")], [(3, "duplicate-result")]),
        "late": ([ask(), call("a"), say(), result("a")], [(1, "unanswered-call"), (3, "late-result")]),
        "never": ([ask(), call("a", "b"), result("b"), ask()], [(1, "unanswered-call")]),
        "rules between": ([call("a"), SYSTEM, result("a")], [(0, "unanswered-call"), (2, "late-result")]),
        "one id twice": ([call("a", "a"), result("a"), result("a")], [(0, "duplicate-call")]),
        "nothing said": ([ask(), {"role": "assistant", "content": None}], [(1, "empty-content")]),
        "no block": ([{"role": "user", "content": []}], [(0, "empty-content")]),
        "foreign": ([ask(), thought(), ask()], [(1, "foreign")]),
        "malformed": ([ask(), {"content": "x"}, say()], [(1, "malformed")]),
    },
    "anthropic": {
        "orphan": ([ask(), results("a"), say()], [(1, "orphan-result")]),
        "twice": ([ask(), use("a"), results("a", "a"), say()], [(2, "duplicate-result")]),
        "late": ([ask(), use("a"), ask(), say(), results("a")], [(1, "unanswered-call"), (4, "late-result")]),
        "never": ([ask(), use("a", "b"), results("b"), say()], [(1, "unanswered-call")]),
        "spoken over": ([ask(), use("a", "b"), results("b", text="go")], [(1, "unanswered-call")]),
        "after text": (
            [ask(), use("a"), blocks("user", TEXT, *results("a")["content"])],
            [(2, "result-place")],
        ),
        "text first": ([ask(), use("a"), ask(), results("a"), say()], [(3, "result-place")]),
        "id again": ([ask(), use("a"), results("a"), use("a"), results("a")], [(3, "duplicate-call")]),
        "no id": ([ask(), {"role": "assistant", "content": [{"type": "tool_use"}]}], [(1, "missing-id")]),
        "assistant first": ([SYSTEM, say(), ask(), use()], [(1, "first-role")]),
        "late rules": ([ask(), SYSTEM, say()], [(1, "system-place")]),
        "blank": ([ask(" \n"), say(), use("a")], [(0, "empty-content")]),
        "no block": ([{"role": "user", "content": []}, say(), use("a")], [(0, "empty-content")]),
        "thought alone": ([ask(), thought(), ask(), say()], [(1, "reasoning-alone")]),
        "server tool": (
            [ask(), blocks("assistant", SEARCH), ask(), blocks("assistant", FOUND)],
            [(1, "unanswered-call"), (3, "late-result")],
        ),
    },
    "openai.responses": {
        "orphan": ([ask(), out("a"), say()], [(1, "orphan-result")]),
        "before its call": ([out("a"), fc("a"), out("a")], [(0, "orphan-result")]),
        "twice": ([fc("a"), out("a"), out("a")], [(2, "duplicate-result")]),
        "never": ([ask(), fc("a"), ask()], [(1, "unanswered-call")]),
        "of another type": (
            [ask(), fc("a"), out("a", type="custom_tool_call_output"), ask()],
            [(1, "unanswered-call"), (2, "result-type")],
        ),
        "no id": ([{"type": "function_call", "name": "ls", "arguments": "{}"}], [(0, "missing-id")]),
        "one id twice": ([fc("a"), fc("a"), out("a"), out("a")], [(1, "duplicate-call")]),
        "item twice": ([fc("a", id="x"), out("a", id="x")], [(1, "duplicate-id")]),
        "thought alone": ([ask(), rs(), ask()], [(1, "reasoning-alone")]),
        "thought before output": ([fc("a"), rs(), out("a")], [(1, "reasoning-alone")]),
        "foreign": ([fc("a"), result("a")], [(1, "foreign")]),
    },
}
LEGAL: dict[str, dict[str, list[Raw]]] = {
    "openai.chat": {
        "parallel": [SYSTEM, ask(), call("a", "b"), result("b"), result("a"), say(), SYSTEM, ask()],
        "ids used again": [ask(), call("a"), result("a"), call("a"), result("a"), say()],
        "empty text": [ask(""), say("")],
        "one role after another": [ask(), ask(), say(), say()],
        "assistant first": [say(), ask()],
    },
    "anthropic": {
        "split results": [ask(), use("a", "b"), results("b"), results("a", text="go"), say()],
        "thought first": [ask(), thought(), use("a"), results("a"), say()],
        "server tool": [ask(), blocks("assistant", SEARCH, FOUND), ask()],
        "server tool, in two": [ask(), blocks("assistant", SEARCH), blocks("assistant", FOUND), ask()],
        "nothing yet": [ask(), use("a"), results("a"), {"role": "assistant", "content": []}],
    },
    "openai.responses": {
        "delayed": [ask(), fc("a"), say(), ask(), out("a")],
        "thoughts": [ask(), rs(), rs("rs_2"), fc("a"), fc("b"), out("b"), out("a"), rs("rs_3"), say()],
        "referred": [ask(), {"type": "item_reference", "id": "fc_1"}, out("a")],
        "developer": [{"role": "developer", "content": "rules"}, fc("a"), out("a")],
        "unknown": [ask(), {"type": "item_of_tomorrow", "call_id": "a"}, say()],
    },
}


def named(cases: dict[str, dict[str, Any]]) -> list[Any]:
    return [(dialect, what) for dialect, of_dialect in cases.items() for what in of_dialect]


@pytest.mark.parametrize(("dialect", "what"), named(BROKEN))
def test_what_a_provider_refuses_is_found(dialect: str, what: str) -> None:
    raws, expected = BROKEN[dialect][what]
    assert rules(raws, dialect) == expected
    if what != "malformed":
        assert rules(read_history(raws), dialect) == expected  # messages that were read will do


@pytest.mark.parametrize(("dialect", "what"), named(LEGAL))
def test_what_a_provider_accepts_is_not(dialect: str, what: str) -> None:
    raws = LEGAL[dialect][what]
    assert validate_history(raws, dialect) == []
    assert validate_history(raws) == []


@pytest.mark.parametrize(
    "raws",
    [
        [ask(), call("a", "b"), result("a")],
        [ask(), use("a", "b"), results("a")],
        [ask(), use("a")],
        [ask(), thought()],
        [ask(), rs()],
        [ask(), fc("a"), fc("b"), out("a")],
    ],
)
def test_an_unfinished_answer_may_stand_at_the_end_until_it_is_sent(raws: list[Raw]) -> None:
    assert validate_history(raws) == []
    assert len(validate_history(raws, pending_ok=False)) == 1


def test_a_finding_says_which_result_it_is_about() -> None:
    (finding,) = validate_history([ask(), use("a"), results("a", "b"), say()])
    assert finding == Finding(2, "orphan-result", "the result of call 'b' has no call before it", "b", 1)


@pytest.mark.parametrize(
    "legal",
    [openai_histories, responses_histories, anthropic_histories],
    ids=["openai.chat", "openai.responses", "anthropic"],
)
@given(data=st.data())
def test_a_legal_history_has_no_findings(legal: Any, data: st.DataObject) -> None:
    assert validate_history(data.draw(legal(legal=True))) == []
    answered = data.draw(legal(legal=True, ending="answered"))
    assert validate_history(answered, pending_ok=False) == []


@given(raws=histories(min_turns=1, legal=True), data=st.data())
def test_a_history_that_lost_a_message_of_an_exchange_is_not_legal(raws: list[Raw], data: st.DataObject):
    """The validators can fail: any answered call without its result, or the other way round."""
    history = read_history(raws)
    results_at = [at for at, m in enumerate(history) if any(p.kind == "tool_result" for p in m.parts)]
    torn = [at for at in results_at if history[at].role != "assistant" and at < len(raws) - 1]
    if torn:
        gone = data.draw(st.sampled_from(torn))
        left = [raw for at, raw in enumerate(raws) if at != gone]
        assert validate_history(left, pending_ok=False)


def assert_nothing_new(raws: list[Raw], rewritten: list[Any]) -> None:
    """What is wrong with *rewritten* was wrong with the same part of the same message of *raws*.

    One rule alone may come instead of another: a result that came too late stands after other content,
    once what parted the two has left.
    """
    known = {(id(raws[f.position]), f.rule, f.nth) for f in validate_history(raws)}
    known |= {(raw, "result-place", nth) for raw, _, nth in known}
    new = [f for f in validate_history(rewritten) if (id(rewritten[f.position]), f.rule, f.nth) not in known]
    assert new == []


@pytest.mark.parametrize("legal", [True, False], ids=["legal", "any"])
@given(data=st.data())
def test_a_compaction_brings_nothing_that_a_provider_refuses(legal: bool, data: st.DataObject) -> None:
    raws = data.draw(histories(min_turns=1, legal=legal))
    for _ in range(data.draw(st.integers(1, 3))):
        config = CompactionConfig(
            auto_compact_threshold=data.draw(st.integers(1, 600)),
            recent_turn_budget=data.draw(st.integers(0, 3)),
            min_reduction=0,
        )
        policy = data.draw(st.sampled_from([ThresholdCompactor(config), Emergency(400)]))
        try:
            rewritten = compact(raws, policy, model=lambda request: "So.").messages
        except ContextOverflowError:
            return
        assert_nothing_new(raws, rewritten)
        if legal:
            assert validate_history(rewritten) == []
        raws = rewritten


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
        ("notice", None, ", ".join(map(repr, sorted(openai_chat.ROLES)))),
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
        ({"role": "user", "content": None}, "content", "NoneType"),
        ({"role": "user"}, "content", "NoneType"),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, "content", "dict"),
        ({"role": "user", "content": ["x", 5]}, "content[1]", "int"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "content[0].text", "int"),
        ({"role": "assistant", "content": [{"type": "thinking"}]}, "content[0].thinking", "NoneType"),
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


DIALECTS = {
    "openai.chat": ("openai.types.chat", "ChatCompletionMessageParam", openai_histories),
    "openai.responses": ("openai.types.responses", "ResponseInputItemParam", responses_histories),
    "anthropic": ("anthropic.types", "MessageParam", anthropic_histories),
}


@cache
def adapter(dialect: str) -> Any:
    """Kept for good: what it reads lazily outlives the call, and must not outlive the adapter."""
    module, name, _ = DIALECTS[dialect]
    kind = getattr(importlib.import_module(module), name)
    return importlib.import_module("pydantic").TypeAdapter(list[kind])


def accept(dialect: str, raws: list[Any]) -> None:
    """Raises where the SDK's request types refuse one of *raws*."""
    # System text is a parameter of Anthropic's requests, not a message.
    sent = [raw for raw in raws if dialect != "anthropic" or raw.get("role") != "system"]
    read_out(adapter(dialect).validate_python(sent))


def read_out(value: Any) -> None:
    """Reads every item: pydantic checks what is typed as an ``Iterable`` only then."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, (list, Iterator)):
        return
    for item in value:
        read_out(item)


@pytest.fixture(autouse=True)
def _sdks() -> None:
    for name in ("pydantic", "openai", "anthropic"):
        pytest.importorskip(name, reason=f"{name} is not installed; it comes with the dependency group sdk")


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_a_compaction_returns_is_accepted(dialect: str, data: st.DataObject) -> None:
    raws = data.draw(DIALECTS[dialect][2](min_turns=1, legal=True))
    policy = data.draw(
        st.sampled_from(
            [
                ThresholdCompactor(CompactionConfig(auto_compact_threshold=100, recent_turn_budget=1)),
                Emergency(300),
            ]
        )
    )
    try:
        raws = compact(raws, policy, model=lambda request: "So.").messages
    except ContextOverflowError:
        return
    accept(dialect, raws)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_a_repair_returns_is_accepted(dialect: Any, data: st.DataObject) -> None:
    raws = data.draw(DIALECTS[dialect][2](min_turns=1, legal=True))
    lost = data.draw(st.integers(0, len(raws) - 1))
    accept(dialect, repair(raws[:lost] + raws[lost + 1 :], dialect).messages)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_no_message_is_refused(dialect: str) -> None:
    """The check can fail."""
    with pytest.raises(Exception, match="validation error"):
        accept(dialect, [ask(), {"role": "nobody", "content": [{"type": "nothing"}]}])
    if dialect != "openai.chat":
        with pytest.raises(Exception, match="validation error"):
            accept(dialect, [result("a")])
