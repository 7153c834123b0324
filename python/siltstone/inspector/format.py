"""How figures, sizes, moments and texts are written on a page, and the templates of all pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from siltstone import __version__, figures
from siltstone.figures import REASONS, RULES, why
from siltstone.memory.convert import datetime_from
from siltstone.memory.hits import Passage
from siltstone.messages import well_formed
from siltstone.messages.text import is_hidden

# How figures, sizes, moments and texts are written on a page.

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_THOUSAND = 1_000


def number(value: float, figure: str = "") -> Markup:
    """*value* with its thousands apart; *figure* names it for who reads the page by machine."""
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    named = Markup(' data-figure="{}"').format(figure) if figure else ""
    return Markup('<data value="{}"{}>{}</data>').format(value, named, shown)


def count(value: int, word: str, figure: str = "") -> Markup:
    """*value* and *word*, which is in the plural where there is not one of it: messages, entries."""
    several = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return Markup("{} {}").format(number(value, figure), word if value == 1 else several)


def size(value: int, figure: str = "") -> Markup:
    """Bytes in the unit that people read; the exact number is beside it for machines."""
    shown, unit = float(value), 0
    while shown >= _THOUSAND and unit < len(_UNITS) - 1:
        shown, unit = shown / _THOUSAND, unit + 1
    text = f"{value} bytes" if unit == 0 else f"{shown:.1f} {_UNITS[unit]}"
    named = Markup(' data-figure="{}"').format(figure) if figure else ""
    return Markup('<data value="{}"{} title="{} bytes">{}</data>').format(value, named, f"{value:,}", text)


def milliseconds(seconds: float, figure: str = "") -> Markup:
    """A time in the unit that people read: milliseconds below a second."""
    named = Markup(' data-figure="{}"').format(figure) if figure else ""
    text = f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"
    return Markup('<data value="{}"{}>{}</data>').format(seconds, named, text)


def share(part: float, whole: float) -> str:
    """*part* of *whole* in per cent."""
    return f"{part / whole:.0%}" if whole else "0%"


def moment(value: datetime | int | None) -> Markup:
    """A moment as UTC; the script of the page writes it in the reader's zone."""
    if value is None:
        return Markup('<span class="none">never</span>')
    when = datetime_from(value) if isinstance(value, int) else value
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        utc.isoformat(timespec="milliseconds"), utc.strftime("%Y-%m-%d %H:%M:%S")
    )


def range_words(spans: tuple[tuple[int, int], ...]) -> str:
    """Half-open ranges of messages, as people count: ``3-7, 9``."""
    return (
        ", ".join(str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in spans) or "none"
    )


def readable(text: object) -> Markup:
    """*text* as text: no markup, no lone surrogates, and what cannot be seen as its code."""
    shown = well_formed(str(text))
    if any(map(is_hidden, shown)):
        shown = "".join(
            f"\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}U+{ord(char):04X}"
            "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}"
            if is_hidden(char)
            else char
            for char in shown
        )
    return escape(shown)


def marked(passage: Passage) -> Markup:
    """The text of *passage* as :func:`readable` has it, with the words of the query marked."""
    return Markup(passage.marked("<mark>", "</mark>", readable))  # noqa: S704 - each piece is escaped


# Templates, and what all of them know: how figures are written, and where a page is.

Link = Callable[..., str | None]

#: How the pages of a session are called, in their order.
SESSION_PAGES = (("session", "Timeline"), ("log", "Log"), ("search", "Search"), ("facts", "Facts"))


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
        n=number,
        count=count,
        size=size,
        marked=marked,
        moment=moment,
        spans=range_words,
        share=share,
        reasons=REASONS,
        why=why,
        rules=RULES,
        placings=figures.PLACINGS,
        recall_reasons=figures.RECALL_REASONS,
        milliseconds=milliseconds,
        session_pages=SESSION_PAGES,
        version=__version__,
    )
    made.filters["readable"] = readable
    return made


def _as_text(value: object) -> object:
    """A text that can be sent and read; anything else as it is."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return readable(value) if is_text else value


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
