"""Generates the texts and JSON values of histories."""

from functools import cache
from typing import Any, TypeAlias

from hypothesis import strategies as st

Raw: TypeAlias = dict[str, Any]

#: A picture of one pixel, as base64.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

WORDS = ["the", "file", "error", "Zürich", "記憶", "naïve", "😀", "x_1", "\n", '"', "\\"]
CORNERS = ["\x00", "\ud800", "a\udfffb", " ", "\u2028", "[Context compacted] no", "\x7f"]


def _pair_up(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@cache
def texts(*, min_size: int = 0, max_size: int = 40) -> st.SearchStrategy[str]:
    """Texts of any code points: empty, NUL, lone surrogates, CJK, emoji and plain words.

    Adjacent halves of a surrogate pair are combined, because JSON cannot tell the two forms apart.
    """
    wild = st.text(st.characters(exclude_categories=()), min_size=min_size, max_size=max_size).map(_pair_up)
    words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=max(1, max_size // 6)).map(" ".join)
    corners = st.sampled_from(CORNERS if min_size else ["", *CORNERS])
    return st.one_of(words, corners, wild)


@cache
def json_values(*, max_leaves: int = 6) -> st.SearchStrategy[Any]:
    numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    leaves = st.none() | st.booleans() | numbers | texts(max_size=12)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=6), inner, max_size=3),
        max_leaves=max_leaves,
    )


@cache
def json_objects() -> st.SearchStrategy[Raw]:
    """Nested JSON objects, as a tool's arguments are."""
    return st.dictionaries(texts(max_size=6), json_values(max_leaves=4), max_size=3)
