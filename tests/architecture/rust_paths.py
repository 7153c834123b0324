"""Finds the modules of its own crate, and the other crates, that a Rust file uses.

It is not a parser of Rust: it removes comments, strings and test modules, and reads the remaining paths. This
is enough for paths that are written by hand. It does not see paths that a macro makes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_NOT_CODE = re.compile(
    r"""
      //[^\n]*                                              # to the end of the line
    | /\*.*?\*/                                             # over many lines
    | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)                  # a raw string
    | b?"(?:\\.|[^"\\])*"                                # a string
    | b?'(?:\\(?:u\{[^}]*\}|x[0-9a-fA-F]{2}|.)|[^'\\\n])'   # a character, not a lifetime
    """,
    re.VERBOSE | re.DOTALL,
)
_USE = re.compile(r"\buse\s+([^;]+);")
_PATH = re.compile(r"\b(?:crate|self|super)(?:\s*::\s*\w+)+")
_TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")


@dataclass(frozen=True, slots=True)
class Use:
    """A path that a file speaks of: ``("crate", "embed", "hash")`` or ``("pyo3", "prelude")``."""

    path: tuple[str, ...]
    line: int


def code(source: str) -> str:
    """*source* without comments, strings and test modules; every line stays on its line."""
    return _without_tests(_NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), source))


def uses(source: str, module: tuple[str, ...]) -> list[Use]:
    """Every path of *source* into its crate, and every path that it brings in with ``use``.

    Args:
        source: The file's text.
        module: Where it stands: ``("embed", "hash")``; ``("embed",)`` for ``embed/mod.rs``; ``()`` for
            ``lib.rs``.
    """
    text = code(source)
    found = []
    for match in _USE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found += [Use(_absolute(path, module), line) for path in _leaves(match[1])]
    for match in _PATH.finditer(_USE.sub(lambda use: "\n" * use[0].count("\n"), text)):
        path = tuple(re.split(r"\s*::\s*", match[0]))
        found.append(Use(_absolute(path, module), text.count("\n", 0, match.start()) + 1))
    return found


def used_files(found: Iterable[Use], module: tuple[str, ...], files: Collection[tuple[str, ...]]) -> set[str]:
    """Which other files of its own room does a file speak of, by their names in the room?

    Args:
        found: The paths of the file.
        module: Where it stands, as in :func:`uses`.
        files: Where all files of the crate stand; ``mod.rs`` is its folder.

    Returns:
        Names as ``"tail"`` or ``"hnsw/graph"``; ``"mod"`` for the re-exports of a room.
    """
    used = {used_file(use, files) for use in found if use.path[1:2] == module[:1]}
    return {file_name(file, files) for file in used - {(), module}}


def used_file(use: Use, files: Collection[tuple[str, ...]]) -> tuple[str, ...]:
    """Which file of the crate has what a path names? The empty tuple for another crate's."""
    path = use.path[1:] if use.path[0] == "crate" else ()
    return max((path[:end] for end in range(1, len(path) + 1) if path[:end] in files), key=len, default=())


def file_name(file: tuple[str, ...], files: Collection[tuple[str, ...]]) -> str:
    """The name of a file in its room: ``"tail"``, ``"hnsw/graph"``; a ``mod.rs`` ends with ``"mod"``."""
    has_files = any(len(other) > len(file) and other[: len(file)] == file for other in files)
    return "/".join((*file[1:], "mod") if has_files or len(file) == 1 else file[1:])


def _leaves(tree: str) -> Iterator[tuple[str, ...]]:
    """``a::{b, c::d as e}`` is ``a::b`` and ``a::c::d``."""
    head, brace, rest = tree.strip().partition("{")
    stem = tuple(
        part for part in re.split(r"\s*::\s*", head.split(" as ")[0].strip()) if part not in {"", "*"}
    )
    if not brace:
        yield stem
        return
    depth, start, inner = 0, 0, rest[: rest.rindex("}")]
    for at, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if piece := inner[start:at].strip():
                for leaf in _leaves(piece):
                    yield stem + (() if leaf == ("self",) else leaf)
            start = at + 1


def _absolute(path: tuple[str, ...], module: tuple[str, ...]) -> tuple[str, ...]:
    match path:
        case ("self", *rest):
            return ("crate", *module, *rest)
        case ("super", *rest):
            above, left = module[:-1], list(rest)
            while left and left[0] == "super":
                above, left = above[:-1], left[1:]
            return ("crate", *above, *left)
    return path


def _without_tests(text: str) -> str:
    while mark := _TEST.search(text):
        end = _end_of_item(text, mark.end())
        text = text[: mark.start()] + "\n" * text.count("\n", mark.start(), end) + text[end:]
    return text


def _end_of_item(text: str, start: int) -> int:
    """Behind the closing brace, or the semicolon, of the item that begins at *start*."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 and text[at] in "};":
            return at + 1
    return len(text)
