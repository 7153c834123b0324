"""``waterfall``: messages in full, a recent and a long-term summary, and a vault of Markdown files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, Final

from siltstone import checks
from siltstone.checks import nearest
from siltstone.errors import ConfigError
from siltstone.systems.base import Preset, System, chosen
from siltstone.systems.reading import Table, known_tables, markdown_settings, table, toml
from siltstone.systems.waterfall.config import WaterfallConfig
from siltstone.systems.waterfall.policy import WaterfallCompactor
from siltstone.systems.waterfall.vault import VaultFiles

SUMMARIZER: Final = "summarizer"
"""The documented profile: the model of the session."""

#: Siltstone's alone.
_OWN: Final = ("cap_share", "summary_timeout", "retry_delay", "summarizer_window", "estimator")
_KEYS: Final = {
    name: name
    for name in ("profile", *(each.name for each in fields(WaterfallConfig) if each.name not in _OWN))
}


_UNUSED: Final = ("compaction_threshold",)  # of a documented file, though runs follow from the windows alone


class Waterfall(System):
    """Shows a session at three scales, by the number of its messages.

    A configuration is the documented Markdown, whose lines ``**key**: value`` are settings, or TOML with the
    same keys, at the top or in the table ``[waterfall]``. ``profile`` is the name of the model that writes
    the summaries: ``summarizer`` is the session's model; ``from_config(..., profiles={name: model})`` gives
    others.
    """

    name: ClassVar[str] = "waterfall"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {"": {**_KEYS, "profiles": "profiles"}}

    def _read(self, text: str) -> Mapping[str, Table]:
        try:
            read = toml(text)
        except ConfigError as error:  # a line **key**: value is no TOML wherever it stands
            found = markdown_settings(text)
            if not found:
                raise ConfigError(
                    f"{error}; nor is it Markdown with lines **key**: value", "config", text
                ) from error
            known_tables({key: found.pop(key) for key in _UNUSED if key in found}, ())
            return {"": found}
        inner = table(read.pop("waterfall", {}), "waterfall")
        others = [key for key, value in read.items() if isinstance(value, dict) and key != "profiles"]
        known_tables({key: read.pop(key) for key in others}, ["waterfall"])
        return {"": {**read, **inner}}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        given = dict(settings)
        profiles = table(given.pop("profiles", {}), "profiles")
        profile = given.pop("profile", SUMMARIZER)
        checks.text("profile", profile)
        if profile != SUMMARIZER and profile not in profiles:
            raise ConfigError(
                f"profile must be the name of a model, got {profile!r}"
                f"{nearest(profile, [SUMMARIZER, *profiles])}",
                "profile",
                profile,
            )
        form = WaterfallConfig.documented() if documented else WaterfallConfig()
        values = chosen(given, WaterfallConfig)
        stop = values.get("stop")
        if isinstance(stop, str):
            values["stop"] = (stop,)
        config = replace(form, **values)
        options: dict[str, Any] = {"policy": WaterfallCompactor(config)}
        if profile in profiles:
            options["model"] = profiles[profile]
        return Preset(self.name, documented, options, settings, live=partial(VaultFiles, config=config))


waterfall: Final = Waterfall()
