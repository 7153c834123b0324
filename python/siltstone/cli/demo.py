"""The demo: an agent reads the Python standard library through a small window."""

from __future__ import annotations

import json
import re
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from siltstone.cli.bench import Stopwatch
from siltstone.cli.stores import Place, open_place
from siltstone.compaction import Compactor
from siltstone.evaluation.report import percentile
from siltstone.memory.opening import is_database
from siltstone.messages import Message, indexable_texts, read_history, read_message
from siltstone.models import ExtractiveModel
from siltstone.session import Session
from siltstone.systems.base import Preset
from siltstone.systems.meerkat import ThresholdCompactor

# The agent's tools: they list, search and read the installed Python standard library.

ROOT = Path(sysconfig.get_path("stdlib"))
MAX_MATCHES = 40  #: the maximum lines that one grep returns
MAX_LINES = 80  #: the maximum lines that one read returns


def module_file(module: str) -> str | None:
    """The path of *module* inside the library (``http.client``: ``http/client.py``); None if absent."""
    stem = module.replace(".", "/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if (ROOT / name).is_file()), None)


def list_directory(path: str) -> str:
    """The names in a directory of the library, with the size of each file."""
    entries = sorted((ROOT / path).iterdir())
    return "\n".join(
        f"{entry.name}/" if entry.is_dir() else f"{entry.name}  {entry.stat().st_size} bytes"
        for entry in entries
        if not entry.name.startswith("__pycache__")
    )


def grep(pattern: str, path: str) -> str:
    """The lines of a file that match a regular expression, with their numbers."""
    expression = re.compile(pattern)
    found = [f"{path}:{number}: {line}" for number, line in _lines(path) if expression.search(line)]
    more = [f"… {len(found) - MAX_MATCHES} more"] if len(found) > MAX_MATCHES else []
    return "\n".join(found[:MAX_MATCHES] + more) or f"no line of {path} matches {pattern!r}"


def read_file(path: str, start: int = 1, lines: int = MAX_LINES) -> str:
    """Lines of a file, with their numbers."""
    wanted = range(start, start + min(lines, MAX_LINES))
    return "\n".join(f"{number:5}  {line}" for number, line in _lines(path) if number in wanted)


TOOLS: dict[str, Callable[..., str]] = {
    "list_directory": list_directory,
    "grep": grep,
    "read_file": read_file,
}


def run_tool(name: str, arguments: dict[str, object]) -> str:
    """The answer of the tool *name*. A failure becomes a text, as an agent would get it."""
    try:
        return TOOLS[name](**arguments)
    except OSError as error:
        return f"error: {error.strerror}"


def _lines(path: str) -> list[tuple[int, str]]:
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    return list(enumerate(text.splitlines(), 1))


# The script of the demo: requests and tool calls over real files, in several hundred turns.

SYSTEM = {
    "role": "system",
    "content": "You are a reader of the Python standard library. Answer from its source, never from memory.",
}

_ROWS = [
    line.split("\t")
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]

ASSIGNMENT = r"^[A-Za-z_][A-Za-z0-9_.]* *(: *[A-Za-z]+ *)?= "

_Call = tuple[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A request, and the steps of the agent for it. The calls of a step are in one message."""

    request: str
    steps: tuple[tuple[_Call, ...], ...]
    answer: str

    def messages(self, number: int) -> Iterator[dict[str, Any]]:
        """The turn's messages in OpenAI chat form. A tool runs when its call is reached."""
        yield {"role": "user", "content": self.request}
        output = ""
        for step, calls in enumerate(self.steps):
            ids = [f"call_{number}_{step}_{index}" for index in range(len(calls))]
            yield {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {"name": name, "arguments": json.dumps(arguments)},
                    }
                    for call_id, (name, arguments) in zip(ids, calls, strict=True)
                ],
            }
            for call_id, (name, arguments) in zip(ids, calls, strict=True):
                output = run_tool(name, arguments)
                yield {"role": "tool", "tool_call_id": call_id, "content": output}
        yield {"role": "assistant", "content": f"{self.answer} ({len(output.splitlines())} lines read last.)"}


def turns() -> list[Turn]:
    """The script: four requests for each module that this Python has."""
    found = [(module, path) for module in _ROWS[0][1].split() if (path := module_file(module))]
    return [turn for module, path in found for turn in _about(module, path)]


def _about(module: str, path: str) -> Iterator[Turn]:
    folder = path.rpartition("/")[0] or "."
    look: _Call = (
        ("list_directory", {"path": folder})
        if folder != "."
        else ("grep", {"pattern": "^import ", "path": path})
    )
    yield Turn(
        f"What is the module {module} for? Look where it lives and read how it begins.",
        ((look, ("read_file", {"path": path, "start": 1, "lines": 60})),),
        f"I have read how {module} begins.",
    )
    yield Turn(
        f"Which constants and defaults does {module} set at its top level?",
        ((("grep", {"pattern": ASSIGNMENT, "path": path}),),),
        f"These are the top-level assignments of {module}.",
    )
    yield Turn(
        f"Which classes and functions does {module} define, and what does it raise?",
        (
            (
                ("grep", {"pattern": r"^(class|def|async def) ", "path": path}),
                ("grep", {"pattern": r"^\s+raise ", "path": path}),
            ),
        ),
        f"Those are the definitions of {module} and the errors it raises.",
    )
    yield Turn(
        f"Read on in {module}: what comes after its beginning?",
        (
            (("read_file", {"path": path, "start": 61, "lines": 70}),),
            (("grep", {"pattern": r"\b(TODO|XXX|FIXME|deprecated|bpo-\d+|gh-\d+)\b", "path": path}),),
        ),
        f"I have read the next part of {module}, and its notes to maintainers.",
    )


# The questions at the end of the demo. Their evidence was read once, and has left the context since.


@dataclass(frozen=True, slots=True)
class Question:
    """A question in plain words, and a pattern of the text that is evidence for its answer."""

    text: str
    evidence: re.Pattern[str]


QUESTIONS = [Question(text, re.compile(evidence)) for text, evidence in _ROWS[1:]]


def answerable(messages: Sequence[Message]) -> list[Question]:
    """The questions whose evidence is in one of *messages*."""
    texts = list(indexable_texts(messages))
    return [question for question in QUESTIONS if any(question.evidence.search(text) for text in texts)]


# Runs the demo: the agent reads through a small window, then gets questions about texts that left it.

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
        compactions: Committed compactions of the session.
        entries: Entries in memory.
        bytes_on_disk: Bytes of the store's files.
        window: The window in tokens.
        over_window: The number of results of ``prepare`` that were larger than the window.
        latencies: Microseconds that siltstone added, a sample for each turn of this run.
        answers: The questions with their answers.
        seconds: Seconds of this run.
    """

    window: int
    turns: int = 0
    turns_now: int = 0
    messages: int = 0
    tokens_seen: int = 0
    tokens_in_context: int = 0
    compactions: int = 0
    entries: int = 0
    bytes_on_disk: int = 0
    over_window: int = 0
    latencies: list[float] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def recall_at_5(self) -> float:
        """The share of questions with the evidence among the first five hits."""
        return sum(answer.rank is not None for answer in self.answers) / max(len(self.answers), 1)

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        left_out = {"answers", "latencies"}
        values = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        return values | {
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
        }


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
    policy: Compactor = ThresholdCompactor()
    own: dict[str, Any] = {"policy": policy}
    if preset is not None:
        own, policy = {"preset": preset}, preset.policy
    demo = Demo(window)
    script = turns()[:limit]
    with _opened(place, model=ExtractiveModel(), context_window=window, **own) as session:
        done = sum(raw["role"] == "user" for raw in session.log())
        if not session.history():
            session.append(SYSTEM)
        watch = Stopwatch()
        for number, turn in enumerate(script[done:], done):
            tokens = _play(session, turn.messages(number), demo, watch)
            if progress:
                progress(number + 1, len(script), tokens)
        demo.latencies = watch.samples
        demo.turns, demo.turns_now = max(done, len(script)), max(len(script) - done, 0)
        prepared = session.prepare()
        demo.tokens_in_context = prepared.tokens
        demo.answers = [_ask(session, question) for question in _questions(session, prepared.messages)]
        history = read_history(session.log())
        demo.messages = len(history)
        demo.tokens_seen = policy.token_rule.count(history)
    with open_place(place, read_only=True) as store:
        stats = store.stats(SESSION_ID)
        demo.compactions, demo.entries = stats.compactions, stats.entries
        demo.bytes_on_disk = stats.disk_bytes
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


def _play(session: Session, messages: Iterator[dict[str, Any]], demo: Demo, watch: Stopwatch) -> int:
    """Plays a turn, and returns the tokens of its last request."""
    tokens = 0
    for message in messages:
        if message["role"] == "assistant":  # a model call, with the result of prepare
            with watch.running():
                tokens = session.prepare().tokens
            demo.over_window += tokens > demo.window
        with watch.running():
            session.append(message)
    watch.lap()
    return tokens


def _questions(session: Session, sent: Sequence[Any]) -> list[Question]:
    """The questions whose evidence was read, and is not in the request *sent*."""
    visible = {id(question) for question in answerable(read_history(sent))}
    log = [read_message(raw, seq) for seq, raw in enumerate(session.log())]
    return [question for question in answerable(log) if id(question) not in visible]


def _ask(session: Session, question: Question) -> Answer:
    start = time.perf_counter()
    result = session.memory_search.call({"query": question.text, "limit": HITS})
    microseconds = (time.perf_counter() - start) * 1e6
    hits = json.loads(result)
    ranks = (rank for rank, hit in enumerate(hits, 1) if question.evidence.search(hit["content"]))
    return Answer(question, hits, next(ranks, None), microseconds)


# Shows the results of the demo: the questions, and a table.


def show(demo: Demo, console: Console) -> None:
    """Prints all results."""
    console.print(f"\n[bold]{len(demo.answers)} questions about what was compacted away[/bold]\n")
    for answer in demo.answers:
        _show_answer(answer, console)
    table = Table(title="\nWhat it came to", show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for name, value in _rows(demo):
        table.add_row(name, value)
    console.print(table)


def _show_answer(answer: Answer, console: Console) -> None:
    mark = "[green]found[/green] " if answer.rank else "[red]missed[/red]"
    console.print(f"{mark} {escape(answer.question.text)}", soft_wrap=True)
    if not answer.hits:
        console.print("         nothing returned")
        return
    hit = answer.hits[(answer.rank or 1) - 1]
    start, end = hit["source_range"]["start"], hit["source_range"]["end"]
    excerpt = _excerpt(answer, hit["content"])
    where = f"hit {answer.rank or 1} of {len(answer.hits)}, score {hit['score']:.2f}, messages {start}–{end}"
    console.print(
        f"         [dim]{where}, {answer.microseconds:.0f} µs[/dim]", highlight=False, soft_wrap=True
    )
    console.print(f"         {escape(excerpt)}", highlight=False, soft_wrap=True)


def _excerpt(answer: Answer, content: str) -> str:
    """The line with the evidence."""
    found = answer.question.evidence.search(content)
    at = found.start() if found else 0
    start = content.rfind("\n", 0, at) + 1
    return content[start:].split("\n", 1)[0].strip()


def _rows(demo: Demo) -> list[tuple[str, str]]:
    earlier = demo.turns - demo.turns_now
    turns = f"{demo.turns:,}" + (f" ({earlier:,} of them in earlier runs)" if earlier else "")
    p50, p99 = percentile(demo.latencies, 0.50), percentile(demo.latencies, 0.99)
    return [
        ("turns", turns),
        ("messages", f"{demo.messages:,}"),
        ("tokens seen", f"{demo.tokens_seen:,}"),
        ("tokens in context now", f"{demo.tokens_in_context:,} of {demo.window:,}"),
        ("compactions", f"{demo.compactions:,}"),
        ("entries", f"{demo.entries:,}"),
        ("recall@5", f"{demo.recall_at_5:.2f} ({len(demo.answers)} questions)"),
        ("added latency per turn, median", f"{p50 / 1000:.2f} ms" if demo.latencies else "–"),
        ("added latency per turn, p99", f"{p99 / 1000:.2f} ms" if demo.latencies else "–"),
        ("bytes on disk", f"{demo.bytes_on_disk:,}"),
        ("seconds", f"{demo.seconds:.1f}"),
    ]
