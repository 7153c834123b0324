"""A request that the provider finds too large: sent again smaller, and at last the partial answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import siltstone
from compacting import assistant, exchange, filler, user
from siltstone.messages import SummaryMessage, broken_tool_groups, unmarked

CONTINUE = "Continue where you left off. Older context has been compacted."


class Provider:
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
        provider = Provider(1_000)
        answer = session.ask(provider)
        assert (answer.value, answer.retries, answer.is_partial) == ("Done.", 0, False)
        assert provider.requests == [session.history()]


def test_sb_30_31_three_quarters_leave_each_time_with_whole_calls_and_the_model_is_told_to_go_on():
    with opened() as session:
        worked(session)
        provider = Provider(14)
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
        provider = Provider(0)
        answer = session.ask(provider)
        assert len(provider.requests) == 3
        assert answer.is_partial
        assert (answer.value, answer.partial, answer.retries) == (None, "Step 39.", 2)
        assert len(session.log()) == 81, "nothing is lost"


def test_sb_30_without_a_text_the_error_names_the_attempts():
    with opened() as session:
        session.append(*(user(f"Note {n}. {filler(40)}") for n in range(60)))
        with pytest.raises(siltstone.ContextOverflowError, match="found 3 requests too large") as caught:
            session.ask(Provider(0))
        assert vars(caught.value)["attempts"] == 3
        assert isinstance(caught.value.__cause__, ValueError)


def test_where_nothing_can_be_discarded_the_error_is_the_callers_at_once():
    with opened() as session:
        session.append(user("Hello."))
        provider = Provider(0)
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
        provider = Provider(0)
        assert session.ask(provider).is_partial
        assert len(provider.requests) == retries + 1


def test_sb_30_in_an_async_session_too():
    async def play() -> None:
        store = siltstone.SimpleMemoryStore()
        policy = siltstone.TieredCompactor()
        async with siltstone.AsyncSession.open(None, "s", policy=policy, memory=store, **OPTIONS) as session:
            await session.append(*(raw for n in range(40) for raw in exchange(f"c{n}", filler(40))))
            provider = Provider(30)

            async def call(messages: list[Any]) -> str:
                return provider(messages)

            answer = await session.ask(call)
            assert (answer.value, answer.retries) == ("Done.", 1)
            assert provider.requests[1][-1]["content"] == CONTINUE

    asyncio.run(play())
