"""Does the default ranker find what it should? Bounds on recorded conversations, see SILTSTONE_DATA.

The figures are the same on every machine: nothing in them is random. Those with embedders are so but for
the last digits.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from embedders import installed
from quality.typos import with_typos
from reference import lexical
from siltstone.embedding import MiniLMEmbedder, StaticEmbedder
from siltstone.evaluation import RECORDED, Conversation, Dataset, evaluate, load_dataset
from siltstone.memory import Entry
from siltstone.memory.convert import milliseconds
from siltstone.stores import MemoryStore
from storing import contents

PREFERENCES = Path(__file__).parents[1] / "data" / "preferences.tsv"


@pytest.fixture
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[float, ...]]:
    """Recall@5, Recall@10 and nDCG@10 of a dataset, and the number of its questions."""

    def measure(dataset: Dataset, embedder: Any = None, **options: Any) -> tuple[float, ...]:
        found = evaluate(
            lambda: MemoryStore.open(tmp_path_factory.mktemp("store"), embedder=embedder, hash_rule="poly31"),
            dataset,
            abstention=False,
            **options,
        ).pooled
        return found.recall[5], found.recall[10], found.ndcg, found.questions

    return measure


def no_less(found: tuple[float, ...], least: tuple[float, ...]) -> None:
    assert found[3] == least[3]
    assert all(one >= other for one, other in zip(found, least, strict=True)), found


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("locomo-dev", (0.71, 0.79, 0.62, 910)),
        ("agent-dev", (0.70, 0.82, 0.58, 51)),
        ("madial-en", (0.43, 0.55, 0.43, 160)),
        ("madial-zh", (0.43, 0.545, 0.425, 160)),
    ],
)
def test_the_default_ranker_finds_what_it_should(
    data_dir: Path, measured: Any, name: str, least: tuple[float, ...]
) -> None:
    no_less(measured(load_dataset(name, data_dir)), least)


def test_what_was_asked_in_twelve_languages_is_found_in_each(data_dir: Path, tmp_path: Path) -> None:
    place = iter(range(12))
    languages = load_dataset("xquad-dev", data_dir)
    report = evaluate(
        lambda: MemoryStore.open(tmp_path / str(next(place))), languages, ties="earlier", abstention=False
    )
    found = {language: figures.recall[10] for language, figures in report.categories.items()}
    assert (len(found), report.pooled.questions) == (12, 12 * 225)
    assert report.pooled.recall[10] >= 0.975, found
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_one_typo_a_question_costs_little(
    data_dir: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    def found(dataset: Dataset) -> float:
        report = evaluate(
            lambda: MemoryStore.open(tmp_path_factory.mktemp("store")), dataset, abstention=False
        )
        return report.pooled.recall[10]

    given = load_dataset(name, data_dir)
    clean, typed = found(given), found(with_typos(given))
    assert typed >= clean - 0.03, (clean, typed)


def test_the_text_alone_is_enough_for_seven_tenths(data_dir: Path, measured: Any) -> None:
    assert measured(load_dataset("locomo-dev", data_dir).text_only())[1] >= 0.71


@pytest.mark.parametrize("name", ["locomo-dev", "agent-dev"])
def test_the_right_sitting_comes_first_and_what_is_off_topic_scores_low(
    data_dir: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    report = evaluate(
        lambda: MemoryStore.open(tmp_path_factory.mktemp("store")), load_dataset(name, data_dir)
    )
    assert report.abstention is not None
    assert min(report.abstention.auc, report.abstention.auc_nameless) >= 0.84, report.abstention
    if sittings := report.pooled.session_hit:
        assert (sittings[1] >= 0.75, sittings[5] >= 0.94) == (True, True), sittings


@pytest.mark.parametrize(
    ("name", "expected"), [("locomo-dev", (0.137, 0.184, 0.123)), ("agent-dev", (0.232, 0.281, 0.162))]
)
def test_cosine_with_poly31_has_the_documented_figures(
    data_dir: Path, measured: Any, name: str, expected: tuple[float, float, float]
) -> None:
    """Of equal scores the data's figures take the earlier entry, a store the newer: one date for all."""
    found = measured(load_dataset(name, data_dir).text_only(), ranker="cosine")
    assert found[:3] == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(
    ("kind", "name", "least"),
    [
        (MiniLMEmbedder, "agent-dev", (0.72, 0.87, 0.62, 51)),
        (StaticEmbedder, "agent-dev", (0.72, 0.86, 0.62, 51)),
        (MiniLMEmbedder, "madial-zh", (0.40, 0.55, 0.42, 160)),  # Chinese: it knows English alone
        (StaticEmbedder, "madial-zh", (0.40, 0.55, 0.42, 160)),
        pytest.param(MiniLMEmbedder, "locomo-dev", (0.69, 0.80, 0.61, 910), marks=pytest.mark.slow),
        (StaticEmbedder, "locomo-dev", (0.69, 0.79, 0.61, 910)),
    ],
)
def test_with_vectors_no_less_is_found(
    data_dir: Path, measured: Any, kind: Any, name: str, least: tuple[float, ...]
) -> None:
    no_less(measured(load_dataset(name, data_dir), installed(kind)), least)


@pytest.mark.parametrize(
    ("kind", "least", "most"), [(None, 0, 0.1), (StaticEmbedder, 0.4, 1), (MiniLMEmbedder, 0.6, 1)]
)
def test_preferences_that_share_no_word_with_a_question_are_found_by_vectors(
    tmp_path: Path, kind: Any, least: float, most: float
) -> None:
    rows = [line.split("\t") for line in PREFERENCES.read_text("utf-8").splitlines()]
    with MemoryStore.open(tmp_path, embedder=installed(kind) if kind else None) as store:
        said = [Entry(wish, (9 * at, 9 * at + 1), created_at=0) for at, (wish, _) in enumerate(rows)]
        store.index("a", said)
        assert store.flush(60)
        found = [wish in contents(store.search("a", question, limit=10)) for wish, question in rows]
    assert least <= sum(found) / len(found) <= most


def test_a_threshold_for_transformers_leaves_nearly_nothing_of_words(data_dir: Path, measured: Any) -> None:
    """What docs/how-search-ranks.md says of 0.7."""
    given = load_dataset("locomo-dev", data_dir).text_only()
    given = replace(given, conversations=given.conversations[:2])
    assert measured(given, min_score=0.7)[1] < 0.1 < measured(given)[1]


QUALITY = Path(__file__).parent.parent.parent / "benches" / "quality"


@pytest.fixture
def assistant() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(QUALITY))
        yield import_module("assistant")
    del sys.modules["assistant"]


# Answers are pages of this Python, so figures move a little from one to the next.
@pytest.mark.parametrize(("name", "least"), [("assistant_set", 0.83), ("project_set", 0.81)])
def test_what_a_user_said_beside_long_answers_is_found(
    assistant: Any, tmp_path_factory: pytest.TempPathFactory, name: str, least: float
) -> None:
    report = evaluate(
        lambda: MemoryStore.open(tmp_path_factory.mktemp("store")),
        getattr(assistant, name)(),
        abstention=False,
    )
    assert report.pooled.recall[10] >= least


def test_questions_about_order_find_more_in_order_of_time(assistant: Any) -> None:
    found = assistant.in_time(assistant.assistant_set())
    for category in ("order", "pooled"):
        best, timed = found[category]
        assert timed > best, category
    assert found["order"][1] >= 0.95
    assert found["pooled"][1] >= 0.84


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
