"""Shared parts of the tests of presets: the settings of a preset, and a small session of ``waterfall``."""

from pathlib import Path
from typing import Any

from siltstone import Session, presets


def policy_config(made: presets.Preset) -> Any:
    return made.policy.config  # type: ignore[attr-defined]


def waterfall_of(place: Path, count: int, start: int = 0) -> None:
    small = presets.waterfall(immediate_window=4, recent_window=4)
    with Session.open(place, "chat", preset=small, context_window=64_000) as session:
        for number in range(start, start + count):
            session.append({"role": "user", "content": f"Entry {number}: the river rose to {number} cm."})
            session.prepare()
