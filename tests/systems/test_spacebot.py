"""Does spacebot keep what it promises beside its summaries: no waiting, emergencies, retries, checkpoints?"""

import json
from pathlib import Path
from typing import Any

import pytest

from gates import Gate
from recorded_agent import Scripted, session_of
from siltstone import ConfigError, Session, presets
from siltstone.engine import Compacted
from siltstone.messages import read_history, unmarked

TEXT = 1_600  #: characters of a message: 400 tokens by ``flat_tools``, so 32 of them are 0.80 of 16,000


def said(number: int) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": f"{number:04} ".ljust(TEXT, "x")}


def test_it_never_waits_for_a_model(tmp_path: Path) -> None:
    """The model is held until the session is at the next tier: ten requests go out meanwhile."""
    gate = Gate("They spoke of numbers.")
    with session_of(tmp_path, "spacebot", 16_000, gate) as session:
        for number in range(32):
            session.append(said(number))
        shown = [session.prepare().history]
        assert gate.reached.wait(300)
        for number in range(32, 36):
            session.append(said(number))
            shown.append(session.prepare().history)
        assert [len(each) for each in shown] == [32, 33, 34, 35, 36], "the old messages are in view"
        gate.open.set()
        assert session.wait_for_compaction(60)
        prepared = session.prepare()
        assert [type(each) for each in prepared.outcomes] == [Compacted]
        assert len(prepared.history) == 1 + 36 - 9, "floor(0.30 * 32) messages left, and one summary came"
        assert unmarked(prepared.history[0]["content"]) == "[Summary 1: turns 1-5]\n\nThey spoke of numbers."


@pytest.mark.parametrize(
    ("count", "tier", "cut"),
    [(31, None, 0), (32, "background", 9), (34, "aggressive", 17), (38, "emergency", 19)],
)
def test_the_tiers_and_their_cuts_worked_out_by_hand(tmp_path: Path, count: int, tier: str | None, cut: int):
    """0.80, 0.85 and 0.95 of 16,000 are 12,800, 13,600 and 15,200 tokens: 32, 34 and 38 messages of 400."""
    told: list[Any] = []
    with session_of(tmp_path, "spacebot", 16_000, Scripted(), hooks=[told.append]) as session:
        session.append(*map(said, range(count)))
        session.prepare()
        session.wait_for_compaction(60)
        session.append({"role": "user", "content": "go on"})
        session.prepare()
        tiers = [event.action for event in told if type(event).__name__ == "CompactionTriggered"]
        assert tiers[:1] == ([] if tier is None else [tier])
        covered = [each.covers for each in session.compactions()[:1]]
        assert covered == ([] if tier is None else [((0, cut),)])


def test_summaries_and_markers_of_the_assistant_are_known_after_a_restart_and_in_a_hosts_list(tmp_path: Path):
    text = '[defaults]\ncontext_window = 16000\n[defaults.compaction]\nsummary_role = "assistant"'
    made = presets.spacebot.from_config(text)
    host: list[Any] = []
    with Session.open(tmp_path, "s", preset=made, model=Scripted()) as session:
        for number in range(80):
            session.append(said(number))
            if number in (33, 60):
                assert isinstance(session.compact(), Compacted)
        emergency = session.prepare().history  # half of what is live leaves, with a marker
        assert [raw["role"] for raw in emergency[:3]] == ["assistant"] * 3
        assert "[Emergency truncation" in emergency[2]["content"]
    with Session.open(tmp_path, "s", preset=made, model=Scripted()) as session:
        assert session.history() == emergency
        host = json.loads(json.dumps(session.history()))
        read = read_history(host)
        assert [each.provenance for each in read[:3]] == ["compaction_summary"] * 3
        assert read[3].seq == len(session.log()) - len(host) + 3
        session.observe([*host, said(80)])
        assert len(session.log()) == 81, "no summary was taken for a message"
        forged = {**host[0], "role": "user"}
        assert read_history([forged, *host[1:]])[0].provenance == "original", "the mark has the role"
    with pytest.raises(ConfigError, match="summary_role must be 'user' or 'assistant', got 'system'"):
        presets.spacebot(summary_role="system")
