"""Redaction in a session: no secret is in any byte of the store, and all else is as it was."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from typing import Any, Literal

import pytest

from conversations import assistant, exchange, small, turns, user
from secret_forms import FORMS, plant
from siltstone import RedactionConfig, Session
from siltstone.config import make_policy, policy_names
from siltstone.engine import Compacted
from siltstone.errors import SecretRefusedError
from siltstone.events import SecretsRedacted
from siltstone.llm import CompletionRequest
from siltstone.messages import RecalledMessage, SummaryMessage
from siltstone.redaction import Redactor, SecretRule, rule_names

KEY = "sk-proj-Zk3v9QpL2mXw8RtY5nBaZk3v9QpL2mXw8RtY5nBa"
TOKEN = "ghp_Zk3v9QpL2mXw8RtY5nBaJc7dHs1fKu4eVo6i"
PASSWORD = "r7Kp9vXq2LmZ4tWb8"
BEARER = "Zk3v9QpL2mXw8RtY5nBaJc7d"
RESULT = {"type": "tool_result", "tool_use_id": "t1"}
SECRETS = (KEY, TOKEN, PASSWORD, BEARER)


def opened(path: Path | None, events: list[Any] | None = None, **options: Any) -> Session:
    hooks = [] if events is None else [events.append]
    settings = {"policy": small(), "context_window": 16_000, "redaction": True}
    return Session.open(path, "s", hooks=hooks, **{**settings, **options})


def said() -> list[dict[str, Any]]:
    """A secret in each place of a message that a text can be in, in several dialects."""
    command = json.dumps({"command": f"curl -H 'Authorization: Bearer {BEARER}' x", "password": PASSWORD})
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": command}}
    return [
        user(f"remember: the deploy key is {KEY} and we decided to use token={BEARER}"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"password": PASSWORD, "x": TOKEN})},
        assistant(f"I pushed with {TOKEN}."),
        {"role": "user", "content": [{"type": "text", "text": f"and {KEY}"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": f"the key is {KEY}", "signature": "c2lnbmVk"},
                {"type": "text", "text": "thinking of it"},
                {"type": "tool_use", "id": "t1", "name": "run", "input": {"api_key": BEARER, "n": [KEY]}},
            ],
        },
        {"role": "user", "content": [{**RESULT, "content": "word " * 900 + KEY}]},
        assistant("done"),
    ]  # fmt: skip


def leaks(request: CompletionRequest) -> str:
    """A model that repeats every secret, whatever it is asked."""
    if request.purpose == "facts":
        return json.dumps([{"type": "config", "content": f"The key is {KEY}", "context": TOKEN}])
    return f"They said {KEY}, {TOKEN} and password={PASSWORD}, with Bearer {BEARER}."


def bytes_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def found_in(path: Path, secrets: tuple[str, ...] = SECRETS) -> list[tuple[str, str]]:
    return [
        (name, secret)
        for name, data in bytes_of(path).items()
        for secret in secrets
        if secret.encode() in data or secret.encode("utf-16-le") in data
    ]


def test_no_byte_of_the_store_has_a_secret_whatever_is_written(tmp_path: Path) -> None:
    def inject(_: Any) -> list[Any]:
        return [user(f"the state has {TOKEN}")]

    options = {
        "context_window": 3_000,
        "model": leaks,
        "recall": True,
        "namespace": "quarry",
        "on_after_compact": inject,
        "archive": tmp_path / "archive",
    }
    with opened(tmp_path, **options) as session:
        for _ in range(3):
            for message in said():
                if message["role"] == "assistant":
                    session.prepare()
                session.append(message)
            assert isinstance(session.compact(), Compacted)
            session.resummarize()
        session.save(f"the token is {TOKEN}", "fact", source=KEY)
        session.record_denial("run", f"export KEY={KEY}", f"never print {KEY}", f"deploy with {TOKEN}")
        session.memory_save.call({"content": f"key {KEY}", "memory_type": "fact"})
        session.observe([*session.history(), user(f"password: {PASSWORD}")])
        branched = session.history()[:-3]
        session.observe([*branched, user(f"again {KEY}")])
        session.append(user("what is the deploy key?"))
        session.prepare()
        session.search("deploy key")
        assert found_in(tmp_path) == []
        session.forget(text="thinking of it")
        assert found_in(tmp_path) == []
    assert found_in(tmp_path) == []
    assert any(b"[REDACTED]" in data for data in bytes_of(tmp_path).values())
    with opened(tmp_path, **options) as session:
        session.undo_compaction()
        session.prepare()
        session.close()
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("action", ["redact", "block"])
def test_what_a_compaction_hands_back_has_no_secret_that_its_model_repeats(
    tmp_path: Path, action: Literal["redact", "block"]
) -> None:
    """Nor has what a hook is told; and a rule that refuses messages refuses no compaction."""
    told: list[Compacted] = []
    config = RedactionConfig(actions=dict.fromkeys(rule_names(), action))
    options: dict[str, Any] = {"model": leaks, "redaction": config, "on_after_compact": told.append}
    with opened(tmp_path, **options) as session:
        for turn in turns(8):
            session.append(*turn)
        outcome = session.compact()
        assert isinstance(outcome, Compacted)
        for handed in (outcome, *told):
            shown = json.dumps([handed.messages, handed.summary, handed.summaries, handed.state])
            assert [secret for secret in SECRETS if secret in shown] == []
            assert "[REDACTED]" in handed.summary
        assert len(told) == 1
        assert outcome.messages == session.history() == session.prepare().messages
        assert outcome.tokens_after == session.prepare().tokens
        session.close()
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_leaves_a_secret_in_the_store_or_in_the_view(tmp_path: Path, name: str) -> None:
    """A model that repeats every secret, in as many runs as come."""
    outcomes: list[Any] = []
    options = {"policy": make_policy(name), "model": leaks, "context_window": 9_000, "recall": True}
    with opened(tmp_path, **options) as session:
        for number in range(15):
            for message in said():
                session.append(message)
            outcomes += session.prepare().outcomes
            session.append(user(f"and what of step {number}?"))
            prepared = session.prepare()
            outcomes += prepared.outcomes
            made = [raw for raw in prepared.messages if isinstance(raw, SummaryMessage | RecalledMessage)]
            assert [secret for secret in SECRETS if secret in json.dumps(made)] == []
        session.wait_for_compaction()
        outcomes += session.prepare().outcomes
        session.close()
    assert found_in(tmp_path) == []
    summaries = [outcome.summaries for outcome in outcomes if isinstance(outcome, Compacted)]
    assert summaries
    assert [secret for secret in SECRETS if secret in json.dumps(summaries)] == []


def test_every_form_of_a_secret_is_kept_out_of_the_store(tmp_path: Path) -> None:
    planted = list(plant(["Please write this down, and go on with the work."], len(FORMS), seed=18))
    assert len({each.form for each in planted}) == len(FORMS) >= 40
    with opened(tmp_path, policy=small(4_000)) as session:
        for each in planted:
            session.append(user(each.text), *exchange(0, each.text), assistant("noted"))
            session.prepare()
        assert [row.reason for row in session.compactions()]
    secrets = tuple(line for each in planted for line in each.secret.splitlines() if len(line) > 8)
    assert found_in(tmp_path, secrets) == []


def test_what_the_caller_appended_is_the_same_object_and_unchanged(tmp_path: Path) -> None:
    messages = said()
    before = copy.deepcopy(messages)
    with opened(tmp_path) as session:
        session.append(*messages)
        assert messages == before
        assert all(one is other for one, other in zip(session.history(), messages, strict=True))
        assert all(one is other for one, other in zip(session.prepare().messages, messages, strict=True))
        assert not any(secret in json.dumps(session.log()) for secret in SECRETS)
    with opened(tmp_path) as session:
        assert not any(secret in json.dumps(session.history()) for secret in SECRETS)
        assert len(session.history()) == len(messages)


def test_signed_reasoning_is_left_out_or_refused_and_never_changed(tmp_path: Path) -> None:
    signed = said()[5]
    with opened(tmp_path / "a") as session:
        session.append(*said()[:6])
        kinds = [block["type"] for block in session.log()[5]["content"]]
        assert kinds == ["text", "tool_use"]
        assert session.history()[5] is not None
    clean = {**signed, "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]}
    with opened(tmp_path / "b", redaction=RedactionConfig(signed="refuse")) as session:
        session.append(user("x"), clean)
        assert session.log()[1] == clean
        with pytest.raises(SecretRefusedError) as caught:
            session.append(signed)
        assert caught.value.reason == "signed"
        assert KEY not in str(caught.value)
        assert len(session.log()) == len(session.history()) == 2
        session.append(assistant("y"))
    assert found_in(tmp_path) == []


def test_a_rule_that_blocks_refuses_the_message_and_nothing_of_the_call_is_written(tmp_path: Path) -> None:
    badge = SecretRule("badge", r"badge (?P<s>\d{6})", keywords=("badge",), action="block")
    config = RedactionConfig(rules=(badge,), actions={"password": "allow"})
    with opened(tmp_path, redaction=Redactor(config)) as session:
        session.append(user(f"password: {PASSWORD}"))
        assert PASSWORD in json.dumps(session.log())
        for write in (session.append, lambda *raws: session.observe([*session.history(), *raws])):
            with pytest.raises(SecretRefusedError) as caught:
                write(user("fine"), user("my badge 123456"))
            assert (caught.value.rule, caught.value.path) == ("badge", "content")
        assert len(session.log()) == 1
        assert session.append(assistant("ok")) == range(1, 2)
    assert b"123456" not in b"".join(bytes_of(tmp_path).values())


def test_where_secrets_stood_is_told_without_them(tmp_path: Path) -> None:
    events: list[Any] = []
    with opened(tmp_path, events) as session:
        session.append(user("nothing"), user(f"use {TOKEN} now"))
        [event] = [each for each in events if isinstance(each, SecretsRedacted)]
        [(seq, rule, path, start, end)] = event.spans
        assert (seq, path, start, end) == (1, "content", 4, 4 + len(TOKEN))
        assert rule.startswith("github")
        assert TOKEN not in repr(event)
        session.observe([*session.history(), assistant(f"password={PASSWORD}")])
        told = [each for each in events if isinstance(each, SecretsRedacted)]
        assert [each.seq for each in told[-1].spans] == [2]
        session.append(user("nothing"))
        assert len([each for each in events if isinstance(each, SecretsRedacted)]) == 2


def fresh(raws: list[Any]) -> list[Any]:
    return json.loads(json.dumps(raws))  # type: ignore[no-any-return]


@pytest.mark.parametrize("same", [lambda raws: raws, copy.deepcopy, fresh])
def test_observe_compares_what_would_be_written(tmp_path: Path, same: Callable[[list[Any]], list[Any]]):
    raws = said()
    with opened(tmp_path) as session:
        assert session.observe(raws) == len(raws)
        assert session.observe(same(raws)) == 0
        raws = [*raws, user(f"more {KEY}")]
        assert session.observe(same(raws)) == 1
    with opened(tmp_path) as session:  # the log has the redacted forms alone
        assert session.observe(same(raws)) == 0
        assert session.observe([*same(raws), assistant("x")]) == 1
        assert session.compactions() == []
        edited = [*same(raws)[:3], user("something else")]
        session.observe(edited)
        assert [row.reason for row in session.compactions()] == ["branch"]


def test_observe_knows_a_summary_that_had_a_secret_by_what_was_handed_out(tmp_path: Path) -> None:
    with opened(tmp_path, model=leaks) as session:
        for turn in turns(8):
            session.append(*turn)
            session.prepare()
        handed = session.prepare().history
        assert not any(secret in json.dumps(handed[0]) for secret in SECRETS)
        assert session.observe([*fresh(handed), user("next")]) == 1
        assert "branch" not in [row.reason for row in session.compactions()]
    with opened(tmp_path, model=leaks) as session:
        assert session.history() == [*handed, user("next")], "a reopened session shows the same bytes"


def test_a_log_from_before_redaction_goes_on(tmp_path: Path) -> None:
    raws = said()
    with opened(tmp_path, redaction=None) as session:
        session.observe(raws)
    with opened(tmp_path) as session:
        assert session.observe([*fresh(raws), user(f"and {TOKEN}")]) == 1
        assert session.compactions() == []
        assert TOKEN not in json.dumps(session.log(len(raws)))


def test_an_append_that_was_interrupted_after_its_write_is_not_written_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        rows = session._core.rows
        real = type(rows).append

        def stopped(self: Any, *args: Any, **named: Any) -> Any:
            real(self, *args, **named)
            raise KeyboardInterrupt

        message = user(f"push with {TOKEN}")
        type(rows).append = stopped  # type: ignore[method-assign]
        try:
            with pytest.raises(KeyboardInterrupt):
                session.append(message)
        finally:
            type(rows).append = real  # type: ignore[method-assign]
        assert session.append(message) == range(1)
        assert session.history()[0] is message
        assert len(session.log()) == 1
    assert found_in(tmp_path) == []


def test_the_places_of_our_own_tools_are_known_where_reasoning_is_left_out(tmp_path: Path) -> None:
    call = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": f"look for {KEY}", "signature": "c2ln"},
            {"type": "text", "text": "let me look"},
            {"type": "tool_use", "id": "m1", "name": "memory_search", "input": {"query": f"walrus {KEY}"}},
        ],
    }
    answer = {"type": "tool_result", "tool_use_id": "m1", "content": f"walrus {TOKEN}"}
    with opened(tmp_path) as session:
        session.append(user("where?"), call, {"role": "user", "content": [answer]}, assistant("there"))
        for turn in turns(8):
            session.append(*turn)
            session.prepare()
        assert session.search("let me look")[0].content == "let me look"
        assert not any("walrus" in hit.content for hit in session.search("walrus", 20))
    assert found_in(tmp_path) == []


def test_redaction_is_on_where_a_session_recalls_and_off_where_it_is_said(tmp_path: Path) -> None:
    for number, (options, redacts) in enumerate(
        [
            ({}, False),
            ({"recall": True}, True),
            ({"recall": True, "redaction": False}, False),
            ({"recall": True, "redaction": None}, False),
            ({"redaction": True}, True),
        ]
    ):
        with Session.open(tmp_path / str(number), "s", **options) as session:  # type: ignore[arg-type]
            session.append(user(f"token={TOKEN}"))
            assert (TOKEN not in json.dumps(session.log())) == redacts


def test_a_session_without_secrets_is_the_same_with_and_without_redaction(tmp_path: Path) -> None:
    logs = []
    for redaction in (True, False):
        with opened(tmp_path / str(redaction), redaction=redaction) as session:
            for number, turn in enumerate(turns(6)):
                session.append(*turn, *exchange(100 + number, f"commit {'0a1b2c3d4e' * 4} is fine"))
                session.prepare()
            logs.append((session.log(), session.history(), [h.content for h in session.search("topic1", 9)]))
    assert logs[0] == logs[1]


@pytest.mark.parametrize("name", ["threshold", "tiered", "waterfall", "window", "compress-tool-output"])
def test_where_a_policy_cuts_a_text_it_leaves_no_half_of_a_secret(tmp_path: Path, name: str) -> None:
    """Secrets stand so close that every cut goes through one."""
    chance = Random(3)
    secrets = ["ghp_" + "".join(chance.choices(ascii_letters + digits, k=36)) for _ in range(1_200)]
    with Session.open(
        tmp_path, "s", policy=make_policy(name), context_window=16_000, redaction=True
    ) as session:
        for number in range(3):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
            output = " ".join(secrets[number * 300 : number * 300 + 1_200 - number])
            session.append(
                user(f"run it {number}"),
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": output},
            )
            session.prepare()
            session.append(assistant("done " + "word " * 200))
        session.append(user("and now " + " ".join(secrets[:200])))
        session.prepare()
        session.compact()
        assert session.compactions()
    files = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    pieces = (secret[at : at + 9].encode() for secret in secrets for at in (4, 13, 22, 31))
    assert [piece for piece in pieces if piece in files] == []
