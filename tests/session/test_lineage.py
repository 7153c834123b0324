"""What happened to a history, and by which rule, can be looked at, undone and summarised anew."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import Raw, assistant, conversation, exchange, small, user
from siltstone import (
    CompactionConfig,
    Emergency,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    WaterfallCompactor,
    WindowCompactor,
)
from siltstone.cli.show import heading
from siltstone.compaction import CompactionContext
from siltstone.compaction.base import Compaction, Trigger
from siltstone.compaction.prompts import UPDATE_NOTE
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import CompactionNotFoundError, ConfigError
from siltstone.events import ContextCritical, ContextWarning
from siltstone.memory.log import Derived
from siltstone.messages import Message, encode, read_history
from siltstone.session.policy_history import PAST, PolicyLine
from siltstone.session.rows import rules_of
from siltstone.systems.waterfall.config import WaterfallConfig
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
def test_five_undos_after_five_compactions_give_back_the_original_byte_for_byte(reopen: Opener, seed: int):
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


FACT = re.compile(r"The (\w+) is (\w+)\.")


class Forgetful:
    """Writes down the facts that it reads, the newest word on each; an earlier summary's host it mishears."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: Any) -> str:
        read, instruction = (message["content"] for message in request.messages)
        self.asked.append((read, instruction))
        facts = dict(FACT.findall(read))
        if UPDATE_NOTE in instruction:
            facts["host"] = "wrong"
        return " ".join(f"The {name} is {value}." for name, value in facts.items()) or "Nothing."


def policy(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(
        CompactionConfig(auto_compact_threshold=700, recent_turn_budget=1, max_summary_tokens=60, **settings)
    )


def talk(session: Session, fact: str) -> None:
    """A few turns, the first of which says *fact*, and a compaction of all but the newest."""
    session.append(user(fact), assistant("Noted. " + "word " * 60))
    for number in range(3):
        session.append(user(f"Go on with {number}."), assistant("Done. " + "word " * 60))
    outcome = session.compact()
    assert isinstance(outcome, Compacted), outcome


def levels(session: Session) -> list[int]:
    return [record.level for record in session.compactions()]


def summary_of(session: Session) -> str:
    (text,) = (
        str(raw["content"]) for raw in session.history() if "[Context compacted]" in str(raw["content"])
    )
    return text


def test_a_summary_is_written_anew_on_request_and_the_request_can_be_undone(tmp_path: Path) -> None:
    model = Forgetful()
    with Session.open(tmp_path, "s", policy=policy(), model=model) as session:
        talk(session, "The host is alpha.")
        talk(session, "The port is new.")
        assert "The host is wrong." in summary_of(session)
        before, found = session.history(), session.search("host alpha", limit=1)
        outcome = session.resummarize(focus="the host")
        assert isinstance(outcome, Compacted)
        assert "the host" in model.asked[-1][1]
        assert "The host is alpha. The port is new." in summary_of(session)
        assert [raw for raw in session.history() if raw in before] == [*before[1:]]
        assert levels(session) == [1, 2, 1]
        assert session.search("host alpha", limit=1) == found
        held = session.history()
        assert len(session.expand(session.compactions()[-1].id)) == len(session.log()) - len(held) + 1
    with Session.open(tmp_path, "s", policy=policy(), model=model) as session:
        assert session.history() == held
        assert session.undo_compaction() is not None
        assert session.history() == before


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (policy(), "nothing_to_discard"),
        (Emergency(), "not_supported"),
        (WindowCompactor(), "not_supported"),
        (None, "not_supported"),
    ],
)
def test_where_nothing_can_be_written_anew_the_view_stays(chosen: Any, reason: str) -> None:
    with Session.open(None, "s", policy=chosen, memory=SimpleMemoryStore()) as session:
        session.append(user("hello"), assistant("hello"))
        outcome = session.resummarize()
        assert isinstance(outcome, Skipped)
        assert (outcome.reason, session.history()) == (reason, [user("hello"), assistant("hello")])


def opened(store: Any, **options: Any) -> Session:
    return Session.open(None, "s", memory=store, policy=small(), model=ScriptedModel(), **options)


def rules(session: Session, place: int = -1) -> dict[int, str]:
    spans = session.compactions()[place].rules
    return {seq: rule for start, end, rule in spans for seq in range(start, end)}


def test_rules_pins_the_newest_and_what_is_older_are_told_apart() -> None:
    with opened(SimpleMemoryStore()) as session:
        session.append({"role": "system", "content": "Be brief."})
        session.append(*conversation(8))
        session.pin(3)
        length = len(session.log())
        assert isinstance(session.compact(), Compacted)
        told = rules(session)
        assert sorted(told) == [*range(length)]
        assert told[0] == "system"
        assert told[3] == "pinned"
        assert told[length - 1] == "recent"
        left = [seq for seq, rule in told.items() if rule in ("older", "outranked")]
        covers = {seq for start, end in session.compactions()[0].covers for seq in range(start, end)}
        assert covers == set(left)
        session.unpin(3)
        assert rules(session)[3] == "pinned", "it is told as it was then"


def test_the_request_of_a_turn_that_was_cut_is_told_as_such() -> None:
    with opened(SimpleMemoryStore()) as session:
        session.append(user("look through all of it"))
        for number in range(60):
            session.append(*exchange(number, f"out{number} " * 40))
        assert isinstance(session.compact(), Compacted)
        told = rules(session)
        assert told[0] == "request"
        assert told[1] == "older", "what came after a request is not outranked by it"
        assert told[len(session.log()) - 1] == "recent"


def test_rules_outlive_the_process_and_an_earlier_row_has_none(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(*conversation(8))
        assert isinstance(session.compact(), Compacted)
        before = session.compactions()[0]
        assert before.rules
        assert before.seconds is not None
    with Session.open(tmp_path, "s", policy=None) as session:
        assert session.compactions()[0].rules == before.rules


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.booleans()), max_size=30))
def test_each_message_has_one_rule_and_stretches_are_as_long_as_can_be(shape: list[tuple[str, bool]]) -> None:
    read = read_history([{"role": role, "content": "x"} for role, _ in shape])
    gone = [message for message, (_, is_gone) in zip(read, shape, strict=True) if is_gone]
    kept = [message for message, (_, is_gone) in zip(read, shape, strict=True) if not is_gone]
    spans = rules_of(read, Compaction(kept, kept, gone, "", ()), Trigger("manual"))
    assert [seq for start, end, _ in spans for seq in range(start, end)] == [*range(len(shape))]
    assert all(one[2] != other[2] for one, other in pairwise(spans))
    left = {"older", "outranked", "superseded"}
    for start, end, rule in spans:
        assert all(shape[seq][1] == (rule in left) for seq in range(start, end))


def test_what_a_policy_passed_over_is_told_apart_from_what_is_old() -> None:
    read = read_history([user("a"), assistant("b"), user("c"), assistant("d"), user("e"), assistant("f")])
    kept = [read[1], read[4], read[5]]
    gone = [read[0], read[2], read[3]]
    spans = rules_of(read, Compaction(kept, kept, gone, "", ()), Trigger("manual"))
    assert spans == [(0, 1, "older"), (1, 2, "chosen"), (2, 4, "outranked"), (4, 6, "recent")]


WATERFALL = replace(
    WaterfallConfig.documented(), immediate_window=4, recent_window=8, retry_delay=0.0, attempts=1
)


class Seen(ThresholdCompactor):
    """A policy that writes down what it is told, and is due at every third message."""

    def __init__(self) -> None:
        super().__init__(CompactionConfig(attempts=1, recent_turn_budget=1, on_model_failure="fail"))
        self.contexts: list[CompactionContext] = []
        self.triggers: list[Trigger] = []

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        self.contexts.append(context)
        return Trigger("count", tokens=1) if context.message_count > 4 else None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Any:
        self.triggers.append(trigger)
        return super().flow(history, trigger)


def spoken(session: Session, count: int, size: int = 200) -> list[Any]:
    """*count* messages, a boundary after each; what was attempted."""
    attempts: list[Any] = []
    for _ in range(count):
        at = session._core.next_seq
        say = assistant if at % 2 else user
        session.append(say(f"Entry {at} " + "word " * (size // 5)))
        attempts += session.prepare().outcomes
    return attempts


def watched(chosen: Any, model: Any, store: Any, **options: Any) -> Session:
    return Session.open(None, "s", policy=chosen, model=model, memory=store, **options)


def test_a_failed_attempt_tells_the_policy_how_long_the_log_was_and_a_good_one_forgets_it():
    chosen, store = Seen(), SimpleMemoryStore()
    model = ScriptedModel([ConnectionError("no route"), *["A summary of it all."] * 9])
    with watched(chosen, model, store) as session:
        attempts = spoken(session, 5)
        assert [type(each) for each in attempts] == [Failed]
        assert chosen.contexts[-1].failed_at is None
        attempts = spoken(session, 1)
        assert chosen.contexts[-1].failed_at == 5
        assert [type(each) for each in attempts] == [Compacted]
        spoken(session, 1)
        assert chosen.contexts[-1].failed_at is None


def test_at_most_64_earlier_summaries_are_given_the_newest():
    chosen, model = Seen(), ScriptedModel([f"Summary {n} of what was said." for n in range(400)])
    with watched(chosen, model, SimpleMemoryStore()) as session:
        spoken(session, 3 * PAST, size=30)
        texts = [each.summaries[0].text for each in session.compactions()]
    assert len(texts) > PAST + 2
    past = [message.text for message in chosen.triggers[-1].past]
    assert past == texts[:-2][-PAST:], "the last is what it made of them, the one before was in view"


def test_what_was_forgotten_is_in_no_earlier_summary():
    chosen, model = Seen(), ScriptedModel([f"Summary {n} of what was said." for n in range(200)])
    with watched(chosen, model, SimpleMemoryStore()) as session:
        spoken(session, 20)
        before = {message.text for message in chosen.triggers[-1].past}
        session.forget(start=0, end=1)
        spoken(session, 6)
    assert before
    assert not before & {message.text for message in chosen.triggers[-1].past}


def test_the_state_of_a_policy_follows_the_line_back_on_an_undo():
    chosen = WaterfallCompactor(WATERFALL)
    with watched(chosen, ScriptedModel(), SimpleMemoryStore()) as session:
        spoken(session, 25)
        first, second = session.compactions()
        assert (first.state, second.state) != (None, None)
        assert [len(each.summaries) for each in (first, second)] == [1, 2]
        assert second.summaries[0].covers[0][0] == 0
        assert second.summaries[1].covers[-1][1] == second.covers[-1][1]
        assert all(each.text and each.level >= 1 and not each.redacted for each in second.summaries)
        core = session._core
        assert core.policy_line.state(chosen.name, core.state.head) == second.state
        session.undo_compaction()
        assert core.policy_line.state(chosen.name, core.state.head) == first.state
        session.undo_compaction()
        assert core.policy_line.state(chosen.name, core.state.head) is None


def derived(derived_id: int) -> Derived:
    return Derived(derived_id, "summary", f"Text {derived_id}.", ((0, 1),), None, 1, False, False, "any", 0)


COMMITS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 30))


@given(st.lists(st.one_of(COMMITS, st.none(), st.integers(0, 400)), max_size=60))
def test_earlier_summaries_are_those_that_a_new_look_finds_after_commits_undos_and_other_views(steps: Any):
    rows: dict[int, Any] = {}
    head: Any = None
    texts = 0

    class Log:
        compaction = rows.get

        def derived(self, ids: Sequence[int]) -> list[Derived]:
            return [derived(each) for each in ids]

    kept = PolicyLine(Log())  # type: ignore[arg-type]
    for step in steps:
        shown: Sequence[int] = ()
        if step is None:
            head = None if head is None or head.parent is None else rows[head.parent]
        elif isinstance(step, int):
            shown = range(step, step + 40)
        else:
            chosen, count = step
            content = type("Content", (), {"policy": chosen, "state": ""})
            fields = {
                "compaction_id": len(rows),
                "parent": None if head is None else head.compaction_id,
                "derived_ids": tuple(range(texts, texts + count)),
                "compaction": content,
            }
            texts += count
            head = rows[len(rows)] = type("Row", (), fields)
        found = [message.text for message in kept.past_summaries("a", head, shown)]
        again = PolicyLine(Log()).past_summaries("a", head, shown)  # type: ignore[arg-type]
        assert found == [message.text for message in again]


@pytest.mark.parametrize("chosen", [None, ThresholdCompactor(CompactionConfig(auto_compact_threshold=990))])
def test_each_band_of_the_window_is_told_once_until_less_is_in_it(chosen: Any):
    told: list[Any] = []
    options = {"context_window": 1_000, "reserved_tokens": 100}
    store = SimpleMemoryStore()
    with watched(chosen, None, store, hooks=[told.append], **options) as session:
        spoken(session, 19, size=160)
        alerts = [each for each in told if isinstance(each, ContextWarning | ContextCritical)]
        assert [type(each) for each in alerts] == [ContextWarning, ContextCritical]
        assert [each.context_window for each in alerts] == [1_000, 1_000]
        assert 70 <= alerts[0].percent < 90 <= alerts[1].percent
        assert alerts[0].percent == alerts[0].tokens * 100 // 1_000
        assert alerts[0].tokens > session._core.reserved_tokens


def test_a_session_that_is_opened_again_is_not_told_of_the_same_band(tmp_path: Path):
    told: list[Any] = []
    for count in (6, 1):
        with (
            MemoryStore.open(tmp_path) as store,
            watched(None, None, store, hooks=[told.append], context_window=500) as session,
        ):
            spoken(session, count, size=200)
    assert [type(each) for each in told] == [ContextWarning]
