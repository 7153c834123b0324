"""What does each ranker, and what others would use, find of recorded conversations? Prints and records it.

make quality
python benches/quality --record benches/record
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from contenders import DEFAULT, PEERS, contenders
from cost import cost
from record import page
from siltstone import Dataset, DatasetError, Report, _native, evaluate
from siltstone.evaluation import RECORDED, load_dataset
from targets import reproduced

COMMAND = "python benches/quality --record benches/record"  # what `make quality` runs


def main() -> int:
    """1 where the harness does not measure what it should, 2 where it cannot measure."""
    parser = argparse.ArgumentParser(prog="quality", description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, metavar="DIR", help="write DIR/quality-DATE.md as well")
    arguments = parser.parse_args()
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install", file=sys.stderr)
        return 2
    try:
        datasets = [load_dataset(name) for name in RECORDED]
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    results = measure(datasets)
    if not reproduced(results):
        return 1
    left_out = [peer.name for peer in PEERS if not peer.is_here]
    written = page(results, cost(datasets[0]), left_out, COMMAND)
    print(written)
    if arguments.record:
        arguments.record.mkdir(parents=True, exist_ok=True)
        target = arguments.record / f"quality-{datetime.now(UTC):%Y-%m-%d}.md"
        target.write_text(written, encoding="utf-8")
        print(f"written to {target}")
    return 0


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
