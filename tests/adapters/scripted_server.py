"""A provider whose answers come from the script of a contract."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adapters.contract import INPUT_TOKENS, OUTPUT_TOKENS, Hang, Refuse, Reply, Say
from servers.provider import Provider, Refusal, Said, provider


@contextmanager
def scripted(script: Sequence[Reply], note: Callable[[Any], None], turn: int = 0) -> Iterator[Provider]:
    """A server that answers by *script*. *note* gets each request; *turn* is a part of the ids of calls."""
    left, released = list(enumerate(script)), threading.Event()

    def model(body: dict[str, Any]) -> Said:
        note(body)
        at, reply = left.pop(0)
        told: dict[str, Any] = {"id": f"{turn + at // 2}-{at % 2}", "usage": (INPUT_TOKENS, OUTPUT_TOKENS)}
        match reply:
            case Refuse():
                raise Refusal(reply.text)
            case Hang():
                released.wait()
                return Said(**told)
            case Say():
                return Said(text=reply.text, thinking=reply.thought, **told)
        calls = tuple(("look_up", {"topic": topic}) for topic in reply.topics)
        return Said(text="", thinking=reply.thought, calls=calls, **told)

    with provider() as server:
        server.model = model
        try:
            yield server
        finally:
            released.set()
