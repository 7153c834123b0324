"""New results are made shorter by their structure, the original a handle away; nothing earlier changes."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone
from compacting import Raw, assert_lawful, assistant, outcome, user
from siltstone._native import condense
from siltstone.compaction import CompactionContext, Skip, Trigger, results
from siltstone.compaction.results import CompressConfig
from siltstone.engine import Compacted
from siltstone.messages import encode, read_message
from siltstone.tokens import rule

BLOCKS = rule("blocks")
READ = Trigger("manual", keeps_substitutes=True, reader="memory_get")
ROWS = json.dumps([{"id": n, "state": "open", "title": f"ticket {n}"} for n in range(60)])
LOG = "".join(f"2026-05-01T10:00:{n:02} INFO step {n} done\n" for n in range(60))
CODE = "\n".join(f"def function_{n}(value):\n    return value * {n}" for n in range(40))
DIFF = "@@ -1,40 +1,40 @@\n" + "".join(f" line {n} {chr(97 + n) * 30}\n" for n in range(26)) + "-old\n+new\n"


def call(call_id: str, output: Any, *, name: str = "bash") -> list[Raw]:
    use = {"type": "tool_use", "id": call_id, "name": name, "input": {"at": call_id}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def shorter(raws: list[Raw], trigger: Trigger = READ, **settings: Any) -> dict[int, str]:
    """By sequence number the text of each result that was compressed."""
    history, result = outcome(raws, siltstone.CompressToolOutput(CompressConfig(**settings)), trigger=trigger)
    if isinstance(result, Skip):
        return {}
    assert_lawful(history, result)
    assert not result.discarded
    return {each.message.seq: each.message.parts[0].text for each in result.substitutes}


@pytest.mark.parametrize(
    "text", [ROWS, LOG, DIFF, "x" * 20 + base64.b64encode(bytes(range(256)) * 9).decode()]
)
def test_what_repeats_is_said_once_and_the_first_line_says_how_to_read_it_all(text: str):
    found = shorter([user("Go."), *call("a", text)])
    assert found[2].startswith('[compressed; memory_get("m2") reads the original]\n')
    assert len(found[2]) < len(text) * 0.75


def test_lines_that_an_earlier_result_has_are_named_by_its_handle_and_their_place():
    numbered = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(CODE.split("\n"), 1))
    raws = [user("Go."), *call("a", CODE), *call("b", f"$ cat -n x.py\n{numbered}")]
    assert shorter(raws)[4].split("\n")[1:] == ["$ cat -n x.py", "[lines 2-81 as in m2, lines 1-80]"]


def test_of_two_new_results_the_second_names_the_first_where_that_stays_whole():
    use = [{"type": "tool_use", "id": i, "name": "bash", "input": {}} for i in "ab"]
    results = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": CODE}]}
        for i in "ab"
    ]
    found = shorter([user("Go."), {"role": "assistant", "content": use}, *results])
    assert list(found) == [3]
    assert "as in m2" in found[3]


def test_small_results_and_skills_stay_and_so_does_what_saves_little(monkeypatch):
    assert shorter([user("Go."), *call("a", ROWS[:300])], least_tokens=1_000) == {}
    assert shorter([user("Go."), *call("a", ROWS, name="Skill")]) == {}
    assert shorter([user("Go."), *call("a", ROWS)], Trigger("manual", keeps_substitutes=True)) == {}
    monkeypatch.setattr(results, "MIN_SAVING", 0.9)
    assert shorter([user("Go."), *call("a", ROWS)]) == {}


def test_the_bounds_of_what_is_touched_are_exact(monkeypatch):
    result = call("a", ROWS)
    size = BLOCKS.count([read_message(result[1], 0)])
    found = shorter([user("Go."), *result], least_tokens=size)
    assert list(found) == [2]
    assert shorter([user("Go."), *result], least_tokens=size + 1) == {}
    left = BLOCKS.count([read_message(call("a", found[2])[1], 0)])
    saved = (size - left) / size
    monkeypatch.setattr(results, "MIN_SAVING", saved)
    assert shorter([user("Go."), *result]) == found
    monkeypatch.setattr(results, "MIN_SAVING", saved + 0.001)
    assert shorter([user("Go."), *result]) == {}
    monkeypatch.undo()
    for text in (CODE, CODE.replace("value", "größe")):
        twice = [user("Go."), *call("a", text), assistant("Seen."), *call("b", text)]
        for less, found_at in ((0, [5]), (1, [])):
            monkeypatch.setattr(results, "SEEN_BYTES", len(text.encode()) - less)
            assert list(shorter(twice)) == found_at


def test_a_result_that_another_step_has_cut_is_not_compressed_on_top(tmp_path: Path):
    cut, whole = call("a", LOG * 40), call("b", ROWS)
    with siltstone.MemoryStore.open(tmp_path) as store:
        options: dict[str, Any] = {"policy": siltstone.CompressToolOutput(), "model": None, "memory": store}
        with siltstone.Session.open(None, "s", **options) as session:
            session.append(
                user("Go."), {"role": "assistant", "content": [cut[0]["content"][0], whole[0]["content"][0]]}
            )
            session.offload(cut[1], 800)
            before = session.history()[2]
            assert BLOCKS.count([read_message(before, 0)]) > 400, (
                "large enough, and of a structure that repeats"
            )
            session.append(whole[1])
            shown = session.prepare().history
            assert shown[2] == before
            assert "compressed" in str(shown[3])
            assert session.log()[2] == cut[1]


def test_of_a_result_of_two_texts_the_one_that_has_no_structure_stays_as_it_is():
    plain = " ".join(f"w{n * n * 7919 % 10007}" for n in range(150))
    blocks = [{"type": "text", "text": ROWS}, {"type": "text", "text": plain}]
    history, result = outcome([user("Go."), *call("a", blocks)], siltstone.CompressToolOutput(), trigger=READ)
    assert not isinstance(result, Skip)
    (made,) = result.substitutes
    inner = made.message.raw["content"][0]["content"]  # type: ignore[index, call-overload]
    assert inner[0]["text"].startswith("[compressed; ")
    assert inner[1] == blocks[1]
    assert_lawful(history, result)


def test_it_is_due_at_every_boundary_and_makes_nothing_else_due():
    context = CompactionContext(0, estimated_history_tokens=10, context_window=1_000)
    chain = siltstone.Chain(
        siltstone.ClearToolResults(), siltstone.CompressToolOutput(), siltstone.ThresholdCompactor()
    )
    trigger = chain.should_compact(context)
    assert trigger.action == "compress"
    raws = [user("Go."), *call("a", CODE), assistant("Seen."), *call("b", ROWS)]
    trigger = Trigger(
        "history_tokens", "compress", threshold=1 << 62, keeps_substitutes=True, reader="memory_get"
    )
    _, result = outcome(raws, chain, trigger=trigger)
    assert not isinstance(result, Skip)
    assert [each.message.seq for each in result.substitutes] == [5]
    full = CompactionContext(9, estimated_history_tokens=990, context_window=1_000)
    due = chain.should_compact(full)
    assert due.action != "compress"


def test_in_a_session_nothing_earlier_changes_and_every_original_comes_back(tmp_path: Path):
    outputs = [CODE, ROWS, CODE, LOG, DIFF, "short"]
    raws = [user("Go.")]
    sent: list[str] = []
    with siltstone.MemoryStore.open(tmp_path) as store:
        options: dict[str, Any] = {"policy": siltstone.CompressToolOutput(), "model": None, "memory": store}
        with siltstone.Session.open(None, "s", **options) as session:
            session.append(raws[0])
            for number, output in enumerate(outputs):
                request = [encode(message) for message in session.prepare().messages]
                assert request[: len(sent)] == sent, "the provider's cached prefix stays"
                sent = request
                step = call(f"c{number}", output)
                raws += step
                session.append(*step)
            prepared = session.prepare()
            assert isinstance(prepared.compaction, Compacted) or prepared.compaction is not None
            assert [encode(raw) for raw in session.log()] == [encode(raw) for raw in raws]
            told = json.loads(session.memory_get.call({"handle": "m4", "pattern": "ticket 59"}))
            assert told["matches"] == 1
            view = prepared.messages
            assert len(json.dumps(view)) < len(json.dumps(raws)) * 0.6
        with siltstone.Session.open(None, "s", **options) as session:
            assert session.history() == view


lines = st.sampled_from(
    ["", "  ", "end", "a/b/c.py:1:x", "a/b/c.py:2:y", "@@ -1 +1 @@", " same", "+new", "1 2 3", "---------"]
)
pieces = (
    lines
    | st.text(max_size=30)
    | st.sampled_from(['{"a": 1}', '[{"a":1},{"a":2},{"a":3}]', "\x1b[31mred\x1b[0m", "A" * 300])
)


@given(st.lists(pieces, max_size=30), st.lists(st.lists(pieces, max_size=20), max_size=3))
def test_any_text_becomes_no_longer_than_a_note_and_is_the_same_each_time(
    own: list[str], seen: list[list[str]]
):
    text = "\n".join(own)
    earlier = [(f"m{n}", "\n".join(each)) for n, each in enumerate(seen)]
    made = condense(text, earlier)
    assert made == condense(text, earlier)
    assert len(made.encode("utf-8", "replace")) <= len(text.encode("utf-8", "replace")) + 200
