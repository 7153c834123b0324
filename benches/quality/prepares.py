"""What a ``prepare`` costs under each preset: the model calls that it waits for, and the text that they read.

    python benches/quality/prepares.py

Two recorded agent sessions (``SILTSTONE_DATA``) are played with each documented system, its own numbers and a
window of 16,000 tokens. The model answers with one text; it is asked for summaries, and for facts.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from siltstone import Session, presets

DATA = Path(os.environ.get("SILTSTONE_DATA", "../shared/data"))
WINDOW = 16_000
ANSWER = "The agent read files, ran the tests, and mended what failed. " * 8


class Model:
    """A model that counts the calls that a ``prepare`` waits for, all its calls, and the characters.

    It takes so long that a ``prepare`` that does not wait for it has ended before.
    """

    def __init__(self) -> None:
        self.waited = self.calls = self.characters = self.running = 0
        self.boundary = 0  #: the number of the prepare that is running; 0 between two

    def __call__(self, request: Any) -> str:
        boundary = self.boundary
        self.running += 1
        time.sleep(0.2)
        self.calls += 1
        self.waited += 0 < boundary == self.boundary
        self.characters += sum(len(str(message["content"])) for message in request.messages)
        self.running -= 1
        return ANSWER


def cost(talks: list[list[Any]], **options: Any) -> tuple[int, int, int, int]:
    """The most calls that one ``prepare`` waited for, all waited calls, the other calls, all characters."""
    model, most = Model(), 0
    for talk in talks:
        with (
            tempfile.TemporaryDirectory() as place,
            Session.open(place, "s", model=model, context_window=WINDOW, **options) as session,
        ):
            for at, message in enumerate(talk, 1):
                if message["role"] == "assistant":
                    before, model.boundary = model.waited, at
                    session.prepare()
                    most, model.boundary = max(most, model.waited - before), 0
                    session.wait_for_compaction()
                    while model.running:  # it reads for facts
                        time.sleep(0.01)
                session.append(message)
            session.prepare()
    return most, model.waited, model.calls - model.waited, model.characters


def main() -> None:
    """Prints a row for each system, and one for a session without a preset."""
    logging.getLogger("siltstone").setLevel(logging.ERROR)
    lines = (DATA / "agent-messages-dev.jsonl").read_text("utf-8").splitlines()
    talks = [json.loads(line)["messages"] for line in lines]
    print(
        "| preset | most calls in one `prepare` | calls that it waits for | other calls | characters read |"
    )
    print("|---|---|---|---|---|")
    for name in (None, *presets.preset_names()):
        options = {} if name is None else {"preset": name}
        figures = cost(talks, **options)
        print("|", " | ".join([name or "none", *(f"{figure:,}" for figure in figures)]), "|", flush=True)


if __name__ == "__main__":
    main()
