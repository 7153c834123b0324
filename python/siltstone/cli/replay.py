"""Runs a policy over a recorded transcript, message by message, as in the life of an agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from siltstone.cli.latency import Stopwatch
from siltstone.cli.probes import KINDS, Retention, probes_of, retention
from siltstone.cli.transcript import Transcript
from siltstone.compaction import Compactor
from siltstone.config import Settings, find_settings, read_settings
from siltstone.evaluation.measures import percentile
from siltstone.events import CompactionCompleted
from siltstone.llm import Model
from siltstone.memory.base import Store
from siltstone.memory.paging import entries_of
from siltstone.messages import (
    Message,
    RawMessage,
    RecalledMessage,
    broken_tool_groups,
    encode,
    indexable_texts,
    read_message,
)
from siltstone.models import ExtractiveModel
from siltstone.outcome import Compacted, Failed
from siltstone.presets import Preset
from siltstone.session import Prepared, Session
from siltstone.stores import MemoryStore

__all__ = ["MODELS", "Replay", "named_policy", "replay", "summed"]

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
        read_message(raw, i) for i, raw in enumerate(transcript.messages)
    )
    with Session.open(directory, transcript.name, model=model, context_window=window, **own) as session:
        player = _Player(session, result, watch, window, policy)
        previous: str | None = None
        for message in transcript.messages:
            role = read_message(message, 0).role
            if role == "assistant" != previous:
                player.boundary()
            with watch.running():
                session.append(message)
            player.appended += 1
            previous = role
            progress()
        prepared = player.boundary()
        shown = [raw for raw in prepared.messages if not isinstance(raw, RecalledMessage)]
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


def named_policy(name: str, window: int) -> tuple[str, Compactor]:
    """The label and the policy for *name*, which is the name of a policy or a TOML file.

    A named policy has its settings from the nearest ``siltstone.toml``, if there is one. The default of
    the threshold is four fifths of the window.

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
    defaults: dict[str, Any] = {}
    if (chosen or settings.choice or "threshold") == "threshold":
        defaults["auto_compact_threshold"] = max(window * 4 // 5, 1)
    return label, settings.policy(chosen, **defaults)


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
            rest = (read_message(raw, place) for place, raw in enumerate(self._sent[same:]))
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
    messages = [read_message(raw, seq) for seq, raw in enumerate(transcript.messages)]
    shown = {id(raw) for raw in sent}
    texts = indexable_texts(messages)
    gone = [text for raw, text in zip(transcript.messages, texts, strict=True) if id(raw) not in shown]
    context = "\n".join(_said(read_message(raw, place)) for place, raw in enumerate(sent))

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
    texts = indexable_texts(read_message(raw, seq) for seq, raw in enumerate(transcript.messages))
    for seq, (raw, text) in enumerate(zip(transcript.messages, texts, strict=True)):
        if id(raw) in in_context and seq not in trimmed:
            continue
        result.lost += kept.get(seq) != encode(raw)
        result.lost_from_memory += bool(text.strip()) and contents.get(seq) != text
