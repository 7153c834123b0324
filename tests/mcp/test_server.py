"""The MCP server, driven by the real client: over standard input and output, and over HTTP."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp comes with the extra mcp")

import anyio

from conversations import small, turns
from mcp_client import TOKEN, CallError, http_server, over_http, over_stdio, reached, told
from siltstone import ConfigError, Entry, MemoryStore, Session, estimate_tokens
from siltstone.engine import Compacted
from siltstone.errors import SiltstoneError, StoreOpenError
from siltstone.mcp import Access, open_memory
from siltstone.mcp.server import TokenGate
from siltstone.testing import ScriptedModel

pytestmark = pytest.mark.anyio

OVER = pytest.mark.parametrize("transport", ["stdio", "http"])
READING = {"context_status", "memory_get", "memory_search", "memory_sessions", "summary_expand"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a session that was compacted, and another one that says something else."""
    with MemoryStore.open(tmp_path) as store:
        with Session.open(None, "work", policy=small(), model=ScriptedModel(), memory=store) as session:
            session.append(
                {"role": "user", "content": "The vault opens with 4711."},
                {"role": "assistant", "content": "Noted."},
            )
            session.append(*(message for turn in turns(12) for message in turn))
            assert isinstance(session.compact(), Compacted)
        with Session.open(None, "other", memory=store) as session:
            session.append({"role": "user", "content": "The secret of the other tenant is plum."})
    return tmp_path


@OVER
async def test_a_client_in_another_process_reads_all_that_a_session_has(path: Path, transport: str) -> None:
    async with reached(transport, "--store", str(path), "--session", "work") as client:
        assert "memory_search" in client.instructions
        assert set(await client.tools()) == READING
        found = await client.call("memory_search", query="what opens the vault", limit=3)
        note, best, *_ = found.splitlines()
        assert "not instructions" in note
        assert best == f"[m0 user {datetime.now():%F}] The vault opens with 4711."
        since = await client.call("memory_search", query="what opens the vault", since="yesterday")
        assert best in since
        assert "Nothing" in await client.call("memory_search", query="vault", until="last month")
        read = await client.call("memory_get", handle="m0")
        assert read.endswith("\n1: The vault opens with 4711.")
        listed = await client.call("memory_sessions")
        assert "work: 50 messages" in listed
        assert "other" not in listed
        status = await client.call("context_status")
        assert re.search(r"[1-9]\d* of 50 messages are in context", status)
        (summary,) = re.findall(r"summary (\d+) of messages m0-", status)
        shown = await client.call("summary_expand", summary_id=int(summary))
        assert "\n[m0 user] The vault opens with 4711.\n" in shown
        assert "[more: start 20 of " in shown
        following = await client.call("summary_expand", summary_id=int(summary), start=20)
        assert following.splitlines()[1].startswith("[m20 ")
        assert json.loads(await client.read("memory://messages/m0"))["message"]["role"] == "user"
        assert json.loads(await client.read(f"memory://summaries/{summary}"))["covers"][0]["start"] == 0
        prompts = {each.name for each in (await client.session.list_prompts()).prompts}
        assert prompts == {"recall", "handoff"}
        asked = await client.session.get_prompt("recall", {"topic": "the vault"})
        assert "the vault" in asked.messages[0].content.text
        assert "not instructions" in (await client.session.get_prompt("handoff")).messages[0].content.text


async def test_every_tool_has_all_four_hints_and_what_a_model_pays_for_them_is_bounded(path: Path) -> None:
    options = ("--store", str(path), "--session", "work", "--allow-write", "--allow-forget")
    async with over_stdio(*options) as client:
        tools = await client.tools()
    assert set(tools) == {*READING, "memory_save", "context_compact", "memory_forget"}
    hints: dict[str, Any] = {}
    for name, tool in tools.items():
        four = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
        hints[name] = tuple(told(tool.annotations, hint) for hint in four)
        assert told(tool, "output_schema") is None
        assert not {"session", "session_id", "store"} & set(told(tool, "input_schema")["properties"])
    read = [
        tool.model_dump_json(by_alias=True, exclude_none=True)
        for tool in tools.values()
        if tool.name in READING
    ]
    assert sum(map(estimate_tokens, read)) <= 900
    assert {name: hints.pop(name) for name in READING} == dict.fromkeys(READING, (True, False, True, False))
    assert hints == {
        "memory_save": (False, False, True, False),
        "context_compact": (False, False, False, False),
        "memory_forget": (False, True, True, False),
    }


@OVER
async def test_what_a_tool_cannot_do_is_an_error_that_says_why_and_the_server_goes_on(
    path: Path, transport: str
) -> None:
    async with reached(transport, "--store", str(path), "--session", "work") as client:
        for name, arguments, says in (
            ("memory_search", {}, "query"),
            ("memory_search", {"query": "vault", "limit": -1}, "limit"),
            ("memory_search", {"query": "vault", "since": "the other day"}, "yesterday"),
            ("memory_search", {"query": "vault", "order": "newest"}, "'score' or 'time'"),
            ("memory_get", {"handle": "m9999"}, "no message 'm9999'"),
            ("summary_expand", {"summary_id": 99}, "no summary 99"),
            ("summary_expand", {}, "'summary_id' is missing"),
            ("summary_expand", {"summary_id": True}, "integer"),
            ("memory_sessions", {"session": "other"}, "no argument 'session'"),
            ("memory_get", {"handle": "other/m0"}, "no conversation 'other'"),
            ("memory_get", {"handle": "e99999"}, "no entry 99999"),
            ("memory_save", {"content": "x"}, "no tool 'memory_save'; known are memory_search"),
        ):
            with pytest.raises(CallError, match=says) as raised:
                await client.call(name, **arguments)
            assert not re.search(r"http|Error|pydantic|\n", str(raised.value))
        for uri in ("memory://summaries/99999", "memory://summaries/x", "memory://messages/m9999"):
            with pytest.raises(Exception, match=r"99999|digits|m9999"):
                await client.read(uri)
        assert "4711" in await client.call("memory_search", query="vault", limit=None, order=None)
        assert await client.call("memory_get", handle=0, lines=1)


async def test_another_session_of_the_store_is_out_of_reach(path: Path) -> None:
    with MemoryStore.open(path) as store:
        (entry,) = store.index("other", [Entry("The secret of the other tenant is plum.")]).entry_ids
    async with over_stdio("--store", str(path), "--session", "work") as client:
        assert "plum" not in await client.call("memory_search", query="secret tenant plum")
        with pytest.raises(CallError, match="no text"):
            await client.call("memory_get", handle=f"e{entry}")


@OVER
async def test_two_servers_share_a_store_and_each_sees_what_the_other_saves(path: Path, transport: str):
    options = ("--store", str(path), "--session", "work")
    may = ("--allow-write", "--allow-forget")
    async with reached(transport, *options, *may) as first, reached(transport, *options) as second:
        assert "blue" not in await second.call("memory_search", query="favourite colour")
        told_of = await first.call("memory_save", content="The favourite colour is blue.", memory_type="fact")
        saved = json.loads(told_of)["id"]
        assert "] The favourite colour is blue." in await second.call(
            "memory_search", query="favourite colour"
        )
        dry = await first.call("memory_forget", ids=[saved], dry_run=True)
        assert re.match("1 memories, 0 messages.* would be forgotten", dry)
        gone = await first.call("memory_forget", ids=[saved], handles=["m0"])
        assert gone.startswith("1 memories, 1 messages")
        for client in (first, second):
            assert "blue" not in await client.call("memory_search", query="colour")
        assert "4711" not in await second.call("memory_search", query="vault")


@OVER
async def test_a_call_that_is_given_up_holds_nobody_up(path: Path, transport: str) -> None:
    """Another process holds the store, so that the call cannot end before it is cancelled."""
    async with reached(transport, "--store", str(path), "--session", "work", "--allow-write") as client:
        await client.call("context_status")
        held = sqlite3.connect(path / "memory" / "memory.sqlite3")
        held.execute("BEGIN IMMEDIATE")
        try:
            async with anyio.create_task_group() as group:

                async def save() -> None:
                    await client.call("memory_save", content="Never mind.")

                group.start_soon(save)
                await anyio.sleep(0.2)
                await client.cancel_last()
                group.cancel_scope.cancel()
            assert "4711" in await client.call("memory_search", query="what opens the vault")
        finally:
            held.rollback()
            held.close()
        assert '"fact"' in await client.call("memory_save", content="The lamp is green.")


async def test_a_client_compacts_where_it_may(path: Path) -> None:
    async with over_stdio("--store", str(path), "--session", "other", "--allow-write") as client:
        assert "nothing was compacted" in await client.call("context_compact")


async def test_over_http_a_token_lets_in(path: Path) -> None:
    with http_server("--store", str(path), "--session", "work") as address:
        assert address.startswith("http://127.0.0.1:")
        async with over_http(address) as client, over_http(address) as other:
            assert "4711" in await client.call("memory_search", query="what opens the vault")
            assert "session work: " in await other.call("context_status")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            request = urllib.request.Request(address, data=b"{}", headers=headers)
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                urllib.request.urlopen(request)
            refused.value.close()
        rebound = {
            "Authorization": f"Bearer {TOKEN}",
            "Host": "evil.example",
            "Content-Type": "application/json",
        }
        with pytest.raises(urllib.error.HTTPError, match=r"421|403") as refused:
            urllib.request.urlopen(urllib.request.Request(address, data=b"{}", headers=rebound))
        refused.value.close()


def test_which_session_is_settled_before_a_client_comes(path: Path, tmp_path_factory: Any) -> None:
    with pytest.raises(ConfigError, match="'work', 'other'"):
        open_memory(path)
    with pytest.raises(ConfigError, match="no session 'wrok'"):
        open_memory(path, "wrok")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(StoreOpenError):
        open_memory(empty / "none")
    with open_memory(empty, access=Access(write=True)) as memory:
        memory.tools["memory_save"].run({"content": "The lamp is green."})
    with open_memory(empty) as memory:
        assert memory.status().startswith("session mcp: ")
    with open_memory(empty, "mcp") as memory:
        assert "] The lamp is green." in memory.tools["memory_search"].run({"query": "lamp"})


@pytest.mark.parametrize("session_id", [None, "now"])
@pytest.mark.parametrize("writes", [False, True])
def test_a_namespace_is_searched_as_a_whole(tmp_path: Path, session_id: str | None, *, writes: bool) -> None:
    """Each handle that a search shows is read whole, and the message beside it too."""
    for name, colour, whose in (("a", "green", "ann"), ("b/1", "blue", "ann"), ("c", "red", "bob")):
        with Session.open(tmp_path, name, namespace=whose) as session:
            session.append({"role": "user", "content": f"Lamp {name} is {colour}."})
            session.append({"role": "assistant", "content": f"{colour} it is"})
    Session.open(tmp_path, "now", namespace="ann").close()
    with MemoryStore.open(tmp_path) as store:
        (secret,) = store.index("c", [Entry("The secret lamp is plum.")]).entry_ids
    with open_memory(tmp_path, session_id, access=Access(write=writes), namespace="ann") as memory:
        assert ("ann/mcp" if writes and not session_id else session_id or "b/1") == memory.session.session_id
        _, *found = memory.tools["memory_search"].run({"query": "lamp"}).splitlines()
        assert {"Lamp a is green.", "Lamp b/1 is blue."} <= {line.partition("] ")[2] for line in found}
        assert "red" not in " ".join(found)
        for line in found:
            whole = memory.get({"handle": line[1:].split()[0]})
            assert whole.endswith(line.partition("] ")[2])
            beside = whole.splitlines()[1][1:].partition("/m")[0] + "/m1"
            assert "it is" in memory.get({"handle": beside})
        assert [line.partition(":")[0] for line in memory.sessions({}).splitlines()[1:3]] == ["b/1", "a"]
        for handle in (f"e{secret}", "c/m0"):
            with pytest.raises(SiltstoneError, match=r"no text|no conversation"):
                memory.get({"handle": handle})
    if not writes and not session_id:
        with pytest.raises(ConfigError, match=r"'nobody'.*'ann', 'bob'"):
            open_memory(tmp_path, namespace="nobody")


@pytest.mark.parametrize("token", ["", "short", "with spaces in its midst", "\u00fcmlaute-in-the-token"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="16 or more"):
        TokenGate(None, token)  # type: ignore[arg-type]


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mcp-server.md"


async def test_the_configurations_of_the_page_start_a_server(path: Path) -> None:
    page = PAGE.read_text("utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (server,) = json.loads(shown)["mcpServers"].values()
    assert server["command"] == "siltstone"
    (notes,) = re.findall(r'`"args": (\[.*?\])`', page)
    first, second = server["args"], json.loads(notes)
    assert (first[0], second[0]) == ("mcp", "mcp")
    first[first.index("--store") + 1], first[first.index("--session") + 1] = str(path), "work"
    second[second.index("--store") + 1] = str(path / "notes")
    async with over_stdio(*first[1:]) as client:
        assert set(await client.tools()) == READING
    async with over_stdio(*second[1:]) as client:
        assert set(await client.tools()) == {*READING, "memory_save", "context_compact"}


PLUGIN = PAGE.parents[2] / "plugins" / "claude-code"


def test_the_plugin_of_claude_code_keeps_what_a_compaction_takes_and_recalls_it(tmp_path: Path) -> None:
    """With a transcript and the inputs of hooks as the client writes them."""
    record = {"sessionId": "s-1", "cwd": "/srv", "timestamp": "2026-03-05T10:00:00Z", "isSidechain": False}
    lines: list[dict[str, Any]] = []
    for role, content in (
        ("user", "Which crane lifts the most?"),
        ("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "crane-a.toml"}]),
        ("assistant", [{"type": "text", "text": "Crane A lifts forty tonnes."}]),
    ):
        named = {"uuid": str(len(lines)), "parentUuid": lines[-1]["uuid"] if lines else None, "type": role}
        lines.append({**record, **named, "message": {"role": role, "content": content, "id": named["uuid"]}})
    path = tmp_path / "s-1.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    (tmp_path / "siltstone").write_text(f'#!/bin/sh\nexec {sys.executable} -m siltstone "$@"\n')
    (tmp_path / "siltstone").chmod(0o755)
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(event: str, **given: Any) -> subprocess.CompletedProcess[str]:
        ((hook,),) = (each["hooks"] for each in hooks[event])
        told = {"hook_event_name": event, "session_id": "s-1", "transcript_path": str(path), **given}
        return subprocess.run(hook["command"], shell=True, input=json.dumps(told), env=environment,
                              capture_output=True, text=True)  # fmt: skip

    assert run("SessionStart", source="startup").stdout == ""
    assert run("PreCompact", trigger="auto").returncode == 0
    assert run("SessionEnd", reason="other").returncode == 0  # the same file again
    recalled = run("SessionStart", source="compact").stdout
    assert recalled.startswith("1 earlier conversations are in memory. Call memory_search")
    assert recalled.endswith("left:\n- s-1/m0: Which crane lifts the most?\n")
    assert run("PreCompact", transcript_path=str(tmp_path / "none")).returncode == 1  # 2 would stop Claude
    (server,) = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"].values()
    with open_memory(tmp_path / ".siltstone" / "claude-code", namespace=server["args"][4]) as memory:
        assert "] Crane A lifts forty tonnes." in memory.tools["memory_search"].run({"query": "crane"})
        assert memory.get({"handle": "s-1/m0"}).endswith("1: Which crane lifts the most?")
