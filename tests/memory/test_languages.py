"""A store whose entries are of several languages: each is read in its own, and a query in all of them."""

from pathlib import Path

import pytest

from reference import lexical
from siltstone.errors import ConfigError, ReadOnlyStoreError
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
        ("house cupboards", [ENGLISH]),
        ("une rivière", [FRENCH]),
        ("猫", [JAPANESE]),
        ("钥匙", [CHINESE]),
        ("강", [KOREAN]),
        ("다", [KOREAN]),
        ("の", [JAPANESE]),
    ],
)
def test_a_form_of_a_word_finds_another_in_its_language(tmp_path: Path, query: str, expected: list[str]):
    with indexed(tmp_path, ALL) as store:
        assert found(store, query) == expected


QUERIES = [
    "kapı anahtarları", "Haus Schrank und die", "house key", "l'eau de la rivière", "猫 川", "钥", "was key",
    "the die", "und", "kapi anahtr", "Hauser Schrnk", "was ist in dem Haus", "key Schlüssel anahtar clé",
]  # fmt: skip


@pytest.mark.parametrize("among", ["auto", "de", "en", "de,en", "tr,de,fr", "vi,de"])
def test_entries_of_all_languages_or_of_chosen_ones_are_ranked_as_by_the_twin(tmp_path: Path, among: str):
    texts = [*ALL * 2, "kapıların", "die", "Haus", "houses", "house", "Häuser der Stadt"]
    twins = [lexical.Entry(text, (10 * at, 10 * at + 1), among=among) for at, text in enumerate(texts)]
    with MemoryStore.open(tmp_path, language=None if among == "auto" else among.split(",")) as store:
        entries = [Entry(each.content, each.source_range, created_at=0) for each in twins]
        ids = store.index("s", entries).entry_ids
        for query, expected in zip(QUERIES, lexical.search(QUERIES, twins), strict=True):
            hits = store.search("s", query, limit=100)
            assert [(ids.index(hit.entry_id), hit.score) for hit in hits] == expected, query


def test_a_language_that_was_chosen_holds_for_texts_that_tell_none(tmp_path: Path) -> None:
    with (
        MemoryStore.open(tmp_path / "auto") as auto,
        MemoryStore.open(tmp_path / "de", language="de") as chosen,
    ):
        for store in (auto, chosen):
            store.index("s", [Entry("Häuser", (0, 1)), Entry("grüne Türen", (10, 11))])
        assert found(auto, "Haus") == []
        assert found(chosen, "Haus") == ["Häuser"]
        (hit,) = chosen.search("s", "Haus", explain=True)
        assert hit.explain is not None
        assert hit.explain["language"] == "de"
        assert (auto.language, chosen.language) == ("auto", "de")
        assert MemoryStore.open(tmp_path / "all", language="auto").language == "auto"


def test_a_language_is_settled_once_and_kept(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry("Häuser", (0, 1))])
        assert found(store, "Haus") == []
        with MemoryStore.open(tmp_path, language=["de", "en", "de"]) as other:  # nobody had said so
            assert other.language == store.language == ("de", "en")
            assert found(store, "Haus") == found(other, "Haus") == ["Häuser"]
            store.index("s", [Entry("der Schrank", (10, 11))])
            assert found(other, "Schränken") == ["der Schrank"]
    with MemoryStore.open(tmp_path) as store:
        assert found(store, "Haus") == ["Häuser"]
    with pytest.raises(
        ConfigError, match=r"read with language 'de,en', not 'fr': open it without one"
    ) as caught:
        MemoryStore.open(tmp_path, language="fr")
    assert (caught.value.field, caught.value.value) == ("language", "fr")
    with MemoryStore.open(tmp_path, read_only=True, language=["de", "en"]) as reader:
        assert found(reader, "Haus") == ["Häuser"]
        with pytest.raises(ConfigError, match="not 'tr'"):
            reader.settle_language("tr")
        with pytest.raises(ReadOnlyStoreError):
            reader.settle_language("tr", anew=True)


def test_another_language_reads_every_text_anew(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, language="de") as store:
        store.index("s", [Entry(f"Häuser {n}" if n else "Häuser", (10 * n, 10 * n + 1)) for n in range(600)])
        assert found(store, "Haus")
    with MemoryStore.open(tmp_path) as store:  # it has a cache of it
        store.settle_language("en", anew=True)
        assert found(store, "Haus") == []
        assert "Häuser 5" in found(store, "Häuser 5")
    with MemoryStore.open(tmp_path) as store:
        assert (store.language, found(store, "Haus")) == ("en", [])


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("german", r"got 'german'; did you mean 'de' \(German\)\?"),
        ("de-AT", r"did you mean 'de'"),
        ("ru", r"codes of da, de, en, .* \(other scripts tell their languages by themselves\), got 'ru'$"),
        ("", "got ''"),
        (["de", "klingon"], "got "),
        (["auto", "de"], "'auto' alone"),
        ([], "at least one"),
        (7, "a list of codes, got 7"),
    ],
)
def test_an_unknown_language_is_refused_and_the_nearest_named(tmp_path: Path, language: object, told: str):
    with pytest.raises(ConfigError, match=told):
        MemoryStore.open(tmp_path / "store", language=language)  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()


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
