"""The hits of each ranker, and of stores of others, in recorded conversations. Prints and records them.

make quality
python benches/quality --record benches/record
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from contenders import DEFAULT, PEERS, contenders
from cost import cost
from harness import run
from record import page
from siltstone.evaluation import Dataset, Report, evaluate
from targets import reproduced

COMMAND = "python benches/quality --record benches/record"  # what `make quality` runs


def main() -> int:
    """1 where the harness does not measure what it should, 2 where it cannot measure."""
    name = f"quality-{datetime.now(UTC):%Y-%m-%d}.md"
    return run("quality", __doc__.splitlines()[0], name, measured)


def measured(datasets: list[Dataset]) -> str | None:
    """The page of the record; None where known figures do not come out as they are known."""
    results = measure(datasets)
    if not reproduced(results):
        return None
    left_out = [peer.name for peer in PEERS if not peer.is_here]
    return page(results, cost(datasets[0]), left_out, COMMAND)


def measure(datasets: list[Dataset]) -> dict[tuple[str, str], Report]:
    """Every contender and peer on every dataset, and the default on what is left without names or tools."""
    results = {}
    ours = contenders()
    for dataset in datasets:
        for contender in ours:
            with contender.factory() as make:
                results[dataset.name, contender.name] = evaluate(make, dataset, ties="earlier")
        for peer in PEERS:
            if peer.is_here:
                results[dataset.name, peer.name] = evaluate(peer.make, dataset, ties="earlier")
        print(f"{dataset.name}: done", file=sys.stderr)
    by_name = {dataset.name: dataset for dataset in datasets}
    for reduced in (by_name["locomo-dev"].text_only(), by_name["agent-dev"].only("text")):
        with ours[0].factory() as make:
            results[reduced.name, DEFAULT] = evaluate(make, reduced, ties="earlier")
    return results


if __name__ == "__main__":
    sys.exit(main())
