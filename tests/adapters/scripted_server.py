"""A server with the API of a provider. Its answers come from a script."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import httpx2

from adapters.contract import Hang, Reply, Run

__all__ = ["ScriptedServer"]


class ScriptedServer(ABC):
    """Answers by a script, and the run remembers what it was sent. Each API says how it is read and answered.

    Args:
        script: The replies, in order.
        run: The object that remembers the requests.
        turn: How many turns there were before; it is a part of the ids of calls.
    """

    def __init__(self, script: Sequence[Reply], run: Run, turn: int = 0) -> None:
        self.script, self.run, self.turn, self.place = list(script), run, turn, 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body, reply = self._received(request)
        assert not isinstance(reply, Hang)
        return self.answer(reply, body)

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        body, reply = self._received(request)
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        return self.answer(reply, body)

    def _received(self, request: httpx2.Request) -> tuple[dict[str, Any], Reply]:
        body: dict[str, Any] = json.loads(request.content)
        self.note(body)
        self.place += 1
        return body, self.script[self.place - 1]

    def call_id(self, kind: str, topic: str) -> str:
        """The id of a call in the reply at hand."""
        return f"{kind}_{topic}_{self.turn + (self.place - 1) // 2}"

    @abstractmethod
    def note(self, body: dict[str, Any]) -> None:
        """Puts into the run what a request holds."""

    @abstractmethod
    def answer(self, reply: Reply, body: dict[str, Any]) -> httpx2.Response:
        """*reply* in the form of the API."""
