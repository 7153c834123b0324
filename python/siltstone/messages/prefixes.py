"""Leaves out what a host wrote before a user's words."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["without_prefixes"]

# `[2026-02-15 18:49:02 GMT+8]` or `[Sun 2026-02-15 18:49]`, and before it perhaps `System:`.
_DATED: Final = re.compile(r"\s*(?P<host>System:\s*)?\[(?:[A-Z][a-z]{2} )?\d{4}-\d{2}-\d{2}[^\]\n]*\][ \t]*")


def without_prefixes(text: str) -> str:
    """*text* without the leading run of a host's own lines: a dated ``System:`` line goes whole.

    Of any other line that begins with a bracketed date the date goes and the words stay, since they may be
    the user's, or a log that was pasted. Where nothing would be left, *text* stays as it is.
    """
    if "[" not in text:
        return text  # the usual case
    rest = text
    while match := _DATED.match(rest):
        line_end = rest.find("\n", match.end())
        if match["host"]:
            rest = rest[line_end + 1 :] if line_end >= 0 else ""
        elif rest[match.end() : line_end if line_end >= 0 else None].strip():
            rest = rest[match.end() :]
            break
        else:
            rest = rest[line_end + 1 :] if line_end >= 0 else ""
    return rest if rest.strip() else text
