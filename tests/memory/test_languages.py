"""A store whose entries are of several languages: each is read in its own, and a query in all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone._reference import lexical
from siltstone.memory import Entry
from siltstone.stores import MemoryStore

TURKISH = "Irmağın kıyısındaki eski kapıların anahtarları nerede ve nasıl saklanıyor?"
GERMAN = "Die Schlüssel der alten Häuser sind in dem Schrank, und der Schrank ist grün."
ENGLISH = "The keys of the old houses are in the cupboard."
FRENCH = "Il y a de l'eau dans la rivière, mais les clés ne sont pas là."
JAPANESE = "川のほとりに猫がいる。"
CHINESE = "我们在河边找到了钥匙。"
KOREAN = "강가에서 고양이를 보았다."
ALL = [TURKISH, GERMAN, ENGLISH, FRENCH, JAPANESE, CHINESE, KOREAN]


def indexed(path: Path, texts: list[str]) -> MemoryStore:
    store = MemoryStore.open(path)
    # Far from each other, so that none lends to another.
    store.index("s", [Entry(text, (10 * at, 10 * at + 1)) for at, text in enumerate(texts)])
    return store


def found(store: MemoryStore, query: str) -> list[str]:
    return [hit.content for hit in store.search("s", query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kapı", [TURKISH]),
        ("anahtarın yeri nedir", [TURKISH]),
        ("das Haus", [GERMAN]),
        ("key", [ENGLISH]),
        ("house cupboards", [ENGLISH]),
        ("une rivière", [FRENCH]),
        ("eau", [FRENCH]),
        ("猫", [JAPANESE]),
        ("川", [JAPANESE]),
        ("钥", [CHINESE]),
        ("钥匙", [CHINESE]),
        ("강", [KOREAN]),
        ("다", [KOREAN]),
        ("の", [JAPANESE]),
    ],
)
def test_a_form_of_a_word_finds_another_in_its_language(
    tmp_path: Path, query: str, expected: list[str]
) -> None:
    with indexed(tmp_path, ALL) as store:
        assert found(store, query) == expected


def test_entries_of_several_languages_are_ranked_as_by_the_twin(tmp_path: Path) -> None:
    queries = [
        "kapı anahtarları", "Haus Schrank und die", "house key", "l'eau de la rivière", "猫 川", "钥",
        "the die", "und", "kapi anahtr", "Hauser Schrnk", "was ist in dem Haus", "key Schlüssel anahtar clé",
    ]  # fmt: skip
    texts = [*ALL * 2, "kapıların", "die", "Haus", "houses"]
    twins = [lexical.Entry(text, (10 * at, 10 * at + 1)) for at, text in enumerate(texts)]
    with MemoryStore.open(tmp_path) as store:
        entries = [Entry(each.content, each.source_range, created_at=0) for each in twins]
        ids = store.index("s", entries).entry_ids
        for query, expected in zip(queries, lexical.search(queries, twins), strict=True):
            hits = store.search("s", query, limit=100)
            assert [(ids.index(hit.entry_id), hit.score) for hit in hits] == expected, query


def test_a_language_leaves_with_its_last_entry(tmp_path: Path) -> None:
    """After that a query has the scores that it has where the language never was."""
    texts = [ENGLISH, "The river is old.", TURKISH]
    with indexed(tmp_path / "one", texts) as store, indexed(tmp_path / "other", texts[:2]) as other:
        found(store, "keys")
        (hit,) = store.search("s", "kapı")
        store.forget(entry_ids=[hit.entry_id])
        for query in ("the old keys of what is in it", "o ve bu kapı key", "rivers"):
            scores = [(each.content, each.score) for each in store.search("s", query)]
            assert scores == [(each.content, each.score) for each in other.search("s", query)], query


def test_a_cache_keeps_the_languages(tmp_path: Path) -> None:
    texts = [f"{TURKISH} {number}" for number in range(600)] + [ENGLISH]
    with indexed(tmp_path, texts) as store:
        before = [(hit.entry_id, hit.score) for hit in store.search("s", "kapı key", limit=50)]
    with MemoryStore.open(tmp_path) as store:
        assert [(hit.entry_id, hit.score) for hit in store.search("s", "kapı key", limit=50)] == before


def test_explain_gives_the_terms_of_the_language(tmp_path: Path) -> None:
    with indexed(tmp_path, ALL) as store:
        (hit,) = store.search("s", "Häusern", explain=True)
        assert hit.explain is not None
        assert [term["term"] for term in hit.explain["terms"]] == ["haus"]
        assert hit.explain["terms"][0]["fields"] == {"text": 1}
        (hit,) = store.search("s", "猫", explain=True)
        assert hit.explain is not None
        assert hit.explain["terms"][0]["fields"] == {"text": 1}
