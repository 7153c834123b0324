"""What a long session costs: calls of models, the text they read, tokens evaluated again, the longest pause.

    python benches/felt/money.py [NAME ...] [--turns 2000 12000]

One made conversation is played under every policy and preset, with a window of 16,000 tokens. The model
answers at once. What a provider evaluates is the part of each request behind the beginning that it shares
with the request before. A pause is a call of ``prepare``, in milliseconds of the processor.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from siltstone import Session, TieredCompactor, TieredConfig, WaterfallCompactor, presets
from siltstone.systems.rustant import WindowCompactor
from siltstone.systems.spacebot.worker import WorkerCompactor
from siltstone.tokens import estimate_tokens

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, head, row, text

WINDOW = 16_000
PAUSED = "openclaw"  # trims the whole history again for each request, so it is played for the fewer turns
CASES: dict[str, dict[str, Any]] = {
    "the default": {},
    "the default, no model": {"model": None},
    "tiered": {"policy": TieredCompactor()},
    "tiered, chronicle": {"policy": TieredCompactor(TieredConfig(mode="chronicle"))},
    "window": {"policy": WindowCompactor()},
    "waterfall": {"policy": WaterfallCompactor()},
    "worker": {"policy": WorkerCompactor()},
    **{f"preset {name}": {"preset": name} for name in presets.preset_names()},
}


def played(turns: int, **options: Any) -> tuple[int, ...]:
    """Characters said, calls, characters read, most calls in one prepare, tokens evaluated; and the pause."""
    asked, waited, said, most, evaluated = list[int](), list[bool](), 0, 0, 0
    pause, before = 0.0, list[Any]()

    def model(request: Any) -> str:
        waited.append(request.purpose != "extraction" and session.wait_for_compaction(0))
        asked.append(sum(len(str(message["content"])) for message in request.messages))
        return "They spoke of " + " ".join(f"w{len(asked) * at * at % 9_973}" for at in range(1, 100))

    if options.pop("model", model) is not None:
        options["model"] = model
    with (
        tempfile.TemporaryDirectory() as place,
        Session.open(place, "s", context_window=WINDOW, **options) as session,
    ):
        for turn in range(turns):
            question, answer = text(turn)[: 80 + turn * 37 % 400], text(turn)[-160:]
            session.append({"role": "user", "content": question})
            calls, began = sum(waited), time.thread_time()
            messages = session.prepare().messages
            pause = max(pause, time.thread_time() - began)
            most = max(most, sum(waited) - calls)
            session.wait_for_compaction()
            pairs = zip(before, messages, strict=False)
            shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            evaluated, before = evaluated + estimate_tokens(messages[shared:], "blocks"), messages
            session.append({"role": "assistant", "content": answer})
            said += len(question) + len(answer)
    return said, len(asked), sum(asked), most, evaluated, round(pause * 1e3)


def main() -> None:
    """Prints a row for each policy and preset, and each number of turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, nargs="+", default=[2_000, 12_000])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    given = parser.parse_args()
    logging.getLogger("siltstone").setLevel(logging.ERROR)
    begin("a session of short turns")
    head("policy", "turns", "characters said", "model calls", "characters read", "most calls in a `prepare`",
         "tokens evaluated", "longest pause, ms")  # fmt: skip
    played(200)  # so that no first call is measured
    for name, turns in itertools.product(given.names or CASES, given.turns):
        if PAUSED not in name or turns == min(given.turns):
            row(name, turns, *played(turns, **CASES[name]))


if __name__ == "__main__":
    main()
