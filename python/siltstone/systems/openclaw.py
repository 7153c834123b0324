"""``openclaw``: an archive with recall before each call, and a trim by relevance."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, islice
from operator import sub
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias
from weakref import WeakValueDictionary

from siltstone import checks
from siltstone._native import Loose, parted
from siltstone.archive.live import HASHED, ContextArchive
from siltstone.checks import setting, share_of
from siltstone.compaction import rewrite
from siltstone.compaction.base import Compaction, CompactionContext, Configured, Skip, Substitute, Trigger
from siltstone.compaction.material import render
from siltstone.compaction.results import ClearConfig, ClearToolResults
from siltstone.compaction.rewrite import must_stay, superseded
from siltstone.documented import KeptBm25
from siltstone.errors import ConfigError
from siltstone.knowledge import KnowledgeConfig
from siltstone.llm import Flow
from siltstone.messages import History, Message, RawMessage, as_history
from siltstone.messages.message import SAID
from siltstone.messages.outline import CoreUnits
from siltstone.messages.own_messages import OPEN, is_recalled
from siltstone.messages.text import without_prefixes
from siltstone.recall import RecallConfig
from siltstone.systems.base import Preset, System, chosen
from siltstone.systems.reading import Table, json_object, known_tables, table
from siltstone.tokens import TokenRule, rule

# The settings of the smart trim, each checked when it is set.

SCOPES = ("request", "history")
HARD_CAP_TENTHS = 10  # recalled context has at most a tenth of the window


@dataclass(frozen=True, slots=True)
class SmartTrimConfig(checks.Settings):
    """The settings of :class:`SmartTrim`: when it trims, and which messages it protects.

    Attributes:
        reserve_tokens: Tokens left free for the answer. None: 4,000, or the part of the window outside
            ``max_history_share``.
        hard_cap_tokens: The maximum tokens of recalled context; never more than a tenth of the window.
        max_history_share: The share of the window that the history may have, 0..1; it counts only if
            ``reserve_tokens`` is None.
        protected_recent: The number of newest messages of user and assistant that stay. Messages with only
            tool results are not counted.
        query: The text against which messages are scored. None: the newest three requests.
        shortest_query: The minimum characters of a query; with a shorter one nothing is trimmed.
        is_summary: A function that tells whether a message among the first three is the host's own summary;
            such a message stays. None: one of the role ``compactionSummary`` is.
        target_share: Share of the safe limit that a trim aims at, above 0. Below 1, the next message does not
            need a trim again, and the provider's cache stays valid for a while.
        trim_scope: ``"history"``: trimmed messages stay out of view, as after any compaction. ``"request"``:
            they are missing in this request only, and the next request begins with the whole history again; a
            session indexes them first, and leaves its history as it is.
        prune_tool_bytes: A result of a tool of more bytes becomes a line with its size and handle before any
            message is trimmed, except the newest three. None: results stay whole.
        documented: Whether to use the documented tokenizer and scores, in Python; else those of the core.
        estimator: The token rule, as in :class:`CompactionConfig`.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    reserve_tokens: int | None = setting(None, checks.at_least, 0, unless=(None,))
    hard_cap_tokens: int = setting(4000, checks.at_least, 0)
    max_history_share: float | None = setting(None, checks.share, unless=(None,))
    protected_recent: int = setting(6, checks.at_least, 0)
    query: str | None = None
    shortest_query: int = setting(3, checks.at_least, 0)
    is_summary: Callable[[RawMessage], bool] | None = setting(
        None, checks.function, "a message", unless=(None,)
    )
    target_share: float = setting(0.8, checks.share, above_zero=True)
    trim_scope: Literal["request", "history"] = "history"
    prune_tool_bytes: int | None = setting(None, checks.positive, unless=(None,))
    documented: bool = False
    estimator: str | TokenRule = setting("chars/3", checks.estimator)

    def _check_together(self) -> None:
        if self.query is not None and not isinstance(self.query, str):
            checks.refuse("query", "None or a text", self.query)

    def hard_cap(self, context_window: int) -> int:
        """The maximum tokens of recalled context in a window."""
        return min(self.hard_cap_tokens, context_window // HARD_CAP_TENTHS)

    def subtracted(self, context_window: int) -> int:
        """The tokens that the safe limit leaves free for recalled context; documented: the whole hard cap."""
        return self.hard_cap_tokens if self.documented else self.hard_cap(context_window)

    def safe_limit(self, context_window: int) -> int:
        """The maximum tokens of a history: the window minus the reserve and minus the hard cap.

        Raises:
            ConfigError: the result is 0 or less.
        """
        reserve = self.reserve_tokens
        if reserve is None:
            reserve = 4000
            if self.max_history_share is not None:
                from fractions import Fraction  # slow to import: it imports decimal

                share = 1 - Fraction(str(self.max_history_share))
                reserve = int(context_window * share + Fraction(1, 2))  # a half is rounded up
        cap = self.subtracted(context_window)
        limit = context_window - reserve - cap
        if limit <= 0:
            raise ConfigError(
                f"the safe limit must be > 0, got {limit}: a window of {context_window}, less reserve_tokens "
                f"{reserve}, less {cap} for recalled context",
                "reserve_tokens",
                reserve,
            )
        return limit


# The query of a trim: the newest requests as one text, without the lines that a host put before them.

REQUESTS: Final = 3  #: the number of newest requests that are the query


def recent_query(read: History, most: int = REQUESTS) -> str:
    """The newest requests, *most* of them, oldest first, joined by a space. A recalled block is none."""
    requests = (read[at] for at in reversed(read.outline.requests))
    newest = [*islice((each for each in requests if not is_recalled(each)), most)]
    texts = (without_prefixes(each.text).strip() for each in reversed(newest))
    return " ".join(filter(None, texts))


# Smart trim: removes the messages that are least relevant to the newest requests, without a model.

Cut: TypeAlias = Mapping[int, Substitute]  # of the messages at these positions
FIRST_PLACES = 3  # where a host's own summary may stand
_Ranked: TypeAlias = tuple[Loose, list[float]]  # groups that may leave, and scores of those with a text
_kept = KeptBm25()  # each request of a session asks for the same texts again
_K1, _B = 1.2, 0.75  # the parameters of BM25, as in the searches


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A history after a trim. Its messages are the caller's own objects.

    Attributes:
        retained: The messages that stay, in order; the given list if nothing was trimmed.
        trimmed: The messages that left, in order.
        did_trim: Whether messages left.
        tokens: The tokens of *retained*, by the estimator.
        safe_limit: The limit of the trim, in tokens. Protected messages stay even if they are larger.
        reason: Why nothing was trimmed: ``within_limit``, ``query_too_short``, ``all_protected``; else "".
    """

    retained: Sequence[RawMessage]
    trimmed: Sequence[RawMessage]
    did_trim: bool
    tokens: int
    safe_limit: int
    reason: str = ""


class SmartTrim(Configured[SmartTrimConfig]):
    """Trims a history to its safe limit: the least relevant groups leave first, then the oldest.

    The safe limit is the window minus ``reserve_tokens`` and minus the room for recalled context. System
    messages, summaries, the newest messages, the last tool call with its results, recalled context, pinned
    messages, pending groups and the request in flight stay. All other groups are scored by BM25 for the
    newest requests; among equal scores the oldest leaves first. No summary replaces the trimmed messages, and
    no model is asked: they are in the archive, and recall finds them again.

    A second trim of the same history does nothing. If the protected messages alone are over the limit,
    another policy or the emergency fit has to act.
    """

    name = "smart-trim"

    def __init__(self, config: SmartTrimConfig | None = None) -> None:
        super().__init__(config or SmartTrimConfig())
        most = self.config.prune_tool_bytes
        tokens = -(-((most or 0) + 1) // 4)
        clear = ClearConfig(least_tokens=tokens, min_reclaim=0, estimator="bytes/4")
        self._clear = None if most is None else ClearToolResults(clear)

    @classmethod
    def documented(cls, config: SmartTrimConfig | None = None) -> SmartTrim:
        """The documented form: an estimate in UTF-16 units, its own tokenizer and scores, request scope."""
        return cls(
            replace(
                config or SmartTrimConfig(),
                documented=True,
                target_share=1,
                estimator="chars/3-utf16",
                trim_scope="request",
            )
        )

    @property
    def shapes_request(self) -> bool:
        """Whether a trim changes only one request, and not the history."""
        return self.config.trim_scope == "request"

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Checks that the window has room for a history.

        Raises:
            ConfigError: the safe limit is 0 or less, or not larger than *reserved_tokens*.
        """
        if context_window is None:
            return
        limit = self.config.safe_limit(context_window)
        if reserved_tokens >= limit:
            raise ConfigError(
                f"the safe limit of {limit} tokens, of a window of {context_window}, must be > "
                f"reserved_tokens, got {reserved_tokens}",
                "reserved_tokens",
                reserved_tokens,
            )

    def most_tokens(self, context_window: int) -> int:
        """The safe limit and the cap of recalled context: the window without the reserve."""
        limit = self._limit(context_window)
        return context_window if limit is None else limit + self.config.subtracted(context_window)

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger if the history is over the safe limit, at any boundary."""
        if context.context_window is None:
            return None
        limit = self._limit(context.context_window)
        if limit is None:
            return None
        due = context.tokens > limit
        return context.trigger("history_tokens", "trim", context.tokens, limit) if due else None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Trims *history*. It yields no request."""
        yield from ()
        if trigger.context_window is None:
            return Skip("no_context_window", "a trim is measured by a window; pass context_window=")
        limit = self._limit(trigger.context_window)
        if limit is None:
            return Skip("no_room", f"a window of {trigger.context_window} tokens leaves a history nothing")
        limit -= trigger.reserved_tokens
        cut: Cut = {}
        if self._clear is not None and trigger.keeps_substitutes:
            cut, _ = self._clear.substitutes(history, trigger)  # large old results become lines first
        read = as_history(history)
        run = _Trim(read, self.config, self._token_rule, limit, trigger, cut)
        reason = run.reason()
        if not reason:
            kept = run.kept_opened(share_of(limit, self.config.target_share)) - superseded(read, trigger)
            if len(kept) < len(read):
                selection = rewrite.kept_apart(read, kept)
                trimmed = rewrite.layered(selection, (), "")
                stays = set(map(id, trimmed.retained)) if cut else ()
                shown = tuple(cut[at] for at in sorted(cut) if id(cut[at].original) in stays)
                view = rewrite.with_substitutes(selection.retained, shown)
                return replace(trimmed, messages=view, substitutes=shown) if shown else trimmed
            reason = "all_protected"
        if cut:
            return rewrite.clamped_alone(history, cut)
        return Skip(_SKIPS[reason], f"{run.tokens} tokens, the safe limit is {limit}: {reason}")

    def _limit(self, window: int) -> int | None:
        """The safe limit; None if the window is too small for one.

        Such a window was learned from an error of the provider: a given window is checked when a session is
        opened.
        """
        try:
            return self.config.safe_limit(window)
        except ConfigError:
            return None


_SKIPS = {
    "within_limit": "not_due",
    "query_too_short": "query_too_short",
    "all_protected": "nothing_to_discard",
}


def smart_trim(
    messages: Sequence[RawMessage], safe_limit: int, config: SmartTrimConfig | None = None
) -> Trimmed:
    """Trims a list of *messages* to *safe_limit* tokens, without a session. The list is not changed.

    Args:
        messages: A history in any dialect.
        safe_limit: The maximum tokens, by the estimator of *config*.
        config: The settings: the protected messages, the query and the estimator.

    Raises:
        InvalidMessageError: one of *messages* is not a message.
    """
    config = config or SmartTrimConfig()
    run = _Trim(History(messages), config, rule(config.estimator), safe_limit, Trigger("manual"), {})
    return run.trimmed(messages)


class _Trim:
    """The trim of one history to one limit."""

    def __init__(
        self, read: History, config: SmartTrimConfig, rule: TokenRule, limit: int, trigger: Trigger, cut: Cut
    ) -> None:
        self._read, self._config, self._rule, self._limit = read, config, rule, limit
        self._trigger = trigger
        self._cut = {at: each.message for at, each in cut.items()}
        self._sums: CoreUnits | list[int] = read.units_of_each(rule)
        self._units, self._raws = read.units(rule), read.raws
        if cut:
            units = [*map(sub, islice(sums := read.sums(rule), 1, None), sums)]
            self._raws = list(read.raws)
            for at, message in self._cut.items():
                units[at], self._raws[at] = rule.units(message), message.raw
            self._sums = list(accumulate(units, initial=0))
            self._units = self._sums[-1]

    @property
    def tokens(self) -> int:
        """The tokens of the whole history."""
        return self._rule.tokens(self._units)

    def reason(self) -> str:
        """The reason why nothing is trimmed; empty if a trim is due."""
        if self.tokens <= self._limit:
            return "within_limit"
        if len(self._query.strip()) < self._config.shortest_query:
            return "query_too_short"
        return ""

    def trimmed(self, messages: Sequence[RawMessage]) -> Trimmed:
        """*messages* after the trim; the run has read them before.

        The least relevant groups leave first, then the oldest groups without text, until the rest fits the
        limit.
        """
        reason = self.reason()
        gone, tokens = ([], 0) if reason else self._left_out(self._ranked(), self._limit)
        if not gone:
            return Trimmed(messages, [], False, self.tokens, self._limit, reason or "all_protected")
        retained, left = parted(self._read.raws, gone)
        return Trimmed(retained, left, True, tokens, self._limit)

    def kept_opened(self, target: int) -> set[int]:
        """The positions that stay. If the history begins with a user message, so does the rest.

        A provider refuses a request that begins with an answer.
        """
        ranked = self._ranked()
        gone, _ = self._left_out(ranked, target)
        opening = self._opening(set(gone))
        if opening is not None:
            gone, _ = self._left_out(ranked, target, opening)
        return set(range(len(self._read))).difference(gone)

    def _ranked(self) -> _Ranked:
        """The groups that may leave, and the scores of those with a text."""
        read = self._read
        recalled = OPEN, lambda at: is_recalled(read[at])
        fixed, before = list(self._protected()), read.kept.get(Loose)  # of the request before
        loose = read.kept[Loose] = Loose(read.outline, self._raws, fixed, self._rendered, recalled, before)
        if self._config.documented:
            return loose, _kept.scores(self._query, loose.texts())
        return loose, loose.relevance(self._query, _K1, _B)

    def _left_out(self, ranked: _Ranked, target: int, spared: int | None = None) -> tuple[list[int], int]:
        """The positions that leave, ascending, and the tokens of the rest. The group of *spared* stays."""
        units = range(self._units + 1)
        most = bisect_right(units, target, key=self._rule.tokens) - 1
        gone, left = ranked[0].until(ranked[1], self._sums, most, spared)
        return gone, self._rule.tokens(left)

    @cached_property
    def _query(self) -> str:
        return recent_query(self._read) if self._config.query is None else self._config.query

    def _opening(self, gone: set[int]) -> int | None:
        """The position of a user message that must stay, so that the rest begins with it; else None."""
        read, rules = self._read, set(self._read.rules)
        spoken = (at for at in range(len(read)) if at not in rules)
        opener = next(spoken, None)
        if opener is None or opener not in gone or read[opener].role != "user":
            return None
        first = next((at for at in spoken if at not in gone), None)
        if first is None or read[first].role == "user":
            return None
        before = (at for at in range(first - 1, -1, -1) if at not in rules)
        return next(at for at in before if read[at].role == "user" and _is_said(read[at]))

    def _protected(self) -> set[int]:
        read, newest = self._read, set[int]()
        fixed = {*must_stay(read, self._trigger.pins), *read.summaries}
        fixed.update(at for at in read.unoriginal if read[at].provenance == "recalled_context")
        is_summary = self._config.is_summary or _is_summary
        fixed.update(at for at, raw in enumerate(read.raws[:FIRST_PLACES]) if is_summary(raw))
        for at in range(len(read) - 1, -1, -1):
            if len(newest) >= self._config.protected_recent:
                break
            if _is_said(read[at]):
                newest.add(at)
        return fixed.union(newest, read.outline.last_bound())

    def _rendered(self, at: int) -> str:
        """The text of a message that the core cannot read."""
        return render([self._shown(at)], "")

    def _shown(self, at: int) -> Message:
        """The message at a position, or what is shown in its place."""
        return self._cut.get(at) or self._read[at]


def _is_summary(raw: RawMessage) -> bool:
    return isinstance(raw, Mapping) and raw.get("role") == "compactionSummary"


def _is_said(message: Message) -> bool:
    """A message of user or assistant; no result of a tool in the role of the user, and no recalled block."""
    if message.provenance not in SAID or message.role not in ("user", "assistant") or is_recalled(message):
        return False
    return not message.parts or any(part.kind != "tool_result" for part in message.parts)


# ``openclaw``: an archive of messages and facts with recall before each call, and a trim by relevance.

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
    "pruneToolBytes": "prune_tool_bytes",
}
PRUNED_BYTES: Final = 4_000
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
        read, aside, home = json_object(text), dict[str, Any](), ""
        for home in (each for each in _HOMES if each in read):
            found = table(read.pop(home), home)
            aside, read = {**aside, **read}, found
        if home in _HOMES[:-1]:  # the whole file, which says nothing of the memory
            aside, read = {**aside, **read}, {}
        others = [
            key for key, value in read.items() if isinstance(value, dict) and key not in self.tables[""]
        ]
        known_tables({**aside, **{key: read.pop(key) for key in others}}, _HOMES)
        return {"": read}

    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        said = {"enabled": True, **chosen(settings, RecallConfig)}
        if said["enabled"] is False:  # switched off: the session keeps its history, and nothing else
            RecallConfig(**said)
            off: dict[str, Any] = {"policy": None, "recall": False, "knowledge": False, "redaction": False}
            return Preset(self.name, documented, off, settings)
        recall = RecallConfig.documented(**said) if documented else RecallConfig(**said)
        trim = {"prune_tool_bytes": PRUNED_BYTES, **chosen(settings, SmartTrimConfig)}
        form = SmartTrim.documented().config if documented else SmartTrimConfig()
        learns = KnowledgeConfig(
            patterns=not documented,
            knowledge_extraction=recall.knowledge_extraction,
            compared_by="overlap" if documented else "subject",
        )
        options: dict[str, Any] = {
            "policy": SmartTrim(replace(form, **trim)),
            "recall": recall,
            "knowledge": learns,
            "redaction": recall.redaction,
        }
        return Preset(self.name, documented, options, settings, archive=partial(_archive, recall))


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
