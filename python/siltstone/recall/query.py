"""Makes the query of a recall from the newest requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from siltstone.messages import Message, opens_turn
from siltstone.messages.prefixes import without_prefixes
from siltstone.messages.recalled_block import is_recalled

__all__ = ["LEAST", "Query", "last_query", "queries_of", "query_of"]

LEAST: Final = 3  #: characters of the shortest query that is searched for
_MESSAGES: Final = 3  #: user messages that a query is made of, at most


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
        if opens_turn(message) and not is_recalled(message):
            text = without_prefixes(message.text).strip()
            if text:
                yield text, message.seq
