"""What each provider refuses, a case and its opposite for each rule; and that no compaction adds to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, fc, out, result, results, rs, say, thought, use
from siltstone import Emergency, ThresholdCompactor, compact
from siltstone.errors import ContextOverflowError
from siltstone.messages import Finding, read_history, validate_history
from siltstone.systems.meerkat import CompactionConfig
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
def test_a_history_that_lost_a_message_of_an_exchange_is_not_legal(
    raws: list[Raw], data: st.DataObject
) -> None:
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
