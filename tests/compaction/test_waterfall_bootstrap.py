"""Waterfall memory of a long session: its bootstrap, its requests in portions, its ranges after a restart."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from playing import Play, said
from siltstone import CompletionRequest, Session, WaterfallCompactor
from siltstone.compaction import Trigger
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import summary_message
from siltstone.engine import Compacted, Skipped
from siltstone.messages import MaterialItem, encode, read_history
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
    assert (type(again), again.reason) == (Skipped, "has_summary")


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
    assert (type(refused), refused.reason) == (Skipped, "too_few")
    assert "have 128 (128 loaded), need more than 128" in refused.message


@given(st.integers(0, 1 << 32))
def test_wf_20_coverage_holds_over_a_store_that_is_closed_or_left_open_by_a_process_that_died(seed: int):
    """Real sessions one after the other over one folder, each with a policy of its own."""
    chance = random.Random(seed)
    config = WaterfallConfig(immediate_window=3, recent_window=2, retry_delay=0, attempts=1)

    def model(request: Any) -> str:
        answer = chance.choice(["A summary.", "A summary.", "", OSError("down")])
        if isinstance(answer, Exception):
            raise answer
        return answer

    with TemporaryDirectory() as folder, ExitStack() as left_open:

        def opened() -> Session:
            session = Session.open(folder, "s", policy=WaterfallCompactor(config), model=model)
            left_open.callback(session.close)
            return session

        session, size = opened(), 0
        for _ in range(2):
            for _ in range(chance.randint(0, 6)):
                session.append(*said(1, size))
                size += 1
                session.prepare()
            match chance.choice(["force", "close", "die"]):
                case "force":
                    session.compact()
                case "close":
                    before = [encode(raw) for raw in session.history()]
                    session.close()
                    session = opened()
                    assert [encode(raw) for raw in session.history()] == before
                case _:
                    session = opened()
            view = read_history(session.history())
            covered = [n for m in view for start, end in m.covers for n in range(start, end)]
            assert covered + [m.seq for m in view if not m.covers] == list(range(size))
            assert [raw["content"] for raw in session.log()] == [f"Entry {n}" for n in range(size)]


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_the_material_of_the_portions_is_every_text_once_with_its_speaker(style: str):
    """Portions were given as text alone, and a model that selects lines read the speakers out of it."""
    material: list[list[MaterialItem]] = []

    def keep(request: CompletionRequest) -> str:
        if request.purpose == "summary":
            assert request.material is not None
            material.append(list(request.material))
        return "A summary."

    config = WaterfallConfig(
        immediate_window=4, recent_window=8, summarizer_window=1_024, max_tokens=100, prompt_style=style
    )
    session = Play(WaterfallCompactor(config), keep)
    roles = "assistant", "user"
    raws = [{"role": roles[n % 2], "content": f"Entry {n}:\n" + f"word{n} " * 100} for n in range(13)]
    session.append(*raws)
    assert isinstance(session.boundary(), Compacted)
    assert len(material) > 1
    assert all(material)
    read: dict[int | None, str] = {}
    for item in (item for portion in material for item in portion):
        assert item.role == roles[(item.seq or 0) % 2]
        assert item.continues is (item.seq in read)
        read[item.seq] = read.get(item.seq, "") + item.text
    assert [read[n].split() for n in range(9)] == [raws[n]["content"].split() for n in range(9)]
