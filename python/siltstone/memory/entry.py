"""The values that a store takes and gives back: entries, hits, pages, figures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from siltstone.errors import ConfigError
from siltstone.values import dataclass, field

if TYPE_CHECKING:
    from siltstone._native import Asked
    from siltstone.memory.passage import Passage

__all__ = [
    "MAX_FINGERPRINT_BYTES",
    "RECALL_MIN_SCORE",
    "Decay",
    "Entry",
    "ExpireReport",
    "Finding",
    "ForgetReport",
    "Fusion",
    "Page",
    "Ranker",
    "Receipt",
    "ReconcileReport",
    "Remaining",
    "SearchFilters",
    "SearchHit",
    "SearchIndex",
    "SearchOrder",
    "SearchScope",
    "SessionInfo",
    "SessionPage",
    "SourceRange",
    "Stage",
    "StoreStats",
    "StoredEntry",
]

Ranker: TypeAlias = Literal["lexical", "cosine", "hybrid", "dense", "fused"]
Fusion: TypeAlias = Literal["zscore", "rrf"]
SearchIndex: TypeAlias = Literal["exact", "hnsw"]  #: what the ranker ``cosine`` looks into
SearchOrder: TypeAlias = Literal["score", "time"]  #: the best first, or as they were said
SearchScope: TypeAlias = Literal["session", "namespace"]  #: a session alone, or all of its namespace
#: The score, on the scale of ``lexical``, that the best hit needs before recall shows hits to a model.
RECALL_MIN_SCORE = 0.14
SHOWN = 80  #: characters of a text that a repr shows
MAX_FINGERPRINT_BYTES = 1024  #: bytes of a batch's fingerprint, as UTF-8


class SourceRange(NamedTuple):
    """Half-open range of absolute sequence numbers: the messages an entry came from."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to remember.

    Attributes:
        content: The text, which is indexed and given back. An empty or blank text is accepted and not stored.
        source_range: The messages it came from.
        role: The role of the speaker.
        name: The speaker's or the tool's name.
        kind: ``message``, or a caller's own word.
        created_at: When it was said; now, where not given. A datetime without a zone is UTC.
        ttl: The time after that for which it is found, > 0, to the millisecond; None is for ever. Afterwards
            nothing gives it back, and its row leaves with the next ``index`` or ``expire`` of its session.
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

    Old entries are what a memory is asked for: on recorded chats 0.995 a day with a floor of 0.5 costs
    0.04 of Recall@10, without a floor 0.07, and by the hour nearly everything. So it is off by default.

    Attributes:
        per_day: The share of the score that each day leaves, 0..1; 1 takes nothing.
        floor: The least share that is left, 0..1.

    Raises:
        ConfigError: one of them is not in 0..1.
    """

    per_day: float = 0.995
    floor: float = 0.5

    def __post_init__(self) -> None:
        for field_, value in (("per_day", self.per_day), ("floor", self.floor)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(
                    f"{field_} of a decay must be in 0..1, got {value!r}", field=field_, value=value
                )


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
    expires_at: datetime | None = None  #: from when on it is not found any more, in UTC; None is never
    compaction_id: int | None = None  #: the compaction that discarded it; None for one that a caller indexed


class _Asked:
    """Holds what a search looked for, which is no field of a hit: two hits that say the same are equal."""

    __slots__ = ("_asked",)
    _asked: Asked | None


@dataclass(frozen=True, slots=True)
class SearchHit(_Asked):
    """An entry that a search found.

    Attributes:
        content: The entry's text.
        score: 0..1, higher is better. Each ranker has its own scale.
        source_range: The messages the entry came from.
        entry_id: Its id, never reused. 0 for a message of another session of the namespace that is still in
            its context: it has no entry yet.
        role: The role of the speaker.
        created_at: When it was said, in UTC.
        explain: Per-part scores, when asked for; None otherwise.
        session_id: The session that it was said in.
    """

    content: str
    score: float
    source_range: SourceRange
    entry_id: int
    role: str
    created_at: datetime
    explain: dict[str, Any] | None = None
    session_id: str = ""

    @property
    def passage(self) -> Passage:
        """The part of the text that says most of what was asked, at most 1,000 characters."""
        return self.best_passage()

    def best_passage(self, size: int = 1_000) -> Passage:
        """The same of at most *size* characters.

        A hit that no search of a store made has no marks, and its passage is the beginning.

        Raises:
            ConfigError: *size* is below 1.
        """
        from siltstone.memory.passage import best_passage  # most hits are used whole

        return best_passage(self.content, self._looked_for(), size)

    @property
    def snippet(self) -> str:
        """A line of at most 240 characters for people, with words of the query between ``**``.

        Where it was cut stands ``…``, and each stretch of white space is one space. Nothing is escaped:
        asterisks of the text stay as they are. To mark words another way, or to escape the text for HTML:
        ``hit.passage.marked("<b>", "</b>", html.escape)``.
        """
        from siltstone.memory.passage import snippet  # most hits are used whole

        return snippet(self.content, self._looked_for())

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


class SearchFilters(TypedDict, total=False):
    """Conditions on hits; all that are given must hold. Scores do not depend on them.

    Entries are filtered before they are ranked: so a search gives as many hits as were asked for, if so many
    entries pass.

    Attributes:
        since: Said then or later, to the millisecond. A datetime without a zone is UTC.
        until: Said before.
        role: Their role, exactly.
        kind: Their kind, exactly.
        name: Their speaker's or tool's name, exactly.
        topic: Texts about that topic of the documented table: ``database``, ``deployment``, ....
        entity: Texts that name it, such as ``person:Ann``, or ``Ann``. Topics and entities are told by rule
            from the text of each hit when it is found; a rare one makes a search read many.
    """

    since: datetime | float | None
    until: datetime | float | None
    role: str | None
    kind: str | None
    name: str | None
    topic: str | None
    entity: str | None


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
class Stage:
    """A batch that a host handed over and has not committed: it waits, and no search finds it.

    Attributes:
        token: Its name, which the host keeps.
        session_id: The session it is for.
        fingerprint: The host's own name for it.
        entries: The number of entries that wait; blank entries do not.
        created_at: When it was handed over, in UTC.
    """

    token: str
    session_id: str
    fingerprint: str
    entries: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """The result of ``reconcile``: tokens, in order.

    Attributes:
        finalized: They waited, the host had committed them, and they are found now.
        aborted: They waited, the host had not committed them, and they are gone.
        lost: The host had committed them, and the store does not have them, or not whole: hand these
            batches over again.
    """

    finalized: tuple[str, ...]
    aborted: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of ``entries``. Filters apply after paging, so it may be short.

    Attributes:
        entries: In id order.
        next_offset: Where the next page begins; None at the end.
        damaged: The ids of rows of the page that do not match their checksums, and are left out.
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
        title: The beginning of its first request, up to 200 characters; empty if it had none, or if that was
            forgotten.
        messages: The number of messages that were ever appended.
        entries: The number of entries that can be found.
        compactions: The number of compactions and branches that were committed.
        tokens: The sum over its messages, as they were counted when they were appended.
        first_at: When its first message was appended; None where there is none, as of a store that was only
            indexed by hand.
        last_at: When its last message was.
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
        sessions: In the order of their first writes.
        next_offset: Where the next page begins; None at the end.
    """

    sessions: tuple[SessionInfo, ...]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a store that is not what it should be.

    Attributes:
        code: The kind of damage, a word that does not change: ``integrity`` (SQLite's own check),
            ``foreign_key``, ``unreadable``, ``checksum``, ``fingerprint``, ``count``, ``sequence``,
            ``allocator``, ``head``, ``parent``, ``view``, ``covers``, ``origin``, ``stage``, ``vector`` or
            ``index``.
        table: Where it was found; empty where that is not known.
        id: The row, where it is one.
        message: One sentence.
        repaired: It was as described, and a repair put it right, or set it aside.
    """

    code: str
    table: str
    id: int | None
    message: str
    repaired: bool = False


Remaining: TypeAlias = Literal["identifiers", "files", "pages", "wal", "copies"]
"""What keeps the bytes of what was forgotten."""


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """The result of ``forget``.

    Attributes:
        sessions: Sessions that something was forgotten of.
        messages: Messages that are tombstones now.
        entries: Entries that were deleted, those of batches that wait included.
        summaries: Summaries that were replaced.
        erased: The bytes are gone from every file of the store.
        renewed: Summaries that a model made anew of what is left (``Session.forget`` alone).
        kept: The names of tools and servers and the ids of calls and items that the tombstones have, each
            once, sorted: of a ``forget`` by text, those with the text in them. ``identifiers=True`` takes
            them as well. Also the id of a session that has the text, which nothing takes.
        remaining: Why the bytes are not gone: ``"identifiers"``, a name or an id in ``kept`` has the text;
            ``"files"``, another process was using the store, and they go with the next ``forget``, or when
            the store is next opened. Of a store in PostgreSQL also ``"pages"``, ``"wal"`` and ``"copies"``:
            dead rows until ``siltstone postgres erase``, the write-ahead log until it is recycled, standbys
            and backups.
        dry_run: Nothing was done: the figures are those of a ``forget`` at this moment.
        facts: Facts and corrections that were deleted.
    """

    sessions: int
    messages: int
    entries: int
    summaries: int
    erased: bool
    renewed: int = 0
    kept: tuple[str, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    dry_run: bool = False
    facts: int = 0


@dataclass(frozen=True, slots=True)
class ExpireReport:
    """The result of ``expire``: the numbers of entries that left by age, by count, and by their ``ttl``."""

    by_age: int
    by_count: int
    by_ttl: int = 0

    @property
    def entries(self) -> int:
        """The number of entries that left."""
        return self.by_age + self.by_count + self.by_ttl


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The sizes of a store, or of one session of it.

    Attributes:
        sessions: Sessions with a message or an entry.
        messages: Messages in their logs.
        entries: Entries.
        compactions: Committed compactions.
        text_bytes: Bytes of the entries' texts.
        disk_bytes: Bytes of the files of the whole store, also for one session; 0 for a store in process
            memory.
        detail: For one session: the name of its index, and the index's sizes.
        staged: Entries of batches that wait for their host to commit. They count nowhere else.
        quarantined: Entries that do not match their checksums, which no search finds: those that were met
            since the store was opened (of one session: all there are), and those that a repair set aside.
    """

    sessions: int
    messages: int
    entries: int
    compactions: int
    text_bytes: int
    disk_bytes: int
    detail: dict[str, Any] = field(default_factory=dict)
    staged: int = 0
    quarantined: int = 0
