"""Steps that need no model and discard nothing: old results and second readings become receipts."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone
from compacting import Raw, assert_lawful, assistant, exchange, filler, outcome, user
from siltstone.compaction import CompactionContext, Skip, Trigger
from siltstone.compaction.results import (
    _READS,
    ClearConfig,
    InPlace,
    InPlaceConfig,
    ToolResult,
    loads_what_is_used,
)
from siltstone.engine import Compacted
from siltstone.messages import SubstituteMessage, read_history, validate_history
from siltstone.tokens import rule

BLOCKS = rule("blocks")
READ = Trigger("manual", keeps_substitutes=True, reader="memory_get")


def clear(**settings: Any) -> siltstone.ClearToolResults:
    return siltstone.ClearToolResults(ClearConfig(**{"min_reclaim": 0, **settings}))


def drop() -> siltstone.DropDuplicateReads:
    return siltstone.DropDuplicateReads(InPlaceConfig(min_reclaim=0))


def call(call_id: str, output: Any, *, name: str = "read_file", **arguments: Any) -> list[Raw]:
    """A call and its result, in Anthropic's words."""
    use = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def item(call_id: str, output: str) -> list[Raw]:
    """The same in items of the Responses API."""
    return [
        {"type": "function_call", "call_id": call_id, "name": "read_file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def replaced(policy: InPlace, raws: Sequence[Raw], trigger: Trigger = READ) -> dict[int, str]:
    """By sequence number the text of each result that was replaced."""
    history, result = outcome(raws, policy, trigger=trigger)
    if isinstance(result, Skip):
        return {}
    assert_lawful(history, result)
    assert result.retained == tuple(history)
    assert not result.discarded
    return {
        each.message.seq: "|".join(part.text for part in each.message.parts if part.kind == "tool_result")
        for each in result.substitutes
    }


@pytest.mark.parametrize("step", [exchange, call, item], ids=["chat", "anthropic", "responses"])
def test_all_but_the_newest_results_become_receipts_with_a_handle(step: Any):
    raws = [user("Go."), *(raw for n in range(6) for raw in step(f"c{n}", filler(200 + n)))]
    found = replaced(clear(keep_results=2), raws)
    assert sorted(found) == [2, 4, 6, 8]
    for seq, text in found.items():
        tokens = BLOCKS.count_text(filler(200 + (seq - 2) // 2))
        assert text == (
            f'[result of read_file cleared: {tokens:,} tokens in 1 line; memory_get("m{seq}") reads it]'
        )
    assert validate_history(read_history(raws)) == []


def test_calls_words_and_media_stay_as_they_were():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    raws = call("a", [{"type": "text", "text": filler(300)}, image], path="a.py")
    raws[1]["content"].append({"type": "text", "text": "Now the other one."})
    history, result = outcome([user("Go."), *raws], clear(keep_results=0), trigger=READ)
    assert not isinstance(result, Skip)
    block, words = result.messages[2].raw["content"]  # type: ignore[index]
    assert block["content"][1] == image
    assert words == {"type": "text", "text": "Now the other one."}
    assert result.messages[1] is history[1]


def test_small_results_pinned_ones_and_those_in_use_stay():
    raws = [user("Go.")]
    for number, (name, words) in enumerate([("a", 300), ("b", 300), ("c", 20), ("d", 300)]):
        raws += call(f"i{number}", filler(words), name=name)
    pinned = replace(READ, pins=frozenset({2}))
    assert sorted(
        replaced(clear(keep_results=0, in_use=lambda result: "b" in result.tools), raws, pinned)
    ) == [8]


def test_for_less_than_the_least_reclaim_nothing_is_touched():
    raws = [user("Go."), *call("a", filler(200)), *call("b", filler(200))]
    _, result = outcome(raws, clear(keep_results=0, min_reclaim=1_000), trigger=READ)
    assert isinstance(result, Skip)
    assert (result.reason, "min_reclaim is 1000" in result.message) == ("too_little", True)
    assert len(replaced(clear(keep_results=0, min_reclaim=300), raws)) == 2


def test_what_was_cleared_is_not_cleared_again_and_a_cut_result_tells_its_whole_size():
    raws = [user("Go."), *call("a", filler(400)), *call("b", filler(400))]
    _, first = outcome(raws, clear(keep_results=0), trigger=READ)
    assert not isinstance(first, Skip)
    view = [message.raw for message in first.messages]
    assert isinstance(outcome(view, clear(keep_results=0), trigger=READ)[1], Skip)
    cut = f'{filler(60)}\n[… 5,000 tokens cut; memory_get("m2") reads them …]\n{filler(60)}'
    told = replaced(clear(keep_results=0), [user("Go."), *call("a", cut)])
    assert f"{5_000 + BLOCKS.count_text(cut):,} tokens" in told[2]


@pytest.mark.parametrize(
    "loaded",
    [
        call("s", filler(300), name="Skill", skill="pdf"),
        call("s", filler(300), name="tool_search", query="tickets"),
        call("s", [{"type": "tool_reference", "tool_name": "x"}, {"type": "text", "text": filler(300)}]),
    ],
)
def test_what_loaded_a_skill_or_a_tool_stays(loaded: list[Raw]):
    raws = [user("Go."), *loaded, *call("b", filler(300))]
    assert sorted(replaced(clear(keep_results=0), raws)) == [4]


def test_a_host_says_what_else_is_in_use():
    def is_plan(result: ToolResult) -> bool:
        return loads_what_is_used(result) or "read_plan" in result.tools

    raws = [user("Go."), *call("a", filler(300), name="read_plan"), *call("b", filler(300), name="skill")]
    raws += call("c", filler(300))
    assert sorted(replaced(clear(keep_results=0, in_use=is_plan), raws)) == [6]


def test_the_same_reading_stands_once_where_it_was_read_last():
    raws = [user("Go.")]
    raws += call("a", "one " * 200, path="a.py", limit=2)
    raws += call("b", "other " * 200, path="b.py")
    raws += call("c", "two " * 200, limit=2, path="a.py")
    assert replaced(drop(), raws) == {
        2: '[read again in m6: 200 tokens in 1 line; memory_get("m2") reads it]'
    }


def test_the_same_text_counts_once_whatever_the_tool():
    raws = [user("Go."), *call("a", filler(200), name="run", command="x")]
    raws += call("b", filler(200), name="bash", command="y")
    assert replaced(drop(), raws) == {
        2: '[the same text in m4: 250 tokens in 1 line; memory_get("m2") reads it]'
    }


def test_what_only_does_something_is_no_reading_and_a_failure_supersedes_none():
    tests = [raw for n in range(2) for raw in call(f"r{n}", f"run {n} " * 100, name="run_tests")]
    failed = [*call("a", "one " * 200, path="a.py"), *call("b", "no such file " * 100, path="a.py")]
    failed[3]["content"][0]["is_error"] = True
    assert replaced(drop(), [user("Go."), *tests, *failed]) == {}


@pytest.mark.parametrize(
    ("tool", "reads"),
    [("Read", True), ("read_file", True), ("fs.readFile", True), ("mcp__x__list_dir", True), ("Grep", True),
     ("get_weather", True), ("Bash", False), ("run_tests", False), ("spread", False), ("budget", False)],
)  # fmt: skip
def test_names_say_which_tools_read(tool: str, reads: bool):
    assert bool(_READS.search(tool)) is reads


def test_a_step_is_due_from_half_of_the_window_on():
    policy = clear()
    context = CompactionContext(0, estimated_history_tokens=400, reserved_tokens=99, context_window=1_000)
    assert policy.should_compact(context) is None
    due = policy.should_compact(replace(context, reserved_tokens=100))
    assert (due.tokens, due.threshold, due.action) == (500, 500, "clear-tool-results")
    unknown = replace(context, context_window=None)
    assert policy.should_compact(unknown) is None
    assert policy.should_compact(replace(unknown, estimated_history_tokens=50_000)) is not None


def test_in_a_list_without_a_session_a_receipt_names_no_tool_that_reads_it():
    raws = [user("Go."), *call("a", filler(400))]
    done = siltstone.compact(raws, policy=clear(keep_results=0), model=None, context_window=300)
    assert isinstance(done, Compacted)
    told = done.messages[2]["content"][0]["content"]
    assert told == "[result of read_file cleared: 500 tokens in 1 line]"


def opened(store: siltstone.MemoryStore, policy: Any, **options: Any) -> siltstone.Session:
    return siltstone.Session.open(None, "s", policy=policy, model=None, memory=store, **options)


def test_in_a_session_a_receipt_leads_to_the_original_by_range_and_pattern_and_by_search(tmp_path: Path):
    lines = "\n".join(f"row {n}: zebra{n}" for n in range(300))
    raws = [user("Go."), *call("a", lines), *call("b", filler(200)), assistant("Seen.")]
    with siltstone.MemoryStore.open(tmp_path) as store:
        with opened(store, clear(keep_results=1, trigger_fraction=0.1), context_window=10_000) as session:
            session.append(*raws)
            prepared = session.prepare()
            assert isinstance(prepared.compaction, Compacted)
            assert "cleared" in json.dumps(prepared.messages)
            assert "zebra250" not in json.dumps(prepared.messages)
            assert isinstance(prepared.messages[2], SubstituteMessage)
            page = json.loads(session.memory_get.call({"handle": "m2", "lines": "100-101"}))
            assert page["content"] == "100: row 99: zebra99\n101: row 100: zebra100"
            page = json.loads(session.memory_get.call({"handle": "m2", "pattern": "zebra29[89]"}))
            assert page["matches"] == 2
            assert session.search("zebra123")
            assert session.log()[2] == raws[2]
            assert session.expand(session.compactions()[0].id) == [raws[2]]
            view = session.prepare().messages
        with opened(store, clear(trigger_fraction=0.1), context_window=10_000) as session:
            assert session.history() == view
            session.undo_compaction()
            assert session.history() == raws
            assert all(hit.in_context for hit in session.search("zebra123"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["Read", "run", "Skill"]), st.integers(0, 3), st.integers(1, 400)),
        max_size=12,
    ),
    st.integers(0, 4),
    st.sampled_from([clear, drop]),
)
def test_whatever_was_read_the_rewrite_is_lawful_smaller_and_says_every_result(
    asked: list[tuple[str, int, int]], keep: int, make: Any
):
    raws = [user("Go.")]
    for number, (name, path, words) in enumerate(asked):
        raws += call(f"c{number}", f"{path} " * words, name=name, path=path)
    settings = {"keep_results": keep} if make is clear else {}
    history, result = outcome(raws, make(**settings), trigger=READ)
    if isinstance(result, Skip):
        return
    assert_lawful(history, result)
    assert BLOCKS.count(result.messages) < BLOCKS.count(history)
    assert len(result.messages) == len(history)
    again = outcome([message.raw for message in result.messages], make(**settings), trigger=READ)[1]
    assert isinstance(again, Skip) or make is drop


@pytest.mark.parametrize("ask", [{"pattern": "zebra19"}, {"lines": "3-5"}])
def test_no_range_and_no_pattern_reads_the_original_of_a_receipt_that_was_forgotten(ask: dict[str, Any]):
    store, step = siltstone.SimpleMemoryStore(), clear(keep_results=0, trigger_fraction=0.1)
    with siltstone.Session.open(
        None, "s", policy=step, model=None, memory=store, context_window=20_000
    ) as session:
        secret = "\n".join(f"row {n}: zebra{n}" for n in range(900))
        session.append(user("Go."), *exchange("a", secret), *exchange("b", "Short."))
        assert "zebra" not in str(session.prepare().messages)
        arguments = {"handle": "m2", **ask}
        assert "zebra" in session.memory_get.call(arguments)
        store.forget(session_id="s", start=2, end=3)
        with pytest.raises(siltstone.InvalidArgumentsError, match="no message 'm2'"):
            session.memory_get.run(arguments)
        assert session.search("zebra19") == []
        assert "zebra" not in str(session.prepare().messages)
        assert all("zebra" not in str(session.expand(each.id)) for each in session.compactions())
