"""System messages in versions: one of a key is in force, and the others leave."""

from __future__ import annotations

from typing import Any

import pytest

from compacting import SHORT, outcome, run, system, turn, user
from siltstone.compaction import Compaction, CompactionError, Compactor, Skip, Trigger
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.validate import validate
from siltstone.errors import ConfigError
from siltstone.messages import KeyedSystemMessage, read_history, unmarked
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.testing import ScriptedModel


@pytest.mark.parametrize("newest", [1, 3])
def test_mk_21_only_the_newest_version_of_a_keyed_system_message_stays(newest: int):
    """Old versions are discarded, and the summariser sees none of them."""
    model = ScriptedModel([SHORT])
    versions = [2, 1, 1] if newest == 1 else [1, 2, 2]
    raws = [
        system("Plain rules."),
        KeyedSystemMessage("Rules of old.", "rules", versions[0]),
        *turn(0),
        KeyedSystemMessage("Rules of today.", "rules", versions[1]),
        KeyedSystemMessage("Rules of a twin.", "rules", versions[2]),
        KeyedSystemMessage("Another key.", "tone", 1),
        *turn(1),
    ]
    kept = 1 if newest == 1 else 4
    policies: list[Compactor] = [
        ThresholdCompactor(CompactionConfig(recent_turn_budget=1)), Emergency(500)
    ]  # fmt: skip
    for compacting in policies:
        history, compaction = run(raws, compacting, model)
        assert history[kept] in compaction.retained
        for at in (1, 4, 5):
            assert (history[at] in compaction.discarded) == (at != kept)
        assert {0, 6} <= {message.seq for message in compaction.retained}
        assert "Rules of" not in compaction.summary
        validate(history, compaction, compaction_text(compaction))
    assert "Rules of" not in model.requests[0].messages[0]["content"]


def test_mk_21_a_superseded_version_alone_is_nothing_to_summarise():
    raws = [KeyedSystemMessage("a", "k", 1), KeyedSystemMessage("b", "k", 2), user("hello")]
    assert isinstance(outcome(raws, ThresholdCompactor())[1], Skip)


@pytest.mark.parametrize(("key", "version"), [("", 1), (7, 1), ("k", 0), ("k", True), ("k", "1")])
def test_mk_21_a_version_that_is_none_is_refused(key: Any, version: Any):
    with pytest.raises(ConfigError, match=r"key must be|version must be"):
        KeyedSystemMessage("text", key, version)


def compaction_text(compaction: Compaction) -> str:
    return next(unmarked(m.text) for m in compaction.messages if m.provenance == "compaction_summary")


def test_mk_21_a_pinned_version_stays_and_the_validator_refuses_any_other():
    raws = [KeyedSystemMessage("a", "k", 1), KeyedSystemMessage("b", "k", 2), *turn(0), *turn(1)]
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1))
    history = read_history(raws)
    pin = Trigger("manual", pins=frozenset({0}))
    _, compaction = run(history, policy, trigger=pin)
    assert history[0] in compaction.retained
    validate(history, compaction, compaction_text(compaction), pin)
    with pytest.raises(CompactionError, match="the superseded system message at position 0 is retained"):
        validate(history, compaction, compaction_text(compaction))
