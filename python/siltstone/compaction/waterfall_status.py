"""The status of waterfall memory: the range of each summary, and missing messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.compaction.base import Range
from siltstone.compaction.waterfall_config import WaterfallConfig
from siltstone.compaction.waterfall_state import WaterfallState
from siltstone.messages import Message

__all__ = ["MemoryStatus", "memory_status"]

STALE_SECONDS = 3_600  # a warning is due if the newest entry is older
FULL, FILLING = 0.9, 0.75  # shares of ``ram_cap``


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """The state of a session's memory, and its faults. Ranges are half-open.

    Attributes:
        entries: The number of messages ever appended.
        longterm: The range of the long-term summary; None if there is none.
        recent: The range of the recent summary; None if there is none.
        pending: The range of messages that wait for the next run.
        immediate: The range of the newest messages, which stay as they are.
        last_run: The number of messages when the last run began; 0 before the first.
        next_run: The number of messages at which the next run is due.
        warnings: Possible faults.
        errors: Faults: messages that are neither shown nor summarised.
    """

    entries: int
    longterm: Range | None
    recent: Range | None
    pending: Range
    immediate: Range
    last_run: int
    next_run: int
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """``[Memory: OK]``, or the number of faults."""
        issues = len(self.warnings) + len(self.errors)
        return f"[Memory: WARNING - {issues} issues]" if issues else "[Memory: OK]"

    @property
    def markdown(self) -> str:
        """A report for people, in Markdown."""
        rows = (
            ("Entries", str(self.entries)),
            ("Long-term summary", _words(self.longterm)),
            ("Recent summary", _words(self.recent)),
            ("Pending", _words(self.pending)),
            ("Immediate", _words(self.immediate)),
            ("Last run", f"at {self.last_run} entries" if self.last_run else "never"),
            ("Next run", f"at {self.next_run} entries"),
        )
        lines = ["# Memory Status", "", self.line, "", *(f"- **{name}**: {value}" for name, value in rows)]
        if self.errors or self.warnings:
            lines += ["", "## Issues", ""]
            lines += [f"- ERROR: {issue}" for issue in self.errors]
            lines += [f"- WARNING: {issue}" for issue in self.warnings]
        return "\n".join(lines) + "\n"


def memory_status(
    view: Sequence[Message],
    state: WaterfallState | None,
    config: WaterfallConfig,
    *,
    next_seq: int | None = None,
    times: Sequence[float | None] | None = None,
    now: float | None = None,
) -> MemoryStatus:
    """The status of the memory in *view*.

    Args:
        view: The messages in view.
        state: The counters; None before the first run.
        config: The settings of the policy.
        next_seq: The number of messages ever appended; None: the highest number that the view covers.
        times: The time of each message of the view, in seconds since 1970; None for an unknown time.
        now: The current time, in the same seconds; None: ages are not checked.
    """
    state = state or WaterfallState()
    shown = {message.seq for message in view if message.provenance != "compaction_summary"}
    covered = {n for message in view for start, end in message.covers for n in range(start, end)}
    size = max([0, *(n + 1 for n in shown), *(n + 1 for n in covered)]) if next_seq is None else next_seq
    border = max(state.covered, size - config.immediate_window)
    first = config.immediate_window + config.recent_window + 1
    missing = [n for n in range(size) if n not in shown and n not in covered]
    errors = (f"coverage gap: {len(missing)} entries, the first is {missing[0]}",) if missing else ()
    return MemoryStatus(
        entries=size,
        longterm=(0, state.longterm_end) if state.longterm_end else None,
        recent=(state.longterm_end, state.covered) if state.covered else None,
        pending=(state.covered, border),
        immediate=(border, size),
        last_run=state.last,
        next_run=state.last + config.every if state.last else first,
        warnings=tuple(_warnings(view, len(shown), config, times, now)),
        errors=errors,
    )


def _warnings(
    view: Sequence[Message],
    shown: int,
    config: WaterfallConfig,
    times: Sequence[float | None] | None,
    now: float | None,
) -> list[str]:
    found = []
    known = [time for time in times or () if time is not None]
    if now is not None and known and now - max(known) > STALE_SECONDS:
        found.append(f"last entry is {int(now - max(known))} s old, more than {STALE_SECONDS}")
    use = shown / config.ram_cap
    if use > FILLING:
        word = "almost full" if use > FULL else "filling"
        found.append(f"memory is {word}: {shown} of {config.ram_cap} entries ({use:.0%})")
    blank = sum(
        not message.parts or not any(part.text or part.name for part in message.parts) for message in view
    )
    if blank:
        found.append(f"{blank} entries without content")
    if times is not None and (undated := sum(time is None for time in times)):
        found.append(f"{undated} entries without timestamp")
    return found


def _words(span: Range | None) -> str:
    if span is None:
        return "none"
    start, end = span
    return f"{end - start} entries ({start} to {end - 1})" if end > start else "0 entries"
