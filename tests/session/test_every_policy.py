"""What holds for every policy: what may never leave a request, and the work that one request may cost."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import siltstone
from compacting import assistant, exchange, filler, system, user
from siltstone.compaction import Compaction, Compactor, Skip, Trigger
from siltstone.compaction.rewrite import parted, rewrite
from siltstone.engine import Compacted, Failed
from siltstone.events import OverheadTooLarge
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.testing import RecordingHook

WINDOW = 2_500

POLICIES: dict[str, Callable[[], Compactor]] = {
    "threshold": siltstone.ThresholdCompactor,
    "no recent turn": lambda: siltstone.ThresholdCompactor(siltstone.CompactionConfig(recent_turn_budget=0)),
    "tiered": siltstone.TieredCompactor,
    "chronicle": lambda: siltstone.TieredCompactor(siltstone.TieredConfig(mode="chronicle")),
    "worker": siltstone.WorkerCompactor,
    "window": siltstone.WindowCompactor,
    "waterfall": lambda: siltstone.WaterfallCompactor(
        siltstone.WaterfallConfig(immediate_window=4, recent_window=4)
    ),
    "smart trim": lambda: siltstone.SmartTrim(siltstone.SmartTrimConfig(reserve_tokens=200)),
    "chain": lambda: siltstone.Chain(siltstone.ClearToolResults(), siltstone.ThresholdCompactor()),
}


#: Policies that ask a model.
WRITERS = {
    name: POLICIES[name] for name in ("threshold", "tiered", "chronicle", "window", "waterfall", "chain")
} | {
    "two writers": lambda: siltstone.Chain(siltstone.WindowCompactor(), siltstone.ThresholdCompactor()),
    "small summariser": lambda: siltstone.ThresholdCompactor(
        siltstone.CompactionConfig(summarizer_window=1_024)
    ),
}


def opened(policy: Compactor, model: Any = None, window: int = WINDOW, **options: Any) -> siltstone.Session:
    options = {"memory": siltstone.SimpleMemoryStore(), "background": False, **options}
    return siltstone.Session.open(None, "s", policy=policy, model=model, context_window=window, **options)


def loops(seed: int, turns: int) -> Iterator[list[dict[str, Any]]]:
    """The steps of *turns* turns: a request, then calls with results of very different sizes."""
    draw = random.Random(seed)
    for turn in range(turns):
        yield [user(f"Turn {turn}: look at the sluice once more.")]
        for step in range(draw.choice([1, 3, 6, 9])):
            size = draw.choice([5, 50, 200, 500])
            yield exchange(f"c{turn}-{step}", f"Level {step}. {filler(size)}")
        yield [assistant("It holds. " * 10)]


class Counting:
    """A model that counts its calls and what it reads. The answers go round."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers or ("".join(f"Gate {n} was seen, and it holds fast. " for n in range(4)),)
        self.read: list[str] = []

    def __call__(self, request: Any) -> Any:
        self.read.append("".join(str(message["content"]) for message in request.messages[:-1]))
        answer = self.answers[(len(self.read) - 1) % len(self.answers)]
        if isinstance(answer, Exception):
            raise answer
        return answer


def talk(first: int, last: int) -> list[dict[str, Any]]:
    return [
        raw
        for turn in range(first, last)
        for raw in (user(f"Gate {turn}? {filler(12)}"), assistant(f"Gate {turn} holds. {filler(20)}"))
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_the_newest_request_the_rules_and_pins_are_in_every_request(name: str) -> None:
    with opened(POLICIES[name]()) as session:
        always = [system("You watch the sluices."), user("Never open the north gate.")]
        session.append(*always, assistant("Understood."))
        session.pin(1)
        for step in loops(7, 16):
            session.append(*step)
            if step[0]["role"] == "user":
                newest = step[0]
            if step[-1]["role"] != "assistant":
                sent = session.prepare().messages
                assert all(message in sent for message in [*always, newest])
        assert session.compactions()


def test_a_worker_keeps_its_task_in_an_emergency_too() -> None:
    """The results of one segment are larger than the window, so the emergency fit acts before its end."""
    with opened(siltstone.WorkerCompactor()) as session:
        task = user("Inspect all sluices.")
        session.append(task)
        for step in range(12):
            session.append(*exchange(f"c{step}", f"Sluice {step}. {filler(400)}"))
            assert task in session.prepare().messages
        session.append(user("Look at the north gate first."), *exchange("gate", filler(400)))
        sent = session.prepare().messages
        assert task in sent
        assert user("Look at the north gate first.") in sent
        assert {record.policy for record in session.compactions()} >= {"emergency"}


def test_a_task_that_is_larger_than_the_window_leaves_in_an_emergency() -> None:
    with opened(siltstone.WorkerCompactor()) as session:
        session.append(user(filler(2_200)), assistant("Done."), user("And now?"))
        session.append(*exchange("c", filler(40)))
        assert session.prepare().messages[-3] == user("And now?")


class Careless(Compactor):
    """A policy of a host that keeps only the newest message."""

    name = "careless"
    token_rule = siltstone.ThresholdCompactor().token_rule

    def should_compact(self, context: Any) -> None:
        """Never due."""

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        yield from ()
        kept = {len(history) - 2, len(history) - 1}
        return rewrite(parted(history, kept), "All of it.", "Summary:")


def test_a_policy_that_discards_the_newest_request_is_refused() -> None:
    history = [user(filler(50)), assistant("Yes."), user("And now?"), *exchange("c", filler(40))]
    refused = siltstone.compact(history, Careless())
    assert (type(refused), refused.reason) == (Failed, "rewrite_invalid")
    assert "the user's newest request at position 2" in refused.message
    answered = siltstone.compact([*history, assistant("It holds."), user("Good.")], Careless())
    assert isinstance(answered, Compacted)


@pytest.mark.parametrize("name", WRITERS)
def test_a_prepare_makes_two_model_calls_at_most_at_any_length(name: str) -> None:
    """The dearest request of the second half costs what the dearest of the first half cost."""
    model = Counting()
    spent: list[int] = []
    with opened(WRITERS[name](), model) as session:
        for turn in range(160):
            question, answer = talk(turn, turn + 1)
            session.append(question)
            before = len(model.read)
            session.prepare()
            assert len(model.read) - before <= 2
            spent.append(sum(map(len, model.read[before:])))
            session.append(answer)
        assert session.compactions()
        covered = sorted({span for record in session.compactions() for span in record.covers})
        assert covered[0][0] == 0
        assert all(
            [raw["content"] for raw in session.expand(record.id)]
            == [session.log()[seq]["content"] for start, end in record.covers for seq in range(start, end)]
            for record in session.compactions()[-2:]
        )
    assert max(spent[80:]) <= 1.2 * max(spent[:80])


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "answers",
    [(), (OSError("down"),), (ValueError("prompt is too long: 3000 tokens > 1000 maximum"),), ("",)],
    ids=["answers", "raises", "refuses", "says nothing"],
)
def test_of_a_list_of_any_length_a_prepare_reads_as_much_as_two_requests_hold(
    name: str, answers: tuple[Any, ...]
) -> None:
    """The model may work, fail or refuse: nobody waits for more than two calls, and the window is kept."""
    model = Counting(*answers)
    with opened(WRITERS[name](), [model, model]) as session:
        session.observe([*talk(0, 300), user("And the sluice?")])
        for _ in range(6):
            before = len(model.read)
            prepared = session.prepare()
            assert len(model.read) - before <= 2
            assert prepared.tokens <= WINDOW
            assert prepared.messages[-1] == user("And the sluice?")
        numbers = [n for record in session.compactions()[-1:] for span in record.covers for n in range(*span)]
        assert numbers == sorted(set(numbers))


def test_two_requests_read_the_newest_messages_and_lines_of_all_others() -> None:
    model = Counting()
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(retained_token_budget=200))
    with opened(policy, model) as session:
        session.append(*talk(0, 1))
        session.prepare()
        session.append(user("The password of the north gate is FERRY-88."), *talk(1, 300), user("And now?"))
        session.prepare()
        first, second = model.read
        assert "FERRY-88" in first
        assert "Earlier summary of messages 0-" in second
        assert "Gate 290 holds." in second
        assert len(first) + len(second) < 4 * 2 * WINDOW
        (record,) = session.compactions()
        assert (record.level, record.covers[0][0], record.degraded) == (1, 0, False)


@pytest.mark.parametrize("is_list", [True, False], ids=["the next model's", "the only model's"])
def test_the_second_call_of_a_prepare_is_made_where_the_first_one_fails(is_list: bool) -> None:
    """A list of models whose first is down still gets its summary in two calls."""
    up = Counting("The gates were inspected.")
    down = Counting(OSError("down")) if is_list else Counting(OSError("reset"), "The gates were inspected.")
    models = [down, up] if is_list else down
    with opened(
        siltstone.ThresholdCompactor(siltstone.CompactionConfig(attempts=3, retry_delay=0)), models
    ) as session:
        session.append(*talk(0, 1))
        session.prepare()
        session.append(*talk(1, 60), user("And now?"))
        assert isinstance(session.prepare().compaction, Compacted)
        assert (len(down.read), len(up.read)) == ((1, 1) if is_list else (2, 0))


def reported(session: siltstone.Session, turns: int, overhead: int, factor: float = 1.0) -> list[int]:
    """The provider's counts of *turns* requests: *overhead* and *factor* times what we estimate."""
    counts = []
    for turn in range(turns):
        question, answer = talk(turn, turn + 1)
        session.append(question)
        counts.append(overhead + int(session.prepare().tokens * factor))
        session.append(answer, usage={"input_tokens": counts[-1]})
    return counts


OVERLOADED: dict[str, tuple[Callable[[], Compactor], int]] = {
    "threshold": (siltstone.ThresholdCompactor, 0),
    "absolute threshold": (
        lambda: siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=6_000)),
        0,
    ),
    "chain": (lambda: siltstone.Chain(siltstone.ClearToolResults(), siltstone.ThresholdCompactor()), 0),
    "tiered": (siltstone.TieredCompactor, 500),
    "chronicle": (lambda: siltstone.TieredCompactor(siltstone.TieredConfig(mode="chronicle")), 500),
    "worker": (lambda: siltstone.WorkerCompactor(siltstone.TieredConfig(worker_turns_per_segment=2)), 500),
}


@pytest.mark.parametrize("name", [name for name in OVERLOADED if name != "chronicle"])
def test_what_is_sent_beside_the_messages_causes_no_compaction_and_is_told_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Tools of 9,000 tokens in a window of 10,000: the messages are compacted for themselves alone."""
    policy, named = OVERLOADED[name]
    hook = RecordingHook()
    store = siltstone.SimpleMemoryStore()
    for _ in range(2):  # a second process goes on
        options: dict[str, Any] = {"memory": store, "reserved_tokens": named, "hooks": [hook]}
        with opened(policy(), Counting(), 10_000, **options) as session:
            reported(session, 5, 9_000)
            assert session.compactions() == []
    (event,) = (event for event in hook.events if isinstance(event, OverheadTooLarge))
    assert 8_800 < event.fixed_tokens <= 9_000
    assert (event.policy, event.context_window) == (policy().name, 10_000)
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert all(f"{size:,}" in warning for size in (event.fixed_tokens, event.history_tokens, 10_000))
    assert "fewer or shorter tool definitions" in warning


@pytest.mark.parametrize("name", OVERLOADED)
def test_with_too_much_beside_them_the_messages_still_fit_the_window(name: str) -> None:
    policy, named = OVERLOADED[name]
    with opened(policy(), Counting(), 10_000, reserved_tokens=named) as session:
        counts = reported(session, 150, 9_000)
        made = len(session.compactions())
    assert max(counts) <= 10_000
    assert 4 < made < 60


@pytest.mark.parametrize(("window", "overhead", "large"), [(32_768, 29_000, 3_000), (8_192, 6_000, 1_500)])
@pytest.mark.parametrize("name", ["nothing due", "threshold", "window", "worker"])
def test_a_jump_of_the_conversation_leaves_room_for_what_is_sent_beside_it(
    name: str, window: int, overhead: int, large: int
) -> None:
    """Long results, of which no policy hears before they are there."""
    never = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=window))
    policy = never if name == "nothing due" else POLICIES[name]()
    with opened(policy, Counting(), window) as session:
        reported(session, 2, overhead)
        for number in range(6):
            session.append(*exchange(f"c{number}", filler(large)))
            prepared = session.prepare()
            assert prepared.tokens + overhead <= window
            assert session.plan().compacts is False
            session.append(assistant("It holds."), usage={"input_tokens": prepared.tokens + overhead})
        assert {each.policy for each in session.compactions()} >= {"emergency"}


def test_what_was_learned_beside_the_messages_refuses_no_request() -> None:
    """A question that is too long for the room beside the tools is sent: the tools may have left."""
    with siltstone.Session.open(
        None, "s", memory=siltstone.SimpleMemoryStore(), model=Counting(), context_window=10_000
    ) as session:
        reported(session, 2, 9_000)
        session.append(question := user(filler(1_500)))
        assert session.prepare().messages[-1] == question
        assert session.prepare().tokens > 1_000


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_what_is_sent_beside_the_messages_is_learned_anew_when_it_changes(factor: float) -> None:
    with siltstone.Session.open(
        None, "s", memory=siltstone.SimpleMemoryStore(), model=Counting(), context_window=10_000
    ) as session:
        reported(session, 4, 9_000)
        assert session.compactions() == []
        counts = reported(session, int(160 / factor), 1_000, factor)
        assert session.compactions()
        assert 8_000 < max(counts) < 9_500, "the whole window is used again"
