"""What a compaction returns goes through the real SDKs to a provider that refuses what providers refuse.

Needs the dependency group ``sdk``. Nothing leaves the machine: the provider is ``tests/servers/provider.py``.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from servers.provider import Provider, provider
from shapes import ask, call, result, results, say, thought, use
from siltstone import (
    CompactionConfig,
    ContextOverflowError,
    Emergency,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    compact,
)
from siltstone.limits import is_context_overflow
from siltstone.messages import Dialect, repair, validate_history, well_formed
from strategies import HISTORIES

openai = pytest.importorskip("openai", reason="openai is not installed; it comes with the group sdk")
anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the group sdk")

Send = Callable[[Any], Any]
DIALECTS = [cast("Dialect", name) for name in HISTORIES]


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with provider() as listening:
        yield listening


@pytest.fixture(scope="module")
def doors(server: Provider) -> Iterator[dict[str, Send]]:
    """How a history of each dialect is sent, with the SDK of its provider."""
    one = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    other = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)

    def to_anthropic(raws: list[Any]) -> Any:
        rules = [raw["content"] for raw in raws if raw["role"] == "system"]
        said = [raw for raw in raws if raw["role"] != "system"]
        return other.messages.create(model="m", max_tokens=9, system="\n".join(rules), messages=said)

    with one, other:
        yield {
            "openai.chat": lambda raws: one.chat.completions.create(model="m", messages=raws),
            "openai.responses": lambda raws: one.responses.create(model="m", input=raws),
            "anthropic": to_anthropic,
        }


@pytest.fixture(autouse=True)
def _wide(server: Provider) -> None:
    server.limit = 10**9


def sendable(value: Any) -> Any:
    """*value* without halves of characters, which no SDK sends."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {sendable(key): sendable(each) for key, each in value.items()}
    return [sendable(each) for each in value] if isinstance(value, list) else value


def refusal(send: Send, raws: list[Any]) -> Exception:
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as caught:
        send(raws)
    return caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_successive_compactions_return_is_accepted(
    dialect: Dialect, doors: dict[str, Send], server: Provider, data: st.DataObject
) -> None:
    raws = sendable(data.draw(HISTORIES[dialect](min_turns=1, legal=True, ending="asked")))
    answers = data.draw(st.lists(st.sampled_from(["So.", "So be it. " * 9]), min_size=1, max_size=3))
    judged = server.requests
    doors[dialect](raws)
    for answer in answers:
        policy = data.draw(
            st.sampled_from(
                [
                    ThresholdCompactor(CompactionConfig(auto_compact_threshold=100, recent_turn_budget=1)),
                    ThresholdCompactor(CompactionConfig(auto_compact_threshold=400, keep_user_messages=True)),
                    Emergency(200),
                ]
            )
        )
        try:
            raws = compact(raws, policy, model=lambda request, answer=answer: answer).messages  # type: ignore[misc]
        except ContextOverflowError:
            continue
        doors[dialect](raws)
        raws = [*raws, say("so it is"), ask("and then?")]
        doors[dialect](raws)
    assert server.requests > judged


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_a_repair_returns_is_accepted_and_what_is_refused_is_found(
    dialect: Dialect, doors: dict[str, Send], data: st.DataObject
) -> None:
    """The provider refuses nothing in which ``validate_history`` finds nothing."""
    raws = sendable(data.draw(HISTORIES[dialect](min_turns=1, legal=True, ending="asked")))
    lost = data.draw(st.integers(0, len(raws) - 1))
    broken = raws[:lost] + raws[lost + 1 :]
    if any(raw.get("role") not in ("system", "developer") for raw in broken):
        if not validate_history(broken, dialect, pending_ok=False):
            doors[dialect](broken)
        mended = repair(broken, dialect).messages
        if not validate_history(mended, dialect, pending_ok=False):
            doors[dialect](mended)


REFUSED: list[tuple[Dialect, list[Any], str, str]] = [
    ("openai.chat", [ask(), result("a")], "orphan-result", "must be a response to a preceeding message"),
    ("openai.chat", [ask(), call("a", "b"), result("a"), ask()], "unanswered-call", "did not have response"),
    ("openai.chat", [ask(), call("a"), say(), result("a")], "late-result", "did not have response"),
    (
        "openai.responses",
        [ask(), {"type": "function_call_output", "call_id": "a", "output": "ok"}],
        "orphan-result",
        "No tool call found for function call output with call_id a",
    ),
    (
        "openai.responses",
        [ask(), {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, ask()],
        "unanswered-call",
        "No tool output found for function call a",
    ),
    (
        "openai.responses",
        [ask(), {"type": "reasoning", "id": "rs_1", "summary": []}, ask()],
        "reasoning-alone",
        "was provided without its required following item",
    ),
    ("anthropic", [ask(), results("a"), ask()], "orphan-result", "unexpected `tool_use_id` found"),
    ("anthropic", [ask(), use("a"), ask()], "unanswered-call", "`tool_use` ids were found without"),
    ("anthropic", [say(), ask()], "first-role", 'first message must use the "user" role'),
    ("anthropic", [ask(" ")], "empty-content", "text content blocks must be non-empty"),
    (
        "anthropic",
        [ask(), use("a"), results("a"), use("a"), results("a")],
        "duplicate-call",
        "`tool_use` ids must be unique",
    ),
]


@pytest.mark.parametrize(("dialect", "raws", "rule", "said"), REFUSED)
def test_what_the_provider_refuses_is_found_and_is_no_overflow(
    dialect: Dialect, raws: list[Any], rule: str, said: str, doors: dict[str, Send]
) -> None:
    error = refusal(doors[dialect], raws)
    assert said in str(error)
    assert not is_context_overflow(error)
    assert rule in {finding.rule for finding in validate_history(raws, dialect, pending_ok=False)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_check_judges_calls_and_signed_reasoning_that_are_whole(dialect: Dialect, doors: dict[str, Send]):
    """The refusals above are for what they say: with its other half each history is accepted."""
    whole: dict[str, list[Any]] = {
        "openai.chat": [ask(), call("a", "b"), result("b"), result("a")],
        "openai.responses": [
            ask(),
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "ok"},
        ],
        "anthropic": [ask(), thought(), use("a", "b"), results("b", "a", text="and now?")],
    }
    doors[dialect](whole[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_recovers_from_the_provider_s_own_overflow(
    dialect: Dialect, doors: dict[str, Send], server: Provider
) -> None:
    """The provider counts otherwise than we do: its refusal is known, and the next request is smaller."""
    server.limit = 700
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1, max_summary_tokens=50))
    with SimpleMemoryStore() as store:
        session = Session.open(None, "s", policy=policy, model=lambda request: "So.", memory=store)
        for number in range(9):
            session.append(ask(f"question {number} " + "word " * 40), say("answer " * 30))
        session.append(ask("and now?"))
        prepared, refused = session.prepare(), 0
        while True:
            try:
                doors[dialect](prepared.messages)
                break
            except (openai.BadRequestError, anthropic.BadRequestError) as error:
                assert is_context_overflow(error)  # noqa: PT017 - the loop is what is tested
                prepared, refused = session.recover(error), refused + 1
        assert refused >= 1
        assert prepared.messages[-1] == ask("and now?")
