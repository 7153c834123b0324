"""A long history without summaries, and the bootstrap of waterfall memory over it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playing import Play, said
from siltstone import WaterfallCompactor
from siltstone.compaction import Trigger
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import summary_message
from siltstone.engine import Compacted, Skipped
from siltstone.systems.waterfall.config import RECENT_PREFIX, WaterfallConfig, slice_of
from siltstone.systems.waterfall.policy import WaterfallState


def play() -> Play:
    return Play(WaterfallCompactor(replace(WaterfallConfig.documented(), retry_delay=0.0)))


def state(session: Play) -> WaterfallState:
    found = WaterfallState.read(session.state)
    assert found is not None
    return found


def test_wf_29_bootstrap_covers_an_old_history_as_if_the_runs_had_happened():
    session = play()
    session.append(*said(300))
    outcome = session.compact(Trigger("manual", "bootstrap"))
    assert isinstance(outcome, Compacted)
    assert state(session) == WaterfallState(last=300, covered=236, longterm_end=172, passes=4)
    assert session.prompts[-1] == slice_of([f"Entry {n}" for n in range(172, 236)])
    again = session.compact(Trigger("manual", "bootstrap"))
    assert isinstance(again, Skipped)
    assert again.reason == "has_summary"


@pytest.mark.parametrize("end", [128, 236])
def test_wf_29_bootstrap_takes_stored_recent_summaries_in_order_and_what_came_after_them(end: int):
    past = [((64, end), "Then it rained."), ((0, 64), "I went out.")]
    stored = tuple(summary_message(framed(RECENT_PREFIX, text), (span,)) for span, text in past)
    session = play()
    session.append(*said(300))
    assert isinstance(session.compact(Trigger("manual", "bootstrap", past=stored)), Compacted)
    of_messages = [p for p in session.prompts if "Entry" in p]
    assert session.prompts[0] == slice_of(["I went out.", "Then it rained."])
    newest = slice_of([f"Entry {n}" for n in range(172, 236)])
    between = [slice_of([f"Entry {n}" for n in range(128, 172)])] if end == 128 else []
    assert of_messages == [*between, newest]
    assert (state(session).covered, state(session).longterm_end) == (236, 172)
    assert session.stands_for() == list(range(300))


def test_wf_29_bootstrap_refuses_too_few_entries_with_need_and_have():
    session = play()
    session.append(*said(128))
    refused = session.compact(Trigger("manual", "bootstrap"))
    assert isinstance(refused, Skipped)
    assert refused.reason == "too_few"
    assert "have 128 (128 loaded), need more than 128" in refused.message
