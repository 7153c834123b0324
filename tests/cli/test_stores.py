"""The commands over a store: their output, their changes, their end; each in a real process once."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations import exchange, small, turns, user
from siltstone import Entry, MemoryStore, Session
from siltstone.cli import edit
from siltstone.cli.app import app
from siltstone.engine import Compacted
from siltstone.stores.transfer import Copied
from siltstone.testing import ScriptedModel

SECRET = "AKIAGRUENWALD7"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def siltstone(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """The command in this process, which is many times as fast."""
    told = CliRunner().invoke(app, [*map(str, arguments)], input=text)
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        raise told.exception
    return subprocess.CompletedProcess([], told.exit_code, told.stdout, told.stderr)


def process(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "siltstone", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def answer(*arguments: object, text: str = "", code: int = 0, run: Run = siltstone) -> Any:
    told = run(*arguments, "--json", text=text)
    assert told.returncode == code, told.stderr
    return json.loads(told.stdout)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a session that was compacted twice, and some entries by hand."""
    path = tmp_path_factory.mktemp("filled")
    with MemoryStore.open(path) as store:
        with Session.open(None, "work", policy=small(), model=ScriptedModel(), memory=store) as session:
            for number in range(2):
                session.append(*(message for turn in turns(8) for message in turn))
                assert isinstance(session.compact(), Compacted), number
        store.index("notes", [Entry("the fox " + "jumps " * 40 + "over the dog", (0, 1))])
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of the same kind that may be changed."""
    with MemoryStore.open(tmp_path) as store:
        with Session.open(None, "work", policy=small(), model=ScriptedModel(), memory=store) as session:
            session.append(*(message for turn in turns(8) for message in turn))
            session.append(user(f"the key is {SECRET}"), *exchange(9, f'HTTP/1.1 200\n\n{{"k": "{SECRET}"}}'))
            assert isinstance(session.compact(), Compacted)
        store.index("notes", [Entry("the fox", (0, 1))])
    return tmp_path


def log_of(path: Path, session_id: str = "work") -> list[Any]:
    with MemoryStore.open(path, read_only=True) as store:
        log = store.open_log(session_id)
        return [json.loads(row.raw) for row in log.read(0, log.state().next_seq)]


def test_sessions_are_listed_with_their_figures(filled: Path) -> None:
    work, notes = answer("sessions", filled, run=process)["sessions"]
    assert (work["session_id"], work["title"], work["messages"]) == ("work", "question 0 about topic0", 64)
    assert (work["compactions"], work["tokens"] > 0) == (2, True)
    assert (notes["session_id"], notes["messages"], notes["last_at"]) == ("notes", 0, None)
    assert answer("sessions", filled, "--limit", 1)["next_offset"] == 1
    assert answer("sessions", filled, "--namespace", "acme")["sessions"] == []
    told = siltstone("sessions", filled, "--limit", 1)
    assert "work  64 messages" in told.stdout
    assert told.stdout.endswith("  question 0 about topic0\n1 sessions\nmore with --start 1\n")
    assert (
        "notes  0 messages, 0 tokens, 1 entries, 0 compactions, no messages"
        in siltstone("sessions", filled).stdout
    )


def test_a_timeline_tells_every_turn_and_every_compaction(filled: Path) -> None:
    told = answer("timeline", filled, "-s", "work", run=process)
    turns, marks = told["turns"], told["compactions"]
    assert [(turn["turn"], turn["start"], turn["end"]) for turn in turns] == [
        (number + 1, number * 4, number * 4 + 4) for number in range(16)
    ]
    assert [mark["seq"] for mark in marks] == [32, 64]
    assert turns[6]["context"] == sum(turn["tokens"] for turn in turns[:7])
    assert marks[0]["tokens_before"] == sum(turn["tokens"] for turn in turns[:8])
    assert turns[7]["context"] == marks[0]["tokens_after"]
    assert turns[8]["context"] == marks[0]["tokens_after"] + turns[8]["tokens"]
    assert turns[15]["context"] == marks[1]["tokens_after"]
    lines = siltstone("timeline", filled, "-s", "work").stdout.splitlines()
    assert lines[9].startswith(f"   ▼  compaction {marks[0]['id']} before message 32: manual, ")
    assert lines[-1] == "16 turns, 2 compactions"
    assert siltstone("timeline", filled, "-s", "notes").stdout == "0 turns, 0 compactions\n"
    assert siltstone("timeline", filled, "-s", "nobody").returncode == 2


def test_search_prints_whole_entries_and_their_places(filled: Path) -> None:
    told = process("search", filled, "-s", "notes", "fox")
    assert told.returncode == 0
    assert "the fox " + "jumps " * 40 + "over the dog" in told.stdout
    assert "message 0, user" in told.stdout
    found = answer("search", filled, "-s", "work", "topic3", "--limit", "2")
    assert [found["session"], found["query"]] == ["work", "topic3"]
    assert len(found["hits"]) == 2
    assert "topic3" in found["hits"][0]["content"]
    assert answer("search", filled, "-s", "notes", "zebra")["hits"] == []


def test_show_prints_every_message_of_the_log(filled: Path) -> None:
    shown = answer("show", filled, "-s", "work", run=process)["messages"]
    assert [message["seq"] for message in shown] == list(range(64))
    assert [message["message"] for message in shown] == log_of(filled)
    assert [m["seq"] for m in answer("show", filled, "-s", "work", "--start", 3, "--end", 5)["messages"]] == [
        3,
        4,
    ]
    told = siltstone("show", filled, "-s", "work", "--end", 3)
    assert '[call call_0: run({"step": 0})]' in told.stdout
    assert "question 0 about topic0" in told.stdout


def test_compactions_are_listed_and_expanded(filled: Path) -> None:
    listed = answer("compactions", filled, "-s", "work", run=process)["compactions"]
    assert len(listed) == 2
    assert listed[0]["reason"] == "manual"
    assert listed[1]["covers"][0][0] == 0
    told = siltstone("compactions", filled, "-s", "work")
    assert f"compaction {listed[0]['id']}, " in told.stdout
    assert told.stdout.endswith("2 compactions\n")
    messages = answer("expand", filled, "-s", "work", listed[0]["id"], run=process)["messages"]
    start, end = listed[0]["covers"][0]
    assert messages[: end - start] == log_of(filled)[start:end]
    assert "question 0 about topic0" in siltstone("expand", filled, "-s", "work", listed[0]["id"]).stdout
    assert siltstone("expand", filled, "-s", "work", 999).returncode == 2


def test_context_tells_what_fills_it(filled: Path) -> None:
    told = answer("context", filled, "-s", "work", "--window", 100_000, run=process)
    assert told["total_tokens"] == told["summary_tokens"] + told["message_tokens"] > 0
    assert (told["messages_seen"], told["message_count"] < 64) == (64, True)
    assert told["remaining_tokens"] == 100_000 - told["total_tokens"]
    assert answer("context", filled, "-s", "work", "--window", 10, code=1)["percent"] > 100
    assert "percent" not in answer("context", filled, "-s", "work", "--estimator", "bytes/4")
    assert "messages seen: 64\n" in siltstone("context", filled, "-s", "work").stdout
    assert siltstone("context", filled, "-s", "work", "--estimator", "words").returncode == 2


def test_undo_takes_the_last_compaction_back(path: Path) -> None:
    undone = answer("undo", path, "-s", "work", run=process)["undone"]
    assert undone["reason"] == "manual"
    assert answer("compactions", path, "-s", "work")["compactions"] == []
    assert [each["id"] for each in answer("compactions", path, "-s", "work", "--undone")["compactions"]] == [
        undone["id"]
    ]
    assert answer("undo", path, "-s", "work", code=1)["undone"] is None


def test_a_dry_run_of_forget_changes_nothing(path: Path) -> None:
    before = log_of(path)
    told = answer("forget", path, "--text", SECRET, "--dry-run")
    assert (told["messages"], told["dry_run"], told["erased"]) == (2, True, False)
    assert log_of(path) == before
    assert "2 messages" in siltstone("forget", path, "--text", SECRET, "--dry-run").stdout


@pytest.mark.parametrize(
    "what", [("forget", "--text", SECRET), ("delete", "-s", "work"), ("delete", "--whole")]
)
def test_what_cannot_be_undone_is_refused_where_nobody_can_be_asked(path: Path, what: tuple[str, ...]):
    told = siltstone(what[0], path, *what[1:])
    assert told.returncode == 2
    assert "--yes" in told.stderr
    assert SECRET in json.dumps(log_of(path))


def test_delete_takes_a_session_or_the_whole_store_and_no_file_of_anybody_else(path: Path) -> None:
    for refused in ((), ("-s", "work", "--whole"), ("-s", "nobody")):
        assert siltstone("delete", path, *refused, "--yes").returncode == 2
    assert answer("delete", path, "-s", "work", "--yes")["messages"] == 35
    assert "has no session 'work'" in siltstone("show", path, "-s", "work").stderr
    told = answer("compact-store", path)
    assert told["after"] < told["before"]
    (path / "vault").mkdir()
    (path / "mine.txt").touch()
    assert siltstone("delete", path, "--whole", "--yes").returncode == 0
    assert [each.name for each in path.iterdir()] == ["mine.txt"]
    MemoryStore.open(path / "own").close()
    assert siltstone("delete", path / "own", "--whole", "--yes").returncode == 0
    assert not (path / "own").exists()


def test_forget_reads_a_text_that_should_not_be_in_the_list_of_processes(path: Path) -> None:
    told = answer("forget", path, "--text", "-", "--yes", text=f"{SECRET}\n", run=process)
    assert (told["messages"], told["erased"], told["remaining"]) == (2, True, [])
    assert SECRET not in json.dumps(log_of(path))
    for file in (path / "memory").iterdir():
        assert SECRET.encode() not in file.read_bytes()


def test_forget_tells_what_it_kept_and_takes_it_when_asked(tmp_path: Path) -> None:
    call = {"id": SECRET, "type": "function", "function": {"name": "run", "arguments": "{}"}}
    with Session.open(tmp_path, "work") as session:
        session.append(
            user("go"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": SECRET, "content": "done"},
        )
    told = siltstone("forget", tmp_path, "--text", SECRET, "--yes")
    assert told.returncode == 1, "some of the bytes are still there"
    assert f"names and ids: {SECRET}" in told.stdout
    assert answer("forget", tmp_path, "--text", SECRET, "--identifiers", "--yes")["erased"]
    assert SECRET not in json.dumps(log_of(tmp_path))


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("--start", "3"),
        ("--session", "nobody"),
        ("--session", "work", "--start", "5", "--end", "3"),
        ("--text", ""),
    ],
)
def test_forget_without_a_meaning_is_refused(path: Path, asked: tuple[str, ...]) -> None:
    before = log_of(path)
    assert siltstone("forget", path, *asked, "--yes").returncode == 2
    assert log_of(path) == before


def test_facts_are_listed_found_and_told_as_they_were(tmp_path: Path) -> None:
    with Session.open(tmp_path, "work", policy=small(), model=ScriptedModel()) as session:
        session.append(user("hello"))
        kept = session.save("Use tabs for indentation", "preference")
        gone = session.save("Use spaces for indentation", "preference")
        session.retract(gone.id)
    (fact,) = answer("facts", tmp_path, "-s", "work")["facts"]
    assert (fact["id"], fact["content"], fact["type"]) == (kept.id, "Use tabs for indentation", "preference")
    assert len(answer("facts", tmp_path, "-s", "work", "--history")["facts"]) == 2
    assert answer("facts", tmp_path, "-s", "work", "nothing like it")["facts"] == []
    assert answer("facts", tmp_path, "-s", "work", "--as-of", "2020-01-01")["facts"] == []
    assert answer("facts", tmp_path, "-s", "work", "--standing")["facts"] == []
    assert answer("facts", tmp_path, "-s", "work", "--retract", fact["id"])["facts"] == []
    assert answer("facts", tmp_path, "-s", "work", "--restore", fact["id"])["facts"] == [fact]
    assert siltstone("facts", tmp_path, "-s", "work", "--retract", "none").returncode == 2
    told = siltstone("facts", tmp_path, "-s", "work", "tabs").stdout
    assert "Use tabs for indentation" in told
    assert told.endswith("1 facts\n")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00", told), "as search, show and compactions say it"
    assert "taken back" in siltstone("facts", tmp_path, "-s", "work", "--history").stdout


def test_facts_tell_why(tmp_path: Path) -> None:
    with Session.open(tmp_path, "work", policy=small(), model=ScriptedModel(), knowledge=True) as session:
        for floor in (3, 4):
            session.append(
                user(f"Remember that the office is on floor {floor}."), {"role": "assistant", "content": "ok"}
            )
        for _ in range(20):
            session.append(user("pebble " * 60), {"role": "assistant", "content": "gravel " * 60})
            session.prepare()
        [fact] = session.facts("office floor")
    told = siltstone("facts", tmp_path, "-s", "work", "--why", fact.id).stdout
    assert f"{fact.id} was said by user: messages 2 to 2 of session work" in told
    assert "user: Remember that the office is on floor 4." in told
    assert f"superseded by {fact.id} (the same subject and relation, another value)" in told
    assert len(answer("facts", tmp_path, "-s", "work", "--why", fact.id)["facts"]) == 2
    assert "no such fact to explain" in siltstone("facts", tmp_path, "-s", "work", "--why", "x").stderr


def test_the_formats_of_an_archive_go_out_and_come_in(filled: Path, tmp_path: Path) -> None:
    everything, segments, facts = (
        tmp_path / "all.jsonl",
        tmp_path / "segments.jsonl",
        tmp_path / "facts.jsonl",
    )
    told = answer("export", filled, "-s", "work", everything, "--format", "everything")
    assert told["records"] == len(everything.read_text("utf-8").splitlines())
    told = answer("import", everything, tmp_path / "new")
    assert (told["format"], told["sessions"], told["compactions"]) == ("everything", ["work"], 2)
    assert log_of(tmp_path / "new") == log_of(filled)
    assert siltstone("import", everything, tmp_path / "new").returncode == 2, "the session has messages"
    count = answer("export", filled, "-s", "work", segments, "--format", "segments")["records"]
    told = answer("import", segments, tmp_path / "new", "--session", "other")
    assert told["entries"] + told["duplicates"] == count
    facts.write_text('{"id": "f", "type": "decision", "content": "Use tabs", "timestamp": 1}\n{\n', "utf-8")
    assert siltstone("import", facts, tmp_path / "new").returncode == 2, "whose facts?"
    told = answer("import", facts, tmp_path / "new", "--session", "other")
    assert (told["facts"], told["skipped"]) == (1, 1)
    assert (
        answer("export", tmp_path / "new", "-s", "other", tmp_path / "k", "--format", "knowledge")["records"]
        == 1
    )
    assert answer("export", filled, "-s", "work", tmp_path / "v", "--format", "vectors")["records"] == count
    for arguments in ((segments,), ()):
        told = siltstone("export", filled, "-s", "work", *arguments, "--format", "segments")
        assert told.returncode == 2, "a file is needed, and none is written over"


def test_what_is_exported_is_imported_again(filled: Path, tmp_path: Path) -> None:
    transcript = tmp_path / "work.jsonl"
    told = answer("export", filled, "-s", "work", transcript, run=process)
    assert told == {"session": "work", "transcript": str(transcript), "messages": 64}
    assert siltstone("export", filled, "-s", "work").stdout == transcript.read_text("utf-8")
    assert siltstone("export", filled, "-s", "work", transcript).returncode == 2, (
        "a file is never written over"
    )
    store = tmp_path / "new"
    told = answer("import", transcript, store, run=process)
    assert told["sessions"] == [{"session": "work-1", "messages": 64}]
    assert log_of(store, "work-1") == log_of(filled)
    assert answer("import", transcript, store)["unchanged"] == 1
    assert siltstone("import", transcript, store, "--session", "again").returncode == 0
    assert log_of(store, "again") == log_of(filled)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",), ("compactions",), ("context",), ("expand", "1"), ("undo",), ("export",),
    ],
)  # fmt: skip
def test_a_session_that_is_not_there_is_exit_code_2_and_none_is_begun(
    filled: Path, arguments: tuple[str, ...]
) -> None:
    for named, says in ((("-s", "nobody"), "no session 'nobody'"), ((), "several sessions ('")):
        told = siltstone(arguments[0], filled, *arguments[1:], *named)
        assert told.returncode == 2
        assert says in told.stderr
        assert "Traceback" not in told.stderr
    last = ("x.jsonl", "a b") if arguments == ("export",) else ("a b",)
    told = siltstone(arguments[0], filled, *arguments[1:], *last)
    assert (told.returncode, "Type --session 'a b'" in told.stderr) == (2, True)
    assert "Type --store" in siltstone("mcp", filled).stderr


@pytest.mark.parametrize("namespace", [None, "ann"])
def test_a_search_without_a_session_finds_what_every_session_said(tmp_path: Path, namespace: str | None):
    with MemoryStore.open(tmp_path) as store:
        for name in ("first", "second"):
            with Session.open(None, name, memory=store, namespace=namespace) as session:
                session.append({"role": "user", "content": f"The {name} fox is red."})
    found = answer("search", tmp_path, "fox", "--order", "time")["hits"]
    assert [hit["session_id"] for hit in found] == ["first", "second"]
    assert "of second" in siltstone("search", tmp_path, "second fox").stdout
    told = siltstone("search", tmp_path, "fox", "--namespace", "ben")
    assert (told.returncode, "no session of the namespace 'ben'" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    "place", [".", "memory", "memory/memory.sqlite3", ".."], ids=["itself", "inside", "its file", "above"]
)
def test_the_store_is_found_from_above_and_below(tmp_path: Path, place: str) -> None:
    store = tmp_path / "agent" / "data"
    with MemoryStore.open(store) as held:
        held.index("a", [Entry("the fox")])
    assert answer("doctor", store / place)["healthy"]
    assert answer("doctor", tmp_path)["entries"] == 1
    assert len(answer("search", store / place, "-s", "a", "fox")["hits"]) == 1


def test_several_stores_below_a_path_are_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        MemoryStore.open(tmp_path / name).close()
    told = siltstone("doctor", tmp_path)
    assert told.returncode == 2
    assert "2 stores below" in told.stderr
    assert str(tmp_path / "one") in told.stderr


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    for command in (each for each in app.registered_commands if not each.hidden):
        assert re.search(rf"siltstone {command.name}\b", page), command.name


def told(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with MemoryStore.open(tmp_path / "from") as store:
        with Session.open(None, "chat", memory=store, policy=small(), model=ScriptedModel()) as session:
            session.append(*(message for turn in turns(8) for message in turn))
            session.compact()
        store.index("notes", [Entry("silt settles")])
    return tmp_path / "from"


def test_it_tells_what_was_copied_and_what_was_there(source: Path, tmp_path: Path) -> None:
    answer = json.loads(told("copy", source, tmp_path / "to", "--json"))
    with MemoryStore.open(source, read_only=True) as store:
        stats = store.stats()
    assert answer["sessions"] == 2
    assert (answer["messages"], answer["entries"]) == (stats.messages, stats.entries)
    assert (answer["skipped"], answer["differing"]) == (0, [])
    again = told("copy", source, tmp_path / "to")
    assert f"has all 2 sessions, 2 of them from before: {stats.messages} messages, 1 compactions" in again
    assert json.loads(told("doctor", tmp_path / "to", "--json"))["healthy"]


def test_a_session_that_was_written_to_meanwhile_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(*_: Any, **__: Any) -> Copied:
        return Copied(sessions=2, differing=("chat",))

    monkeypatch.setattr(edit, "copy_store", copied)
    assert "not the same: 'chat'" in told("copy", source, tmp_path / "to", code=1)


def test_what_cannot_be_copied_is_refused_in_one_line(source: Path, tmp_path: Path) -> None:
    assert "are the same store" in told("copy", source, source, code=2)
    assert "there is nothing at" in told("copy", tmp_path / "nowhere", tmp_path / "to", code=2)
    assert "there is nothing at" in told("import", tmp_path / "nowhere", tmp_path / "to", code=2)
    with MemoryStore.open(tmp_path / "other") as store, Session.open(None, "chat", memory=store) as session:
        session.append({"role": "user", "content": "Somebody else."})
    assert "another one: it has another message 0" in told("copy", source, tmp_path / "other", code=2)
