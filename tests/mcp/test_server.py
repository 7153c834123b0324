"""The MCP server, driven by the real client: over standard input and output, and over HTTP."""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp comes with the extra mcp")

import anyio

from conversations import small, turns
from mcp_client import TOKEN, CallError, http_server, over_http, over_stdio, reached, told
from siltstone import ConfigError, MemoryStore, Session
from siltstone.engine import Compacted
from siltstone.errors import StoreOpenError
from siltstone.mcp import Access, open_memory
from siltstone.mcp.server import TokenGate
from siltstone.testing import ScriptedModel

pytestmark = pytest.mark.anyio

OVER = pytest.mark.parametrize("transport", ["stdio", "http"])
READING = {"context_status", "memory_get", "memory_search", "memory_stats", "summary_expand"}


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
        best = found["results"][0]
        assert "4711" in best["content"]
        assert best["source_range"] == {"start": 0, "end": 1}
        assert "not instructions" in found["note"]
        since = await client.call("memory_search", query="what opens the vault", since="yesterday")
        assert since["results"][0] == best
        assert (await client.call("memory_search", query="vault", until="last month"))["results"] == []
        read = await client.call("memory_get", handle=best["handle"])
        assert read["content"] == "1: The vault opens with 4711."
        stats = await client.call("memory_stats")
        assert stats["session_id"] == "work"
        assert stats["compactions"] == 1
        status = await client.call("context_status")
        (summary,) = status["summary_ids"]
        assert 0 < status["summary_tokens"] < status["total_tokens"]
        shown = await client.call("summary_expand", summary_id=summary)
        assert shown["messages"][0]["content"] == "The vault opens with 4711."
        following = await client.call("summary_expand", summary_id=summary, start=shown["next_start"])
        assert following["messages"][0]["handle"] == "m20"
        assert json.loads(await client.read("memory://stats")) == stats
        assert json.loads(await client.read("memory://messages/m0"))["message"]["role"] == "user"
        assert json.loads(await client.read(f"memory://summaries/{summary}"))["covers"][0]["start"] == 0
        entry = MemoryStore.open(path, read_only=True).search("work", "vault", 1)[0].entry_id
        assert "4711" in json.loads(await client.read(f"memory://entries/{entry}"))["content"]
        prompts = {each.name for each in (await client.session.list_prompts()).prompts}
        assert prompts == {"recall", "handoff"}
        asked = await client.session.get_prompt("recall", {"topic": "the vault"})
        assert "the vault" in asked.messages[0].content.text
        assert "not instructions" in (await client.session.get_prompt("handoff")).messages[0].content.text


async def test_every_tool_has_all_four_hints_and_an_output_schema(path: Path) -> None:
    options = ("--store", str(path), "--session", "work", "--allow-write", "--allow-forget")
    async with over_stdio(*options) as client:
        tools = await client.tools()
    assert set(tools) == {*READING, "memory_save", "context_compact", "memory_forget"}
    hints: dict[str, Any] = {}
    for name, tool in tools.items():
        four = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
        hints[name] = tuple(told(tool.annotations, hint) for hint in four)
        assert told(tool, "output_schema")["type"] == "object"
        assert "session" not in json.dumps(told(tool, "input_schema")["properties"])
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
            ("memory_save", {"content": "x"}, "memory_save"),
        ):
            with pytest.raises(CallError, match=says):
                await client.call(name, **arguments)
        for uri in ("memory://entries/99999", "memory://entries/x", "memory://messages/m9999"):
            with pytest.raises(Exception, match=r"99999|digits|m9999"):
                await client.read(uri)
        assert (await client.call("memory_search", query="vault", limit=0))["results"] == []
        assert await client.call("memory_search", query="vault", limit=None, order=None)
        assert await client.call("memory_get", handle=0, lines=1)


@OVER
async def test_half_a_character_in_a_message_does_not_end_the_server(tmp_path: Path, transport: str) -> None:
    """As where a host has cut a text in the middle of an emoji: the log keeps it, and the wire cannot."""
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append({"role": "user", "content": "The walrus \ud83d sings."})
        session.append(*(message for turn in turns(12) for message in turn))
        compacted = session.compact()
        assert isinstance(compacted, Compacted)
        session.append({"role": "assistant", "content": "\udfff"})
        (record,) = session.compactions()
    async with reached(transport, "--store", str(tmp_path)) as client:
        assert (await client.call("memory_get", handle="m0"))["content"] == "1: The walrus \ufffd sings."
        (first, *_) = (await client.call("summary_expand", summary_id=record.id))["messages"]
        assert first["content"] == "The walrus \ufffd sings."
        held = json.loads(await client.read("memory://messages/m0"))
        assert held["message"]["content"] == "The walrus \ud83d sings."
        await client.session.get_prompt("handoff")
        assert (await client.call("memory_stats"))["messages"] == 50


async def test_another_session_of_the_store_is_out_of_reach(path: Path) -> None:
    with MemoryStore.open(path) as store:
        from siltstone import Entry

        (entry,) = store.index("other", [Entry("The secret of the other tenant is plum.")]).entry_ids
    async with over_stdio("--store", str(path), "--session", "work") as client:
        assert "plum" not in json.dumps(await client.call("memory_search", query="secret tenant plum"))
        with pytest.raises(Exception, match="entr"):
            await client.read(f"memory://entries/{entry}")


@OVER
async def test_two_servers_share_a_store_and_each_sees_what_the_other_saves(
    path: Path, transport: str
) -> None:
    options = ("--store", str(path), "--session", "work")
    may = ("--allow-write", "--allow-forget")
    async with reached(transport, *options, *may) as first, reached(transport, *options) as second:
        assert "blue" not in json.dumps(await second.call("memory_search", query="favourite colour"))
        saved = await first.call("memory_save", content="The favourite colour is blue.", memory_type="fact")
        found = await second.call("memory_search", query="favourite colour")
        assert found["results"][0]["content"] == "The favourite colour is blue."
        dry = await first.call("memory_forget", ids=[saved["id"]], dry_run=True)
        assert (dry["memories"], dry["dry_run"]) == (1, True)
        gone = await first.call("memory_forget", ids=[saved["id"]], handles=["m0"])
        assert (gone["memories"], gone["messages"]) == (1, 1)
        after = json.dumps([await client.call("memory_search", query="colour") for client in (first, second)])
        assert "blue" not in after
        assert "4711" not in json.dumps(await second.call("memory_search", query="vault"))


@OVER
async def test_a_call_that_is_given_up_holds_nobody_up(path: Path, transport: str) -> None:
    """Another process holds the store, so that the call cannot end before it is cancelled."""
    async with reached(transport, "--store", str(path), "--session", "work", "--allow-write") as client:
        await client.call("memory_stats")
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
            found = await client.call("memory_search", query="what opens the vault")
            assert "4711" in found["results"][0]["content"]
        finally:
            held.rollback()
            held.close()
        assert (await client.call("memory_save", content="The lamp is green."))["memory_type"] == "fact"


async def test_a_client_compacts_where_it_may(path: Path) -> None:
    async with over_stdio("--store", str(path), "--session", "other", "--allow-write") as client:
        assert (await client.call("context_compact"))["outcome"] == "skipped"


async def test_over_http_a_token_lets_in(path: Path) -> None:
    with http_server("--store", str(path), "--session", "work") as address:
        assert address.startswith("http://127.0.0.1:")
        async with over_http(address) as client, over_http(address) as other:
            found = await client.call("memory_search", query="what opens the vault")
            assert "4711" in found["results"][0]["content"]
            assert json.loads(await other.read("memory://stats"))["session_id"] == "work"
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
        memory.save({"content": "The lamp is green."})
    with open_memory(empty) as memory:
        assert memory.stats()["session_id"] == "mcp"
    with open_memory(empty, "mcp") as memory:
        assert memory.search("lamp", 5)["results"][0]["content"] == "The lamp is green."


def test_a_namespace_is_searched_as_a_whole(tmp_path: Path) -> None:
    with Session.open(tmp_path, "before", namespace="ann") as session:
        session.append({"role": "user", "content": "The lamp is green."})
    with open_memory(tmp_path, "now", access=Access(write=True), namespace="ann") as memory:
        (hit,) = memory.search("lamp", 5)["results"]
        assert (hit["session_id"], hit["handle"]) == ("before", None)


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
