"""Standing wishes in a session: they are in each request whose context has lost them, until taken back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, small, turns, user
from siltstone import RecallConfig, Session
from siltstone.recall import parse_block
from siltstone.testing import ScriptedModel

RULE = "Never push to main."
FOOD = "I am allergic to shellfish."


def opened(path: Path | None, session_id: str = "s", **options: Any) -> Session:
    settings = {"policy": small(), "context_window": 16_000, "model": ScriptedModel(), "recall": True}
    return Session.open(path, session_id, **{**settings, **options})


def talk(session: Session, count: int = 8) -> None:
    for turn in turns(count):
        session.append(*turn)
        session.prepare()


def wishes(session: Session) -> list[str]:
    block = parse_block(session.prepare().standing or "")
    return [] if block is None else [content.rpartition(" (")[0] for _, content in block[0]]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path) as one:
        one.append(user(f"Hello. {RULE}"), assistant("noted"), user(FOOD), assistant("noted"))
        yield one


def test_a_wish_is_learned_at_once_and_placed_when_its_message_has_left(session: Session) -> None:
    assert session.prepare().standing == ""  # its message is in context
    assert {fact.content for fact in session.standing()} == {
        "Never push to main",
        "I am allergic to shellfish",
    }
    talk(session)
    assert RULE not in json.dumps(session.history())
    answer = session.prepare()
    assert wishes(session) == ["Never push to main", "I am allergic to shellfish"]
    [place] = [at for at, each in enumerate(answer.messages) if each.get("content") == answer.standing]
    assert answer.messages[:place] + answer.messages[place + 1 :] == answer.history == session.history()


def test_the_messages_before_the_newest_turn_stay_the_same_until_a_compaction(session: Session) -> None:
    talk(session)
    before = session.prepare()
    session.append(assistant("ok"), user("and now the next thing"))
    after = session.prepare()
    assert before.standing != ""
    assert after.compaction is None
    assert after.messages[: len(before.messages)] == before.messages


def test_a_wish_that_is_taken_back_does_not_return_and_a_restored_one_does(session: Session) -> None:
    session.prepare()
    rule = next(fact for fact in session.standing() if "push" in fact.content)
    assert session.retract(rule.id)
    talk(session)
    assert wishes(session) == ["I am allergic to shellfish"]
    assert session.restore(rule.id)
    assert wishes(session) == ["Never push to main", "I am allergic to shellfish"]


def test_a_wish_is_there_after_a_restart_and_in_other_sessions_of_the_namespace(tmp_path: Path) -> None:
    with opened(tmp_path, namespace="ann") as one:
        one.append(user(FOOD))  # closed after one message, without a request
    with opened(tmp_path, "next", namespace="ann") as other:
        other.append(user("hello, where shall we eat?"))
        assert wishes(other) == ["I am allergic to shellfish"]
    with opened(tmp_path, "stranger", namespace="bob") as stranger:
        stranger.append(user("hello, where shall we eat?"))
        assert wishes(stranger) == []
    with opened(tmp_path, namespace="ann") as again:
        talk(again)
        assert wishes(again) == ["I am allergic to shellfish"]


def test_a_forgotten_wish_is_gone(session: Session) -> None:
    talk(session)
    session.forget(text="shellfish")
    assert wishes(session) == ["Never push to main"]
    assert "shellfish" not in json.dumps(session.prepare().messages)


def test_the_block_takes_a_twentieth_of_the_window_and_prefers_what_is_new_or_said_often(tmp_path: Path):
    with opened(tmp_path, context_window=6_000) as one:
        one.append(
            user("Never touch the folder zebra."), assistant("ok"), user("Never touch the folder zebra.")
        )
        for name in (f"folder{number}" for number in range(60)):
            one.append(user(f"Never touch the {name}."), assistant("ok"))
            answer = one.prepare()
        talk(one)
        answer = one.prepare()
        lines = wishes(one)
        assert 200 < answer.tokens - one.prepare(recall=False).tokens <= 300
        assert {"Never touch the folder zebra", "Never touch the folder59"} <= {*lines}
        assert "Never touch the folder0" not in lines
        one.append(user("what about folder0?"))
        assert "folder0" in one.prepare().recalled


def test_a_host_adds_a_wish_and_nothing_is_placed_where_the_switch_is_off(tmp_path: Path) -> None:
    with opened(tmp_path) as one:
        one.save("Answers in French", "preference", tags=["standing"])
        one.append(user("hello there"))
        assert wishes(one) == ["Answers in French"]
    with opened(tmp_path, recall=RecallConfig(standing=False)) as off:
        assert off.prepare().standing == ""
        assert len(off.standing()) == 1


def test_a_list_with_the_block_that_has_been_through_json_is_no_message_of_the_log(session: Session) -> None:
    talk(session)
    answer = session.prepare()
    session.observe([*json.loads(json.dumps(answer.messages)), assistant("fine"), user("go on")])
    assert session.history()[-2:] == [assistant("fine"), user("go on")]
    assert "Standing wishes" not in json.dumps(session.log())
