"""Filters of a search: the hits are those of a search without them, less the hits that they refuse."""

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from heapq import heapreplace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError
from siltstone.errors import InvalidEntryError
from siltstone.events import SearchDegraded
from siltstone.knowledge.search import entities_of, has_entity, named
from siltstone.memory import Entry, SearchHit, SourceRange
from siltstone.memory.convert import datetime_from
from siltstone.memory.hits import Reranker, in_time
from siltstone.session import Session
from siltstone.stores import MemoryStore, SimpleMemoryStore
from siltstone.stores.simple import Tags
from storing import contents

WORDS = ["silt", "river", "delta", "kettle", "slow"]
ROLES, KINDS, NAMES = ["user", "assistant", "tool"], ["message", "note"], ["Mel", "Caroline", None]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
ENTRIES = st.lists(
    st.tuples(
        TEXTS, st.sampled_from(ROLES), st.sampled_from(KINDS), st.sampled_from(NAMES), st.integers(0, 9)
    ),
    min_size=1,
    max_size=25,
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "since": st.integers(0, 5),
        "until": st.integers(6, 10),
        "role": st.sampled_from([*ROLES, "nobody"]),
        "kind": st.sampled_from(KINDS),
        "name": st.sampled_from(["Mel", "Caroline", "Me", "mel", ""]),
    },
)


def rows(drawn: list[tuple[str, str, str, str | None, int]], first: int = 0) -> list[Entry]:
    return [
        Entry(f"{text} x{first + n}", (first + n, first + n + 1), role, name, kind, float(at))
        for n, (text, role, kind, name, at) in enumerate(drawn)
    ]


def passes(filters: dict[str, Any]) -> Callable[[Entry], bool]:
    def admits(entry: Entry) -> bool:
        at = float(entry.created_at)  # type: ignore[arg-type]
        return filters.get("since", at) <= at < filters.get("until", 99) and all(
            filters.get(field, value) == value
            for field, value in (("role", entry.role), ("kind", entry.kind), ("name", entry.name))
        )

    return admits


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_a_filter_takes_hits_away_and_changes_no_score(tmp_path: Path, ranker: Any) -> None:
    with MemoryStore.open(tmp_path) as store:
        sessions = iter(range(10_000))

        @given(drawn=ENTRIES, more=ENTRIES, filters=FILTERS, query=TEXTS, limit=st.integers(1, 9))
        def check(drawn: Any, more: Any, filters: dict[str, Any], query: str, limit: int) -> None:
            session = str(next(sessions))
            known = dict(zip(store.index(session, rows(drawn)).entry_ids, rows(drawn), strict=True))
            store.search(session, query, **filters)  # what comes next finds an index with labels
            known |= zip(store.index(session, rows(more, 50)).entry_ids, rows(more, 50), strict=True)
            admits = passes(filters)
            whole = store.search(session, query, 100, ranker=ranker, now=10.0)
            expected = [hit for hit in whole if admits(known[hit.entry_id])]
            assert store.search(session, query, limit, ranker=ranker, now=10.0, **filters) == expected[:limit]
            store.expire(session, keep=len(known) // 2)
            left = store.search(session, query, 100, ranker=ranker, now=10.0)
            expected = [hit for hit in left if admits(known[hit.entry_id])]
            assert store.search(session, query, 100, ranker=ranker, now=10.0, **filters) == expected

        check()


@pytest.mark.parametrize("scope", ["session", "namespace"])
def test_filters_hold_in_every_scope_and_store(tmp_path: Path, scope: Any) -> None:
    for store in (MemoryStore.open(tmp_path), SimpleMemoryStore()):
        with store:
            for session in ("a", "b"):
                store.open_log(session).open("acme")
                store.index(
                    session,
                    [
                        Entry(f"silt of {session} today", (0, 1), created_at=100.0),
                        Entry(
                            f"silt of {session} of old", (1, 2), "assistant", "Mel", "note", created_at=5.0
                        ),
                    ],
                )
            found = store.search(
                "a", "silt", scope=scope, role="assistant", name="Mel", kind="note", until=100
            )
            of = ["a", "b"] if scope == "namespace" else ["a"]
            assert sorted(contents(found)) == [f"silt of {session} of old" for session in of]
            found = store.search("a", "silt", scope=scope, since=datetime.fromtimestamp(100, UTC))
            assert sorted(contents(found)) == [f"silt of {session} today" for session in of]


def test_an_index_from_a_cache_learns_its_labels(tmp_path: Path) -> None:
    texts = [Entry(f"silt number {n}", (n, n + 1), ROLES[n % 3], created_at=float(n)) for n in range(900)]
    with MemoryStore.open(tmp_path) as store:
        store.index("a", texts)
        store.search("a", "silt", ranker="hybrid")
    with MemoryStore.open(tmp_path) as store:
        assert store.stats("a").detail["cached"] == 900
        hits = store.search("a", "silt number", 1_000, role="tool")
        assert len(hits) == 300
        assert {hit.role for hit in hits} == {"tool"}


def test_a_graph_is_not_asked_where_there_is_a_filter(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "cosine", index="hnsw") as store:
        store.index("a", [Entry("silt", (n, n + 1), "user" if n else "tool") for n in range(400)])
        (hit,) = store.search("a", "silt", 5, role="tool")
        assert hit.source_range == (0, 1)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        with pytest.raises(InvalidEntryError, match="since must be before until, got 5 and 5"):
            store.search("a", "silt", since=5, until=5)
        with pytest.raises(TypeError, match="unexpected keyword argument 'speaker'"):
            store.search("a", "silt", speaker="Mel")  # type: ignore[call-arg]


TAGGED = [
    ("We migrate the postgres schema, ask Ann Miller", {"database"}, {"person:Ann Miller"}),
    ("The river carries silt past the postgres server", {"database"}, set()),
    ("Deploy on 2026-03-01 with docker, river of logs", {"deployment"}, {"date:2026-03-01"}),
    ("Silt in the river cost $1,200, says Dr. Ann Miller", set(), {"amount:$1,200", "person:Ann Miller"}),
    ("Nothing but silt and river", set(), set()),
]


@pytest.mark.parametrize("scope", ["session", "namespace"])
@pytest.mark.parametrize("kind", ["memory", "simple"])
def test_topics_and_entities_take_hits_away_and_change_no_score(tmp_path: Path, scope: Any, kind: str):
    with MemoryStore.open(tmp_path) if kind == "memory" else SimpleMemoryStore() as store:
        for session in ("a", "b"):
            store.open_log(session).open("acme")
            store.index(session, [Entry(text, (n, n + 1)) for n, (text, _, _) in enumerate(TAGGED)])
        query = "river silt postgres docker ann"
        every = store.search("a", query, 100, scope=scope)
        assert [hit.times for hit in every] == [2 if scope == "namespace" else 1] * 5
        topics = {text: topics for text, topics, _ in TAGGED}
        entities = {text: names for text, _, names in TAGGED}
        for topic in ("database", "deployment", "payment", None):
            for entity in ("person:Ann Miller", "Ann Miller", "$1,200", "amount:Ann Miller", "Ann", None):
                names = {
                    name
                    for text in entities
                    for name in entities[text]
                    if entity in (name, name.partition(":")[2])
                }
                expected = [
                    hit
                    for hit in every
                    if (topic is None or topic in topics[hit.content])
                    and (entity is None or entities[hit.content] & names)
                ]
                for most in (1, 2, 100):
                    found = store.search("a", query, most, scope=scope, topic=topic, entity=entity)
                    assert found == expected[:most]
        assert store.search("a", query, 0, topic="database") == []


def test_a_rare_entity_is_found_behind_a_thousand_better_hits(tmp_path: Path) -> None:
    for index in (None, "hnsw"):
        options: dict[str, Any] = {} if index is None else {"ranker": "cosine", "index": index}
        with MemoryStore.open(tmp_path / str(index), **options) as store:
            store.index("a", [Entry("silt silt silt river", (n, n + 1)) for n in range(1_500)])
            store.index(
                "a", [Entry("Dr. Ann saw a long slow brown winding river of mud once", (1_500, 1_501))]
            )
            (hit,) = store.search("a", "silt river", 3, entity="person:Ann")
            assert hit.source_range == (1_500, 1_501)
            assert store.search("a", "silt river", 3, topic="payment") == []


@given(
    st.lists(
        st.sampled_from(["Dr. Ann", "Dr. Bo", "person:", ":", "$5", "Ann", "amount", " ", "silt"]), max_size=6
    )
)
def test_a_text_has_the_entities_that_are_told_of_it_and_no_other(pieces: list[str]) -> None:
    text = " ".join(pieces)
    found = named(entities_of(text))
    for wanted in (
        "Ann",
        "person:Ann",
        "amount:$5",
        "$5",
        "person:",
        ":",
        "Dr. Ann",
        "person:Bo",
        "stock:Ann",
    ):
        assert Tags(None, wanted).fit(text) == has_entity(found, wanted)


def test_a_topic_is_one_of_the_table_and_an_explanation_names_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry("postgres silt", (0, 1))])
        with pytest.raises(InvalidEntryError, match=r"topic must be one of database, api, .*got 'databases'"):
            store.search("a", "silt", topic="databases")
        with pytest.raises(InvalidEntryError, match="entity must be a str or None, got 7"):
            store.search("a", "silt", entity=7)  # type: ignore[arg-type]
        with pytest.raises(InvalidEntryError, match="limit"):
            store.search("a", "silt", -1, topic="database")
        (hit,) = store.search("a", "silt", explain=True, topic="database")
        assert hit.explain is not None
        assert hit.explain["filters"] == {"topic": "database"}


def hit(score: float, start: int, session: str = "s", at: int | None = None, length: int = 1) -> SearchHit:
    when = datetime_from(1_000 * (start if at is None else at))
    place = SourceRange(start, start + length)
    return SearchHit(f"{session}{start}", score, place, start + 1, "user", when, session_id=session)


HITS = st.lists(
    st.builds(
        hit,
        st.integers(1, 10**6).map(lambda number: number * 0.6180339887498949 % 1),  # no two alike
        st.integers(0, 40),
        st.sampled_from(["s", "t"]),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=30,
    unique_by=(lambda each: (each.session_id, each.source_range), lambda each: each.score),
).map(lambda hits: sorted(hits, key=lambda each: -each.score))


@given(HITS)
def test_one_session_is_in_the_order_of_its_messages_and_several_are_in_that_of_time(hits: list[SearchHit]):
    found = in_time(hits, 10)
    is_one = len({each.session_id for each in found}) == 1
    if is_one and all(each.source_range[0] < each.source_range[1] for each in found):
        assert found == sorted(found, key=lambda each: each.source_range)
    else:
        assert found == sorted(found, key=lambda each: each.created_at)


@given(HITS, st.integers(1, 12))
def test_the_choice_is_that_of_the_plain_rule(hits: list[SearchHit], limit: int) -> None:
    kept, left, chosen = [1.0] * len(hits), set(range(len(hits))), set()
    while left and len(chosen) < limit:
        best = max(left, key=lambda at: (hits[at].score * kept[at], -at))
        left.discard(best)
        chosen.add(best)
        for at in left:
            one, other = hits[at], hits[best]
            are_said = (
                one.source_range[0] < one.source_range[1] and other.source_range[0] < other.source_range[1]
            )
            apart = abs(one.source_range[0] - other.source_range[0])
            if are_said and one.session_id == other.session_id and apart <= 4:
                kept[at] *= 0.95
    found = in_time(hits, limit)
    assert {id(each) for each in found} == {id(hits[at]) for at in chosen}


def test_many_hits_of_one_message_are_chosen_without_a_scan_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.count()

    def counted(heap: list[Any], item: Any) -> Any:
        next(steps)
        return heapreplace(heap, item)

    monkeypatch.setattr("siltstone.memory.hits.heapreplace", counted)
    hits = [hit(1 - at / 10_000, 10 if at % 2 else at) for at in range(5_000)]
    assert len(in_time(hits, 2_500)) == 2_500
    assert next(steps) < 10 * len(hits)


def test_the_order_of_a_reranker_counts_and_not_the_scores_that_it_left() -> None:
    hits = [hit(0.1, 30), hit(0.9, 10), hit(0.5, 50)]  # as a reranker gave them
    assert [each.source_range[0] for each in in_time(hits, 1)] == [30]


def test_a_session_leaves_out_what_is_in_context_and_spreads_the_rest(tmp_path: Path) -> None:
    session = Session.open(tmp_path, "s", context_window=4_000)
    for n in range(80):
        topic = "the valve leaks" if n % 8 == 5 else f"weather report {n} " + "rain and wind " * 12
        session.append({"role": "user" if n % 2 == 0 else "assistant", "content": topic})
    session.compact()
    places = [each.source_range[0] for each in session.search("valve leaks", 5, order="time")]
    assert places == sorted(places)
    assert len(places) == 5
    answer = session.memory_search.call({"query": "valve leaks", "limit": 5, "order": "time"})
    assert answer.count('"content"') == 5
    session.close()


BEDS = [f"silt {'silt ' * number}of bed {number}" for number in range(8)]


class Told(list[object]):
    def __call__(self, event: object) -> None:
        self.append(event)


@pytest.fixture
def told() -> Told:
    return Told()


def opened(path: Path, reranker: Any, told: Told) -> MemoryStore:
    store = MemoryStore.open(path, reranker=reranker, hooks=[told])
    store.index("s", [Entry(text, (n, n + 1), created_at=1_000.0) for n, text in enumerate(BEDS)])
    return store


def by_bed(query: str, texts: Sequence[str]) -> list[float]:
    """The bed with the lowest number is best."""
    return [-float(text.rsplit(" ", 1)[1]) for text in texts]


def test_the_best_hits_come_in_the_order_of_the_reranker(tmp_path: Path, told: Told) -> None:
    with opened(tmp_path, by_bed, told) as store:
        assert contents(store.search("s", "silt", 8)) == BEDS
        assert contents(store.search("s", "silt", 3)) == BEDS[:3]
    assert told == []


def test_a_search_for_few_hits_shows_the_reranker_as_many_as_it_is_due(tmp_path: Path, told: Told) -> None:
    shown: list[tuple[str, int]] = []

    def counting(query: str, texts: Sequence[str]) -> list[float]:
        shown.append((query, len(texts)))
        return by_bed(query, texts)

    with opened(tmp_path, Reranker(counting, depth=6), told) as store:
        store.search("s", "silt", 1)
        store.search("s", "silt", 8)
        assert store.search("s", "silt", 0) == []
        assert store.search("s", "nothing of it", 3) == []
    assert shown == [("silt", 6), ("silt", 6)]


def raising(query: str, texts: Sequence[str]) -> list[float]:
    raise RuntimeError("the model is gone")


@pytest.mark.parametrize(
    ("reranker", "reason"),
    [
        (raising, "RuntimeError: the model is gone"),
        (lambda query, texts: [1.0], "it gave 1 scores for 8 texts"),
        (lambda query, texts: [float("nan")] * len(texts), "not finite"),
        (lambda query, texts: ["best"] * len(texts), "ValueError"),
        (lambda query, texts: None, "TypeError"),
    ],
)
def test_a_reranker_that_fails_changes_nothing_and_is_told_of(
    tmp_path: Path, told: Told, reranker: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, None, told) as store:
        before = store.search("s", "silt", 5)
    with caplog.at_level(logging.WARNING), opened(tmp_path, reranker, told) as store:
        assert store.search("s", "silt", 5) == before
    assert told == [SearchDegraded("s", "lexical", "no_reranking")]
    assert reason in caplog.text


def test_a_search_does_not_wait_for_a_reranker_that_hangs(tmp_path: Path, told: Told) -> None:
    ended = threading.Event()

    def hanging(query: str, texts: Sequence[str]) -> list[float]:
        ended.wait(600)
        return [0.0] * len(texts)

    with opened(tmp_path, Reranker(hanging, timeout=0.05), told) as store:
        assert len(store.search("s", "silt", 5)) == 5
    ended.set()
    assert told == [SearchDegraded("s", "lexical", "no_reranking")]


async def asynchronous(query: str, texts: Sequence[str]) -> list[float]:
    return []


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Reranker(asynchronous), "reranker"),  # type: ignore[arg-type]
        (lambda: Reranker(5), "reranker"),  # type: ignore[arg-type]
        (lambda: Reranker(by_bed, depth=1), "depth"),
        (lambda: Reranker(by_bed, depth=1_001), "depth"),
        (lambda: Reranker(by_bed, depth=True), "depth"),
        (lambda: Reranker(by_bed, timeout=0), "timeout"),
        (lambda: Reranker(by_bed, timeout=float("inf")), "timeout"),
    ],
)
def test_what_is_no_reranker_is_refused_by_its_field(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=8), st.integers(2, 8))
def test_whatever_the_scores_the_same_hits_come_back(scores: list[float], depth: int) -> None:
    told = Told()
    hits = [_hit(number) for number in range(8)]
    given_back = Reranker(lambda _query, texts: scores[: len(texts)], depth).reranked(
        "s", "silt", hits, "lexical", [told]
    )
    best = sorted(hits[:depth], key=lambda hit: -scores[hit.entry_id])  # equal ones stay in their order
    assert given_back == best + hits[depth:]
    assert told == []


def _hit(number: int) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(entry_id=number, content=str(number))
