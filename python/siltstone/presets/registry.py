"""The systems by name."""

from __future__ import annotations

from typing import Any, Final

from siltstone.compaction.checks import nearest
from siltstone.errors import ConfigError
from siltstone.presets.background_stack import spacebot
from siltstone.presets.base import Preset, System
from siltstone.presets.context_archive import openclaw
from siltstone.presets.three_tiers import rustant
from siltstone.presets.threshold_stack import meerkat
from siltstone.presets.waterfall_memory import waterfall

__all__ = ["SYSTEMS", "preset", "preset_names"]

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
                f"{name} must be said where {asked!r} is made, got {value!r} beside it",
                field=name,
                value=value,
            )
        return asked
    if isinstance(asked, System):
        return asked(documented=documented, **settings)
    if not isinstance(asked, str) or asked not in SYSTEMS:
        raise ConfigError(
            f"there is no preset {asked!r}{nearest(str(asked), preset_names())}", field="preset", value=asked
        )
    return SYSTEMS[asked](documented=documented, **settings)
