"""What a host may say before a compaction and after it, and what comes of a bad hook (RULE-29)."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from compacting import assistant, exchange, long, user
from siltstone import CompactionConfig, ConfigError, ThresholdCompactor, acompact, compact, plan
from siltstone.compaction.base import Compaction, CompactionError, Trigger
from siltstone.compaction.validate import guided, injected
from siltstone.engine import Compacted, Failed, Plan, Skipped
from siltstone.hooks import Guidance, HookError
from siltstone.messages import InjectedMessage, in_flight, indexable_text, read_history, turns
from siltstone.testing import RecordingHook, ScriptedModel
from siltstone.tokens import rule

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, recent_turn_budget=1))
NOTE = user("The open tasks: none.")


released = threading.Event()


@pytest.fixture(autouse=True)
def nothing_is_left_hanging() -> Iterator[None]:
    """A call that was given up has a place among those under way, which other tests count."""
    released.clear()
    yield
    released.set()


def hang(_told: object) -> None:
    released.wait(600)


async def hang_async(_told: object) -> None:
    import asyncio

    await asyncio.sleep(60)


class Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, _told: object) -> None:
        raise self.error


async def both(messages: list[Any], **options: Any) -> Any:
    """The outcome of ``compact``, which must be that of ``acompact`` too."""
    hook, again = RecordingHook(), RecordingHook()
    outcome = compact(messages, POLICY, model=ScriptedModel(), hooks=[hook], **options)
    twin = await acompact(messages, POLICY, model=ScriptedModel(), hooks=[again], **options)
    assert type(outcome) is type(twin)
    assert outcome.messages == twin.messages
    assert hook.names == again.names == [type(event).__name__ for event in outcome.events]
    return outcome


@pytest.mark.anyio
async def test_the_before_hook_is_told_the_plan_and_may_let_it_go_on() -> None:
    told: list[Plan] = []
    outcome = await both(long(), on_before_compact=told.append)
    assert isinstance(outcome, Compacted)
    expected = plan(long(), POLICY)
    assert told == [expected, expected]
    assert (expected.policy, expected.cause, expected.compacts) == ("threshold", "manual", True)
    assert expected.covers == outcome.covers


@pytest.mark.anyio
@pytest.mark.parametrize(("veto", "said"), [(True, "on_before_compact said no"), ("not now", "not now")])
async def test_a_veto_is_a_skip_and_no_model_is_asked(veto: bool | str, said: str) -> None:
    messages, model = long(), ScriptedModel()
    outcome = await both(messages, on_before_compact=lambda plan: Guidance(veto=veto))
    assert isinstance(outcome, Skipped)
    assert (outcome.reason, outcome.message) == ("vetoed", said)
    assert all(one is other for one, other in zip(outcome.messages, messages, strict=True))
    compact(messages, POLICY, model=model, on_before_compact=lambda plan: Guidance(veto=veto))
    assert model.requests == []


@pytest.mark.anyio
async def test_pins_hold_for_this_compaction_with_their_groups() -> None:
    messages = [*exchange("c", "walrus"), *long()]
    outcome = await both(messages, on_before_compact=lambda plan: Guidance(pins=[1, 5]))
    assert isinstance(outcome, Compacted)
    for seq in (0, 1, 5):
        assert any(raw is messages[seq] for raw in outcome.messages)
    assert not any(raw is messages[4] for raw in outcome.messages)
    assert not any(start <= seq < end for start, end in outcome.covers for seq in (0, 1, 5))


def test_instructions_stand_between_prompt_and_focus() -> None:
    model = ScriptedModel()
    asked = Guidance(instructions="Keep every price.")
    compact(long(), POLICY, model=model, focus="the codes", on_before_compact=lambda plan: asked)
    said = model.requests[0].messages[-1]["content"]
    assert said.index("not narrate.") < said.index("Keep every price.") < said.index("the codes")


@pytest.mark.anyio
async def test_an_async_hook_is_awaited_by_the_async_door_alone() -> None:
    async def veto(told: Plan) -> Guidance:
        return Guidance(veto="later")

    async def inject(told: Compacted) -> list[Any]:
        return [NOTE]

    outcome = await acompact(long(), POLICY, model=ScriptedModel(), on_before_compact=veto)
    assert outcome.reason == "vetoed"  # type: ignore[union-attr]
    outcome = await acompact(long(), POLICY, model=ScriptedModel(), on_after_compact=inject)
    assert outcome.messages[-1] == NOTE
    refused = compact(long(), POLICY, model=ScriptedModel(), on_before_compact=veto)  # type: ignore[arg-type]
    assert isinstance(refused, Failed)
    assert refused.message == "on_before_compact is async: it needs acompact or AsyncSession"


@pytest.mark.anyio
async def test_what_the_after_hook_gives_stands_at_the_end_and_is_nobody_s_word() -> None:
    told: list[Compacted] = []

    def inject(outcome: Compacted) -> list[Any]:
        told.append(outcome)
        return [NOTE]

    messages = long()
    outcome = await both(messages, on_after_compact=inject)
    assert isinstance(outcome, Compacted)
    assert outcome.messages[-1] == NOTE
    assert isinstance(outcome.messages[-1], InjectedMessage)
    assert outcome.injected == (NOTE,)
    assert told[0].summary == outcome.summary
    assert told[0].messages == outcome.messages[:-1]
    assert told[0].tokens_after < outcome.tokens_after < outcome.tokens_before
    history = read_history(outcome.messages)
    assert history[-1].provenance == "injected_context"
    assert indexable_text(history[-1]) == ""
    assert len(turns(history)) == len(turns(read_history(outcome.messages[:-1])))
    assert not in_flight(history)


BROKEN: list[tuple[str, Any, str]] = [
    ("on_before_compact", Raising(ZeroDivisionError("no")), "raised ZeroDivisionError: no"),
    ("on_before_compact", Raising(TimeoutError("the board")), "raised TimeoutError: the board"),
    ("on_before_compact", lambda told: "go on", "must give a Guidance or None, got str"),
    ("on_before_compact", lambda told: False, "must give a Guidance or None, got bool"),
    ("on_before_compact", lambda told: Guidance(pins=[10_000]), "pins message 10000, which is not in the"),
    ("on_before_compact", lambda told: Guidance(pins=["a"]), "raised ConfigError: pins must be"),  # type: ignore[list-item]
    ("on_before_compact", lambda told: Guidance(veto=1), "raised ConfigError: veto must be"),  # type: ignore[arg-type]
    ("on_before_compact", hang, "gave no answer within 0.05 s"),
    ("on_after_compact", Raising(KeyError("k")), "raised KeyError: 'k'"),
    ("on_after_compact", lambda told: NOTE, "must give a list of messages or None, got dict"),
    ("on_after_compact", lambda told: "a note", "must give a list of messages or None, got str"),
    ("on_after_compact", lambda told: [7], "gave what is no message"),
    ("on_after_compact", lambda told: [{"role": "wizard"}], "gave what is no message"),
    ("on_after_compact", lambda told: [assistant("I did it")], "may give user messages, got one of role"),
    ("on_after_compact", lambda told: [{"role": "system", "content": "x"}], "may give user messages"),
    ("on_after_compact", hang, "gave no answer within 0.05 s"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "hook", "said"), BROKEN)
async def test_a_hook_that_misbehaves_leaves_the_history_and_one_terminal_event(
    name: str, hook: Callable[[Any], Any], said: str
) -> None:
    messages = long()
    outcome = await both(messages, **{name: hook}, hook_timeout=0.05 if hook is hang else 300)
    assert (type(outcome), outcome.reason) == (Failed, "hook_failed")
    assert said in outcome.message
    assert all(one is other for one, other in zip(outcome.messages, messages, strict=True))
    assert [type(event).__name__ for event in outcome.events] == ["CompactionStarted", "CompactionFailed"]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["on_before_compact", "on_after_compact"])
async def test_an_async_hook_that_hangs_is_broken_off(name: str) -> None:
    hook, began = RecordingHook(), time.monotonic()
    options: Any = {name: hang_async, "hook_timeout": 0.05}
    outcome = await acompact(long(), POLICY, model=ScriptedModel(), hooks=[hook], **options)
    assert isinstance(outcome, Failed)
    assert "gave no answer within 0.05 s" in outcome.message
    assert hook.names == ["CompactionStarted", "CompactionFailed"]
    assert time.monotonic() - began < 30, "it did not wait for the hook"


def test_what_an_injection_takes_from_the_gain_is_a_failure() -> None:
    outcome = compact(
        long(3), POLICY, model=ScriptedModel(), on_after_compact=lambda told: [user("word " * 9_000)]
    )
    assert (type(outcome), outcome.reason) == (Failed, "no_reduction")
    assert "with what on_after_compact gave" in outcome.message


def rewrite(raws: list[Any]) -> Compaction:
    messages = read_history(raws)
    return Compaction(messages, messages, [], "", ())


def test_an_injection_that_makes_the_view_as_large_as_before_is_a_failure() -> None:
    with pytest.raises(CompactionError) as caught:
        injected(rewrite([user("go")]), [NOTE], read_history([user("go"), NOTE]), rule("bytes/4"))
    assert (caught.value.reason, caught.value.before) == ("no_reduction", caught.value.after)


def test_an_injection_is_not_blamed_for_a_history_that_was_broken_before() -> None:
    broken = rewrite([user("go"), exchange("c", "x")[1], assistant("done")])
    done = injected(broken, [NOTE], read_history(long()), rule("bytes/4"))
    assert [message.text for message in done.injected] == [NOTE["content"]]


def test_pins_of_a_hook_come_to_those_of_the_session_and_a_summary_takes_none() -> None:
    first, second = read_history([user("one"), user("two")])
    trigger = Trigger("manual", pins=frozenset([0]))
    wished, veto = guided(trigger, Guidance(pins=[1]), [first, second])
    assert (wished.pins, veto) == ({0, 1}, "")
    with pytest.raises(HookError, match="pins message 1, which is not in the history"):
        guided(trigger, Guidance(pins=[1]), [first, replace(second, provenance="compaction_summary")])


def test_nothing_is_said_after_a_call_that_waits() -> None:
    messages = [*long(), user("go"), exchange("c", "")[0]]
    outcome = compact(messages, POLICY, model=ScriptedModel(), on_after_compact=lambda told: [NOTE])
    assert isinstance(outcome, Failed)
    assert "the provider would refuse what on_after_compact gave: call 'c' has no result" in outcome.message


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_hook_ends_the_call_and_is_told(error: type[BaseException]) -> None:
    hook = RecordingHook()
    with pytest.raises(error):
        compact(long(), POLICY, model=ScriptedModel(), hooks=[hook], on_after_compact=Raising(error()))
    assert hook.names == ["CompactionStarted", "CompactionFailed"]


def test_without_a_timeout_the_hook_runs_in_the_caller_s_thread() -> None:
    seen: list[threading.Thread] = []
    for timeout in (None, 10):
        compact(
            long(),
            POLICY,
            model=ScriptedModel(),
            on_before_compact=lambda plan: seen.append(threading.current_thread()),
            hook_timeout=timeout,
        )
    assert seen[0] is threading.current_thread()
    assert seen[1] is not threading.current_thread()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_before_compact": 7}, "on_before_compact must be None or a callable, got 7"),
        ({"on_after_compact": "x"}, "on_after_compact must be None or a callable, got 'x'"),
        ({"hook_timeout": 0}, "hook_timeout must be None or a number of seconds > 0, got 0"),
        ({"check": 1}, "check must be True or False, got 1"),
    ],
)
def test_a_guard_that_cannot_be_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compact(long(), POLICY, model=ScriptedModel(), **options)
    assert str(caught.value) == said


def test_a_rewrite_that_its_provider_would_refuse_is_none() -> None:
    """The history came broken, so what is left of it is too."""
    messages = [*long(), user("go"), exchange("c", "x")[1], assistant("done")]
    assert isinstance(compact(messages, POLICY, model=ScriptedModel()), Compacted)
    hook = RecordingHook()
    outcome = compact(messages, POLICY, model=ScriptedModel(), hooks=[hook], check=True)
    assert (type(outcome), outcome.reason) == (Failed, "rewrite_invalid")
    assert "the result of call 'c' has no call before it (orphan-result)" in outcome.message
    assert hook.names == ["CompactionStarted", "CompactionFailed"]
    assert isinstance(compact(long(), POLICY, model=ScriptedModel(), check=True), Compacted)
