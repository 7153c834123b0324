"""The contract of every adapter: one suite, which runs with the real framework and a scripted model.

The test file of an adapter defines how an agent runs in its framework (:class:`Case`), and inherits the laws
from :class:`AdapterContract`.
"""

import asyncio
import copy
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

import siltstone
import siltstone.messages
from siltstone.adapters.host import HostHistory
from siltstone.llm import Completion, UsageRecord
from siltstone.messages import broken_tool_groups, decode, logged, read_history, read_mark, read_message
from siltstone.recall.turn import is_recalled
from siltstone.testing import ScriptedModel
from siltstone.tools.base import Tool

SYSTEM = "You are a clerk. Never tell the name of the ship."
SUMMARY = "They spoke of cargo."
INPUT_TOKENS, OUTPUT_TOKENS = 11, 3  #: what the scripted agent's model says each of its calls cost
SUMMARY_USAGE = UsageRecord("small", 700, 40)
WINDOW = 3_000


@dataclass(frozen=True)
class Say:
    """The model answers, where *thought* is given after reasoning that the provider has signed."""

    text: str
    thought: str = ""


@dataclass(frozen=True)
class Call:
    """The model calls ``look_up`` once for each of *topics*, side by side."""

    topics: tuple[str, ...]
    thought: str = ""


@dataclass(frozen=True)
class Refuse:
    """The provider refuses the request as too large."""

    text: str = "prompt is too long: 9000 tokens > 2500 maximum"


@dataclass(frozen=True)
class Hang:
    """The provider never answers: the caller gives up."""


Reply = Say | Call | Refuse | Hang


class ProcessKilled(BaseException):
    """The process of an agent dies."""


def look_up(topic: str) -> str:
    return f"{topic}: " + f"crates of {topic} stand on the quay. " * 8


def killed(topic: str) -> str:
    """The tool of an agent whose process dies in it."""
    raise ProcessKilled(topic)


def signature(thought: str) -> str:
    return f"sig-{thought}-é-0123456789"


@dataclass
class Run:
    """The run of a real framework with a scripted model."""

    sent: list[list[Any]] = field(default_factory=list)  #: native messages of each model call
    systems: list[str] = field(default_factory=list)  #: the system text of each
    tools: list[set[str]] = field(default_factory=list)  #: the names of the tools offered with each
    stored: list[Any] = field(default_factory=list)  #: what the host keeps afterwards
    tokens: int = 0  #: input tokens, as the host counts them in all
    answers: list[str] = field(default_factory=list)  #: what the user got, an answer for each input
    state: Any = None  #: goes into the next ``play``, to go on


async def leaves_the_loop_free(monkeypatch: pytest.MonkeyPatch, search: Callable[[], Awaitable[Any]]) -> bool:
    """Whether the tool of siltstone that *search* calls runs in another thread than the event loop."""
    ran, read = list[int](), Tool.read

    def noted(tool: Tool, arguments: Any) -> Mapping[str, Any]:
        ran.append(threading.get_ident())
        return read(tool, arguments)

    monkeypatch.setattr(Tool, "read", noted)
    await search()
    return bool(ran) and threading.get_ident() not in ran


class Case(ABC):
    """An agent with the tool ``look_up`` and the prompt ``SYSTEM``, with the adapter, as users write it."""

    #: Whether the framework hands over the same objects, so that messages are compared by identity.
    is_identical = True
    #: The messages of a turn with two calls in the log: the question, the calls, the results, the answer.
    messages_of_a_turn = 5
    #: The messages of a thought beside them.
    messages_of_a_thought = 0
    #: Messages of the log that are a system prompt.
    prompts = 0
    #: Whether there is a synchronous way to run an agent.
    has_sync = True
    #: Whether a hook may send a request again.
    can_send_again = True
    #: Whether the host counts tokens of the whole run, and a summary's are to be among them.
    counts_usage = True

    #: Whether a list without history tells the adapter that the host begins anew.
    knows_beginnings = True
    #: Whether the host keeps an answer before its calls have results.
    keeps_open_calls = True
    #: Whether the host keeps the list, so that two of them can go on with one session.
    keeps_list = True
    #: What other middleware may do to a request before siltstone sees it, and no further than this request.
    may_change = ("copies", "adds")
    #: What other middleware makes of the messages of a request; None if there is none.
    change: Callable[[list[Any]], list[Any]] | None = None
    #: What makes the system prompt anew, as the framework allows it; None: it is ``SYSTEM``.
    clock: Callable[[], str] | None = None
    #: What the agent has as its tool.
    tool: Callable[[str], str] = staticmethod(look_up)
    #: The reader and writer of the framework's messages; None if its messages are dicts that a session reads.
    dialect: Any = None

    @property
    def told(self) -> str:
        """The system prompt of the next request."""
        return SYSTEM if self.clock is None else self.clock()

    @abstractmethod
    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        """Runs the agent once for each of *inputs*, in one conversation; its model replies by *script*."""

    @abstractmethod
    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        """One run as the coroutine that a host may cancel. *run* is told of each model call at once."""

    @abstractmethod
    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        """Native messages as dicts that ``read_message`` reads: written here, not by the adapter."""

    @abstractmethod
    def check(self, messages: Sequence[Any]) -> None:
        """Raises where the framework's own converter or types refuse a request."""

    @abstractmethod
    def opaque(self, messages: Sequence[Any]) -> list[str]:
        """The signed reasoning in native messages, each as JSON text."""

    @abstractmethod
    def reload(self, state: Any) -> Any:
        """*state* as another process has it, that has read it from a disk."""

    def whole(self, run: Run) -> Any:
        """The state of a host that sends its whole list with each request, in another process."""
        return self.reload(run.state)

    def form(self, message: Any) -> Any:
        """All that the framework keeps of a message, as a value to compare."""
        return message

    def summariser(self, text: str, usage: UsageRecord) -> Any:
        """The writer of the session's summaries, which counts *usage* for each."""
        return ScriptedModel([Completion(text, usage)])

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any] | None:
        """All that a user reads who follows the stream of one run, and the state after it.

        None where the framework streams nothing.
        """
        return None

    def answers(self, history: Sequence[siltstone.messages.Message]) -> int:
        """How many answers of the model a request has."""
        return sum(message.role == "assistant" for message in history)

    def is_same(self, one: Any, other: Any) -> bool:
        if self.is_identical:
            return one is other
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def through_the_log(dialect: Any, message: Any) -> Any:
    """*message* as a later process gets it that has the log alone."""
    read, _ = HostHistory(dialect).read([message])
    (back,) = HostHistory(dialect).write([decode(logged(piece)) for piece in read])
    return back


def opened(
    model: Any = None, *, kind: Any = siltstone.Session, name: str = "chat", path: Any = None, **options: Any
) -> Any:
    """A session that compacts early and often."""
    config = siltstone.CompactionConfig(
        auto_compact_threshold=1_000,
        min_turns_between_compactions=1,
        recent_turn_budget=2,
        max_summary_tokens=200,
    )
    chosen: dict[str, Any] = {
        "policy": siltstone.ThresholdCompactor(config),
        "model": ScriptedModel([SUMMARY]) if model is None else model,
        "context_window": WINDOW,
        "memory": siltstone.SimpleMemoryStore(),
    }
    return kind.open(path, name, **{**chosen, **options})


def conversation(turns: int) -> tuple[list[Reply], list[str]]:
    """A script of *turns* turns with two calls side by side in each, and what the user says."""
    script: list[Reply] = []
    for number in range(turns):
        script.append(Call((f"salt-{number}", f"tin-{number}"), thought=f"plan {number}"))
        script.append(Say(f"Answer {number}: both are there.", thought=f"done {number}"))
    return script, [f"Question {number}: what stands on quay {number}?" for number in range(turns)]


class AdapterContract:
    """The laws. A subclass names its case."""

    case: Case

    @pytest.fixture(params=["sync", "async"])
    def is_async(self, request: pytest.FixtureRequest) -> bool:
        """Each law holds both ways."""
        if request.param == "sync" and not self.case.has_sync:
            pytest.skip("the framework has no synchronous way")
        return bool(request.param == "async")

    def play(self, turns: int, is_async: bool, session: Any = None, state: Any = None) -> tuple[Run, Any]:
        """*turns* turns of the usual conversation."""
        session = opened() if session is None else session
        script, inputs = conversation(turns)
        return self.case.play(session, script, inputs, is_async=is_async, state=state), session

    def read(self, messages: Sequence[Any]) -> list[siltstone.messages.Message]:
        return read_history(self.case.neutral(messages))

    def _is_ours(self, native: Any) -> bool:
        """Whether siltstone wrote *native*, or something that the framework put into one message with it."""
        said = [read_message(each, 0) for each in self.case.neutral([native])]
        return any(is_recalled(message) or read_mark(message.text) for message in said)

    def test_a_result_never_travels_without_its_call(self, is_async: bool) -> None:
        run, session = self.play(8, is_async)
        assert session.compactions()
        for sent in run.sent:
            history = self.read(sent)
            assert broken_tool_groups(history) == 0
            calls = [
                part.call_id for message in history for part in message.parts if part.kind == "tool_call"
            ]
            results = [
                part.call_id for message in history for part in message.parts if part.kind == "tool_result"
            ]
            assert sorted(calls) == sorted(results)

    def test_every_request_is_one_that_the_framework_can_send(self, is_async: bool) -> None:
        run, _ = self.play(8, is_async)
        assert len(run.sent) == 16
        for sent in run.sent:
            self.case.check(sent)

    def test_system_prompt_and_pinned_messages_are_in_every_request(self, is_async: bool) -> None:
        session = opened()
        script, inputs = conversation(8)
        first = self.case.play(session, script[:2], inputs[:1], is_async=is_async)
        question = next(seq for seq, each in enumerate(session.log()) if inputs[0] in json.dumps(each))
        session.pin(question)
        run = self.case.play(session, script[2:], inputs[1:], is_async=is_async, state=first.state)
        assert session.compactions()
        for sent, system in zip(run.sent, run.systems, strict=True):
            assert system == SYSTEM
            assert inputs[0] in [message.text for message in self.read(sent) if message.role == "user"]

    def test_signed_reasoning_is_bit_identical_or_gone(self, is_async: bool) -> None:
        run, session = self.play(8, is_async)
        assert session.compactions()
        plain, _ = self.play(8, is_async, opened(policy=None, model=None))
        originals = self.case.opaque(plain.stored)
        if not originals:
            pytest.skip("the framework carries no signed reasoning")
        assert len(set(originals)) == 16
        for sent in run.sent:
            known = self.case.opaque(sent)
            assert set(known) <= set(originals)
            assert len(known) == self.case.answers(self.read(sent))  # each with its whole answer

    def test_untouched_messages_are_the_same_objects(self, is_async: bool) -> None:
        run, session = self.play(6, is_async)
        assert session.compactions()
        last, stored = run.sent[-1], run.stored
        untouched = [message for message in last if not self._is_ours(message)]
        assert 0 < len(untouched) < len(last)
        assert all(any(self.case.is_same(message, each) for each in stored) for message in untouched)

    def test_recall_reaches_the_model_and_nothing_else(self, is_async: bool) -> None:
        session = opened(recall=True)
        script, inputs = conversation(8)
        run = self.case.play(
            session, [*script, Say("On quay 0.")], [*inputs, "Where did salt-0 stand?"], is_async=is_async
        )
        recalled = [message for message in self.read(run.sent[-1]) if is_recalled(message)]
        assert "salt-0" in recalled[0].text
        assert len(recalled) == 1
        assert not any(is_recalled(message) for message in self.read(run.stored))
        assert not any(is_recalled(read_message(each, 0)) for each in session.log())
        assert "memory_search" in run.tools[-1]

    def test_what_siltstone_made_is_never_logged_as_said(self, is_async: bool) -> None:
        """Five compactions in a row: each reads the summary of the one before, and none is an original."""
        run, session = self.play(30, is_async)
        done = session.compactions()
        assert len(done) >= 5
        assert all(each.reason != "branch" for each in done)
        logged = session.log()
        assert not any(read_mark(read_message(each, 0).text) for each in logged)
        said = [read_message(each, 0).text for each in logged]
        _, inputs = conversation(30)
        assert [text for text in said if text in inputs] == inputs
        assert [text for text in said if text.startswith("Answer")] == run.answers
        turn = self.case.messages_of_a_turn + 2 * self.case.messages_of_a_thought
        assert len(logged) == self.case.prompts + 30 * turn
        summaries = [
            message for message in self.read(run.sent[-1]) if message.provenance == "compaction_summary"
        ]
        assert len(summaries) == 1

    def test_a_summary_comes_first_and_is_known_when_the_host_has_read_its_state_anew(
        self, is_async: bool
    ) -> None:
        run, session = self.play(6, is_async)
        before = len(session.log())
        later = self.case.play(
            session, [Say("Gladly.")], ["Tell me more."], is_async=is_async, state=self.case.reload(run.state)
        )
        assert len(session.log()) == before + 2
        assert [each.reason for each in session.compactions() if each.reason == "branch"] == []
        first = self.read(later.sent[0])
        assert [message.provenance for message in first].count("compaction_summary") == 1
        assert SUMMARY in first[[m.provenance for m in first].index("compaction_summary")].text

    def test_a_process_that_opens_the_session_anew_goes_on(self, is_async: bool, tmp_path: Any) -> None:
        script, inputs = conversation(6)
        with opened(path=tmp_path, memory=True) as session:
            run = self.case.play(session, script, inputs, is_async=is_async)
            logged = session.log()
        with opened(path=tmp_path, memory=True) as session:
            later = self.case.play(
                session, [Say("Yes.")], ["And now?"], is_async=is_async, state=self.case.reload(run.state)
            )
            assert session.log()[: len(logged)] == logged
            assert len(session.log()) == len(logged) + 2
            assert not any(each.reason == "branch" for each in session.compactions())
            sent = later.sent[0]
            self.case.check(sent)
            assert broken_tool_groups(self.read(sent)) == 0
            assert len(sent) < len(logged)

    @pytest.mark.parametrize("name", ["copies", "adds"])
    def test_other_middleware_brings_no_cut_result_back(self, name: str, is_async: bool) -> None:
        if name not in self.case.may_change:
            pytest.skip("what stands before siltstone changes the conversation itself")
        adds = name == "adds"

        def change(messages: list[Any]) -> list[Any]:
            return copy.deepcopy([*messages, *messages[:adds]])

        script = [*(Call((f"salt-{number}-{'x' * 400}",)) for number in range(6)), Say("Done.")]
        sent, logs = [], []
        for case in (self.case, copy.copy(self.case)):
            case.change = None if case is self.case else change
            session = opened(policy=siltstone.ThresholdCompactor(), model=None)
            run = case.play(session, script, ["Do the rounds."], is_async=is_async)
            logs.append([read_message(each, 0).text for each in session.log()])
            sent.append([[[part.text for part in each.parts] for each in self.read(one)] for one in run.sent])
        assert logs[0] == logs[1]
        assert any("tokens cut" in json.dumps(each) for each in sent[0])
        more = len(sent[1][0]) - len(sent[0][0])
        assert bool(more) == adds
        assert [each[: len(each) - more] for each in sent[1]] == sent[0]

    def test_what_only_the_log_has_comes_back_as_the_host_had_it(self, is_async: bool, tmp_path: Any) -> None:
        if self.case.dialect is None:
            pytest.skip("its messages are dicts, which the log keeps as they are")
        options: dict[str, Any] = {"path": tmp_path, "memory": True, "policy": None, "model": None}
        with opened(**options) as session:
            run, _ = self.play(3, is_async, session)
            had = copy.deepcopy([self.case.form(each) for each in run.stored])
        with opened(**options) as session:
            written = HostHistory(self.case.dialect).write(session.history())
            assert [self.case.form(each) for each in written] == had

    def test_a_host_that_begins_anew_goes_on_with_what_was_said(self, is_async: bool, tmp_path: Any) -> None:
        """The first word is the same in both lives. No text of the first is lost."""
        script, inputs = conversation(6)
        options: dict[str, Any] = {"path": tmp_path, "memory": True, "context_window": 2_000}
        options["policy"] = siltstone.ThresholdCompactor()
        with opened(**options) as session:
            self.case.play(session, [Say("Hello."), *script], ["Hi", *inputs], is_async=is_async)
            logged = session.log()
        with opened(**options) as session:
            later = self.case.play(
                session, [Say("Hello."), Say("Both.")], ["Hi", "What stands on quay 5?"], is_async=is_async
            )
            assert session.log()[: len(logged)] == logged
            assert len(session.log()) == len(logged) + 4
            assert "Question 5" in json.dumps(session.history())
            assert session.search("Question 0") or "Question 0" in json.dumps(session.history())
            assert not any(each.reason == "branch" for each in session.compactions())
            for sent in later.sent:
                self.case.check(sent)
                assert broken_tool_groups(self.read(sent)) == 0
            assert any("Question 5" in message.text for message in self.read(later.sent[-1]))

    @pytest.mark.parametrize("unrelated", ["first", "always"])
    def test_a_host_that_sends_the_newest_message_alone_has_all_of_them_in_the_session(
        self, unrelated: str, is_async: bool
    ) -> None:
        if not self.case.knows_beginnings:
            pytest.skip("a loop needs unrelated='always'")
        session = opened(policy=None, model=None, unrelated=unrelated)
        words = ["Hi", "yes", "yes", "no"] * 10
        sent = []
        for word in words:
            run = self.case.play(session, [Say("Noted.")], [word], is_async=is_async)
            sent.append(len(self.read(run.sent[0])))
        roles = [read_message(each, 0).role for each in session.log()]
        assert (roles.count("user"), roles.count("assistant")) == (40, 40)
        assert sent == [2 * number + 1 for number in range(40)]
        assert session.compactions() == []

    def test_a_second_list_in_one_session_is_stopped_before_it_writes(self, is_async: bool) -> None:
        """As of two tabs: the first goes on after the second has begun."""
        if not (self.case.knows_beginnings and self.case.keeps_list):
            pytest.skip("the host has no list of its own")
        session = opened(policy=None, model=None)
        ann = self.case.play(session, [Say("Hello.")] * 2, ["I am Ann.", "Am I?"], is_async=is_async)
        self.case.play(session, [Say("Hello.")], ["I am Ben."], is_async=is_async)
        logged = session.log()
        with pytest.raises(Exception, match="a session of its own for each conversation") as raised:
            self.case.play(session, [Say("Yes.")], ["Who am I?"], is_async=is_async, state=ann.state)
        causes = raised.value, raised.value.__cause__, raised.value.__context__
        assert any(isinstance(each, siltstone.HistoryConflictError) for each in causes)
        assert session.log() == logged

    def test_a_system_prompt_with_the_time_in_it_is_sent_as_it_is_now(
        self, is_async: bool, tmp_path: Any
    ) -> None:
        """The process is restarted half way. The messages are those that an agent without a clock sends."""
        clocked, times = copy.copy(self.case), count()
        clocked.clock = lambda: f"{SYSTEM} It is {next(times):03} minutes past noon."
        script, inputs = conversation(6)
        played = []
        for case in (self.case, clocked):
            options = {"path": tmp_path, "memory": True, "name": str(case.clock), "policy": None}
            runs, state = list[Run](), None
            for half in (0, 3):
                with opened(**options) as session:
                    turns = script[2 * half : 2 * half + 6], inputs[half : half + 3]
                    runs.append(case.play(session, *turns, is_async=is_async, state=state))
                    state = case.reload(runs[-1].state)
                    assert session.compactions() == []
                    length = len(session.log())
            sent = [case.neutral(each) for run in runs for each in run.sent]
            played.append((sent, length))
        assert played[0] == played[1]
        systems = [each for run in runs for each in run.systems]
        assert systems == sorted(systems)
        assert len(set(systems)) >= len(inputs)

    def test_complete_lists_with_a_session_for_each_request_are_followed(
        self, is_async: bool, tmp_path: Any
    ) -> None:
        """As of a server, whose user then edits the first message, and goes on with that."""
        if not self.case.keeps_list:
            pytest.skip("the host has no list of its own")
        options = {"path": tmp_path, "memory": True, "policy": None, "unrelated": "branch"}
        script, inputs = conversation(4)
        edited = [*script, Say("Tin."), Say("Salt.")], [*inputs, "Which quay has tin?", "And the other?"]
        branches = []
        state: Any = None
        for number, text in enumerate(edited[1]):
            state = None if number == len(inputs) else state
            with opened(**options) as session:
                replies = edited[0][2 * number : 2 * number + 2] if number < 4 else [edited[0][4 + number]]
                run = self.case.play(session, replies, [text], is_async=is_async, state=state)
                state = self.case.whole(run)
                branches.append(len(session.compactions()))
                said = [message.text for message in self.read(run.sent[-1]) if message.role == "user"]
                assert [each for each in said if each] == edited[1][number // 4 * 4 : number + 1]
                for sent in run.sent:
                    self.case.check(sent)
        assert branches == [0, 0, 0, 0, 1, 1]

    @pytest.mark.parametrize("is_kept", [True, False], ids=["its list was kept", "its list is lost"])
    def test_a_call_that_a_killed_process_left_open_is_answered_in_the_next_request(
        self, is_kept: bool, is_async: bool, tmp_path: Any
    ) -> None:
        options: dict[str, Any] = {"path": tmp_path, "memory": True, "policy": None, "model": None}
        dying, run = copy.copy(self.case), Run()
        dying.tool = killed
        with opened(**options) as session:
            before, _ = self.play(2, True, session)
            with pytest.raises(ProcessKilled):
                asyncio.run(
                    dying.start(session, [Call(("salt", "tin"))], "Where is salt?", before.state, run)
                )
            logged = session.log()
        state = self.case.reload(run.state) if is_kept else None
        known = [part for each in read_history(logged) for part in each.parts if part.kind == "tool_call"]
        open_calls = 2 if is_kept and self.case.keeps_open_calls else len(known) - 4
        with opened(**options) as session:
            later = self.case.play(
                session,
                [Say("On the quay."), Say("Yes.")],
                ["Are you there?", "And now?"],
                is_async=is_async,
                state=state,
            )
            assert session.log()[: len(logged)] == logged
            assert not any(each.reason == "branch" for each in session.compactions())
        for sent in later.sent:
            self.case.check(sent)
            history = self.read(sent)
            assert broken_tool_groups(history) == 0
            assert "Where is salt?" in [message.text for message in history if message.role == "user"]
            calls = {part.call_id for each in history for part in each.parts if part.kind == "tool_call"}
            told = [part for each in history for part in each.parts if part.kind == "tool_result"]
            assert {part.call_id for part in told} == calls
            assert len(calls) == 4 + open_calls
            assert sum("nterrupted" in part.text for part in told) == open_calls

    @pytest.mark.parametrize("failure", [RuntimeError("no"), "", "I'm sorry, I can't help with that."])
    def test_a_summariser_that_fails_changes_nothing_and_ends_no_run(
        self, failure: Any, is_async: bool
    ) -> None:
        run, session = self.play(4, is_async, opened(ScriptedModel([failure]), context_window=100_000))
        plain, _ = self.play(4, is_async, opened(policy=None, model=None))
        assert [each for each in session.compactions() if not each.degraded] == []
        if not session.compactions():
            assert self.case.neutral(run.stored) == self.case.neutral(plain.stored)
        assert run.answers == plain.answers

    def test_a_cancelled_run_leaves_host_and_session_in_step(self) -> None:
        session = opened()
        script, inputs = conversation(3)
        before = self.case.play(session, script, inputs, is_async=True)
        run = Run()

        async def cancelled() -> None:
            task = asyncio.create_task(
                self.case.start(session, [Hang()], "Are you there?", before.state, run)
            )
            while not run.sent:
                await asyncio.sleep(0)
                if task.done():
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        later = self.case.play(
            session, [Say("Now I am.")], ["Still there?"], is_async=True, state=before.state
        )
        assert later.answers == ["Now I am."]
        for sent in later.sent:
            self.case.check(sent)
            assert broken_tool_groups(self.read(sent)) == 0
        kept = [text for message in self.read(later.stored) if (text := message.text)]
        shown = [text for raw in session.history() if (text := read_message(raw, 0).text)]
        assert shown[-2:] == kept[-2:] == ["Still there?", "Now I am."]

    def test_a_cancelled_summary_leaves_the_view_as_it_was(self) -> None:
        waiting = threading.Event()

        async def hangs(request: Any) -> str:
            waiting.set()
            await asyncio.Event().wait()
            return ""

        async def main() -> None:
            session = await opened(hangs, kind=siltstone.AsyncSession, context_window=100_000)
            script, inputs = conversation(8)
            state, run = None, Run()
            for number, text in enumerate(inputs):
                turn = script[2 * number : 2 * number + 2]
                task = asyncio.create_task(self.case.start(session, turn, text, state, run))
                while not task.done() and not waiting.is_set():
                    await asyncio.sleep(0.001)
                if waiting.is_set():
                    break
                await task
                state = run.state
            assert waiting.is_set()
            view = session.history()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.history()[: len(view)] == view
            assert await session.compactions() == []
            await session.close()

        asyncio.run(main())

    def test_the_summarisers_usage_is_in_the_hosts_totals(self, is_async: bool) -> None:
        if not self.case.counts_usage:
            pytest.skip("the framework has no totals")
        session = opened(self.case.summariser(SUMMARY, SUMMARY_USAGE))
        run, _ = self.play(6, is_async, session)
        made = sum(bool(each.usage) for each in session.compactions())
        assert made > 0
        assert session.usage.input_tokens == made * SUMMARY_USAGE.input_tokens
        assert run.tokens == 12 * INPUT_TOKENS + made * SUMMARY_USAGE.input_tokens

    def test_a_user_who_follows_the_stream_reads_no_summary(self) -> None:
        session = opened(self.case.summariser(SUMMARY, SUMMARY_USAGE))
        script, inputs = conversation(6)
        told, state = "", None
        for number, text in enumerate(inputs):
            seen = self.case.stream(session, script[2 * number : 2 * number + 2], text, state)
            if seen is None:
                pytest.skip("the framework streams nothing")
            told, state = told + seen[0], seen[1]
        assert session.compactions()
        assert all(f"Answer {number}: both are there." in told for number in range(6))
        assert SUMMARY not in told

    def test_async_sends_what_sync_sends(self) -> None:
        if not self.case.has_sync:
            pytest.skip("the framework has no synchronous way")
        one, _ = self.play(8, False)
        other, _ = self.play(8, True)
        assert [self.case.neutral(sent) for sent in one.sent] == [
            self.case.neutral(sent) for sent in other.sent
        ]

    def test_an_async_session_sends_what_a_session_sends(self) -> None:
        async def main() -> tuple[list[Any], list[str]]:
            async with opened(kind=siltstone.AsyncSession) as session:
                script, inputs = conversation(8)
                run, state = Run(), None
                for number, text in enumerate(inputs):
                    await self.case.start(session, script[2 * number : 2 * number + 2], text, state, run)
                    state = run.state
                return run.sent, [each.reason for each in await session.compactions()]

        sent, reasons = asyncio.run(main())
        plain, session = self.play(8, True)
        assert reasons == [each.reason for each in session.compactions()]
        assert [self.case.neutral(each) for each in sent] == [self.case.neutral(each) for each in plain.sent]

    def test_two_conversations_do_not_see_each_other(self, is_async: bool) -> None:
        sessions = {name: opened(name=name) for name in ("amber", "birch")}
        runs: dict[str, list[Run]] = {name: [] for name in sessions}

        def work(name: str) -> None:
            state = None
            for number in range(4):
                run = self.case.play(
                    sessions[name],
                    [Call((f"{name}-{number}", "tin")), Say(f"Answer of {name}.")],
                    [f"Question of {name}, {number}?"],
                    is_async=is_async,
                    state=state,
                )
                runs[name].append(run)
                state = run.state

        with ThreadPoolExecutor(len(sessions)) as pool:
            list(pool.map(work, sessions))
        for name, other in (("amber", "birch"), ("birch", "amber")):
            assert len(runs[name]) == 4
            assert other not in json.dumps(sessions[name].log())
            assert len(sessions[name].log()) == self.case.prompts + 4 * self.case.messages_of_a_turn

    def test_a_stream_that_is_refused_before_its_content_is_asked_for_again(self) -> None:
        session = opened(policy=siltstone.ThresholdCompactor(), context_window=100_000)
        script, inputs = conversation(4)
        told, state = "", None
        for number, text in enumerate([*inputs, "And now?"]):
            replies = script[2 * number : 2 * number + 2] or [Refuse(), Say("It fits.")]
            seen = self.case.stream(session, replies, text, state)
            if seen is None:
                pytest.skip("the framework streams nothing")
            told, state = seen
        assert told.strip() == "It fits."
        assert [each.reason for each in session.compactions()] == ["overflow"]

    def test_a_request_that_is_too_large_is_sent_again_smaller(self, is_async: bool) -> None:
        if not self.case.can_send_again:
            pytest.skip("the framework lets no hook send a second request")
        session = opened(policy=siltstone.ThresholdCompactor(), context_window=100_000)
        script, inputs = conversation(4)
        run = self.case.play(
            session, [*script, Refuse(), Say("It fits.")], [*inputs, "And now?"], is_async=is_async
        )
        assert run.answers[-1] == "It fits."
        assert [each.reason for each in session.compactions()] == ["overflow"]
        assert len(run.sent) == 10
        assert len(run.sent[-1]) < len(run.sent[-2])
        self.case.check(run.sent[-1])
