"""The SDKs of OpenAI and Anthropic after a restart of the host, and for hosts that send only what is new."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from servers.provider import Provider, Said, provider
from siltstone import Session
from siltstone.adapters.anthropic import SiltstoneMiddleware
from siltstone.adapters.openai import prepared
from siltstone.errors import ConfigError

Ask = Callable[[list[Any]], None]
DOORS = ["chat", "responses", "anthropic"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with provider() as running:
        numbers = count()
        running.model = lambda body: Said(str(next(numbers)), "Noted.")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "none")
        yield running
        assert running.refused == []


@contextmanager
def door_of(name: str, session: Session) -> Iterator[Ask]:
    """A call of the real SDK with a list of messages; the answer is put into the list."""
    with openai.OpenAI() as client, anthropic.Anthropic(middleware=[SiltstoneMiddleware(session)]) as claude:
        yield _ask(name, session, client, claude)


def _ask(name: str, session: Session, client: openai.OpenAI, claude: anthropic.Anthropic) -> Ask:
    if name == "anthropic":

        def ask(messages: list[Any]) -> None:
            said = claude.messages.create(model="m", max_tokens=50, messages=messages)
            messages.append({"role": "assistant", "content": said.content})
    elif name == "chat":
        create = prepared(session, client.chat.completions.create)

        def ask(messages: list[Any]) -> None:
            messages.append(create(model="m", messages=messages).choices[0].message)
    else:
        respond = prepared(session, client.responses.create)

        def ask(messages: list[Any]) -> None:
            messages += respond(model="m", input=messages).output

    return ask


def boat(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Boat {number} lies at pier {number * 3}."}


@pytest.mark.parametrize("name", DOORS)
def test_a_loop_that_was_restarted_with_an_empty_list_remembers(name: str, tmp_path: Path, server: Provider):
    lives = 0
    for numbers in (range(60), range(60, 63)):
        with Session.open(tmp_path, "s", context_window=1_200) as session, door_of(name, session) as ask:
            messages = list[Any]()
            for number in numbers:
                messages.append(boat(number))
                ask(messages)
            lives += len(messages) - 1  # the last answer comes with the next list
            assert len(session.log()) == lives
            assert any("pier 21" in hit.content for hit in session.search("boat 7", limit=3))
            assert not [record for record in session.compactions() if record.reason == "branch"]


@pytest.mark.parametrize("name", DOORS)
def test_a_host_that_sends_only_what_is_new_is_answered_from_the_whole_session(
    name: str, tmp_path: Path, server: Provider
) -> None:
    session = Session.open(tmp_path, "s", context_window=50_000, unrelated="always")
    with session, door_of(name, session) as ask:
        for _ in range(40):
            ask([{"role": "user", "content": "yes"}])
        assert len(session.log()) == len(session.history()) == 80
        assert not session.compactions()


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_a_conversation_that_the_server_keeps_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", context_window=2_000) as session:
        create = prepared(session, lambda **options: options)
        with pytest.raises(ConfigError, match=f"{name}= lets the server keep"):
            create(model="m", input="Hello", **{name: "resp_1"})
        assert session.log() == []
