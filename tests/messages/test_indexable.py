"""The parts of a message that are indexed: texts, names, arguments and results, but of our own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, result, say, thought
from siltstone.messages import (
    OWN_TOOLS,
    SummaryMessage,
    indexable_text,
    indexable_texts,
    names_own_tool,
    read_history,
    read_message,
)
from siltstone.messages.conversion import convert
from strategies import PIXEL, histories


def text_of(raw: Any, **options: Any) -> str:
    return indexable_text(read_message(raw, 0), **options)


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


@pytest.mark.parametrize(
    ("raw", "indexed", "without_tools"),
    [
        (ask("where is it?"), "where is it?", "where is it?"),
        (say("here"), "here", "here"),
        (call("a", text="I look"), "I look\nls {}", "I look"),
        (result("a", "a.txt\nb.txt"), "a.txt\nb.txt", ""),
        ({"role": "function", "name": "ls", "content": "a.txt"}, "ls a.txt", ""),
        (blocks("user", {"type": "text", "text": "look"}, IMAGE), "look", "look"),
        (thought(), "", ""),
        ({"role": "user", "content": ["", "a", "", "b"]}, "a\nb", "a\nb"),
        ({"role": "system", "content": "be brief"}, "", ""),
        ({"role": "developer", "content": "be brief"}, "", ""),
    ],
)
def test_what_was_said_called_and_answered_is_indexed(raw: Any, indexed: str, without_tools: str) -> None:
    assert text_of(raw) == indexed
    assert text_of(raw, index_tools=False) == without_tools


def test_a_summary_is_not_indexed() -> None:
    (summary,) = read_history([SummaryMessage("[Context compacted] x", ((0, 1),))])
    assert indexable_text(summary) == ""


@pytest.mark.parametrize("provenance", ["injected_context", "recalled_context", "placeholder", "repaired"])
def test_only_originals_are_indexed(provenance: Any) -> None:
    assert indexable_text(read_message(ask("x"), 0, provenance=provenance)) == ""


@given(raws=histories())
def test_every_text_that_was_said_is_found_in_what_is_indexed(raws: list[dict[str, Any]]) -> None:
    for message in read_history(raws):
        if message.role in ("system", "developer"):
            continue
        indexed = indexable_text(message)
        for part in message.parts:
            if part.kind in ("text", "tool_result"):
                assert part.text in indexed
            if part.kind == "tool_call":
                assert (part.arguments or "") in indexed


# -- calls and answers of our own tools are never indexed, in whatever dial -------------------


SECRET = "quoted-by-our-own-tool"
names = st.builds(
    lambda prefix, name: prefix + name,
    st.sampled_from(["", "mcp__siltstone__", "mcp__notes__", "siltstone.", "functions.", "siltstone_"]),
    st.sampled_from(sorted(OWN_TOOLS)),
)
foreign = st.sampled_from(["read_file", "graph_memory_search", "memory_searches", "search", "mcp__x__ls"])


def openai_turn(calls: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """An assistant's parallel calls (id, name, answer), and their answers."""
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps({"of": answer})}}
        for id_, name, answer in calls
    ]
    answers = [{"role": "tool", "tool_call_id": id_, "content": answer} for id_, _, answer in calls]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *answers]


@st.composite
def transcripts(draw: Any) -> list[dict[str, Any]]:
    """Turns with our own tools and others, side by side and with ids that are used again."""
    raws: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(1, 4))):
        raws.append(ask(f"Question {turn}."))
        count = draw(st.integers(1, 3))
        calls = []
        for at in range(count):
            own = draw(st.booleans())
            name = draw(names if own else foreign)
            calls.append((f"call_{at}", name, f"{SECRET if own else 'found'} {turn}-{at}"))
        raws += openai_turn(calls)
        raws.append(say(f"Answer {turn}."))
    return raws


@pytest.mark.parametrize("dialect", ["openai.chat", "openai.responses", "anthropic"])
@given(raws=transcripts())
def test_nothing_of_our_own_tools_is_indexed_and_all_else_is(dialect: Any, raws: Any) -> None:
    history = read_history(convert(raws, dialect).messages)
    texts = "\n".join(indexable_texts(history))
    assert SECRET not in texts
    said = json.dumps(raws)
    for turn in range(4):
        for what in (f"Question {turn}.", f"Answer {turn}.", *(f"found {turn}-{at}" for at in range(3))):
            assert texts.count(what) == said.count(what)


def test_a_server_tool_of_a_provider_holds_its_answer_in_the_call() -> None:
    item = {
        "type": "mcp_call", "id": "mcp_1", "server_label": "siltstone", "name": "memory_search",
        "arguments": '{"query": "x"}', "output": SECRET,
    }  # fmt: skip
    use = {"type": "mcp_tool_use", "id": "t1", "name": "memory_search", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": SECRET}]}
    for raws in ([item], [{"role": "assistant", "content": [use, result]}]):
        assert list(indexable_texts(read_history(raws))) == [""]


def test_a_function_without_ids_is_known_by_its_name() -> None:
    raws = [
        {"role": "assistant", "content": None, "function_call": {"name": "memory_get", "arguments": "{}"}},
        {"role": "function", "name": "memory_get", "content": SECRET},
    ]
    assert list(indexable_texts(read_history(raws))) == ["", ""]


def test_what_is_said_beside_a_call_is_indexed() -> None:
    call, answer = openai_turn([("c", "memory_search", SECRET)])
    call["content"] = "Let me look."
    history = read_history([call, answer])
    assert list(indexable_texts(history)) == ["Let me look.", ""]
    assert indexable_text(history[0]) == "Let me look."


def test_an_answer_without_its_call_is_a_tools_answer_like_any_other() -> None:
    answer = {"role": "tool", "tool_call_id": "c", "content": "found"}
    assert list(indexable_texts(read_history([answer]))) == ["found"]
    assert list(indexable_texts(read_history([{**answer, "name": "memory_search"}]))) == [""]


@given(name=names)
def test_a_prefix_of_a_host_leaves_the_name_ours(name: str) -> None:
    assert names_own_tool(name)


@given(name=st.one_of(foreign, st.none(), st.just("")))
def test_other_tools_are_not_ours(name: str | None) -> None:
    assert not names_own_tool(name)
