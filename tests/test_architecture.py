"""Does every file keep to its floor, its length and its name? The tables: architecture/layers.py."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from architecture.layers import (
    ANN_FAMILIES,
    ANN_FLOORS,
    FAMILIES,
    FLOORS,
    LONG_FILES,
    RUST_FAMILIES,
    RUST_FLOORS,
    UNSAFE,
    broken,
    room,
    rust_broken,
    upward,
)
from architecture.python_imports import Import, imports
from architecture.rust_paths import code, file_name, used_file, used_files, uses

CHECKOUT = Path(__file__).parent.parent
PACKAGE = CHECKOUT / "python" / "siltstone"
CORE = CHECKOUT / "rust" / "core" / "src"
ANN = CHECKOUT / "rust" / "ann" / "src"
WALL = CHECKOUT / "rust" / "py" / "src"
FAULTS = CHECKOUT / "rust" / "faults" / "src"

LINES = 600  # a file with more of them has its reason in LONG_FILES
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc"}  # names that say nothing


def python_module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rust_files(crate: Path) -> dict[tuple[str, ...], Path]:
    """Where each file of a crate stands, by its module: ``("embed", "hash")``; ``mod.rs`` is its folder."""
    files = {}
    for path in sorted(crate.rglob("*.rs")):
        parts = path.relative_to(crate).with_suffix("").parts
        if parts != ("lib",):
            files[parts[:-1] if parts[-1] == "mod" else parts] = path
    return files


PYTHON = {python_module(path): path for path in sorted(PACKAGE.rglob("*.py"))}
CRATES = {
    CORE: (rust_files(CORE), RUST_FLOORS, RUST_FAMILIES),
    ANN: (rust_files(ANN), ANN_FLOORS, ANN_FAMILIES),
}
each_crate = pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.parent.name)
SOURCES = [
    path
    for folder in ("python", "rust", "tests", "benches", "scripts")
    for path in sorted((CHECKOUT / folder).rglob("*"))
    if path.suffix in {".py", ".pyi", ".rs"}
]


def read(module: str) -> list[Import]:
    path = PYTHON[module]
    known = {*PYTHON, "siltstone._native"}
    return imports(path.read_text("utf-8"), module, known, package=path.name == "__init__.py")


def cargo(path: str) -> dict[str, Any]:
    return tomllib.loads((CHECKOUT / path).read_text("utf-8"))


def where(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def none(found: Iterable[str]) -> None:
    """Fails with every one of *found*, a line each."""
    lines = list(found)
    assert not lines, "\n".join(["", *lines])


def test_python_imports_go_down():
    none(line for module in PYTHON for line in broken(module, read(module)))


def test_imports_inside_a_room_go_down():
    rooms: dict[str, dict[str, set[str]]] = {}
    for module in PYTHON:
        home, _, file = module.removeprefix("siltstone.").partition(".")
        inner = [each.module for each in read(module) if each.module.split(".")[1:2] == [home]]
        files = {name.removeprefix(f"siltstone.{home}").lstrip(".") or "__init__" for name in inner}
        rooms.setdefault(home, {})[file or "__init__"] = files
    none(line for home, graph in rooms.items() for line in upward(home, graph))


def test_every_room_of_the_table_is_there_and_every_room_is_in_the_table():
    assert {room(module) for module in PYTHON} | {"_native"} == set(FLOORS)
    for files, floors, _ in CRATES.values():
        assert {module[0] for module in files} == set(floors)


def test_the_page_of_the_house_has_the_files_in_their_order():
    """A new reader goes by the page. ``rust/ann`` has its order in the tables alone."""
    page = (CHECKOUT / "docs" / "design" / "house.md").read_text("utf-8")
    python, core = page.split("The rooms of the core have such an order too")
    for part, families in ((python, FAMILIES), (core, RUST_FAMILIES)):
        lists = re.findall(r"`(\w+)/` is ((?:`\w+`(?:, | < )?)+)", part)
        read = {
            name: [set(re.findall(r"\w+", place)) for place in order.split(" < ")] for name, order in lists
        }
        assert read == {name: [set(place.split()) for place in order] for name, order in families.items()}


@each_crate
def test_rooms_of_a_crate_use_lower_ones(crate):
    files, floors, _ = CRATES[crate]
    found = [(module, uses(path.read_text("utf-8"), module)) for module, path in files.items()]
    assert any(paths for _, paths in found)
    none(line for module, paths in found for line in rust_broken(module, paths, floors))


@each_crate
def test_files_inside_a_room_of_a_crate_use_lower_ones(crate):
    files, _, families = CRATES[crate]
    rooms: dict[str, dict[str, set[str]]] = {}
    for module, path in files.items():
        inner = used_files(uses(path.read_text("utf-8"), module), module, files)
        rooms.setdefault(module[0], {})[file_name(module, files)] = inner
    assert {home for home, graph in rooms.items() if len(graph) > 2} == set(families)
    none(line for home in families for line in upward(home, rooms[home], families, "mod"))


@pytest.mark.parametrize("crate", [CORE, ANN, WALL, FAULTS], ids=lambda crate: crate.parent.name)
def test_no_circle_ties_files_of_a_crate(crate):
    files = rust_files(crate)
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        found = (used_file(use, files) for use in uses(path.read_text("utf-8"), module))
        graph["::".join(module)] = {"::".join(file) for file in found if file not in {(), module}}
    assert any(graph.values())
    none(upward(crate.parent.name, graph, {}))


def test_the_core_has_never_heard_of_python():
    crate = cargo("rust/core/Cargo.toml")
    tables = [crate.get(kind, {}) for kind in ("dependencies", "dev-dependencies", "build-dependencies")]
    none(name for table in tables for name in table if "pyo3" in name or "python" in name)
    assert "features" not in crate


def test_the_core_is_compiled_and_tested_without_the_indexes_that_stand_beside_it():
    crate = cargo("rust/core/Cargo.toml")
    assert "siltstone-ann" not in crate["dependencies"] | crate["dev-dependencies"]
    assert "siltstone-core" in cargo("rust/ann/Cargo.toml")["dependencies"]


def test_the_wall_imports_the_two_crates_and_pyo3_alone():
    allowed = {"pyo3", "siltstone_ann", "siltstone_core"}
    assert {name.replace("-", "_") for name in cargo("rust/py/Cargo.toml")["dependencies"]} == allowed
    crates = {use.path[0] for path in WALL.rglob("*.rs") for use in uses(path.read_text("utf-8"), ())}
    assert allowed <= crates <= allowed | {"crate", "std"}


def test_unsafe_code_stands_where_it_may():
    assert cargo("Cargo.toml")["workspace"]["lints"]["rust"]["unsafe_code"] in {"deny", "forbid"}
    for member in cargo("Cargo.toml")["workspace"]["members"]:
        assert cargo(f"{member}/Cargo.toml")["lints"] == {"workspace": True}, member
    rooms = {source / room for source in (CORE, ANN) for room in UNSAFE}
    unsafe = [
        where(path)
        for path in [*CORE.rglob("*.rs"), *ANN.rglob("*.rs"), *WALL.rglob("*.rs")]
        if re.search(r"\bunsafe(_code)?\b", code(path.read_text("utf-8")))
        and not rooms & {path, *path.parents}
    ]
    none(unsafe)


def test_data_never_panics():
    """``expect`` states an invariant; ``unwrap`` states nothing."""
    unwraps = [
        f"{where(path)}:{number}"
        for path in [*CORE.rglob("*.rs"), *ANN.rglob("*.rs"), *WALL.rglob("*.rs")]
        for number, line in enumerate(code(path.read_text("utf-8")).splitlines(), start=1)
        if re.search(r"\.unwrap\(\)|\b(todo|unimplemented)!", line)
    ]
    none(unwraps)


def test_a_long_file_has_its_reason():
    """A file ends where its subject ends. Nothing is split for its length: what is long says why."""
    lengths = {where(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {path for path, length in lengths.items() if length > LINES} == set(LONG_FILES)


def test_the_first_line_says_which_question_a_file_answers():
    silent = []
    for path in SOURCES:
        text = path.read_text("utf-8")
        said = text.startswith("//! ") if path.suffix == ".rs" else ast.get_docstring(ast.parse(text))
        if not said:
            silent.append(where(path))
    none(silent)


def test_no_property_sets_its_own_number_of_examples():
    """The profiles of conftest.py and PROPTEST_CASES say how many, or `make test-slow` would not reach it."""
    fixed = re.compile(r"max_examples=\d|with_cases\(\d|\bcases: \d")
    found = [where(path) for path in SOURCES if fixed.search(path.read_text("utf-8"))]
    assert found == ["tests/conftest.py"]


def test_a_file_is_named_after_its_subject():
    none(where(path) for path in SOURCES if path.stem.strip("_") in VAGUE)
