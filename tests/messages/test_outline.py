"""A history in outline says what its messages would say, without any of them being made."""

import gc
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from compacting import Raw, assistant, exchange, user
from reference import groups as twin
from siltstone import CompactionConfig, ThresholdCompactor, compact, plan
from siltstone._native import render_messages, rendered_tokens
from siltstone.compaction.material import render
from siltstone.compaction.prompts import SUMMARY_PREFIX
from siltstone.compaction.rewrite import covered, joined
from siltstone.errors import InvalidMessageError, SiltstoneError
from siltstone.messages import (
    Excerpt,
    History,
    InjectedMessage,
    Message,
    RepairedMessage,
    SummaryMessage,
    groups,
    in_flight,
    opens_turn,
    read_history,
    repair,
    turns,
    validate_history,
)
from siltstone.messages.message import SAID
from siltstone.tokens import rule
from strategies import (
    anthropic_messages,
    histories,
    json_values,
    openai_messages,
    plain_messages,
    responses_items,
)

RULES = ["bytes/4", "chars/3", "blocks"]


class Name(str):
    __slots__ = ()


class Live:
    """An object of an SDK, which dumps itself."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self.fields


class Pair(NamedTuple):
    one: Any
    two: Any


# Odd items of a list of messages: every one of these is an error, or read in some odd way.
odd_values = st.sampled_from(
    [float("nan"), float("inf"), 10**30, -(2**63), 2**63, -0.0, 1e300, 1e16, 0.1, "\ud800", "a\udc00b",
     "\ud83d\ude00", Name("x"), True, None, b"x", {1}, object(), (), ("a", 1), [], {}, {"a": float("nan")},
     {1: 2}, {None: 1}, OrderedDict(a=1), UserDict(a=1), Pair(1, "x"), Name, "", " ", 0],
)  # fmt: skip
FIELDS = [
    *("role", "content", "type", "id", "call_id", "tool_calls", "tool_call_id", "name", "function_call"),
    *("refusal", "audio", "reasoning_content", "reasoning", "arguments", "input", "output", "caller", "text"),
    *("tool_use_id", "is_error", "thinking", "function", "custom", "tool_name", "summary", "extra"),
]
WORDS = [
    *("system", "developer", "user", "assistant", "tool", "function", "nobody"),
    *("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "refusal", "input_text", "image"),
    *("output_text", "message", "function_call", "function_call_output", "reasoning", "custom"),
    *("custom_tool_call", "custom_tool_call_output", "server_tool_use", "web_search_tool_result"),
    *("item_reference", "compaction"),
]  # fmt: skip
scraps = st.recursive(
    st.sampled_from(WORDS) | odd_values | json_values(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], change)
    return copy


def disguised(value: Any) -> list[Any]:
    """*value* as something that says the same, or nearly."""
    mappings = (OrderedDict, UserDict, MappingProxyType, RepairedMessage)
    return [Live(value), *(mapping(value) for mapping in mappings)]


@st.composite
def lists(draw: Callable[..., Any]) -> list[Any]:
    """Histories, and single messages of every shape, some of them changed somewhere: whatever may be sent."""
    single = st.one_of(plain_messages(), openai_messages(), anthropic_messages(), responses_items())
    raws: list[Any] = draw(st.one_of(histories(), st.lists(single, max_size=6)))
    for _ in range(draw(st.integers(0, 2))):
        if not raws:
            break
        at = draw(st.integers(0, len(raws) - 1))
        kind = draw(st.sampled_from(["scrap", "scrap", "disguise", "summary", "note", "fields"]))
        if kind == "scrap":
            path = draw(st.sampled_from(places(raws[at])))
            raws[at] = replaced(raws[at], path, lambda _: draw(scraps))
        elif kind == "disguise" and isinstance(raws[at], dict):
            raws[at] = draw(st.sampled_from(disguised(raws[at])))
        elif kind == "note":
            raws.append(InjectedMessage(role="user", content="Open tasks: none."))
        elif kind == "summary":
            ranges = draw(st.sampled_from([((0, 3),), ((6, 9),), ((1, 2), (5, 10)), ((9, 10), (13, 18))]))
            raws[at] = SummaryMessage("[Context compacted] x\n\nSome of it.", ranges, draw(st.integers(1, 3)))
        elif isinstance(raws[at], dict):
            raws[at] = {**raws[at], **draw(st.dictionaries(st.sampled_from(FIELDS), scraps, max_size=2))}
    return raws


def attempted(read: Callable[[], Any]) -> tuple[Any, tuple[Any, ...] | None]:
    """The result of *read*, or the parts that tell its error from another."""
    try:
        return read(), None
    except SiltstoneError as error:
        fields = {key: value for key, value in vars(error).items() if key != "role"}
        return None, (type(error), str(error), repr(fields))


def of(message: Message) -> tuple[Any, ...]:
    """A message without its own object, which need not equal itself."""
    return message.seq, message.role, message.parts, message.dialect, message.provenance, message.covers


def assert_same(history: History, messages: Sequence[Message]) -> None:
    """Everything that an outline says, against the messages themselves."""
    outline = history.outline
    assert len(history) == len(outline) == len(messages)
    assert history.rules == [at for at, m in enumerate(messages) if m.role in ("system", "developer")]
    assert history.summaries == [at for at, m in enumerate(messages) if m.provenance == "compaction_summary"]
    assert history.unoriginal == [at for at, m in enumerate(messages) if m.provenance != "original"]
    assert outline.requests == [at for at, m in enumerate(messages) if opens_turn(m)]
    assert turns(history) == twin.turns(messages)
    assert in_flight(history) is twin.in_flight(messages)
    assert groups(history) == twin.groups(messages)
    assert outline.parts(0, len(messages)) == sum(len(m.parts) for m in messages)
    assert list(joined(history.numbers(0, len(history)))) == list(covered(messages))
    for name in RULES:
        token_rule = rule(name)
        sums = [0]
        for message in messages:
            sums.append(sums[-1] + token_rule.units(message))
        assert list(history.sums(token_rule)) == sums
        assert token_rule.count(history) == token_rule.tokens(sums[-1])
        assert history.largest(token_rule) == max(map(token_rule.units, messages), default=0)


@given(lists(), st.data())
def test_an_outline_says_what_the_messages_say_also_where_it_grew(raws: list[Any], data: st.DataObject):
    """Or it raises what reading them raises: the same class, message and fields."""
    messages, error = attempted(lambda: read_history(raws))
    history, other = attempted(lambda: History(raws))
    assert other == error
    if messages is None:
        return
    assert_same(history, messages)
    cut, own = data.draw(st.integers(0, len(messages))), rule("chars/3-utf16")
    units = [*map(own.units, messages)]
    first = History.of(()).extended(messages[:cut], (own, units[:cut]))
    grown = first.extended(messages[cut:], (own, units[cut:]))
    assert_same(grown, messages)
    assert list(grown.sums(own)) == [sum(units[:end]) for end in range(len(units) + 1)]
    assert (grown.raws, grown.shown) == (history.raws, History.of(messages).shown)
    assert [of(message) for message in history] == [of(message) for message in messages]
    assert all(message.raw is raw for message, raw in zip(history, raws, strict=True))


@given(lists(), st.data())
def test_an_excerpt_is_what_its_messages_are(raws: list[Any], data: st.DataObject):
    history, error = attempted(lambda: History(raws))
    if error is not None:
        return
    messages = list(history)
    kept = data.draw(st.sets(st.integers(0, len(raws) + 1)))
    spans = history.outline.closed(sorted(kept))
    stays = [group.positions for group in groups(messages) if not kept.isdisjoint(group.positions)]
    assert [at for span in spans for at in range(*span)] == sorted(at for each in stays for at in each)
    stranger = read_history([user("What was said.")])[0]
    pieces: list[Any] = list(spans)
    pieces.insert(data.draw(st.integers(0, len(pieces))), stranger)
    for each in (Excerpt(history, spans), Excerpt(history, pieces)):
        members = tuple(
            message
            for piece in each.pieces
            for message in ([piece] if isinstance(piece, Message) else [messages[at] for at in range(*piece)])
        )
        assert len(each) == len(members)
        assert [id(message) for message in each] == [id(message) for message in members]
        assert [id(each[at]) for at in range(-len(each), len(each))] == [id(m) for m in members * 2]
        assert [id(raw) for raw in each.raws] == [id(message.raw) for message in members]
        own = [m is not stranger and m for m in members]
        assert [at >= 0 and messages[at] for at in each.positions] == own
        assert each.parts == sum(len(message.parts) for message in members)
        assert each.has_original == any(message.provenance in SAID for message in members)
        summarised = [id(m) for m in members if m.provenance == "compaction_summary"]
        assert [id(m) for m in each.summaries] == summarised
        assert joined(each.numbers) == covered(members)
        assert render(each, SUMMARY_PREFIX) == render(members, SUMMARY_PREFIX)
        for name in RULES:
            assert rule(name).count(each) == rule(name).count(members)


@given(lists())
def test_the_lines_of_messages_are_those_of_the_slow_rendering(raws: list[Any]):
    """Message by message, so that a reader that gives up is noticed where it need not."""
    messages, error = attempted(lambda: read_history(raws))
    if error is not None:
        return
    for at, message in enumerate(messages):
        lines, end = render_messages(raws, at, at + 1)
        assert lines == ("" if end == at else render([message], SUMMARY_PREFIX))


def test_messages_are_made_when_they_are_looked_at_and_once():
    history = History([user("Hello."), *exchange("a", "done")])
    assert history[1] is history[-2] is history[0:2][1]
    with pytest.raises(IndexError, match="3 messages has no message 3"):
        history[3]
    with pytest.raises(IndexError, match="2 messages has no message 2"):
        Excerpt(history, [(0, 2)])[2]
    assert Excerpt(history, [(0, 2)]) == (history[0], history[1]) == Excerpt(history, [(0, 1), (1, 2)])
    assert Excerpt(history, [(0, 2)]) != (history[0], history[2])


def test_a_message_nested_deeper_than_the_core_walks_is_read_all_the_same():
    value: Any = "deep"
    for _ in range(100):
        value = [value]
    raw = {"role": "user", "content": "Hello.", "extra": value}
    history = History([raw])
    assert history.outline.others == [0]
    assert_same(history, read_history([raw]))
    for _ in range(200):
        value = [value]
    deeper = [{**raw, "extra": value}]
    assert attempted(lambda: History(deeper)) == attempted(lambda: read_history(deeper))


def test_who_changes_a_message_meanwhile_is_summarised_by_what_it_says_now():
    raws = [user("Hello."), user("There.")]
    history = History(raws)
    raws[0]["content"] = "Changed."
    raws.clear()
    assert len(history) == 2
    assert render(Excerpt(history, [(0, 2)]), SUMMARY_PREFIX) == "User: Changed.\nUser: There."


def test_an_outline_holds_nothing_of_the_messages():
    """Neither a finished one nor one that came to nothing: every reference is given back."""
    raws: list[Any] = [user("Hello."), *exchange("a", "done"), {"role": "user", "content": [{"type": "x"}]}]
    bad: list[Any] = [*raws, {"role": "nobody", "content": "x"}]
    before = [sys.getrefcount(raw) for raw in raws], sys.getrefcount(raws[0]["content"])
    for _ in range(50):
        history = History(raws)
        render_messages(history.raws, 0, 4)
        rendered_tokens(history.raws, 0, 4, "blocks")
        with pytest.raises(InvalidMessageError):
            History(bad)
    del history
    gc.collect()
    assert ([sys.getrefcount(raw) for raw in raws], sys.getrefcount(raws[0]["content"])) == before


SMALL, FACTOR = 300, 10
SLACK = 1.25  # of proportional growth: a sort has a logarithm, and so has a bisection


def calls(work: Callable[[], object]) -> int:
    numbers = count()
    before = sys.getprofile()
    gc.disable()  # what is collected may be another test's, and would be counted here
    sys.setprofile(lambda frame, event, arg: next(numbers) if event in ("call", "c_call") else None)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return next(numbers)


def chat(size: int) -> list[Any]:
    """Short turns with a call in each."""
    raws: list[Any] = []
    for number in range(size // 4):
        raws += [user(f"Request {number}?"), *exchange(f"call_{number}", "done " * 9), assistant("Yes.")]
    return raws


def one_turn(size: int) -> list[Any]:
    """An agent that works for long at one request."""
    raws: list[Any] = [user("Do it all.")]
    for number in range(size // 2):
        raws += exchange(f"call_{number}", "done " * 9)
    return raws


def nameless(size: int) -> list[Any]:
    """Calls without ids, all of one name, and only then their results."""
    call: Raw = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result: Raw = {"role": "function", "name": "f", "content": "done"}
    return [user("Do it."), *[call] * (size // 2), *[result] * (size // 2), assistant("Done."), user("Now?")]


def pictures(size: int) -> list[Any]:
    """Messages that the core leaves to Python."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    return [
        {"role": role, "content": [picture, {"type": "text", "text": "look"}]}
        for _ in range(size // 2)
        for role in ("user", "assistant")
    ]


def summaries(size: int) -> list[Any]:
    """Summaries, each with a message of its own between them."""
    raws: list[Any] = []
    for number in range(size // 2):
        raws += [SummaryMessage("[Context compacted]\n\nSome of it.", ((2 * number, 2 * number + 1),))]
        raws += [user(f"Request {number}: " + "word " * 9)]
    return raws


HISTORIES = [chat, one_turn, nameless, pictures, summaries]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "requests": {"keep_user_messages": True, "recent_turn_budget": 4},
    "unbounded": {"retained_token_budget": None, "recent_turn_budget": 10_000},
    "pieces": {"summarizer_window": 2_000, "recent_turn_budget": 4},
}


def answer(_: object) -> str:
    return "What was said."


def grows(work: Callable[[list[Any]], object], make: Callable[[int], list[Any]]) -> float:
    """How many times the calls of *work* there are for ten times the messages."""
    few, many = make(SMALL), make(SMALL * FACTOR)
    work(make(SMALL))  # what is done once has been done
    return calls(lambda: work(many)) / calls(lambda: work(few))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("make", HISTORIES, ids=lambda make: make.__name__)
def test_a_plan_and_a_compaction_grow_with_the_list(make: Callable[[int], list[Any]], setting: str):
    settings = {"auto_compact_threshold": 4_000, "max_summary_tokens": 64, **SETTINGS[setting]}
    policy = ThresholdCompactor(CompactionConfig(**settings))
    assert grows(lambda raws: plan(raws, policy), make) <= SLACK * FACTOR
    assert grows(lambda raws: compact(raws, policy, model=answer), make) <= SLACK * FACTOR


@pytest.mark.parametrize("make", HISTORIES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("work", [read_history, validate_history, repair], ids=lambda work: work.__name__)
def test_reading_validating_and_repairing_grow_with_the_list(
    work: Callable[[list[Any]], object], make: Callable[[int], list[Any]]
):
    assert grows(work, make) <= SLACK * FACTOR


def test_a_plan_makes_no_message():
    """Each call of a plan is made once and not once a message, so that its cost is the core's."""
    policy = ThresholdCompactor()
    raws = chat(SMALL * FACTOR)
    plan(raws, policy)
    assert calls(lambda: plan(raws, policy)) < len(raws)
