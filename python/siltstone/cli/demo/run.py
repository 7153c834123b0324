"""Runs the demo: the agent reads through a small window, then gets questions about texts that left it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from siltstone.cli.demo.questions import Question, answerable
from siltstone.cli.demo.script import SYSTEM, turns
from siltstone.cli.latency import Stopwatch
from siltstone.cli.stores import Place, open_place
from siltstone.compaction import CompactionConfig, Compactor, ThresholdCompactor
from siltstone.evaluation.measures import percentile
from siltstone.memory.opening import is_database
from siltstone.messages import read_history, read_message
from siltstone.models import ExtractiveModel
from siltstone.presets import Preset
from siltstone.session import Session

__all__ = ["SESSION_ID", "Answer", "Demo", "run"]

SESSION_ID = "demo"
HITS = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, the hits of ``memory_search``, and the rank of the first hit with the evidence."""

    question: Question
    hits: list[dict[str, Any]]
    rank: int | None
    microseconds: float


@dataclass(slots=True)
class Demo:
    """The figures of a demo.

    Attributes:
        turns: User turns in the session, earlier runs included.
        turns_now: User turns of this run.
        messages: Messages in the log.
        tokens_seen: Tokens of all messages in the log, by the policy's estimator.
        tokens_in_context: Tokens of the last result of ``prepare``.
        messages_in_context: Messages of the last result of ``prepare``.
        compactions: Committed compactions of the session.
        entries: Entries in memory.
        bytes_on_disk: Bytes of the store's files.
        window: The window in tokens.
        threshold: The tokens at which a compaction is due.
        over_window: The number of results of ``prepare`` that were larger than the window.
        timeline: The view's tokens after each boundary of this run.
        latencies: Microseconds that siltstone added, a sample for each turn of this run.
        answers: The questions with their answers.
        seconds: Seconds of this run.
    """

    window: int
    threshold: int
    turns: int = 0
    turns_now: int = 0
    messages: int = 0
    tokens_seen: int = 0
    tokens_in_context: int = 0
    messages_in_context: int = 0
    compactions: int = 0
    entries: int = 0
    bytes_on_disk: int = 0
    over_window: int = 0
    timeline: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def recall_at_5(self) -> float:
        """The share of questions with the evidence among the first five hits."""
        return sum(answer.rank is not None for answer in self.answers) / max(len(self.answers), 1)

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        left_out = {"answers", "latencies", "timeline"}
        values = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        values |= {
            "recall_at_5": round(self.recall_at_5, 4),
            "questions": [
                {
                    "question": answer.question.text,
                    "evidence": answer.question.evidence.pattern,
                    "rank": answer.rank,
                    "hits": answer.hits,
                }
                for answer in self.answers
            ],
            "added_latency_us": {
                "p50": round(percentile(self.latencies, 0.50), 1),
                "p99": round(percentile(self.latencies, 0.99), 1),
            },
            "timeline": self.timeline,
        }
        return values


def run(
    place: Place,
    *,
    window: int,
    preset: Preset | None = None,
    limit: int | None = None,
    progress: Callable[[int, int, int], object] | None = None,
) -> Demo:
    """Runs or goes on with the demo in *place*: turns that the session has had are not read again.

    Args:
        place: The directory of the store, which is made if absent; or the address of a database that has one.
        window: The window in tokens.
        preset: The documented system to run; None: threshold compaction.
        limit: The maximum number of turns; None for all.
        progress: Called after each turn with the finished turns, all turns, and the tokens in context.
    """
    started = time.perf_counter()
    policy: Compactor = ThresholdCompactor(CompactionConfig(auto_compact_threshold=window * 4 // 5))
    own: dict[str, Any] = {"policy": policy}
    if preset is not None:
        own, policy = {"preset": preset}, preset.policy
    demo = Demo(window, window * 4 // 5)
    script = turns()[:limit]
    with _opened(place, model=ExtractiveModel(), context_window=window, **own) as session:
        done, begun = _progress(session)
        if not session.history():
            session.append(SYSTEM)
        watch = Stopwatch()
        for number, turn in enumerate(script[done:], done):
            _play(session, turn.messages(number), begun if number == done else 0, demo, watch)
            if progress:
                progress(number + 1, len(script), demo.timeline[-1])
        demo.latencies = watch.samples
        demo.turns, demo.turns_now = max(done, len(script)), max(len(script) - done, 0)
        prepared = session.prepare()
        demo.tokens_in_context, demo.messages_in_context = prepared.tokens, len(prepared.messages)
        demo.answers = [_ask(session, question) for question in _questions(session)]
        history = read_history(session.log())
        demo.messages = len(history)
        demo.tokens_seen = policy.token_rule.count(history)
    with open_place(place, read_only=True) as store:
        stats = store.stats(SESSION_ID)
        demo.compactions, demo.entries, demo.bytes_on_disk = (
            stats.compactions,
            stats.entries,
            stats.disk_bytes,
        )
    demo.seconds = time.perf_counter() - started
    return demo


@contextmanager
def _opened(place: Place, **options: Any) -> Iterator[Session]:
    if not is_database(place):
        with Session.open(place, SESSION_ID, **options) as session:
            yield session
        return
    with (
        open_place(place, read_only=False) as store,
        Session.open(None, SESSION_ID, memory=store, **options) as session,
    ):
        yield session


def _progress(session: Session) -> tuple[int, int]:
    """The number of finished turns, and of the messages in a turn that an earlier run left unfinished."""
    roles = [raw["role"] for raw in session.log()]
    turns_begun = roles.count("user")
    if not turns_begun:
        return 0, 0
    last = roles[len(roles) - 1 - roles[::-1].index("user") :]
    finished = last[-1] == "assistant" and not session.log()[-1].get("tool_calls")
    return (turns_begun, 0) if finished else (turns_begun - 1, len(last))


def _play(
    session: Session, messages: Iterator[dict[str, Any]], begun: int, demo: Demo, watch: Stopwatch
) -> None:
    for message in islice(messages, begun, None):
        if message["role"] == "assistant":  # a model call, with the result of prepare
            with watch.running():
                prepared = session.prepare()
            demo.timeline.append(prepared.tokens)
            demo.over_window += prepared.tokens > demo.window
        with watch.running():
            session.append(message)
    watch.lap()


def _questions(session: Session) -> list[Question]:
    """The questions whose evidence was read and has left the context."""
    visible = {id(question) for question in answerable(read_history(session.history()))}
    log = [read_message(raw, seq) for seq, raw in enumerate(session.log())]
    return [question for question in answerable(log) if id(question) not in visible]


def _ask(session: Session, question: Question) -> Answer:
    start = time.perf_counter()
    result = session.memory_search.call({"query": question.text, "limit": HITS})
    microseconds = (time.perf_counter() - start) * 1e6
    hits = json.loads(result)
    ranks = (rank for rank, hit in enumerate(hits, 1) if question.evidence.search(hit["content"]))
    return Answer(question, hits, next(ranks, None), microseconds)
