"""The pictures and figures of the commands for a session, and the transcripts of other tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import assistant, exchange, small, turns, user
from siltstone import Session
from siltstone.cli.app import app
from siltstone.cli.show import hit_text
from siltstone.cli.transcripts import read_transcripts
from siltstone.engine import Compacted
from siltstone.messages.text import is_hidden
from siltstone.testing import ScriptedModel


def told(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout


def answer(*arguments: object, code: int = 0) -> Any:
    return json.loads(told(*arguments, "--json", code=code))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that was compacted twice."""
    place = tmp_path_factory.mktemp("looking")
    with Session.open(place, "work", policy=small(), model=ScriptedModel()) as session:
        session.append({"role": "system", "content": "Be brief."})
        for _ in range(2):
            session.append(*(message for turn in turns(8) for message in turn))
            assert isinstance(session.compact(), Compacted)
    return place


def test_the_context_is_told_by_category_and_the_sum_is_the_whole(path: Path) -> None:
    shown = answer("context", path, "work", "--window", 100_000)
    bands = shown["categories"]
    assert [*bands][:2] == ["system", "summaries, level 2"]
    assert {"user", "tool calls", "tool results"} <= bands.keys()
    assert abs(sum(bands.values()) - shown["total_tokens"]) <= len(bands)
    piped = told("context", path, "work", "--window", 100_000)
    assert "█" not in piped
    assert "free" in piped


STEERING = "\x1b]52;c;cm0=\x07\x1b[2J\x9b31m\x7f\r\u202e\ud83d"  #: fills a clipboard, clears a screen, ...


def test_nothing_that_was_said_steers_the_terminal(tmp_path: Path) -> None:
    """A tool may have read it from any page. Each text is there, with its control characters as escapes."""
    name = f"work {STEERING[:-1]}"
    with Session.open(tmp_path, name, policy=small(), model=ScriptedModel(), knowledge=True) as session:
        for number in range(30):
            call, result = exchange(number, f"{STEERING} the walrus sings\nand dances")
            session.append(user(f"{STEERING} walrus {number}"), call, result, assistant(STEERING))
        assert isinstance(session.compact(), Compacted)
        session.save(f"the walrus sings {STEERING}"[:-1])
    for command in (["show"], ["search", "walrus"], ["compactions"], ["compactions", "--diff", "1"],
                    ["expand", "1"], ["facts"], ["timeline"], ["context"]):  # fmt: skip
        verb, *rest = command
        shown = told(verb, tmp_path, name, *rest)
        assert not [char for char in shown if is_hidden(char) or char == "\r"], command
        shown.encode()
        json_text = told(verb, tmp_path, name, *rest, "--json")
        assert not [char for char in json_text if is_hidden(char)], command
        json.loads(json_text)
    assert r"\x1b]52;c;cm0=\x07\x1b[2J\x9b31m\x7f\r\u202e\ufffd".replace("\\ufffd", "\ufffd") in told(
        "show", tmp_path, name
    )
    assert not [char for char in told("sessions", tmp_path) if is_hidden(char)]
    assert not [char for char in told("show", tmp_path, f"{name}?", code=2) if is_hidden(char)]


def test_any_script_is_written_where_the_system_names_a_smaller_code(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s") as session:
        session.append(user("淤泥 \N{OTTER}"))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for more in ([], ["--json"]):
        command = [sys.executable, "-m", "siltstone", "show", str(tmp_path), "s", *more]
        done = subprocess.run(command, capture_output=True, env=environment, check=True)
        assert "淤泥 \N{OTTER}" in done.stdout.decode()


def test_a_compaction_is_told_message_by_message(path: Path) -> None:
    first, second = (each["id"] for each in answer("compactions", path, "work")["compactions"])
    one = answer("compactions", path, "work", "--diff", first)
    two = answer("compactions", path, "work", "--diff", second)
    seqs = {each["seq"] for each in one["summarised"]}
    assert not seqs & {each["seq"] for each in one["kept"]}
    assert 0 in {each["seq"] for each in one["kept"]}  # the system prompt
    assert set(one["archived"]) <= seqs
    assert (one["summarised_earlier"], two["summarised_earlier"]) == (0, len(seqs))
    assert not seqs & {each["seq"] for each in two["summarised"]}
    shown = told("compactions", path, "work", "--diff", first)
    assert shown.count("- archived") == len(one["archived"])
    assert shown.count("\n  kept") == len(one["kept"])
    assert "reason manual" in shown
    told("compactions", path, "work", "--diff", 99, code=2)


def test_a_hit_says_how_its_score_came_about(path: Path) -> None:
    (hit,) = answer("search", path, "work", "question", "--limit", 1, "--explain")["hits"]
    assert hit["explain"]["terms"]
    (plain,) = answer("search", path, "work", "question", "--limit", 1)["hits"]
    timed = answer("search", path, "work", "question", "--order", "time")["hits"]
    assert [hit["source_range"] for hit in timed] == sorted(hit["source_range"] for hit in timed)
    assert plain["explain"] is None
    assert "idf" in told("search", path, "work", "question", "--limit", 1, "--explain")


def test_a_terminal_shows_the_part_of_a_long_hit_that_says_most_of_the_query() -> None:
    long = "silt " * 400 + "the door code is 4711 " + "clay " * 400
    shown = hit_text(long, "door code", is_terminal=True)
    assert "the door code is 4711" in shown
    assert len(shown) < 700
    assert f"a part of {len(long):,} characters" in shown
    assert hit_text(long, "door code", is_terminal=False) == long
    assert hit_text("short", "door code", is_terminal=True) == "short"


def claude(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **({"id": more.pop("id")} if "id" in more else {})}
    return {"type": kind, "sessionId": "s-1", "uuid": "u", "message": message, **more}


def test_a_transcript_of_claude_code_is_a_session_of_whole_answers(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "README.md"}
    lines = [
        {"type": "summary", "summary": "Listing", "leafUuid": "u"},
        claude("user", "What is there?"),
        claude("user", "<caveat>", isMeta=True),
        claude("assistant", [{"type": "text", "text": "I look."}], id="msg_1"),
        claude("assistant", [call], id="msg_1"),
        claude("user", [{"type": "text", "text": "of a sub-agent"}], isSidechain=True),
        claude("user", [result]),
        claude("assistant", [{"type": "text", "text": "A README."}], id="msg_2"),
    ]
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (session,) = read_transcripts(file, whole=True)
    assert session.name == "s-1"
    assert session.messages == [
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "A README."}]},
    ]
    assert answer("import", file, tmp_path / "store")["sessions"] == [{"session": "s-1", "messages": 4}]


def test_an_export_of_chatgpt_is_read_along_the_branch_that_was_open_last(tmp_path: Path) -> None:
    def node(parent: str | None, role: str, text: str) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [text]}
        return {"parent": parent, "message": {"author": {"role": role}, "content": content}}

    mapping = {
        "root": {"parent": None, "message": None},
        "a": node("root", "user", "Hello"),
        "b": node("a", "assistant", "An answer that was made anew"),
        "c": node("a", "assistant", "Hello, Ann"),
    }
    file = tmp_path / "conversations.json"
    file.write_text(
        json.dumps([{"conversation_id": "c-1", "mapping": mapping, "current_node": "c"}], indent=1), "utf-8"
    )
    (session,) = read_transcripts(file)
    assert (session.name, [each["content"] for each in session.messages]) == ("c-1", ["Hello", "Hello, Ann"])


def test_a_request_of_openai_over_several_lines_is_one_session(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(
        json.dumps({"id": "r", "messages": [{"role": "user", "content": "Hi"}]}, indent=2), "utf-8"
    )
    (session,) = read_transcripts(file)
    assert (session.name, session.messages) == ("r", [{"role": "user", "content": "Hi"}])
