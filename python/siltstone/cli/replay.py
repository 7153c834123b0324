"""Runs a policy over a recorded transcript, message by message, as in the life of an agent."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import typer

from siltstone import messages as chat
from siltstone.cli.bench import Stopwatch
from siltstone.compaction import Compactor
from siltstone.config import Settings, find_settings, read_settings
from siltstone.engine import Compacted, Failed
from siltstone.errors import InvalidMessageError
from siltstone.evaluation.report import percentile
from siltstone.events import CompactionCompleted
from siltstone.llm import Model
from siltstone.memory.base import Store, entries_of
from siltstone.messages import Message, RawMessage, broken_tool_groups
from siltstone.models import ExtractiveModel
from siltstone.session import Prepared, Session
from siltstone.stores import MemoryStore
from siltstone.systems.base import Preset
from siltstone.transcripts import read


@dataclass(frozen=True, slots=True)
class Transcript:
    """A recorded session."""

    name: str
    messages: list[dict[str, Any]]


def read_transcripts(path: str | Path) -> list[Transcript]:
    """The sessions of *path*, at least one, without what does not belong to a message.

    Raises:
        InvalidMessageError: a line is broken, or there is no message.
        OSError: the file cannot be read.
    """
    sessions: dict[str, list[dict[str, Any]]] = {}
    for record in read(path, strict=True):
        sessions.setdefault(record.session, []).append(record.message)
    if not sessions:
        raise InvalidMessageError(f"{path}: there is no message in it", where=str(path))
    return [Transcript(name, messages) for name, messages in sessions.items()]


# Checks whether facts in messages that left the context are still in context, found by a search, or lost.
#
# A probe is a number, a path, an error or a decision in a message that is no longer in the context. It is
# still in the context if a summary or a later message has it. Else a search is asked for it. The query for
# a number is made of the words beside it, the query for a path of its file name and the words before it,
# and the query for an error or a decision of its first half.

MOST: Final = 40  #: the maximum probes of one kind in one session, evenly spread
LIMIT: Final = 5  #: the hits of a search
SHORTEST_QUERY: Final = 3  # words: the minimum of a query
LONGEST: Final = 160  # characters: the maximum of a probe

_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d,._]{2,}\d(?![\w.])")
_PATH: Final = re.compile(r"(?<![\w/])(?:[\w.-]+)?(?:/[\w.-]+){2,}")
_ERROR: Final = re.compile(
    r"\b(?:\w*Error|\w*Exception|error|failed|failure|refused|denied)\b[:\s]", re.ASCII
)
_DECISION: Final = re.compile(
    r"\b(?:decided|let's|we(?:'ll| will)|I(?:'ll| will)|instead of|must|should|use the|prefer)\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Probe:
    """A fact in a message.

    Attributes:
        kind: One of ``KINDS``.
        text: The text that must be found word for word.
        query: The query of the search for it.
    """

    kind: str
    text: str
    query: str


@dataclass(slots=True)
class Retention:
    """The numbers of probes in context, found by a search, and lost."""

    in_context: int = 0
    found: int = 0
    lost: int = 0

    def add(self, other: Retention) -> None:
        """Adds the numbers of *other*."""
        self.in_context += other.in_context
        self.found += other.found
        self.lost += other.lost

    @property
    def total(self) -> int:
        """The number of all probes."""
        return self.in_context + self.found + self.lost


def _numbers(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for found in _NUMBER.finditer(line):
            query = _words(line[: found.start()][-120:] + " " + line[found.end() :][:120])
            if query:
                yield Probe("numbers", found[0], query)


def _paths(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for found in _PATH.finditer(line):
            if len(found[0]) <= LONGEST:
                name = found[0].rsplit("/", 1)[-1]
                yield Probe("paths", found[0], f"{name} {_words(line[: found.start()])}".strip())


def _errors(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        said = line.strip()
        if len(said) <= LONGEST and _ERROR.search(said) and (query := _half(said)):
            yield Probe("errors", said, query)


def _decisions(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for sentence in _SENTENCE.split(line):
            said = sentence.strip()
            if len(said) <= LONGEST and _DECISION.search(said) and (query := _half(said)):
                yield Probe("decisions", said, query)


KINDS: Final[dict[str, Callable[[str], Iterator[Probe]]]] = {
    "numbers": _numbers,
    "paths": _paths,
    "errors": _errors,
    "decisions": _decisions,
}
"""The kinds of probes, each with the function that finds them in a text."""


def probes_of(texts: Iterable[str]) -> list[Probe]:
    """The probes of *texts*: at most ``MOST`` of each kind, evenly spread, each text once."""
    told = list(texts)
    chosen: list[Probe] = []
    for find in KINDS.values():
        found = {probe.text: probe for text in told for probe in find(text)}
        probes = list(found.values())
        step = max(1, -(-len(probes) // MOST))
        chosen += probes[::step]
    return chosen


def retention(
    probes: Sequence[Probe], context: str, search: Callable[[str, int], Iterable[str]]
) -> dict[str, Retention]:
    """The numbers of *probes* by kind: in *context*, in the hits of *search* for their queries, or lost."""
    kept = {kind: Retention() for kind in KINDS}
    for probe in probes:
        of_kind = kept[probe.kind]
        if probe.text in context:
            of_kind.in_context += 1
        elif any(probe.text in text for text in search(probe.query, LIMIT)):
            of_kind.found += 1
        else:
            of_kind.lost += 1
    return kept


def _half(said: str) -> str:
    """The first half of the words of *said*; empty if it has too few words for a query."""
    words = said.split()
    return _words(" ".join(words[: (len(words) + 1) // 2]))


def _words(text: str) -> str:
    words = _WORD.findall(text)
    return " ".join(words[:20]) if len(words) >= SHORTEST_QUERY else ""


MODELS: dict[str, Callable[[], Model]] = {"extractive": ExtractiveModel}


_LISTS = frozenset({"latencies", "timeline"})


@dataclass(slots=True)
class Replay:
    """The figures of one replayed session.

    Attributes:
        name: The session's name in the transcript.
        messages: Messages appended.
        boundaries: Calls of ``prepare``.
        compactions: Committed compactions, including those of the emergency fit; and trims of a request.
        runs: Compactions of the policy itself.
        emergency_runs: Compactions of the emergency fit.
        failed: Failed attempts.
        model_calls: Requests that the model answered.
        tokens_sent: Input tokens of those requests.
        messages_in_context: Messages in the last view.
        tokens_seen: Tokens of all messages, by the policy's estimator.
        peak_tokens: The largest result of ``prepare``, in tokens.
        tokens_in_context: The last result of ``prepare``, in tokens.
        entries: Entries in memory.
        lost: Messages neither in context nor in the log.
        lost_from_memory: Discarded, indexable messages that ``entries`` does not return.
        broken_tool_groups: Tool calls and results without their counterpart, in all results of ``prepare``.
        over_window: Results of ``prepare`` that were larger than the window.
        cache_breaks: Requests that did not begin with the whole request before them, so that less of the
            provider's cached prefix could be used.
        cache_tokens_lost: Tokens of the requests before, from the first difference on.
        retention: By kind, the fate of numbers, paths, errors and decisions in messages that left the
            context.
        timeline: For each boundary the number of messages so far, and the tokens that were sent.
        latencies: Microseconds that siltstone added, a sample for each boundary: ``prepare`` and the
            appends since the boundary before.
        seconds: Seconds of the whole session.
    """

    name: str
    messages: int = 0
    boundaries: int = 0
    compactions: int = 0
    runs: int = 0
    emergency_runs: int = 0
    failed: int = 0
    model_calls: int = 0
    tokens_sent: int = 0
    messages_in_context: int = 0
    tokens_seen: int = 0
    peak_tokens: int = 0
    tokens_in_context: int = 0
    entries: int = 0
    lost: int = 0
    lost_from_memory: int = 0
    broken_tool_groups: int = 0
    over_window: int = 0
    cache_breaks: int = 0
    cache_tokens_lost: int = 0
    retention: dict[str, Retention] = field(default_factory=lambda: {kind: Retention() for kind in KINDS})
    timeline: list[tuple[int, int]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, broken or larger than the window."""
        return not (self.lost or self.lost_from_memory or self.broken_tool_groups or self.over_window)

    @property
    def evidence_kept(self) -> float | None:
        """The share of probes that are in context or found by a search, 0..1; None without probes."""
        total = sum(each.total for each in self.retention.values())
        return None if total == 0 else 1 - sum(each.lost for each in self.retention.values()) / total

    def to_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        values = {name: getattr(self, name) for name in self.__slots__ if name not in _LISTS}
        values["retention"] = {kind: asdict(kept) for kind, kept in self.retention.items()}
        kept = self.evidence_kept
        values["evidence_kept"] = None if kept is None else round(kept, 3)
        values["added_latency_us"] = {
            "p50": round(percentile(self.latencies, 0.50), 1),
            "p99": round(percentile(self.latencies, 0.99), 1),
        }
        values["seconds"] = round(self.seconds, 3)
        return values


def replay(
    transcript: Transcript,
    directory: Path,
    *,
    policy: Compactor | Preset,
    model: Model,
    window: int,
    progress: Callable[[], object] = lambda: None,
) -> Replay:
    """Replays *transcript* into a store in *directory*, then opens the store again and looks for losses.

    *policy* is a policy, or a preset with all its options. There is a boundary before each assistant message
    that does not follow another assistant message, and one at the end.
    """
    own: dict[str, Any] = {"policy": policy}
    if isinstance(policy, Preset):
        own, policy = {"preset": policy}, policy.policy
    result = Replay(transcript.name, len(transcript.messages))
    started = time.perf_counter()
    watch = Stopwatch()
    result.tokens_seen = policy.token_rule.count(
        chat.read_message(raw, i) for i, raw in enumerate(transcript.messages)
    )
    with Session.open(directory, transcript.name, model=model, context_window=window, **own) as session:
        player = _Player(session, result, watch, window, policy)
        previous: str | None = None
        for message in transcript.messages:
            role = chat.read_message(message, 0).role
            if role == "assistant" != previous:
                player.boundary()
            with watch.running():
                session.append(message)
            player.appended += 1
            previous = role
            progress()
        prepared = player.boundary()
        shown = [raw for raw in prepared.messages if not isinstance(raw, chat.RecalledMessage)]
        result.messages_in_context = len(shown)
        result.tokens_in_context = prepared.tokens
        result.retention = _facts(session, transcript, prepared.messages)
    with MemoryStore.open(directory, read_only=True) as store:
        _look_for_losses(store, transcript, shown, player.trimmed, result)
    result.latencies = watch.samples
    result.seconds = time.perf_counter() - started
    return result


def summed(results: list[Replay]) -> Replay:
    """The sum of *results*, with the highest peak, and with the latencies of all."""
    total = Replay("total")
    for name in Replay.__slots__:
        if name not in {"name", "peak_tokens", "retention", *_LISTS}:
            setattr(total, name, sum(getattr(result, name) for result in results))
    total.peak_tokens = max((result.peak_tokens for result in results), default=0)
    for kind, kept in total.retention.items():
        for result in results:
            kept.add(result.retention[kind])
    total.latencies = [sample for result in results for sample in result.latencies]
    return total


def named_policy(name: str) -> tuple[str, Compactor]:
    """The label and the policy for *name*, which is the name of a policy or a TOML file.

    A named policy has its settings from the nearest ``siltstone.toml``, if there is one.

    Raises:
        ConfigError: there is no such policy, or the file is not valid.
    """
    settings: Settings
    chosen: str | None
    if name.endswith(".toml"):
        settings, chosen = read_settings(name), None
        label = f"{settings.choice or 'threshold'} ({Path(name).name})"
    else:
        settings, chosen, label = find_settings(), name, name
    return label, settings.policy(chosen)


class _Player:
    """The session of a replay, and the counts at each boundary."""

    def __init__(
        self, session: Session, result: Replay, watch: Stopwatch, window: int, policy: Compactor
    ) -> None:
        self._session, self._result, self._watch = session, result, watch
        self._window, self._policy = window, policy
        self._sent: list[RawMessage] = []
        self.appended = 0
        self.trimmed: set[int] = set()  # numbers of messages that a request left out

    def boundary(self) -> Prepared:
        """Prepares the next request, and counts its figures."""
        result, policy = self._result, self._policy
        with self._watch.running():
            prepared = self._session.prepare()
        self._watch.lap()
        result.boundaries += 1
        for outcome in prepared.outcomes:
            result.failed += isinstance(outcome, Failed)
            result.model_calls += len(outcome.usage)
            result.tokens_sent += sum(record.input_tokens for record in outcome.usage)
            if isinstance(outcome, Compacted):
                made_by = next(e.policy for e in outcome.events if isinstance(e, CompactionCompleted))
                result.compactions += 1
                result.runs += made_by == policy.name
                result.emergency_runs += made_by != policy.name
        result.peak_tokens = max(result.peak_tokens, prepared.tokens)
        result.over_window += prepared.tokens > self._window
        result.broken_tool_groups += broken_tool_groups(prepared.messages)
        result.timeline.append((self.appended, prepared.tokens))
        self.trimmed.update(seq for span in prepared.trimmed for seq in range(*span))
        same = _same(self._sent, prepared.messages)
        if same < len(self._sent):
            result.cache_breaks += 1
            rest = (chat.read_message(raw, place) for place, raw in enumerate(self._sent[same:]))
            result.cache_tokens_lost += policy.token_rule.count(rest)
        self._sent = prepared.messages
        return prepared


def _same(one: list[RawMessage], other: list[RawMessage]) -> int:
    """The number of equal messages at the beginning of both lists."""
    for at, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine is not its and mine != its:
            return at
    return min(len(one), len(other))


def _facts(session: Session, transcript: Transcript, sent: list[RawMessage]) -> dict[str, Retention]:
    """The fate of the facts in messages that the last request does not have unchanged."""
    messages = [chat.read_message(raw, seq) for seq, raw in enumerate(transcript.messages)]
    shown = {id(raw) for raw in sent}
    texts = chat.indexable_texts(messages)
    gone = [text for raw, text in zip(transcript.messages, texts, strict=True) if id(raw) not in shown]
    context = "\n".join(_said(chat.read_message(raw, place)) for place, raw in enumerate(sent))

    def search(query: str, limit: int) -> list[str]:
        return [hit.content for hit in session.search(query, limit)]

    return retention(probes_of(gone), context, search)


def _said(message: Message) -> str:
    return "\n".join(part.text or part.arguments or "" for part in message.parts)


def _look_for_losses(
    store: Store, transcript: Transcript, context: list[RawMessage], trimmed: set[int], result: Replay
) -> None:
    """Counts the messages that a request left out and that a new process cannot find."""
    log = store.open_log(transcript.name)
    kept = {row.seq: row.raw for row in log.read(0, log.state().next_seq)}
    in_context = {id(raw) for raw in context}
    contents = {entry.source_range.start: entry.content for entry in entries_of(store, transcript.name)}
    result.entries = len(contents)
    texts = chat.indexable_texts(chat.read_message(raw, seq) for seq, raw in enumerate(transcript.messages))
    for seq, (raw, text) in enumerate(zip(transcript.messages, texts, strict=True)):
        if id(raw) in in_context and seq not in trimmed:
            continue
        result.lost += kept.get(seq) != chat.encode(raw)
        result.lost_from_memory += bool(text.strip()) and contents.get(seq) != text


# A picture of a replay: the tokens that were sent at each boundary, with a line for each policy.

INSTALL = "a plot needs the extra: pip install 'siltstone[plot]'"
FORMATS = (".svg", ".png")

# Colours that colour-blind people can distinguish (Okabe and Ito), and different styles of lines.
STYLES = [
    ("#0072B2", "-"), ("#D55E00", "-"), ("#009E73", "-"), ("#CC79A7", "-"),
    ("#E69F00", "--"), ("#56B4E9", "--"), ("#000000", "--"), ("#0072B2", ":"), ("#D55E00", ":"),
]  # fmt: skip


def check_plot(path: Path) -> None:
    """Checks the format of the file and the plot's extra, before a session is replayed.

    Raises:
        typer.BadParameter: the file has another format, or matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{path} must end in {' or '.join(FORMATS)}", param_hint="--plot")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise typer.BadParameter(INSTALL, param_hint="--plot") from None


def plot(replays: Mapping[str, Sequence[Replay]], window: int, path: Path) -> None:
    """Draws *replays* (sessions by policy) to *path*, with one field for each session.

    The same replays give the same bytes of an SVG.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    sessions = [result.name for result in next(iter(replays.values()))]
    with mpl.rc_context({"svg.hashsalt": "siltstone", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 2.8 * len(sessions) + 0.6))
        fields = figure.subplots(len(sessions), 1, sharey=True, squeeze=False)
        lines = list(zip(replays.items(), cycle(STYLES), strict=False))
        for number, (field, name) in enumerate(zip(fields[:, 0], sessions, strict=True)):
            field.axhline(window, color="#888888", linewidth=0.8, linestyle=(0, (6, 3)))
            field.annotate(
                f"window, {window:,}",
                (0, window),
                xycoords=("axes fraction", "data"),
                xytext=(4, 3),
                textcoords="offset points",
                color="#666666",
            )
            for (label, results), (colour, style) in lines:
                steps = results[number].timeline
                field.plot(
                    [seq for seq, _ in steps],
                    [tokens for _, tokens in steps],
                    color=colour,
                    linestyle=style,
                    linewidth=1.3,
                    label=label,
                )
            field.set_title(name, loc="left", fontsize=9)
            field.set_ylabel("tokens sent")
            field.set_ylim(0, window * 1.12)
            field.margins(x=0.01)
            field.spines[["top", "right"]].set_visible(False)
            field.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        fields[-1, 0].set_xlabel("messages so far")
        figure.legend(*fields[0, 0].get_legend_handles_labels(), loc="upper center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / figure.get_figheight()))
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
