"""``openclaw``: an archive of messages and facts with recall before each call, and a trim by relevance."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

from siltstone.archive import ContextArchive
from siltstone.archive.live import HASHED
from siltstone.compaction.smart_trim import SmartTrim
from siltstone.compaction.smart_trim_config import SmartTrimConfig
from siltstone.errors import ConfigError
from siltstone.knowledge import KnowledgeConfig
from siltstone.presets.base import Preset, System, chosen
from siltstone.presets.reading import Table, json_object, known_tables, table
from siltstone.recall import RecallConfig

__all__ = ["FOLDER", "Openclaw", "archives_of", "openclaw"]

_log = logging.getLogger("siltstone")

FOLDER: Final = Path("memory", "context")
"""The folder of the archive's files, inside the directory of the store."""

#: The keys that may enclose the object in the system's own configuration.
_HOMES: Final = ("agents", "defaults", "memoryContext")
_KEYS: Final = {
    "enabled": "enabled",
    "hardCapTokens": "hard_cap_tokens",
    "embeddingModel": "embedding_model",
    "redaction": "redaction",
    "knowledgeExtraction": "knowledge_extraction",
    "autoRecallMinScore": "auto_recall_min_score",
    "maxSegments": "max_segments",
    "crossSession": "cross_session",
    "evictionDays": "eviction_days",
}
_OURS: Final = {
    "reserveTokens": "reserve_tokens",
    "maxHistoryShare": "max_history_share",
    "protectedRecent": "protected_recent",
    "trimScope": "trim_scope",
}
_UNBOUNDED: Final = 2**63 - 1  # segments: who only takes some out keeps all others
_archives: WeakValueDictionary[tuple[str, int, int, str], ContextArchive] = WeakValueDictionary()


class Openclaw(System):
    """An archive of whole messages and short facts, which grows with the session. Recall reads it.

    Recalled texts are placed before each model call. A configuration is JSON: the object ``memoryContext`` by
    itself, or under ``agents.defaults``. Keys have the documented spelling or that of siltstone.
    """

    name: ClassVar[str] = "openclaw"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "": {**_KEYS, **_OURS, **{name: name for name in (*_KEYS.values(), *_OURS.values())}}
    }

    def _read(self, text: str) -> Mapping[str, Table]:
        read = json_object(text)
        for home in _HOMES:
            if home in read:
                read = table(read[home], home)
        known_tables({key: value for key, value in read.items() if isinstance(value, dict)}, _HOMES)
        return {"": read}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        said = {"enabled": True, **chosen(settings, RecallConfig)}
        recall = RecallConfig.documented(**said) if documented else RecallConfig(**said)
        trim = chosen(settings, SmartTrimConfig)
        form = SmartTrim.documented().config if documented else SmartTrimConfig()
        learns = KnowledgeConfig(patterns=not documented, knowledge_extraction=recall.knowledge_extraction)
        options: dict[str, Any] = {
            "policy": SmartTrim(replace(form, **trim)),
            "recall": recall if recall.enabled else False,
            "knowledge": learns,
            "redaction": recall.redaction,
        }
        shared = {"knowledge": replace(learns, scope="namespace")}
        return Preset(
            self.name,
            documented,
            options,
            settings,
            shared=shared if recall.cross_session else {},
            archive=partial(_archive, recall),
        )


def _archive(config: RecallConfig, path: str | os.PathLike[str]) -> ContextArchive:
    """The archive of the store in *path*; a process has one for each folder and bounds."""
    folder = Path(os.path.realpath(path)) / FOLDER
    key = str(folder), config.max_segments, config.eviction_days, config.embedding_model
    found = _archives.get(key)
    if found is None:
        found = ContextArchive(
            folder,
            max_segments=config.max_segments,
            eviction_days=config.eviction_days,
            **_embedding(config.embedding_model),
        )
        _archives[key] = found
    return found


def _embedding(model: str) -> dict[str, Any]:
    """How the archive makes its vectors: hashed, or by a transformer where one is wanted and installed."""
    if model == HASHED:
        return {}
    from siltstone.embedding import MiniLMEmbedder

    try:
        embedder = MiniLMEmbedder()
    except ConfigError as error:
        if model == "transformer":
            _log.warning("there is no transformer, and texts get hashed vectors: %s", error)
        return {}

    def embed(text: str) -> list[float]:
        return [float(each) for each in embedder.embed_query(text)]

    return {"embed": embed, "dimension": embedder.dimension, "embedder_id": embedder.id}


def archives_of(path: str | os.PathLike[str]) -> list[ContextArchive]:
    """The archives of the store in *path* that are open in this process; a new one if there are none."""
    folder = str(Path(os.path.realpath(path)) / FOLDER)
    found = [archive for (name, *_), archive in list(_archives.items()) if name == folder]
    return found or [ContextArchive(folder, max_segments=_UNBOUNDED, eviction_days=0)]


openclaw: Final = Openclaw()
