"""The values that a store takes and returns: entries, hits, receipts, pages and reports."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from siltstone._native import Asked
from siltstone.errors import ConfigError

if TYPE_CHECKING:
    from siltstone.memory.hits import Passage


Ranker: TypeAlias = Literal["lexical", "cosine", "hybrid", "dense", "fused"]
Fusion: TypeAlias = Literal["zscore", "rrf"]
SearchIndex: TypeAlias = Literal["exact", "hnsw"]  #: the index of the ranker ``cosine``
SearchOrder: TypeAlias = Literal["score", "time"]  #: best first, or in the order of the messages
SearchScope: TypeAlias = Literal["session", "namespace"]  #: one session, or all of its namespace

Remaining: TypeAlias = Literal["identifiers", "files", "pages", "wal", "copies"]
"""The places that may still have bytes of forgotten texts."""


class SearchFilters(TypedDict, total=False):
    """Conditions on hits. A hit must meet all given ones. Scores do not depend on them.

    Entries are filtered before they are ranked, so a search returns as many hits as requested, if enough
    entries pass.

    Attributes:
        since: Messages from this time on, to the millisecond. A datetime without a zone is UTC.
        until: Messages before this time.
        role: The exact role.
        kind: The exact kind.
        name: The exact name of the speaker or tool.
        topic: Texts about this topic of the documented table: ``database``, ``deployment``, ....
        entity: Texts that name this entity, such as ``person:Ann``, or ``Ann``. Topics and entities are
            computed by rules from the text of each hit during the search, so a rare one makes a search read
            many entries.
    """

    since: datetime | float | None
    until: datetime | float | None
    role: str | None
    kind: str | None
    name: str | None
    topic: str | None
    entity: str | None


class SearchOptions(SearchFilters, total=False):
    """The options of a search, and its filters.

    Attributes:
        ranker: The ranker, if the store has several; None or left out is the store's default.
        min_score: The minimum score of a hit, 0..1, on the ranker's own scale; left out, 0.
        explain: Whether hits carry the parts of their scores; left out, they do not.
        scope: ``"session"``, the default, searches this session alone. ``"namespace"`` searches all sessions
            of its namespace, including messages that are still in their contexts and have no entry yet;
            messages in the context of the session itself are left out. A session without a namespace finds
            its own entries alone.
        order: ``"score"``, the default, gives the best hits first. ``"time"`` looks at four times as many
            hits, chooses good ones that are spread over the session, and gives them in the order of the
            messages; hits of several sessions by their times.
    """

    ranker: Ranker | None
    min_score: float
    explain: bool
    scope: SearchScope
    order: SearchOrder


class AgedSearchOptions(SearchOptions, total=False):
    """The options of a search in a store whose scores decay by age.

    Attributes:
        decay: The decay of scores by age; None or left out is the store's default.
        now: The time from which ages are counted, and at which entries with a ``ttl`` must be valid; None or
            left out is the current time.
    """

    decay: Decay | None
    now: datetime | float | None


class ForgetCriteria(TypedDict, total=False):
    """The conditions of ``forget`` within a session; see ``MemoryStore.forget``."""

    entry_ids: Collection[int] | None
    start: int | None
    end: int | None
    name: str | None
    before: datetime | float | None
    text: str | None
    near: bool
    fact_ids: Collection[str] | None
    identifiers: bool
    dry_run: bool


class StoreForgetCriteria(ForgetCriteria, total=False):
    """The same for a whole store, or for one session of it."""

    session_id: str | None


#: The score, on the scale of ``lexical``, that the best hit needs before recall shows hits to a model.
RECALL_MIN_SCORE = 0.14
#: The same where a model works with tools, whose long results have some words of any question.
AGENT_MIN_SCORE = 0.20
#: What either needs more on the scale of ``fused``: any two texts have some meaning in common.
FUSED_MORE = 0.04
SHOWN = 80  #: characters of a text that a repr shows


class SourceRange(NamedTuple):
    """Half-open range of absolute sequence numbers: the messages an entry came from."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to remember.

    Attributes:
        content: The text, which is indexed and returned. A blank text is accepted and not stored.
        source_range: The messages from which it came.
        role: The role of the speaker.
        name: The speaker's or the tool's name.
        kind: ``message``, or a caller's own word.
        created_at: The time of the message; None is now. A datetime without a zone is UTC.
        ttl: The time to live from *created_at* on, > 0, to the millisecond; None is for ever. After it no
            call returns the entry. An ``expire`` of its session deletes its row, or an ``index`` after a day.
    """

    content: str
    source_range: tuple[int, int] = (0, 0)
    role: str = "user"
    name: str | None = None
    kind: str = "message"
    created_at: datetime | float | None = None
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Decay:
    """The decay of scores by age: ``score * max(floor, per_day ** days)``, days fractional.

    It is off by default, because questions to a memory are mostly about old entries. On recorded chats 0.995
    a day with a floor of 0.5 costs 0.04 of Recall@10, without a floor 0.07; a decay by the hour costs nearly
    all of it.

    Attributes:
        per_day: The factor for each day, 0..1; 1 is no decay.
        floor: The smallest factor, 0..1.

    Raises:
        ConfigError: one of them is not in 0..1.
    """

    per_day: float = 0.995
    floor: float = 0.5

    def __post_init__(self) -> None:
        for field_, value in (("per_day", self.per_day), ("floor", self.floor)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{field_} of a decay must be in 0..1, got {value!r}", field_, value)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the store holds it."""

    entry_id: int
    session_id: str
    content: str
    source_range: SourceRange
    role: str
    name: str | None
    kind: str
    created_at: datetime
    repaired: bool = False  #: the text had lone surrogates, which became U+FFFD
    expires_at: datetime | None = None  #: the time from which it is not found any more, in UTC; None: never
    compaction_id: int | None = None  #: the compaction that discarded it; None for one that a caller indexed


class _Asked:
    """Holds the query of a hit. The query is no field, so equal hits of two queries are equal."""

    __slots__ = ("_asked",)
    _asked: Asked | None


@dataclass(frozen=True, slots=True)
class SearchHit(_Asked):
    """An entry that a search found.

    Attributes:
        content: The entry's text.
        score: 0..1, higher is better. Each ranker has its own scale.
        source_range: The messages from which the entry came.
        entry_id: Its id, never reused. 0 for a message that is still in a context, since it has no entry yet.
        role: The role of the speaker.
        created_at: The time of the message, in UTC.
        explain: The parts of the score, with ``explain=True``; None otherwise.
        session_id: The session of the message.
        times: How many equal texts this hit stands for. If hits take all places, 20 or more lines that
            differ only in several numbers count as equal, unless the query has a number.
        first_at: The time of the first of them; None if there is one.
        last_at: The time of the last.
    """

    content: str
    score: float
    source_range: SourceRange
    entry_id: int
    role: str
    created_at: datetime
    explain: dict[str, Any] | None = None
    session_id: str = ""
    times: int = 1
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def passage(self) -> Passage:
        """The part of the text that matches the query best, at most 1,000 characters."""
        return self.best_passage()

    def best_passage(self, size: int = 1_000) -> Passage:
        """:attr:`passage` with at most *size* characters.

        A hit that was not made by a search has no marks, and its passage is the beginning of the text.

        Raises:
            ConfigError: *size* is below 1.
        """
        from siltstone.memory.hits import best_passage  # most hits are used whole

        return best_passage(self.content, self._looked_for(), size)

    @property
    def snippet(self) -> str:
        """One line of at most 240 characters for people, with words of the query between ``**``.

        ``…`` marks a cut, and white space is reduced to single spaces. Nothing is escaped: asterisks of the
        text stay. For other marks, or text escaped for HTML:
        ``hit.passage.marked("<b>", "</b>", html.escape)``.
        """
        from siltstone.memory.hits import snippet  # most hits are used whole

        return snippet(self.content, self._looked_for())

    @property
    def in_context(self) -> bool:
        """Whether it is a message that is still in the context of its session."""
        start, end = self.source_range
        return self.entry_id == 0 and start < end

    def _looked_for(self) -> Asked | None:
        return getattr(self, "_asked", None)

    def __getstate__(self) -> list[Any]:
        fields = [getattr(self, name) for name in type(self).__annotations__]
        return [*fields, self._looked_for()]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip((*type(self).__annotations__, "_asked"), state, strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        start, end = self.source_range
        text = self.content if len(self.content) <= SHOWN else f"{self.content[:SHOWN]}…"
        return f"<SearchHit {self.score:.3f}, messages {start} to {end - 1}, {self.role}: {text!r}>"


@dataclass(frozen=True, slots=True)
class ExpireReport:
    """The result of ``expire``: the numbers of entries removed by age, by count, and by their ``ttl``."""

    by_age: int
    by_count: int
    by_ttl: int = 0

    @property
    def entries(self) -> int:
        """The number of entries that left."""
        return self.by_age + self.by_count + self.by_ttl


# The answers of a store about its writes and its contents: receipts, pages, reports.
#
# They are apart from entries and hits: a process may open a session, and never ask for one of them.


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of ``index``.

    Attributes:
        entry_ids: An id for each entry, in order; None for a blank text, which is not stored.
    """

    entry_ids: tuple[int | None, ...]

    @property
    def indexed(self) -> int:
        """The number of entries that were stored."""
        return sum(1 for entry_id in self.entry_ids if entry_id is not None)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of ``entries``. Filters apply after paging, so it may be short.

    Attributes:
        entries: The entries in id order.
        next_offset: The offset of the next page; None at the end.
        damaged: The ids of rows of the page that do not match their checksums. They are left out.
    """

    entries: tuple[StoredEntry, ...]
    next_offset: int | None
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list.

    Attributes:
        session_id: Its id.
        namespace: The text that it shares with others; empty for none.
        title: The beginning of its first request, up to 200 characters; empty if it had none, or if the
            request was forgotten.
        messages: The number of messages ever appended.
        entries: The number of entries that can be found.
        compactions: The number of committed compactions and branches.
        tokens: The sum of its messages' tokens, counted when they were appended.
        first_at: The time of its first message; None if it has none, for example if entries were only indexed
            directly.
        last_at: The time of its last message; None if it has none.
    """

    session_id: str
    namespace: str
    title: str
    messages: int
    entries: int
    compactions: int
    tokens: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of ``sessions``.

    Attributes:
        sessions: The sessions in the order of their first writes.
        next_offset: The offset of the next page; None at the end.
    """

    sessions: tuple[SessionInfo, ...]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged place in a store.

    Attributes:
        code: The kind of damage, a stable word: ``integrity`` (SQLite's own check),
            ``foreign_key``, ``unreadable``, ``checksum``, ``fingerprint``, ``count``, ``sequence``,
            ``allocator``, ``head``, ``parent``, ``view``, ``covers``, ``origin``, ``vector``,
            ``index``, ``digest``, ``namespace``, ``text`` or ``cache``.
        table: The table; empty if unknown.
        id: The id of the row; None if the damage is not in one row.
        message: A description in one sentence.
        repaired: Whether a repair has corrected the damage, or set the row aside.
    """

    code: str
    table: str
    id: int | None
    message: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """The result of ``forget``.

    Attributes:
        sessions: The number of affected sessions.
        messages: The number of messages that are tombstones now.
        entries: The number of deleted entries.
        summaries: The number of summaries that a sentence has replaced. A session has those in its view
            written again later.
        erased: Whether the bytes are gone from every file of the store, also of texts that left before this
            call. Backups and other copies are not looked at.
        kept: Names of tools and servers and ids of calls and items that the tombstones still have, each once,
            sorted; after a ``forget`` by text, only those that contain the text. ``identifiers=True`` forgets
            them too. What contains the text and is never forgotten: ids of sessions (also of deleted ones),
            namespaces, keys of facts; of settings and the like this only names what they are.
        remaining: The reasons why bytes are left: ``"identifiers"``, a name or an id in ``kept`` contains the
            text; ``"files"``, another process was using the store, and the bytes go with the next ``forget``
            or the next opening of the store; or a file of your own in a vault has the text. For PostgreSQL
            also ``"pages"`` (dead rows, until ``siltstone postgres erase``), ``"wal"`` (the write-ahead log,
            until it is recycled) and ``"copies"`` (standbys and backups).
        dry_run: Whether nothing was changed: the numbers are those of a ``forget`` at this moment.
        facts: The number of deleted facts and corrections.
        near: The near spellings of the text that stay: with other case, blanks, quotes, dashes, grouping of
            digits, hidden characters, or escapes of addresses and markup. ``near=True`` forgets them too.
    """

    sessions: int
    messages: int
    entries: int
    summaries: int
    erased: bool
    kept: tuple[str, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    dry_run: bool = False
    facts: int = 0
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The sizes of a store, or of one session of it.

    Attributes:
        sessions: The number of sessions with a message or an entry.
        messages: The number of messages in their logs.
        entries: The number of entries.
        compactions: The number of committed compactions.
        text_bytes: Bytes of the entries' texts.
        disk_bytes: Bytes of the files of the whole store, also for one session; 0 for a store in process
            memory.
        detail: For one session: the name of its index, and the index's sizes.
        quarantined: The number of entries that do not match their checksums, which no search finds: entries
            read since the store was opened (for one session: all), and entries that a repair set aside.
    """

    sessions: int
    messages: int
    entries: int
    compactions: int
    text_bytes: int
    disk_bytes: int
    detail: dict[str, Any] = field(default_factory=dict)
    quarantined: int = 0
