"""How fast is a history trimmed, and how much shorter does a result get, beside what others use for that?

    make bench-peers
    python benches/peers/trims.py

A history is halved: CPU time of one call in milliseconds, of all its threads, the best of several.

Each session of ``agent-messages-dev.jsonl`` (``SILTSTONE_DATA``) is played to ``CompressToolOutput`` as an
agent would meet it, and handed whole to ``headroom.compress``. Tokens are counted by one rule for both.
*Touched* are the messages that are other than they were; *earlier* those of them that a model had been sent
before, so that a provider's cached prefix ends there.

Packages of others are optional: what is absent is said and left out.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from siltstone import CompressToolOutput, Session, SimpleMemoryStore, SmartTrimConfig, estimate_tokens
from siltstone.evaluation import data_place
from siltstone.messages import condensed, encode, read_message
from siltstone.systems.openclaw import smart_trim
from siltstone.tokens import rule

sys.path.append(str(Path(__file__).parents[1]))
from common import begin, head, row, timed

SEED = 20261122
SIZES = (1_000, 100_000)
WORDS = 40  # of a message
TURNS = 12  # calls whose best counts
RULE = rule("blocks")
WINDOW = 1_000_000  # nothing else is due
PIECE = 40_000  # characters, which are some 10,000 tokens

Chat = list[dict[str, Any]]


def messages(count: int) -> Chat:
    """A chat of *count* messages, the same in every run."""
    chance = random.Random(SEED)
    words = [f"word{number}" for number in range(3_000)]
    return [
        {"role": "assistant" if at % 2 else "user", "content": " ".join(chance.choices(words, k=WORDS))}
        for at in range(count)
    ]


def best(call: Callable[[], object]) -> float:
    """The least milliseconds of CPU of some calls."""
    return min(timed(call, time.process_time) for _ in range(TURNS))


def our_trim(chat: Chat) -> float:
    """``smart_trim``, which scores every message for the newest requests."""
    return best(partial(smart_trim, chat, estimate_tokens(chat, SmartTrimConfig().estimator) // 2))


def their_trim(chat: Chat) -> float:
    """``trim_messages`` with its approximate count, which reads no text for relevance."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    read = [kinds[raw["role"]](raw["content"]) for raw in chat]
    limit = count_tokens_approximately(read) // 2
    options = {"token_counter": count_tokens_approximately, "strategy": "last", "start_on": "human"}
    return best(partial(trim_messages, read, max_tokens=limit, **options))


@dataclass(slots=True)
class Outcome:
    """The results for the messages of some sessions."""

    touched: int = 0
    before: int = 0  # tokens of what was touched
    after: int = 0
    earlier: int = 0
    restored: int = 0

    def compare(self, was: Sequence[Any], now: Sequence[Any], seen: int) -> None:
        """Counts what differs between two lists of messages, of which *seen* had been sent."""
        for place, (one, other) in enumerate(zip(was, now, strict=True)):
            if encode(one) != encode(other):
                self.touched += 1
                self.before += RULE.count([read_message(one, place)])
                self.after += RULE.count([read_message(other, place)])
                self.earlier += place < seen


def ours(sessions: Sequence[list[Any]]) -> Outcome:
    """Each session as an agent would meet it: a boundary before every answer."""
    found = Outcome()
    for number, raws in enumerate(sessions):
        with Session.open(
            None, f"s{number}", memory=SimpleMemoryStore(), policy=CompressToolOutput(), context_window=WINDOW
        ) as session:
            sent: list[Any] = []
            for raw in raws:
                if raw["role"] == "assistant":
                    prepared = session.prepare().messages
                    found.compare(sent, prepared[: len(sent)], len(sent))  # nothing that was sent changes
                    sent = prepared
                session.append(raw)
            found.compare(raws, session.history(), 0)
            found.restored += sum(
                encode(one) == encode(other) and encode(one) != encode(shown)
                for one, other, shown in zip(raws, session.log(), session.history(), strict=True)
            )
    return found


def theirs(sessions: Sequence[list[Any]], compress: Callable[..., Any]) -> Outcome:
    """A whole session in one call, as a proxy sees it."""
    found = Outcome()
    for raws in sessions:
        result = compress(copy.deepcopy(raws))
        last = max(at for at, raw in enumerate(raws) if raw["role"] == "assistant")
        if len(result.messages) == len(raws):
            found.compare(raws, result.messages, last)
    return found


def compressed(sessions: Sequence[list[Any]]) -> None:
    """Prints the table of results of tools."""
    texts = [
        part.text
        for raws in sessions
        for at, raw in enumerate(raws)
        for part in read_message(raw, at).parts
        if part.kind == "tool_result"
    ]
    tokens = sum(RULE.count([read_message(raw, at) for at, raw in enumerate(raws)]) for raws in sessions)
    spent = best(lambda: [condensed(text) for text in texts]) * PIECE / sum(map(len, texts))
    head("", "touched", "tokens before", "after", "earlier", "the same bytes in the log", "10,000 tokens, ms")
    found = ours(sessions)
    figures = (found.touched, found.before, found.after, found.earlier, found.restored)
    row("`CompressToolOutput`", *figures, spent)
    if find_spec("headroom") is None:
        print("headroom-ai is not installed")
        return
    import headroom

    found = theirs(sessions, headroom.compress)
    spent = best(lambda: theirs(sessions, headroom.compress)) * 10_000 / tokens
    row("`headroom.compress`", found.touched, found.before, found.after, found.earlier, "not kept", spent)


def main() -> None:
    """Prints both tables."""
    begin("milliseconds of CPU")
    head("messages", "`smart_trim`", "LangChain `trim_messages`")
    for size in SIZES:
        chat = messages(size)
        peer = their_trim(chat) if find_spec("langchain_core") else "not installed"
        row(size, our_trim(chat), peer)
    print()
    path = data_place() / "agent-messages-dev.jsonl"
    if path.is_file():
        compressed([json.loads(line)["messages"] for line in path.read_text("utf-8").splitlines()])
    else:
        print(f"no results of tools are compressed: there is no {path}")


if __name__ == "__main__":
    main()
