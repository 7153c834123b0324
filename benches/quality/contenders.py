"""The contenders: every ranker of the store, the store in process memory, and the peers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dense import MINILM
from peers import LEXICAL
from siltstone import ConfigError, MemoryStore, SimpleMemoryStore
from siltstone.embedding import MiniLMEmbedder, StaticEmbedder
from siltstone.memory import Ranker

#: Rankers that need no embedder, the default first. The others are measured with MiniLM alone.
RANKERS: tuple[Ranker, ...] = tuple(each for each in get_args(Ranker) if each not in ("dense", "fused"))

DEFAULT = "MemoryStore lexical"
FUSED = "MemoryStore fused, MiniLM"
DOCUMENTED = "MemoryStore cosine, poly31"
PEERS = (*LEXICAL, MINILM)


@dataclass(frozen=True, slots=True)
class Contender:
    """A store, made anew in a directory that is given."""

    name: str
    make: Callable[[Path], Any]

    @contextmanager
    def factory(self) -> Iterator[Callable[[], Any]]:
        """A factory of stores whose files last as long as the context."""
        with tempfile.TemporaryDirectory(prefix="siltstone-quality-") as place:
            yield lambda: self.make(Path(tempfile.mkdtemp(dir=place)))


def contenders() -> list[Contender]:
    """Ours, the default first. Embedders that are not installed are left out, and said so."""
    rankers = [_ours(f"MemoryStore {ranker}", ranker) for ranker in RANKERS]
    rankers.append(_ours(DOCUMENTED, "cosine", hash_rule="poly31"))
    for name, made in (("MiniLM", MiniLMEmbedder), ("static vectors", StaticEmbedder)):
        rankers += _with(name, made)
    rankers.append(Contender("SimpleMemoryStore", lambda _place: SimpleMemoryStore()))
    return rankers


class Remembered:
    """An embedder that is asked for each text once, however many stores want it."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self._rows: dict[str, Any] = {}
        self.id, self.dimension = embedder.id, embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        if text not in self._rows:
            self._rows[text] = self._embedder.embed_query(text)
        return self._rows[text]


def _with(name: str, made: Callable[[], Any]) -> list[Contender]:
    try:
        embedder = Remembered(made())
    except ConfigError as error:
        print(f"left out: what needs {name}: {error}")
        return []
    return [
        _ours(f"MemoryStore fused, {name}", "fused", embedder=embedder),
        _ours(f"MemoryStore fused by ranks, {name}", "fused", embedder=embedder, fusion="rrf"),
        _ours(f"MemoryStore dense, {name}", "dense", embedder=embedder),
    ]


def _ours(name: str, ranker: Ranker, **options: Any) -> Contender:
    return Contender(name, lambda place: MemoryStore.open(place, ranker, **options))
