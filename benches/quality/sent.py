"""The requests of a session and the hits of its search, beside those of an earlier run: `make requests`.

The figures of "before" are what users of an earlier build reported; their 32 facts were others than ours.
Needs the recorded agent sessions (``SILTSTONE_DATA``) for the first rows, and no network.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from siltstone import (
    CompactionConfig,
    ExtractiveModel,
    Prepared,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    compact,
)
from siltstone.engine import Compacted

DATA = Path(os.environ.get("SILTSTONE_DATA", "../shared/data"))
WINDOW = 8_000
FACTS = 32
ROUNDS = (1, 3, 10)

Row = tuple[str, str, str]  # what is measured, before, after


def played(messages: list[Any], **options: Any) -> Iterator[tuple[int, Prepared]]:
    """The request before each answer of *messages*, and the number of messages by then."""
    store = SimpleMemoryStore()
    with Session.open(None, "x", memory=store, context_window=WINDOW, **options) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                yield at, session.prepare()
            session.append(message)
        yield len(messages), session.prepare()


def texts(messages: list[Any]) -> set[str]:
    """The words of users in *messages*, without results."""
    found: set[str] = set()
    for raw in messages:
        content = raw["content"] if raw["role"] == "user" else []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.update(block["text"] for block in blocks if block.get("type") == "text")
    return found


def newest_words(messages: list[Any]) -> set[str]:
    """The texts of the newest user message that has one."""
    return next((found for raw in reversed(messages) if (found := texts([raw]))), set())


def real_sessions() -> Iterator[Row]:
    """Of two recorded agents: requests without the user's newest words, and the largest request."""
    path = DATA / "agent-messages-dev.jsonl"
    if not path.is_file():
        yield "the two real sessions", "", f"not measured: there is no {path}"
        return
    before = ("36 of 149", "63 of 171")
    for line, earlier in zip(path.read_text("utf-8").splitlines(), before, strict=True):
        messages = json.loads(line)["messages"]
        sent = list(played(messages, model=ExtractiveModel()))
        missing = sum(not newest_words(messages[:at]) <= texts(prepared.messages) for at, prepared in sent)
        name = f"requests of a real session without the user's newest words, window {WINDOW:,}"
        yield name, earlier, f"{missing} of {len(sent)}"
        peak = max(prepared.tokens for _, prepared in sent)
        yield "the largest of these requests, in tokens; four fifths of the window are 6,400", "", f"{peak:,}"


def exchange(name: str, call_id: str, answer: str) -> list[dict[str, Any]]:
    """A call and its answer, and the last word of the turn."""
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call_id, "content": answer},
        {"role": "assistant", "content": "Noted."},
    ]


def echo() -> Row:
    """For how many of 32 facts the tool's answer has the evidence, after asking for all of them N times."""
    with tempfile.TemporaryDirectory() as path, Session.open(path, "echo", context_window=WINDOW) as session:
        found = echoed(session)
    name = f"facts of {FACTS} that memory_search finds, at first and after 1, 3, 10 rounds of asking for all"
    return name, "29, 21, 3, 1", ", ".join(found)


def echoed(session: Session) -> list[str]:
    """The same for one session: how many are found, at first and after some of the rounds."""
    facts = {f"station {number * 7 + 11}": f"code {7_000 + 37 * number}" for number in range(FACTS)}
    for place, code in facts.items():
        told = f"The gate of {place} opens with {code}. "
        session.append({"role": "user", "content": told + "It rained all day on the dam. " * 40})
        session.prepare()
        session.append({"role": "assistant", "content": "I see."})
    session.compact()
    found = []
    for asked in range(max(ROUNDS) + 1):
        hits = 0
        for number, (place, code) in enumerate(facts.items()):
            answer = session.memory_search.call({"query": f"Which code opens the gate of {place}?"})
            hits += code in answer
            session.append({"role": "user", "content": f"And {place}? " + "Look it up, please. " * 20})
            session.append(*exchange("memory_search", f"call_{asked}_{number}", answer))
            session.prepare()
        if asked in (0, *ROUNDS):
            found.append(str(hits))
    return found


def dead_summariser() -> Row:
    """How often a summariser that is down is called over 149 requests."""
    calls = 0

    def down(_: Any) -> str:
        nonlocal calls
        calls += 1
        raise ConnectionError("no route to host")

    said: list[Any] = [{"role": "user", "content": "Build it."}]
    for number in range(148):
        said += exchange("run", f"call_{number}", f"{number} " + "a line of the log " * 170)[:2]
    policy = ThresholdCompactor(CompactionConfig(retry_delay=0))
    sent = list(played(said, policy=policy, model=down))
    return f"calls of a dead summariser over {len(sent)} requests", "", f"{calls} (at most 12)"


def oversized() -> Row:
    """Results of a tool that stay in the request beside one that is larger than the window."""
    said: list[Any] = [{"role": "user", "content": "Find the failing valve."}]
    for number in range(10):
        said += exchange("read", f"call_{number}", f"KEPT{number} " + "data " * 300)[:2]
    said += exchange("read", "call_big", "BIG " + "row of the big table\n" * 2_500)[:2]
    *_, (_, last) = played(said)
    shown = json.dumps(last.messages)
    kept = sum(f"KEPT{number} " in shown for number in range(10))
    there = "and the large one, cut" if "BIG " in shown else "without the large one"
    return (
        "older results beside one larger than the window",
        "0 of 10, and not the large one",
        f"{kept} of 10, {there}",
    )


def through_json() -> Row:
    """Levels of the summary where the history goes through JSON after each of five compactions."""
    history: list[Any] = []
    levels = []
    for turn in range(5):
        for number in range(12):
            asked = f"Rule {turn}-{number}: never exceed {number} bar. " + "Mind the gauge. " * 30
            history += [{"role": "user", "content": asked}, {"role": "assistant", "content": "Noted."}]
        done = compact(history, ThresholdCompactor(), model=ExtractiveModel(), context_window=WINDOW)
        history = json.loads(json.dumps(done.messages))
        levels.append(str(done.level) if isinstance(done, Compacted) else "none")
    return "levels of a summary that goes through JSON, five compactions", "", ", ".join(levels)


def main() -> None:
    """Prints the table."""
    rows = [*real_sessions(), echo(), dead_summariser(), oversized(), through_json()]
    print("| what | before | now |\n|---|---|---|")
    for name, before, now in rows:
        print(f"| {name} | {before} | {now} |", flush=True)


if __name__ == "__main__":
    main()
