"""Writes the API reference from the docstrings of the public names, a page of Markdown for each module.

    python scripts/reference.py DIRECTORY

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
_ROLE = re.compile(r":(?:class|meth|func|data|attr|mod|exc):`~?([^`]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_STRESSED = re.compile(r"(?<![\w*])\*(\w[^*]*)\*(?![\w*])")
_QUOTED = re.compile(r"(: |-> )(['\"])(.*?)\2")  #: annotations that are strings
_ITEM = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$", re.DOTALL)


class Reference:
    """The pages under way, and their faults."""

    def __init__(self) -> None:
        self.pages: dict[str, list[str]] = {"siltstone": []}
        self.parts = self.pages["siltstone"]
        self.wrong: list[str] = []
        self.anchors: dict[str, str] = {}  #: of each name: where it is told, seen from another page
        self._links: list[tuple[str, str]] = []

    def module(self, name: str) -> None:
        """All public names of a module."""
        module = import_module(name)
        self.parts = self.pages[name] = [f"# {name}"]
        self.text(inspect.getdoc(module) or "", name)
        for each in sorted(getattr(module, "__all__", None) or _names(module)):
            value = getattr(module, each)
            home = getattr(value, "__module__", name)
            if name == "siltstone" or home.startswith((name, "siltstone._native")):
                self.name(f"{name}.{each}", each, value)

    def name(self, path: str, short: str, value: Any) -> None:
        """A class with its methods, a function, or a value."""
        if path in self.anchors:
            return
        place = f"{path.removesuffix(f'.{short}')}.md{f'#{path}' * callable(value)}"
        self.anchors |= {path: place, short: place}
        if not callable(value):
            return
        self.parts += [f"## {short} {{ #{path} }}", _signature(short, value)]
        self.documented(path, value)
        for method, member in _members(value) if inspect.isclass(value) else ():
            self.anchors |= dict.fromkeys((f"{short}.{method}", method), f"{place}.{method}")
            shown = _signature(method, member) if callable(member) else f"<pre>{method}</pre>"
            self.parts += [f"### {short}.{method} {{ #{path}.{method} }}", shown]
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
                self.parts.append(f"<p><b>{head[:-1]}</b></p>\n{_listed(textwrap.dedent(rest))}")
            elif block.startswith("    "):
                self.parts.append(f"<pre>{html.escape(textwrap.dedent(block))}</pre>")
            else:
                self.parts.append(f"<p>{_inline(block)}</p>")

    def finish(self) -> dict[str, str]:
        """The text of each page; references that lead nowhere are among the faults."""
        for path, target in self._links:
            if not self._place(target):
                self.wrong.append(f"{path} refers to {target!r}, which is not here")
        link = lambda role: f'<a href="{self._place(role[1])}"><code>{role[1]}</code></a>'  # noqa: E731
        return {name: _ROLE.sub(link, "\n\n".join(parts)) for name, parts in self.pages.items()}

    def _place(self, target: str) -> str | None:
        known = self.anchors
        return known.get(target.removeprefix("siltstone.")) or known.get(target.split(".")[-1])


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class of ours, in the order in which they are written."""
    seen = set()
    for base in value.__mro__:
        if base.__module__.startswith("siltstone"):
            for name, member in vars(base).items():
                ours = inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)
                if ours and not name.startswith("_") and name not in seen:
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
        said = name + _QUOTED.sub(r"\1\3", str(inspect.signature(value)))
    except (TypeError, ValueError):
        said = name
    if len(said) > 90:
        said = re.sub(r", (?=\*?\w+[:=,])", ",\n    ", said)
    return f"<pre>{html.escape(said, quote=False)}</pre>"


def _parameters(value: Any) -> set[str] | None:
    """The names that it takes; None where they cannot be told, or any keyword will do."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    keywords = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return None if keywords else {each.name for each in parameters}


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
    told = _CODE.sub(r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))
    return _STRESSED.sub(r"<em>\1</em>", told)


def main() -> int:
    """The exit code."""
    reference = Reference()
    for name in MODULES:
        reference.module(name)
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name, text in reference.finish().items():
        (place / f"{name}.md").write_text(f"{text}\n", "utf-8")
    for each in reference.wrong:
        print(f"warning: {each}", file=sys.stderr)
    return int(bool(reference.wrong))


if __name__ == "__main__":
    sys.exit(main())
