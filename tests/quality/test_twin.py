"""Does the core rank recorded conversations as its slow twin does? Every hit, its place and its score."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference import lexical
from siltstone.evaluation import RECORDED, Conversation, load_dataset
from siltstone.memory.convert import milliseconds
from siltstone.stores import MemoryStore


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_some_questions_are_ranked_as_by_the_twin(data_dir: Path, tmp_path: Path, name: str) -> None:
    assert compared(data_dir, tmp_path, name, step=23) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_all_questions_are_ranked_as_by_the_twin(data_dir: Path, tmp_path: Path, name: str) -> None:
    expected = sum(len(each.questions) for each in load_dataset(name, data_dir).conversations)
    assert compared(data_dir, tmp_path, name, step=1) == expected


def compared(data_dir: Path, place: Path, name: str, step: int) -> int:
    """Holds every *step*-th question of the dataset against the twin; how many those were."""
    count = 0
    with MemoryStore.open(place) as store:
        for conversation in load_dataset(name, data_dir).conversations:
            ids = store.index(conversation.id, conversation.entries()).entry_ids
            assert None not in ids
            queries = [question.text for question in conversation.questions[::step]]
            by_twin = lexical.search(queries, twins(conversation))
            for query, expected in zip(queries, by_twin, strict=True):
                hits = store.search(conversation.id, query, limit=1_000)
                found = [(ids.index(hit.entry_id), hit.score) for hit in hits]
                assert found == expected[:1_000], query
                few = store.search(conversation.id, query, limit=10)
                assert [(ids.index(hit.entry_id), hit.score) for hit in few] == expected[:10], query
            count += len(queries)
    return count


def twins(conversation: Conversation) -> list[lexical.Entry]:
    """The entries of the conversation as the twin takes them."""
    return [
        lexical.Entry(
            entry.content,
            (entry.source_range[0], entry.source_range[1]),
            entry.role,
            entry.name,
            milliseconds(entry.created_at),
            entry.kind,
        )
        for entry in conversation.entries()
    ]
