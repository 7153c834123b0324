"""A trim that remembers what it was shown trims as one that does not, whatever was done to the list since."""

from __future__ import annotations

import copy
import json
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import Raw, assistant, exchange, system, user
from siltstone import SmartTrim, SmartTrimConfig, estimate_tokens
from siltstone.compaction import smart_trim
from siltstone.messages import History
from siltstone.messages.outline import KnownMessages

WORDS = (
    "silt",
    "settles",
    "slow",
    "water",
    "kettle",
    "deploys",
    "deployed",
    "the",
    "of",
    "in_progress",
    "漢字",
)
RECALLED = '<recalled-context source="memory-context">\n\nx\n\n</recalled-context>'


class Mine(dict[str, Any]):
    """A message of a type of the host's own."""


def said(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, 9)))


def message(chance: random.Random, number: int) -> list[Raw]:
    """One message or group of any kind."""
    text = said(chance)
    kinds: list[Callable[[], list[Raw]]] = [
        lambda: [user(text)],
        lambda: [assistant(text)],
        lambda: [{"role": "user", "content": [{"type": "text", "text": text}]}],
        lambda: [{"role": "user", "content": [{"type": "text", "text": RECALLED}]}],
        lambda: [user(RECALLED)],
        lambda: [user("ok"), assistant("ok")],
        lambda: exchange(f"c{number}", text),
        lambda: [
            {
                "type": "function_call",
                "call_id": f"r{number}",
                "name": "f",
                "arguments": json.dumps({"q": text}),
            },
            {"type": "function_call_output", "call_id": f"r{number}", "output": text},
        ],
        lambda: [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {"q": text, "n": 1.5}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"t{number}", "content": text},
                    {"type": "text", "text": said(chance)},
                ],
            },
        ],
        lambda: [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}]}
        ],
        lambda: [Mine(role="assistant", content=text)],
        lambda: [system(text)],
        lambda: [{"role": "assistant", "content": text, "name": "a"}],
    ]
    return chance.choice(kinds)()


def change(chance: random.Random, raw: Any) -> None:
    """Changes a message in its place, somewhere inside of it."""
    places: list[tuple[Any, Any]] = []

    def look(value: Any) -> None:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, inner in items:
            if key in ("content", "text", "arguments", "output", "q") and isinstance(inner, str):
                places.append((value, key))
            look(inner)

    look(raw)
    if places:
        where, key = chance.choice(places)
        where[key] = json.dumps({"q": said(chance)}) if key == "arguments" else said(chance)


def turn(chance: random.Random, raws: list[Any], number: int) -> list[Any]:
    """The list of the next turn: it grew, and something may have been done to it before."""
    match chance.randrange(8):
        case 0 if raws:
            change(chance, chance.choice(raws))
        case 1:
            raws = copy.deepcopy(raws)
        case 2:
            raws = [dict(raw) for raw in raws]
        case 3 if raws:
            at = chance.randrange(len(raws))
            raws = [*raws[:at], *message(chance, 10_000 + number), *raws[at:]]
        case 4 if raws:
            raws = [*raws, chance.choice(raws)]
        case 5:
            chance.shuffle(raws)
        case _:
            pass
    for extra in range(chance.randint(0, 6)):
        raws = [*raws, *message(chance, number * 10 + extra)]
    return raws


@given(st.integers(0, 1 << 32))
def test_whatever_is_done_to_the_list_the_next_trim_is_that_of_a_list_that_nobody_knew(seed: int):
    chance = random.Random(seed)
    config = SmartTrimConfig(
        protected_recent=chance.randint(0, 4), query=chance.choice([None, "silt deploy the"])
    )
    policy, raws = SmartTrim(config), list[Any]()
    for number in range(8):
        raws = turn(chance, raws, number)
        limit = chance.randint(0, max(1, estimate_tokens(raws, "chars/3")))
        knowing, plain = policy.trim(raws, limit), smart_trim(raws, limit, config)
        assert (knowing.tokens, knowing.reason) == (plain.tokens, plain.reason)
        for mine, other in ((knowing.retained, plain.retained), (knowing.trimmed, plain.trimmed)):
            assert [id(raw) for raw in mine] == [id(raw) for raw in other]
        if chance.randrange(3) == 0:
            raws = list(knowing.retained)


@given(st.integers(0, 1 << 32))
def test_the_outline_of_a_known_list_is_that_of_a_list_that_nobody_knew(seed: int):
    chance, known = random.Random(seed), KnownMessages()
    raws: list[Any] = []
    for number in range(6):
        raws = turn(chance, raws, number)
        one, other = History(raws, known=known).outline, History(raws).outline
        for name in (
            "others",
            "rules",
            "summaries",
            "unoriginal",
            "requests",
            "pending",
            "in_flight",
            "turn_count",
        ):
            assert getattr(one, name) == getattr(other, name), name
        for measure in ("bytes", "code_points", "blocks"):
            assert one.sums(measure, one.others) == other.sums(measure, other.others)
            assert one.total(measure, one.others) == other.sums(measure, other.others)[-1]
        every = list(range(len(raws)))
        assert [one.closed([at]) for at in every] == [other.closed([at]) for at in every]
        assert one.parts(0, len(raws)) == other.parts(0, len(raws))


def test_a_number_that_became_another_of_the_same_value_is_read_anew():
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}
    raws: list[Any] = [call, answer, user("Where is the silt?")]
    policy, blocks = SmartTrim(), call["content"]
    for number in (1, True, 1.0, 10**30, None):
        blocks[0]["input"]["n"] = number  # type: ignore[index]
        assert policy.trim(raws, 10_000).tokens == estimate_tokens(raws, "chars/3")


def test_a_key_that_was_renamed_in_its_place_is_read_anew():
    raws: list[Any] = [{"role": "assistant", "content": "a", "name": "x"}, user("Where is the silt?")]
    policy = SmartTrim()
    policy.trim(raws, 10_000)
    raws[0]["longer_name"] = raws[0].pop("name")
    assert policy.trim(raws, 10_000).tokens == estimate_tokens(raws, "chars/3")


def test_the_host_s_messages_are_not_held_and_the_texts_of_those_that_left_are_let_go():
    policy, text = SmartTrim(), "a text that is asked for {}".format("once")
    message: Any = {"role": "user", "content": text}
    of_message, of_text = sys.getrefcount(message), sys.getrefcount(text)
    policy.trim([message, user("Where is the silt?")], 10)
    assert sys.getrefcount(message) == of_message
    assert sys.getrefcount(text) > of_text, "an object that is not held may become another"
    policy.trim([user("Where is the silt?")], 10)
    assert sys.getrefcount(text) == of_text


def test_threads_that_share_a_policy_trim_as_each_would_alone():
    policy = SmartTrim()
    lists = [
        [*(user(f"topic{n} {name} silt") for n in range(200)), user("Where is the silt?")] for name in "abcd"
    ]
    expected = [smart_trim(raws, 900).trimmed for raws in lists]
    wrong: list[int] = []

    def ask(place: int) -> None:
        wrong.extend(place for _ in range(30) if policy.trim(lists[place], 900).trimmed != expected[place])

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_failure_while_a_list_is_read_leaves_the_next_trim_right():
    policy = SmartTrim()
    raws: list[Any] = [*(user(f"silt {n}") for n in range(30)), user("Where is the silt?")]
    policy.trim(raws, 100)
    with pytest.raises(Exception, match="message"):
        policy.trim([*raws, 5], 100)  # type: ignore[list-item]
    assert policy.trim(raws, 100).trimmed == smart_trim(raws, 100).trimmed
