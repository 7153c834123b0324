"""Whole agents on the real SDKs, turn after turn, against a provider that refuses what providers refuse.

Their windows are smaller than they were told, their summariser is dead for a quarter of the time, and they
search their memory all the while. Needs the dependency group ``sdk``; nothing leaves the machine.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed; it comes with the group sdk")
pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the group sdk")

import openai

from sdk_loops import AGENTS, Agent, AnthropicAgent
from servers.provider import Provider, Refusal, Said, provider
from siltstone import Session, Tool, models
from siltstone.limits import is_context_overflow
from siltstone.messages import read_history

DECLARED = 16_000  #: tokens of the window, as the session is told
RESERVED = 2_850  #: of them, for the definitions of tools, the system prompt, and 2,048 of an answer
STATIONS = [f"{first}{last}" for first in ("Alder", "Birch", "Cedar", "Ember") for last in ("dale", "ford")]
WORDS = [
    "weir", "sluice", "gate", "pump", "gauge", "bank", "ditch", "reed", "silt", "level", "flow", "crest",
    "apron", "pier", "wing", "wall",
]  # fmt: skip


@dataclass
class Model:
    """What the provider's models say, and what they saw."""

    provider: Provider
    script: list[Said] = field(default_factory=list)
    newest: str = ""
    without: int = 0  #: requests without the newest words of the user
    is_dead: bool = False
    summaries: int = 0
    deaths: int = 0

    def __call__(self, body: dict[str, Any]) -> Said:
        if body["model"] == "summariser":
            if self.is_dead:
                self.deaths += 1
                raise Refusal("The server had an error.", kind="server_error", status=500)
            self.summaries += 1
            return Said(f"s{self.summaries}", f"Summary {self.summaries}: parts of the weir were mended.")
        said = json.dumps(body.get("messages") or body.get("input"), ensure_ascii=False)
        self.without += json.dumps(self.newest, ensure_ascii=False)[1:-1] not in said
        return self.script.pop(0)


def prose(seed: str, words: int) -> str:
    """Sentences that say nothing, always the same ones for a seed."""
    chosen = random.Random(seed)
    return " ".join(f"{chosen.choice(WORDS)}{'.' if at % 9 == 8 else ''}" for at in range(words))


def read_part(part: int) -> str:
    """A file; each fifteenth is larger than the window."""
    return f"part {part}: " + prose(f"file {part}", 9_000 if part % 15 == 7 else 250)


def tool(name: str, argument: str, run: Callable[[int], str]) -> Tool:
    schema = {"type": "object", "properties": {argument: {"type": "integer"}}, "required": [argument]}
    return Tool(name, f"Gives the {name} of a number.", schema, lambda given: run(given[argument]))


TOOLS = (tool("read_part", "part", read_part), tool("level", "gauge", lambda gauge: f"{gauge * 3} mm"))


def turn_of(number: int) -> tuple[str, list[Said]]:
    """What the user says in a turn, and what the model answers: a thought, calls at once, calls again."""
    said = f"Task {number}: mend part {number} of the weir. {prose(f'task {number}', 40)}"
    if number < len(STATIONS):
        said += f" The gate code of the station {STATIONS[number]} is {7_000 + 37 * number}."
    calls: list[tuple[str, dict[str, Any]]] = [("read_part", {"part": number}), ("level", {"gauge": number})]
    if number % 4 == 3:
        station = STATIONS[number % len(STATIONS)]
        calls.append(("memory_search", {"query": f"gate code of the station {station}", "limit": 3}))
    if number % 15 == 8:
        calls.append(("memory_get", {"handle": "m0", "lines": "1-5"}))
    answers = [Said(f"{number}a", "I look." if number % 2 else "", f"Part {number} first.", tuple(calls))]
    if number % 3 == 0:
        again = (("read_part", {"part": 1_000 + number}),)
        answers.append(Said(f"{number}b", "", f"And part {1_000 + number}.", again))
    answers.append(Said(f"{number}c", f"Part {number} is mended. {prose(f'answer {number}', 60)}"))
    return said, answers


def recall(session: Session) -> int:
    """Of how many stations the code is in the answer of the tool."""
    return sum(
        str(7_000 + 37 * number)
        in session.memory_search.call({"query": f"gate code of the station {station}"})
        for number, station in enumerate(STATIONS)
    )


def played(agent: Agent, model: Model, turns: int) -> dict[str, Any]:
    """Plays *turns*; the figures of it. Another process might go on half way: the session is opened anew."""
    first_half = 0
    for number in range(turns):
        model.is_dead = turns // 2 <= number < turns // 2 + turns // 4
        said, model.script = turn_of(number)
        model.newest = said
        if number % 7 == 5 and isinstance(agent, AnthropicAgent):
            agent.steering = f"And be careful with part {number}, please."
        agent.turn({"role": "user", "content": said}, stream=number % 2 == 1)
        assert model.script == []
        if number == turns // 2 - 1:
            agent.session.compact()
            first_half = recall(agent.session)
    agent.session.compact()
    refused = model.provider.refused
    return {
        "turns": turns,
        "requests": agent.requests,
        "without_newest_words": model.without,
        "refused_as_illegal": sum(r.status == 400 and not is_context_overflow(_error(r)) for r in refused),
        "refused_as_too_large": agent.recoveries,
        "summaries": model.summaries,
        "calls_of_the_dead_summariser": model.deaths,
        "recall_half_way": first_half,
        "recall_at_the_end": recall(agent.session),
        "stations": len(STATIONS),
    }


def _error(refusal: Refusal) -> Exception:
    return ValueError(refusal.message)


@pytest.mark.parametrize("dialect", AGENTS)
@pytest.mark.parametrize(
    ("turns", "real"),
    [
        (32, 15_000),
        pytest.param(200, 15_000, marks=pytest.mark.slow),
        pytest.param(200, 10_000, marks=pytest.mark.slow),
    ],
)
def test_an_agent_goes_on_whatever_happens(dialect: str, turns: int, real: int, tmp_path: Path) -> None:
    """A window that is a sixteenth smaller than declared costs no refusal; of one much smaller it learns.

    A request that was refused as too large is made smaller and sent again: no turn stays unanswered.
    """
    with provider() as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        server.limit = real
        model = server.model = Model(server)
        with Session.open(
            tmp_path,
            "agent",
            model=models.openai("summariser", client.with_options(max_retries=0)),
            context_window=DECLARED,
            reserved_tokens=RESERVED,
            check=True,
        ) as session:
            agent = AGENTS[dialect](server.url, session, TOOLS)
            figures = played(agent, model, turns)
            print(f"\n{dialect}, window {real:,} of {DECLARED:,}: {figures}")
            assert figures["refused_as_illegal"] == 0
            assert figures["refused_as_too_large"] <= (0 if real > 12_000 else 3)
            assert figures["without_newest_words"] == 0
            assert figures["recall_at_the_end"] >= figures["recall_half_way"] >= len(STATIONS) - 1
            assert figures["calls_of_the_dead_summariser"] <= 12
            assert session.context_window is not None
            assert session.context_window <= (DECLARED if real > 12_000 else real)
            assert len(session.log()) > turns * 4


@pytest.mark.parametrize("dialect", AGENTS)
def test_an_agent_goes_on_after_each_call_that_its_model_made_wrongly(tmp_path: Path, dialect: str) -> None:
    wrong: list[tuple[str, Any]] = [
        ("memory_search", {"query": "gate", "limit": "5"}),
        ("memory_search", {"query": "gate", "since": "once upon a time"}),
        ("memory_get", {"handle": None}),
        ("memory_find", {}),
    ]
    if dialect != "anthropic":  # its arguments are an object
        wrong += [("memory_search", '{"query": "gate"'), ("memory_search", "")]
    script = [Said("0", "I look.", "One moment.", tuple(wrong)), Said("1", "Noted."), Said("2", "Yes?")]
    with provider() as server, Session.open(tmp_path, "s") as session:
        server.model = lambda body: script.pop(0)
        agent = AGENTS[dialect](server.url, session, [])
        agent.turn({"role": "user", "content": "What is the gate code?"})
        agent.turn({"role": "user", "content": "Thank you."})
        assert (script, server.refused) == ([], [])
        answers = [part for each in read_history(session.log()) for part in each.parts]
        told = [json.loads(part.text)["error"] for part in answers if part.kind == "tool_result"]
        assert len(told) == len(wrong)
