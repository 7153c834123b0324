"""A large result goes into the log before it enters the context, and a handle reads it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, user
from siltstone import (
    AsyncSession,
    ConfigError,
    InvalidMessageError,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
)
from siltstone.messages import SubstituteMessage
from siltstone.testing import ScriptedModel

LINES = "\n".join(f"row {number}: zebra{number}" for number in range(4_000))
WINDOW = 8_000


def opened(store: Any, policy: Any = None, **options: Any) -> Session:
    return Session.open(None, "s", policy=policy, memory=store, model=None, **options)


@pytest.mark.parametrize("policy", [None, ThresholdCompactor()])
def test_the_view_has_its_ends_the_log_all_of_it_and_the_handle_reads_it(tmp_path: Path, policy: Any):
    call, result = exchange("a", LINES)
    with MemoryStore.open(tmp_path) as store:
        with opened(store, policy, context_window=WINDOW) as session:
            session.append(user("Go."), call)
            assert session.offload(result, 500) == range(2, 3)
            prepared = session.prepare()
            assert prepared.tokens < 700
            assert isinstance(prepared.messages[2], SubstituteMessage)
            shown = prepared.messages[2]["content"]
            assert shown.startswith("row 0: zebra0\n")
            assert shown.endswith("zebra3999")
            assert 'memory_get("m2") reads them' in shown
            assert session.log()[2] == result
            told = json.loads(session.memory_get.call({"handle": "m2", "pattern": "zebra21(2|3)\\b"}))
            assert told["matches"] == 2
            assert session.search("zebra2345")
            (done,) = session.compactions()
            assert (done.policy, session.expand(done.id)) == ("offload", [result])
            view = prepared.messages
        with opened(store, policy, context_window=WINDOW) as session:
            assert session.history() == view
            session.undo_compaction()
            assert session.history()[2] == result


def test_what_is_small_or_no_result_is_appended_as_it_is():
    call, result = exchange("a", "short")
    with opened(SimpleMemoryStore()) as session:
        session.append(user("Go."), call)
        assert session.offload(result) == range(2, 3)
        assert session.offload(assistant(LINES), 100) == range(3, 4)
        assert session.history()[2] is result
        assert session.compactions() == []


def test_no_hook_of_a_compaction_is_asked_and_the_next_one_is_not_put_off():
    asked: list[Any] = []
    call, result = exchange("a", LINES)
    with opened(SimpleMemoryStore(), ThresholdCompactor(), on_before_compact=asked.append) as session:
        session.append(user("Go."), call)
        session.offload(result, 500, usage={"input_tokens": 900})
        assert asked == []
        assert session._core.clock.last_attempt is None
        assert session.usage.input_tokens == 0


def test_bad_arguments_write_nothing():
    with opened(SimpleMemoryStore()) as session:
        for tokens in (63, -1, 1.5, "many", True):
            with pytest.raises(ConfigError):
                session.offload(user(LINES), tokens)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError):
            session.offload({"content": "no role"})
        assert session.log() == []


def test_an_async_session_does_the_same():
    async def go() -> list[Any]:
        call, result = exchange("a", LINES)
        options: dict[str, Any] = {"policy": None, "memory": SimpleMemoryStore(), "model": ScriptedModel()}
        async with AsyncSession.open(None, "s", **options) as session:
            await session.append(user("Go."), call)
            assert await session.offload(result, 500) == range(2, 3)
            assert (await session.log())[2] == result
            return (await session.prepare()).messages

    assert "tokens cut" in asyncio.run(go())[2]["content"]
