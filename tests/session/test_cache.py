"""The provider's cache: what a rewrite cost, when a step waits for it, and a note that leaves it whole."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import siltstone
from compacting import assistant, user
from siltstone.compaction.results import ClearConfig
from siltstone.engine import Compacted
from siltstone.events import CacheBroken
from siltstone.messages import read_history
from siltstone.session.counters import cached_tokens, input_tokens
from siltstone.testing import ScriptedModel

WINDOW = 10_000
DETAILS = SimpleNamespace(cached_tokens=512)


def step(number: int, words: int = 150) -> list[Any]:
    use = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {"at": number}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} " + "word " * words}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def usage(tokens: int, cached: int, written: int = 0) -> dict[str, int]:
    counts = tokens - cached - written, cached, written
    return dict(
        zip(("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), counts, strict=True)
    )


def opened(policy: Any, store: Any, **options: Any) -> siltstone.Session:
    options = {"model": ScriptedModel(), "context_window": WINDOW, **options}
    return siltstone.Session.open(None, "s", policy=policy, memory=store, **options)


@pytest.mark.parametrize(
    ("said", "tokens", "cached"),
    [
        (usage(900, 600), 900, 600),
        (usage(900, 0, 800), 900, 800),
        ({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 512}}, 900, 512),
        (SimpleNamespace(input_tokens=900, input_tokens_details=DETAILS), 900, 512),
        ({"prompt_tokens": 900, "prompt_tokens_details": None}, 900, 0),
        ({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": "many"}}, 900, 0),
        (900, 900, 0),
        (None, 0, 0),
        # LiteLLM says of one call of Anthropic what was read under both names.
        (
            {
                "prompt_tokens": 900,
                "prompt_tokens_details": {"cached_tokens": 500},
                "cache_read_input_tokens": 500,
                "cache_creation_input_tokens": 100,
            },
            900,
            600,
        ),
        (
            SimpleNamespace(prompt_tokens=900, prompt_tokens_details=DETAILS, input_tokens_details=DETAILS),
            900,
            512,
        ),
        ({"input_tokens": 9, "cache_read_input_tokens": True, "cache_creation_input_tokens": -5}, 9, 0),
        ({}, 0, 0),
        ("many", 0, 0),
    ],
)
def test_what_a_provider_says_of_its_cache_is_read(said: Any, tokens: int, cached: int):
    assert (input_tokens(said), cached_tokens(said)) == (tokens, cached)


@pytest.mark.parametrize(
    "said",
    [
        {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 10**12}},
        {"prompt_tokens": "900", "prompt_tokens_details": {"cached_tokens": 10**12}},
    ],
)
def test_no_more_is_cached_than_the_provider_says_that_it_was_sent(said: Any):
    with opened(None, siltstone.SimpleMemoryStore()) as session:
        session.append(user("Go."), assistant("Yes."), usage=said)
        assert session._core.clock.cached_tokens == input_tokens(said)
    with opened(None, siltstone.SimpleMemoryStore()) as session:
        session.append(user("Go."), assistant("Yes."))
        branched = [user("Go."), assistant("No.")]
        session.observe(branched, on_conflict="branch", usage=said)
        assert session._core.clock.cached_tokens == input_tokens(said)


def played(session: siltstone.Session, steps: int, cached: int) -> None:
    session.append(user("Go."))
    for number in range(steps):
        prepared = session.prepare()
        call, result = step(number)
        session.append(call, usage=usage(prepared.tokens, min(cached, prepared.tokens)))
        session.append(result)


def test_a_rewrite_tells_how_many_cached_tokens_it_cost_and_what_stays_is_cached_still():
    told: list[Any] = []
    policy = siltstone.ClearToolResults(ClearConfig(wait_for_cache=False, keep_results=1, min_reclaim=0))
    with opened(policy, siltstone.SimpleMemoryStore(), hooks=[told.append], reserved_tokens=300) as session:
        played(session, 24, cached=4_000)
        session.prepare()
        broken = [each for each in told if isinstance(each, CacheBroken)]
        assert broken
        assert broken[0].policy == "clear-tool-results"
        assert broken[0].session_id == "s"
        assert 0 < broken[0].tokens <= broken[0].cached_tokens == 4_000
        clock = session._core.clock
        assert broken[0].tokens + 300 < 4_000, "what is sent before the history stays"
        assert clock.cached_tokens <= 4_000


def test_without_a_word_of_the_provider_or_after_its_time_nothing_is_told():
    now = [1_000.0]
    for cached, seconds, expected in ((0, 1, False), (4_000, 301, False), (4_000, 1, True)):
        told: list[Any] = []
        policy = siltstone.ClearToolResults(ClearConfig(wait_for_cache=False, keep_results=1, min_reclaim=0))
        with opened(policy, siltstone.SimpleMemoryStore(), hooks=[told.append]) as session:
            session._core._now = lambda: now[0]
            session.append(user("Go."))
            for number in range(30):
                prepared = session.prepare()
                call, result = step(number)
                session.append(call, usage=usage(prepared.tokens, min(cached, prepared.tokens)))
                session.append(result)
                now[0] += seconds
            assert any(isinstance(each, Compacted) for each in prepared.outcomes) or session.compactions()
        assert any(isinstance(each, CacheBroken) for each in told) is expected


def test_a_cheap_step_waits_while_the_cache_is_warm_and_no_longer_than_three_quarters():
    first: dict[bool, int] = {}
    for waits in (True, False):
        policy = siltstone.ClearToolResults(ClearConfig(wait_for_cache=waits, keep_results=1, min_reclaim=0))
        with opened(policy, siltstone.SimpleMemoryStore()) as session:
            session.append(user("Go."))
            for number in range(60):
                tokens = session._core.view.tokens
                prepared = session.prepare()
                if prepared.outcomes and waits not in first:
                    first[waits] = tokens
                call, result = step(number)
                session.append(call, usage=usage(prepared.tokens, prepared.tokens))
                session.append(result)
    assert WINDOW * 0.5 <= first[False] < WINDOW * 0.6
    assert WINDOW * 0.75 <= first[True] < WINDOW * 0.85


def test_what_is_cached_is_known_to_the_next_process(tmp_path: Path):
    with siltstone.MemoryStore.open(tmp_path) as store:
        with opened(None, store) as session:
            session.append(user("Go."), assistant("Yes."), usage=usage(900, 600))
        with opened(None, store) as session:
            assert session._core.clock.cached_tokens == 600
            assert session._core.clock.cached(session._core.milliseconds()) == 600


def summarised(store: Any, told: list[Any]) -> siltstone.Session:
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=9_500))
    session = opened(policy, store, hooks=[told.append], reserved_tokens=300)
    for number in range(6):
        session.append(user(f"Request {number}."), *step(number), assistant("Done."))
        session.prepare()
    return session


def test_the_undo_of_a_compaction_tells_what_it_cost_and_what_stays_is_cached_still():
    told: list[Any] = []
    with summarised(siltstone.SimpleMemoryStore(), told) as session:
        assert isinstance(session.compact(), Compacted)
        session.append(user("On."))
        tokens = session.prepare().tokens
        session.append(assistant("Yes."), usage=usage(tokens, tokens - 20))
        assert not [each for each in told if isinstance(each, CacheBroken)]
        assert session.undo_compaction() is not None
        (broken,) = [each for each in told if isinstance(each, CacheBroken)]
        assert broken == CacheBroken("s", "undo", tokens - 20 - 300, tokens - 20), "all but what is reserved"
        assert session._core.clock.cached_tokens == 300
        assert session._core.clock.last_input_tokens == 0
        assert session.undo_compaction() is None


@pytest.mark.parametrize("position", [0, 3, 12])
def test_a_branch_tells_what_it_cost_and_so_does_its_undo(position: int):
    told: list[Any] = []
    listed = [raw for number in range(10) for raw in (user(f"Request {number}."), assistant("word " * 40))]
    with opened(None, siltstone.SimpleMemoryStore(), hooks=[told.append], reserved_tokens=300) as session:
        session.observe(listed)
        tokens = session.prepare().tokens + 300
        session.append(assistant("Done."), usage=usage(tokens, tokens))
        kept = session._core.view.rule.count(read_history(listed[:position]))
        session.observe([*listed[:position], user("Another way.")])
        broken = [each for each in told if isinstance(each, CacheBroken)]
        assert broken == [CacheBroken("s", "branch", tokens - 300 - kept, tokens)]
        assert session._core.clock.cached_tokens == 300 + kept
        tokens = session.prepare().tokens + 300
        session.append(assistant("Yes."), usage=usage(tokens, tokens))
        assert session.undo_compaction() is not None
        assert told[-1] == CacheBroken("s", "undo", tokens - 300 - kept, tokens)


def test_a_branch_that_comes_with_the_usage_of_its_request_starts_from_that():
    told: list[Any] = []
    with opened(None, siltstone.SimpleMemoryStore(), hooks=[told.append]) as session:
        session.append(user("Go."), assistant("word " * 400), usage=usage(900, 800))
        session.observe([user("Go."), user("Another way.")], usage=usage(90, 40))
        (broken,) = [each for each in told if isinstance(each, CacheBroken)]
        assert broken.cached_tokens == 800
        assert (session._core.clock.cached_tokens, session._core.clock.last_input_tokens) == (40, 90)
