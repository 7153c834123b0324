"""Writes the API reference, one HTML page, from the docstrings of the public names.

    python scripts/reference.py [FILE]      target/reference.html, where no file is named

Exit code 1, and a line for each, where a public name has no docstring, a docstring names a parameter that is
not there, or a reference leads nowhere.
"""

from __future__ import annotations

import html
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parent.parent / "target" / "reference.html"
MODULES = (
    "siltstone", "siltstone.session", "siltstone.session.recovery", "siltstone.session.compactions",
    "siltstone.compaction", "siltstone.compaction.results", "siltstone.embedding", "siltstone.engine",
    "siltstone.evaluation", "siltstone.hooks", "siltstone.index", "siltstone.llm", "siltstone.tokens",
    "siltstone.adapters.anthropic", "siltstone.adapters.openai", "siltstone.archive",
    "siltstone.config", "siltstone.errors", "siltstone.events", "siltstone.knowledge",
    "siltstone.memory", "siltstone.memory.hits", "siltstone.messages", "siltstone.models",
    "siltstone.postgres", "siltstone.presets", "siltstone.redaction", "siltstone.telemetry",
    "siltstone.testing", "siltstone.tools", "siltstone.limits",
)  # fmt: skip
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "pre,code{font:14px/1.5 ui-monospace,monospace;background:#8881;border-radius:4px}"
    "pre{padding:.6rem;overflow-x:auto}code{padding:0 .2rem}h2{border-top:1px solid #8884;padding-top:1rem}"
    "h4{margin-bottom:.2rem}dt{font-weight:600}dd{margin:0 0 .4rem 1.5rem}.nav a{margin-right:.6rem}"
    ":root{color-scheme:light dark}"
)
_ROLE = re.compile(r":(?:class|meth|func|data|attr|mod|exc):`~?([^`]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_ITEM = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$", re.DOTALL)


class Reference:
    """The page under way, and its faults."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.wrong: list[str] = []
        self.anchors: set[str] = set()
        self._links: list[tuple[str, str]] = []

    def module(self, name: str) -> None:
        """All public names of a module."""
        module = import_module(name)
        self.parts.append(f'<h2 id="{name}">{name}</h2>')
        self.text(inspect.getdoc(module) or "", name)
        for each in sorted(getattr(module, "__all__", None) or _names(module)):
            value = getattr(module, each)
            if name == "siltstone" or getattr(value, "__module__", name).startswith(
                (name, "siltstone._native")
            ):
                self.name(f"{name}.{each}", each, value)

    def name(self, path: str, short: str, value: Any) -> None:
        """A class with its methods, a function, or a value."""
        if path in self.anchors:
            return
        self.anchors |= {path, short}
        if not (inspect.isclass(value) or callable(value)):
            return
        self.parts.append(f'<h3 id="{path}">{short}</h3>{_signature(short, value)}')
        self.documented(path, value)
        for method, member in _members(value) if inspect.isclass(value) else ():
            self.anchors |= {f"{short}.{method}", method}
            shown = _signature(method, member) if callable(member) else f"<pre>{method}</pre>"
            self.parts.append(f'<h4 id="{path}.{method}">{short}.{method}</h4>{shown}')
            self.documented(f"{path}.{method}", member)

    def documented(self, path: str, value: Any) -> None:
        """The docstring of *value*, held to its parameters."""
        doc = inspect.getdoc(value)
        if not doc:
            self.wrong.append(f"{path} has no docstring")
            return
        known = _parameters(value)
        for named in _named(doc) if known is not None else ():
            if named.lstrip("*") not in (known or ()):
                self.wrong.append(f"{path} documents {named!r}, which it does not take")
        self.text(doc, path)

    def text(self, doc: str, path: str) -> None:
        """A docstring as HTML: paragraphs, examples, and the lists of its sections."""
        self._links += [(path, target) for target in _ROLE.findall(doc)]
        for block in re.split(r"\n\s*\n", doc):
            head, _, rest = block.partition("\n")
            if head.rstrip(":") in SECTIONS and head.endswith(":"):
                self.parts.append(f"<p><b>{head[:-1]}</b></p>{_listed(textwrap.dedent(rest))}")
            elif block.startswith("    "):
                self.parts.append(f"<pre>{html.escape(textwrap.dedent(block))}</pre>")
            else:
                self.parts.append(f"<p>{_inline(block)}</p>")

    def finish(self) -> str:
        """The whole page; references that lead nowhere are among its faults."""
        for path, target in self._links:
            if (
                target.removeprefix("siltstone.") not in self.anchors
                and target.split(".")[-1] not in self.anchors
            ):
                self.wrong.append(f"{path} refers to {target!r}, which is not here")
        nav = "".join(f'<a href="#{name}">{name}</a> ' for name in MODULES)
        head = f'<meta charset="utf-8"><title>siltstone: reference</title><style>{STYLE}</style>'
        return f'<!doctype html>{head}<h1>Reference</h1><p class="nav">{nav}</p>{"".join(self.parts)}\n'


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class of ours, in the order in which they are written."""
    seen = set()
    for base in value.__mro__:
        if base.__module__.startswith("siltstone"):
            for name, member in vars(base).items():
                is_ours = inspect.isroutine(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                if is_ours and not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield name, getattr(value, name)


def _names(module: ModuleType) -> list[str]:
    """The public names of a module without ``__all__``: those that it defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("siltstone")
    ]


def _signature(name: str, value: Callable[..., Any]) -> str:
    try:
        said = f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        said = name
    if len(said) > 90:
        said = re.sub(r", (?=\*?\w+[:=,])", ",\n    ", said)
    return f"<pre>{html.escape(said)}</pre>"


def _parameters(value: Any) -> set[str] | None:
    """The names that it takes; None where they cannot be told, or any keyword will do."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return {each.name for each in parameters}


def _named(doc: str) -> Iterator[str]:
    """The parameters that a docstring lists."""
    found = re.search(r"(?:^|\n)Args:\n((?:    .*\n?|\n(?=    ))+)", doc)
    for line in textwrap.dedent(found[1]).splitlines() if found else ():
        if (item := _ITEM.match(line)) and not line.startswith(" "):
            yield item[1]


def _listed(text: str) -> str:
    """The items of a section."""
    items = re.split(r"\n(?=\S)", text.strip("\n"))
    found = [_ITEM.match(item) for item in items]
    if all(found):
        pairs = ((item[1], item[2]) for item in found if item)
        return f"<dl>{''.join(f'<dt>{html.escape(n)}</dt><dd>{_inline(t)}</dd>' for n, t in pairs)}</dl>"
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    told = html.escape(" ".join(text.split()))
    told = _CODE.sub(r"<code>\1</code>", told)
    return re.sub(r":(?:class|meth|func|data|attr|mod|exc):`~?([^`]+)`", r"<code>\1</code>", told)


def main() -> int:
    """The exit code."""
    page = Reference()
    for name in MODULES:
        page.module(name)
    text = page.finish()
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    for each in page.wrong:
        print(f"warning: {each}", file=sys.stderr)
    print(f"{target}: {text.count('<h3') + text.count('<h4')} names")
    return int(bool(page.wrong))


if __name__ == "__main__":
    sys.exit(main())
