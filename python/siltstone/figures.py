"""Figures of a store for people: those of the command line and of the inspector."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from siltstone import tokens
from siltstone.compaction.breakdown import ContextBreakdown, breakdown
from siltstone.errors import CompactionNotFoundError, ConfigError, EntryNotFoundError, StoreCorruptError
from siltstone.memory import RecallCandidate, RecallRecord, StoredEntry
from siltstone.memory.base import Store, entries_of, rows_at, rows_of, sessions_of
from siltstone.memory.convert import datetime_from, message_of
from siltstone.memory.log import CompactionRow, Derived, LogRow, SessionLog, ancestors
from siltstone.messages import Message, decode, opens_turn, read_history, read_message, summary_level
from siltstone.messages.message import RULE_ROLES
from siltstone.session import Session
from siltstone.session.compactions import CompactionRecord
from siltstone.session.rows import derived_item, notes_of
from siltstone.tokens import TokenRule

# A store read page by page: its sessions, the messages of a log; and values as JSON carries them.


_MOST_NAMED = 5  #: sessions that an error names


def require_session(store: Store, session_id: str | None) -> str:
    """The session *session_id*; None: the only one of the store.

    Raises:
        ConfigError: the store has neither a message nor an entry of it, or None was given and the store has
            several sessions, or none.
    """
    place = getattr(store, "path", None)
    said = f"the store {place!r}" if place else "the store"  # an address may have a password in it
    if session_id is None:
        names = [each.session_id for each in store.sessions(limit=_MOST_NAMED + 1).sessions]
        if len(names) == 1:
            return names[0]
        more = " and others" if len(names) > _MOST_NAMED else ""
        has = (
            f"several sessions ({', '.join(map(repr, names[:_MOST_NAMED]))}{more})" if names else "no session"
        )
        raise ConfigError(f"{said} has {has}: name one with --session", field="session", value=None)
    version = store.open_log(session_id).version()
    if version is not None and version.next_seq:
        return session_id  # as nearly always, and in microseconds
    stats = store.stats(session_id)
    if (
        not stats.messages
        and not stats.entries
        and session_id
        not in (
            each.session_id
            for each in sessions_of(store)  # one with saved memories alone is listed
        )
    ):
        raise ConfigError(f"{said} has no session {session_id!r}", field="session", value=session_id)
    return session_id


def log_rows(log: SessionLog, start: int, end: int | None) -> Iterator[LogRow]:
    """The messages of a log from *start* on, up to *end* where there is one, a page in memory at a time."""
    last = log.state().next_seq
    last = last if end is None else min(end, last)
    yield from rows_of(log, start, last)


def plain(value: Any) -> Any:
    """*value* as JSON can carry it: moments as ISO 8601, ranges as lists."""
    if isinstance(value, date):  # a moment is one as well
        return value.isoformat()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


# The tokens of a context, by category.


_ORDER: Final = ("system", "summary", "wishes", "recent", "recalled", "new")
_COST: Final = ("recalls", "requests", "added_tokens", "evaluated_again")


def categories(
    view: Sequence[Message], rule: TokenRule, recalls: Sequence[RecallRecord] = ()
) -> dict[str, int]:
    """The tokens of the last request by what they are, in the order of the request; none is empty.

    *view* has the messages, and the first of *recalls* is the newest.
    """
    groups: dict[str, list[Message]] = {}
    new = max((place for place, each in enumerate(view) if opens_turn(each)), default=len(view))
    for place, message in enumerate(view):
        groups.setdefault(_category(message, "new" if place >= new else "recent"), []).append(message)
    found = {name: rule.count(each) for name, each in groups.items()}
    if recalls and new < len(view) and recalls[0].position > view[new].seq:
        blocks = {"wishes": recalls[0].standing, "recalled": recalls[0].tokens}
        found |= {name: tokens for name, tokens in blocks.items() if tokens}
    return {
        name: found[name] for name in sorted(found, key=lambda name: _ORDER.index(name.partition(", ")[0]))
    }


def filling(
    session: Session, window: int | None, rule: TokenRule, seen: int, recalls: Sequence[RecallRecord]
) -> tuple[dict[str, int], ContextBreakdown]:
    """The categories of the last request of *session*, and their sum in *window*."""
    view = read_history(session.history())
    bands = categories(view, rule, recalls)
    blocks = sum(bands.get(name, 0) for name in ("wishes", "recalled"))
    return bands, breakdown(view, window, estimator=rule, messages_seen=seen, recalled_tokens=blocks)


def in_context(log: SessionLog, rule: TokenRule) -> int:
    """The tokens in context now, by *rule*: the sum of the breakdown of the session's history."""
    state = log.state()
    head = None if state.head is None else state.head.compaction
    pieces = [] if head is None else [*head.view]
    view = [derived_item(each) for each in log.derived([each for each in pieces if isinstance(each, int)])]
    spans = [each for each in pieces if isinstance(each, tuple)]
    for start, end in (*spans, (0 if head is None else head.next_seq, state.next_seq)):
        view += [message_of(row) for row in log_rows(log, start, end)]
    return rule.count(view)


def _category(message: Message, age: str) -> str:
    if message.provenance == "compaction_summary":
        return f"summary, level {summary_level(message)}"
    if message.role in RULE_ROLES:
        return "system"
    kinds = {part.kind for part in message.parts}
    if "tool_result" in kinds:
        return f"{age}, tool results"
    return f"{age}, {'tool calls' if 'tool_call' in kinds else message.role}"


# The growth of a store over the last days, and its entries that will expire.

DAYS: Final = 30  #: days that the growth is told of
_PAGE = 500  #: rows that are held at once


@dataclass(frozen=True, slots=True)
class Day:
    """The messages of one day, in UTC: their number, and the bytes of their JSON."""

    day: date
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """The expiring entries of a store, in numbers.

    Attributes:
        entries: The number of entries.
        expiring: The number of entries with an expiry time.
        expired: The number of entries whose time has passed. Searches skip them; the next write deletes them.
        next_at: The time of the next expiry; None if no entry will expire.
        oldest_at: The time of the oldest entry; None for a store without entries.
    """

    entries: int
    expiring: int
    expired: int
    next_at: datetime | None
    oldest_at: datetime | None


def growth(store: Store, today: date, days: int = DAYS) -> list[Day]:
    """The messages of each of the last *days* up to *today*, oldest first; also of days without messages."""
    first = today - timedelta(days=days - 1)
    begins = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1000)
    found = {first + timedelta(days=n): [0, 0] for n in range(days)}
    for each in sessions_of(store):
        if each.last_at is None or each.last_at.timestamp() * 1000 < begins:
            continue
        for row in _newest(store.open_log(each.session_id), each.messages, begins):
            figures = found.get(datetime.fromtimestamp(row.created_at / 1000, UTC).date())
            if figures is not None:
                figures[0] += 1
                figures[1] += len(row.raw.encode())
    return [Day(day, *figures) for day, figures in found.items()]


def _newest(log: SessionLog, end: int, begins: int) -> Iterator[LogRow]:
    """The messages of a log from the newest on, up to the page that begins before that time."""
    while end > 0:
        page = log.read(max(0, end - _PAGE), end)
        yield from page
        if page[0].created_at < begins:
            return
        end -= len(page)


def keeping(store: Store, now: datetime) -> Keeping:
    """The expiring entries of *store*, in numbers."""
    count = expiring = expired = 0
    following: datetime | None = None
    oldest: datetime | None = None
    for each in sessions_of(store):
        for entry in entries_of(store, each.session_id, expired=True):
            count += 1
            oldest = entry.created_at if oldest is None else min(oldest, entry.created_at)
            if entry.expires_at is None:
                continue
            expiring += 1
            if entry.expires_at <= now:
                expired += 1
            else:
                following = entry.expires_at if following is None else min(following, entry.expires_at)
    return Keeping(count, expiring, expired, following, oldest)


# The recalls of a session, with the entries as they are now.

#: The outcome of an entry, in words.
PLACINGS = {"placed": "placed", "cut": "placed, cut", "budget": "left out for the budget"}
#: Why nothing was placed, in words.
RECALL_REASONS = {
    "short_query": "nothing was placed: the query was too short",
    "no_hits": "nothing was placed: nothing scored enough",
    "no_room": "nothing was placed: there was no room",
}


@dataclass(frozen=True, slots=True)
class RecalledEntry:
    """An entry that a recall found.

    Attributes:
        candidate: The record of the entry in the log.
        entry: The entry; None if it was deleted since, or cannot be read.
    """

    candidate: RecallCandidate
    entry: StoredEntry | None


@dataclass(frozen=True, slots=True)
class ShownRecall:
    """A recall.

    Attributes:
        record: The record of the recall in the log.
        query: The messages of the query as one text; empty if they were forgotten.
        entries: The entries that it found, the best first.
    """

    record: RecallRecord
    query: str
    entries: tuple[RecalledEntry, ...]


def recalls(session: Session, store: Store, limit: int) -> list[ShownRecall]:
    """The newest recalls of *session*, at most *limit*, the newest first."""
    return shown(session, store, session.recalls(limit))


def shown(session: Session, store: Store, records: Iterable[RecallRecord]) -> list[ShownRecall]:
    """*records* of *session* with the entries and the query as they are now."""
    return [
        ShownRecall(
            record,
            _query(session, store, record),
            tuple(RecalledEntry(each, _entry(store, each.entry_id)) for each in record.candidates),
        )
        for record in records
    ]


def _query(session: Session, store: Store, record: RecallRecord) -> str:
    """The words of the messages that a query was made of."""
    log = store.open_log(session.session_id)
    rows = [row for seq in record.query for row in log.read(seq, seq + 1) if row.provenance != "placeholder"]
    return " ".join(read_message(decode(row.raw), row.seq, dialect=row.dialect).text for row in rows)


def _entry(store: Store, entry_id: int) -> StoredEntry | None:
    try:
        return store.get(entry_id) if entry_id > 0 else None
    except (EntryNotFoundError, StoreCorruptError):
        return None


# The parts of the score of a hit, with the value of each part.

#: Parts that change nothing at these values, and are left out then.
_NEUTRAL: Final[Mapping[str, float]] = {"day": 0.0, "speaker": 1.0, "decay": 1.0, "passages": 1}
_APART: Final = ("terms", "neighbors", "score", "own", "passage", "passages")
_NAME: Final = 10  #: columns of the name of a part
_LEAST: Final = 0.0005  #: the least addend of a neighbour that is listed


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a score.

    Attributes:
        name: A word of the query, or the name of another part.
        value: Its share of the score; None if the part is no number.
        said: A remark on the part.
        is_term: Whether it is a word of the query.
    """

    name: str
    value: float | None
    said: str = ""
    is_term: bool = False


def score_parts(explain: Mapping[str, Any]) -> Iterator[ScorePart]:
    """The parts of a score: the words of the query, the neighbours of the entry, the rest, and the sum."""
    for term in explain.get("terms", ()):
        yield ScorePart(term["term"], term.get("score"), _of_term(term), is_term=True)
    beside = [each for each in explain.get("neighbors", ()) if each["score"] >= _LEAST]
    if beside:
        said = ", ".join(f"{_rank(each['place'])} {each['score']:.3f}" for each in beside)
        yield ScorePart("beside it", sum(each["score"] for each in beside), said)
    for name, value in explain.items():
        if name not in _APART and value is not None and value != _NEUTRAL.get(name):
            known = value if isinstance(value, int | float) else None
            yield ScorePart(name.replace("_", " "), known, "" if known is not None else str(value))
    if explain.get("passages", 1) != 1:
        yield ScorePart(f"passage {explain['passage'] + 1} of {explain['passages']}", None, "fits best")
    if "score" in explain:
        yield ScorePart("score", explain["score"])


def explained(explain: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a score, a line each."""
    for part in score_parts(explain):
        figure = f"{part.value:.3f}" if isinstance(part.value, float) else part.value
        shown = "" if figure is None else figure
        yield f"{part.name:<{_NAME}}  {shown:>5}  {part.said}".rstrip()


def _rank(place: int) -> str:
    """Where an entry stands, seen from the one that was found."""
    return f"{abs(place)} {'before' if place < 0 else 'after'}"


def _of_term(term: Mapping[str, Any]) -> str:
    """How often the entry has the word, and how rare it is."""
    fields = term.get("fields")
    told = []
    if isinstance(fields, Mapping):
        told.append(", ".join(f"{count} in {name}" for name, count in fields.items()))
    elif "tf" in term:
        told.append(f"tf {term['tf']}")
    if "idf" in term:
        told.append(f"idf {term['idf']:.2f}")
    known = {"term", "score", "fields", "tf", "idf"}
    told += [f"{name.replace('_', ' ')} {value}" for name, value in term.items() if name not in known]
    return "; ".join(told)


# The turns of a session in tokens, and the compactions, branches and undos up to its current view.

#: How a request that is a plain text begins, as the log has it.
_PLAIN = ('{"role":"user","content":"', '{"role": "user", "content": "')


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """A turn. Messages before the first request are turn 0.

    Attributes:
        turn: Its number.
        start: Its first message.
        end: The number after its last message.
        tokens: The tokens of its messages.
        context: The tokens in context after it.
    """

    turn: int
    start: int
    end: int
    tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A compaction, a branch or an undo, which stands before message *seq*.

    Attributes:
        id: The id of the compaction.
        seq: The first message behind it.
        reason: Why it was due.
        tokens_before: Tokens of the view before, by the policy's rule.
        tokens_after: Tokens of the view after.
        created_at: The time of its commit, in UTC, as ISO 8601.
        threshold: The threshold in tokens that was reached; None where there was none, or nobody noted it.
        reserved_tokens: Tokens beside the history that counted against it.
    """

    id: int
    seq: int
    reason: str
    tokens_before: int
    tokens_after: int
    created_at: str
    threshold: int | None = None
    reserved_tokens: int = 0


class Said:
    """The tokens of each message of a log, whether it opens a turn, and whether it is an answer.

    A log only grows, so the next call reads only the new messages. Safe for several threads.
    """

    def __init__(self) -> None:
        self._messages: list[tuple[int, bool, bool]] = []
        self._lock = threading.Lock()

    def up_to_now(self, log: SessionLog) -> list[tuple[int, bool, bool]]:
        """The messages of *log*, in order; always of the same log."""
        with self._lock:
            for row in log_rows(log, len(self._messages), None):
                self._messages.append((row.tokens, _opens_turn(row), row.role == "assistant"))
            return self._messages[:]


def told(log: SessionLog, said: Said | None = None) -> tuple[list[TurnTokens], list[Mark]]:
    """The turns of a log, and the compactions, branches and undos up to its current view, oldest first.

    *said* has the messages that earlier calls have read.
    """
    line_of_rows = [*ancestors(log, log.state().head)][::-1]
    marks = [
        Mark(
            row.compaction_id,
            row.compaction.next_seq,
            row.compaction.reason,
            row.compaction.tokens_before,
            row.compaction.tokens_after,
            datetime_from(row.compaction.created_at).isoformat(),
            *notes_of(row.compaction).get("due", ()),
        )
        for row in line_of_rows
    ]
    turns: list[TurnTokens] = []
    number = start = tokens = context = end = 0
    waiting = list(marks)
    for seq, (size, is_request, _) in enumerate((said or Said()).up_to_now(log)):
        while waiting and waiting[0].seq <= seq:
            context = waiting.pop(0).tokens_after
        if is_request:
            if seq > start:
                turns.append(TurnTokens(number, start, seq, tokens, context))
            number, start, tokens = number + 1, seq, 0
        tokens, context, end = tokens + size, context + size, seq + 1
    if waiting:
        context = waiting[-1].tokens_after
    if end > start:
        turns.append(TurnTokens(number, start, end, tokens, context))
    return turns, marks


def recall_cost(
    log: SessionLog, marks: Sequence[Mark], recalls: Sequence[RecallRecord], said: Said | None = None
) -> dict[str, int]:
    """What *recalls*, the newest first, add to the requests of *log*; *marks* are its compactions.

    ``recalls`` counts those with a block, ``requests`` the answers in the log to requests with such a block,
    ``added_tokens`` the blocks in all these requests. ``evaluated_again`` counts the tokens that a provider
    with a prefix cache evaluates once more, since a block before them left or changed; none where a
    compaction changed the prefix anyway.
    """
    messages = (said or Said()).up_to_now(log)
    cost, following = dict.fromkeys(_COST, 0), len(messages)
    for each in recalls:
        span = range(each.position, following)
        end = next((seq for seq in span if messages[seq][1]), following)
        answers = [seq for seq in range(each.position, end) if messages[seq][2]]
        following = each.position
        if not each.tokens + each.standing:
            continue
        last, requests = answers[-1] if answers else each.position, max(1, len(answers))
        is_kept = end == len(messages) or any(last < mark.seq <= end + 1 for mark in marks)
        behind = 0 if is_kept or not each.tokens else sum(size for size, *_ in messages[each.before : last])
        added = (1, requests, requests * (each.tokens + each.standing), behind)
        cost = {name: cost[name] + more for name, more in zip(_COST, added, strict=True)}
    return cost


def _opens_turn(row: LogRow) -> bool:
    if row.provenance == "original" and row.raw.startswith(_PLAIN):
        return True  # as most are: no tool result is a plain text
    return row.role == "user" and opens_turn(read_message(decode(row.raw), row.seq))


# The decision of one compaction on each message of the view before it.

#: Why a compaction was due, in words.
REASONS = {
    "history_tokens": "the history had reached the threshold",
    "input_tokens": "the last request had reached the threshold",
    "forecast": "the next request was expected to reach the threshold",
    "bytes": "the request had reached the threshold in bytes",
    "fraction": "a share of the window had been reached",
    "count": "there were too many messages",
    "overflow": "the request did not fit the window",
    "manual": "it was asked for",
    "model": "the model asked for it",
    "branch": "the host's list had changed its past",
}
#: By which rule a message was kept or left, in words.
RULES = {
    "system": "a rule of the system that is in force",
    "pinned": "it is pinned",
    "request": "the request that is worked on",
    "recent": "among the newest, which stay",
    "chosen": "chosen by the policy",
    "superseded": "a later version of the rule is in force",
    "older": "older than what stays",
    "outranked": "the policy chose others",
}
_RULE = "blocks"  #: how texts are counted whose tokens no compaction noted

FateKind: TypeAlias = Literal["kept", "shortened", "summarised", "left"]
"""``kept``: it is in the view as it was. ``shortened``: a shorter text stands in its place. ``summarised``: a
summary stands for it. ``left``: no text of the view stands for it; the log has it."""


def why(record: CompactionRecord | Mark) -> str:
    """Why a compaction was due, in words, with the threshold that was reached; empty for other reasons."""
    said = REASONS.get(record.reason, "")
    if not said or record.threshold is None:
        return said
    beside = f", {record.reserved_tokens:,} of them beside the history" if record.reserved_tokens else ""
    joined = " of " if said.endswith(("the threshold", "the window")) else ": "
    return f"{said}{joined}{record.threshold:,} tokens{beside}"


@dataclass(frozen=True, slots=True)
class Fate:
    """The decision on one message.

    Attributes:
        row: The message, as the log has it.
        kind: The kind of the decision.
        is_archived: Whether a search finds it, or a part of it.
        rule: The rule of the decision, one of ``RULES``; empty if the log does not have it.
        tokens: Its size in the view before: of the message, or of the shorter text in its place.
    """

    row: LogRow
    kind: FateKind
    is_archived: bool
    rule: str
    tokens: int

    @property
    def seq(self) -> int:
        """Its number."""
        return self.row.seq


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a view: so many messages or summaries, and their tokens."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Change:
    """One compaction.

    Attributes:
        record: The record of the compaction in the log.
        fates: Each message of the view before, in order.
        earlier: How many messages had left before, for which its summary stands as well.
        before: The summaries and shorter texts of the view before.
        after: The summaries and shorter texts of the view after.
        sizes: The tokens of these texts, by their ids.
    """

    record: CompactionRecord
    fates: tuple[Fate, ...]
    earlier: int
    before: tuple[Derived, ...]
    after: tuple[Derived, ...]
    sizes: Mapping[int, int]

    @property
    def shares_before(self) -> dict[str, Share]:
        """The parts of the view before, by the decision on them, in the order of the view.

        ``replaced``: summaries that are not in the view after. ``summaries``: summaries that stayed. The rest
        are messages, by their ``FateKind``.
        """
        stayed = {each.derived_id for each in self.after}
        old = [("summaries" if each.derived_id in stayed else "replaced", each) for each in self.before]
        parts = [(kind, self.sizes[each.derived_id]) for kind, each in old if each.kind == "summary"]
        parts += [(fate.kind, fate.tokens) for fate in self.fates]
        return _shares(("replaced", "summaries", "summarised", "left", "shortened", "kept"), parts)

    @property
    def shares_after(self) -> dict[str, Share]:
        """The parts of the view after, in its order.

        ``new`` summaries, ``summaries`` that stayed, and messages ``shortened`` by it or ``kept``.
        """
        known = {each.derived_id for each in self.before}
        parts = [
            (_kind_after(each, is_new=each.derived_id not in known), self.sizes[each.derived_id])
            for each in self.after
            if each.kind == "summary" or each.derived_id not in known
        ]
        parts += [(fate.kind, fate.tokens) for fate in self.fates if fate.kind == "kept"]
        return _shares(("new", "summaries", "shortened", "kept"), parts)

    @property
    def gone(self) -> list[Fate]:
        """The messages that left the view with it."""
        return [fate for fate in self.fates if fate.kind in ("summarised", "left")]

    @property
    def kept(self) -> list[Fate]:
        """The messages that stayed."""
        return [fate for fate in self.fates if fate.kind in ("kept", "shortened")]


def difference(session: Session, store: Store, compaction_id: int) -> Change:
    """The decisions of compaction *compaction_id* of *session*.

    Raises:
        CompactionNotFoundError: the session has no such compaction.
    """
    records = {record.id: record for record in session.compactions(undone=True)}
    record = records.get(compaction_id)
    if record is None:
        raise CompactionNotFoundError(
            f"session {session.session_id!r} has no compaction {compaction_id}", compaction_id=compaction_id
        )
    log = store.open_log(session.session_id)
    rows = {row.compaction_id: row for row in log.compactions()}
    row = rows[compaction_id]
    parent = None if row.parent is None else rows.get(row.parent)
    before, after = _texts(log, parent), _texts(log, row)
    seqs = _before(parent, before, row.compaction.next_seq)
    shown = _numbers(piece for piece in row.compaction.view if isinstance(piece, tuple))
    known = {each.derived_id for each in before}
    replaced = {each.seq: each.derived_id not in known for each in after if each.seq is not None}
    new = [each for each in after if each.kind == "summary" and each.derived_id not in known]
    brought = _numbers(span for each in new for span in each.covers)

    def kind(seq: int) -> FateKind:
        if seq in replaced:
            return "shortened" if replaced[seq] else "kept"
        if seq in shown:
            return "kept"
        return "summarised" if seq in brought else "left"

    found = _archived(store, session.session_id, seqs)
    rules = {seq: rule for start, end, rule in record.rules for seq in range(start, end)}
    rule = tokens.rule(_RULE)
    noted = {
        text: size
        for each in rows.values()
        for text, size in zip(each.derived_ids, notes_of(each.compaction).get("sizes", ()), strict=False)
    }
    sizes = {
        each.derived_id: noted.get(each.derived_id) or rule.count([derived_item(each)])
        for each in (*before, *after)
    }
    stood = {each.seq: sizes[each.derived_id] for each in before if each.seq is not None}
    fates = tuple(
        Fate(
            each, kind(each.seq), each.seq in found, rules.get(each.seq, ""), stood.get(each.seq, each.tokens)
        )
        for each in rows_at(log, seqs)
    )
    covered = _numbers(record.covers)
    gone = {fate.seq for fate in fates if fate.kind in ("summarised", "left")}
    return Change(record, fates, len(covered - gone), before, after, sizes)


def _kind_after(text: Derived, *, is_new: bool) -> str:
    if text.kind != "summary":
        return "shortened"
    return "new" if is_new else "summaries"


def _shares(order: Sequence[str], parts: Iterable[tuple[str, int]]) -> dict[str, Share]:
    """The parts by their kinds, in *order*; none is empty."""
    found: dict[str, list[int]] = {}
    for kind, size in parts:
        found.setdefault(kind, []).append(size)
    return {kind: Share(len(found[kind]), sum(found[kind])) for kind in order if kind in found}


def _texts(log: SessionLog, row: CompactionRow | None) -> tuple[Derived, ...]:
    """The derived texts of the view that *row* left, in their order."""
    ids = [] if row is None else [piece for piece in row.compaction.view if isinstance(piece, int)]
    return tuple(log.derived(ids)) if ids else ()


def _before(parent: CompactionRow | None, texts: tuple[Derived, ...], end: int) -> list[int]:
    """The numbers of the messages that the view before shows, as they are or shortened, in order."""
    if parent is None:
        return [*range(end)]
    spans = [piece for piece in parent.compaction.view if isinstance(piece, tuple)]
    shortened = {each.seq for each in texts if each.seq is not None}
    return sorted(_numbers([*spans, (parent.compaction.next_seq, end)]) | shortened)


def _archived(store: Store, session_id: str, seqs: list[int]) -> set[int]:
    """The numbers of *seqs* whose messages became an entry."""
    if not seqs:
        return set()
    entries = entries_of(store, session_id, (seqs[0], seqs[-1] + 1))
    return _numbers((entry.source_range.start, entry.source_range.end) for entry in entries)


def _numbers(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {seq for start, end in spans for seq in range(start, end)}
