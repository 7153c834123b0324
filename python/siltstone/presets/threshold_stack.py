"""``meerkat``: threshold compaction, a semantic memory of hashed words, and the tool ``memory_search``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from siltstone.compaction import checks
from siltstone.compaction.config import CompactionConfig
from siltstone.compaction.threshold import ThresholdCompactor
from siltstone.memory.opening import open_documented_store, open_store
from siltstone.presets.base import Preset, System, chosen
from siltstone.presets.reading import Table, known_tables, table, toml

__all__ = ["Meerkat", "meerkat"]

_KEYS: Final = {
    name: name
    for name in (
        "auto_compact_threshold",
        "recent_turn_budget",
        "max_summary_tokens",
        "min_turns_between_compactions",
        "max_request_bytes",
        "retained_token_budget",
        "strict_guard",
        "min_reduction",
        "on_summarizer_overflow",
        "summary_prefix",
    )
}
#: The documented guard, estimate, retained turns and failures. No result is cut.
_DOCUMENTED: Final[Mapping[str, Any]] = {
    "strict_guard": True,
    "estimator": "bytes/4",
    "retained_token_budget": None,
    "on_summarizer_overflow": "fail",
    "max_result_tokens": None,
}


class Meerkat(System):
    """Threshold compaction of whole turns. A search by hashed words in a graph finds discarded messages.

    A configuration is TOML: the table ``[compaction]``, or its keys at the top.
    """

    name: ClassVar[str] = "meerkat"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {"compaction": _KEYS}

    def _read(self, text: str) -> Mapping[str, Table]:
        read = toml(text)
        inner = table(read.pop("compaction", {}), "compaction")
        top = {key: value for key, value in read.items() if not isinstance(value, dict) or key in _KEYS}
        known_tables({key: value for key, value in read.items() if key not in top}, ["compaction"])
        return {"compaction": top | inner}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        given = chosen(settings, CompactionConfig)
        if "recent_turn_budget" in given:
            checks.positive("recent_turn_budget", given["recent_turn_budget"])
        form = _DOCUMENTED if documented else {}
        policy = ThresholdCompactor(CompactionConfig(**{**form, **given}))
        store = open_documented_store if documented else open_store
        return Preset(self.name, documented, {"policy": policy}, settings, open_store=store)


meerkat: Final = Meerkat()
