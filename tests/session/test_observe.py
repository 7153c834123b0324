"""A host that owns its list: the log is brought in step with it, and never against itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import assistant, conversation, user
from siltstone import CompactionConfig, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.errors import HistoryConflictError
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def opened(path: Path) -> Session:
    return Session.open(path, "s", policy=POLICY, model=ScriptedModel(["A summary, of some length."]))


def copied(raws: list[Any]) -> list[Any]:
    """The same list after a round through JSON: equal, and no object the same."""
    copy: list[Any] = json.loads(json.dumps(raws))
    return copy


def test_equal_turns_are_told_from_old_ones(tmp_path: Path) -> None:
    again = [user("again"), assistant("ok " * 300)]
    with opened(tmp_path) as session:
        assert session.observe(copied(again)) == 2
        assert session.observe(copied(again + again)) == 2
        assert session.observe(copied(again * 3)) == 2
        assert isinstance(session.compact(), Compacted)
        adopted = copied(session.history())
        assert session.observe(adopted) == 0
        assert session.observe(adopted + copied(again)) == 2
        assert session.log() == again * 4


@pytest.mark.parametrize("how", ["changed", "taken back", "reordered", "shorter"])
def test_a_rewritten_past_is_refused_where_the_host_asks_for_it_and_nothing_is_lost(
    tmp_path: Path, how: str
) -> None:
    messages = conversation(3)
    rewritten = {
        "changed": [user("Something else."), *messages[1:], user("next")],
        "taken back": [*messages[:-1], user("next")],
        "reordered": [messages[1], messages[0], *messages[2:]],
        "shorter": messages[:-1],
    }[how]
    with opened(tmp_path) as session:
        session.observe(messages)
        with pytest.raises(HistoryConflictError, match="session of another id") as caught:
            session.observe(rewritten, on_conflict="raise")
        assert (caught.value.session_id, caught.value.logged) == ("s", len(messages))
        assert session.log() == messages
        assert session.history() == messages
        assert session.compactions(undone=True) == []
        assert session.observe(messages, on_conflict="raise") == 0


def test_an_empty_list_is_refused_where_something_was_said(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        assert session.observe([]) == 0
        session.observe(conversation(1))
        with pytest.raises(HistoryConflictError, match="it is empty"):
            session.observe([])
        assert session.history() == conversation(1)


@pytest.mark.parametrize("store", [SimpleMemoryStore, None])
def test_half_a_character_in_a_text_is_no_reason_to_refuse_a_list(tmp_path: Path, store: Any) -> None:
    """As where a host has cut a text in the middle of an emoji. The summary may quote it."""
    texts = ["\ud83d", "[Context compacted] \udfff", "a\x00b \ud800\ud800"]
    memory = True if store is None else store()
    host: list[Any] = []
    with Session.open(tmp_path, "s", policy=POLICY, memory=memory, context_window=2_000) as session:
        for number in range(40):
            said = f"{texts[number % 3]} {number} " + "word " * 40
            host = [*host, user(said)]
            session.observe(copied(host))
            prepared = session.prepare()
            if prepared.compaction is not None:
                host = copied(prepared.history)
            host.append(assistant(said))
            assert session.observe(copied(host)) == 1
            assert session.observe(copied(host)) == 0
        assert len(session.log()) == 80
        assert {each.reason for each in session.compactions()} == {"history_tokens"}


@given(data=st.data())
def test_the_log_is_the_host_s_list_whatever_it_says(data: st.DataObject) -> None:
    """Few different messages, so that many are equal; each list is the one before and more."""
    host: list[Any] = []
    messages = st.sampled_from([user("a"), user("b"), assistant("c")])
    with Session.open(None, "s", memory=SimpleMemoryStore()) as session:
        for _ in range(data.draw(st.integers(1, 5))):
            new = data.draw(st.lists(messages, max_size=4))
            host = [*host, *copied(new)]
            assert session.observe(copied(host)) == len(new)
            assert session.log() == host


@pytest.mark.parametrize("keeps", ["its own list", "our history"])
def test_a_user_who_quotes_a_summary_has_said_something(tmp_path: Path, keeps: str) -> None:
    with opened(tmp_path) as session:
        host: list[Any] = conversation()
        session.observe(host)
        prepared = session.prepare()
        (summary,) = [each for each in prepared.history if "[Context compacted]" in str(each["content"])]
        if keeps == "our history":
            host = copied(prepared.history)
        quote = user(summary["content"])
        host = [*host, user("What did you mean by this?"), assistant("By what?"), quote]
        assert session.observe(host) == 3
        assert session.prepare().messages[-1] is quote
        assert session.observe(copied(host)) == 0
        assert session.log()[-1] == quote
