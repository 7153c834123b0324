"""A large result goes into the log before it enters the context, and a handle reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, user
from siltstone import ConfigError, Emergency, MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.errors import InvalidMessageError
from siltstone.messages import SubstituteMessage

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


def test_no_text_names_a_tool_that_the_model_is_not_offered(tmp_path: Path):
    call, result = exchange("a", LINES)
    with MemoryStore.open(tmp_path) as store, opened(store, Emergency(600), context_window=1_200) as session:
        assert "memory_get" in session.memory_instructions
        session.withhold_tools()
        session.append(user("Go."), call)
        session.offload(result, 500)
        session.append(*(raw for n in range(40) for raw in (user(f"And {n}? " * 20), assistant(f"Yes {n}."))))
        told = json.dumps(session.prepare().messages)
        assert "Earlier messages no longer shown" in told
        assert not any(tool.name in told + session.memory_instructions for tool in session.tools)


def test_a_fork_has_the_cut_form_reads_the_original_and_can_bring_it_back(tmp_path: Path):
    call, result = exchange("a", LINES)
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(user("Go."), call)
            session.offload(result, 500)
            with session.fork("f", prompt="On.") as fork:
                assert fork.history() == [*session.history(), user("On.")]
                assert fork.log() == [user("Go."), call, result, user("On.")]
        with Session.open(None, "f", policy=None, memory=store, model=None) as fork:
            told = json.loads(fork.memory_get.call({"handle": "m2", "pattern": "zebra3999"}))
            assert told["matches"] == 1
            assert fork.search("zebra2345")
            fork.undo_compaction()
            assert fork.history()[2] == result
        with opened(store) as session:
            assert isinstance(session.history()[2], SubstituteMessage), "an undo in the fork is the fork's"


def test_what_is_small_or_no_result_is_appended_as_it_is():
    call, result = exchange("a", "short")
    with opened(SimpleMemoryStore()) as session:
        session.append(user("Go."), call)
        assert session.offload(result) == range(2, 3)
        assert session.offload(assistant(LINES), 100) == range(3, 4)
        assert session.history()[2] is result
        assert session.compactions() == []


def test_bad_arguments_write_nothing():
    with opened(SimpleMemoryStore()) as session:
        for tokens in (63, -1, 1.5, "many", True):
            with pytest.raises(ConfigError):
                session.offload(user(LINES), tokens)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError):
            session.offload({"content": "no role"})
        assert session.log() == []


def test_another_worker_that_writes_meanwhile_does_not_part_a_result_from_its_cut_form(tmp_path: Path):
    """Its clock moves between the reading and the writing: the cut is made again on what is there then."""
    with MemoryStore.open(tmp_path) as store, opened(store) as session, opened(store) as other:
        call, result = exchange("a", LINES)
        session.append(user("Go."), call)
        other.reload()
        commit, tries = session._core.rows.commit, []

        def overtaken(*args: Any, **options: Any) -> Any:
            if not tries:
                tries.append(True)
                other.pin(0)
            return commit(*args, **options)

        session._core.rows.commit = overtaken  # type: ignore[method-assign]
        assert session.offload(result, 500) == range(2, 3)
        assert tries
        assert session.log()[2] == result
        assert "tokens cut" in session.history()[2]["content"]
        assert session.history() == other.history()
