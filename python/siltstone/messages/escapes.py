r"""Finds a text inside another text, also inside JSON in JSON.

JSON may stand anywhere: in a message's text, in a Markdown fence, in one line among many, after the headers
of a web server, in a string of other JSON. So nothing is parsed. The escapes of JSON are undone everywhere
(``\n``, ``\"``, ``\u00e9`` in upper or lower case, pairs of surrogates), then the escapes inside the result,
and so on. The text is searched in each of these readings. Base64, the escapes of URLs (``%C3%A9``) and of
markup (``&eacute;``), and compressed data are not undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["DEEPEST", "holds"]

DEEPEST: Final = 8  #: the maximum number of levels of JSON inside a JSON string

_ESCAPE: Final = re.compile(
    r'\\(?:(["\\/bfnrt])'
    r"|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4}))"
)
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN: Final = re.compile("[0-9A-Za-z]+")


def holds(text: str, sought: str, depth: int = DEEPEST) -> bool:
    """Whether *text* contains *sought*, directly or inside up to *depth* levels of JSON."""
    if sought in text:
        return True
    if "\\" not in text:
        return False
    if "\\u" not in text:
        # Only \u escapes letters and digits. Without it the longest run of them must stand there as it is.
        run = max(_PLAIN.findall(sought), key=len, default="")
        if run not in text:
            return False
    return any(sought in reading for reading in _readings(text, depth))


def _readings(text: str, depth: int) -> Iterator[str]:
    """*text* with its escapes undone once, twice and so on, up to *depth* times."""
    for _ in range(depth):
        if "\\" not in text:
            return
        read = _ESCAPE.sub(_undone, text)
        if read == text:
            return
        text = read
        yield text


def _undone(escape: re.Match[str]) -> str:
    short, high, low, code = escape.groups()
    if short is not None:
        return _SHORT.get(short, short)
    if code is not None:
        return chr(int(code, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
