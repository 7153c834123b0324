"""What README's opening does without until its first ``prepare``; benches/python/bench_start.py times it."""

import subprocess
import sys

OPENING = """
import sys, siltstone
with siltstone.Session.open(sys.argv[1], "chat-1", context_window=4_000) as session:
    session.append({"role": "user", "content": "How is the next one?"})
    assert len(session.prepare().messages) == 1
    print(*sys.modules)
"""
OPTIONAL = (
    "archive", "config", "engine", "evaluation", "events", "index", "knowledge", "postgres", "presets",
    "recall", "redaction", "systems.openclaw", "systems.rustant", "systems.spacebot", "systems.waterfall",
    "compaction.emergency", "compaction.results", "memory.hits", "messages.conversion", "session.aio",
    "session.committing", "session.host_list",
)  # fmt: skip


def test_the_opening_imports_no_optional_room_no_numpy_and_no_event_loop(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(tmp_path)], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert {"siltstone.session.session", "siltstone.stores.memory"} <= modules
    assert not modules & {f"siltstone.{room}" for room in OPTIONAL}
    assert not modules & {"asyncio", "numpy", "sqlite3", "tempfile"}
