"""Counts the lines of each room: code, comments with docstrings, and tests apart.

    python scripts/sizes.py            the tree that it stands in
    python scripts/sizes.py REVISION   the tree of a revision, for a comparison
    python scripts/sizes.py --check    whether the tree is within the budgets of sizes.toml

A blank line is not counted. A line with code and a comment is code. The tests of a Rust file are its
``#[cfg(test)]`` items; all other tests are files below a folder ``tests``.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
BUDGETS = ROOT / "sizes.toml"

_RUST = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?\*/ )
    | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)                  # a raw string
    | b?"(?:\\.|[^"\\])*"                                   # a string
    | b?'(?:\\(?:u\{[^}]*\}|x[0-9a-fA-F]{2}|.)|[^'\\\n])'   # a character, not a lifetime
    """,
    re.VERBOSE | re.DOTALL,
)
_TEST_ITEM = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\][^;{]*")


@dataclass(frozen=True, slots=True)
class Lines:
    """How many lines there are of each kind."""

    code: int = 0
    comments: int = 0
    tests: int = 0

    def __add__(self, other: Lines) -> Lines:
        return Lines(self.code + other.code, self.comments + other.comments, self.tests + other.tests)


def python_lines(source: str) -> Lines:
    """The lines of a Python file. Docstrings are comments."""
    code: set[int] = set()
    comments: set[int] = set()
    idle = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in idle:
            kind = comments if token.type == tokenize.COMMENT else code
            kind.update(range(token.start[0], token.end[0] + 1))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            comments.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
            code.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    blank = {number for number, line in enumerate(source.splitlines(), 1) if not line.strip()}
    return Lines(len(code - blank), len(comments - code - blank))


def rust_lines(source: str) -> Lines:
    """The lines of a Rust file. Its test modules are tests, with their comments."""
    bare = _RUST.sub(_bare, source)  # comments away, strings without braces
    tests = _test_lines(bare)
    count = {"code": 0, "comments": 0, "tests": 0}
    for number, (line, left) in enumerate(zip(source.split("\n"), bare.split("\n"), strict=True)):
        if line.strip():
            count["tests" if number in tests else "code" if left.strip() else "comments"] += 1
    return Lines(**count)


def _bare(match: re.Match[str]) -> str:
    mark = "" if match["comment"] else '"'
    return mark + match[0].count("\n") * f"\n{mark}"


def _test_lines(bare: str) -> set[int]:
    found: set[int] = set()
    for match in _TEST_ITEM.finditer(bare):
        end, depth = match.end(), 0
        while end < len(bare):
            depth += {"{": 1, "}": -1}.get(bare[end], 0)
            end += 1
            if depth == 0:  # an item with a body ends with it, another one with its semicolon
                break
        found.update(range(bare.count("\n", 0, match.start()), bare.count("\n", 0, end) + 1))
    return found


def room(path: PurePosixPath) -> str | None:
    """The room of a file: ``rust/core: sqlite``; None for a file that belongs to no room."""
    match path.parts:
        case ("rust", crate, "src", *_, name) if name.endswith(".rs"):
            top = path.parts[3].removesuffix(".rs")
            return f"rust/{crate}: {top}" if crate in ("core", "ann") else f"rust/{crate}"
        case ("rust", crate, "tests", *_, name) if name.endswith(".rs"):
            return f"rust/{crate}"
        case ("python", "siltstone", name) if name.startswith("_native") and name.endswith(".pyi"):
            return "python: _native.pyi"
        case ("python", "siltstone", first, *_) if path.suffix == ".py":
            return f"python: {first.removesuffix('.py')}"
        case (("tests" | "benches" | "scripts") as first, *_) if path.suffix in (".py", ".rs"):
            return first
    return None


def lines(path: PurePosixPath, source: str) -> Lines:
    """The lines of a file, by its kind."""
    if "tests" in path.parts:
        return Lines(tests=sum(bool(line.strip()) for line in source.split("\n")))
    return rust_lines(source) if path.suffix == ".rs" else python_lines(source)


def files(revision: str | None) -> Iterator[tuple[PurePosixPath, str]]:
    """Every file that git knows, as it lies there or as it was in *revision*."""
    if revision is None:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines():
            if room(PurePosixPath(name)) and (ROOT / name).is_file():
                yield PurePosixPath(name), (ROOT / name).read_text("utf-8")
        return
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if room(PurePosixPath(member.name)) else None
            if content is not None:
                yield PurePosixPath(member.name), content.read().decode("utf-8")


def table(revision: str | None = None) -> str:
    """A Markdown table: the lines of each room, and the sums of crates and languages."""
    rooms: dict[str, Lines] = defaultdict(Lines)
    sums: dict[str, Lines] = defaultdict(Lines)
    for path, source in files(revision):
        name = room(path)
        assert name is not None  # files() gives no other
        counted = lines(path, source)
        rooms[name] += counted
        sums[name.partition(":")[0]] += counted
    rows = ["| room | code | comments | tests |", "|---|---:|---:|---:|"]
    for group in sorted(sums):
        inner = sorted(name for name in rooms if name.startswith(f"{group}:"))
        rows += [_row(name, rooms[name]) for name in inner]
        rows.append(_row(f"**{group}**", sums[group]))
    return "\n".join(rows)


def over_budget() -> list[str]:
    """A sentence for each budget of ``sizes.toml`` that the tree exceeds, and for each room without one."""
    budgets = tomllib.loads(BUDGETS.read_text("utf-8"))
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for path, source in files(None):
        name = room(path) or ""
        counted = lines(path, source)
        code = counted.tests if name == "tests" else counted.code
        for key in {name, name.partition(":")[0]}:
            sums[key].update(lines=code, files=1)
    faults = [f"{name} has no budget in sizes.toml" for name in sums if name not in budgets["rooms"]]
    for name, budget in budgets["rooms"].items():
        faults += [
            f"{name} has {sums[name][unit]:,} {unit}, more than its budget of {most:,}"
            for unit, most in budget.items()
            if sums[name][unit] > most
        ]
    alone, named = single_importers(), set(budgets["single_importer"])
    faults += [
        f"{path} is imported by {alone[path]} alone, and sizes.toml does not name it"
        for path in alone.keys() - named
    ]
    faults += [
        f"{path} stands in sizes.toml as a file with one importer, and is none"
        for path in named - alone.keys()
    ]
    return sorted(faults)


def single_importers() -> dict[str, str]:
    """Each file of the package that one file of its room alone imports, beside ``__init__``: that file."""
    package = ROOT / "python"
    modules = {_module(path.relative_to(package)): path for path in package.rglob("*.py")}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = [f"{node.module}.{alias.name}" for alias in node.names]
                found = [each if each in modules else node.module for each in found]
            elif isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            else:
                continue
            for each in found:
                importers[each].add(name)
    return {
        name: next(iter(by))
        for name, by in importers.items()
        if name in modules
        and len(by) == 1
        and "__init__.py" not in (modules[name].name, modules[next(iter(by))].name)
        and name.split(".")[:2] == next(iter(by)).split(".")[:2]
        and name.count(".") > 1
    }


def _module(path: Path) -> str:
    return ".".join(part for part in path.with_suffix("").parts if part != "__init__")


def _row(name: str, counted: Lines) -> str:
    return f"| {name} | {counted.code:,} | {counted.comments:,} | {counted.tests:,} |"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(over_budget()) or 0)
    print(table(*sys.argv[1:2]))
