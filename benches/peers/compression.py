"""How much shorter do results of tools get, beside what headroom-ai makes of the same? Prints a table.

    python benches/peers/compression.py agent-messages-dev.jsonl

Each recorded session is played to ``CompressToolOutput`` as an agent would meet it, and handed whole to
``headroom.compress`` and its lossless form ``densify``, where that package is installed. Tokens are counted
by one rule for all. *Touched* are the messages that are other than they were; *earlier* those of them that
a model had been sent before, so that a provider's cached prefix ends there. Times are of the processor, the
best of several.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from siltstone import CompressToolOutput, Session, SimpleMemoryStore
from siltstone.cli.transcripts import read_transcripts
from siltstone.messages import condensed, encode, read_message
from siltstone.tokens import rule

RULE = rule("blocks")
WINDOW = 1_000_000  # nothing else is due
PIECE = 40_000  # characters, which are some 10,000 tokens
ROUNDS = 9


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


def theirs(sessions: Sequence[list[Any]], call: Callable[..., Any]) -> tuple[Outcome, float]:
    """A whole session in one call, as a proxy sees it; and milliseconds for 10,000 tokens."""
    found, spent, tokens = Outcome(), float("inf"), 0
    for _ in range(ROUNDS):
        started = time.process_time()
        results = [call(copy.deepcopy(raws)) for raws in sessions]
        spent = min(spent, time.process_time() - started)
    for raws, result in zip(sessions, results, strict=True):
        tokens += RULE.count([read_message(raw, at) for at, raw in enumerate(raws)])
        last = max(at for at, raw in enumerate(raws) if raw["role"] == "assistant")
        if len(result.messages) == len(raws):
            found.compare(raws, result.messages, last)
    return found, spent * 1000 * 10_000 / max(tokens, 1)


def per_piece(sessions: Sequence[list[Any]]) -> float:
    """Milliseconds of ``condensed`` for 10,000 tokens of the results of the sessions, one after another."""
    texts = [
        part.text
        for raws in sessions
        for at, raw in enumerate(raws)
        for part in read_message(raw, at).parts
        if part.kind == "tool_result"
    ]
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for text in texts:
            condensed(text)
        best = min(best, time.process_time() - started)
    return best * 1000 * PIECE / sum(map(len, texts))


def row(name: str, found: Outcome, restored: str, took: float) -> None:
    share = f"{1 - found.after / found.before:.0%}" if found.before else "-"
    print(
        f"| {name} | {found.touched} | {found.before:,} | {found.after:,} | {share} | {found.earlier} | "
        f"{restored} | {took:.2f} ms |",
        flush=True,
    )


def main(path: str) -> int:
    """Prints the table."""
    sessions = [each.messages for each in read_transcripts(Path(path), whole=True)]
    print(
        "| | touched | tokens before | after | less | earlier | the same bytes in the log | 10,000 tokens |"
    )
    print("|---|---|---|---|---|---|---|---|")
    found = ours(sessions)
    row("`CompressToolOutput`", found, f"{found.restored} of {found.touched}", per_piece(sessions))
    if find_spec("headroom") is None:
        print("headroom-ai is not installed")
        return 0
    import headroom

    for call in (headroom.compress, headroom.densify):
        row(f"`headroom.{call.__name__}`", *_with_text(theirs(sessions, call)))
    return 0


def _with_text(said: tuple[Outcome, float]) -> tuple[Outcome, str, float]:
    return said[0], "not kept", said[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
