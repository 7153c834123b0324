"""``rustant``: a few messages in view, a hundred more as short-term, the others in a shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from siltstone.compaction import checks
from siltstone.compaction.window import WindowCompactor
from siltstone.compaction.window_config import WindowConfig
from siltstone.knowledge import KnowledgeConfig
from siltstone.memory import Decay
from siltstone.memory.opening import open_store
from siltstone.presets.base import Preset, System, chosen
from siltstone.presets.reading import Table, known_tables, toml

__all__ = ["Rustant", "rustant"]

MOST_RESULTS: Final = 20
INDEX_DIR: Final = ".siltstone/search_index"

_MEMORY: Final = (
    "working_limit",
    "short_term_limit",
    "long_term_enabled",
    "auto_summarize",
    "working_slack",
    "auto_summarize_threshold",
    "auto_summarize_target",
    "summary_max_tokens",
    "summary_temperature",
    "summary_budget_tokens",
    "fallback_bytes",
    "fact_min",
    "fact_max",
    "fact_unit",
    "fact_inclusive",
    "max_facts",
    "max_corrections",
)
#: The documented bounds of a fact: 10 to 5,000 characters, both included.
_FACTS: Final[Mapping[str, Any]] = {"fact_unit": "chars", "fact_inclusive": True}


class Rustant(System):
    """Windows of messages; facts and corrections that later sessions of the namespace know.

    A configuration is TOML with the tables ``[memory]``, ``[search]`` and ``[knowledge]``.
    """

    name: ClassVar[str] = "rustant"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "memory": {name: name for name in _MEMORY},
        "search": {"enabled": "search_enabled", "index_dir": "index_dir", "max_results": "max_results"},
        "knowledge": {
            "enabled": "knowledge_enabled",
            "max_rules": "max_rules",
            "min_entries": "min_entries",
            "tool_rules": "tool_rules",
        },
    }

    def _read(self, text: str) -> Mapping[str, Table]:
        return known_tables(toml(text), list(self.tables))

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        said = {"long_term_enabled": True, "search_enabled": True, "knowledge_enabled": True, **settings}
        for name in ("long_term_enabled", "search_enabled", "knowledge_enabled"):
            checks.boolean(name, said[name])
        checks.text("index_dir", said.get("index_dir", INDEX_DIR))
        most = said.get("max_results", MOST_RESULTS)
        checks.at_least("max_results", most, 1)
        if most > 1000:
            checks.refuse("max_results", "at most 1000", most)
        window = WindowConfig(**chosen(settings, WindowConfig))
        facts = {**(_FACTS if documented else {}), **chosen(settings, KnowledgeConfig)}
        learns = KnowledgeConfig(
            tool_facts=True,
            rules=said["knowledge_enabled"],
            patterns=not documented,
            knowledge_extraction=not documented,  # the system documents no model call for facts
            **facts,
        )
        options: dict[str, Any] = {"policy": WindowCompactor(window)}
        if not said["search_enabled"]:
            options |= {"memory": False, "knowledge": False}
        elif not said["long_term_enabled"]:
            options["knowledge"] = False
        else:
            options["knowledge"] = learns
        has_facts, finds = options["knowledge"] is learns, said["search_enabled"]
        ranked = partial(open_store, ranker="hybrid", decay=Decay(1.0, 1.0))
        return Preset(
            self.name,
            documented,
            options,
            settings,
            shared={"knowledge": replace(learns, scope="namespace")} if has_facts else {},
            most_hits=most,
            most_entries=window.short_term_limit if finds and not has_facts else None,
            open_store=ranked if documented else open_store,
        )


rustant: Final = Rustant()
