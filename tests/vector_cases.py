"""Finds the test vectors that Rust and Python both read."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "vectors"


def cases(file: str, key: str = "cases") -> list[Any]:
    """The cases of a file, of which there are some."""
    found: list[Any] = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))[key]
    assert found
    return found
