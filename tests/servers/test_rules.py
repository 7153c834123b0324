"""Do the servers of the tests keep the rules of what they stand for? The real SDKs ask them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed; it comes with the group sdk")
pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the group sdk")

import anthropic
import openai

from servers.provider import Provider, Said, provider
from siltstone import Session
from siltstone.limits import is_context_overflow

Asks = Callable[[Provider, str], Callable[..., Any]]
QUIET: dict[str, Any] = {"api_key": "none", "max_retries": 0}
ASK = {"role": "user", "content": "Where is boat 3?"}
LOOK = {"name": "look_up", "parameters": {"type": "object", "properties": {"of": {"type": "array"}}}}
TOOL = {"type": "function", "function": LOOK}  #: as Chat Completions have it


@pytest.fixture
def asks() -> Iterator[Asks]:
    """A call of the real SDK, for one of the APIs of a server."""
    with ExitStack() as open_clients:

        def of(server: Provider, api: str) -> Callable[..., Any]:
            if api == "messages":
                claude = anthropic.Anthropic(base_url=server.url, **QUIET)
                return open_clients.enter_context(claude).messages.create
            client = open_clients.enter_context(openai.OpenAI(base_url=f"{server.url}/v1", **QUIET))
            return client.chat.completions.create if api == "chat" else client.responses.create

        yield of


@pytest.mark.parametrize(
    ("api", "body", "said"),
    [
        ("chat", {"messages": [ASK], "extra_body": {"banana": 1}}, "Unknown parameter: 'banana'"),
        ("chat", {"messages": [{**ASK, "id": 1}]}, r"Unknown parameter: 'messages\[0\].id'"),
        ("chat", {"messages": [ASK], "tools": [{"type": "function", **LOOK}]}, r"'tools\[0\].function'"),
        ("chat", {"messages": [ASK], "tools": [TOOL]}, "schema missing items"),
        ("chat", {"messages": [ASK], "model": "gpt-5", "temperature": 0.2}, "does not support 0.2"),
        ("chat", {"messages": []}, "Invalid 'messages': empty array"),
        ("responses", {"input": [ASK], "extra_body": {"stop": "x"}}, "Unknown parameter: 'stop'"),
        ("responses", {"input": [ASK], "tools": [TOOL]}, r"'tools\[0\].name'"),
        ("responses", {"input": [ASK], "max_output_tokens": 3}, "below minimum value"),
        ("responses", {"input": [{**ASK, "content": [{"type": "text", "text": "x"}]}]}, "'input_text'"),
        ("messages", {"messages": [ASK], "extra_body": {"banana": 1}}, "banana: Extra inputs"),
        ("messages", {"messages": [ASK], "tools": [TOOL]}, "Input tag 'function'"),
        ("messages", {"messages": [ASK], "tools": [LOOK]}, "tools.0.custom.input_schema: Field required"),
        ("messages", {"messages": [ASK, {"role": "system", "content": "x"}]}, 'Unexpected role "system"'),
        ("messages", {"messages": [ASK], "thinking": {"type": "enabled", "budget_tokens": 9}}, "to 1024"),
        (
            "messages",
            {"messages": [{**ASK, "content": [{"type": "text", "text": "x", "cache_control": {}}] * 5}]},
            "A maximum of 4 blocks with cache_control may be provided. Found 5",
        ),
    ],
)  # fmt: skip
def test_what_a_provider_refuses_is_refused_in_its_words(
    api: str, body: dict[str, Any], said: str, asks: Asks
) -> None:
    with provider() as server, pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=said):
        asks(server, api)(**{"model": "m", **({"max_tokens": 50} if api == "messages" else {}), **body})


@pytest.mark.parametrize("kind", ["cloud", "llama.cpp", "vllm"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "inside HTTP 200"])
def test_a_request_that_is_too_large_is_an_overflow_in_the_words_of_each(
    kind: str, late: bool, asks: Asks
) -> None:
    for api in ("chat", "responses", "messages") if kind == "cloud" else ("chat",):
        with provider(kind) as server:
            server.limit, server.refuses_late = 100, late
            body = {"input" if api == "responses" else "messages": [{**ASK, "content": "word " * 200}]}
            with pytest.raises((openai.APIError, anthropic.APIError)) as caught:  # noqa: PT012 - it may come late
                answer = asks(server, api)(
                    model="m", stream=late, **body, **({"max_tokens": 9} if api != "responses" else {})
                )
                for event in answer if late else ():
                    if event.__class__.__name__ == "ResponseFailedEvent":
                        raise openai.APIError(event.response.error.message, None, body=None)
            assert is_context_overflow(caught.value), api


def test_a_server_with_one_slot_lets_the_second_request_wait_and_reads_less_of_what_it_knows(
    asks: Asks,
) -> None:
    order, hold = list[str](), threading.Event()

    def slowly(body: dict[str, Any]) -> Said:
        name = body["messages"][-1]["content"].split()[0]
        order.append(f"{name} begins")
        hold.wait(60)
        order.append(f"{name} ends")
        return Said(name)

    with provider("llama.cpp") as server:
        server.model, ask = slowly, asks(server, "chat")
        long = {"role": "user", "content": "The sea is calm. " * 50}
        given = [[long, {"role": "user", "content": f"{name} boat?"}] for name in ("first", "second")]
        told = list[Any]()
        threads = [
            threading.Thread(target=lambda each=each: told.append(ask(model="m", messages=each)))
            for each in given
        ]
        for thread in threads:
            thread.start()
        threading.Timer(0.2, hold.set).start()
        for thread in threads:
            thread.join()
        assert [each.split()[1] for each in order] == ["begins", "ends"] * 2
        read = sorted(each.usage.prompt_tokens_details.cached_tokens for each in told)
        assert read[0] == 0
        assert read[1] > told[0].usage.prompt_tokens * 0.9


def test_ollama_drops_what_is_too_much_and_says_nothing(tmp_path: Path, asks: Asks) -> None:
    """Nothing but its count of tokens tells of it: a session that is told the true window loses nothing."""
    seen = list[list[Any]]()
    with provider("ollama") as server:
        server.limit, ask = 1_000, asks(server, "chat")
        server.model = lambda body: seen.append(body["messages"]) or Said("m")
        said = [{"role": "system", "content": "You are a clerk."}]
        said += [
            {"role": "user", "content": f"Boat {number}. " + "It is calm. " * 30} for number in range(20)
        ]
        answer = ask(model="m", messages=said)
        assert answer.usage.prompt_tokens <= 1_000
        assert [seen[0][0], seen[0][-1]] == [said[0], said[-1]]
        assert len(seen[0]) < len(said)
        with Session.open(tmp_path, "s", context_window=1_000, reserved_tokens=100) as session:
            session.append(*said)
            sent = session.prepare().messages
            ask(model="m", messages=sent)
            assert seen[-1] == sent
