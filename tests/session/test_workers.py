"""Two workers hold one session: reads follow, writes onto what has grown are a conflict, nothing is lost."""

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversations import conversation, user
from gates import Gate
from siltstone import AsyncSession, CompactionConfig, Session, ThresholdCompactor
from siltstone.archive.records import Record
from siltstone.engine import Compacted, Skipped
from siltstone.errors import ConfigError, SessionBusyError, StoreConflictError, StoreCorruptError
from siltstone.memory.base import Store
from siltstone.session.transfer import records_of, write_session
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def worker(store: Store, **options: Any) -> Session:
    given: dict[str, Any] = {"policy": POLICY, "model": ScriptedModel(), "context_window": 1_500} | options
    return Session.open(None, "s", memory=store, **given)


def test_every_reading_call_follows_another_workers_compaction_and_undo(store: Store) -> None:
    one, other = worker(store), worker(store)
    one.append(*conversation(6))
    assert len(other.history()) == 24
    assert isinstance(one.compact(), Compacted)
    assert other.history() == one.history()
    assert [each.id for each in other.compactions()] == [each.id for each in one.compactions()]
    assert other.view_at(1) == one.view_at(1)
    assert other.search("topic0")
    one.undo_compaction()
    assert other.prepare().messages == one.history()
    assert other.compactions() == []


def test_a_compaction_that_lost_the_race_reads_the_session_anew_and_tries_once_more(store: Store) -> None:
    hook, asked = RecordingHook(), []

    def model(request: Any) -> str:
        asked.append(request)
        if len(asked) == 1:
            assert isinstance(one.compact(), Compacted)
            one.append(*conversation(4))
        return "What was said."

    one = worker(store)
    one.append(*conversation(6))
    other = worker(store, model=model, hooks=[hook])
    outcome = other.compact()
    assert isinstance(outcome, Compacted)
    assert [event for event in hook.names if event.startswith("Compaction")] == [
        "CompactionStarted",
        "CompactionFailed",
        "CompactionStarted",
        "CompactionCompleted",
    ]
    assert other.history() == one.history()
    covered = {seq for start, end in one.compactions()[-1].covers for seq in range(start, end)}
    assert set(range(16)) <= covered


def test_a_list_that_lacks_what_another_worker_appended_is_a_conflict(store: Store) -> None:
    one, other = worker(store), worker(store)
    mine = conversation(2)
    other.observe(mine)
    one.reload()
    one.append(user("from one"))
    with pytest.raises(StoreConflictError):
        other.observe([*mine, user("from the other")])
    assert one.log() == [*mine, user("from one")]
    theirs = [*mine, user("from one"), user("and the other")]
    assert other.observe(theirs) == 1
    assert one.history() == theirs


def test_what_another_worker_compacted_cannot_be_pinned(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(6))
    other = worker(store)
    assert isinstance(one.compact(), Compacted)
    with pytest.raises(StoreConflictError, match="has left the view"):
        other.pin(0)
    with pytest.raises(ConfigError, match="cannot be pinned"):
        other.pin(0)
    with worker(store) as anew:
        assert anew._core.clock.pins == ()


def test_pins_and_counts_of_another_worker_are_not_overwritten(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(2))
    other = worker(store)
    one.pin(1)
    other.append(user("on"))
    other.pin(2)
    assert one._core.follow().clock.pins == (1, 2)
    with worker(store) as anew:
        assert anew._core.clock.pins == (1, 2)


def test_model_calls_of_two_workers_are_summed(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(6))
    other = worker(store)
    one.compact()
    spent = one.usage.input_tokens
    other.append(*conversation(6))
    other.compact()
    assert other.usage.input_tokens > spent
    assert one.prepare() is not None
    assert one.usage == other.usage
    with worker(store) as anew:
        assert anew.usage == other.usage


def test_of_two_copies_to_one_id_the_second_is_refused_and_the_first_is_whole(store: Store) -> None:
    with worker(store) as session:
        session.append(*conversation(6))
        session.compact()
        log, view = session.log(), session.history()

    def records() -> Iterator[Record]:
        for record in records_of(store, "s"):
            yield Record(record.kind, "s", json.loads(json.dumps(record.body)))

    def overtaken() -> Iterator[Record]:
        for record in records():
            if record.kind == "message" and record.body["seq"] == 0:
                write_session(store, "copy", records())
            yield record

    with pytest.raises(StoreConflictError):
        write_session(store, "copy", overtaken())
    with Session.open(None, "copy", memory=store, policy=POLICY) as copy:
        assert (copy.log(), copy.history()) == (log, view)


def test_a_fork_that_would_lack_a_record_is_refused_and_leaves_nothing(store: Store) -> None:
    """A fact of another program, whose body is no object: a copy without it would not be a fork."""
    with worker(store) as session:
        session.append(*conversation(2))
        store.put_facts("s", [(None, "odd", "fact", "3")])
        with pytest.raises(StoreCorruptError, match="a record 'known' of session 's' cannot be copied"):
            session.fork("copy")
        assert store.stats("copy").messages == 0
        (row, *_) = store.facts("s")
        store.put_facts("s", [(row[0], "odd", "gone", "{}")])
        with session.fork("copy") as copy:
            assert copy.log() == session.log()


def test_a_fork_that_comes_too_late_deletes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker begins the session of that id after the fork has looked, and before it writes."""
    look = type(store).stats

    def overtaken(store: Any, session_id: str) -> Any:
        found = look(store, session_id)
        monkeypatch.undo()
        with Session.open(None, "x", memory=store, policy=None) as other:
            other.append(user("from another worker"))
        return found

    with worker(store) as session:
        session.append(*conversation(2))
        monkeypatch.setattr(type(store), "stats", overtaken)
        with pytest.raises(ConfigError, match="has messages of session 'x' already"):
            session.fork("x")
    with Session.open(None, "x", memory=store, policy=None) as other:
        assert other.log() == [user("from another worker")]


def test_a_fork_that_breaks_off_deletes_nothing_of_another_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other worker writes after the fork has broken off, and before it deletes."""
    taken_back = type(store).take_back  # type: ignore[attr-defined] # of every store here

    def overtaken(store: Any, session_id: str, *given: Any) -> Any:
        with Session.open(None, session_id, memory=store, policy=None) as other:
            other.append(user("from another worker"))
        return taken_back(store, session_id, *given)

    def broken() -> Iterator[Record]:
        for record in records_of(store, "s"):
            yield Record(record.kind, "s", json.loads(json.dumps(record.body)))
            if record.kind == "end":
                raise OSError("the file ends")

    with worker(store) as session:
        session.append(*conversation(2))
    with pytest.raises(OSError, match="the file ends"):
        write_session(store, "x", broken())
    assert store.open_log("x").state().next_seq == 0
    monkeypatch.setattr(type(store), "take_back", overtaken)
    with pytest.raises(OSError, match="the file ends"):
        write_session(store, "x", broken())
    with Session.open(None, "x", memory=store, policy=None) as other:
        assert other.log() == [*conversation(2), user("from another worker")]


def test_an_undo_of_a_named_compaction_undoes_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker compacts after the undo has looked, and before it writes."""
    from siltstone.session import committing

    one = worker(store)
    one.append(*conversation(6))
    first = one.compact().compaction_id
    assert first is not None
    look = committing.step_back

    def overtaken(*given: Any) -> Any:
        found = look(*given)
        monkeypatch.undo()
        with worker(store) as other:
            other.append(*conversation(6))
            other.compact()
        return found

    monkeypatch.setattr(committing, "step_back", overtaken)
    with pytest.raises(StoreConflictError, match=f"compaction {first} is not the last one of session 's'"):
        one.undo_compaction(compaction_id=first)
    records = one.compactions()
    assert [each.undone for each in records] == [False, False]
    undone = one.undo_compaction(compaction_id=records[-1].id)
    assert undone.id == records[-1].id
    assert [each.id for each in one.compactions()] == [first]


LARGER = ThresholdCompactor(CompactionConfig(auto_compact_threshold=2_000, max_summary_tokens=50))
WINDOW = 3_000
SECONDS = float(os.environ.get("SILTSTONE_THREAD_SECONDS", "1"))
SOON = 300  # seconds that a test waits for what must come


def at_once(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """*work* in *count* threads; what it raised."""
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON + SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def is_kept(session: Session, message: Any, word: str) -> bool:
    """Whether what left a request is found, or is in context again: another thread may have undone.

    Both are looked at in one state, as another thread may compact in between. What was taken back into
    the view was read from the log: it is equal, and another object.
    """

    def look() -> bool:
        found = any(word in hit.content for hit in session.search(word, 20))
        return found or message in session.history()

    return session._core.locked(look)


def test_six_threads_on_one_session_get_whole_answers_within_the_window(store: Store) -> None:
    def model(request: Any) -> str:
        time.sleep(0.005)
        return "A summary."

    session = Session.open(None, "s", memory=store, policy=LARGER, model=model, context_window=WINDOW)
    until, found, numbers = time.monotonic() + SECONDS, Counter[str](), iter(range(10**9))

    def work(thread: int) -> None:
        said = 0
        while time.monotonic() < until or said < 20:
            number = next(numbers)
            said += 1
            message = user(f"uq{number}x " + "word " * 60)
            session.append(message)
            prepared = session.prepare()
            found["over the window"] += prepared.tokens > WINDOW
            shown = any(each is message for each in prepared.messages)
            if not shown and not is_kept(session, message, f"uq{number}x"):
                found["neither shown nor found"] += 1
            if number % 25 == 24:
                session.undo_compaction()

    assert at_once(6, work) == []
    assert +found == Counter()
    said = [message["content"].split()[0] for message in session.log()]
    assert len(said) == len(set(said))
    with Session.open(None, "s", memory=store) as anew:
        assert anew.history() == session.history()


def test_a_second_prepare_waits_for_the_compaction_under_way(store: Store) -> None:
    model, answers = Gate("A summary."), list[Any]()
    session = Session.open(None, "s", memory=store, policy=LARGER, model=model, context_window=WINDOW)
    session.prepare()  # boundary 0 never compacts
    session.append(*conversation(90))
    first = threading.Thread(target=lambda: answers.append(session.prepare()), daemon=True)
    first.start()
    assert model.reached.wait(SOON)
    late = user("said while the summary was written")
    session.append(late)
    second = threading.Thread(target=lambda: answers.append(session.prepare()), daemon=True)
    second.start()
    assert isinstance(session.compact(), Skipped)
    assert answers == []
    model.open.set()
    first.join(SOON)
    second.join(SOON)
    assert [answer.messages[-1] is late for answer in answers] == [True, True]
    assert session.compactions()


def test_a_wait_has_its_own_error_and_its_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.session.session.COMPACTION_TIMEOUT", 0.01)
    model = Gate("A summary.")
    session = Session.open(None, "s", memory=store, policy=LARGER, model=model, context_window=WINDOW)
    session.append(*conversation(8))
    first = threading.Thread(target=session.compact, daemon=True)
    first.start()
    assert model.reached.wait(SOON)
    session.append(user("on"))
    for call in (session.prepare, session.undo_compaction):
        with pytest.raises(SessionBusyError, match=r"0\.01 s"):
            call()
    model.open.set()
    first.join(SOON)
    assert session.prepare().messages[-1] == user("on")


def test_a_model_that_asks_its_own_session_to_prepare_is_told_at_once(store: Store) -> None:
    told: list[BaseException] = []

    def model(request: Any) -> str:
        with pytest.raises(SessionBusyError) as caught:
            session.prepare(policy=None)
        told.append(caught.value)
        return "A summary."

    session = Session.open(None, "s", memory=store, policy=LARGER, model=model, context_window=WINDOW)
    session.append(*conversation(8))
    assert isinstance(session.compact(), Compacted)
    assert len(told) == 1


def test_an_interrupted_append_is_known_after_a_call_of_another_thread(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equal message of the other thread is no repetition of it."""
    session = Session.open(None, "s", memory=store)
    append, message = session._core.rows.append, user("so")

    def interrupted(*messages: Any, **options: Any) -> None:
        append(*messages, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(session._core.rows, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.append(message)
    monkeypatch.undo()
    assert at_once(1, lambda _: session.append(user("so"))) == []
    assert session.append(message) == range(1)
    assert [each["content"] for each in session.log()] == ["so", "so"]


@pytest.mark.anyio
async def test_equal_appends_of_two_tasks_after_a_cancelled_one_are_two(store: Store) -> None:
    """The first is the repetition of the one that was cancelled. It is under way as the second begins."""
    async with AsyncSession.open(None, "s", memory=store) as session:
        task = asyncio.create_task(session.append(user("so")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.gather(session.append(user("so")), session.append(user("so")))
        assert len(await session.log()) == 2


def test_an_async_session_serves_loops_of_several_threads_at_once(store: Store) -> None:
    """A model of one loop writes meanwhile. Each loop's own calls keep their order."""

    async def model(request: Any) -> str:
        await asyncio.sleep(0.005)
        return "A summary."

    async def opened() -> AsyncSession:
        return await AsyncSession.open(
            None, "s", memory=store, policy=LARGER, model=model, context_window=WINDOW
        )

    session = asyncio.run(opened())

    async def talk(thread: int) -> None:
        for number in range(15):
            message = user(f"{thread}-{number} " + "word " * 60)
            append, prepare = session.append(message), session.prepare()
            _, prepared = await asyncio.gather(append, prepare)
            assert prepared.tokens <= WINDOW

    assert at_once(4, lambda thread: asyncio.run(talk(thread))) == []
    said = [each["content"].split()[0] for each in asyncio.run(session.log())]
    assert sorted(said) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(15))
    for thread in range(4):
        own = [word for word in said if word.startswith(f"{thread}-")]
        assert own == [f"{thread}-{number}" for number in range(15)]
    assert asyncio.run(session.compactions())
    asyncio.run(session.close())


def test_an_async_session_goes_on_in_the_next_loop_after_a_call_was_cut_off(store: Store) -> None:
    """A host without a loop of its own runs one for each request, and stops the loop of a slow one."""
    hangs = True

    async def model(request: Any) -> str:
        await asyncio.sleep(3_600 if hangs else 0)
        return "A summary."

    async def begun() -> AsyncSession:
        session = await AsyncSession.open(None, "s", memory=store, policy=LARGER, model=model)
        await session.append(*conversation(8))
        task = asyncio.create_task(session.compact())
        waiting = asyncio.create_task(session.prepare())
        while not session._core.slot.is_held or session._turn.locked():
            await asyncio.sleep(0)
        assert not task.done()
        assert not waiting.done()
        return session

    session = asyncio.run(begun())
    hangs = False
    assert isinstance(asyncio.run(session.compact()), Compacted)
    assert asyncio.run(session.append(user("on"))) == range(32, 33)
    assert asyncio.run(session.prepare()).messages[-1] == user("on")
    asyncio.run(session.close())
