"""Generates texts for the tests of the tokeniser and of sizes.

Python and Rust have Unicode tables of different versions; those of Python are older. So the twins are
compared only over code points that Python's tables assign. ``native/test_tokenize.py`` shows that both tables
classify each of them in the same way.
"""

import unicodedata
from collections.abc import Iterator

from hypothesis import strategies as st


def assigned() -> Iterator[str]:
    """Every code point that Python's tables know, surrogates apart."""
    return (c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in {"Cn", "Cs"})


_known = st.characters(exclude_categories=["Cn"])  # lone surrogates too: they read as U+FFFD
_letters = st.characters(categories=["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"])
_corners = st.sampled_from(
    ["İ", "ẞ", "ς", "Σ", "か\u3099", "漢字", "ー", "한글", "\u0301", "❤\ufe0f", "👩\u200d🚀", "1\ufe0f\u20e3",
     "\ud83d", "\ude00", "\ud83d\ude00", "\x00", "\x1c", "\x85", "\u2028", "_", "Ⓐ", "—"]
)  # fmt: skip
# More than one block of the fast path; drawn as bytes, since that is many times as fast as text.
_ascii = st.binary(max_size=150).map(lambda drawn: bytes(byte & 0x7F for byte in drawn).decode())
_pieces = st.one_of(_ascii, st.text(_known, max_size=8), st.text(_letters, max_size=8), _corners)


def texts_of_words() -> st.SearchStrategy[str]:
    """Texts on which the twins agree: stretches of ASCII, all scripts, marks, emoji, surrogates."""
    return st.lists(_pieces, max_size=5).map("".join)


def any_texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=[]), max_size=40) | texts_of_words()
