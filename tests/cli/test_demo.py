"""``siltstone demo``: the main job on the installed standard library, twice on one store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from siltstone.cli.demo import HEIGHT, picture


def demo(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "siltstone", "demo", "--store", str(store), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def report(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_it_reads_compacts_remembers_and_reopens(tmp_path: Path) -> None:
    first = report(demo(tmp_path / "store", "--json"))
    assert first["turns"] >= 300
    assert first["compactions"] >= 10
    assert first["over_window"] == 0
    assert first["tokens_seen"] > 10 * first["window"]
    assert first["tokens_in_context"] <= first["window"]
    assert max(first["timeline"]) <= first["window"]
    assert len(first["questions"]) >= 20
    assert first["recall_at_5"] >= 0.5
    for question in first["questions"]:
        assert len(question["hits"]) <= 5
    again = report(demo(tmp_path / "store", "--json"))
    assert again["turns"] == first["turns"]
    assert again["turns_now"] == 0
    assert again["messages"] == first["messages"]
    assert again["entries"] == first["entries"]
    assert again["recall_at_5"] == first["recall_at_5"]


def test_it_runs_as_a_documented_system(tmp_path: Path) -> None:
    first = report(demo(tmp_path / "store", "--json", "--turns", "12", "--preset", "rustant"))
    assert first["compactions"] >= 1
    assert first["over_window"] == 0
    result = demo(tmp_path / "store", "--turns", "14", "--preset", "meerkat")
    assert result.returncode == 2
    assert "preset 'rustant'" in result.stderr


def test_a_run_that_ended_early_goes_on_where_it_ended(tmp_path: Path) -> None:
    report(demo(tmp_path / "store", "--json", "--turns", "7"))
    result = demo(tmp_path / "store", "--turns", "20", "--picture")
    assert result.returncode == 0, result.stderr
    assert "20 (7 of them in earlier runs)" in result.stdout
    assert "tokens in context now" in result.stdout
    assert "recall@5" in result.stdout
    assert "model call 1" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_picture_has_the_window_on_top_and_the_threshold_as_a_line() -> None:
    rows = picture([100, 500, 1000, 0], window=1000, threshold=800, width=4)
    assert len(rows) == HEIGHT + 2
    assert rows[0] == "    1,000 │  █ "
    assert rows[2] == "      800 │┄┄█┄"
    assert rows[HEIGHT - 1].endswith("│███ ")
    assert rows[-1].endswith("model call 1 … 4")
