"""The source distribution: does it hold what a build needs? And has the wheel its licences?"""

import os
import re
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


def test_it_holds_the_checkout_but_records_and_pictures_and_nothing_that_was_built(source: Path) -> None:
    tracked = {Path(name) for name in run("git", "ls-files", "-z", at=CHECKOUT).split("\0") if name}
    there = {path for path in tracked if (CHECKOUT / path).is_file() and not left_out(path)}
    held = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert held - {Path("PKG-INFO")} == there
    assert {Path("python/siltstone/py.typed"), Path("tests/test_packaging.py"), Path("Cargo.lock")} <= held


def left_out(path: Path) -> bool:
    records, screens, design = Path("benches/record"), Path("docs/screens"), Path("docs/design")
    return path.parent in (records, screens) or (path.parent == design and path.suffix == ".svg")


def test_the_licence_of_every_crate_that_is_linked_in_is_in_the_wheel() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo knows the crates")
    linked = ("-p", "siltstone-py", "-e", "normal", "--prefix", "none")
    told = run("cargo", "tree", "--locked", *linked, at=CHECKOUT).splitlines()
    crates = {" ".join(line.split()[:2]).replace(" v", " ") for line in told if "(/" not in line}
    texts = (CHECKOUT / "THIRD-PARTY.txt").read_text("utf-8")
    listed = re.findall(r"^    ([a-z][\w-]+ \d[\w.+-]*)$", texts, re.MULTILINE)
    assert len(crates) > 20
    assert crates - set(listed) == set(), "a crate has changed: `make licences`"


@pytest.mark.slow
def test_it_installs_where_only_its_files_are_and_readme_is_true(source: Path) -> None:
    (archive,) = source.parent.glob("*.tar.gz")
    run(sys.executable, str(CHECKOUT / "scripts" / "try_wheel.py"), str(archive), at=source)
