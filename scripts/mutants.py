"""Breaks the code on purpose, one place at a time, and says which breaks no test notices.

    python scripts/mutants.py                 all of them, a quarter of an hour
    python scripts/mutants.py committing      those of files with this word in their path

``mutants.toml`` has them: a place in a file, the new text, and the tests of which one must fail then. The
work is done in a copy of the checkout; Rust is compiled into ``target/mutants`` of this one. The exit code is
1 where a mutant survives, or its place is lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = (
    *("python", "rust", "tests", "docs", "benches", "examples", ".cargo", "Cargo.toml", "Cargo.lock"),
    *("README.md", "CHANGELOG.md", "pyproject.toml"),
)
SECONDS = 600  # of one run of tests, or of one build: a mutant may loop for ever

_SOUND: set[str] = set()  # the tests that pass in the copy as it is


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place.

    Attributes:
        path: The file, from the root of the checkout.
        before: The text that stands there once.
        after: The text in its place.
        tests: Arguments of pytest, files in ``tests``; for a file of Rust, arguments of ``cargo test``.
    """

    path: str
    before: str
    after: str
    tests: str


def mutants() -> list[Mutant]:
    """The table of ``mutants.toml``."""
    table = tomllib.loads(ROOT.joinpath("scripts", "mutants.toml").read_text("utf-8"))
    return [Mutant(**row) for row in table["mutant"]]


def killed(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails in *copy* with *mutant* in it. The file is as it was afterwards.

    Raises:
        LookupError: the place is not there, or there are several.
        RuntimeError: no test ran, or one fails without the mutant.
    """
    path = copy / mutant.path
    source = path.read_text("utf-8")
    if source.count(mutant.before) != 1:
        raise LookupError(f"{mutant.path} has {mutant.before!r} {source.count(mutant.before)} times")
    fails, tests = (_fails_in_rust if path.suffix == ".rs" else _fails_in_python), mutant.tests.split()
    if mutant.tests not in _SOUND:  # tests that fail anyway notice nothing
        if fails(tests, copy):
            raise RuntimeError(f"{mutant.tests!r} fails without a break")
        _SOUND.add(mutant.tests)
    path.write_text(source.replace(mutant.before, mutant.after), "utf-8")
    try:
        return fails(tests, copy)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(source, "utf-8")


def _fails_in_python(tests: list[str], copy: Path) -> bool:
    names = [f"tests/{name}" for name in tests]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *names]
    done = _run(command, copy, PYTHONPATH=str(copy / "python"), CI="true", PYTHONDONTWRITEBYTECODE="1")
    if done.returncode > 1:  # 1 is a failed test; more than that is no run at all
        raise RuntimeError(done.stdout.decode("utf-8", "replace")[-2_000:])
    return done.returncode == 1


def _fails_in_rust(tests: list[str], copy: Path) -> bool:
    command, target = ["cargo", "test", "--quiet", *tests], str(ROOT / "target" / "mutants")
    built = _run([*command, "--no-run"], copy, CARGO_TARGET_DIR=target)
    if built.returncode:
        raise RuntimeError(built.stderr.decode("utf-8", "replace")[-2_000:])
    return _run(command, copy, CARGO_TARGET_DIR=target).returncode != 0


def _run(command: list[str], copy: Path, **own: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=copy, env={**os.environ, **own}, capture_output=True, timeout=SECONDS)


def main(words: list[str]) -> int:
    """Tries every mutant whose path has one of *words*; all of them for none."""
    chosen = [each for each in mutants() if not words or any(word in each.path for word in words)]
    survivors, lost = [], 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        for mutant in chosen:
            try:
                is_killed = killed(mutant, copy)
            except LookupError as error:
                print(f"LOST      {error}", flush=True)
                lost += 1
                continue
            print(f"{'killed' if is_killed else 'SURVIVED':<9} {mutant.path}: {mutant.after!r}", flush=True)
            if not is_killed:
                survivors.append(mutant)
    print(f"{len(chosen) - len(survivors) - lost} of {len(chosen)} mutants killed, {len(survivors)} survive")
    return int(bool(survivors) or lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
