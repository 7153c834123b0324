"""The real client of the package ``mcp`` in both major versions, with one interface for the tests."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters
from siltstone.mcp.server import MAJOR

COMMAND = [sys.executable, "-m", "siltstone", "mcp"]
TOKEN = "a-token-of-the-tests"


def told(thing: Any, name: str) -> Any:
    """The field *name* of what a client was told: the first major version spells it in camelCase."""
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    return getattr(thing, name) if hasattr(thing, name) else getattr(thing, camel)


class Client:
    """A session of the client: its calls, and what they tell as plain values."""

    def __init__(self, session: Any, began: Any) -> None:
        self.session = session
        self.instructions = began.instructions

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.session.list_tools()).tools}

    async def call(self, name: str, **arguments: Any) -> str:
        """The answer, which is one text; of an error its text, as an exception."""
        result = await self.session.call_tool(name, arguments)
        (said,) = result.content
        if told(result, "is_error"):
            raise CallError(said.text)
        assert told(result, "structured_content") is None
        return str(said.text)

    async def read(self, uri: str) -> str:
        if MAJOR == 1:
            from pydantic import AnyUrl

            return (await self.session.read_resource(AnyUrl(uri))).contents[0].text
        return (await self.session.read_resource(uri)).contents[0].text

    async def cancel_last(self) -> None:
        """Tells the server that the newest request is given up. The second version does so by itself."""
        if MAJOR == 1:
            from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

            params = CancelledNotificationParams(requestId=self.session._request_id - 1, reason="enough")
            cancelled = CancelledNotification(method="notifications/cancelled", params=params)
            await self.session.send_notification(ClientNotification(cancelled))


class CallError(Exception):
    """A tool answered with an error."""


@asynccontextmanager
async def over_stdio(*options: str) -> AsyncIterator[Client]:
    environment = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    started = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *options], env=environment)
    async with stdio_client(started) as (read, write), ClientSession(read, write) as session:
        yield Client(session, await session.initialize())


@contextmanager
def http_server(*options: str) -> Iterator[str]:
    """``siltstone mcp --http`` in a process of its own; its address."""
    environment = {**os.environ, "SILTSTONE_MCP_TOKEN": TOKEN}
    with subprocess.Popen(
        [*COMMAND, "--http", "--json", *options], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line == "}\n":
                break
        try:
            yield json.loads(said)["address"]
        finally:
            process.terminate()


@asynccontextmanager
async def reached(transport: str, *options: str) -> AsyncIterator[Client]:
    """A client of a server of its own, over ``stdio`` or over ``http``."""
    if transport == "stdio":
        async with over_stdio(*options) as client:
            yield client
    else:
        with http_server(*options) as address:
            async with over_http(address) as client:
                yield client


@asynccontextmanager
async def over_http(address: str, token: str = TOKEN) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with AsyncExitStack() as stack:
        try:
            from mcp.client.streamable_http import streamable_http_client
        except ImportError:  # the lowest version
            from mcp.client.streamable_http import streamablehttp_client

            streams = await stack.enter_async_context(streamablehttp_client(address, headers=headers))
        else:
            if MAJOR == 1:
                import httpx as httpx2
            else:
                import httpx2

            # The five seconds of its own may be too few on a busy machine.
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=300))
            streams = await stack.enter_async_context(streamable_http_client(address, http_client=http))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        yield Client(session, await session.initialize())
