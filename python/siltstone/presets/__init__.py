"""The documented systems by name: complete options of a session, with the documented numbers of each.

::

    from siltstone import Session, presets

    session = Session.open("agent-data", "chat-1", preset="meerkat", context_window=128_000)
    session = Session.open("agent-data", "chat-2", preset=presets.meerkat(recent_turn_budget=6))
    session = Session.open("agent-data", "chat-3", preset=presets.meerkat.from_config("config.toml"))

``documented=False`` gives the same kind of session with siltstone's own numbers.
"""

from siltstone.presets.background_stack import spacebot
from siltstone.presets.base import Live, Preset, System
from siltstone.presets.context_archive import openclaw
from siltstone.presets.registry import preset, preset_names
from siltstone.presets.three_tiers import rustant
from siltstone.presets.threshold_stack import meerkat
from siltstone.presets.waterfall_memory import waterfall

__all__ = [
    "Live",
    "Preset",
    "System",
    "meerkat",
    "openclaw",
    "preset",
    "preset_names",
    "rustant",
    "spacebot",
    "waterfall",
]
