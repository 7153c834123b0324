"""What users of background compaction expect of a repair before a call, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from compacting import assistant, exchange, filler, user
from playing import Play
from shapes import ask, call, result, results, say, use
from siltstone import TieredCompactor, TieredConfig
from siltstone.compaction import Trigger
from siltstone.engine import Compacted
from siltstone.messages import broken_tool_groups, repair, validate_history
from siltstone.messages.dialects.base import NO_RESULT

Raw = dict[str, Any]
PAIRED = [
    ask(), call("a"), result("a"), say(), ask(), use("b"), results("b"), say(),
]  # fmt: skip


@pytest.mark.parametrize("history", [PAIRED[:4], PAIRED[4:], [], [ask()]])
def test_sb_50_a_paired_history_is_untouched_and_the_report_says_so(history: list[Raw]):
    healed = repair(history)
    assert [id(raw) for raw in healed.messages] == [id(raw) for raw in history]
    assert healed.findings == ()


@pytest.mark.parametrize("cut", range(1, 6))
def test_sb_52_a_history_forked_in_mid_turn_is_repaired(cut: int):
    whole = [ask(), call("a", "b"), result("a"), result("b"), call("c"), result("c"), say()]
    forked = [*whole[cut:], ask("go on")]
    healed = repair(forked)
    assert broken_tool_groups(healed.messages) == 0
    assert validate_history(healed.messages) == []
    assert forked[-1] in healed.messages


def test_sb_53_a_result_is_matched_by_the_id_of_its_call_alone():
    chat = [ask(), {**call("a"), "id": "message-1"}, {**result("a"), "name": "another"}, say()]
    items: list[Raw] = [
        ask(),
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "ok"},
        say(),
    ]
    assert repair(chat).findings == ()
    assert repair(items, "openai.responses").findings == ()
    items[2] = {"type": "function_call_output", "call_id": "fc_1", "output": "ok"}
    assert [each.rule for each in repair(items, "openai.responses").findings][-1] == "orphan-result"


@pytest.mark.parametrize(("length", "cut"), [(1_024, False), (1_025, True), (50_000, True)])
def test_sb_58_a_long_result_is_cut(length: int, cut: bool):
    (quoted,) = repair([result("a", "x" * length)]).messages
    body = quoted["content"].split("\n")[2]
    assert len(body) == 1_024
    assert body.endswith("…[truncated]") == cut


def test_sb_59_only_calls_before_the_last_answer_are_taken_for_dead_and_answered_ones_never():
    history = [ask(), call("a", "b"), result("b"), ask(), call("c", "d"), result("c")]
    healed = repair(history)
    assert [raw for raw in healed.messages if raw in history] == history, "no call and no result leaves"
    assert {"role": "tool", "tool_call_id": "a", "content": NO_RESULT} in healed.messages
    assert not any(raw.get("tool_call_id") == "d" for raw in healed.messages), "it may still be answered"


def test_sb_60_a_repair_is_idempotent_and_finds_nothing_after_a_compaction():
    broken = [ask(), call("a"), say(), result("a"), result("z"), ask(), say()]
    once = repair(broken)
    twice = repair(once.messages)
    assert (twice.messages, twice.findings) == (once.messages, ())
    session = Play(TieredCompactor(TieredConfig(retry_delay=0)), window=4_000)
    for n in range(12):
        session.append(user(f"Request {n}."), *exchange(f"c{n}", filler(60)), assistant("Done."))
    for action in ("background", "aggressive", "emergency"):
        outcome = session.compact(Trigger("fraction", action, context_window=4_000))
        assert isinstance(outcome, Compacted)
        sent = [message.raw for message in session.view]
        healed = repair(sent)
        assert healed.findings == (), action
        assert [id(raw) for raw in healed.messages] == [id(raw) for raw in sent]
