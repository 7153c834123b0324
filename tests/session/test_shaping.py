"""Does a trim of one request leave the history alone, and is what it left out found, and only that?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compacting import exchange
from siltstone import (
    Chain,
    ConfigError,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    SmartTrim,
    SmartTrimConfig,
    presets,
)
from siltstone.archive.records import read_segments
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import StoreIoError
from siltstone.events import CompactionCompleted, MemoryIndexed
from siltstone.messages import RecalledMessage

WINDOW = 11_200  #: of which 4,000 are the reserve and 4,000 the block: 3,200 tokens are the safe limit
POLICY = SmartTrim.documented()
LIMIT = 3_200


def said(number: int, words: str = "") -> dict[str, Any]:
    """A message of 200 tokens."""
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": f"note {number} {words} ".ljust(600, "x")}


def opened(place: Any, name: str = "s", **options: Any) -> Session:
    given = {"policy": POLICY, "model": None, "context_window": WINDOW, **options}
    return Session.open(place, name, **given)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path) as session:
        yield session


def numbers(prepared: Any) -> set[int]:
    return {seq for start, end in prepared.trimmed for seq in range(start, end)}


def found(session: Session, number: int) -> bool:
    return any(
        hit.source_range == (number, number + 1) for hit in session._calls._search_all(f"note {number}", 20)
    )


def test_the_history_stays_whole_and_the_next_request_begins_with_all_of_it(session: Session):
    session.append(*(said(number, "falcon" if number == 1 else "") for number in range(24)))
    session.append({"role": "user", "content": "tell me of the tides"})
    first = session.prepare()
    assert first.tokens <= LIMIT
    assert 1 in numbers(first)
    assert first.history == session.history() == session.log()
    assert len(first.messages) == 25 - len(numbers(first))
    assert session.compactions() == []
    session.append({"role": "assistant", "content": "They come and go."})
    session.append({"role": "user", "content": "and where was the falcon, that falcon?"})
    second = session.prepare()
    assert second.history[1] in second.messages, "what is relevant now is back, as it was said"
    assert 1 not in numbers(second)
    assert session.prepare().trimmed == second.trimmed


@pytest.mark.parametrize("documented", [True, False])
def test_a_growing_session_asks_what_one_that_is_opened_anew_asks(tmp_path: Path, documented: bool):
    """What it keeps from one request to the next changes none: results grow old, a message is forgotten."""
    policy = presets.openclaw(documented=documented, trim_scope="request").policy
    with opened(tmp_path / "long", policy=policy) as long:
        for number in range(25):
            words = f"tide {number} falcon {number % 4} " * (20 + 9 * number)
            for message in [said(2 * number), *exchange(f"c{number}", words), said(2 * number + 1)]:
                long.append(message)
                with opened(tmp_path / "short", policy=policy) as short:
                    short.append(message)
                    for each in (long, short) if (number, message["role"]) == (20, "tool") else ():
                        each.forget(start=5, end=9)
                    assert short.prepare().messages == long.prepare().messages
        assert numbers(long.prepare())
        assert "tide 1 falcon" not in str([long.prepare().messages, long.history(), long.search("tide 1")])


def test_a_search_leaves_out_what_the_last_request_shows_and_nothing_else(session: Session):
    session.append(*(said(number, "falcon" if number == 1 else "") for number in range(24)))
    session.append({"role": "user", "content": "tell me of the tides"})
    left = numbers(session.prepare())
    assert {number for number in range(24) if found(session, number)} == left
    session.append({"role": "user", "content": "where was the falcon?"})
    left = numbers(session.prepare())
    assert 1 not in left
    assert {number for number in range(24) if found(session, number)} == left
    assert len(session.search("note", 5)) == 5, "as many as are asked for, if there are so many"


def test_the_estimate_is_compared_with_what_the_provider_counted_of_the_request_itself(session: Session):
    session.append(*map(said, range(24)))
    prepared = session.prepare()
    assert prepared.tokens < 24 * 200
    answer = {"role": "assistant", "content": "They come and go."}
    session.append(answer, usage={"input_tokens": prepared.tokens})
    assert session.estimate_error == 0


def test_what_was_left_out_is_found_after_a_reopen_too(tmp_path: Path):
    with opened(tmp_path) as session:
        session.append(*map(said, range(24)))
        left = numbers(session.prepare())
    with opened(tmp_path) as session:
        assert all(found(session, number) for number in left), "no request shows anything"
        assert numbers(session.prepare()) == left
        assert {number for number in range(24) if found(session, number)} == left
        entries = [entry.source_range.start for entry in session.store.entries("s").entries]
        assert sorted(set(entries)) == entries, "each once"
        assert left < set(entries), "those that left, and the next ones"


def test_another_worker_trims_its_own_request_and_each_searches_beside_its_own(tmp_path: Path):
    with opened(tmp_path) as one, opened(tmp_path) as other:
        one.append(*map(said, range(24)))
        other.reload()
        first = numbers(one.prepare())
        other.append({"role": "user", "content": "note 0 note 1 note 2 and the words of note 3, note 4?"})
        second = numbers(other.prepare())
        assert first != second
        assert {number for number in range(24) if found(one, number)} == first
        assert {number for number in range(24) if found(other, number)} == second
        assert one.log() == other.log()


def test_a_question_too_short_to_trim_by_leaves_the_request_whole_and_above_the_window_the_net_acts(
    tmp_path: Path,
):
    with opened(tmp_path) as session:
        session.append({"role": "user", "content": "y"})
        session.append(
            *({"role": "assistant", "content": f"{number} ".ljust(600, "x")} for number in range(20))
        )
        prepared = session.prepare()
        assert [(type(each), each.reason) for each in prepared.outcomes] == [(Skipped, "query_too_short")]
        assert prepared.trimmed == ()
        assert LIMIT < prepared.tokens <= WINDOW
        session.append(*({"role": "assistant", "content": "x" * 14_000} for _ in range(2)))
        prepared = session.prepare()
        assert prepared.tokens <= WINDOW
        made_by = [event.policy for event in prepared.events if isinstance(event, CompactionCompleted)]
        assert made_by == ["emergency"]
        assert len(session.compactions()) == 1
        assert len(session.log()) == 23


def test_an_undo_and_a_manual_compaction_leave_it_as_it_is(session: Session):
    session.append(*map(said, range(24)))
    left = numbers(session.prepare())
    outcome = session.compact()
    assert (type(outcome), outcome.reason) == (Skipped, "not_supported")
    assert session.undo_compaction() is None
    assert len(session.history()) == 24
    assert numbers(session.prepare()) == left


def test_a_learned_window_that_leaves_a_trim_no_room_is_kept_by_the_net_and_an_undo_gives_the_history_back(
    tmp_path: Path,
):
    with opened(tmp_path) as session:
        session.append(*map(said, range(24)))
        sent = session.prepare().tokens
        prepared = session.recover(ValueError(f"prompt is too long: {sent} tokens > 2500 maximum"))
        assert session.context_window == 2_500, "of which the reserve leaves nothing to a trim"
        assert prepared.tokens <= 2_500
        assert len(prepared.history) < 24
        assert session.prepare().tokens <= 2_500
        assert session.compactions()
        undone = session.undo_compaction()
        assert undone is not None
        assert len(session.history()) == 24
        assert session.prepare().tokens <= 2_500
        assert len(session.log()) == 24


def test_a_store_that_cannot_write_leaves_the_request_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is left out that is not findable."""
    store = SimpleMemoryStore()
    with opened(None, memory=store) as session:
        session.append(*map(said, range(24)))

        def refuse(*_: Any) -> None:
            raise StoreIoError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(store, "index", refuse)
            prepared = session.prepare()
        assert [e.reason for e in prepared.outcomes if isinstance(e, Failed)] == ["memory_indexing_failed"]
        assert prepared.messages == prepared.history == session.log()
        session.append(said(24))
        assert session.prepare().trimmed


def test_an_entry_is_made_once_and_told_once(tmp_path: Path):
    told: list[Any] = []
    with opened(tmp_path, hooks=[told.append]) as session:
        session.append(*map(said, range(24)))
        left = numbers(session.prepare())
        count = sum(each.entries for each in told if isinstance(each, MemoryIndexed))
        for number in range(24, 28):
            session.append(said(number))
            session.prepare()
        made = [each.entries for each in told if isinstance(each, MemoryIndexed)]
        assert made[0] == count == len(left) + 8, "what leaves next is there already"
        assert sum(made) == session.store.stats("s").entries
        assert len(made) <= 2, "and many requests write nothing"


def test_a_pinned_message_is_in_every_request(session: Session):
    session.append(*map(said, range(24)))
    assert 0 in numbers(session.prepare())
    session.pin(0)
    assert 0 not in numbers(session.prepare())


def test_the_files_of_the_archive_have_what_requests_left_out_and_a_crash_in_between_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given: Any = {"preset": presets.openclaw(), "model": None, "context_window": WINDOW}
    path = tmp_path / "memory" / "context" / "segments.jsonl"
    with Session.open(tmp_path, "s", **given) as session:
        session.append(*map(said, range(24)))
        with monkeypatch.context() as patch:
            patch.setattr("siltstone.session.request_policy.write_new", str)  # killed before the files
            left = numbers(session.prepare())
    assert not path.exists()
    with Session.open(tmp_path, "s", **given) as session:
        kept = {each.content for each in read_segments(path)}
        assert kept > {said(number)["content"] for number in left}
        session.append(said(24), said(25))
        left |= numbers(session.prepare())
    assert {each.content for each in read_segments(path)} >= {said(number)["content"] for number in left}


def test_a_step_of_a_chain_rewrites_the_history():
    with pytest.raises(ConfigError, match="trim_scope='history'"):
        Chain(SmartTrim(SmartTrimConfig(trim_scope="request")))
    with pytest.raises(ConfigError, match="trim_scope must be 'request' or 'history', got 'session'"):
        SmartTrimConfig(trim_scope="session")  # type: ignore[arg-type]


def test_the_configuration_of_openclaw_may_say_that_trims_are_committed(tmp_path: Path):
    preset = presets.openclaw.from_config('{"trimScope": "history"}')
    with Session.open(tmp_path, "s", preset=preset, model=None, context_window=WINDOW) as session:
        session.append(*map(said, range(24)))
        prepared = session.prepare()
        assert prepared.trimmed == ()
        assert len(prepared.history) < 24
        assert session.compactions()
        assert any(isinstance(each, Compacted) for each in prepared.outcomes)


def test_recall_brings_what_was_left_out_of_this_request_alone(tmp_path: Path):
    with opened(tmp_path, recall=True) as session:
        session.append({"role": "user", "content": "The falcon nests in Falkenburg near the old mill."})
        session.append({"role": "assistant", "content": "Noted."})
        session.append(*map(said, range(2, 24)))
        for number in range(3):
            session.append({"role": "user", "content": "Where near the old mill nests the falcon?"})
            prepared = session.prepare()
            # The last six messages are protected, and fill the safe limit: all older ones leave.
            session.append({"role": "assistant", "content": f"Wait {number}. " + "y" * 4_420})
        [place] = [at for at, raw in enumerate(prepared.messages) if isinstance(raw, RecalledMessage)]
        assert 0 in numbers(prepared)
        assert prepared.messages[place + 1 :] == prepared.history[-1:], "it stands before the question"
        assert "Falkenburg" in prepared.recalled
        assert prepared.tokens <= LIMIT + WINDOW // 10, "the reserve stays free"
    with MemoryStore.open(tmp_path) as store:
        assert all("recalled" not in entry.content for entry in store.entries("s").entries)


def test_no_session_of_a_namespace_finds_a_past_that_was_rewritten(tmp_path: Path):
    host = [said(number, "falcon" if number == 1 else "") for number in range(24)]
    with opened(tmp_path, namespace="team") as session, opened(tmp_path, "other", namespace="team") as other:
        session.observe(host)
        assert 1 in numbers(session.prepare())
        hits = other.search("falcon", 20, scope="namespace")
        assert [hit.source_range for hit in hits if "falcon" in hit.content] == [(1, 2)], "once"
        session.observe([*host[:1], said(1, "heron"), *host[2:]])
        for hits in (other.search("falcon heron", 20, scope="namespace"), session.search("falcon heron", 20)):
            assert not any("falcon" in hit.content for hit in hits)
            assert any("heron" in hit.content for hit in hits)
        assert session.undo_compaction() is not None
        session.prepare()
        assert any("falcon" in hit.content for hit in session.search("falcon", 20))
