"""The five systems a second time, each from its page in ``docs/systems`` alone.

A process plays half of the session and is killed; another one opens it again and plays the rest.
"""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import Session, presets
from siltstone.llm import ToolCall
from siltstone.messages import validate_history

WINDOWS = {"meerkat": 16_000, "spacebot": 16_000, "rustant": 16_000, "waterfall": 64_000, "openclaw": 16_000}
SECRET = "sk-" + "a8Kq2LmZ7vTx0RbN4wYc" * 2
FACT = {"type": "config", "content": "Gate 7 opens with code 4711", "context": ""}
SUMMARY = "The agent read the stations one by one. All values are noted, gate 7 has a code, and work goes on."


def model(request: Any) -> Any:
    """Saves a memory before it summarises, where it has the tool; reads facts where it is asked for them."""
    if request.purpose == "facts":
        return json.dumps([FACT])
    if request.tools and not any(each["role"] == "tool" for each in request.messages):
        call = ToolCall("memory_save", {"content": FACT["content"], "memory_type": "decision"}, "call-1")
        return siltstone.Completion("I save what matters.", tool_calls=(call,), stop_reason="tool_use")
    return SUMMARY


def said(turns: int) -> Iterator[dict[str, Any]]:
    """Turns of an agent: a request, a call, its result, and an answer. Each has a word of its own."""
    yield {"role": "system", "content": "You watch the stations."}
    for turn in range(turns):
        yield {"role": "user", "content": f"Please read station{turn} and tell its value. {FACT['content']}."}
        function = {"name": "read_station", "arguments": json.dumps({"name": f"station{turn}"})}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        report = f"reading{turn} is {turn * 7} at {SECRET}. " + f"line of station {turn}, nothing new. " * 12
        yield {"role": "tool", "tool_call_id": f"c{turn}", "content": report}
        yield {"role": "assistant", "content": f"Noted answer{turn}: " + "the level is stable and dry. " * 14}


def opened(name: str, path: Path, **options: Any) -> Session:
    given = {"preset": name, "context_window": WINDOWS[name], "model": model, "namespace": "team", **options}
    return Session.open(path, given.pop("id", "s"), **given)


def play(session: Session, turns: int) -> list[Any]:
    """Appends what the session does not have yet; each model call has a request before it."""
    requests = []
    for message in list(said(turns))[len(session.log()) :]:
        if message["role"] == "assistant":
            requests.append(session.prepare())
        session.append(message)
        session.wait_for_compaction(10)
    requests.append(session.prepare())
    return requests


TURNS = {"meerkat": 240, "spacebot": 330, "rustant": 60, "waterfall": 82, "openclaw": 90}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function: the store of a system after both halves, and all requests of the second half."""
    known: dict[str, tuple[Path, list[Any]]] = {}

    def of(name: str) -> tuple[Path, list[Any]]:
        if name not in known:
            path = tmp_path_factory.mktemp(name)
            killed = subprocess.run([sys.executable, __file__, name, str(path)], check=False)
            assert killed.returncode == -signal.SIGKILL
            with opened(name, path) as session:
                assert len(session.log()) >= 1 + 4 * (TURNS[name] // 2)
                known[name] = path, play(session, TURNS[name])
        return known[name]

    return of


@pytest.mark.parametrize("name", WINDOWS)
def test_a_killed_session_goes_on_and_loses_nothing(name: str, played: Any) -> None:
    path, requests = played(name)
    expected = [each["role"] for each in said(TURNS[name])]
    with opened(name, path) as session:
        assert [each["role"] for each in session.log()] == expected
        runs = (
            sum(bool(each.trimmed) for each in requests) if name == "openclaw" else len(session.compactions())
        )
        assert runs >= 3
        last = session.prepare()
        sent = str(last.messages)
        for turn in range(0, TURNS[name] - 8, 9):
            found = session.search(f"reading{turn}", limit=5)
            assert f"reading{turn} " in sent or any(f"reading{turn} " in hit.content for hit in found)
        if name in ("spacebot", "rustant", "waterfall"):  # what was sent comes back in a list, as after JSON
            assert "[Summary level" in str(last.history)
            with session.fork("told") as told:
                known = len(told.log())
                host = json.loads(json.dumps(told.prepare().messages))
                told.observe([*host, {"role": "user", "content": "Go on."}])
                assert len(told.log()) == known + 1
                assert "[Summary level" in str(told.prepare().messages)  # from now on it is the host's list
    for request in requests:
        assert "[Summary level" not in str(request.messages)  # the text of the system's page alone
        assert request.tokens <= WINDOWS[name]
        assert validate_history(request.messages, pending_ok=True) == []


def test_meerkat_replaces_whole_old_turns_at_four_fifths(played: Any) -> None:
    path, requests = played("meerkat")
    sizes = [each.tokens for each in requests]
    falls = [at for at in range(1, len(sizes)) if sizes[at] < sizes[at - 1] // 2]
    assert falls
    assert all(12_000 < sizes[at - 1] < 12_800 + 1_000 for at in falls)
    texts = [str(message["content"]) for message in requests[falls[-1]].messages]
    users = [text for text in texts if text.startswith("Please read")]
    assert len(users) == 4 + 1  # the newest complete turns, and the present one
    assert "memory_search" in texts[0]  # how the model is taught, at the end of the system prompt
    with opened("meerkat", path) as session:
        assert session.tools[0].name == "memory_search"
        hits = json.loads(session.memory_search.call({"query": "reading3 is 21"}))
        assert 0 < len(hits) <= 5


def test_spacebot_stacks_summaries_and_its_fork_has_what_the_worker_saved(
    played: Any, tmp_path: Path
) -> None:
    path, _ = played("spacebot")
    with opened("spacebot", path) as session:
        summaries = [
            str(each["content"]) for each in session.history()[:4] if "Summary" in str(each["content"])
        ]
        assert len(summaries) >= 2
        assert all(each.startswith("[Summary ") for each in summaries)
        with session.fork("branch", prompt="Which code has gate 7?") as branch:
            assert branch.facts("code of gate 7")[0].content == FACT["content"]

    def broken(_: Any) -> str:
        raise RuntimeError("the model is down")

    with opened("spacebot", tmp_path, model=broken) as session:
        most = max(each.tokens for each in play(session, TURNS["spacebot"]))
        assert most < 0.96 * 16_000  # the emergency needs no model
        assert not session.facts()

    def slow(_: Any) -> str:
        time.sleep(2)
        return SUMMARY

    with opened("spacebot", tmp_path, id="slow", model=slow) as session:
        for message in takewhile(lambda _: session.prepare().tokens < 0.81 * 16_000, said(400)):
            session.append(message)
        begun = time.perf_counter()
        session.prepare()
        assert time.perf_counter() - begun < 1  # the conversation goes on


def test_rustant_has_twenty_in_view_and_rules_for_later_sessions(played: Any, tmp_path: Path) -> None:
    path, requests = played("rustant")
    assert (
        max(len(each.messages) for each in requests) <= 20 + 1 + 3
    )  # a summary, and a group over the border
    with opened("rustant", path, id="later") as later:
        assert later.facts("reading") or later.facts("station")  # results of tools are facts
        for goal in ("tidy up", "make room", "begin anew"):
            later.record_denial("shell", "rm -rf build", "use make clean", goal)
    with opened("rustant", path, id="latest") as latest:
        latest.append({"role": "system", "content": "You build."})
        latest.append({"role": "user", "content": "Clean the tree."})
        assert "use make clean" in latest.prepare().messages[0]["content"]
    off = presets.rustant.from_config("[search]\nenabled = false\n")
    with opened("rustant", tmp_path, preset=off, model=None) as session:
        play(session, 12)
        assert session.search("reading1") == []


def test_waterfall_runs_at_129_and_every_64_and_its_vault_is_whole(played: Any) -> None:
    path, requests = played("waterfall")
    assert str(requests[-1].messages).count(SUMMARY) == 2  # the recent and the long-term one
    with opened("waterfall", path) as session:
        ends = [record.covers[-1][1] for record in session.compactions()]
        assert [each - ends[0] for each in ends] == [64 * at for at in range(len(ends))]
        assert len(ends) == (len(session.log()) - 1 - 65) // 64
        assert session.memory_status().line.startswith("[Memory: ")
    texts = [each.read_text() for each in (path / "vault" / "s").rglob("*.md")]
    assert sum(SUMMARY in text for text in texts) >= 2 + len(
        ends
    )  # both, and a dated copy of each recent one
    assert all(any(f"answer{turn}:" in text for text in texts) for turn in range(TURNS["waterfall"]))


def test_openclaw_recalls_what_it_trimmed_and_its_files_hold_no_secret(played: Any, tmp_path: Path) -> None:
    path, _ = played("openclaw")
    with opened("openclaw", path) as session:
        session.append({"role": "user", "content": "What was reading5 of station5?"})
        request = session.prepare()
        kept = [str(each["content"]) for each in request.messages]
        assert any("reading5 is 35" in text for text in kept)
        assert request.tokens <= 16_000
        session.learn()
        assert [fact.content for fact in session.facts("code of gate 7")] == [FACT["content"]]
    files = [each for each in path.rglob("*") if each.is_file()]
    assert not any(SECRET.encode() in each.read_bytes() for each in files)
    folder = path / "memory" / "context"
    segments = [json.loads(line) for line in (folder / "segments.jsonl").read_text().splitlines()]
    assert {each["sessionId"] for each in segments} == {"s"}
    magic, version, dimension, count = struct.unpack("<IIII", (folder / "vectors.bin").read_bytes()[:16])
    assert (magic.to_bytes(4, "little"), version, dimension, count) == (b"VMEM", 1, 384, len(segments))
    assert any(json.loads(line)["content"] == FACT["content"]
               for line in (folder / "knowledge.jsonl").read_text().splitlines())  # fmt: skip
    off = presets.openclaw.from_config('{"agents": {"defaults": {"memoryContext": {"enabled": false}}}}')
    with opened("openclaw", tmp_path, preset=off) as session:
        play(session, 20)
    assert not list(tmp_path.rglob("*.jsonl"))


if __name__ == "__main__":
    with opened(sys.argv[1], Path(sys.argv[2])) as half:
        play(half, TURNS[sys.argv[1]] // 2)
        signal.raise_signal(signal.SIGKILL)
