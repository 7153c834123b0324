"""Makes the query of a recall from the newest requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from siltstone.messages import Message, opens_turn
from siltstone.patterns import pattern

__all__ = ["LEAST", "Query", "last_query", "queries_of", "query_of", "without_prefix"]

LEAST: Final = 3  #: characters of the shortest query that is searched for
_MESSAGES: Final = 3  #: user messages that a query is made of, at most

#: Prefixes that hosts write before a user's words: ``System:``, a date in brackets, or both.
_PREFIX: Final = pattern(r"\s*(?:System:\s*)?\[(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[^\]\n]*\][^\S\n]*")


class Query(NamedTuple):
    """A query: its text, and the sequence numbers of the messages that it is made of."""

    text: str
    seqs: tuple[int, ...]


def query_of(history: Sequence[Message]) -> str:
    """The last user messages, at most three, oldest first, joined by a space.

    Lines that a host has written at the beginning of a message are skipped; such lines further down are the
    user's, as in a pasted log.
    """
    return last_query(history).text


def last_query(history: Sequence[Message]) -> Query:
    """The query of :func:`query_of`, with its messages."""
    return _joined([*islice(_spoken(history), _MESSAGES)])


def queries_of(history: Sequence[Message]) -> Iterator[Query]:
    """The queries to try until one finds something: the newest message, then the newest three together.

    The newest message alone states the question best. If it says too little ("and the second one?"), the
    messages before it help. Otherwise their words would only lower the score of the answer.
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
    """The query of messages, which are given newest first."""
    return Query(" ".join(text for text, _ in reversed(spoken)), tuple(seq for _, seq in reversed(spoken)))


def _spoken(history: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """The words of the user's messages with their sequence numbers, the newest first."""
    for message in reversed(history):
        if opens_turn(message) and (text := without_prefix(message.text).strip()):
            yield text, message.seq


def without_prefix(text: str) -> str:
    """*text* without the host's lines at its beginning; if it has no other lines, only their prefixes go."""
    if "[" not in text and not text[:1].isspace():
        return text  # the usual case
    lines = text.split("\n")
    spoken = (place for place, line in enumerate(lines) if line.strip() and not _PREFIX.match(line))
    first = next(spoken, None)
    if first is not None:
        return "\n".join(lines[first:])
    return "\n".join(_PREFIX.sub("", line, count=1) for line in lines)
