"""The pictures and figures of the commands for a session."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import assistant, exchange, small, turns, user
from siltstone import Session, estimate_tokens
from siltstone.cli.app import app
from siltstone.engine import Compacted
from siltstone.messages import RecalledMessage
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


def test_the_last_request_and_what_recall_adds_are_told_as_providers(path: Path, tmp_path: Path) -> None:
    sent: list[list[Any]] = []
    with Session.open(tmp_path, "work", context_window=2_000, recall=True) as session:
        session.append({"role": "system", "content": "Be brief."}, user("From now on never push to main."))
        for valve in range(90):
            session.append(assistant("Noted. " * valve), user(f"And valve {valve}? Valve {valve // 2} held?"))
            sent.append(list((prepared := session.prepare()).messages))
    shown = answer("context", tmp_path, "--window", 2_000, "--recall")
    assert shown["total_tokens"] == prepared.tokens == sum(shown["categories"].values())
    bands = dict.fromkeys(name.partition(",")[0] for name in shown["categories"])
    assert [*bands] == ["system", "summary", "wishes", "recent", "recalled", "new"]
    assert "summary, level 2" in (bands := answer("context", path)["categories"])
    assert {"recent, user", "recent, tool calls", "recent, tool results"} <= bands.keys()
    blocks = [raw for request in sent for raw in request if isinstance(raw, RecalledMessage)]
    again = evaluated(sent) - evaluated([[raw for raw in request if raw not in blocks] for request in sent])
    assert shown["recall"]["added_tokens"] == estimate_tokens(blocks, "blocks")
    assert shown["recall"]["evaluated_again"] == again > 0


def evaluated(requests: list[list[Any]]) -> int:
    """The tokens that a provider with a cache of prefixes evaluates, without those of blocks of recall."""
    found = 0
    for cached, request in pairwise([[], *requests]):
        pairs = enumerate(zip([*cached, None], request, strict=False))
        same = next(at for at, (old, new) in pairs if old != new)
        new = [raw for raw in request[same:] if not isinstance(raw, RecalledMessage)]
        found += estimate_tokens(new, "blocks")
    return found


def test_what_is_in_context_is_found_and_marked_and_the_log_is_searched(tmp_path: Path) -> None:
    with Session.open(tmp_path, "work") as session:
        session.append(user("The sluice key hangs\nbehind the clock."), assistant("Noted."))
    said = told("search", tmp_path, "-s", "work", "sluice key")
    assert "in context" in said
    assert "behind the clock" in said
    (found,) = answer("log", tmp_path, "-s", "work", "--grep", "(?i)BEHIND")["messages"]
    assert (found["message"], found["lines"]) == (0, ["behind the clock."])
    none = told("log", tmp_path, "-s", "work", "--grep", "BEHIND").splitlines()
    assert none == ["0 messages; (?i) at the beginning of --grep ignores case"]


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
        shown = told(verb, tmp_path, *rest)
        assert not [char for char in shown if is_hidden(char) or char == "\r"], command
        shown.encode()
        json_text = told(verb, tmp_path, *rest, "--json")
        assert not [char for char in json_text if is_hidden(char)], command
        json.loads(json_text)
    assert r"\x1b]52;c;cm0=\x07\x1b[2J\x9b31m\x7f\r\u202e\ufffd".replace("\\ufffd", "\ufffd") in told(
        "show", tmp_path
    )
    assert not [char for char in told("sessions", tmp_path) if is_hidden(char)]
    assert not [char for char in told("show", tmp_path, "-s", f"{name}?", code=2) if is_hidden(char)]


def test_a_compaction_is_told_message_by_message(path: Path) -> None:
    first, second = (each["id"] for each in answer("compactions", path, "-s", "work")["compactions"])
    one = answer("compactions", path, "-s", "work", "--diff", first)
    two = answer("compactions", path, "-s", "work", "--diff", second)
    seqs = {each["seq"] for each in one["summarised"]}
    assert not seqs & {each["seq"] for each in one["kept"]}
    assert 0 in {each["seq"] for each in one["kept"]}  # the system prompt
    assert set(one["archived"]) <= seqs
    assert (one["summarised_earlier"], two["summarised_earlier"]) == (0, len(seqs))
    assert not seqs & {each["seq"] for each in two["summarised"]}
    shown = told("compactions", path, "-s", "work", "--diff", first)
    assert shown.count("- archived") == len(one["archived"])
    assert shown.count("\n  kept") == len(one["kept"])
    assert "reason manual" in shown
    told("compactions", path, "-s", "work", "--diff", 99, code=2)


def test_a_hit_says_how_its_score_came_about(path: Path) -> None:
    (hit,) = answer("search", path, "-s", "work", "question", "--limit", 1, "--explain")["hits"]
    assert hit["explain"]["terms"]
    (plain,) = answer("search", path, "-s", "work", "question", "--limit", 1)["hits"]
    timed = answer("search", path, "-s", "work", "question", "--order", "time")["hits"]
    assert [hit["source_range"] for hit in timed] == sorted(hit["source_range"] for hit in timed)
    assert plain["explain"] is None
    assert "idf" in told("search", path, "-s", "work", "question", "--limit", 1, "--explain")
