"""The documented systems by name: complete options of a session, with the documented numbers of each.

::

    from siltstone import Session, presets

    session = Session.open("agent-data", "chat-1", preset="meerkat", context_window=128_000)
    session = Session.open("agent-data", "chat-2", preset=presets.meerkat(recent_turn_budget=6))
    session = Session.open("agent-data", "chat-3", preset=presets.meerkat.from_config("config.toml"))

``documented=False`` gives the same kind of session with siltstone's own numbers.
"""

from __future__ import annotations

from typing import Any, Final

from siltstone.checks import nearest
from siltstone.errors import ConfigError
from siltstone.systems.base import Live as Live, Preset as Preset, System as System
from siltstone.systems.meerkat import meerkat as meerkat
from siltstone.systems.openclaw import openclaw as openclaw
from siltstone.systems.rustant import rustant as rustant
from siltstone.systems.spacebot.preset import spacebot as spacebot
from siltstone.systems.waterfall.preset import waterfall as waterfall

# The systems by name.

SYSTEMS: Final[dict[str, System]] = {
    each.name: each for each in (meerkat, spacebot, rustant, waterfall, openclaw)
}


def preset_names() -> list[str]:
    """The names of all systems."""
    return list(SYSTEMS)


def preset(asked: Any, *, documented: bool = True, **settings: Any) -> Preset:
    """The preset of that name or system, documented if not said otherwise; a preset is itself.

    Raises:
        ConfigError: there is none of that name; one of *settings* is not right; or *asked* is a preset, which
            is made already, and the call says something else than it has.
    """
    if isinstance(asked, Preset):
        said = {} if documented or not asked.documented else {"documented": documented}
        beside = {**said, **settings}
        if beside:
            name, value = next(iter(beside.items()))
            raise ConfigError(
                f"{name} must be said where {asked!r} is made, got {value!r} beside it", name, value
            )
        return asked
    if isinstance(asked, System):
        return asked(documented=documented, **settings)
    if not isinstance(asked, str) or asked not in SYSTEMS:
        raise ConfigError(
            f"there is no preset {asked!r}{nearest(str(asked), preset_names())}", "preset", asked
        )
    return SYSTEMS[asked](documented=documented, **settings)
