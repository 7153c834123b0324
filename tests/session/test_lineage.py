"""What happened to a history can be looked at and undone, over every store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import Raw, assistant, conversation, exchange, user
from siltstone import CompactionConfig, Emergency, MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.cli.show import heading
from siltstone.engine import Compacted
from siltstone.errors import CompactionNotFoundError, ConfigError
from siltstone.memory import Store
from siltstone.messages import encode
from siltstone.testing import ScriptedModel

Opener = Callable[[], Session]

POLICIES: list[Any] = [
    ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, recent_turn_budget=budget, **options))
    for budget, options in (
        (1, {"max_summary_tokens": 50}),
        (2, {"max_summary_tokens": 60}),
        (4, {"max_summary_tokens": 40, "retained_token_budget": 200}),
    )
]
POLICIES.append(Emergency(400))


@pytest.fixture(params=["database", "simple"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the session anew, as another run of the program would: the store is closed in between."""
    simple = SimpleMemoryStore()
    opened: list[Session] = []

    def opener() -> Session:
        while opened:
            opened.pop().close()
        if request.param == "simple":
            session = Session.open(None, "s", policy=POLICIES[0], model=ScriptedModel(), memory=simple)
        else:
            session = Session.open(tmp_path, "s", policy=POLICIES[0], model=ScriptedModel())
        opened.append(session)
        return session

    yield opener
    while opened:
        opened.pop().close()


def as_bytes(messages: list[Any]) -> list[str]:
    return [encode(message) for message in messages]


def found(session: Session) -> list[tuple[str, float, tuple[int, int]]]:
    """What a search for any topic gives: texts, scores, ranges."""
    query = " ".join(f"topic{n}" for n in range(40))
    hits = [hit for hit in session.search(query, limit=1_000) if not hit.in_context]
    return sorted((hit.content, hit.score, hit.source_range) for hit in hits)


def compact(session: Session, policy: Any) -> None:
    with_policy = session._calls.policy
    session._calls.policy = policy
    try:
        outcome = session.compact()
    finally:
        session._calls.policy = with_policy
    assert isinstance(outcome, Compacted), outcome


@pytest.mark.parametrize("seed", range(4))
def test_five_undos_after_five_compactions_give_back_the_original_byte_for_byte(
    reopen: Opener, seed: int
) -> None:
    chance = random.Random(seed)
    session = reopen()
    number = iter(range(1000))
    states: list[tuple[list[str], list[tuple[str, float, tuple[int, int]]]]] = []
    appended: list[list[Raw]] = []

    def speak() -> list[Raw]:
        said = [
            message
            for _ in range(chance.randint(3, 6))
            for message in _turn(next(number), chance.randint(100, 600))
        ]
        session.append(*said)
        return said

    everything = speak()
    for _ in range(5):
        states.append((as_bytes(session.history()), found(session)))
        compact(session, chance.choice(POLICIES))
        appended.append(speak())
        everything += appended[-1]

    for step in range(5, 0, -1):
        before, hits = states[step - 1]
        if chance.random() < 0.5:
            session = reopen()
        assert len(session.compactions()) == step
        undone = session.undo_compaction()
        assert undone.undone
        later = [message for said in appended[step - 1 :] for message in said]
        for _ in range(2):
            assert as_bytes(session.history()) == before + as_bytes(later)
            assert found(session) == hits
            session = reopen()
    assert as_bytes(session.history()) == as_bytes(everything)
    assert found(session) == []
    assert session.undo_compaction() is None
    assert session.compactions() == []
    assert len(session.compactions(undone=True)) == 5
    assert session.log() == everything


def _turn(number: int, size: int) -> list[Raw]:
    return [
        user(f"question {number} about topic{number}"),
        *exchange(number, f"topic{number} " + "lorem ipsum dolor " * (size // 18)),
        assistant(f"answer {number}"),
    ]


def test_records_tell_what_happened(reopen: Opener) -> None:
    session = reopen()
    session.append(*conversation(8))
    before = len(session.history())
    compact(session, POLICIES[0])
    session.append(*conversation(4))
    compact(session, POLICIES[1])
    first, second = session.compactions()
    assert (first.parent, second.parent) == (None, first.id)
    assert (first.policy, first.reason, first.level, second.level) == ("threshold", "manual", 1, 2)
    assert (first.messages_before, first.tokens_after < first.tokens_before) == (before, True)
    assert first.covers[0][0] == 0
    assert "[Context compacted]" in first.summary or first.summary
    assert first.usage
    assert sum(record.input_tokens for record in (*first.usage, *second.usage)) == session.usage.input_tokens
    assert first.created_at <= second.created_at
    assert not first.degraded
    assert [first.undone, second.undone] == [False, False]


def test_a_summary_that_is_too_short_is_marked_wherever_its_record_is_shown() -> None:
    for answer, is_suspect in (
        ("Gone.", True),
        ("Ann keeps the keys of the store in the blue box. " * 2, False),
    ):
        model = ScriptedModel([answer])
        with Session.open(
            None, "s", memory=SimpleMemoryStore(), context_window=4_000, model=model
        ) as session:
            session.append(*conversation(90))
            assert getattr(session.compact(), "suspect", None) is is_suspect
            (record,) = session.compactions()
            assert record.suspect is is_suspect
            assert ("suspect" in repr(record)) is ("suspect" in heading(record)) is is_suspect


def test_the_row_of_a_compaction_covers_what_left_the_view_and_nothing_that_stays(reopen: Opener) -> None:
    session = reopen()
    session.append(*conversation(8))
    session.pin(3)
    for _ in range(2):
        compact(session, POLICIES[0])
        row = session._core.rows.compactions()[-1].compaction
        shown = {seq for each in row.view if isinstance(each, tuple) for seq in range(*each)}
        covered = {seq for start, end in row.covers for seq in range(start, end)}
        assert 3 in shown
        assert (shown & covered, shown | covered) == (set(), set(range(row.next_seq)))
        session.append(*conversation(6))


def test_every_earlier_view_can_be_looked_at(reopen: Opener) -> None:
    session = reopen()
    said = conversation(8)
    session.append(*said)
    assert session.view_at(0) == said
    compact(session, POLICIES[0])
    left = as_bytes(session.history())
    session.append(*conversation(4))
    assert as_bytes(session.view_at(0)) == as_bytes(said)
    assert as_bytes(session.view_at(1)) == left
    compact(session, POLICIES[1])
    assert as_bytes(session.view_at(2)) == as_bytes(session.history())
    assert as_bytes(reopen().view_at(1)) == left
    for wrong in (-1, 3, True, "1"):
        with pytest.raises(ConfigError, match="n must be 0 to 2"):
            reopen().view_at(wrong)  # type: ignore[arg-type]


def test_a_summary_expands_to_the_originals_through_summaries_of_summaries(reopen: Opener) -> None:
    session = reopen()
    said = conversation(8)
    session.append(*said)
    compact(session, POLICIES[0])
    more = conversation(6)
    session.append(*more)
    compact(session, POLICIES[0])
    first, second = session.compactions()
    assert second.level == 2
    everything = said + more
    for record in (first, second):
        covered = [everything[seq] for start, end in record.covers for seq in range(start, end)]
        assert as_bytes(session.expand(record.id)) == as_bytes(covered)
    assert as_bytes(session.expand(second.id))[0] == encode(said[0])
    session.undo_compaction()
    assert session.expand(second.id), "an undone summary can be expanded too"
    with pytest.raises(CompactionNotFoundError, match="no compaction 99"):
        session.expand(99)


def test_a_compaction_of_another_session_cannot_be_expanded(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        a, b = (_session(store, name) for name in "ab")
        a.append(*conversation(8))
        compact(a, POLICIES[0])
        with pytest.raises(CompactionNotFoundError):
            b.expand(a.compactions()[0].id)


def _session(store: Store, name: str) -> Session:
    return Session.open(None, name, policy=POLICIES[0], model=ScriptedModel(), memory=store)
