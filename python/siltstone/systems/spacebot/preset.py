"""``spacebot``: three tiers of a window, summaries in the background, and memories saved with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Final

from siltstone import checks
from siltstone.checks import settings_table
from siltstone.knowledge import KnowledgeConfig
from siltstone.systems.base import Preset, System
from siltstone.systems.reading import Table, known_tables, table, toml
from siltstone.systems.spacebot.config import SUMMARY_PROMPT, WORKER_PROMPT, ChronicleConfig, TieredConfig
from siltstone.systems.spacebot.tiered import TieredCompactor
from siltstone.tools.memory import memory_save

#: Settings with the same name in siltstone and in the system.
_TIERS: Final = tuple(
    each.name for each in fields(TieredConfig) if each.name not in ("context_window", "estimator")
)
_TOP: Final = {"context_window": "context_window"}
_INSIDE: Final = tuple(f"{name}.{key}" for name in ("defaults", "agents") for key in ("compaction", *_TOP))


class Spacebot(System):
    """Watches the share of the window that is in use. Summaries are written in the background.

    A configuration is TOML: the table ``[defaults]`` with ``context_window``, and ``[defaults.compaction]``.
    A table ``[compaction]`` with the same keys is read too, and has precedence. The same two settings of the
    default agent in ``[[agents]]`` have precedence over both.
    """

    name: ClassVar[str] = "spacebot"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "defaults": _TOP,
        "compaction": {name: name for name in (*_TIERS, "extraction")},
    }

    def _read(self, text: str) -> Mapping[str, Table]:
        read = toml(text)
        owners = {"defaults": table(read.pop("defaults", {}), "defaults"), "agents": _agent(read)}
        top = {key: each.pop(key) for each in owners.values() for key in _TOP if key in each}
        inner = [table(each.pop("compaction", {}), "compaction") for each in owners.values()]
        parts = {f"{name}.{key}": value for name, each in owners.items() for key, value in each.items()}
        own = known_tables({**read, **parts}, ["defaults", "agents", "compaction", *_INSIDE])
        return {"defaults": top, "compaction": {**inner[0], **own.get("compaction", {}), **inner[1]}}

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
            tools=[memory_save(str).definition("openai")] if saves else (),  # a session runs its calls
        )
        learns = KnowledgeConfig(patterns=False, knowledge_extraction=False, rules=False)
        options: dict[str, Any] = {"policy": policy, "knowledge": learns}
        if config.context_window is not None:
            options["context_window"] = config.context_window
        return Preset(self.name, documented, options, settings)


def _agent(read: Table) -> Table:
    """The default agent of the file, taken out of *read*: the one that says so, else the first."""
    agents = read.pop("agents", ())
    if not isinstance(agents, list) or not all(isinstance(each, dict) for each in agents):
        return table(agents or {}, "agents")
    return next((each for each in agents if each.get("default")), agents[0] if agents else {})


spacebot: Final = Spacebot()
