"""A session over PostgreSQL recalls and speaks as one over a file; and how often does it ask the server?"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conversations import conversation, small, user
from embedders import Counting
from postgres_stores import PostgresPool
from servers import Postgres, Proxy
from siltstone import Entry, Session, presets
from siltstone.engine import Compacted
from siltstone.errors import ConfigError, ReadOnlyStoreError
from siltstone.memory import Store
from siltstone.postgres import PostgresStore
from siltstone.stores import MemoryStore
from siltstone.testing import ScriptedModel

QUESTION = "what was said of topic1 and of the question?"


@pytest.fixture
def pair(pool: PostgresPool, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    with MemoryStore.open(tmp_path) as file, PostgresStore.open(pool.pool) as database:
        yield file, database


@pytest.fixture
def proxy(newest_postgres: Postgres, pool: PostgresPool) -> Iterator[Proxy]:
    with Proxy(newest_postgres.port) as proxy:
        yield proxy


def recalling(store: Store, name: str = "chat", **options: Any) -> Session:
    given: dict[str, Any] = {"recall": True, "policy": small(), "model": ScriptedModel(), **options}
    return Session.open(None, name, memory=store, **given)


def filled(store: Store, name: str = "chat", **options: Any) -> Session:
    session = recalling(store, name, **options)
    session.append(*conversation(10))
    assert isinstance(session.compact(), Compacted)
    session.save("The topic1 of the house is settled on Mondays.", "preference", tags=["topic1"])
    return session


@pytest.mark.parametrize("namespace", ["", "team"])
def test_the_block_that_is_recalled_is_that_of_a_file_to_the_byte(pair: tuple[Store, Store], namespace: str):
    options = {"namespace": namespace}
    blocks = []
    for store in pair:
        with filled(store, "chat", **options), filled(store, "another", **options) as session:
            session.append(user(QUESTION))
            first = session.prepare()
            blocks.append((session.recall(QUESTION), first.recalled, session.recall("nothing of it xyzzy")))
    assert blocks[0] == blocks[1]
    assert "topic1" in blocks[0][0]
    assert blocks[0][1]


def test_a_call_that_recalls_asks_the_server_once(proxy: Proxy, pool: PostgresPool) -> None:
    with PostgresStore.open(proxy.address(database=pool.name)) as store:
        filled(store).close()
        session = Session.open(None, "chat", memory=store, recall=True)  # without a model, which would learn
        session.recall(QUESTION)
        for number in range(3):
            session.append(user(f"{QUESTION} {number}"))
            for call in (session.prepare, lambda: session.recall(QUESTION)):
                before = proxy.exchanges
                assert call()
                assert proxy.exchanges - before <= 1
        session.close()


def test_facts_are_read_again_after_a_change_by_whomever_and_never_without(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as one, PostgresStore.open(pool.pool) as other:
        seen = [one.facts_revision("chat")]

        def changed(store: PostgresStore) -> bool:
            seen.append(store.facts_revision("chat"))
            return seen[-1] != seen[-2]

        (first,) = one.put_facts("chat", [(None, "key", "said", "{}")])
        assert changed(one)
        one.index("chat", [Entry("silt")])
        other.index("chat", [Entry("sand")])
        assert not changed(one)
        other.put_facts("chat", [(None, "another", "said", "{}")])
        assert changed(one)
        assert not changed(one)
        other.put_facts("chat", [(first, "key", "said", '{"content": "blue"}')])
        assert changed(one)
        other.put_facts("somebody else", [(None, "key", "said", "{}")])
        assert not changed(one)
        other.delete_session("chat")
        assert changed(one)
        one.open_log("in a team").open("team")
        other.open_log("beside").open("team")
        before = one.facts_revision("in a team", "team")
        other.put_facts("beside", [(None, "key", "said", "{}")])
        assert one.facts_revision("in a team", "team") != before


GERMAN = "Die Ventile der Häuser wurden geprüft."


def test_a_language_is_settled_for_all_who_open_the_store(
    newest_postgres: Postgres, pool: PostgresPool, tmp_path: Path
) -> None:
    def hits(store: Any) -> list[tuple[str, str]]:
        return [(hit.content, hit.score.hex()) for hit in store.search("a", "Ventil im Haus", now=4e9)]

    with pool.connection() as connection:
        connection.execute("DELETE FROM siltstone.meta WHERE key = 'language'")
    with MemoryStore.open(tmp_path, language="de") as file, PostgresStore.open(pool.pool) as store:
        assert store.language == "auto"
        for each in (file, store):
            each.index("a", [Entry(GERMAN, (0, 1), created_at=1_000.0), Entry("silt", (1, 2))])
        store.settle_language("de")
        store.settle_language("de")
        assert store.language == file.language == "de"
        assert hits(store) == hits(file) != []
        with pytest.raises(ConfigError, match="'de', not 'en'"):
            store.settle_language("en")
        with pytest.raises(ConfigError, match="did you mean"):
            store.settle_language("German")
        with PostgresStore.open(pool.pool) as other:
            assert other.language == "de"
            assert hits(other) == hits(file)
        with pytest.raises(ConfigError, match="'de', not 'fr'"):
            PostgresStore.open(pool.pool, language="fr")
        with PostgresStore.open(pool.pool, read_only=True) as reader:
            with pytest.raises(ReadOnlyStoreError):
                reader.settle_language(["en", "de"], anew=True)
            assert reader.language == "de"
        store.settle_language(["en", "de"], anew=True)
        file.settle_language(["en", "de"], anew=True)
        assert store.language == ("en", "de")
        assert hits(store) == hits(file)
        address = newest_postgres.url(database=pool.name)
        with Session.open(address, "a") as session:
            session.append(user("Guten Tag"))
    with pool.connection() as connection:
        connection.execute("DELETE FROM siltstone.meta WHERE key = 'language'")


@pytest.mark.parametrize(
    "preset", [presets.spacebot(), presets.rustant(), presets.meerkat(documented=False)], ids=repr
)
def test_a_preset_without_files_is_kept_in_the_database(
    newest_postgres: Postgres, pool: PostgresPool, preset: presets.Preset
) -> None:
    address = newest_postgres.url(database=pool.name)
    with Session.open(address, "chat", preset=preset, context_window=16_000) as session:
        session.append(user("silt"))
        session.prepare()
    with Session.open(address, "chat", context_window=16_000) as session:
        assert session.log() == [user("silt")]
    with pytest.raises(ConfigError, match="needs a directory"):
        Session.open(address, "chat", preset="waterfall")


@pytest.mark.parametrize(
    ("name", "what"), [("waterfall", "its vault"), ("openclaw", "its archive"), ("meerkat", "its graphs")]
)
def test_a_preset_with_files_is_refused_in_one_sentence(
    newest_postgres: Postgres, pool: PostgresPool, name: str, what: str
) -> None:
    address = newest_postgres.url(database=pool.name)
    with pytest.raises(ConfigError, match=f"'{name}' needs a directory for {what}, and a database has none"):
        Session.open(address, "chat", preset=name)
    with PostgresStore.open(pool.pool) as store:
        assert store.sessions().sessions == ()


WORDS = [
    "silt", "river", "delta", "mud", "clay", "sand", "gravel", "bank", "water",
    "slow", "flood", "plain", "sediment", "layer", "drift", "stone", "Anna", "Bernd",
    "Paris", "Kyoto", "1999", "naïve", "Fluß", "été", "漢字", "русский",
]  # fmt: skip
RANKERS = ["lexical", "cosine", "hybrid"]
DENSE = [*RANKERS, "dense", "fused"]


def corpus(count: int, seed: int) -> list[Entry]:
    draw = Random(seed)
    return [
        Entry(
            " ".join(draw.choices(WORDS, k=draw.randrange(3, 40))),
            (n, n + 1),
            role=draw.choice(["user", "assistant"]),
            name=draw.choice([None, "Anna", "Bernd"]),
            created_at=1_700_000_000.0 + 60 * n,
        )
        for n in range(count)
    ]


def queries(count: int, seed: int) -> Iterator[str]:
    draw = Random(seed)
    for _ in range(count):
        yield " ".join(draw.choices([*WORDS, "sedimint", "floods"], k=draw.randrange(1, 6)))


def shown(store: Store, session_id: str, query: str, **options: Any) -> list[tuple[Any, ...]]:
    hits = store.search(session_id, query, limit=20, **options)
    return [(hit.entry_id, hit.score.hex(), hit.source_range, hit.content, hit.explain) for hit in hits]


@pytest.fixture
def embedding_pair(pool: PostgresPool, tmp_path: Path) -> Iterator[tuple[MemoryStore, PostgresStore]]:
    embedder = Counting()
    with (
        MemoryStore.open(tmp_path, embedder=embedder) as file,
        PostgresStore.open(pool.pool, embedder=embedder) as database,
    ):
        yield file, database


def test_every_ranker_gives_the_same_hits_scores_and_explanations(
    embedding_pair: tuple[MemoryStore, PostgresStore], pool: PostgresPool
) -> None:
    texts = corpus(300, seed=7)
    for store in embedding_pair:
        for start in range(0, len(texts), 60):  # in steps, so that an index grows as well
            store.index("a", texts[start : start + 60])
            store.search("a", "silt")
        assert store.flush(60)
    file, database = embedding_pair
    with PostgresStore.open(pool.pool, embedder=Counting()) as cold:
        for query in queries(40, seed=11):
            for ranker in DENSE:
                expected = shown(file, "a", query, ranker=ranker, now=1_700_100_000.0, explain=True)
                for store in (database, cold):
                    assert (
                        shown(store, "a", query, ranker=ranker, now=1_700_100_000.0, explain=True) == expected
                    )


def test_filters_and_orders_give_the_same(embedding_pair: tuple[MemoryStore, PostgresStore]) -> None:
    asked: list[dict[str, Any]] = [
        {"role": "user"},
        {"name": "Anna", "min_score": 0.2},
        {"since": 1_700_003_000.0, "until": 1_700_009_000.0},
        {"order": "time"},
        {"kind": "message", "role": "assistant", "ranker": "hybrid"},
    ]
    for store in embedding_pair:
        store.index("a", corpus(200, seed=3))
    file, database = embedding_pair
    for query in queries(10, seed=5):
        for options in asked:
            given = {"now": 1_700_100_000.0, "ranker": "lexical"} | options
            assert shown(database, "a", query, **given) == shown(file, "a", query, **given)


def test_entries_that_leave_change_both_alike(embedding_pair: tuple[MemoryStore, PostgresStore]) -> None:
    texts = corpus(120, seed=9)
    for store in embedding_pair:
        store.index("a", texts)
        store.search("a", "silt")
        store.forget(session_id="a", text="gravel")
        store.expire("a", keep=40)
        store.index("a", [Entry("silt again", (500, 501), created_at=1_700_050_000.0)])
    file, database = embedding_pair
    for query in queries(20, seed=2):
        for ranker in RANKERS:
            given = {"now": 1_700_100_000.0, "ranker": ranker, "explain": True}
            assert shown(database, "a", query, **given) == shown(file, "a", query, **given)


def test_a_session_recalls_the_same_of_its_namespace(embedding_pair: tuple[MemoryStore, PostgresStore]):
    found = []
    for store in embedding_pair:
        for name in ("one", "two", "three"):
            with Session.open(
                None, name, memory=store, namespace="team", policy=small(), model=ScriptedModel()
            ) as session:
                session.append(user(f"{name} asks about topic1"))  # equal texts would be one hit
                session.append(*conversation(8))
                assert isinstance(session.compact(), Compacted)
        hits = store.search("two", "topic1 question", limit=50, scope="namespace", ranker="lexical", now=4e9)
        found.append([(hit.session_id, hit.score.hex(), hit.source_range, hit.content) for hit in hits])
    assert found[0] == found[1]
    assert {each[0] for each in found[0]} == {"one", "two", "three"}
