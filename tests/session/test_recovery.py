"""A provider that refuses a request as too large: it is sent again smaller; and a model that asks for it."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from compacting import exchange, filler
from conversations import assistant, conversation, user
from siltstone import CompactionConfig, Prepared, Session, ThresholdCompactor, estimate_tokens
from siltstone.engine import Compacted
from siltstone.errors import InvalidArgumentsError
from siltstone.events import WindowLearned
from siltstone.messages import SummaryMessage, broken_tool_groups, unmarked
from siltstone.testing import RecordingHook, ScriptedModel
from siltstone.tools.base import dispatch

POLICY = ThresholdCompactor(CompactionConfig(max_summary_tokens=50, recent_turn_budget=2))


class Provider:
    """A model with a window that nobody knew of."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.calls = 0

    def __call__(self, messages: list[Any]) -> str:
        self.calls += 1
        tokens = estimate_tokens(messages, "blocks")
        if tokens > self.window:
            raise ValueError(f"prompt is too long: {tokens} tokens > {self.window} maximum")
        return "ok"


def answered(session: Session, provider: Callable[[list[Any]], str]) -> Prepared:
    """The documented loop."""
    prepared = session.prepare()
    while True:
        try:
            provider(prepared.messages)
            return prepared
        except ValueError as error:
            prepared = session.recover(error)


def test_a_limit_below_what_must_stay_changes_nothing_and_the_error_names_the_sizes(tmp_path: Path) -> None:
    with Session.open(
        tmp_path, "s", policy=POLICY, model=ScriptedModel(), context_window=9_000, reserved_tokens=30
    ) as session:
        session.append({"role": "system", "content": "Be brief. " * 20}, *conversation(), user("next"))
        before = session.history()
        with pytest.raises(ValueError, match="too long") as caught:
            answered(session, Provider(50))
        cause = str(caught.value.__cause__)
        assert re.search(
            r"system messages 5\d, tools and what else is reserved 30, the last turn .* [1-9]", cause
        )
        assert caught.value.__notes__ == [cause]
        assert (session.context_window, session.limits, session.history()) == (9_000, (), before)


def test_after_two_retries_the_error_is_the_caller_s(tmp_path: Path) -> None:
    calls = 0

    def provider(_messages: list[Any]) -> str:
        nonlocal calls
        calls += 1
        raise ValueError("the prompt is over the maximum context length")

    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(*conversation(), user("next"))
        with pytest.raises(ValueError, match="maximum"):
            answered(session, provider)
        assert calls == 3
        assert session.log() == [*conversation(), user("next")]


@pytest.mark.parametrize("error", [ValueError("Rate limit reached"), KeyError("x")])
def test_another_error_is_raised_again_and_nothing_changes(tmp_path: Path, error: Exception) -> None:
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(*conversation())
        before = session.history()
        with pytest.raises(type(error)) as caught:
            session.recover(error)
        assert caught.value is error
        assert session.history() == before


def test_without_a_policy_the_error_stands(tmp_path: Path) -> None:
    error = ValueError("context_length_exceeded")
    with Session.open(tmp_path, "s") as session:
        session.append(*conversation())
        with pytest.raises(ValueError, match="context_length") as caught:
            session.recover(error)
        assert caught.value is error


def test_the_model_may_ask_for_a_compaction(tmp_path: Path) -> None:
    model = ScriptedModel()
    with Session.open(tmp_path, "s", policy=POLICY, model=model) as session:
        session.append(*conversation(), user("next"))
        session.prepare()
        tool = session.compact_tool
        call = {"id": "c1", "type": "function", "function": {"name": tool.name, "arguments": "{}"}}
        session.append({"role": "assistant", "content": None, "tool_calls": [call]})
        answer = dispatch([tool], "context_compact", '{"focus": " the tests "}')
        assert json.loads(answer) == {"status": "scheduled", "context_tokens": session.plan().tokens_before}
        session.append({"role": "tool", "tool_call_id": "c1", "content": answer})
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "model"  # type: ignore[union-attr]
        assert model.requests[0].messages[-1]["content"].endswith("Pay particular attention to: the tests")
        assert broken_tool_groups(session.history()) == 0
        again = json.loads(tool.call({}))
        assert again == {"status": "skipped", "reason": "cooling_down", "steps_left": 2}
        assert session.prepare().compaction is outcome


def test_a_wish_without_a_policy_is_not_granted(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s") as session:
        assert json.loads(session.compact_tool.call({})) == {"status": "skipped", "reason": "no_policy"}


@pytest.mark.parametrize("focus", [7, ["a"], {}])
def test_a_focus_that_is_no_text_is_refused(tmp_path: Path, focus: object) -> None:
    with (
        Session.open(tmp_path, "s", policy=POLICY) as session,
        pytest.raises(InvalidArgumentsError, match="'focus' must be a string"),
    ):
        session.compact_tool.run({"focus": focus})


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ("prompt is too long: {size} tokens > {limit} maximum", 2),
        ("This model's maximum context length is {limit} tokens.", 1),
        ("Your input exceeds the context window of this model.", None),
    ],
)
def test_the_session_learns_from_a_refusal_how_large_a_request_may_be(
    tmp_path: Path, said: str, share: int | None
) -> None:
    """The provider counts twice as much as we do: until the next answer we keep to half of its limit."""
    hook = RecordingHook()
    with Session.open(
        tmp_path, "s", policy=POLICY, model=ScriptedModel(), context_window=10_000, hooks=[hook]
    ) as session:
        session.append(*conversation(), user("next"))
        tokens = estimate_tokens(session.history(), rule="blocks")
        limit = tokens * 4 // 3
        session.recover(ValueError(said.format(size=2 * tokens, limit=limit)))
        assert session.context_window == (10_000 if share is None else limit // share)
        assert session.prepare().tokens <= limit // (share or 1)
        learned = [event for event in hook.events if isinstance(event, WindowLearned)]
        assert learned == ([WindowLearned("s", 10_000, limit, "", "the provider's refusal")] if share else [])
        session.append(assistant("Done."))
        assert session.context_window == (limit if share else 10_000), "in the provider's own tokens"
    with Session.open(tmp_path, "s", policy=POLICY, context_window=10_000) as session:
        assert session.context_window == (limit if share else 10_000)


def test_a_limit_below_a_fixed_threshold_is_learned_and_the_session_goes_on(tmp_path: Path) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=1_500, max_summary_tokens=50))
    with Session.open(tmp_path, "s", policy=policy, context_window=4_000) as session:
        session.append(*conversation(12))
        tokens = session.prepare().tokens
        session.recover(ValueError(f"prompt is too long: {tokens} tokens > 1000 maximum"))
        assert session.context_window is not None
        assert session.context_window < 1_500
        for message in conversation(8):
            session.append(message)
            assert session.prepare().tokens <= session.context_window
    with Session.open(tmp_path, "s", policy=policy, context_window=4_000) as anew:
        assert anew.prepare().tokens <= 1_000


CONTINUE = "Continue where you left off. Older context has been compacted."


class RefusingProvider:
    """Takes at most *most* messages, and says what providers say."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.requests: list[list[Any]] = []

    def __call__(self, messages: list[Any]) -> str:
        self.requests.append(messages)
        if len(messages) > self.most:
            raise ValueError("prompt is too long: 300000 tokens > 200000 maximum")
        return "Done."


OPTIONS: dict[str, Any] = {"model": lambda request: "Said.", "context_window": 100_000}


def opened(policy: Any = None) -> siltstone.Session:
    store = siltstone.SimpleMemoryStore()
    return siltstone.Session.open(
        None, "s", policy=policy or siltstone.TieredCompactor(), memory=store, **OPTIONS
    )


def worked(session: siltstone.Session, rounds: int = 40) -> None:
    session.append(user("Do the work."))
    for n in range(rounds):
        call, result = exchange(f"c{n}", f"Result {n}. {filler(40)}")
        session.append({**call, "content": f"Step {n}."}, result)


def test_sb_30_a_request_that_fits_is_sent_once_and_as_it_is():
    with opened() as session:
        worked(session)
        provider = RefusingProvider(1_000)
        answer = session.ask(provider)
        assert (answer.value, answer.retries, answer.is_partial) == ("Done.", 0, False)
        assert provider.requests == [session.history()]


def test_sb_30_31_three_quarters_leave_each_time_with_whole_calls_and_the_model_is_told_to_go_on():
    with opened() as session:
        worked(session)
        provider = RefusingProvider(14)
        answer = session.ask(provider)
        assert (answer.value, answer.retries) == ("Done.", 2)
        sizes = [len(request) for request in provider.requests]
        assert sizes == [81, 23, 8], "60 of 81 leave, and 15 of 20 on to the end of a pair"
        assert [request[-1].get("content") for request in provider.requests[1:]] == [CONTINUE] * 2
        assert CONTINUE not in str(session.log())
        markers = [m for m in provider.requests[2] if isinstance(m, SummaryMessage)]
        assert unmarked(markers[0]["content"]) == (
            "[Context overflow: 60 oldest messages removed so that the request fits]"
        )
        assert provider.requests[2][0] == user("Do the work.")
        assert [broken_tool_groups(request) for request in provider.requests] == [0, 0, 0]


def test_sb_30_after_two_retries_the_last_text_is_the_partial_answer():
    with opened() as session:
        worked(session)
        provider = RefusingProvider(0)
        answer = session.ask(provider)
        assert len(provider.requests) == 3
        assert answer.is_partial
        assert (answer.value, answer.partial, answer.retries) == (None, "Step 39.", 2)
        assert len(session.log()) == 81, "nothing is lost"


def test_sb_30_without_a_text_the_error_names_the_attempts():
    with opened() as session:
        session.append(*(user(f"Note {n}. {filler(40)}") for n in range(60)))
        with pytest.raises(siltstone.ContextOverflowError, match="found 3 requests too large") as caught:
            session.ask(RefusingProvider(0))
        assert vars(caught.value)["attempts"] == 3
        assert isinstance(caught.value.__cause__, ValueError)


def test_where_nothing_can_be_discarded_the_error_is_the_callers_at_once():
    with opened() as session:
        session.append(user("Hello."))
        provider = RefusingProvider(0)
        with pytest.raises(ValueError, match="prompt is too long"):
            session.ask(provider)
        assert len(provider.requests) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ConnectionError])
def test_what_stops_a_retry_loses_nothing_and_leaves_no_note_behind(stop: type[BaseException]):
    with opened() as session:
        worked(session)
        log, sent = session.log(), []

        def call(messages: list[Any]) -> str:
            sent.append(messages)
            if len(sent) == 2:
                raise stop
            if len(messages) > 30:
                raise ValueError("prompt is too long: 300000 tokens > 200000 maximum")
            return "Done."

        with pytest.raises(stop):
            session.ask(call)
        assert session.log() == log
        assert CONTINUE in str(sent[1])
        assert CONTINUE not in str(session.history())
        answer = session.ask(call)
        assert (answer.value, answer.retries) == ("Done.", 0)
        assert sent[2] == session.history(), "what the first call gave up stays out, and nothing is added"
        session.undo_compaction()
        assert session.history() == log


@pytest.mark.parametrize(
    ("policy", "retries"),
    [
        *((siltstone.TieredCompactor(siltstone.TieredConfig(overflow_retries=n)), n) for n in (0, 1, 3)),
        (siltstone.ThresholdCompactor(), 2),
    ],
)
def test_the_number_of_retries_is_the_policys_and_of_others_two(policy: Any, retries: int):
    with opened(policy) as session:
        for n in range(200):
            session.append(user(f"Request {n}. {filler(60)}"), assistant(f"Answer {n}. {filler(60)}"))
        session.append(user("On."))
        provider = RefusingProvider(0)
        assert session.ask(provider).is_partial
        assert len(provider.requests) == retries + 1


def test_sb_30_in_an_async_session_too():
    async def play() -> None:
        store = siltstone.SimpleMemoryStore()
        policy = siltstone.TieredCompactor()
        async with siltstone.AsyncSession.open(None, "s", policy=policy, memory=store, **OPTIONS) as session:
            await session.append(*(raw for n in range(40) for raw in exchange(f"c{n}", filler(40))))
            provider = RefusingProvider(30)

            async def call(messages: list[Any]) -> str:
                return provider(messages)

            answer = await session.ask(call)
            assert (answer.value, answer.retries) == ("Done.", 1)
            assert provider.requests[1][-1]["content"] == CONTINUE

    asyncio.run(play())
