"""Transcripts of other programs: each format, again and again, broken, and found at once."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from siltstone import MemoryStore, Session, transcripts
from siltstone.cli.app import app
from siltstone.errors import InvalidMessageError
from siltstone.messages import validate_history
from siltstone.session.transfer import kind_of
from siltstone.transcripts import base

TIME = "2025-03-11T09:00:00+02:00"


def answer(*arguments: object, code: int = 0) -> Any:
    told = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert told.exit_code == code, (told.output, told.exception)
    return json.loads(told.stdout) if code == 0 else told.stderr


def lines(*values: object) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def claude(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    kind = "user" if isinstance(content, str) or content[0]["type"] == "tool_result" else "assistant"
    message = {"role": kind, "content": content, **({"id": more.pop("id")} if "id" in more else {})}
    own = {"type": kind, "sessionId": "s-1", "uuid": uuid, "parentUuid": parent, "timestamp": TIME}
    return {**own, "cwd": "/srv/kiln", "message": message, **more}


def said(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def use(name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": name, "name": "Read", "input": {}}]


def result(name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": name, "content": f"result {name}"}]


def node(parent: str | None, role: str, text: str, time: float = 1.7e9, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "content": content, "create_time": time, "metadata": {}, **more}
    return {"parent": parent, "message": message}


def chatgpt(name: str = "c", **nodes: dict[str, Any]) -> dict[str, Any]:
    mapping = {"r": {"parent": None, "message": None}, **nodes}
    return {"title": name, "conversation_id": name, "mapping": mapping, "current_node": [*mapping][-1]}


def texts(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in transcripts.read(path):
        text = "+".join(part.text or part.arguments or "" for part in record.blocks)
        found.setdefault(record.session, []).append(f"{record.role}: {text}")
    return found


CLAUDE = [
    {"type": "summary", "summary": "Listing", "leafUuid": "6"},
    claude("1", None, "What is there?"),
    claude("m", "1", "<caveat>", isMeta=True),
    claude("2", "1", said("I look."), id="a"),
    claude("3", "2", use("x"), id="a"),
    claude("4", "3", use("y"), id="a"),
    claude("5", "3", result("x")),
    claude("6", "4", result("y")),
    claude("g", None, "Count.", isSidechain=True, agentId="7"),
    claude("7", "6", said("Both."), id="b"),
    claude("8", "7", "A wrong question"),
    claude("9", "8", said("Nobody kept it."), id="c"),
    claude("10", "7", "The right question"),
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s-1", "uuid": "11", "parentUuid": None,
     "logicalParentUuid": "10"},
    claude("12", "11", "This session is continued. Summary: both", isCompactSummary=True),
    claude("13", "12", said("Going on."), id="d"),
    claude("14", "13", said("API Error: 529"), id="e", isApiErrorMessage=True),
]  # fmt: skip
WHOLE = [
    "user: What is there?", "assistant: I look.+{}+{}", "user: result x", "user: result y",
    "assistant: Both.", "user: The right question", "assistant: Going on.",
]  # fmt: skip
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List"}]},
    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "1"},
    {"type": "function_call_output", "call_id": "1", "output": "crane-a"},
]
CODEX = [
    {"timestamp": TIME, "type": "session_meta", "payload": {"id": "cx", "cwd": "/srv"}},
    *({"timestamp": TIME, "type": "response_item", "payload": item} for item in ITEMS),
    {"timestamp": TIME, "type": "event_msg", "payload": {"type": "user_message", "message": "List"}},
]
ANSWERED = {"cx": ["user: List", "assistant: {}", "tool: crane-a"]}
BRANCHED = chatgpt(
    a=node("r", "user", "Hello"), b=node("a", "assistant", "Old"), c=node("a", "assistant", "New", 1.8e9)
)
WEB = {
    "uuid": "w", "name": "Quay", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": "Lift?", "created_at": TIME, "attachments": [
            {"file_name": "a.txt", "extracted_content": "40 t"}]},
        {"uuid": "2", "sender": "assistant", "text": "", "created_at": TIME,
         "content": [*use("q"), *result("q"), *said("Done.")]},
    ],
}  # fmt: skip
CHAT = [{"role": "user", "content": "Hi", "timestamp": TIME}, {"role": "assistant", "content": "Ho"}]
SPOKEN = ["user: Hi", "assistant: Ho"]
LANGCHAIN = [
    {"type": "human", "data": {"content": "Hi", "type": "human"}},
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
     "kwargs": {"content": "Ho"}},
]  # fmt: skip
SHAREGPT = {"id": "g", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]}
FORMATS: list[tuple[str, Any, dict[str, list[str]]]] = [
    ("claude.jsonl", lines(*CLAUDE), {"s-1": WHOLE, "s-1/7": ["user: Count."]}),
    ("codex.jsonl", lines(*CODEX), ANSWERED),
    ("old.jsonl", lines({"id": "cx", "timestamp": TIME, "instructions": None}, *ITEMS), ANSWERED),
    ("conversations.json", json.dumps([BRANCHED]), {"c": ["user: Hello", "assistant: New"]}),
    ("no-current.json", json.dumps({**BRANCHED, "current_node": None}),
     {"c": ["user: Hello", "assistant: New"]}),
    ("web.json", json.dumps([WEB], indent=1),
     {"w": ["user: Lift?+a.txt\n40 t", "assistant: {}", "user: result q", "assistant: Done."]}),
    ("chat.json", json.dumps({"id": "r", "messages": CHAT}, indent=1), {"r": SPOKEN}),
    ("lists.jsonl", lines(CHAT, CHAT), {"lists-1": SPOKEN, "lists-2": SPOKEN}),
    ("chat.jsonl", lines(*CHAT), {"chat-1": SPOKEN}),
    ("utf-16.jsonl", lines(*CHAT).encode("utf-16"), {"utf-16-1": SPOKEN}),
    ("langchain.json", json.dumps(LANGCHAIN), {"langchain-1": SPOKEN}),
    ("sharegpt.json", json.dumps([SHAREGPT]), {"g": SPOKEN}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "expected"), FORMATS, ids=[each[0] for each in FORMATS])
def test_each_format_is_known_by_its_content_and_can_be_continued(
    tmp_path: Path, name: str, content: str | bytes, expected: dict[str, list[str]]
) -> None:
    file, store = tmp_path / name, tmp_path / "store"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    assert texts(file) == expected
    counts = [{"session": each, "messages": len(found)} for each, found in expected.items()]
    assert answer("import", file, store)["sessions"] == counts
    assert answer("import", file, store, "--session", "x", "--dry-run", code=len(expected) // 2 * 2)
    for session_id in expected:
        with Session.open(store, session_id, context_window=4_000) as session:
            assert session.prepare().messages == []
            session.append({"role": "user", "content": "Go on"})
            assert session.prepare().messages == [{"role": "user", "content": "Go on"}]
            session.undo_compaction()
            assert validate_history(session.prepare().messages) == []


def test_what_is_left_out_is_counted_by_kind(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(lines(*CLAUDE, CLAUDE[1]))
    found = transcripts.read(file)
    first = next(iter(found))
    assert (first.id, first.parent, first.project) == ("1", None, "/srv/kiln")
    assert first.time is not None
    assert first.time.isoformat() == TIME
    list(found)
    assert found.told.left_out == {
        "lines summary": 1, "notes of the program": 1, "messages of left branches": 2,
        "lines system compact_boundary": 1, "summaries of compactions": 1, "errors of the API": 1,
        "repeated messages": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"content": {"content_type": "code", "text": "print(1)"}}, ["assistant: print(1)"]),
        ({"content": {"content_type": "multimodal_text", "parts": [
            {"content_type": "audio_transcription", "text": "spoken"}, {"content_type": "image_asset"}]}},
         ["assistant: spoken"]),
        ({"recipient": "python"}, ['assistant: {"input": "x"}']),
        ({"author": "assistant", "content": "plain"}, ["assistant: plain"]),
        ({"content": {"content_type": "thoughts", "thoughts": []}}, []),
        ({"metadata": {"is_visually_hidden_from_conversation": True}}, []),
        ({"content": None}, []),
    ],
)  # fmt: skip
def test_messages_of_chatgpt_have_many_forms(
    tmp_path: Path, part: dict[str, Any], expected: list[str]
) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([chatgpt(a=node("r", "user", "Hi"), b=node("a", "assistant", "x", **part))]))
    assert texts(file)["c"][1:] == expected


@pytest.mark.parametrize(
    "value",
    [{"type": "http", "status": 200}, {"type": "entity", "name": "Quay", "observations": []},
     {"role": "user", "parts": []}, {"messages": ["a"]}, {"type": "reasoning", "id": "x"}, 7],
)  # fmt: skip
def test_an_unknown_file_is_refused_by_what_was_seen(tmp_path: Path, value: Any) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(lines(value))
    told = answer("import", file, tmp_path / "store", code=2)
    assert "Claude Code, Codex, ChatGPT, claude.ai" in told
    assert "line 1" in told
    assert not (tmp_path / "store").exists()


def test_again_and_again_only_what_is_new_comes_in_and_goes_back(tmp_path: Path) -> None:
    folder, store = tmp_path / "projects", tmp_path / "store"
    (folder / "kiln").mkdir(parents=True)
    file = folder / "kiln" / "s.jsonl"
    file.write_text(lines(*CLAUDE[:4]))
    assert answer("import", folder, store, "--dry-run")["new"] == 2
    assert not store.exists()
    assert answer("import", folder, store, "--by-project")["new"] == 2
    assert answer("import", folder, store)["unchanged"] == 1
    file.write_text(lines(*CLAUDE))
    told = answer("import", folder, store, "--by-project")
    assert (told["new"], told["known"]) == (7, 1)
    with MemoryStore.open(store) as held:
        assert {each.namespace for each in held.sessions().sessions} == {"/srv/kiln"}
        contents = [each.content for each in held.entries("s-1").entries]
        assert len(contents) == len(set(contents)) == 8
    with Session.open(store, "new", namespace="/srv/kiln") as session:
        for word in ("look", "result y", "right question", "Count"):
            assert word in str(session.memory_search.call({"query": word})), word
        found = session.memory_search.call({"query": "What is there?", "since": "2025-03-12"})
        assert "What is there" not in str(found)
        session.append({"role": "user", "content": "mine"})
    with Session.open(store, "s-1") as session:
        session.append({"role": "user", "content": "continued"})
    for options in (("--undo", "--dry-run"), ("--undo",)):
        assert set(answer("import", folder, store, *options)["undone"].values()) == {8, 1}
    assert answer("show", store, "-s", "s-1")["messages"][-1]["message"]["content"] == "continued"
    assert answer("search", store, "-s", "s-1", "What is there?")["hits"] == []
    assert answer("import", folder, store)["new"] > 0
    answer("import", folder / "none.jsonl", store, "--undo", code=2)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"], "None"),
        (["1709278200"], "2024-03-01 07:30:00+00:00"),
    ],
)
def test_a_time_is_of_a_year_that_there_is(value: list[Any], time: str) -> None:
    assert str(base.when(*value)) == time


def test_old_lines_of_codex_have_the_time_of_their_first_and_a_chunk_of_langchain_is_read(
    tmp_path: Path,
) -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "grebe"}]}
    (tmp_path / "old.jsonl").write_text(lines({"id": "c", "timestamp": TIME, "instructions": None}, said))
    chunk = {"type": "AIMessageChunk", "data": {"content": "stoat", "type": "AIMessageChunk"}}
    (tmp_path / "chunk.json").write_text(json.dumps([chunk]))
    odd = {"uuid": "m", "sender": "human", "text": "hi", "parent_message_uuid": {}}
    (tmp_path / "ai.json").write_text(json.dumps([{"uuid": "c", "chat_messages": [odd]}]))
    found = {each.role: each for each in transcripts.read(tmp_path)}
    assert (str(found["user"].time), found["assistant"].message["content"]) == (
        "2025-03-11 09:00:00+02:00", "stoat",
    )  # fmt: skip


def test_a_resumed_file_repeats_what_stands_in_the_first(tmp_path: Path) -> None:
    unique = [{**each, "uuid": f"{each.get('uuid'):0>36}"} for each in CLAUDE[1:2] + CLAUDE[3:4]]
    (tmp_path / "a.jsonl").write_text(lines(*unique))
    more = claude("x" * 36, unique[1]["uuid"], "More", sessionId="s-2")
    (tmp_path / "b.jsonl").write_text(lines(*({**each, "sessionId": "s-2"} for each in unique), more))
    told = answer("import", tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "store")
    assert (told["sessions"], told["known"]) == (
        [{"session": "s-1", "messages": 2}, {"session": "s-2", "messages": 1}], 2,
    )  # fmt: skip


def test_a_zip_a_folder_and_two_files_of_one_name_are_taken(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "chat.jsonl").write_text(lines(*CHAT))
    with zipfile.ZipFile(tmp_path / "in" / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([BRANCHED]))
        archive.writestr("users.json", "[{}]")
    told = answer("import", tmp_path / "in", tmp_path / "store")
    assert [each["session"] for each in told["sessions"]] == ["chat-1", "b-chat-1", "c"]
    assert (told["left_out"]["files of no known format"], told["broken"]) == (1, {})
    assert answer("import", tmp_path / "in", tmp_path / "strict", "--strict")["sessions"] == told["sessions"]
    other = tmp_path / "chat.jsonl"
    other.write_text(lines(*CHAT))
    refused = CliRunner().invoke(app, ["import", str(other), str(tmp_path / "store")])
    assert (refused.exit_code, "--session gives another name" in refused.stdout) == (1, True)
    assert answer("import", other, tmp_path / "store", "--session", "mine")["new"] == 2


def test_secrets_are_left_out_when_asked(tmp_path: Path) -> None:
    file, secret = tmp_path / "chat.jsonl", "AKIA" + "QWERTYUIOPASDFGH"
    file.write_text(lines({"role": "user", "content": f"aws_access_key_id={secret}"}))
    answer("import", file, tmp_path / "store", "--redact")
    assert secret not in json.dumps(answer("show", tmp_path / "store", "-s", "chat-1"))


@pytest.mark.parametrize(
    ("content", "kept", "place"),
    [
        (lines(*CHAT).encode()[:-9], 1, "line 2: not JSON (the file ends in it)"),
        (lines(CHAT[0]).encode() + b'{"role": "us\n' + lines(CHAT[1]).encode(), 2, "line 2: not JSON"),
        (lines(*CHAT).encode() + b"\0" * 512 + b"\n", 2, "line 3: NUL bytes"),
        (lines(CHAT[0]).encode() + b'{"role": "user", "content": "caf\xe9"}\n', 1, "line 2: not UTF-8 text"),
        (lines(CHAT[0]).encode() + b"x" * (33 << 20) + b"\n" + lines(CHAT[1]).encode(), 2,
         "line 2: a line over"),
        (json.dumps([*CHAT, *CHAT])[:-5].encode(), 3, "message 3: not JSON (the file ends in it)"),
        (json.dumps([*CHAT, *CHAT]).replace('"Hi"', '"Hi', 1).encode(), 3, "message 0: not JSON"),
        (lines(CHAT[0], {"role": "wizard", "content": ""}, CHAT[1]).encode(), 2,
         "line 2: unknown role 'wizard'"),
    ],
    ids=["cut", "garbage", "nul", "latin", "long", "cut list", "broken list", "role"],
)  # fmt: skip
def test_what_is_broken_is_skipped_and_told_or_refused(
    tmp_path: Path, content: bytes, kept: int, place: str
) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(content)
    told = answer("import", file, tmp_path / "store")
    assert told["new"] == kept
    assert place in told["places"][0]
    assert place in answer("import", file, tmp_path / "other", "--strict", code=2)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_file_is_an_error_of_another_kind(tmp_path: Path, count: int) -> None:
    chance, file = random.Random(7), tmp_path / "file"
    samples = [each.encode() if isinstance(each, str) else each for _, each, _ in FORMATS]
    pieces = [b"null", b"[", b"}", b'"', b"{}", b"\0", b"\xff", b"1e999", b"-1", b'"\\ud83d"', b"\n", b"NaN"]
    for _ in range(count):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.choice((0, 1, 4, 40))] = chance.choice([*pieces, data[:50]])
        if chance.random() < 0.3:  # another value in the place of one, so that the JSON stays whole
            value = chance.choice(
                [b'"1"', b'"Hi"', b"null", b'"r"', b'"user"', b'"session_meta"', b'"human"']
            )
            new = chance.choice([b"7", b"[[]]", b"{}", b"[" * 2_000])
            data = bytearray(chance.choice(samples).replace(value, new, chance.randint(1, 3)))
        file.write_bytes(data)
        try:
            assert kind_of(file) == "transcript"
            for record in transcripts.read(file):
                assert record.blocks is not None
        except InvalidMessageError:
            pass
