"""The settings of recall, its sources, and its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from siltstone import checks
from siltstone._native import RecallContext
from siltstone.checks import setting
from siltstone.errors import ConfigError
from siltstone.memory.entry import RECALL_MIN_SCORE
from siltstone.tokens import TextMeasure

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
#: The keys under which the documented JSON object may stand in a host's own configuration.
_HOMES = ("agents", "defaults", "memoryContext")
_DOCUMENTED = {
    "enabled": False,
    "cross_session": False,
    "share": 0.1,
    "standing": False,
    "auto_recall_min_score": 0.7,
    "score_filter": "documented",
    "placement": "head",
    "expand_neighbors": 0,
    "cut": False,
    "recall_frame": False,
}


#: Tokens that a small window keeps for a block, a fifth of it at most. With 15 % of a window of 4,000, one of
#: five questions on topic got no block, and 0.54 of the evidence of agents' questions was sent, not 0.63.
_KEPT: Final = 800


@dataclass(frozen=True, slots=True)
class RecallConfig(checks.Settings):
    """The settings of recall. :meth:`documented` gives the documented form.

    Attributes:
        enabled: Whether recall is on.
        hard_cap_tokens: The most tokens of a block.
        share: The most that a block takes of the context window, 0..1. 18 % of the window are always kept
            for it, or 800 tokens, a fifth at most. It takes more only of what the request leaves free, less a
            tenth for the answer.
        standing: Whether each request has the user's standing wishes that have left the context, in a block
            of their own with at most a twentieth of the window. See ``session.standing()``.
        embedding_model: The embedder of the archive's files, in the preset ``openclaw``: ``hash``;
            ``transformer``, the model of the extra ``minilm``, or a warning and hashed vectors where it is
            not installed; ``auto``, that model where it is installed. A folder keeps what its vectors began
            with.
        redaction: Whether secrets are replaced before anything is written.
        knowledge_extraction: Whether facts are extracted from discarded messages.
        auto_recall_min_score: The least score, 0..1, that the best detail needs; without such a detail none
            is placed. The other details need half of it. None is the measured value for the store's default
            ranking: 0.20 where one of the newest 100 messages calls a tool of the host, else 0.14; with an
            embedder 0.04 more. By the documented rule every detail needs this score, 0.7 on a scale of its
            own.
        max_segments: The most entries that a search may find; the oldest are deleted first. A session applies
            this and ``eviction_days`` only if one of them differs from the documented default; ``Retention``
            sets them explicitly.
        cross_session: Whether the session shares what is remembered with its namespace. None: it does if it
            has one. True needs a namespace; False is the documented form.
        eviction_days: The days after which an entry is not found any more; 0 is never.
        score_filter: The scale of ``auto_recall_min_score``: measured or documented.
        placement: ``tail``: directly before the last user message, so that a provider's cache keeps
            everything before it; ``head``: behind the system messages and the summary.
        recall_frame: Whether a sentence before the block explains it. It also tells the block from a user's
            quotation of a block, once the history has been through JSON.
        expand_neighbors: The number of messages before and after the best hit that come with it.
        cut: Whether a detail that is larger than its share of the budget is cut and marked; otherwise it is
            left out.

    Raises:
        ConfigError: a value is out of its bounds.
    """

    enabled: bool = True
    hard_cap_tokens: int = setting(4000, checks.at_least, 0)
    share: float = setting(0.3, checks.share)
    standing: bool = True
    embedding_model: Literal["hash", "transformer", "auto"] = "hash"
    redaction: bool = True
    knowledge_extraction: bool = True
    auto_recall_min_score: float | None = setting(None, checks.share, unless=(None,))
    max_segments: int = setting(20_000, checks.at_least, 1)
    cross_session: bool | None = setting(None, checks.boolean, unless=(None,))
    eviction_days: int = setting(90, checks.within, 0, MAX_EVICTION_DAYS)
    score_filter: Literal["calibrated", "documented"] = "calibrated"
    placement: Literal["head", "tail"] = "tail"
    recall_frame: bool = True
    expand_neighbors: int = setting(1, checks.at_least, 0)
    cut: bool = True

    @classmethod
    def documented(cls, **changed: Any) -> RecallConfig:
        """The documented form: off by default, at the head, a least score of 0.7, whole entries."""
        return cls(**{**_DOCUMENTED, **changed})

    @classmethod
    def from_json(cls, text: str) -> RecallConfig:
        """The settings of the documented JSON object, in the documented form; its keys in either spelling.

        The object is the whole text, or stands under ``agents.defaults.memoryContext``.

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
            checks.refuse("json", "an object", value)
        known = {each.name for each in fields(cls)}
        settings: dict[str, Any] = {}
        for key, item in value.items():
            name = _SPELLED.get(key, key)
            if name not in known:
                raise ConfigError(
                    f"unknown setting {key!r} of recall; known are {', '.join(sorted({*known, *_SPELLED}))}",
                    key,
                    item,
                )
            settings[name] = item
        return cls.documented(**settings)

    @property
    def min_score(self) -> float:
        """The least score of the best detail."""
        if self.auto_recall_min_score is not None:
            return float(self.auto_recall_min_score)
        return RECALL_MIN_SCORE

    def cap(self, context_window: int | None, room: int | None = None) -> int:
        """The most tokens of a block in that window, if the request leaves *room* tokens free.

        ``min(hard_cap_tokens, room - window / 50, max(kept, min(share * window, room - window / 10)))`` with
        ``kept = min(share * window, max(0.18 * window, min(0.2 * window, 800)))``, as an estimate may be
        2 % too low; the documented form takes all of the *room*. Without one ``min(hard_cap_tokens, kept)``.
        All are rounded down.
        """
        if context_window is None:
            return self.hard_cap_tokens
        window = max(0, context_window)
        # At 15 %, .87 of the evidence of agents' questions is sent in a window of 8,000, not .89.
        kept = min(int(self.share * window), max(window * 18 // 100, min(window // 5, _KEPT)))
        if room is not None:
            kept = max(kept, min(int(self.share * window), room - window // 10))
            spare = 0 if self.score_filter == "documented" else window // 50
            kept = min(kept, max(0, room - spare))
        return min(self.hard_cap_tokens, kept)


class Detail(NamedTuple):
    """A stored text that may be recalled.

    Attributes:
        content: The text.
        score: 0..1, by the search that found it.
        role: The role of its speaker.
        created_at: The time when it was said: a datetime (UTC if it has no zone), or milliseconds since 1970.
        entry_id: Its id in the store; 0 if it has none.
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


class BlockOptions(NamedTuple):
    """The limits of a block, and how it is written.

    Attributes:
        cap: The most tokens of the block.
        known: The most of these tokens for facts; details have the rest.
        count: Counts the tokens of a text.
        measure: The rule that *count* implements, if the core knows it.
        excerpt: Called with query, text and a number of tokens; returns the best part of the text. With it,
            no detail takes more than half of the tokens that are left.
        is_framed: Whether a sentence stands before the block.
        cut: Whether a detail that is larger than the budget of details is cut.
    """

    cap: int
    known: int
    count: Callable[[str], int]
    measure: TextMeasure | None
    excerpt: Callable[[str, str, int], str] | None
    is_framed: bool
    cut: bool


class RecallConditions(NamedTuple):
    """The conditions on the entries that a session recalls.

    Attributes:
        scores: The least score of the best hit; the share of it that the other hits need; and the share of
            the best hit's score that each step away from it costs.
        distance: How many entries before and after the best hit come with it.
        context: The messages that have left the context.
        end: The end of the log.
        is_across: Whether all sessions of its namespace are searched.
    """

    scores: tuple[float, float, float]
    distance: int
    context: RecallContext
    end: int
    is_across: bool


@dataclass(frozen=True, slots=True)
class RecallBlock:
    """The block that is placed in a request; an empty ``text`` means that there is no block.

    Attributes:
        text: The whole content of the message.
        tokens: Its tokens, by the caller's counter; 0 without a block.
        knowledge_count: The number of facts in it.
        detail_count: The number of entries in it.
        reason: Why there is no block: ``off``, ``short_query``, ``no_hits``, ``no_room``; otherwise empty.
        considered: The outcome for each entry that scored enough, the best first, as JSON: its id, its score
            in millionths, its tokens (null if they were not counted), and 0 if it is in the block, 1 if a
            part of it is, 2 if it had no room.
        below: The number of entries that were found but scored too little.
        query: The sequence numbers of the messages that the query was made of; empty for the caller's own
            query.
    """

    text: str = ""
    tokens: int = 0
    knowledge_count: int = 0
    detail_count: int = 0
    reason: str = ""
    considered: str = field(default="[]", repr=False, compare=False)
    below: int = field(default=0, repr=False, compare=False)
    query: tuple[int, ...] = field(default=(), repr=False, compare=False)
