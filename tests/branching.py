"""Makes sessions that follow a host's list, for the tests of branches."""

import json
from typing import Any

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.memory import Store
from siltstone.session.state import numbers
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=400, recent_turn_budget=2, max_summary_tokens=40)
)


def opened(store: Store, **options: Any) -> Session:
    """A session whose summaries all differ."""
    model = ScriptedModel([f"Summary number {n}." for n in range(100)])
    return Session.open(None, "s", memory=store, **{"policy": POLICY, "model": model, **options})


def copied(raws: list[Any]) -> list[Any]:
    copy: list[Any] = json.loads(json.dumps(raws))
    return copy


def ranges(session: Session) -> list[int]:
    """The sequence numbers of what a search can find."""
    page = session._core.store.entries("s", limit=10_000)
    return sorted(seq for entry in page.entries for seq in range(*entry.source_range))


def line(session: Session) -> list[Any]:
    """Every message on the way to the current view, those that its summary stands for included."""
    log = session.log()
    return [log[seq] for seq in numbers(session._core.line())]
