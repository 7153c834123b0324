"""The frame of every script here: the recorded datasets, and a page that is printed and kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from siltstone import _native
from siltstone.errors import DatasetError
from siltstone.evaluation import RECORDED, Dataset, load_dataset


def run(program: str, about: str, name: str, measured: Callable[[list[Dataset]], str | None]) -> int:
    """Measures the recorded datasets; 1 where *measured* refuses what it found, 2 where it cannot measure.

    Args:
        program: The name of the script.
        about: One sentence on it.
        name: The name of the file of the record.
        measured: Gives the page of the record, or None.
    """
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--record", type=Path, metavar="DIR", help=f"write DIR/{name} as well")
    arguments = parser.parse_args()
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install", file=sys.stderr)
        return 2
    try:
        datasets = [load_dataset(dataset) for dataset in RECORDED]
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    written = measured(datasets)
    if written is None:
        return 1
    print(written)
    if arguments.record:
        arguments.record.mkdir(parents=True, exist_ok=True)
        target = arguments.record / name
        target.write_text(written, encoding="utf-8")
        print(f"written to {target}")
    return 0
