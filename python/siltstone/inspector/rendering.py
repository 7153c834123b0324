"""Templates, and what all of them know: how figures are written, and where a page is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from siltstone import __version__
from siltstone.figures import recalls
from siltstone.figures.difference import REASONS, RULES, why
from siltstone.inspector import words
from siltstone.messages import well_formed

__all__ = ["Link", "link", "render", "static_text"]

Link = Callable[..., str | None]

#: How the pages of a session are called, in their order.
SESSION_PAGES = (
    ("session", "Timeline"),
    ("log", "Log"),
    ("search", "Search"),
    ("facts", "Facts"),
)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("siltstone.inspector", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # A text with its surrogates cannot be sent, and one with hidden marks cannot be trusted.
        finalize=_as_text,
    )
    made.globals.update(
        n=words.number,
        count=words.count,
        size=words.size,
        marked=words.marked,
        moment=words.moment,
        spans=words.range_words,
        share=words.share,
        reasons=REASONS,
        why=why,
        rules=RULES,
        placings=recalls.PLACINGS,
        recall_reasons=recalls.REASONS,
        milliseconds=words.milliseconds,
        session_pages=SESSION_PAGES,
        version=__version__,
    )
    made.filters["readable"] = words.readable
    return made


def _as_text(value: object) -> object:
    """A text that can be sent and read; anything else as it is."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return words.readable(value) if is_text else value


def link(page: str, **asked: object) -> str:
    """The address of a page: ``/log?session=chat-1&start=100``. Values that are None are left out."""
    path = "/" if page == "sessions" else f"/{page}"
    known = {name: well_formed(str(value)) for name, value in asked.items() if value is not None}
    return f"{path}?{urlencode(known)}" if known else path


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template with *values*; every text in them is text."""
    return _environment().get_template(template).render(**{"link": link, "offline": False, **values})


@cache
def static_text(name: str) -> str:
    """A file of style or script, as it is."""
    loader = PackageLoader("siltstone.inspector", "static")
    return loader.get_source(_environment(), name)[0]
