"""What is measured: every ranker of the store, the store in process memory, and the peers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dense import MINILM
from peers import LEXICAL
from siltstone import ConfigError, MemoryStore, SimpleMemoryStore
from siltstone.memory import Ranker

DEFAULT = "MemoryStore lexical"
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
    """Ours, the default first. A ranker that asks for more than a path is left out, and said so."""
    rankers = [_ours(f"MemoryStore {ranker}", ranker) for ranker in get_args(Ranker)]
    rankers.append(_ours(DOCUMENTED, "cosine", hash_rule="poly31"))
    rankers.append(Contender("SimpleMemoryStore", lambda _place: SimpleMemoryStore()))
    return sorted(filter(_opens, rankers), key=lambda contender: contender.name != DEFAULT)


def _ours(name: str, ranker: Ranker, **options: Any) -> Contender:
    return Contender(name, lambda place: MemoryStore.open(place, ranker, **options))


def _opens(contender: Contender) -> bool:
    with contender.factory() as make:
        try:
            make().close()
        except ConfigError as error:
            print(f"left out: {contender.name}: {error}")
            return False
    return True
