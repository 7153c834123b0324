"""Shows the tokens of a context by category, with a bar for each."""

from __future__ import annotations

from siltstone.cli.console import line, output
from siltstone.compaction.breakdown import ContextBreakdown

__all__ = ["draw"]

_BAR, _LEAST_BAR = 60, 8  #: maximum and minimum columns of a full bar; the terminal's width decides
_FIGURES = 21  #: columns of the figures beside it
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_STYLES = {
    "system": "magenta",
    "summaries": "green",
    "user": "cyan",
    "assistant": "blue",
    "tool": "yellow",
}


def draw(bands: dict[str, int], full: ContextBreakdown, window: int | None) -> None:
    """Prints a line for each category, with its tokens and its share.

    A terminal also gets a bar in each line, and a sentence about the whole above the lines.
    """
    whole = window or full.total_tokens
    shown = {**bands, "free": full.remaining_tokens} if window else bands
    widest = max(map(len, shown), default=0)
    room = max(_LEAST_BAR, min(_BAR, output.width - widest - _FIGURES))
    if output.is_terminal:
        line(_sentence(full, window), "bold")
    for name, count in shown.items():
        share = min(1.0, count / whole) if whole else 0.0
        bar = f"{_bar(share, room, free=name == 'free')}  " if output.is_terminal else ""
        line(f"{name:<{widest}}  {bar}{count:>9,}  {share:>6.1%}", _style(name))


def _sentence(full: ContextBreakdown, window: int | None) -> str:
    said = f"{full.total_tokens:,} tokens"
    if window is not None:
        said += f" of {window:,}, {full.total_tokens / window:.0%}"
    summaries = " and summaries" * bool(full.summary_tokens)
    return f"{said}: {full.message_count:,} of {full.messages_seen:,} messages{summaries}"


def _bar(share: float, room: int, *, free: bool) -> str:
    """A bar of *share* of *room* columns. A share above 0 has at least an eighth of a column."""
    if free:
        return f"{'·' * round(room * share):<{room}}"
    eighths = max(round(room * 8 * share), share > 0)
    return f"{'█' * (eighths // 8) + _EIGHTHS[eighths % 8]:<{room}}"


def _style(name: str) -> str:
    return next((style for start, style in _STYLES.items() if name.startswith(start)), "dim")
