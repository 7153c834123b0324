"""One session through everything that may happen to it, held after each step against a plain list.

Hypothesis draws what is said, who compacts, which model answers how, when somebody interrupts, forgets,
rewrites the past, opens the session anew or works on it from elsewhere.
"""

import asyncio
import copy
import inspect
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import SEQUENCES
from conversations import Raw
from interrupting import interrupted_at
from siltstone import (
    AsyncSession,
    CompactionConfig,
    Completion,
    ContextOverflowError,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    estimate_tokens,
)
from siltstone.errors import ConfigError, HistoryConflictError, StoreConflictError
from siltstone.memory import Store
from siltstone.messages import validate_history
from siltstone.session.state import numbers
from speaking import DIALECTS, Dialect, Speaker

WINDOW = 1_600
POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=500, max_summary_tokens=120, recent_turn_budget=2, retry_delay=0)
)
WORD = re.compile(r"w\d+x")
STEPS = 25
MARK = '"cache_control"'

sizes = st.sampled_from([0, 5, 40, 120])
modes = st.sampled_from(["well", "well", "echo", "echo", "empty", "refusing", "failing", "interrupted"])
lists_of_hosts = st.sampled_from(["same", "longer", "adopted", "sent again", "edited", "shorter"])
interrupted_calls = st.sampled_from(
    ["append", "append", "prepare", "compact", "undo_compaction", "observe", "forget"]
)
meanwhiles = st.sampled_from(["", "", "", "own append", "append", "compact", "forget"])


def unmarked(value: Any) -> Any:
    """A copy of JSON data without marks of a cache."""
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


class Model:
    """Answers as it is told to; while it writes, something else may happen."""

    def __init__(self) -> None:
        self.mode, self.asked, self.meanwhile = "well", 0, lambda: None

    def answer(self, request: Any) -> Completion:
        self.asked += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        if self.mode == "failing":
            raise RuntimeError("no network")
        if self.mode == "interrupted":
            raise KeyboardInterrupt
        if self.mode == "refusing":
            return Completion("I cannot help with that.", stop_reason="refusal")
        words = WORD.findall(str([*request.messages])) if self.mode == "echo" else []
        return Completion("" if self.mode == "empty" else f"Summary {self.asked}: {' '.join(words[:20])}.")


class SessionMachine(RuleBasedStateMachine):
    """A session and the plain list of what it must be."""

    counted: ClassVar[Counter[str]] = Counter()

    @initialize(dialect=st.sampled_from(DIALECTS), is_durable=st.booleans(), is_async=st.booleans())
    def begin(self, dialect: Dialect, is_durable: bool, is_async: bool) -> None:
        self.speaker, self.model, self.runner = Speaker(dialect), Model(), asyncio.Runner()
        self.place = Path(tempfile.mkdtemp()) if is_durable else None
        self.store: Store = SimpleMemoryStore() if self.place is None else MemoryStore.open(self.place)
        self.raws, self.words, self.tied = list[Raw](), list[str](), list[bool]()
        self.line, self.gone, self.pins = list[int](), set[int](), set[int]()
        self.asleep = set[int]()  # pins whose message an undo has taken out of the view: they hold nothing
        self.saved: dict[int, tuple[list[int], set[int]]] = {}  # of each branch the line and pins before it
        self.said, self.runs, self.is_first_list = 0, list[int](), True
        self.open(is_async)
        self.other = self.opened()
        self.counted["sequences"] += 1
        self.say("request", 5)  # a provider takes no history that begins otherwise
        self.other.reload()

    # The session, sync or async.

    def opened(self) -> Session:
        return Session.open(
            None, "s", memory=self.store, policy=POLICY, model=self.model.answer, context_window=WINDOW
        )

    def open(self, is_async: bool) -> None:
        self.session: Session | AsyncSession
        if not is_async:
            self.session = self.opened()
            return

        async def model(request: Any) -> Completion:
            await asyncio.sleep(0)
            return await asyncio.to_thread(self.model.answer, request)

        opening = AsyncSession.open(
            None, "s", memory=self.store, policy=POLICY, model=model, context_window=WINDOW
        )
        self.session = self.run(opening)

    def run(self, answer: Any) -> Any:
        async def awaited() -> Any:
            return await answer

        return self.runner.run(awaited()) if inspect.isawaitable(answer) else answer

    def do(self, call: str, *arguments: Any, **options: Any) -> Any:
        self.counted[call] += 1
        return self.run(getattr(self.session, call)(*arguments, **options))

    # Messages.

    def word(self) -> str:
        self.said += 1
        return f"w{self.said}x"

    def group(self, kind: str, size: int) -> list[tuple[Raw, str, bool]]:
        """New messages, each with its word, and whether others are tied to it."""
        filler = " lorem ipsum" * (size // 2)
        word = self.word()
        if kind == "request":
            return [(self.speaker.request(f"{word}{filler}"), word, False)]
        if kind == "answer":
            return [(self.speaker.answer(f"{word}{filler}"), word, False)]
        call_id, said = f"call_{self.said}", self.word()
        filler = "\nlorem ipsum" * (3_000 if kind == "large result" else size // 2)
        call, result = self.speaker.call(call_id, word), self.speaker.result(call_id, f"{said}{filler}")
        return [(call, word, True), (result, said, True)]

    def logged(self, group: list[tuple[Raw, str, bool]]) -> None:
        for raw, word, is_tied in group:
            self.line.append(len(self.raws))
            self.raws.append(copy.deepcopy(raw))
            self.words.append(word)
            self.tied.append(is_tied)

    def is_request(self, seq: int) -> bool:
        return self.raws[seq].get("role") == "user" and not self.tied[seq]

    @property
    def end(self) -> int:
        return len(self.raws)

    # The rules.

    @rule(kind=st.sampled_from(["request", "answer", "exchange", "exchange", "large result"]), size=sizes)
    def say(self, kind: str, size: int) -> None:
        group = self.group(kind, size)
        assert self.do("append", *(raw for raw, _, _ in group)) == range(self.end, self.end + len(group))
        self.logged(group)
        self.check()

    @rule(count=st.integers(2, 6))
    def talk(self, count: int) -> None:
        """Whole turns, until a compaction is due."""
        for _ in range(count):
            for kind in ("request", "exchange", "answer"):
                group = self.group(kind, 40)
                self.do("append", *(raw for raw, _, _ in group))
                self.logged(group)
        self.check()

    @rule(mode=modes, meanwhile=meanwhiles)
    def prepare(self, mode: str, meanwhile: str) -> None:
        self.asking(mode, meanwhile)
        with suppress(KeyboardInterrupt):
            self.answered(lambda: self.do("prepare"))
        self.settled()

    @rule(mode=modes, meanwhile=meanwhiles)
    def compact(self, mode: str, meanwhile: str) -> None:
        self.asking(mode, meanwhile)
        with suppress(KeyboardInterrupt):
            self.counted[f"compact: {type(self.do('compact')).__name__}"] += 1
        self.settled()

    @rule(mode=modes, is_named=st.booleans())
    def recover(self, mode: str, is_named: bool) -> None:
        """The provider refuses the request; where that is large, it may name a limit of its own."""
        self.asking(mode, "")
        tokens = estimate_tokens(self.history(), "blocks")
        refusal = "overloaded"
        if tokens > 1_000:  # a smaller window has no room for the laws of a request
            named = f"prompt is too long: {tokens} tokens > {tokens * 9 // 10} maximum"
            refusal = named if is_named else "context_length_exceeded"
        error = ValueError(refusal)
        try:
            self.answered(lambda: self.do("recover", error), has_newest=False)
        except (ValueError, KeyboardInterrupt) as raised:
            self.counted[f"recover: {'refused' if raised is error else type(raised).__name__}"] += 1
        self.settled()

    @rule()
    def undo(self) -> None:
        self.undone(self.do("undo_compaction"))
        self.check()

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.line)))
        if seq in self.pins:
            self.do("unpin", seq)
            self.pins.discard(seq)
        elif len(self.pins) < 2 and len(json.dumps(self.raws[seq])) < 1_000:
            with suppress(ConfigError):  # it has left, or the pins have no room for it
                self.do("pin", seq)
                self.pins.add(seq)
        self.check()

    @precondition(lambda self: self.line)
    @rule(data=st.data(), by_store=st.booleans(), mode=modes)
    def forget(self, data: st.DataObject, by_store: bool, mode: str) -> None:
        word = self.words[data.draw(st.integers(0, self.end - 1))]
        self.asking(mode, "")
        with suppress(KeyboardInterrupt):
            report = self.store.forget(text=word) if by_store else self.do("forget", text=word)
            assert report.erased
        self.forgotten(word)
        self.settled()

    @precondition(lambda self: self.line)
    @rule(data=st.data(), how=lists_of_hosts, is_whole=st.booleans())
    def observe(self, data: st.DataObject, how: str, is_whole: bool) -> None:
        """A host's own list, as it would come from another process; it still has what was forgotten.

        It is the list of the host's current run, or of all its runs.
        """
        before, tail = list(self.line), list[int]()
        run = next((start for start in reversed(self.runs) if start <= before[-1]), 0)
        first = 0 if is_whole else sum(seq < run for seq in before)
        begins = [n for n, seq in enumerate(before) if n >= first and self.is_request(seq)]
        at = data.draw(st.sampled_from(begins)) if begins else first
        if is_whole and at == 0 and run:
            return  # a list of all runs with another first message could be of any of them
        new = self.group("request", 5)
        if self.is_first_list and how in ("edited", "shorter", "sent again"):
            self.listed([self.raws[seq] for seq in before[first:]], 0)  # else it could begin a run
        if how in ("same", "longer", "adopted"):
            new = [] if how == "same" else new
            at = len(before)
        elif how == "edited" and begins:
            tail = before[at + 1 :]
        elif how == "shorter" and at > first:
            new = []
        host = [*(self.raws[seq] for seq in before[first:at]), *(raw for raw, _, _ in new)]
        host += [self.raws[seq] for seq in tail]
        if how == "adopted":
            host = [*self.history(), *(raw for raw, _, _ in new)]
        if is_whole and 0 < at <= sum(seq < run for seq in before):
            if at > 1 and not self.gone & set(before[:at]):
                with pytest.raises(HistoryConflictError, match="earlier run"):
                    self.do("observe", json.loads(json.dumps(host)))
                self.check()
            return
        came = [seq for seq in tail if seq not in self.gone or self.tied[seq]]
        self.listed(host, len(new) + len(came))
        self.line = before[:at]
        self.logged(new)
        for seq in came:
            self.logged([(self.raws[seq], self.words[seq], self.tied[seq])])
            self.gone |= {self.end - 1} if seq in self.gone else set()
        if at < len(before):
            record = self.do("compactions")[-1]
            assert record.reason == "branch"
            self.saved[record.id] = before, self.pins - self.asleep
        self.check()
        if how != "adopted":
            self.listed(host, 0)
            self.check()

    def listed(self, host: list[Raw], new: int) -> None:
        """Observes a copy of *host* with marks of a cache, which move from list to list."""
        marked = json.loads(json.dumps(host))
        blocks = [raw["content"][-1] for raw in marked[-3:] if isinstance(raw.get("content"), list)]
        if self.speaker.dialect == "anthropic":
            for block in blocks[: self.said % 3]:
                block["cache_control"] = {"type": "ephemeral"}
        assert self.do("observe", marked) == new
        self.is_first_list = False
        assert json.dumps(self.session.history()).count(MARK) <= json.dumps(marked).count(MARK)

    @precondition(lambda self: self.line)
    @rule(kept=st.integers(1, 6))
    def observe_the_newest(self, kept: int) -> None:
        """A host that sends its newest messages alone."""
        newest, new = self.line[-kept:], self.group("request", 5)
        if not self.gone & set(newest):
            self.listed([*(self.raws[seq] for seq in newest), new[0][0]], 1)
            self.logged(new)
        self.check()

    @precondition(lambda self: self.line)
    @rule(is_async=st.booleans(), says_so=st.booleans())
    def restart(self, is_async: bool, says_so: bool) -> None:
        """The host begins anew with an empty list, in a new process or in this one."""
        if says_so:
            self.session.new_run()
        else:
            self.reopen(is_async, with_store=False)
        new, start = self.group("request", 5), self.end
        self.listed([new[0][0]], 1)
        self.logged(new)
        self.runs.append(start)
        self.check()

    @rule(is_async=st.booleans(), with_store=st.booleans())
    def reopen(self, is_async: bool, with_store: bool) -> None:
        self.do("close")
        self.other.close()
        if with_store and self.place is not None:
            self.store.close()
            self.store = MemoryStore.open(self.place)
        self.open(is_async)
        self.is_first_list = True
        self.other = self.opened()
        self.check()

    @rule(does=st.sampled_from(["append", "compact", "undo", "prepare"]), mode=modes, size=sizes)
    def elsewhere(self, does: str, mode: str, size: int) -> None:
        self.asking(mode, "")
        self.other.reload()
        with suppress(KeyboardInterrupt):
            if does == "append":
                self.others_append(size)
                with pytest.raises(StoreConflictError):
                    self.do("append", self.speaker.request("never said"))
            elif does == "undo":
                self.undone(self.other.undo_compaction())
            elif does == "compact":
                self.other.compact()
            else:
                self.answered(self.other.prepare)
        self.settled()

    @rule(
        call=interrupted_calls,
        line=st.integers(1, 900),
        mode=st.sampled_from(["well", "echo", "failing"]),
        data=st.data(),
    )
    def interrupt(self, call: str, line: int, mode: str, data: st.DataObject) -> None:
        """A call is interrupted at a line, or its task is cancelled at an await; then it is made again."""
        self.asking(mode, "")
        group = self.group("request", 5)
        host = [*(self.raws[seq] for seq in self.line), group[0][0]]
        word = self.words[data.draw(st.integers(0, self.end - 1))] if self.raws else "nothing"
        undone = len(self.do("compactions"))
        arguments: dict[str, tuple[Any, ...]] = {
            "append": (group[0][0],),
            "observe": (json.loads(json.dumps(host)),),
        }
        options = {"text": word} if call == "forget" else {}
        act = lambda: getattr(self.session, call)(*arguments.get(call, ()), **options)  # noqa: E731
        if isinstance(self.session, Session):
            hit = interrupted_at(line, self.overflowing(act))
        else:
            hit = self.runner.run(cancelled(act, line % 40))
        self.counted["interrupted" if hit else "not interrupted"] += 1
        if call == "append":
            answer = range(self.end, self.end + 1)
            if hit:
                assert self.do("append", group[0][0]) == answer
            self.logged(group)
        elif call == "observe":
            if hit:
                self.do("observe", json.loads(json.dumps(host)))
            self.is_first_list = False
            self.logged(group)
        elif call == "forget":
            if hit:
                self.do("forget", text=word)
            self.forgotten(word)
        elif call == "undo_compaction":
            before = self.do("compactions", undone=True)
            if hit:
                self.overflowing(lambda: self.do("undo_compaction"))()
            left = {each.id for each in self.do("compactions")}
            assert len(left) == max(undone - 1, 0)
            for each in before:
                if each.reason == "branch" and each.id in self.saved and each.id not in left:
                    self.leave_branch(each.id)
        elif hit:
            self.overflowing(lambda: self.do(call))()
        self.settled()

    # Helpers of the rules.

    def asking(self, mode: str, meanwhile: str) -> None:
        """The next call asks a model that answers by *mode*, while which *meanwhile* happens.

        Nothing happens if a forgotten summary is in view: a model that writes it again in the background
        could be asked at any time, also after the request was made.
        """
        if meanwhile:
            self.do("wait_for_compaction")
            meanwhile = "" if "stood here. It was removed" in json.dumps(self.history()) else meanwhile
        self.model.mode, self.is_quiet = mode, not meanwhile
        happens: dict[str, Callable[[], None]] = {
            "own append": self.own_append,
            "append": lambda: self.others_append(5),
            "compact": lambda: self.unless_interrupted(self.other.compact),
            "forget": lambda: self.others_forget(),
        }
        self.model.meanwhile = happens.get(meanwhile, lambda: None)

    def unless_interrupted(self, call: Callable[[], object]) -> None:
        with suppress(KeyboardInterrupt):
            call()

    def own_append(self) -> None:
        if isinstance(self.session, Session):
            group = self.group("request", 5)
            self.session.append(group[0][0])
            self.logged(group)

    def others_append(self, size: int) -> None:
        group = self.group("request", size)
        self.other.reload()
        assert self.other.append(group[0][0]) == range(self.end, self.end + 1)
        self.logged(group)

    def others_forget(self) -> None:
        if self.raws:
            self.store.forget(text=self.words[0])
            self.forgotten(self.words[0])

    def forgotten(self, word: str) -> None:
        self.gone |= {seq for seq, each in enumerate(self.words) if each == word}

    def undone(self, record: Any) -> None:
        if record is not None and record.reason == "branch":
            self.leave_branch(record.id)

    def leave_branch(self, branch_id: int) -> None:
        """The view is exactly that from before: it may lack what was pinned since, nothing else."""
        self.line, held = self.saved.pop(branch_id)
        self.asleep |= self.pins - held

    def overflowing(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """*call*, which may find that the pins leave no room."""

        def called() -> Any:
            with suppress(ContextOverflowError):
                return call()

        return called

    def answered(self, call: Callable[[], Any], *, has_newest: bool = True) -> None:
        """A request is what it must be; where pins leave no room for one, nothing has changed."""
        before = len(self.do("compactions", undone=True))
        try:
            prepared = call()
        except ContextOverflowError:
            assert self.pins, "without pins there is always room"
            assert not self.is_quiet or len(self.do("compactions", undone=True)) == before
            for seq in sorted(self.pins):
                self.do("reload")
                self.do("unpin", seq)
            self.pins.clear()
            return
        window = self.session.context_window
        assert window is not None
        assert prepared.tokens <= window
        assert estimate_tokens(prepared.messages, "blocks") <= window
        assert validate_history(prepared.messages) == []
        last = self.line[-1]
        if has_newest and last not in self.gone and (self.tied[last] or self.is_request(last)):
            assert self.words[last] in json.dumps(prepared.messages), "it has what was said last"

    def settled(self) -> None:
        self.model.mode, self.model.meanwhile = "well", lambda: None
        self.do("reload")
        self.check()

    def history(self) -> list[Any]:
        return unmarked(self.session.history())

    def check(self) -> None:
        history, log = self.history(), self.do("log")
        assert len(log) == self.end
        for seq, raw in enumerate(log):
            if seq in self.gone:
                assert self.words[seq] not in json.dumps(raw)
            else:
                assert unmarked(raw) == self.raws[seq]
        core = self.session._core
        assert list(numbers(core.line())) == self.line, "the line is what was said on the way to the view"
        items = [item.message for item in core.view]
        shown = [message.seq for message in items if message.provenance != "compaction_summary"]
        assert shown == sorted(set(shown)), "the order is kept"
        assert set(shown) <= set(self.line)
        self.asleep &= self.pins - set(shown)
        held = self.pins & set(self.line) - self.gone - self.asleep
        assert held <= set(shown), "what is pinned stays"
        assert [unmarked(message.raw) for message in items] == history
        for message, raw in zip(items, history, strict=True):
            if message.provenance == "original":
                assert raw == self.raws[message.seq]
        assert validate_history(history) == []
        cut = {message.seq for message in items if message.provenance == "substitute"}
        left = set(self.line) - set(shown)
        page = self.store.entries("s", limit=10_000)
        found = {seq: entry.content for entry in page.entries for seq in range(*entry.source_range)}
        assert set(found) <= left | cut, "nothing of the context is found, and nothing of another past"
        assert set(found) >= left - self.gone, "what left is found"
        assert all(self.words[seq] in content for seq, content in found.items())
        self.check_searches(left - self.gone, set(shown) - cut)
        self.check_forgotten(history, page)
        with self.opened() as anew:
            assert unmarked(anew.history()) == history

    def check_searches(self, left: set[int], shown: set[int]) -> None:
        for seq in sorted(left)[-2:]:
            assert any(self.words[seq] in hit.content for hit in self.other.search(self.words[seq]))
        alone = [seq for seq in sorted(shown) if Counter(self.words)[self.words[seq]] == 1]
        for seq in alone[-2:]:
            found = [hit for hit in self.other.search(self.words[seq]) if self.words[seq] in hit.content]
            assert all(hit.in_context for hit in found)

    def check_forgotten(self, history: list[Any], page: Any) -> None:
        gone = {self.words[seq] for seq in self.gone}
        if not gone:
            return
        summaries = [record.summary for record in self.do("compactions", undone=True)]
        told = json.dumps([history, summaries, [[e.content, e.name] for e in page.entries]])
        assert not gone & set(WORD.findall(told)), "what was forgotten is nowhere"

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.do("close")
        self.other.close()
        assert self.store.check() == []
        self.store.close()
        self.runner.close()
        if self.place is not None:
            files = b"".join(file.read_bytes() for file in self.place.rglob("*") if file.is_file())
            held = {word.decode() for word in re.findall(rb"w\d+x", files)}
            assert not held & {self.words[seq] for seq in self.gone}, "nor in a file"
            shutil.rmtree(self.place)


async def cancelled(act: Callable[[], Any], steps: int) -> bool:
    """Cancels the task of *act* after so many turns of the event loop; whether it was still at work."""
    task = asyncio.ensure_future(act())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    except ContextOverflowError:
        return False
    return False


def test_a_session_keeps_its_laws_whatever_happens_to_it() -> None:
    SessionMachine.counted.clear()
    run_state_machine_as_test(
        SessionMachine,
        settings=settings(
            max_examples=SEQUENCES, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck)
        ),
    )
    print(f"\n{sorted(SessionMachine.counted.items())}")
