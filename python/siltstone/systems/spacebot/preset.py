"""``spacebot``: three tiers of a window, summaries in the background, and memories saved with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Final

from siltstone.compaction import checks
from siltstone.compaction.checks import settings_table
from siltstone.knowledge import KnowledgeConfig
from siltstone.systems.base import Preset, System
from siltstone.systems.reading import Table, known_tables, table, toml
from siltstone.systems.spacebot.config import SUMMARY_PROMPT, WORKER_PROMPT, ChronicleConfig, TieredConfig
from siltstone.systems.spacebot.tiered import TieredCompactor
from siltstone.tools.memory import SavedMemory, memory_save

#: Settings with the same name in siltstone and in the system.
_TIERS: Final = tuple(
    each.name for each in fields(TieredConfig) if each.name not in ("context_window", "estimator")
)
_TOP: Final = {"context_window": "context_window"}
#: Other keys of the table ``[defaults]``, which are about other parts of the system.
_ASIDE: Final = ("max_concurrent_branches", "max_turns", "history_backfill_count")


class Spacebot(System):
    """Watches the share of the window that is in use. Summaries are written in the background.

    A configuration is TOML: the table ``[defaults]`` with ``context_window``, and ``[defaults.compaction]``.
    A table ``[compaction]`` with the same keys is read too, and has precedence.
    """

    name: ClassVar[str] = "spacebot"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "defaults": _TOP,
        "compaction": {name: name for name in (*_TIERS, "extraction")},
    }

    def _read(self, text: str) -> Mapping[str, Table]:
        read = known_tables(toml(text), list(self.tables))
        defaults = read.get("defaults", {})
        inner = table(defaults.pop("compaction", {}), "defaults.compaction")
        inner_tables = {key: value for key, value in defaults.items() if isinstance(value, dict)}
        known_tables({key: value for key, value in inner_tables.items() if key not in _TOP}, ["compaction"])
        for key in [key for key in defaults if key in _ASIDE or (key in inner_tables and key not in _TOP)]:
            del defaults[key]
        return {"defaults": defaults, "compaction": {**inner, **read.get("compaction", {})}}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        given = dict(settings)
        extraction = given.pop("extraction", "tool")
        checks.one_of("extraction", extraction, ("tool", "off"))
        if isinstance(given.get("chronicle"), Mapping):
            form = ChronicleConfig(whole_turns=documented)
            given["chronicle"] = settings_table(ChronicleConfig, "chronicle", given["chronicle"], form)
        if isinstance(given.get("superseding_tools"), list):
            given["superseding_tools"] = tuple(given["superseding_tools"])
        config = TieredConfig.documented(**given) if documented else TieredConfig(**given)
        saves = extraction == "tool"
        policy = TieredCompactor(
            config,
            prompt=WORKER_PROMPT if saves else SUMMARY_PROMPT,
            tools=[memory_save(_never).definition("openai")] if saves else (),
        )
        learns = KnowledgeConfig(patterns=False, knowledge_extraction=False, rules=False)
        options: dict[str, Any] = {"policy": policy, "knowledge": learns}
        if config.context_window is not None:
            options["context_window"] = config.context_window
        return Preset(self.name, documented, options, settings)


def _never(memory: SavedMemory) -> str:
    """The function of ``memory_save``, which is never called: only the tool's definition is used here.

    A session runs the calls when it commits.
    """
    raise AssertionError(memory)


spacebot: Final = Spacebot()
