"""Transcripts of other programs: each format, again and again, broken, and found at once."""

import json
import os
import random
import subprocess
import sys
import zipfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from siltstone import MemoryStore, Session, transcripts
from siltstone.cli.app import app
from siltstone.errors import InvalidMessageError
from siltstone.messages import validate_history
from siltstone.session.transfer import kind_of, take_in
from siltstone.transcripts import base
from siltstone.transcripts.intake import Intake

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
    {"type": "attachment", "sessionId": "s-1", "uuid": "q", "parentUuid": "10", "timestamp": TIME,
     "attachment": {"type": "queued_command", "prompt": "And quickly", "commandMode": "prompt"}},
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s-1", "uuid": "11", "parentUuid": None,
     "logicalParentUuid": "q"},
    claude("12", "11", "This session is continued. Summary: both", isCompactSummary=True),
    claude("13", "12", said("Going on."), id="d"),
    claude("14", "13", said("API Error: 529"), id="e", isApiErrorMessage=True),
]  # fmt: skip
WHOLE = [
    "user: What is there?", "assistant: I look.+{}+{}", "user: result x", "user: result y",
    "assistant: Both.", "user: The right question", "user: And quickly",
    "assistant: Going on.",
]  # fmt: skip
ITEMS: list[dict[str, Any]] = [
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
SHELL: list[dict[str, Any]] = [
    {"type": "local_shell_call", "call_id": "2", "action": {"command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "2", "output": "hull"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Taken back"}]},
]
BACK = {"timestamp": TIME, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}


def codex(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"timestamp": TIME, "type": "response_item", "payload": item} for item in items]


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
    ("shell.jsonl", lines(*CODEX, *codex(ITEMS[0], SHELL[2]), BACK, *codex(*SHELL[:2])),
     {"cx": [*ANSWERED["cx"], 'assistant: {"command": ["ls"]}', "tool: hull"]}),
    ("old.jsonl", lines({"id": "cx", "timestamp": TIME, "instructions": None}, *ITEMS), ANSWERED),
    ("conversations.json", json.dumps([BRANCHED]), {"c": ["user: Hello", "assistant: New"]}),
    ("no-current.json", json.dumps({**BRANCHED, "current_node": None}),
     {"c": ["user: Hello", "assistant: New"]}),
    ("root.json", json.dumps({**BRANCHED, "current_node": "r"}), {"c": ["user: Hello", "assistant: New"]}),
    ("web.json", json.dumps([WEB], indent=1),
     {"w": ["user: Lift?+a.txt\n40 t", "assistant: {}", "user: result q", "assistant: Done."]}),
    ("chat.json", json.dumps({"id": "r", "messages": CHAT}, indent=1), {"r": SPOKEN}),
    ("lists.jsonl", lines(CHAT, CHAT), {"lists-1": SPOKEN, "lists-2": SPOKEN}),
    ("chat.jsonl", lines({"role": "user", "content": " "}, *CHAT), {"chat-1": SPOKEN}),
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
            request = session.prepare().messages
            assert validate_history(request) == []
            assert not any("timestamp" in message for message in request)


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
def test_messages_of_chatgpt_have_many_forms(tmp_path: Path, part: dict[str, Any], expected: list[str]):
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
    assert (told["new"], told["known"]) == (8, 1)
    with MemoryStore.open(store) as held:
        assert {each.namespace for each in held.sessions().sessions} == {"/srv/kiln"}
        contents = [each.content for each in held.entries("s-1").entries]
        assert len(contents) == len(set(contents)) == 9
    with Session.open(store, "new", namespace="/srv/kiln") as session:
        for word in ("look", "result y", "right question", "Count"):
            assert word in str(session.memory_search.call({"query": word})), word
        found = session.memory_search.call({"query": "What is there?", "since": "2025-03-12"})
        assert "What is there" not in str(found)
        session.append({"role": "user", "content": "mine"})
    with Session.open(store, "s-1") as session:
        session.append({"role": "user", "content": "continued"})
    for options in (("--undo", "--dry-run"), ("--undo",)):
        assert set(answer("import", folder, store, *options)["undone"].values()) == {9, 1}
    assert answer("show", store, "-s", "s-1")["messages"][-1]["message"]["content"] == "continued"
    assert answer("search", store, "-s", "s-1", "What is there?")["hits"] == []
    assert answer("import", folder, store)["new"] > 0
    answer("import", folder / "none.jsonl", store, "--undo", code=2)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"], "None"),
        (["1709278200"], "2024-03-01 07:30:00+00:00"),
        ([1709278200000000, 1], "2024-03-01 07:30:00+00:00"),
        ([float("nan"), 0, -5, 5, 20240301, 10**30, 1e14, True, "1970-01-01T00:00:00Z"], "None"),
    ],
)
def test_a_time_is_of_a_year_that_there_is(value: list[Any], time: str) -> None:
    assert str(base.when(*value)) == time


def test_old_lines_of_codex_have_the_time_of_their_first_and_a_chunk_of_langchain_is_read(tmp_path: Path):
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
    secret, store = "AKIA" + "QWERTYUIOPASDFGH", tmp_path / "store"
    folder = tmp_path / f"of {secret}"
    folder.mkdir()
    data = [b64encode(f"key {secret}".encode()).decode(), b64encode(b"\x89PNG\xff").decode()]
    parts = [{"type": "file", "file": {"filename": secret, "file_data": f"data:text/plain;base64,{each}"}}
             for each in data]  # fmt: skip
    message = {"role": "user", "name": secret, "content": [*said(f"aws_access_key_id={secret}"), *parts]}
    (folder / "chat.jsonl").write_text(lines({"id": f"of {secret}", "messages": [message]}))
    (folder / "code.jsonl").write_text(lines(claude("1", None, "Hi", cwd=f"/srv/{secret}")))
    assert answer("import", folder, store, "--redact", "--by-project")["new"] == 2
    kept = b"".join(each.read_bytes() for each in store.rglob("*") if each.is_file())
    assert [text.encode() in kept for text in (secret, data[0], data[1])] == [False, False, True]
    assert answer("import", folder, store, "--redact", "--by-project")["unchanged"] == 2
    assert sum(answer("import", folder, store, "--undo")["undone"].values()) == 2


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
def test_what_is_broken_is_skipped_and_told_or_refused(tmp_path: Path, content: bytes, kept: int, place: str):
    file = tmp_path / "chat.jsonl"
    file.write_bytes(content)
    told = answer("import", file, tmp_path / "store")
    assert told["new"] == kept
    assert place in told["places"][0]
    assert place in answer("import", file, tmp_path / "other", "--strict", code=2)
    assert not (tmp_path / "other").exists()


REWOUND = [CLAUDE[1], claude("w1", "1", "Wrong"), claude("w2", "1", "Right")]
EDITED = [  # at each step: a file, what is new, known and taken back, and what the store has then
    ("rewound.jsonl", [
        (lines(*REWOUND[:2]), (2, 0, 0), {"s-1": ["What is there?", "Wrong"]}),
        (lines(*REWOUND), (1, 1, 1), {"s-1": ["What is there?", "Right"]}),
        (lines(*REWOUND, claude("w3", "w1", "Back")), (2, 1, 1),
         {"s-1": ["What is there?", "Wrong", "Back"]}),
    ]),
    ("rollout.jsonl", [
        (lines(*CODEX, *codex(ITEMS[0], SHELL[2])), (5, 0, 0),
         {"cx": ["List", "shell {}", "crane-a", "List", "Taken back"]}),
        (lines(*CODEX, *codex(ITEMS[0], SHELL[2]), BACK, *codex(SHELL[2])), (1, 3, 2),
         {"cx": ["List", "shell {}", "crane-a", "Taken back"]}),
    ]),
    ("conversations.json", [
        (json.dumps([{**BRANCHED, "current_node": "b"}]), (2, 0, 0), {"c": ["Hello", "Old"]}),
        (json.dumps([BRANCHED, chatgpt("d", a=node("r", "user", "Other"))]), (2, 1, 1),
         {"c": ["Hello", "New"], "d": ["Other"]}),
    ]),
    ("web.json", [
        (json.dumps([{"uuid": "w", "chat_messages": WEB["chat_messages"][:1]}]), (1, 0, 0),
         {"w": ["Lift?\na.txt\n40 t"]}),
        (json.dumps([WEB]), (3, 1, 0), {"w": ["Lift?\na.txt\n40 t", "Read {}", "result q", "Done."]}),
    ]),
    ("chat.json", [
        (json.dumps(CHAT), (2, 0, 0), {"chat-1": ["Hi", "Ho"]}),
        (json.dumps(CHAT[1:] + CHAT), (3, 0, 0), {"chat-1": ["Hi", "Ho"], "chat-1~2": ["Ho", "Hi", "Ho"]}),
        (json.dumps(CHAT[1:] + CHAT * 2), (2, 3, 0),
         {"chat-1": ["Hi", "Ho"], "chat-1~2": ["Ho", "Hi", "Ho", "Hi", "Ho"]}),
    ]),
    ("-", [
        (lines(*CHAT), (2, 0, 0), {"input-1": ["Hi", "Ho"]}),
        (lines(CHAT[0], CHAT[0]), (2, 0, 0), {"input-1": ["Hi", "Ho"], "input-1~2": ["Hi", "Hi"]}),
        (lines(*CHAT, *CHAT), (2, 2, 0), {"input-1": ["Hi", "Ho", "Hi", "Ho"], "input-1~2": ["Hi", "Hi"]}),
    ]),
    ("sharegpt.json", [
        (json.dumps([{"id": "g", "conversations": SHAREGPT["conversations"][:1]}]), (1, 0, 0), {"g": ["Hi"]}),
        (json.dumps([SHAREGPT]), (1, 1, 0), {"g": ["Hi", "Ho"]}),
    ]),
    ("langchain.json", [
        (json.dumps(LANGCHAIN[:1]), (1, 0, 0), {"langchain-1": ["Hi"]}),
        (json.dumps(LANGCHAIN), (1, 1, 0), {"langchain-1": ["Hi", "Ho"]}),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "steps"), EDITED, ids=[each[0] for each in EDITED])
def test_a_later_file_adds_what_is_new_and_its_line_is_followed(
    tmp_path: Path, name: str, steps: list[tuple[str, tuple[int, int, int], dict[str, list[str]]]]
) -> None:
    file, store = tmp_path / name if name != "-" else name, tmp_path / "store"
    for content, counts, expected in steps:
        if isinstance(file, Path):
            file.write_text(content)
        for options in (["--dry-run"], []):
            arguments = ["import", str(file), str(store), "--json", *options]
            told = json.loads(CliRunner().invoke(app, arguments, input=content).stdout)
            assert (told["new"], told["known"], told["taken_back"]) == counts
            assert told["refused"] == {}
        with MemoryStore.open(store) as held:
            ids = [each.session_id for each in held.sessions().sessions]
            assert {each: [e.content for e in held.entries(each).entries] for each in ids} == expected
    assert sum(answer("import", file, store, "--undo")["undone"].values()) == sum(map(len, expected.values()))
    assert answer("sessions", store)["sessions"] == []


MANY = [{"role": "user", "content": f"Number {number}"} for number in range(1200)]
MEANWHILE = [  # a file, what it has when another import takes it meanwhile, what is new and known then
    ("chat.jsonl", lines(*MANY), lines(*MANY), (0, 1200)),
    ("chat.jsonl", lines(*MANY), lines(*MANY[:700]), (500, 700)),
    ("chat.jsonl", lines(*MANY[:9]), lines(*MANY[1:9]), (9, 0)),
    ("rollout.jsonl", lines(*CODEX, *codex(ITEMS[0], SHELL[2])), lines(*CODEX), (2, 3)),
    ("s.jsonl", lines(*CLAUDE), lines(*CLAUDE[:4]), (8, 1)),
]


@pytest.mark.parametrize(("name", "content", "meanwhile", "counts"), MEANWHILE)
def test_an_import_that_another_one_overtakes_begins_again_from_what_is_known(
    tmp_path: Path, name: str, content: str, meanwhile: str, counts: tuple[int, int]
) -> None:
    file, store = tmp_path / name, tmp_path / "store"
    with MemoryStore.open(store) as held:
        late = Intake(held, options={}, session=None, by_project=False, writes=True)
        file.write_text(meanwhile)
        answer("import", file, store)
        file.write_text(content)
        taken = late.run(transcripts.Transcripts([file]))
        assert (taken.new, taken.known, taken.refused) == (*counts, {})
    assert answer("import", file, store)["unchanged"] == 1


def test_two_processes_bring_each_message_once(tmp_path: Path) -> None:
    file, store = tmp_path / "chat.jsonl", tmp_path / "store"
    file.write_text(lines(*MANY))
    command = [sys.executable, "-m", "siltstone", "import", str(file), str(store), "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [json.loads(each.communicate()[0]) for each in running]
    assert [sum(each[key] for each in told) for key in ("new", "known", "unchanged")] in (
        [1200, 1200, 0], [1200, 0, 1],
    )  # fmt: skip
    with MemoryStore.open(store) as held:
        assert [each.messages for each in held.sessions().sessions] == [1200]


def test_an_import_that_broke_off_is_repeated_or_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, store = tmp_path / "chat.jsonl", tmp_path / "store"

    def broken(core: Any, said: Any, notes: str, end: int) -> None:
        if end:
            raise KeyboardInterrupt
        take_in(core, said, notes, end)

    file.write_text(lines(*MANY))
    with monkeypatch.context() as patched:
        patched.setattr("siltstone.transcripts.intake.take_in", broken)
        answer("import", file, store, code=130)
    assert answer("import", file, store, "--undo", "--dry-run")["undone"] == {"chat-1": 500}
    told = answer("import", file, store)
    assert (told["new"], told["known"]) == (700, 500)


def test_rules_and_reasoning_are_found_and_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    thought = [{"type": "thinking", "thinking": "wombat", "signature": "s"}, *said("Yes.")]
    (tmp_path / "a.jsonl").write_text(lines({"role": "system", "content": "gannet"}, *CHAT))
    (tmp_path / "b.jsonl").write_text(lines(claude("1", None, thought)))
    picture = [{"type": "tool_result", "content": [*said("seen"), {"type": "image"}]}]
    spoken = [{"type": "voice_note", "text": "ibis"}, *picture]
    web = {"uuid": "m", "sender": "human", "content": spoken, "attachments": [{"file_name": "a.png"}]}
    (tmp_path / "c.json").write_text(json.dumps([{"uuid": "w", "chat_messages": [web]}]))
    read = node("r", "user", "puffin", metadata={"attachments": [{"name": "a.pdf"}]})
    (tmp_path / "d.json").write_text(json.dumps([chatgpt(a=read)]))
    told = answer("import", tmp_path, tmp_path / "store", "--namespace", "mine")
    assert told["left_out"] == {"blocks image": 1, "files": 2}
    with Session.open(tmp_path / "store", "new", namespace="mine") as session:
        for word in ("gannet", "wombat", "ibis", "seen", "puffin"):
            assert word in str(session.memory_search.call({"query": word})), word


def test_a_session_stays_in_its_namespace_and_a_file_may_have_any_name(tmp_path: Path) -> None:
    file, store = Path(os.fsdecode(os.fsencode(tmp_path) + b"/s\xff.jsonl")), tmp_path / "store"
    file.write_text(lines(CLAUDE[1]))
    assert answer("import", file, store)["new"] == 1
    refused = CliRunner().invoke(app, ["import", str(file), str(store), "--by-project"])
    assert (refused.exit_code, "a new store takes all of it" in refused.stdout) == (1, True)
    assert answer("import", file, store)["unchanged"] == 1
    assert answer("import", file, store, "--undo")["undone"] == {"s-1": 1}


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
