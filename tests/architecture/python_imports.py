"""Finds the imports of a Python file, and the place of each import in it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

DYNAMIC = "?"  #: the module of an import whose name is only known at run time


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a file.

    Attributes:
        module: Its full dotted name; a submodule where ``from package import name`` names one.
        line: Where it stands.
        deferred: It runs when a function is called, or never: under ``if TYPE_CHECKING``.
    """

    module: str
    line: int
    deferred: bool = False


def imports(source: str, module: str, known: Collection[str], *, package: bool = False) -> list[Import]:
    """Every import of *source*, those of type checkers and of function bodies included.

    Args:
        source: The file's text.
        module: Its dotted name, for relative imports.
        known: Every module of the package: ``from a import b`` is an import of ``a.b`` where that is one.
        package: The file is an ``__init__.py``.
    """
    home = module.split(".") if package else module.split(".")[:-1]
    return list(_walk(ast.parse(source), home, known, deferred=False))


def _walk(node: ast.AST, home: list[str], known: Collection[str], *, deferred: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, deferred)
    elif isinstance(node, ast.ImportFrom):
        above = home[: len(home) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield Import(inner if inner in known else base, node.lineno, deferred)
    elif isinstance(node, ast.Call) and _name(node.func) in {"import_module", "__import__"}:
        argument = node.args[0] if node.args else None
        constant = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        yield Import(argument.value if constant else DYNAMIC, node.lineno, deferred)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    inside = inside or (isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING")
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, home, known, deferred=deferred or inside)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
