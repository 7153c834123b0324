"""The frame of every script here: the recorded datasets, and a page that is printed and kept."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import siltstone
from siltstone.errors import DatasetError
from siltstone.evaluation import RECORDED, Dataset, load_dataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import commit, machine, release_only

DATA = """\
Recorded data: LoCoMo (Maharana et al., ACL 2024, CC BY-NC 4.0), MADial-Bench (MIT), transcripts of
marot/spotter (MIT), XQuAD (Artetxe et al., ACL 2020, CC BY-SA 4.0)."""


def run(about: str, name: str, measured: Callable[[list[Dataset]], Iterable[str] | None]) -> int:
    """Measures the recorded datasets; 1 where *measured* refuses what it found, 2 where it cannot measure.

    Args:
        about: One sentence on the script, the title of its record.
        name: The name of the file of the record, which the day is added to.
        measured: Gives the lines of the record below its title, or None.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--record", type=Path, metavar="DIR", help=f"write DIR/{name}-DAY.md as well")
    arguments = parser.parse_args()
    release_only()
    try:
        datasets = [load_dataset(dataset) for dataset in RECORDED]
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    lines = measured(datasets)
    if lines is None:
        return 1
    command = f"python {' '.join([os.path.relpath(sys.argv[0]), *sys.argv[1:]])}"
    written = "\n".join(
        [f"# {about}", "", f"`{command}` on commit {commit()}, siltstone {siltstone.__version__}.",
         f"{machine()}.", "", DATA, "", *lines, ""]
    )  # fmt: skip
    print(written)
    if arguments.record:
        target = arguments.record / f"{name}-{datetime.now(UTC):%Y-%m-%d}.md"
        target.write_text(written, encoding="utf-8")
        print(f"written to {target}")
    return 0
