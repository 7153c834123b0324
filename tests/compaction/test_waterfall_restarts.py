"""Waterfall summaries over a store: their ranges when a session is closed, or its process dies."""

from __future__ import annotations

import random
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, strategies as st

from playing import said
from siltstone import Session, WaterfallCompactor
from siltstone.messages import encode, read_history
from siltstone.systems.waterfall.config import WaterfallConfig


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
