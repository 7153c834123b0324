"""A store whose sessions began with a preset: who goes on with it, and what is refused?"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from playing_presets import policy_config, waterfall_of
from siltstone import ConfigError, MemoryStore, Session, presets
from siltstone.cli.app import app
from siltstone.engine import Compacted
from siltstone.messages import unmarked


def test_a_store_that_another_preset_filled_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    with Session.open(tmp_path, "chat", preset="rustant", context_window=16_000) as session:
        session.append({"role": "user", "content": "hello"})
    with MemoryStore.open(tmp_path, read_only=True) as store:
        before = store.open_log("chat").state()
    for name in ("meerkat", "waterfall"):  # the one needs another form of store, the other does not
        for session_id in ("chat", "another"):
            with pytest.raises(ConfigError, match=f"preset '{name}'.*preset 'rustant'"):
                Session.open(tmp_path, session_id, preset=name)
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert store.open_log("chat").state() == before
        assert len(store.sessions().sessions) == 1
    with Session.open(tmp_path, "chat", preset=presets.rustant(working_limit=10)) as session:
        assert session.log() == [{"role": "user", "content": "hello"}]


def test_a_session_goes_on_with_the_preset_that_it_began_with(tmp_path: Path) -> None:
    """The policy, its settings, the form of its search, the redaction: nobody has to name it again."""
    secret = "token=Zk3v9QpL2mXw8RtY5nBa"
    made = {
        "meerkat": presets.meerkat(recent_turn_budget=2),
        "spacebot": presets.spacebot(superseding_tools=("snapshot",)),
        "rustant": presets.rustant(working_limit=6, documented=False),
        "waterfall": presets.waterfall(immediate_window=4, recent_window=4, stop=["\n\n"]),
        "openclaw": presets.openclaw(protected_recent=3),
    }
    for name, first in made.items():
        place = tmp_path / name
        with Session.open(place, "chat", preset=first, context_window=16_000) as session:
            session.append({"role": "user", "content": "hello"})
            ranker = session.store.ranker  # type: ignore[attr-defined]
        with Session.open(place, "chat", context_window=16_000) as session:
            again = session._opened
            assert again.policy is not None
            assert again.policy.config == policy_config(first)  # type: ignore[attr-defined]
            assert session.store.ranker == ranker  # type: ignore[attr-defined]
            assert (again.preset or first).most_hits == first.most_hits
            session.append({"role": "user", "content": f"my {secret}"})
            assert (secret in str(session.log())) == (name != "openclaw")
        with MemoryStore.open(place) as store, store.session("chat", context_window=16_000) as session:
            assert session._opened.policy.config == policy_config(first)  # type: ignore[union-attr]
            with session.fork("branch") as branch:
                assert branch._opened.policy.config == policy_config(first)  # type: ignore[union-attr]


def test_preset_none_opens_a_session_of_a_preset_without_it(tmp_path: Path) -> None:
    with Session.open(tmp_path, "chat", preset="rustant", context_window=16_000) as session:
        session.append({"role": "user", "content": "hello"})
    with Session.open(tmp_path, "chat", preset=None, policy=None) as session:
        assert session.prepare().messages == [{"role": "user", "content": "hello"}]
    with Session.open(tmp_path, "chat", policy=None) as session:  # its memory alone
        assert session._opened.policy is None
        assert session.search("hello") == []


def test_a_new_session_in_the_store_of_a_preset_has_to_say_what_it_is(tmp_path: Path) -> None:
    with Session.open(tmp_path, "chat", preset="openclaw", context_window=16_000) as session:
        session.append({"role": "user", "content": "hello"})
    with pytest.raises(ConfigError, match=r"'later' is new.*'chat'.*'openclaw'.*preset=None") as caught:
        Session.open(tmp_path, "later", context_window=16_000)
    assert vars(caught.value)["field"] == "preset"
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert [each.session_id for each in store.sessions().sessions] == ["chat"]
    with Session.open(tmp_path, "later", preset=None, context_window=16_000) as session:
        session.append({"role": "user", "content": "plain"})
    with Session.open(tmp_path, "later", context_window=16_000) as session:
        assert session._opened.policy.name == "threshold"  # type: ignore[union-attr]


def test_what_only_code_can_say_has_to_be_said_again(tmp_path: Path) -> None:
    made = presets.waterfall(profile="night", profiles={"night": lambda _: "The river rose."})
    with Session.open(tmp_path, "chat", preset=made, context_window=64_000) as session:
        session.append({"role": "user", "content": "hello"})
    with pytest.raises(ConfigError, match=r"'waterfall', made with profiles, which no store can keep"):
        Session.open(tmp_path, "chat", context_window=64_000)
    with Session.open(tmp_path, "chat", model=lambda _: "Dawn.", context_window=64_000) as session:
        session.append(*({"role": "user", "content": f"Note {at}"} for at in range(150)))
        assert isinstance(outcome := session.compact_memories(), Compacted)
        assert "Dawn." in outcome.summary
    runner, place = CliRunner(), str(tmp_path)
    assert "# Memory Status" in runner.invoke(app, ["memory-status", place]).stdout
    assert "--model" in runner.invoke(app, ["compact-memories", place]).output
    with Session.open(tmp_path, "chat", preset=made, context_window=64_000) as session:
        assert session.log(0, 1) == [{"role": "user", "content": "hello"}]


def test_meerkat_over_a_store_of_another_form_says_that_it_needs_its_own(tmp_path: Path) -> None:
    with Session.open(tmp_path, "chat", context_window=16_000) as session:
        session.append({"role": "user", "content": "hello"})
    with pytest.raises(ConfigError, match=r"'meerkat' needs a store of another form.*use another directory"):
        Session.open(tmp_path, "other", preset="meerkat")


def test_commands_that_change_a_store_keep_the_files_of_its_preset_in_step(tmp_path: Path) -> None:
    """What is forgotten at the command line leaves vault and archive; what is imported is redacted."""
    runner = CliRunner()
    waterfall_of(tmp_path / "river", 20)
    asked = ["forget", str(tmp_path / "river"), "--text", "Entry 3:", "--yes"]
    ran = runner.invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    texts = [path.read_text("utf-8") for path in (tmp_path / "river" / "vault").rglob("*.md")]
    assert texts
    assert not any("Entry 3:" in text for text in texts)

    place = tmp_path / "claw"
    with Session.open(place, "chat", preset="openclaw", context_window=16_000) as session:
        for number in range(30):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"Note {number}: Falkenburg. " + "filler " * 300})
            prepared = session.prepare()
        assert prepared.trimmed
    segments = place / "memory" / "context" / "segments.jsonl"
    assert "Note 3:" in segments.read_text("utf-8")
    assert runner.invoke(app, ["forget", str(place), "--text", "Note 3:", "--yes"]).exit_code == 0
    assert "Note 3:" not in segments.read_text("utf-8")
    secret = "token=Zk3v9QpL2mXw8RtY5nBa"
    (tmp_path / "said.jsonl").write_text(json.dumps({"role": "user", "content": secret}) + "\n")
    ran = runner.invoke(app, ["import", str(tmp_path / "said.jsonl"), str(place), "--session", "told"])
    assert ran.exit_code == 0, ran.output
    with Session.open(place, "told", context_window=16_000) as session:
        assert session.log() == [{"role": "user", "content": "token=[REDACTED]"}]


@pytest.mark.parametrize("name", ["rustant", "meerkat", "waterfall", "spacebot"])
def test_a_host_that_sends_its_requests_back_logs_each_message_once(tmp_path: Path, name: str) -> None:
    """Without a system prompt and without the marks of summaries; the model always writes the same.

    Spacebot's model answers five turns late, after its request was cut: several views then have equal texts.
    """
    answers = threading.Event()
    settings: dict[str, dict[str, Any]] = {
        "waterfall": {"immediate_window": 4, "recent_window": 4},
        "spacebot": {"summary_role": "assistant"},
    }
    made, host = getattr(presets, name)(**settings.get(name, {})), list[dict[str, Any]]()

    def model(_: Any) -> str:
        assert name != "spacebot" or answers.wait(60)
        return "The river rose."

    def opened() -> Session:
        return Session.open(tmp_path, "chat", preset=made, context_window=8_000, model=model)

    session = opened()
    for turn in range(30):
        if turn in (10, 20) and name != "spacebot":  # the process begins anew
            session = opened()
        if name == "rustant" and turn in (0, 15):
            for number in range(turn, turn + 3):
                session.record_denial("shell", f"rm -rf {number}", f"use make {number}", "tidy up")
        session.observe([*host, {"role": "user", "content": f"Question {turn}: " + f"word{turn} " * 200}])
        request = json.loads(json.dumps(session.prepare().messages))
        if turn % 5 == 4:
            answers.set()
            session.wait_for_compaction()
            answers.clear()
        host = [{**raw, "content": unmarked(raw["content"])} for raw in request]
        host.append({"role": "assistant", "content": f"Answer {turn}: " + f"told{turn} " * 200})
    answers.set()
    with session:
        assert (len(session.compactions()) > 2, len(session.log())) == (True, 59)
