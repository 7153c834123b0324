"""The query of a recall, made of the newest requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from siltstone.messages import Message, opens_turn
from siltstone.patterns import pattern

__all__ = ["LEAST", "Query", "last_query", "queries_of", "query_of", "without_prefix"]

LEAST: Final = 3  #: characters of the shortest query that is searched for
_MESSAGES: Final = 3  #: user messages that a query is made of, at most

#: What hosts write before a user's words: ``System:``, a date in brackets, or both.
_PREFIX: Final = pattern(r"\s*(?:System:\s*)?\[(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[^\]\n]*\][^\S\n]*")


class Query(NamedTuple):
    """A query: its text, and the messages that it is made of, by their sequence numbers."""

    text: str
    seqs: tuple[int, ...]


def query_of(history: Sequence[Message]) -> str:
    """The last user messages, three at most, oldest first, joined by a space.

    Of each, the run of lines at its beginning that a host has written is skipped; such lines further down
    are the user's, as in a pasted log.
    """
    return last_query(history).text


def last_query(history: Sequence[Message]) -> Query:
    """The same, with the messages that it is made of."""
    return _joined([*islice(_spoken(history), _MESSAGES)])


def queries_of(history: Sequence[Message]) -> Iterator[Query]:
    """What to search for, one after the other until something is found: the newest message, then all three.

    The newest one by itself says best what is asked. Where it says too little ("and the second one?"), those
    before it help. Other words in a query would only lower the score of what answers it.
    """
    spoken = _spoken(history)
    newest = next(spoken, None)
    if newest is None:
        return
    yield _joined([newest])
    before = [*islice(spoken, _MESSAGES - 1)]
    if before:
        yield _joined([newest, *before])


def _joined(spoken: Sequence[tuple[str, int]]) -> Query:
    """The query of messages that come the newest first."""
    return Query(" ".join(text for text, _ in reversed(spoken)), tuple(seq for _, seq in reversed(spoken)))


def _spoken(history: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """The words of the user's messages with their numbers, the newest first."""
    for message in reversed(history):
        if opens_turn(message) and (text := without_prefix(message.text).strip()):
            yield text, message.seq


def without_prefix(text: str) -> str:
    """*text* without the host's lines at its beginning; only their brackets go where nothing else is."""
    if "[" not in text and not text[:1].isspace():
        return text  # as most are
    lines = text.split("\n")
    spoken = (place for place, line in enumerate(lines) if line.strip() and not _PREFIX.match(line))
    first = next(spoken, None)
    if first is not None:
        return "\n".join(lines[first:])
    return "\n".join(_PREFIX.sub("", line, count=1) for line in lines)
