"""The tool ``memory_search``: schema, results, refusals."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import (
    ConfigError,
    Entry,
    MemoryStore,
    SearchHit,
    Session,
    SimpleMemoryStore,
    Tool,
    estimate_tokens,
)
from siltstone.errors import InvalidArgumentsError
from siltstone.memory import SourceRange
from siltstone.tools.base import FLOOR, LEAST_BUDGET, answer_budget, dispatch, shares
from siltstone.tools.memory import memory_search

DESCRIPTION = (
    "Search semantic memory for past conversation content. Memory contains text from earlier conversation "
    "turns that were compacted away to save context space. Use this to recall information from earlier in "
    "the conversation."
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry(f"the fox number {n} jumps", (n, n + 1)) for n in range(30)])
        yield store


@pytest.fixture
def tool(store: MemoryStore) -> Tool:
    return Session.open(None, "s", memory=store).memory_search


def test_mk_70_one_tool_with_a_required_query_and_an_optional_limit(tool: Tool) -> None:
    assert tool.name == "memory_search"
    assert tool.parameters["required"] == ["query"]
    assert tool.parameters["properties"]["query"]["type"] == "string"
    assert tool.parameters["properties"]["limit"] == {
        "type": "integer",
        "minimum": 0,
        "default": 5,
        "description": "Maximum number of results to return. Capped at 20.",
    }


def test_mk_76_the_description_makes_no_claim_about_other_sessions(tool: Tool, store: MemoryStore) -> None:
    assert tool.description == DESCRIPTION
    assert "session" not in Session.open(None, "s", memory=store).memory_instructions


def test_definitions_in_the_words_of_each_provider(tool: Tool) -> None:
    assert tool.definition("openai") == {
        "type": "function",
        "function": {"name": tool.name, "description": DESCRIPTION, "parameters": tool.parameters},
    }
    assert tool.definition("anthropic") == {
        "name": tool.name,
        "description": DESCRIPTION,
        "input_schema": tool.parameters,
    }
    assert tool.definition("mcp") == {
        "name": tool.name,
        "description": DESCRIPTION,
        "inputSchema": tool.parameters,
    }
    with pytest.raises(ConfigError, match="'gemini'"):
        tool.definition("gemini")  # type: ignore[arg-type]


def test_mk_71_results_have_content_score_source_range_and_time_alone(store: MemoryStore) -> None:
    store.index("t", [Entry("the only otter", (7, 8))])
    tool = Session.open(None, "t", memory=store).memory_search
    [hit] = json.loads(tool.call({"query": "otter"}))
    assert list(hit) == ["content", "score", "source_range", "said"]
    assert hit["content"] == "the only otter"
    assert hit["source_range"] == {"start": 7, "end": 8}
    assert 0 < hit["score"] <= 1


def test_mk_73_nothing_found_is_an_empty_array(tool: Tool) -> None:
    assert tool.call({"query": "zebra"}) == "[]"


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"query": "fox"}, 5),
        ({"query": "fox", "limit": 3}, 3),
        ({"query": "fox", "limit": 3.0}, 3),
        ({"query": "fox", "limit": None}, 5),
        ({"query": "fox", "limit": 0}, 0),
        ({"query": "fox", "limit": 21}, 20),
        ({"query": "fox", "limit": 10**30}, 20),
        ({"query": "fox", "unknown": True}, 5),
        ('{"query": "fox", "limit": 2}', 2),
    ],
)
def test_mk_74_limit_is_5_by_default_and_capped_at_20(tool: Tool, arguments: Any, count: int) -> None:
    hits = json.loads(tool.call(arguments))
    assert len(hits) == count
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


DEEP = "[" * 100_000


def nested(levels: int) -> Any:
    value: Any = "fox"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"query": "fox", "limit": 2.5}, "'limit' must be an integer >= 0, got 2.5"),
        (DEEP, "nested too deeply"),
        (f'{{"query": {DEEP}{"]" * 100_000}}}', "nested too deeply"),
        ({"query": "fox", "limit": nested(50_000)}, "got a value of type list"),
        (f'{{"query": "fox", "limit": {"9" * 5_000}}}', "a number has 5000 digits, at most 1000 are read"),
        ({"query": "fox", "limit": -(10**5_000)}, "got an integer of thousands of digits"),
        ({"query": "fox", "limit": "9" * 10**6}, "99…"),
        ('{"query": "fox", "limit": NaN}', "got nan"),
        ('{"query": "fox", "limit": 1e999}', "got inf"),
        (json.dumps({"query": "fox " * 100_000}), "a query must be at most 65536 bytes, got 400000 bytes"),
        (b'{"query": "fox"}', ", got bytes"),
        ("null", "'query' is missing"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, dict) else "object",
)
def test_mk_75_whatever_a_model_sends_is_refused_in_a_short_sentence(tool: Tool, arguments: Any, reason: str):
    with pytest.raises(InvalidArgumentsError) as caught:
        tool.run(tool.read(arguments))
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 300
    str(caught.value).encode()


_WORD = st.text(st.characters(exclude_categories=[]), max_size=30)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORD, inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional={"query": _JSON, "limit": _JSON, "session": _JSON}), st.booleans())
def test_arguments_of_any_kind_give_an_answer_or_invalid_arguments(arguments: Any, written: bool) -> None:
    with SimpleMemoryStore() as store:
        store.index("s", [Entry("the fox", (0, 1))])
        tool = Session.open(None, "s", memory=store).memory_search
        json.loads(tool.call(json.dumps(arguments) if written else arguments))


def test_mk_75_a_name_of_any_size_is_not_found(tool: Tool) -> None:
    assert len(dispatch([tool], "x" * 10_000, {})) < 200


@pytest.mark.parametrize("query", ["", "  ", "\n", "?!", "\x00"])
def test_mk_77_a_query_without_words_has_no_hits(tool: Tool, query: str) -> None:
    assert tool.call({"query": query}) == "[]"


def test_text_comes_back_as_it_was_written(store: MemoryStore) -> None:
    text = 'naïve "quotes" 東京 🦊 \x00 end'
    store.index("u", [Entry(text)])
    [hit] = json.loads(Session.open(None, "u", memory=store).memory_search.call({"query": "naïve"}))
    assert hit["content"] == text


@given(
    st.lists(st.tuples(st.text(), st.floats(0, 1) | st.integers(0, 1), st.integers(0)), max_size=3),
    st.booleans(),
)
def test_the_answer_is_json_as_an_encoder_writes_it(found: list[tuple[str, float, int]], cross_session: bool):
    said_at = datetime(2026, 3, 5, tzinfo=UTC)
    hits = [
        SearchHit(text, score, SourceRange(at, at + 1), 1, "user", said_at, session_id=text)
        for text, score, at in found
    ]
    tool = memory_search(lambda *_, **__: hits, cross_session=cross_session, now=lambda: said_at)
    told = [
        {
            "content": hit.content,
            "score": hit.score,
            "source_range": {"start": hit.source_range.start, "end": hit.source_range.end},
            "said": "2026-03-05 00:00",
            **({"session_id": hit.session_id} if cross_session else {}),
        }
        for hit in hits
    ]
    assert tool.call({"query": "fox"}) == json.dumps(told, ensure_ascii=False)


@pytest.fixture
def dated(tmp_path: Path) -> Iterator[Tool]:
    """The tool over three days, seen from the evening of 11 March 2026 in Tokyo, which is noon in UTC."""
    now = datetime(2026, 3, 11, 12, tzinfo=UTC)
    with MemoryStore.open(tmp_path / "dated") as store:
        for back in range(3):
            moment = now - timedelta(days=back)
            store.index("s", [Entry(f"the fox of {moment:%A}", (back, back + 1), created_at=moment)])
        search = partial(store.search, "s")
        yield memory_search(search, now=lambda: now.astimezone(timezone(timedelta(hours=9))))


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        ("yesterday", None, {"Tuesday", "Wednesday"}),
        ("yesterday", "yesterday", {"Tuesday"}),
        (None, "last Monday", {"Monday"}),
        ("2026-03-10T12:00Z", "2026-03-10T12:00Z", {"Tuesday"}),
        ("in March", "in March", {"Monday", "Tuesday", "Wednesday"}),
        ("last month", "last month", set()),
        ("36 hours ago", None, {"Tuesday", "Wednesday"}),
    ],
)
def test_words_say_from_when_on_and_until_when(
    dated: Tool, since: str | None, until: str | None, days: set[str]
) -> None:
    hits = json.loads(dated.call({"query": "fox", "since": since, "until": until}))
    assert {hit["content"].split()[-1] for hit in hits} == days


NOW = datetime(2026, 11, 22, tzinfo=UTC)
NEEDLE = "The vault code is 7731-alpha."


def hit(content: str, seq: int = 7) -> SearchHit:
    return SearchHit(content, 0.5, SourceRange(seq, seq + 1), seq, "user", NOW)


def answer(hits: list[SearchHit], budget: int | None = None) -> tuple[list[Any], int]:
    """The results, one JSON array, and how many were left out; the answer is within its budget."""
    text = memory_search(lambda *_: hits, budget=budget).call({"query": "vault code", "limit": 20})
    assert estimate_tokens(text) <= (budget or 2_000)
    found = json.loads(text)
    return found, found[-1].pop("left_out", 0) if found else 0


@pytest.mark.parametrize(
    ("window", "budget"), [(None, 2000), (8_000, 600), (20_000, 1_000), (200_000, 2_000), (1, 600)]
)
def test_the_default_is_a_twentieth_of_the_window_between_two_bounds(window: Any, budget: int) -> None:
    assert answer_budget(window) == budget


def test_a_long_hit_is_cut_to_the_passage_that_answers() -> None:
    for before in (0, 900, 5_000):
        text = "It rained all day. " * before + NEEDLE + " Nobody came." * 4_000
        (found,), left_out = answer([hit(text)], 600)
        assert NEEDLE in found["content"]
        assert found["content"].endswith("…")
        assert found["content"].startswith("…") == (before > 100)
        assert (found["score"], found["source_range"]) == (0.5, {"start": 7, "end": 8})
        assert left_out == 0


def test_hits_are_left_out_only_below_the_floor_and_their_number_is_told() -> None:
    hits = [hit(f"{NEEDLE} Number {number}. " + "hay " * 900, number) for number in range(20)]
    found, left_out = answer(hits, 600)
    assert 3 <= len(found) < 20
    assert [each["source_range"]["start"] for each in found] == list(range(len(found)))
    assert left_out == 20 - len(found)
    assert all(NEEDLE in each["content"] for each in found)
    assert all(estimate_tokens(each["content"]) >= FLOOR // 2 for each in found)
    everything, none = answer(hits, 20 * 120)
    assert (len(everything), none) == (20, 0)


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=20),
    budget=st.integers(LEAST_BUDGET, 2_000),
    char=st.sampled_from(["hay ", "\u6c34", '"', "\\", "\x01", "\U0001f600 "]),
)
def test_an_answer_keeps_to_its_budget_whatever_the_hits_are(sizes: Any, budget: int, char: str) -> None:
    hits = [hit(char * size, number) for number, size in enumerate(sizes)]
    found, left_out = answer(hits, budget)
    assert left_out == len(hits) - len(found)
    assert bool(found) == bool(hits)


@given(sizes=st.lists(st.integers(0, 500), max_size=9), room=st.integers(0, 3_000))
def test_shares_fill_the_room_and_no_more(sizes: list[int], room: int) -> None:
    share = shares(sizes, room)
    assert sum(min(size, share) for size in sizes) <= room
    if share < max(sizes, default=0):
        assert sum(min(size, share + 1) for size in sizes) > room


@pytest.mark.parametrize("budget", [0, LEAST_BUDGET - 1, -5, True, "600", 700.5])
def test_a_budget_that_has_no_room_is_refused(budget: Any) -> None:
    with pytest.raises(ConfigError, match="must be an integer >= 100 tokens"):
        memory_search(lambda *_: [], budget=budget)


@pytest.mark.parametrize(("window", "most"), [(8_000, 600), (30_000, 1_500)])
def test_the_tools_of_a_session_answer_a_share_of_its_window(window: int, most: int) -> None:
    with Session.open(None, "s", policy=None, context_window=window, memory=SimpleMemoryStore()) as session:
        session.store.index(
            "s", [Entry(f"silt {number} " + "mud " * 400, (number, number + 1)) for number in range(9)]
        )
        answer = session.memory_search.call({"query": "silt", "limit": 9})
        assert most // 2 < estimate_tokens(answer) <= most
        session.append({"role": "user", "content": "line\n" * 20_000})
        assert estimate_tokens(session.memory_get.call({"handle": "m0"})) <= most
