"""The query of a trim: the newest requests as one text, without the lines that a host put before them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from siltstone.messages import History
from siltstone.messages.prefixes import without_prefixes
from siltstone.messages.recalled_block import is_recalled

__all__ = ["REQUESTS", "recent_query"]

REQUESTS: Final = 3  #: the number of newest requests that are the query


def recent_query(read: History, most: int = REQUESTS) -> str:
    """The newest requests, *most* of them, oldest first, joined by a space. A recalled block is none."""
    requests = (read[at] for at in reversed(read.outline.requests))
    newest = [*islice((each for each in requests if not is_recalled(each)), most)]
    texts = (without_prefixes(each.text).strip() for each in reversed(newest))
    return " ".join(filter(None, texts))
