"""``siltstone bench``: the times of the calls of a turn, and how many questions a model answers."""

from __future__ import annotations

import gc
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from siltstone import __version__
from siltstone.cli import stores
from siltstone.errors import DatasetError, requires
from siltstone.evaluation.dataset import read_json
from siltstone.llm import CompletionRequest
from siltstone.memory import Entry
from siltstone.memory.opening import is_database
from siltstone.models import ExtractiveModel, openai
from siltstone.session import Session
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.tokens import estimate_tokens

# ``siltstone bench``: measures the times of the calls of a turn on this machine.

_REPEATS: Final = 200  #: calls of each kind; their median and their 99th percentile are printed
_BATCH: Final = 500  #: messages in one call while the session is filled
_WINDOW: Final = 1_000_000


def bench(
    messages: Annotated[
        int, typer.Option(min=100, help="Messages of the session, and entries of its memory.")
    ] = 10_000,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where to measure: a directory on the disk in question, or postgresql://USER@HOST/DATABASE. "
            "[default: the directory for temporary files]"
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Instead: ask a model the questions of FILE. locomo or longmemeval.")
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="The dataset's file, as it was published.")] = None,
    model: Annotated[
        str, typer.Option(help="URL#NAME of the model, at a server that speaks like OpenAI's.")
    ] = "",
    judge: Annotated[str, typer.Option(help="URL#NAME of the judge. [default: the model]")] = "",
    window: Annotated[int, typer.Option(min=1_000, help="The model's context window.")] = 16_000,
    questions: Annotated[int, typer.Option(min=1, help="Ask so many questions, evenly spread.")] = 100,
    as_json: stores.AsJson = False,
) -> None:
    """Measure the calls of a turn on this machine, or how many questions of a dataset a model answers.

    It makes a store of its own, fills it with made-up messages, and takes it away again: a new directory, or
    a new schema of a database, which needs a role that may create one.

    Example: siltstone bench --messages 1000
    """
    if dataset is not None:
        with stores.refusals():
            stores.choice("--dataset", dataset, _READERS)
            if file is None:
                stores.refuse(f"--dataset {dataset} needs the file of the dataset, such as {dataset}.json")
            asked = _spread(_READERS[dataset], file, questions)
            models = _asked(model), _asked(judge or model)
            with stores.progress(hidden=as_json) as bar:
                task = bar.add_task("asking", total=sum(len(talk.questions) for talk in asked))
                answered = _answered(asked, models, window, lambda: bar.advance(task))
            _print_answers(answered, window, as_json=as_json)
        return
    with stores.refusals(), stores.progress(hidden=as_json) as bar:
        task = bar.add_task("measuring", total=6)
        with _passing(store) as place:
            times = _measured(place, messages, lambda: bar.advance(task))
    machine = {"siltstone": __version__, "python": platform.python_version(), "machine": platform.machine()}
    if as_json:
        stores.print_json({**machine, "messages": messages, "microseconds": times})
        return
    stores.line(
        f"siltstone {__version__}, Python {machine['python']}, {machine['machine']}, {messages:,} messages"
    )
    stores.line(f"{'':<36}{'median':>12}{'99 %':>12}", "bold")
    for name, found in times.items():
        stores.line(f"{name:<36}{_shown(found['p50']):>12}{_shown(found['p99']):>12}")


@contextmanager
def _passing(store: str | None) -> Iterator[stores.Place]:
    """The place of a new store, which is taken away at the end."""
    if store is None or not is_database(store):
        with tempfile.TemporaryDirectory(prefix="siltstone-bench-", dir=store) as folder:
            yield folder
        return
    from siltstone.postgres.administration import passing_schema

    conninfo, _ = stores.parts_of(store)
    with passing_schema(conninfo, "siltstone_bench") as schema:
        yield f"{conninfo}#{schema}"


def _measured(place: stores.Place, count: int, step: Callable[[], object]) -> dict[str, dict[str, float]]:
    """Median and 99th percentile of each call, in microseconds."""
    times = {}
    with stores.open_place(place, read_only=False) as store:
        for start in range(0, count, _BATCH):
            texts = (_text(number) for number in range(start, min(start + _BATCH, count)))
            store.index("bench", [Entry(text, (0, 1)) for text in texts])
        step()
        with Session.open(None, "bench", memory=store, context_window=_WINDOW) as session:
            for start in range(0, count, _BATCH):
                numbers = range(start, min(start + _BATCH, count))
                session.append(*({"role": _role(number), "content": _text(number)} for number in numbers))
            session.prepare()
            step()
            times["append, on disk"] = _timed(
                lambda at: session.append({"role": "user", "content": _text(at)})
            )
            times["prepare, nothing due"] = _timed(
                lambda _at: session.prepare(),
                before=lambda _at: session.append({"role": "user", "content": "ok"}),
            )
            step()
            session.search("pump 1", limit=5)
            times["search, best 5"] = _timed(lambda at: session.search(f"pressure of pump {at}", limit=5))
            step()
        policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=4_000))
        with Session.open(None, "compact", memory=store, policy=policy, context_window=8_000) as session:
            times["a compaction of 4,000 tokens"] = _timed(
                lambda _at: session.compact(), before=lambda at: _fill(session, at), repeats=20
            )
            step()
    began = time.perf_counter()
    with stores.open_place(place, read_only=False) as store:
        store.search("bench", "pump 1", 5)
        opened = (time.perf_counter() - began) * 1e6
    times["open a store, and its first search"] = {"p50": opened, "p99": opened}
    step()
    return times


def _timed(
    call: Callable[[int], object],
    *,
    before: Callable[[int], object] = lambda _at: None,
    repeats: int = _REPEATS,
) -> dict[str, float]:
    """The times of *repeats* calls, in microseconds. *before* runs before each call, and is not measured."""
    found = []
    gc.disable()
    try:
        for at in range(repeats):
            before(at)
            began = time.perf_counter()
            call(at)
            found.append((time.perf_counter() - began) * 1e6)
    finally:
        gc.enable()
    found.sort()
    return {"p50": round(statistics.median(found), 1), "p99": round(found[int(len(found) * 0.99)], 1)}


def _fill(session: Session, at: int) -> None:
    session.append(*({"role": _role(each), "content": _text(at * 40 + each)} for each in range(40)))


def _role(number: int) -> str:
    return "assistant" if number % 2 else "user"


def _text(number: int) -> str:
    """A text of about 400 bytes, a different one for each *number*."""
    rows = (f"At minute {minute} pump {number} held {number * 7 % 997 + minute} bar." for minute in range(9))
    return f"Report {number}, station {number % 41}. {' '.join(rows)}"


def _shown(microseconds: float) -> str:
    if microseconds < 1_000:
        return f"{microseconds:,.0f} µs"
    return f"{microseconds / 1_000:,.1f} ms"


# ``--dataset``: asks a model the questions of a published dataset, and a judge whether it answers them.

_SENT: Final = ("whole history", "dropped history", "search alone", "recall")
_HITS: Final = 10  #: of a search alone
_ANSWER: Final = 400  #: tokens of an answer at most
_KEY: Final = "OPENAI_API_KEY"
_JUDGE: Final = (
    "Question: {}\nCorrect answer: {}\nResponse of a model: {}\n\nDoes the response contain the correct "
    "answer? It may be said in other words; a part of it is not enough. Answer yes or no only."
)
Raw = dict[str, Any]
Model = Callable[[CompletionRequest], Any]


class _Talk(NamedTuple):
    """A conversation, and its questions with their answers."""

    messages: list[Raw]
    questions: list[tuple[str, str]]


def _locomo(given: Any) -> list[_Talk]:
    """The file ``locomo10.json``; questions of category 5, which have no answer, are left out."""
    talks = []
    for each in given:
        said = each["conversation"]
        messages = [
            {
                "role": "user" if turn["speaker"] == said["speaker_a"] else "assistant",
                "content": f"[{said[f'session_{number}_date_time']}] {turn['speaker']}: {turn['text']}",
            }
            for number in range(1, len(said))
            for turn in said.get(f"session_{number}", ())
        ]
        asked = [(one["question"], str(one["answer"])) for one in each["qa"] if one["category"] != 5]
        talks.append(_Talk(messages, asked))
    return talks


def _longmemeval(given: Any) -> list[_Talk]:
    """A file such as ``longmemeval_s.json``: each question has a history of its own."""
    return [
        _Talk(
            [
                {"role": turn["role"], "content": f"[{day}] {turn['content']}"}
                for day, session in zip(each["haystack_dates"], each["haystack_sessions"], strict=True)
                for turn in session
            ],
            [(f"{each['question']} (It is {each['question_date']}.)", str(each["answer"]))],
        )
        for each in given
    ]


_READERS: Final = {"locomo": _locomo, "longmemeval": _longmemeval}


def _spread(reader: Callable[[Any], list[_Talk]], file: Path, most: int) -> list[_Talk]:
    """The conversations of *file* with *most* of their questions, evenly spread."""
    given = read_json(file)
    try:
        talks = reader(given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{str(file)!r} is not in the published form of {reader.__name__[1:]}: {error!r}"
        ) from error
    every = [(place, one) for place, talk in enumerate(talks) for one in talk.questions]
    if not every:
        raise DatasetError(f"{str(file)!r} has no question with an answer")
    count = min(most, len(every))
    chosen = [every[at * len(every) // count] for at in range(count)]
    spread = (
        _Talk(talk.messages, [one for at, one in chosen if at == place]) for place, talk in enumerate(talks)
    )
    return [talk for talk in spread if talk.questions]


def _asked(given: str) -> Model:
    """The model at ``URL#NAME``."""
    url, _, name = given.partition("#")
    if not (name and url.startswith(("http://", "https://"))):
        stores.refuse(
            f"--model and --judge must be URL#NAME, such as http://localhost:8080/v1#qwen3, got {given!r}"
        )
    try:
        with requires("openai", "siltstone bench --dataset"):
            from openai import OpenAI, OpenAIError
    except ImportError as error:
        stores.refuse(str(error))
    model = openai(name, OpenAI(base_url=url, api_key=os.environ.get(_KEY) or "none"))

    def asked(request: CompletionRequest) -> Any:
        try:
            return model(request)
        except OpenAIError as error:
            stores.refuse(f"the model {given} did not answer: {error}")

    return asked


def _answered(
    talks: Sequence[_Talk], models: tuple[Model, Model], window: int, step: Callable[[], object]
) -> dict[str, Raw]:
    """By what is sent: the share of right answers, tokens and seconds of a question."""
    found: dict[str, list[tuple[bool, int, float]]] = {way: [] for way in _SENT}
    for talk in talks:
        with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as folder:
            played = Path(folder, "played")
            with _opened(played, window) as session:
                for message in talk.messages:
                    if message["role"] == "assistant":
                        session.prepare()
                    session.append(message)
            for question, answer in talk.questions:
                for way in _SENT:
                    began = time.perf_counter()
                    sent = _request(way, talk.messages, question, played, window)
                    said = models[0](CompletionRequest(sent, _ANSWER))
                    seconds = time.perf_counter() - began
                    asked = _JUDGE.format(question, answer, said.text)
                    verdict = models[1](CompletionRequest([{"role": "user", "content": asked}], _ANSWER))
                    is_right = verdict.text.strip().lower().startswith("yes")
                    found[way].append((is_right, estimate_tokens(sent, "blocks"), seconds))
                step()
    return {
        way: {
            "answered": sum(right for right, _, _ in each) / len(each),
            "tokens": statistics.mean(tokens for _, tokens, _ in each),
            "seconds": statistics.median(seconds for _, _, seconds in each),
            "questions": len(each),
        }
        for way, each in found.items()
    }


def _request(way: str, messages: list[Raw], question: str, played: Path, window: int) -> list[Raw]:
    """What the model is sent with *question*."""
    asked = {"role": "user", "content": question}
    if way == "whole history":
        return [*messages, asked]
    if way == "dropped history":
        room, kept = window * 9 // 10, len(messages)
        while kept and (room := room - estimate_tokens([messages[kept - 1]], "blocks")) >= 0:
            kept -= 1
        return [*messages[kept:], asked]
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as folder:
        place = shutil.copytree(played, Path(folder, "asked"))
        with _opened(place, window) as session:
            if way == "recall":
                session.append(asked)
                return [dict(each) for each in session.prepare().messages]
            told = "\n\n".join(hit.content for hit in session.search(question, limit=_HITS))
    return [{"role": "user", "content": f"What was said:\n\n{told}\n\n{question}"}]


def _opened(place: Path, window: int) -> Session:
    return Session.open(place, "bench", model=ExtractiveModel(), context_window=window, recall=True)


def _print_answers(found: dict[str, Raw], window: int, *, as_json: bool) -> None:
    if as_json:
        stores.print_json({"window": window, "sent": found})
        return
    stores.line(f"{'':<20}{'answered':>10}{'tokens':>10}{'seconds':>10}", "bold")
    for way, each in found.items():
        stores.line(f"{way:<20}{each['answered']:>10.3f}{each['tokens']:>10,.0f}{each['seconds']:>10.2f}")
    stores.line(f"{found['recall']['questions']} questions, a window of {window:,} tokens")


# Measures the time that siltstone adds to a turn.


class Stopwatch:
    """Adds up the time of blocks until the turn ends. Each turn gives one sample, in microseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._current = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time of the block to the current turn."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._current += time.perf_counter() - start

    def lap(self) -> None:
        """Ends the turn."""
        self.samples.append(self._current * 1e6)
        self._current = 0.0
