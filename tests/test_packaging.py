"""The source distribution: does it hold what a build needs, and is it what was locked?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent


def run(*command: str, at: Path, **variables: str) -> str:
    told = subprocess.run(
        command, cwd=at, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has who unpacks it."""
    pytest.importorskip("maturin", reason="maturin makes it")
    if not (CHECKOUT / ".git").exists() or shutil.which("cargo") is None:
        pytest.skip("it is made in a checkout, with cargo")
    place = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "maturin", "sdist", "--out", str(place), at=CHECKOUT)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        held.extractall(place, filter="data")
    (directory,) = (each for each in place.iterdir() if each.is_dir())
    return directory


def test_it_holds_every_file_of_the_checkout_and_nothing_that_was_built(source: Path) -> None:
    tracked = {Path(name) for name in run("git", "ls-files", "-z", at=CHECKOUT).split("\0") if name}
    there = {path for path in tracked if (CHECKOUT / path).is_file()}
    held = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert held - {Path("PKG-INFO")} == there
    assert Path("python/siltstone/py.typed") in held


def test_its_lock_file_is_that_of_its_crates(source: Path) -> None:
    run("cargo", "metadata", "--locked", "--format-version", "1", at=source)


@pytest.mark.slow
def test_its_core_builds_as_it_is_locked(source: Path, tmp_path: Path) -> None:
    command = ("cargo", "build", "--locked", "--package", "siltstone-py")
    run(*command, at=source, CARGO_TARGET_DIR=str(tmp_path), PYO3_PYTHON=sys.executable)
