"""The settings of recall, its sources, and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from siltstone.errors import ConfigError
from siltstone.memory.entry import RECALL_MIN_SCORE
from siltstone.values import dataclass, field, fields

__all__ = ["MAX_EVICTION_DAYS", "Detail", "FactLine", "RecallBlock", "RecallConfig"]

MAX_EVICTION_DAYS = 3_650_000  #: ten thousand years

_SPELLED = {
    "hardCapTokens": "hard_cap_tokens",
    "embeddingModel": "embedding_model",
    "knowledgeExtraction": "knowledge_extraction",
    "autoRecallMinScore": "auto_recall_min_score",
    "maxSegments": "max_segments",
    "crossSession": "cross_session",
    "evictionDays": "eviction_days",
}
#: Where the documented JSON object may stand inside of a host's own configuration.
_HOMES = ("agents", "defaults", "memoryContext")
_DOCUMENTED = {
    "enabled": False,
    "auto_recall_min_score": 0.7,
    "score_filter": "documented",
    "placement": "head",
    "expand_neighbors": 0,
    "cut": False,
    "recall_frame": False,
}
_CHOICES = {
    "embedding_model": ("hash", "transformer", "auto"),
    "score_filter": ("calibrated", "documented"),
    "placement": ("head", "tail"),
}


@dataclass(frozen=True, slots=True)
class RecallConfig:
    """How much is recalled, of what, and where it stands. :meth:`documented` gives the documented form.

    Attributes:
        enabled: Recall is on.
        hard_cap_tokens: The most tokens of a block; a tenth of the window where that is less.
        embedding_model: ``hash``, ``transformer`` or ``auto``: what the documented search embeds with.
        redaction: Secrets are replaced before anything is written.
        knowledge_extraction: Facts are taken from what was discarded.
        auto_recall_min_score: The least score, 0..1, of the best detail: without it none is placed, and
            those that come with it have half of it. None is the measured one of the store's default
            ranking. By the documented rule it is that of every detail, 0.7 on a scale of its own.
        max_segments: Entries that a search may find; the oldest leave first. A session applies this and
            ``eviction_days`` where one of them is not the documented default; ``Retention`` says it outright.
        cross_session: All sessions of the namespace are searched, not only this one.
        eviction_days: Days after which an entry is not found any more; 0 is never.
        score_filter: Whose scale ``auto_recall_min_score`` is on.
        placement: ``tail``: directly before the last user message, so that a provider's cache keeps what
            stands before; ``head``: behind system messages and summary.
        recall_frame: One sentence before the block says what it is. It also tells the block from a user's
            quotation of one, once the history has been through JSON.
        expand_neighbors: How many messages before and after the best hit come with it.
        cut: A detail that is larger than its share of the budget is cut, and marked; else it is left out.

    Raises:
        ConfigError: a value out of its bounds.
    """

    enabled: bool = True
    hard_cap_tokens: int = 4000
    embedding_model: Literal["hash", "transformer", "auto"] = "hash"
    redaction: bool = True
    knowledge_extraction: bool = True
    auto_recall_min_score: float | None = None
    max_segments: int = 20_000
    cross_session: bool = False
    eviction_days: int = 90
    score_filter: Literal["calibrated", "documented"] = "calibrated"
    placement: Literal["head", "tail"] = "tail"
    recall_frame: bool = True
    expand_neighbors: int = 1
    cut: bool = True

    def __post_init__(self) -> None:
        for name in ("enabled", "redaction", "knowledge_extraction", "cross_session", "recall_frame", "cut"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "true or false", getattr(self, name))
        for name, least in (
            ("hard_cap_tokens", 0), ("max_segments", 1), ("eviction_days", 0), ("expand_neighbors", 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise _wrong(name, f"an integer >= {least}", value)
        if self.eviction_days > MAX_EVICTION_DAYS:
            raise _wrong("eviction_days", f"at most {MAX_EVICTION_DAYS}", self.eviction_days)
        score = self.auto_recall_min_score
        if score is not None and not (type(score) in (int, float) and 0 <= score <= 1):
            raise _wrong("auto_recall_min_score", "in 0..1", score)
        for name, choices in _CHOICES.items():
            chosen = getattr(self, name)
            if chosen not in choices:
                raise _wrong(name, "one of " + ", ".join(map(repr, choices)), chosen)

    @classmethod
    def documented(cls, **changed: Any) -> RecallConfig:
        """The documented form: off unless switched on, at the head, scores of 0.7, entries whole."""
        return cls(**{**_DOCUMENTED, **changed})

    @classmethod
    def from_json(cls, text: str) -> RecallConfig:
        """What the documented JSON object says, in the documented form; its keys in either spelling.

        The object stands by itself, or under ``agents.defaults.memoryContext``.

        Raises:
            ConfigError: not a JSON object, an unknown key, or a value out of its bounds.
        """
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"the configuration must be JSON: {error}", field="json", value="") from error
        for home in _HOMES:
            if isinstance(value, Mapping) and home in value:
                value = value[home]
        if not isinstance(value, Mapping):
            raise _wrong("json", "an object", value)
        known = {each.name for each in fields(cls)}
        settings: dict[str, Any] = {}
        for key, item in value.items():
            name = _SPELLED.get(key, key)
            if name not in known:
                raise ConfigError(
                    f"unknown setting {key!r} of recall; known are {', '.join(sorted({*known, *_SPELLED}))}",
                    field=key,
                    value=item,
                )
            settings[name] = item
        return cls.documented(**settings)

    @property
    def min_score(self) -> float:
        """The least score of a detail."""
        if self.auto_recall_min_score is not None:
            return float(self.auto_recall_min_score)
        return RECALL_MIN_SCORE

    def cap(self, context_window: int | None) -> int:
        """The most tokens of a block: ``min(hard_cap_tokens, floor(window / 10))``."""
        if context_window is None:
            return self.hard_cap_tokens
        return min(self.hard_cap_tokens, max(0, context_window) // 10)


class Detail(NamedTuple):
    """A stored text that may be recalled.

    Attributes:
        content: The text.
        score: 0..1, by the search that found it.
        role: Who said it.
        created_at: When it was said: a datetime, in UTC where it has no zone, or milliseconds since 1970.
        entry_id: Its id in the store; 0 where there is none.
    """

    content: str
    score: float
    role: str
    created_at: datetime | int
    entry_id: int = 0


class FactLine(NamedTuple):
    """A fact that may be recalled: its type, its text, and how well it fits, higher is better."""

    type: str
    content: str
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class RecallBlock:
    """The block that is placed before a model; no block where ``text`` is empty.

    Attributes:
        text: The whole content of the message.
        tokens: What it counts, by the caller's counter; 0 for nothing.
        knowledge_count: Facts in it.
        detail_count: Entries in it.
        reason: Why there is nothing: ``off``, ``short_query``, ``no_hits``, ``no_room``; else empty.
        considered: What became of each entry that scored enough, the best first, as JSON: its id, its score
            in millionths, its tokens (null where they were not counted), and 0 where it stands in the block,
            1 where a part of it does, 2 where it had no room.
        below: Entries that were found and scored too little.
        query: The messages that the query was made of, by their sequence numbers; empty for a query of a
            caller's own.
    """

    text: str = ""
    tokens: int = 0
    knowledge_count: int = 0
    detail_count: int = 0
    reason: str = ""
    considered: str = field(default="[]", repr=False, compare=False)
    below: int = field(default=0, repr=False, compare=False)
    query: tuple[int, ...] = field(default=(), repr=False, compare=False)


def _wrong(field: str, bound: str, value: object) -> ConfigError:
    return ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)
