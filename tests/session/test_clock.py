"""A clock that runs backwards, or jumps: nothing but the stored times is another.

Order is that of sequence numbers, and waiting is counted in boundaries; so a session that is played with a
wrong clock compacts where it would have, and its store is whole and tells the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storing import elsewhere

PLAY = """
import itertools, json, sys, time
from pathlib import Path

step = {"right": lambda n: n, "backwards": lambda n: -3_600 * n, "stopped": lambda n: 0,
        "jumping": lambda n: (-1) ** n * 315_360_000}[sys.argv[2]]
ticks = itertools.count()
time.time = lambda: 1_700_000_000 + step(next(ticks))  # before anything keeps the function
time.time_ns = lambda: int(time.time() * 1e9)
sys.path.insert(0, sys.argv[3])

from conversations import conversation, play
from siltstone import CompactionConfig, MemoryStore, Session, ThresholdCompactor
from siltstone.testing import ScriptedModel

policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=900, max_summary_tokens=50))
messages = conversation(14)
told = {}
for part in (messages[:20], messages[20:40], messages[40:]):  # closed and opened again in between
    with Session.open(Path(sys.argv[1]), "s", policy=policy, model=ScriptedModel()) as session:
        prepared = play(session, part)
        told.setdefault("prepared", []).append([len(each.messages) for each in prepared])
        told["history"], told["log"] = session.history(), session.log()
with MemoryStore.open(sys.argv[1]) as store:
    rows = store.open_log("s").compactions()
    told["compactions"] = [[row.compaction.covers, row.compaction.reason, row.parent] for row in rows]
    entries = store.entries("s", limit=1_000).entries
    told["entries"] = [[entry.entry_id, list(entry.source_range), entry.content] for entry in entries]
    told["found"] = sorted(hit.entry_id for hit in store.search("s", "topic3", limit=1_000))
    told["findings"] = [str(finding) for finding in store.check()]
    told["times"] = len({entry.created_at for entry in entries})
print(json.dumps(told))
"""


def played(path: Path, clock: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(elsewhere(PLAY, path, clock, Path(__file__).parent.parent))
    assert told["findings"] == []
    assert told["compactions"]
    assert told["found"]
    return told


@pytest.mark.parametrize("clock", ["backwards", "stopped", "jumping"])
def test_a_wrong_clock_changes_no_order_and_no_decision(tmp_path: Path, clock: str) -> None:
    right, wrong = played(tmp_path / "right", "right"), played(tmp_path / clock, clock)
    assert (right.pop("times") != 1, wrong.pop("times") != 1) == (True, clock != "stopped")
    assert wrong == right
