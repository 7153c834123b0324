"""Every recorded set, and the dialogues of ``assistant.py``, beside two memories for agents and full text.

python benches/quality/rivals.py

``geny-memory-adaptor`` and ``agentrecall-db`` are installed by hand, in an environment of the bench alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from assistant import assistant_set, project_set
from peers import LEXICAL
from siltstone import MemoryStore
from siltstone.evaluation import RECORDED, evaluate, load_dataset

RIVALS = ("geny-memory-adaptor", "agentrecall-db", "SQLite FTS5 porter")


def main() -> int:
    """Prints R@5, R@10 and the median time of a search, a row for each set and store."""
    place = count()
    with tempfile.TemporaryDirectory(prefix="siltstone-rivals-") as directory:
        stores: dict[str, Callable[[], Any]] = {
            "MemoryStore lexical": lambda: MemoryStore.open(Path(directory) / str(next(place)))
        }
        stores |= {peer.name: peer.make for peer in LEXICAL if peer.name in RIVALS and peer.is_here}
        print("| set | store | R@5 | R@10 | p50 us |\n| :--- | :--- | ---: | ---: | ---: |")
        for dataset in (*map(load_dataset, RECORDED), assistant_set(), project_set()):
            for name, make in stores.items():
                report = evaluate(make, dataset, ties="earlier", abstention=False)
                found = " | ".join(f"{report.pooled.recall[k]:.3f}" for k in (5, 10))
                print(f"| {dataset.name} | {name} | {found} | {report.latency.p50:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
