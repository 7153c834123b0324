"""The window of a model by its name, and the session that asks for it."""

import logging
import re
from pathlib import Path

import pytest

import siltstone
from siltstone.adapters.openai import prepared
from siltstone.limits import UNKNOWN_WINDOW, window_of

TABLE = Path(siltstone.__file__).with_name("windows.tsv")


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-5", 400_000),
        ("openai/gpt-5", 400_000),
        ("GPT-5-2025-08-07", 400_000),
        ("anthropic:claude-haiku-4-5-20251001", 200_000),
        ("claude-3-5-haiku", 200_000),
        ("gemini-2.5-flash", 1_048_576),
    ],
)
def test_a_known_model_has_the_window_of_the_table(model: str, tokens: int) -> None:
    found = window_of(model)
    assert (found.model, found.tokens, found.resolved) == (model, tokens, True)


@pytest.mark.parametrize("model", ["my-own-model", "gpt-99", "claude"])
def test_the_window_of_an_unknown_model_is_a_guess_and_says_so(model: str) -> None:
    found = window_of(model)
    assert (found.tokens, found.resolved) == (UNKNOWN_WINDOW, False)


def test_a_guess_is_never_larger_than_the_known_model_that_the_name_begins_with() -> None:
    assert window_of("gpt-5.3-something-new").tokens == window_of("gpt-5.3").tokens == 128_000
    assert window_of("gemini-2.5-flash-something").tokens == UNKNOWN_WINDOW


def test_the_table_names_its_source_its_day_and_each_model_once() -> None:
    head, rows = [], []
    for line in TABLE.read_text("utf-8").splitlines():
        (head if line.startswith("#") else rows).append(line)
    assert re.search(r"source: genai-prices \d", "\n".join(head))
    assert re.search(r"date: 20\d\d-\d\d-\d\d", "\n".join(head))
    names = [row.split("\t")[0].lower() for row in rows]
    assert len(set(names)) == len(names) > 100
    assert all(1_000 < int(row.split("\t")[1]) <= 20_000_000 for row in rows)


def test_a_session_takes_the_window_of_its_agents_model(caplog: pytest.LogCaptureFixture) -> None:
    with siltstone.Session.open(
        None, "s", memory=siltstone.SimpleMemoryStore(), context_window="auto", agent_model="gpt-5"
    ) as session:
        assert session.context_window == 400_000
    assert caplog.records == []


def test_a_session_with_a_guess_warns_and_learns_from_the_provider(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, logger="siltstone"),
        siltstone.Session.open(
            None, "s", memory=siltstone.SimpleMemoryStore(), context_window="auto", agent_model="mine"
        ) as session,
    ):
        assert session.context_window == UNKNOWN_WINDOW
        assert "'mine' is not known, and taken for 200000" in caplog.text
        for number in range(20):
            session.append({"role": "user", "content": f"Question {number}. " + "word " * 100})
            session.append({"role": "assistant", "content": "Answer."})
        session.append({"role": "user", "content": "And now?"})
        session.prepare()
        session.recover(Exception("maximum context length is 2000 tokens"))
        assert session.context_window == 2_000


@pytest.mark.parametrize("options", [{"context_window": "auto"}, {"context_window": 9, "agent_model": 5}])
def test_auto_needs_a_model_and_a_model_a_name(options: dict[str, object]) -> None:
    with pytest.raises(siltstone.ConfigError, match="agent_model"):
        siltstone.Session.open(None, "s", memory=siltstone.SimpleMemoryStore(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [900, None])
def test_a_session_counts_as_its_agents_model_does(window: int | None) -> None:
    ids = {"role": "user", "content": "7201945883" * 40}
    counted = {}
    for model in ("gpt-5", "Qwen/Qwen3-8B", "mine", None):
        memory = siltstone.SimpleMemoryStore()
        options = {"memory": memory, "context_window": window, "agent_model": model}
        with siltstone.Session.open(None, "s", **options) as session:  # type: ignore[call-overload]
            session.append(ids)
            counted[model] = session.prepare().tokens
    assert counted["gpt-5"] < 200 < 350 < counted["Qwen/Qwen3-8B"] <= counted["mine"]
    assert counted[None] == 414  # by the default rule


def test_an_adapter_says_that_nothing_bounds_its_requests(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, logger="siltstone"),
        siltstone.Session.open(None, "open", memory=siltstone.SimpleMemoryStore()) as session,
    ):
        prepared(session, print)
    assert "session 'open' has no context_window" in caplog.text
