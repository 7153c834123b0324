"""The command ``timeline``: shows each turn of a session, and the tokens in context after it."""

from __future__ import annotations

from dataclasses import asdict

from siltstone.cli.console import AsJson, line, output, print_json, refusals
from siltstone.cli.looking import SessionId, StorePath
from siltstone.cli.stores import opened
from siltstone.figures.reading import plain, require_session
from siltstone.figures.turns import Mark, told

__all__ = ["timeline"]

_BAR, _LEAST_BAR = 60, 8  # maximum and minimum columns of the longest bar; the terminal's width decides
_SAID = 44  # columns before the bar


def timeline(store: StorePath, session: SessionId, as_json: AsJson = False) -> None:
    """Show a session turn by turn, in tokens.

    It shows the tokens of each turn, the tokens in context after it, and each compaction.

    Example: siltstone timeline agent-data chat-1
    """
    with refusals(), opened(store, read_only=True) as held:
        require_session(held, session)
        turns, marks = told(held.open_log(session))
    if as_json:
        shown = {"turns": [asdict(each) for each in turns], "compactions": [asdict(each) for each in marks]}
        print_json(plain({"session": session, **shown}))
        return
    most = max([*(turn.context for turn in turns), *(mark.tokens_before for mark in marks)], default=0)
    if turns:
        line(f"{'turn':>4}  {'messages':<13}  {'said':>9}  {'in context':>10}", "bold")
    waiting = list(marks)
    for turn in turns:
        span = f"{turn.start}-{turn.end - 1}"
        said = f"{turn.turn:>4}  {span:<13}  {turn.tokens:>9,}  {turn.context:>10,}"
        line(f"{said}  {_bar(turn.context, most)}".rstrip())
        while waiting and waiting[0].seq <= turn.end:
            line(_told(waiting.pop(0)), "yellow")
    line(f"{len(turns)} turns, {len(marks)} compactions")


def _told(mark: Mark) -> str:
    change = f"{mark.tokens_before:,} to {mark.tokens_after:,} tokens"
    return f"   ▼  compaction {mark.id} before message {mark.seq}: {mark.reason}, {change}"


def _bar(tokens: int, most: int) -> str:
    """*tokens* as a bar; empty without a terminal."""
    if not output.is_terminal or not most:
        return ""
    longest = max(_LEAST_BAR, min(_BAR, output.width - _SAID))
    return "█" * round(longest * tokens / most)
