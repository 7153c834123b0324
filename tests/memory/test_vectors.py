"""Vectors in a store: made once, of one embedder, checked; an embedder that fails costs nothing else."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedders import Counting, Failing, Hanging
from servers.account import wait_until
from siltstone import MemoryStore
from siltstone.embedding import FunctionEmbedder
from siltstone.errors import ConfigError, ReadOnlyStoreError, StoreClosedError, StoreConflictError
from siltstone.events import EmbeddingFailed, SearchDegraded
from siltstone.memory import Entry, vectors
from siltstone.memory.limits import MAX_QUERY_BYTES
from storing import compaction, contents, elsewhere, entries, sql
from summary_log import summary_log


def test_nothing_is_embedded_twice(tmp_path: Path) -> None:
    first, again = Counting(), Counting()
    with MemoryStore.open(tmp_path, embedder=first) as store:
        store.index("a", entries("silt settles", "the kettle", name="Ann"))
        store.index("b", [Entry("the river", role="assistant")])
        assert store.flush(60)
        assert sorted(first.documents) == ["Ann: silt settles", "Ann: the kettle", "assistant: the river"]
        before = store.search("a", "silt", explain=True)
    with MemoryStore.open(tmp_path, embedder=again) as store:
        assert store.flush(60)
        assert store.search("a", "silt", explain=True) == before
        assert store.search("a", "silt", explain=True) == before
    assert (again.documents, again.queries) == ([], ["silt"])  # a query that comes again is remembered


class Contrary(Counting):
    """Finds a question close to what has none of its words."""

    def __init__(self) -> None:
        super().__init__(2, "test/contrary")

    def _row(self, text: str) -> Any:
        return np.array([1, 0] if "kettle" in text or text == "silt" else [0, 1], dtype=np.float32)


def test_mk_60_an_injected_embedder_decides_the_order(tmp_path: Path) -> None:
    texts = ("silt settles", "the kettle is on")
    with MemoryStore.open(tmp_path, "dense", Contrary()) as store:
        store.index("a", entries(*texts))
        assert store.flush(60)
        assert contents(store.search("a", "silt"))[0] == "the kettle is on"
        assert contents(store.search("a", "silt", ranker="lexical"))[0] == "silt settles"


def test_what_a_compaction_brings_is_embedded_and_what_is_undone_is_gone(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "dense", Counting()) as store:
        store.index("a", entries("silt settles"))
        log = summary_log(store, "a")
        receipt = log.commit(compaction(), [Entry("the river", (7, 8))], expected_head=None, clock="")
        assert store.flush(60)
        assert set(contents(store.search("a", "silt"))) == {"silt settles", "the river"}
        log.undo(expected_head=receipt.compaction_id, clock="")
        assert contents(store.search("a", "river")) == ["silt settles"]
        assert {finding.table for finding in store.check()} <= {"compaction"}  # it covers no log


def test_what_is_forgotten_or_dropped_leaves_no_vector(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "dense", Counting()) as store:
        ids = store.index("a", entries("silt settles", "the river")).entry_ids
        store.index("b", entries("the delta"))
        assert store.flush(60)
        store.forget(entry_ids=[ids[0] or 0])
        assert contents(store.search("a", "silt settles")) == ["the river"]
        store.delete_session("b")
        assert store.check() == []
    assert elsewhere(
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("
        "'SELECT group_concat(entry) FROM vector').fetchone()[0])",
        tmp_path / "memory" / "memory.sqlite3",
    ).split() == [str(ids[1])]


def test_another_embedder_is_refused_until_it_may_take_the_place(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "the river"))
        assert store.flush(60)
    for other in (Counting(8), Counting(16, "test/other")):
        with pytest.raises(ConfigError, match=r"has 2 vectors of embedder \"test/counting\"") as caught:
            MemoryStore.open(tmp_path, embedder=other)
        assert "reembed=True" in str(caught.value)
        assert other.documents == []
    other = Counting(8, "test/other")
    with MemoryStore.open(tmp_path, "dense", other, reembed=True) as store:
        assert store.flush(60)
        assert len(other.documents) == 2
        assert len(store.search("a", "silt")) == 2
        assert store.check() == []
    with MemoryStore.open(tmp_path, embedder=other, reembed=True) as store:
        assert store.lacking_vectors == 0  # it is the same one: nothing was made anew


def test_a_store_open_for_reading_searches_by_the_vectors_there_are(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles"))
        assert store.flush(60)
    embedder = Counting()
    with MemoryStore.open(tmp_path, "dense", embedder, read_only=True) as store:
        assert contents(store.search("a", "silt")) == ["silt settles"]
        with pytest.raises(ReadOnlyStoreError):
            store.index("a", entries("more"))
        with pytest.raises(ConfigError, match="has 1 vectors of embedder"):
            MemoryStore.open(tmp_path, embedder=Counting(4), read_only=True, reembed=True)


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        ("UPDATE vector SET data = zeroblob(64) WHERE entry = 1", {"checksum"}),
        ("UPDATE vector SET embedder = 9", {"checksum"}),
        ("UPDATE vector SET session = 2 WHERE entry = 1", {"checksum"}),
        ("UPDATE embedder SET name = 'other'", {"checksum", "vector"}),
        ("DELETE FROM embedder", {"vector"}),
        ("UPDATE vector SET entry = 77 WHERE entry = 1", {"foreign_key", "checksum"}),
        (
            "INSERT INTO vector SELECT 99, session, revision, embedder, data, 0 FROM vector WHERE entry = 1",
            {"foreign_key", "checksum"},
        ),
    ],
)
def test_damage_to_a_vector_is_a_finding_and_a_repair_deletes_what_cannot_be_believed(
    tmp_path: Path, damage: str, codes: set[str]
) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "a river runs"))
        assert store.flush(60)
        assert store.check() == []
        before = store.search("a", "silt")
    sql(tmp_path, damage)
    with MemoryStore.open(tmp_path) as store:
        assert {finding.code for finding in store.check()} == codes
        store.check(repair=True)
        assert store.check() == []
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        assert store.flush(60)
        assert store.search("a", "silt") == before


def test_a_damaged_vector_is_left_out_and_named_and_made_again_after_a_repair(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "a river runs"))
        assert store.flush(60)
        before = store.search("a", "silt", ranker="dense")
        assert len(before) == 2
    sql(tmp_path, "UPDATE vector SET data = zeroblob(64) WHERE entry = 1")
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        assert contents(store.search("a", "silt", ranker="dense")) == ["a river runs"]
        assert "silt settles" in contents(store.search("a", "silt"))
        assert {(finding.table, finding.id) for finding in store.check()} == {("vector", 1)}
        assert [finding.repaired for finding in store.check(repair=True)] == [True]
        assert store.flush(60)
        assert store.check() == []
        assert store.search("a", "silt", ranker="dense") == before


@pytest.mark.parametrize("ranker", ["dense", "fused"])
def test_rankers_that_need_an_embedder_say_so(tmp_path: Path, ranker: Any) -> None:
    with MemoryStore.open(tmp_path) as store, pytest.raises(ConfigError, match="needs an embedder"):
        store.search("a", "silt", ranker=ranker)


def raising(_texts: list[str]) -> Any:
    raise OSError("no route to the model")


def leaving(_texts: list[str]) -> Any:
    raise SystemExit(3)


ANSWERS: dict[str, tuple[Any, str, str]] = {
    "raises": (raising, "raised", "OSError: no route to the model"),
    "exits": (leaving, "raised", "RuntimeError: SystemExit: 3"),
    "dimension": (lambda texts: np.ones((len(texts), 3)), "invalid", "dimension"),
    "nan": (lambda texts: np.full((len(texts), 4), np.nan), "invalid", "must give finite float32, got nan"),
    "count": (lambda texts: np.ones((len(texts) + 1, 4)), "invalid", "vectors for"),
    "ints": (lambda texts: np.ones((len(texts), 4), dtype=int), "invalid", "must give an array of floats"),
    "nothing": (lambda _texts: None, "invalid", "must give an array of floats, got NoneType"),
}


EMBEDDING = ("siltstone-embed", "siltstone-vectors")


def embedding_threads(besides: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that began after *besides*: other tests may have left some that are about to end."""
    new = set(threading.enumerate()) - besides
    return [each for each in new if each.name.startswith(EMBEDDING)]


def wait_for_embedding_threads(besides: set[threading.Thread]) -> None:
    for each in embedding_threads(besides):
        each.join(300)


@pytest.mark.parametrize("kind", ANSWERS)
def test_entries_are_found_by_their_words_and_the_failure_is_told(tmp_path: Path, kind: str) -> None:
    answer, reason, message = ANSWERS[kind]
    told: list[Any] = []
    embedder = Failing(answer)
    embedder.embed_query = lambda text: np.ones(4)  # type: ignore[method-assign]
    with MemoryStore.open(tmp_path, embedder=embedder, hooks=[told.append]) as store:
        store.index("a", entries("silt settles", "the kettle"))
        assert not store.flush(300)
        assert contents(store.search("a", "silt"))[0] == "silt settles"
        failed, degraded = told[0], told[-1]
        assert isinstance(failed, EmbeddingFailed)
        assert (failed.embedder, failed.purpose, failed.reason) == ("test/failing", "documents", reason)
        assert message in failed.message
        assert failed.texts == 2
        assert degraded == SearchDegraded("a", "fused", "no_vectors")
        assert store.lacking_vectors == 2
        assert store.check() == []


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_query_without_a_vector_is_answered_by_words(tmp_path: Path, kind: str) -> None:
    answer, reason, _ = ANSWERS[kind]
    told: list[Any] = []
    embedder = Failing(answer, lambda text: not text.startswith("user:"))
    if kind in {"count", "nothing"}:
        embedder.embed_query = lambda _text: None  # type: ignore[method-assign]
    with MemoryStore.open(tmp_path, "fused", embedder, hooks=[told.append]) as store:
        store.index("a", entries("silt settles", "the kettle"))
        assert store.flush(300)
        hits = store.search("a", "silt", explain=True)
        assert hits == store.search("a", "silt", ranker="lexical", explain=True)
        assert [type(each) for each in told] == [EmbeddingFailed, SearchDegraded]
        assert (told[0].purpose, told[0].reason, told[0].texts) == ("query", reason, 1)
        assert told[1] == SearchDegraded("a", "fused", "no_query_vector")


def test_one_text_that_fails_does_not_keep_the_others_from_their_vectors(tmp_path: Path) -> None:
    told: list[Any] = []
    embedder = Failing(raising, lambda text: "poison" in text)
    with MemoryStore.open(tmp_path, "dense", embedder, hooks=[told.append]) as store:
        store.index(
            "a", entries(*(f"silt {n}" for n in range(40)), "poison", *(f"mud {n}" for n in range(40)))
        )
        assert not store.flush(300)
        assert store.lacking_vectors == 1
        assert len(store.search("a", "silt", limit=100)) == 80
        assert told[0].reason == "raised"
        embedder.wrong = lambda _text: False  # it is tried again
        assert store.flush(300)
        assert store.lacking_vectors == 0


def test_a_hanging_embedder_keeps_no_search_longer_than_was_said(tmp_path: Path) -> None:
    told: list[Any] = []
    embedder = Hanging()

    def by_vectors() -> bool:
        told.clear()
        (hit,) = store.search("a", "silt", ranker="dense")
        return not told and hit.score > 0.5

    try:
        with MemoryStore.open(tmp_path, embedder=embedder, embed_timeout=0.05, hooks=[told.append]) as store:
            store.index("a", entries("silt settles"))
            assert not store.flush(0.05)
            for _ in range(50):  # were each of them to wait, and not only the first, nobody would see it here
                assert contents(store.search("a", "silt")) == ["silt settles"]
            reasons = {(each.purpose, each.reason) for each in told if isinstance(each, EmbeddingFailed)}
            assert reasons == {("query", "timeout")}
            embedder.go_on.set()
            assert store.flush(300)
            wait_until(by_vectors, "an answer in time, once the call that hung has ended")
    finally:
        embedder.go_on.set()


def test_a_store_is_closed_though_its_embedder_hangs_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "CLOSE_SECONDS", 0.05)
    embedder = Hanging()
    store = MemoryStore.open(tmp_path, embedder=embedder)
    store.index("a", entries("silt settles"))
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.search("a", "silt")
    assert not store.flush(0)
    embedder.go_on.set()  # what comes too late is dropped
    with MemoryStore.open(tmp_path, embedder=embedder) as again:
        assert again.flush(300)
        assert contents(again.search("a", "silt", ranker="dense")) == ["silt settles"]
        assert again.check() == []


def test_a_call_for_documents_that_hangs_is_given_up_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "DOCUMENT_SECONDS", 0.05)
    told: list[Any] = []
    embedder = Hanging()
    with MemoryStore.open(tmp_path, embedder=embedder, hooks=[told.append]) as store:
        store.index("a", entries("silt settles"))
        assert not store.flush(300)
        assert (told[0].purpose, told[0].reason) == ("documents", "timeout")
        assert "gave no answer in 0.05 seconds" in told[0].message
        embedder.go_on.set()
        while not store.flush(300):
            pass
        assert store.lacking_vectors == 0


def test_async_embedders_run_on_one_loop_and_a_hanging_query_is_cancelled(tmp_path: Path) -> None:
    loops, cancelled = set(), threading.Event()

    async def embed(texts: list[str]) -> list[list[float]]:
        loops.add(id(asyncio.get_running_loop()))
        if "hang" in texts:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        await asyncio.sleep(0)
        return [[1.0, float(len(text))] for text in texts]

    told: list[Any] = []
    embedder = FunctionEmbedder(embed, "test/async", 2)
    with MemoryStore.open(tmp_path, embedder=embedder, embed_timeout=2.0, hooks=[told.append]) as store:
        store.index("a", entries("silt settles", "we hang it up"))
        assert store.flush(300)
        assert contents(store.search("a", "hang"))[0] == "we hang it up"
        assert cancelled.wait(300)
        assert [each.reason for each in told] == ["timeout", "no_query_vector"]
    assert len(loops) == 1


def test_no_thread_runs_before_there_is_something_to_embed_nor_after_closing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.stats()
        assert embedding_threads(before) == []
        store.index("a", entries("silt"))
        assert store.flush(300)
        assert embedding_threads(before) != []
    wait_for_embedding_threads(before)
    assert embedding_threads(before) == []


def test_a_store_that_nobody_holds_takes_its_threads_along(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = MemoryStore.open(tmp_path, embedder=Counting())
    store.index("a", entries("silt"))
    assert store.flush(300)
    del store
    wait_for_embedding_threads(before)
    assert embedding_threads(before) == []


def test_a_program_ends_though_its_embedder_hangs(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from embedders import Hanging\n"
        "from siltstone import Entry, MemoryStore\n"
        "store = MemoryStore.open(sys.argv[1], embedder=Hanging(), embed_timeout=0.05)\n"
        "store.index('a', [Entry('silt')])\n"
        "print(len(store.search('a', 'silt')))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_neither_embeds_nor_hangs(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from embedders import Counting\n"
        "from siltstone import Entry, MemoryStore\n"
        "from siltstone.errors import StoreClosedError\n"
        "store = MemoryStore.open(sys.argv[1], embedder=Counting())\n"
        "store.index('a', [Entry('silt')]); store.flush()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert not store.flush(0)\n"
        "    try:\n"
        "        store.search('a', 'silt')\n"
        "    except StoreClosedError:\n"
        "        store.close()\n"
        "        os._exit(7)\n"
        "    os._exit(1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(len(store.search('a', 'silt', ranker='dense')), store.flush())\n"
        "store.close()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path), str(Path(__file__).parent.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("7\n1 True\n", "")


def test_an_embedder_whose_place_was_taken_stops_and_says_so(tmp_path: Path) -> None:
    told: list[Any] = []
    with MemoryStore.open(tmp_path, embedder=Counting(), hooks=[told.append]) as old:
        old.index("a", entries("silt settles"))
        assert old.flush(300)
        with MemoryStore.open(tmp_path, embedder=Counting(8, "test/new"), reembed=True) as new:
            assert new.flush(300)
            assert contents(old.search("a", "silt")) == ["silt settles"]
            assert told[-1] == SearchDegraded("a", "fused", "stale")
            new.close()
        old.index("a", [Entry("mud", (5, 6))])
        assert not old.flush(300)
        assert told[-1].reason == "stale"
        for _ in range(2):  # its worker has ended: nobody makes another pass
            waiting = threading.Thread(target=old.flush, daemon=True)
            waiting.start()
            waiting.join(20)
            assert not waiting.is_alive()


def test_a_search_during_which_the_embedder_changes_is_answered_by_words(tmp_path: Path) -> None:
    """The core finds it out after the query was embedded."""
    told: list[Any] = []
    with MemoryStore.open(tmp_path, embedder=Counting(), hooks=[told.append]) as store:
        store.index("a", entries("silt settles"))
        assert store.flush(300)

        core = store._native

        class Changing:
            def search(self, *arguments: Any) -> Any:
                if arguments[-1] is not None:
                    raise StoreConflictError("another embedder took the place of this one meanwhile")
                return core.search(*arguments)

            def __getattr__(self, name: str) -> Any:
                return getattr(core, name)

        store._native = Changing()  # type: ignore[assignment]
        assert contents(store.search("a", "silt")) == ["silt settles"]
        assert told == [SearchDegraded("a", "fused", "stale")]


QUERIES = {
    "empty": "",
    "white space": " \n\t",
    "one character": "s",
    "stop words": "what did the of and to",
    "emoji": "😀🎉",
    "operators": '"silt AND (NOT river* OR ^"',
    "quotes": "'; DROP TABLE entry; -- \"",
    "nul": "\x00",
    "lone surrogate": "\ud800",
    "the longest": "silt " * (MAX_QUERY_BYTES // 5),
}


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid", "dense", "fused"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_any_query_has_results_or_none_by_every_ranker(tmp_path: Path, query: str, ranker: Any) -> None:
    told: list[Any] = []
    with MemoryStore.open(tmp_path, embedder=Counting(), hooks=[told.append]) as store:
        store.index("a", entries("silt settles", "the river 😀", 'he said "AND (NOT" twice'))
        assert store.flush(300)
        hits = store.search("a", query, ranker=ranker, explain=True)
        assert all(0.0 <= hit.score <= 1.0 and hit.explain for hit in hits)
        assert hits == sorted(hits, key=lambda hit: -hit.score)
        assert told == []
        assert store.search("a", query, ranker=ranker, limit=0) == []
