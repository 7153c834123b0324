"""A store that was copied is the store that it was: everything, in order, wherever it was stopped."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from branching import copied
from conversations import assistant, conversation, exchange, small, user
from siltstone import ConfigError, Entry, MemoryStore, Session, SimpleMemoryStore
from siltstone.engine import Compacted
from siltstone.knowledge import KnowledgeConfig
from siltstone.stores.transfer import copy_store
from siltstone.testing import ScriptedModel
from storing import figures

CONFIG = KnowledgeConfig(knowledge_extraction=False, min_entries=1)
NOW = time.time()  # ages count in scores
QUERIES = ["walrus01", "question2 about walrus", "deploy note", "port 3000", "pad"]


def opened(store: Any, session_id: str, **options: Any) -> Session:
    options.setdefault("policy", small())
    options.setdefault("model", ScriptedModel())
    return Session.open(None, session_id, memory=store, knowledge=CONFIG, **options)


def talk(session: Session, run: int) -> None:
    for number in range(6):
        text = f"run{run} question{number} about walrus{run}{number}"
        session.append(user(text + " pad" * 20), *exchange(run * 10 + number, f"out{run}{number}"))
        session.append(assistant("Done. " * 10), usage=900)


def index_again(store: Any, session_id: str, place: int, ttl: timedelta | None = None) -> None:
    """Indexes an entry of the session again, as a caller may: it then stays when its compaction is undone."""
    of = store.entries(session_id, limit=500).entries[place]
    store.index(
        session_id, [Entry(of.content, of.source_range, of.role, of.name, of.kind, of.created_at, ttl)]
    )


def fill(store: Any) -> None:
    """All that there is: pins, compactions that were undone, branches, marks, batches, facts."""
    with opened(store, "team-1", namespace="team") as session:
        session.append({"role": "system", "content": "Be brief."})
        session.append(user("Remember that the API is running on port 3000. " + "pad " * 20))
        for run in range(3):
            talk(session, run)
            assert isinstance(session.compact(), Compacted)
            store.index("team-1", [Entry(f"a deploy note {run}", kind="note", name="Ann")])
            if run == 0:
                session.pin(len(session.log()) - 1)
        session.undo_compaction()
        talk(session, 3)
        assert isinstance(session.compact(), Compacted)
        index_again(store, "team-1", 3)
        index_again(store, "team-1", 5, timedelta(days=9))
        session.forget(start=2, end=4)
        session.save("Use tabs", "preference", tags=["style"])
        session.record_denial("shell", "rm", "use make clean", "tidy")
    with opened(store, "team-2", namespace="team") as session:
        session.append(user("In context, and in no entry yet: a walrus."))
    with opened(store, "host") as session:
        said = conversation(12)
        session.observe(copied(said))
        session.compact()
        session.observe([*copied(said[:4]), user("another past"), assistant("yes")])
    with opened(store, "taken-back") as session:
        talk(session, 7)
        session.compact()
        session.undo_compaction()
    twins = [Entry("twin", ttl=timedelta(days=1)), Entry("twin")]
    store.index("entries alone", [*twins, Entry("bad \ud800 text")])
    store.index("entries alone", [Entry("the same", (3, 4)), Entry("of 32 KiB " * 3_200, (4, 5))])
    with opened(store, "gone") as session:
        talk(session, 1)
    store.delete_session("gone")


def found(store: Any, limit: int = 20) -> list[Any]:
    """Every search, but for the ids."""
    names = [info.session_id for info in store.sessions(limit=100).sessions]
    hits = [
        [(hit.content, hit.score, hit.source_range, hit.session_id, hit.entry_id > 0) for hit in got]
        for name in names
        for query in QUERIES
        for ranker in ("lexical", "cosine", "hybrid")
        for scope in ("session", "namespace")
        for got in [store.search(name, query, limit=limit, ranker=ranker, now=NOW, scope=scope)]
    ]
    assert any(hits)
    return hits


@pytest.fixture
def source(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path / "from") as store:
        fill(store)
        yield store


def test_everything_is_there_and_every_search_finds_the_same(source: MemoryStore, tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "to") as target:
        done = copy_store(source, target)
        assert figures(target) == figures(source)
        assert found(target) == found(source)
        assert target.check() == []
        assert (done.sessions, done.skipped, done.differing) == (5, 0, ())
        assert done.messages == source.stats().messages
        assert done.entries == source.stats().entries
        assert "gone" not in figures(target)
        (repaired,) = (each for each in target.entries("entries alone").entries if each.repaired)
        assert repaired.content == "bad \ufffd text"


def evened(hits: list[Any]) -> list[Any]:
    """The same hits, those of one score in the order of the log: newer ones come first otherwise."""
    return [sorted(got, key=lambda hit: (-hit[1], hit[3], str(hit[2]), hit[0])) for got in hits]


def test_sessions_go_on_in_the_copy_as_they_would_have(source: MemoryStore, tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "to") as target:
        copy_store(source, target)
        told = []
        for store in (source, target):
            with opened(store, "team-1", namespace="team") as session:
                session.undo_compaction()
                talk(session, 9)
                session.compact()
                shown = session.history(), session._core.clock.pins, [rule.text for rule in session.rules]
                told.append((shown, len(session.log()), len(session.compactions(undone=True))))
        assert told[0] == told[1]
        # Messages after the copy have another time in each.
        assert evened(found(target, limit=500)) == evened(found(source, limit=500))


def test_what_was_forgotten_stays_out_of_the_copy_when_it_is_sent_again(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "from") as source, MemoryStore.open(tmp_path / "to") as target:
        said = conversation(6)
        for name in ("one", "two"):
            with opened(source, name) as session:
                session.observe(copied(said))
                session.forget(start=2, end=3)
        target.index("other", [Entry("secret of another one", (0, 1))])
        with opened(target, "own") as session:
            session.append(user("to be forgotten"))
        target.forget(session_id="own", start=0, end=1)  # marks of the target's own salt
        copy_store(source, target)
        for store in (source, target):
            for name in ("one", "two"):
                with opened(store, name) as session:
                    before = len(session.log())
                    session.observe(copied(said))
                    assert len(session.log()) == before
                    assert said[2]["content"] not in str(session.log())


def test_a_second_copy_writes_nothing_and_a_later_one_brings_what_came_since(
    source: MemoryStore, tmp_path: Path
) -> None:
    with MemoryStore.open(tmp_path / "to") as target:
        copy_store(source, target)
        versions = {name: target.open_log(name).version() for name in figures(target)}
        assert copy_store(source, target).skipped == 5
        assert {name: target.open_log(name).version() for name in figures(target)} == versions
        with opened(source, "team-1", namespace="team") as session:
            talk(session, 20)
            session.compact()
            session.save("Use spaces", "preference")
        source.index("entries alone", [Entry("one more")])
        assert copy_store(source, target).skipped == 3
        assert figures(target) == figures(source)
        assert found(target) == found(source)


class _Stopped(BaseException):
    pass


def _stopping(store: Any, after: int) -> Any:
    """*store*, which is stopped before its write number *after*."""
    left = [after]

    def before() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Stopped

    class Writes:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._inner, name)
            if name == "open_log":
                return lambda session: Writes(found(session))
            if name in (
                "append", "commit", "rewrite", "undo", "save_clock", "save_settings", "index",
                "put_facts", "restore_marks",
            ):  # fmt: skip
                before()
            return found

    return Writes(store)


def test_a_copy_that_was_stopped_before_any_write_goes_on(source: MemoryStore) -> None:
    writes, expected = 0, figures(source)
    while True:
        target = SimpleMemoryStore()
        try:
            copy_store(source, _stopping(target, writes))
        except _Stopped:
            copy_store(source, target)
            assert figures(target) == expected, f"stopped before write {writes}"
            writes += 1
        else:
            break
    assert writes > 20


def test_another_session_of_the_same_name_is_refused_and_stays(source: MemoryStore) -> None:
    target = SimpleMemoryStore()
    with opened(target, "team-2", namespace="team") as session:
        session.append(user("Somebody else."))
    before = figures(target)
    with pytest.raises(ConfigError, match="'team-2' that is another one: it has another message 0"):
        copy_store(source, target)
    assert figures(target)["team-2"] == before["team-2"]
    other = SimpleMemoryStore()
    with opened(other, "team-1") as session:
        session.append(user("Somebody else."))
    with pytest.raises(ConfigError, match='is of namespace "", which was fixed'):
        copy_store(source, other)
    deleted = SimpleMemoryStore()
    with opened(deleted, "host") as session:
        session.append(user("x"))
    deleted.delete_session("host")
    with pytest.raises(ConfigError, match="was deleted there"):
        copy_store(source, deleted)


def test_progress_ends_where_everything_is_done(source: MemoryStore) -> None:
    told: list[tuple[str, int, int]] = []
    copy_store(source, SimpleMemoryStore(), progress=lambda *each: told.append(each))
    counts = [count for _, count, _ in told]
    assert counts == sorted(counts)
    assert told[-1][1] == told[-1][2] > 0


STEPS = ["append", "index", "again", "compact", "undo", "forget"]
texts = st.text(min_size=0, max_size=30)


@given(st.lists(st.tuples(st.sampled_from(STEPS), texts), max_size=25))
def test_whatever_was_done_the_copy_is_equal(steps: list[tuple[str, str]]) -> None:
    source, target = SimpleMemoryStore(), SimpleMemoryStore()
    with opened(source, "s") as session:
        for does, text in steps:
            if does == "append":
                session.append(user(text + " words" * 30), assistant(text * 3))
            elif does == "index":
                source.index("s", [Entry(text, (0, len(session.log())))])
            elif does == "again":
                if entries := source.entries("s").entries:
                    ttl = timedelta(days=1) if text > "m" else None
                    index_again(source, "s", len(text) % len(entries), ttl)
            elif does == "compact":
                session.compact()
            elif does == "undo":
                session.undo_compaction()
            elif session.log():
                session.forget(start=len(session.log()) // 2, end=len(session.log()) // 2 + 1)
    copy_store(source, target)
    assert figures(target) == figures(source)
    assert target.check() == []
