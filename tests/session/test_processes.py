"""Eight processes on one session: each follows the others, and nothing acknowledged is lost or doubled.

``SILTSTONE_PROCESS_SECONDS`` says for how long (default 0.5; the long form: 60).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from conversations import small
from siltstone import MemoryStore, Session
from siltstone.messages import validate_history
from storing import elsewhere

PROCESSES = 8
SECONDS = float(os.environ.get("SILTSTONE_PROCESS_SECONDS", "0.5"))
WINDOW = 3_000

WORKER = """
import json, random, sys, time
from collections import Counter
from conversations import small, user
from siltstone import Session
from siltstone.errors import StoreBusyError, StoreConflictError

path, me, seconds, window = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
chance, done, found, acknowledged = random.Random(me), Counter(), Counter(), []
session = Session.open(
    path, "s", policy=small(2_000), model=lambda request: "A summary.", context_window=window
)
begin, number = time.monotonic(), 0
while time.monotonic() < begin + seconds or number < 5:
    word = f"p{me}n{number}x"
    message = user(word + " word" * 60)
    try:
        session.append(message)
    except StoreConflictError:  # another one was faster: go on from there
        done["conflict"] += 1
        session.reload()
        continue
    except StoreBusyError:
        done["busy"] += 1
        continue
    number += 1
    acknowledged.append(word)
    try:
        prepared = session.prepare()
        done["prepare"] += 1
        found["over the window"] += prepared.tokens > window
        if not any(word in each["content"] for each in prepared.messages):
            before = session._core.follow().version
            shown = any(word in each["content"] for each in session.history())
            is_kept = shown or bool(session.search(word, 5))
            if session._core.follow().version == before:  # else others went on between the two looks
                found["neither shown nor found"] += not is_kept
        if chance.random() < 0.05:
            session.undo_compaction()
            done["undo"] += 1
        if chance.random() < 0.05:
            done[type(session.compact()).__name__] += 1
    except StoreConflictError:
        done["conflict"] += 1
    except StoreBusyError:
        done["busy"] += 1
print(json.dumps({"acknowledged": acknowledged, "done": done, "found": found}))
session.close()
"""


def test_eight_processes_on_one_session_lose_and_double_nothing(tmp_path: Path) -> None:
    place = tmp_path / "store"
    Session.open(place, "s").close()
    children = []
    for me in range(PROCESSES):  # a report may be longer than a pipe holds
        command = [sys.executable, "-c", WORKER, str(place), str(me), str(SECONDS), str(WINDOW)]
        with (tmp_path / f"{me}.out").open("wb") as out, (tmp_path / f"{me}.err").open("wb") as err:
            children.append(subprocess.Popen(command, stdout=out, stderr=err))
    acknowledged, done, found = Counter[str](), Counter[str](), Counter[str]()
    for me, child in enumerate(children):
        assert child.wait(SECONDS + 600) == 0, (tmp_path / f"{me}.err").read_text()
        report = json.loads((tmp_path / f"{me}.out").read_bytes())
        acknowledged.update(report["acknowledged"])
        done.update(report["done"])
        found.update(report["found"])
    print(
        f"\n{PROCESSES} processes, {SECONDS:g} s: {len(acknowledged)} messages, {dict(done)}, {dict(found)}"
    )
    assert +found == Counter()
    with MemoryStore.open(place) as store:
        session = Session.open(None, "s", memory=store, policy=small(2_000), context_window=WINDOW)
        logged = [message["content"].split()[0] for message in session.log()]
        assert Counter(logged) == acknowledged
        assert set(acknowledged.values()) == {1}
        for me in range(PROCESSES):  # of each process in its own order
            own = [word for word in logged if word.startswith(f"p{me}n")]
            assert own == sorted(own, key=lambda word: int(word[:-1].partition("n")[2]))
        shown = {str(message["content"]).split()[0] for message in session.history()}
        page = store.entries("s", limit=10**6)
        kept = {entry.content.split()[0] for entry in page.entries}
        assert set(logged) <= shown | kept, "what left the view is found"
        assert not shown & kept, "and nothing that is in it"
        assert validate_history(session.history()) == []
        assert session.prepare().tokens <= WINDOW
        session.close()
        assert store.check() == []


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
