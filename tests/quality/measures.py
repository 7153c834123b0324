"""Measures of retrieval: datasets as entries and questions, and the figures of a store."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from siltstone.embedding import Embedder
from siltstone.memory import Entry, SearchHit
from siltstone.stores import MemoryStore

__all__ = ["Conversation", "Figures", "Question", "conversations", "measure", "text_only"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the places of the entries that answer it."""

    text: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Entries in the order in which they were said, and questions about them."""

    entries: tuple[Entry, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over all questions, 0..1."""

    recall_5: float
    recall_10: float
    ndcg_10: float
    questions: int


def conversations(data_dir: Path, name: str) -> list[Conversation]:
    """The dataset *name*; questions that cannot be answered (adversarial) are left out."""
    data = json.loads((data_dir / f"{name}.json").read_text("utf-8"))
    if "entries" in data:  # memories that follow no conversation
        return [_conversation(data["entries"], data["questions"], in_order=False)]
    return [_conversation(list(_turns(each)), each["questions"]) for each in data["conversations"]]


def text_only(conversation: Conversation) -> Conversation:
    """The same without names, and all of one date."""
    bare = tuple(replace(entry, name=None, created_at=0) for entry in conversation.entries)
    return replace(conversation, entries=bare)


def measure(
    path: Path,
    given: Sequence[Conversation],
    search: Callable[[MemoryStore, str, str], list[SearchHit]],
    embedder: Embedder | None = None,
) -> Figures:
    """Recall@5, Recall@10 and nDCG@10 of *search* over a store with one session a conversation."""
    rows = []
    with MemoryStore.open(path, embedder=embedder, hash_rule="poly31") as store:
        for number, conversation in enumerate(given):
            session = str(number)
            ids = store.index(session, conversation.entries).entry_ids
            assert store.flush()
            place = {entry_id: at for at, entry_id in enumerate(ids)}
            for question in conversation.questions:
                hits = search(store, session, question.text)
                rows.append(_row([place[hit.entry_id] for hit in hits], question.evidence))
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return Figures(*means, questions=len(rows))


def _row(found: Sequence[int], evidence: frozenset[int]) -> tuple[float, float, float]:
    def recall(k: int) -> float:
        return len(evidence & set(found[:k])) / len(evidence)

    gain = sum(1 / math.log2(rank + 2) for rank, place in enumerate(found[:10]) if place in evidence)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(evidence))))
    return recall(5), recall(10), gain / ideal


def _turns(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from conversation.get("turns", ())
    for session in conversation.get("sessions", ()):
        yield from session["turns"]


def _conversation(
    turns: list[dict[str, Any]], questions: list[dict[str, Any]], in_order: bool = True
) -> Conversation:
    place = {turn["id"]: at for at, turn in enumerate(turns)}
    return Conversation(
        tuple(_entry(turn, (at, at + 1) if in_order else (0, 0)) for at, turn in enumerate(turns)),
        tuple(
            Question(each["q"], frozenset(place[one] for one in each["evidence"]))
            for each in questions
            if each.get("category") != "adversarial"
        ),
    )


def _entry(turn: dict[str, Any], source_range: tuple[int, int]) -> Entry:
    text, speaker = turn["text"], turn.get("speaker")
    if caption := turn.get("caption"):
        text += f" [shares image: {caption}]"
    generic = speaker in (None, "user", "assistant")
    return Entry(
        text,
        source_range,
        role=speaker if generic and speaker else "user",
        name=turn.get("tool") if generic else speaker,
        kind=turn.get("kind", "message"),
        created_at=datetime.fromisoformat(turn["date"]),
    )
