"""Models of the providers' SDKs: what they are asked, and how their answers are read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed; it comes with the extra openai")
pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the extra anthropic")

import anthropic
import openai

from servers.provider import Provider, Said, provider
from siltstone import ConfigError, Session, models
from siltstone.llm import CompletionRequest, ToolCall, call

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "system", "content": "Sum up."}, {"role": "user", "content": "We sailed."}]
SAVE = {"type": "function", "function": {"name": "memory_save", "parameters": {"type": "object"}}}
FORMS = ["chat", "responses", "anthropic"]
NEWEST = "gpt-5-mini"  #: takes no temperature
QUIET: dict[str, Any] = {"api_key": "none", "max_retries": 0}


@pytest.fixture
def server() -> Iterator[Provider]:
    with provider() as listening:
        yield listening


@pytest.fixture
def model_of(server: Provider) -> Iterator[Callable[..., Any]]:
    """A model of each form, by a real SDK."""
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", **QUIET) as one,
        anthropic.Anthropic(base_url=server.url, **QUIET) as other,
    ):

        def make(form: Any, name: str = "small", **settings: Any) -> Any:
            if form == "anthropic":
                return models.anthropic(name, other, **settings)
            return models.openai(name, one, api=form, **settings)

        yield make


def says(server: Provider, *answers: Said) -> list[dict[str, Any]]:
    """Lets the server give *answers*, and then the last one again. Returns what it is asked, as it comes."""
    asked: list[dict[str, Any]] = []

    def model(body: dict[str, Any]) -> Said:
        asked.append(body)
        return answers[min(len(asked), len(answers)) - 1]

    server.model = model
    return asked


def test_chat_completions_are_asked_with_all_that_a_request_says(
    server: Provider, model_of: Callable[..., Any]
) -> None:
    asked = says(server, Said("c", "They sailed.", usage=(70, 5)))
    model = model_of("chat", reasoning_effort="low")
    answer = call(model, CompletionRequest(MESSAGES, 50, "merge", stop=("END",), temperature=0.2))
    assert asked == [
        {
            "model": "small",
            "messages": MESSAGES,
            "max_completion_tokens": 50,
            "stop": ["END"],
            "temperature": 0.2,
            "reasoning_effort": "low",
        }
    ]
    assert (answer.text, answer.stop_reason) == ("They sailed.", "stop")
    record = answer.usage
    assert (record.model, record.purpose) == ("small", "merge")
    assert (record.input_tokens, record.output_tokens) == (70, 5)


@pytest.mark.parametrize("form", FORMS)
def test_tools_are_offered_in_the_form_of_each_api_and_their_calls_come_back(
    form: str, server: Provider, model_of: Callable[..., Any]
) -> None:
    asked = says(server, Said("c", "", calls=(("memory_save", {"content": "x"}),)))
    answer = call(model_of(form), CompletionRequest(MESSAGES, 50, tools=(SAVE,)))
    (tool,) = asked[0]["tools"]
    assert "memory_save" in (tool.get("name"), tool.get("function", {}).get("name"))
    assert answer.tool_calls == (ToolCall("memory_save", {"content": "x"}, "call_c_0"),)
    call(model_of(form), CompletionRequest(MESSAGES, 50, tools=(tool,)))
    assert asked[1]["tools"] == [tool], "a tool in the form of the API is sent as it is"


@pytest.mark.parametrize("arguments", ["{", "[1]"])
def test_arguments_of_a_call_that_are_no_object_stay_as_they_were_written(
    arguments: str, server: Provider, model_of: Callable[..., Any]
) -> None:
    says(server, Said("c", "", calls=(("memory_save", arguments),)))
    answer = call(model_of("chat"), CompletionRequest(MESSAGES, 50))
    assert answer.tool_calls[0].arguments == arguments


@pytest.mark.parametrize("form", FORMS)
def test_what_the_server_read_of_its_cache_is_told(form: str, server: Provider, model_of: Callable[..., Any]):
    says(server, Said("c", "They sailed."))
    long = {"role": "user", "content": [{"type": "text", "text": "We sailed on. " * 900}]}
    if form == "responses":
        long["content"][0]["type"] = "input_text"  # type: ignore[index]
    if form == "anthropic":
        long["content"][0]["cache_control"] = {"type": "ephemeral"}  # type: ignore[index]
    first, second = (call(model_of(form), CompletionRequest([long], 50)).usage for _ in range(2))
    assert first is not None
    assert (first.cached_tokens, first.input_tokens) == (0, second.input_tokens)
    assert first.input_tokens - 128 <= second.cached_tokens < first.input_tokens


def test_responses_are_asked_and_read(server: Provider, model_of: Callable[..., Any]) -> None:
    asked = says(server, Said("r", "They sailed.", "We went.", (("memory_save", {}),)))
    answer = call(model_of("responses"), CompletionRequest(MESSAGES, 9))
    assert asked == [{"model": "small", "input": MESSAGES, "max_output_tokens": 16, "store": False}]
    assert (answer.text, answer.stop_reason) == ("They sailed.", "completed")
    assert answer.tool_calls[0].arguments == {}


def test_anthropic_is_asked_and_read(server: Provider, model_of: Callable[..., Any]) -> None:
    asked = says(server, Said("m", "They sailed.", calls=(("memory_save", {"content": "x"}),)))
    model = model_of("anthropic", system="The live prompt.")
    answer = call(model, CompletionRequest(MESSAGES, 50, stop=("END",)))
    assert (asked[0]["system"], asked[0]["messages"]) == ("Sum up.", MESSAGES[1:])
    assert (asked[0]["max_tokens"], asked[0]["stop_sequences"]) == (50, ["END"])
    assert (answer.text, answer.tool_calls[0].id) == ("They sailed.", "call_m_0")
    call(model, CompletionRequest(MESSAGES[1:], 50, temperature=0.2, prefix_preserving=True))
    assert (asked[1]["system"], asked[1]["temperature"]) == ("The live prompt.", 0.2)


async def test_the_async_forms_are_awaited(server: Provider) -> None:
    says(server, Said("m", "Aye."))
    async with (
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", **QUIET) as one,
        anthropic.AsyncAnthropic(base_url=server.url, **QUIET) as other,
    ):
        for model in (models.async_openai("small", one), models.async_anthropic("small", other)):
            assert (await model(CompletionRequest(MESSAGES, 50))).text == "Aye."


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("preset", [None, "meerkat", "rustant", "spacebot", "waterfall", "openclaw"])
def test_each_preset_has_its_summaries_from_each_api(
    preset: str | None, form: str, server: Provider, model_of: Callable[..., Any], tmp_path: Path
) -> None:
    """The provider refuses nothing of what a preset asks, and its answers are what the session keeps."""
    asked = says(
        server, Said("s", "They moored sixty boats, each at a pier of its own, and all of them are safe.")
    )
    chosen: dict[str, Any] = {} if preset is None else {"preset": preset}
    with Session.open(
        tmp_path, "s", model=model_of(form, NEWEST), context_window=16_000, **chosen
    ) as session:
        for number in range(90):
            session.append(
                {"role": "user", "content": f"Boat {number} lies at pier {number}. " + "calm sea " * 80}
            )
            session.prepare()
            session.wait_for_compaction(60)
            session.append({"role": "assistant", "content": f"Boat {number} is noted." + " It is safe." * 20})
        if preset == "openclaw":
            session.learn()  # a trim of a request asks for nothing
        assert server.refused == []
        told = [each for record in session.compactions() for each in record.usage]
    assert asked
    assert len(told) == (0 if preset == "openclaw" else len(asked)), "openclaw trims, and asks for facts"


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ConfigError, match="'chat' or 'responses'"):
        models.openai("small", object(), api="completions")  # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "extra"), [(models.openai, "openai"), (models.anthropic, "anthropic")])
def test_the_error_of_an_absent_sdk_names_its_extra(
    make: Callable[..., Any], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    class Hidden:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == extra:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, extra)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(ImportError, match=rf"needs {extra}.*pip install 'siltstone\[{extra}\]'"):
        make("small")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rounds", [2, 99])
def test_a_worker_saves_as_it_likes_and_its_last_words_are_the_summary(
    form: str, rounds: int, server: Provider, model_of: Callable[..., Any], tmp_path: Path
) -> None:
    """The provider checks that each call has its result, in its place."""
    saves = [tuple(("memory_save", {"content": f"Fact {at}{end}."}) for end in "ab") for at in range(rounds)]
    saves[0] += (("memory_save", '{"content": "Fact'),) * (form != "anthropic")  # which sends no text
    turns = [Said(f"t{at}", "I save first.", "Hm.", calls) for at, calls in enumerate(saves)]
    asked = says(server, *turns, Said("end", "They chose zinc for the roof."))
    with Session.open(
        tmp_path, "s", preset="spacebot", model=model_of(form), context_window=10_000
    ) as session:
        for number in range(82):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"{number:03} ".ljust(400, "x")})
        session.prepare()
        assert session.wait_for_compaction(60)
        shown = str(session.prepare().history[0]["content"])
        facts = sorted(fact.content for fact in session.facts())
    assert server.refused == []
    if rounds == 2:
        assert ("They chose zinc" in shown, "save first" in shown) == (True, False)
        assert facts == ["Fact 0a.", "Fact 0b.", "Fact 1a.", "Fact 1b."]
        assert len(asked) == 3
    else:
        assert (len(asked), shown[:3], facts) == (8, "000", [])
    for body in asked:
        first = body.get("system") or (body.get("input") or body["messages"])[0]["content"]
        assert first.startswith("You are a compaction worker.")
