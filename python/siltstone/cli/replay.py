"""Runs a policy over a recorded transcript, message by message, as an agent would meet it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.cli.latency import Stopwatch
from siltstone.cli.transcript import Transcript
from siltstone.compaction import Compactor
from siltstone.config import Settings, find_settings, read_settings
from siltstone.evaluation.measures import percentile
from siltstone.events import CompactionCompleted
from siltstone.llm import Model
from siltstone.memory import MemoryStore
from siltstone.memory.base import Store
from siltstone.messages import RawMessage, broken_tool_groups, encode, indexable_texts, read_message
from siltstone.models import ExtractiveModel
from siltstone.outcome import Compacted, Failed
from siltstone.presets import Preset
from siltstone.session import Prepared, Session

__all__ = ["MODELS", "Replay", "named_policy", "replay", "summed"]

MODELS: dict[str, Callable[[], Model]] = {"extractive": ExtractiveModel}


@dataclass(slots=True)
class Replay:
    """What one session came to.

    Attributes:
        name: The session's name in the transcript.
        messages: Messages appended.
        boundaries: Times that ``prepare`` was called.
        compactions: Committed compactions, those of the emergency net included.
        runs: Those of the policy itself.
        net_runs: Those of the emergency net under it.
        failed: Attempts that came to nothing.
        model_calls: Requests to the model that were answered.
        tokens_sent: Tokens of those requests.
        messages_in_context: Messages in the last view.
        tokens_seen: All messages, by the policy's estimator.
        peak_tokens: The most that ``prepare`` returned.
        tokens_in_context: What it returned last.
        entries: Entries in memory.
        lost: Messages neither in context nor in the log.
        lost_from_memory: Discarded, indexable messages that ``entries`` does not return.
        broken_tool_groups: Tool calls and results that ``prepare`` returned apart, summed.
        over_window: Times that ``prepare`` returned more than the window.
        latencies: Microseconds that siltstone added, a sample for each boundary: ``prepare`` and the
            appends since the boundary before.
        seconds: The whole session.
    """

    name: str
    messages: int = 0
    boundaries: int = 0
    compactions: int = 0
    runs: int = 0
    net_runs: int = 0
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
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Nothing was lost, broken or too large."""
        return not (self.lost or self.lost_from_memory or self.broken_tool_groups or self.over_window)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "latencies"}
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
    """Replays *transcript* into a store below *directory*, then reopens the store and looks for losses.

    *policy* is a policy, or a preset with all that it has. A boundary comes before each model call: before an
    assistant message that does not follow another, and once at the end.
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
        previous: str | None = None
        for message in transcript.messages:
            role = read_message(message, 0).role
            if role == "assistant" != previous:
                _boundary(session, result, watch, window, policy.name)
            with watch.running():
                session.append(message)
            previous = role
            progress()
        prepared = _boundary(session, result, watch, window, policy.name)
        result.messages_in_context = len(prepared.history)
        result.tokens_in_context = prepared.tokens
    with MemoryStore.open(directory, read_only=True) as store:
        _look_for_losses(store, transcript, prepared.history, result)
    result.latencies = watch.samples
    result.seconds = time.perf_counter() - started
    return result


def summed(results: list[Replay]) -> Replay:
    """The sum of *results*; of the peaks the highest, of the latencies all."""
    total = Replay("total")
    for name in Replay.__slots__:
        if name not in {"name", "peak_tokens", "latencies"}:
            setattr(total, name, sum(getattr(result, name) for result in results))
    total.peak_tokens = max((result.peak_tokens for result in results), default=0)
    total.latencies = [sample for result in results for sample in result.latencies]
    return total


def named_policy(name: str, window: int) -> tuple[str, Compactor]:
    """A policy by its name, or by the file that names it; and what to call it.

    A name takes its settings from the nearest ``siltstone.toml``, where there is one. A threshold that is
    named nowhere is four fifths of the window.

    Raises:
        ConfigError: there is no such policy, or the file is not right.
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


def _boundary(session: Session, result: Replay, watch: Stopwatch, window: int, policy: str) -> Prepared:
    with watch.running():
        prepared = session.prepare()
    watch.lap()
    session.wait_for_compaction()  # the agent's own model takes longer than that
    result.boundaries += 1
    for outcome in prepared.outcomes:
        result.failed += isinstance(outcome, Failed)
        result.model_calls += len(outcome.usage)
        result.tokens_sent += sum(record.input_tokens for record in outcome.usage)
        if isinstance(outcome, Compacted):
            made_by = next(e.policy for e in outcome.events if isinstance(e, CompactionCompleted))
            result.compactions += 1
            result.runs += made_by == policy
            result.net_runs += made_by != policy
    result.peak_tokens = max(result.peak_tokens, prepared.tokens)
    result.over_window += prepared.tokens > window
    result.broken_tool_groups += broken_tool_groups(prepared.messages)
    return prepared


def _look_for_losses(store: Store, transcript: Transcript, context: list[RawMessage], result: Replay) -> None:
    """Compares what was appended with what a new process would find."""
    log = store.open_log(transcript.name)
    kept = {row.seq: row.raw for row in log.read(0, log.state().next_seq)}
    in_context = {id(raw) for raw in context}
    contents: dict[int, str] = {}
    offset: int | None = 0
    while offset is not None:
        page = store.entries(transcript.name, offset=offset, limit=1000)
        contents.update((entry.source_range.start, entry.content) for entry in page.entries)
        offset = page.next_offset
    result.entries = len(contents)
    texts = indexable_texts(read_message(raw, seq) for seq, raw in enumerate(transcript.messages))
    for seq, (raw, text) in enumerate(zip(transcript.messages, texts, strict=True)):
        if id(raw) in in_context:
            continue
        result.lost += kept.get(seq) != encode(raw)
        result.lost_from_memory += bool(text.strip()) and contents.get(seq) != text
