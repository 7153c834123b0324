"""Plans a ``forget``: which messages, entries, facts and summaries it concerns, and what replaces them."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from html.entities import codepoint2name
from itertools import count
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize

from siltstone import _native, messages as chat
from siltstone.errors import ConfigError, EntryNotFoundError, InvalidMessageError, refuse
from siltstone.memory.base import FactRow, Store, entry_pages, rows_at, rows_of
from siltstone.memory.convert import MAX_INTEGER, datetime_from, milliseconds, range_of, stored_entry
from siltstone.memory.database_log import request_among
from siltstone.memory.entry import ForgetReport, Page, StoredEntry, StoreForgetCriteria
from siltstone.memory.log import Derived, LogRow, SessionLog
from siltstone.messages import identifiers

# Finds a text inside another text, also inside JSON in JSON.
#
# JSON may stand anywhere: in a message's text, in a Markdown fence, in one line among many, after the
# headers of a web server, in a string of other JSON. So nothing is parsed. The escapes of JSON are undone
# everywhere (``\\n``, ``\\"``, ``\\u00e9`` in upper or lower case, pairs of surrogates), then the escapes
# inside the result, and so on. The text is searched in each of these readings. Base64 and compressed data are
# not undone.

DEEPEST: Final = 8  #: the maximum number of levels of JSON inside a JSON string
MOST_SPELLED: Final = 200  #: characters of a text whose near spellings are found

_ESCAPE: Final = re.compile(
    r'\\(?:(["\\/bfnrt])'
    r"|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4}))"
)
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIDDEN: Final = r"\u00ad\u200b-\u200f\u2060\ufeff"  #: characters that show as nothing
_BLANK: Final = rf"(?:[\s\x1c-\x1f{_HIDDEN}+]|\\+[nrtfv]|%20|%0[9ad]|&nbsp;|&#(?:x20|xa0|32|160);)+"
_GROUPED: Final = rf"[\s{_HIDDEN}./()\-\u2010-\u2014]{{0,3}}"  #: between the digits of a number
_FEW_DIGITS: Final = 6  #: the fewest digits that may be grouped in another way
_ALIKE: Final = (  #: quotes and dashes that stand for one another
    "'\u2018\u2019\u02bc\u00b4`",
    '"\u201c\u201d\u201e\u00ab\u00bb',
    "-\u2010\u2011\u2012\u2013\u2014\u2212",
)


class Sought:
    """A text to find in other texts, in any canonically equal spelling; with *near* also in near spellings.

    Near spellings differ in case, blanks, breaks of lines, quotes and dashes, in the grouping of six or more
    digits, in characters that show as nothing, and in escapes of addresses and markup. Texts of more than 200
    characters have none.

    Attributes:
        text: The text.
        spelled: An expression that matches the beginning of every spelling, for ``re`` and for the core.
    """

    def __init__(self, text: str, *, near: bool = False) -> None:
        self.text, self._is_near = text, near
        self._composed = normalize("NFC", text)
        forms = dict.fromkeys(each[:MOST_SPELLED] for each in (text, self._composed))
        self.spelled = f"(?i){'|'.join(map(_spelled, forms))}"
        self._near = re.compile(self.spelled) if len(self._composed) <= MOST_SPELLED else None

    def is_in(self, text: str, depth: int = DEEPEST) -> bool:
        """Whether *text* contains it, directly or inside up to *depth* levels of JSON."""
        if self.text in text:
            return True
        composed = (normalize("NFC", reading) for reading in _readings(text, depth))
        return any(self._composed in each for each in composed) or (
            self._is_near and bool(self.spellings(text, depth))
        )

    def spellings(self, text: str, depth: int = DEEPEST) -> set[str]:
        """The near spellings in *text*, without the escapes of JSON."""
        if self._near is None:
            return set()
        found = {
            list(_readings(each[0], depth))[-1]
            for reading in _readings(text, depth)
            for each in self._near.finditer(normalize("NFC", reading))
        }
        return {each for each in found if self._composed not in each}


def _readings(text: str, depth: int) -> Iterator[str]:
    """*text*, and its escapes undone once, twice and so on, up to *depth* times."""
    yield text
    for _ in range(depth):
        read = _ESCAPE.sub(_undone, text) if "\\" in text else text
        if read == text:
            return
        yield (text := read)


def _undone(escape: re.Match[str]) -> str:
    short, high, low, code = escape.groups()
    if short is not None:
        return _SHORT.get(short, short)
    if code is not None:
        return chr(int(code, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))


def _spelled(text: str) -> str:
    """The expression for all spellings of *text*."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    is_number = sum(map(str.isdecimal, text)) >= _FEW_DIGITS
    if is_number:
        text = re.sub(rf"(?<=\d){_GROUPED}(?=\d)", "", text)
    spelled = before = ""
    for blank, char in re.findall(r"(\s+)|(.)", re.sub(f"[{_HIDDEN}]+", "", text) or text, re.DOTALL):
        is_inside = is_number and before.isdecimal() and char.isdecimal()
        spelled += (_GROUPED if is_inside else f"[{_HIDDEN}]*") if before else ""
        spelled += _BLANK if blank else _spelled_char(char)
        before = blank or char
    return spelled


def _spelled_char(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    alike = next((each for each in _ALIKE if char in each), char)
    forms = []
    for each in alike:
        code = ord(each)
        escaped = "".join(f"%{byte:02x}" for byte in each.encode())
        forms += [f"\\U{code:08x}", escaped, f"&#0*{code};", f"&#x0*{code:x};"]
        forms += [f"&{codepoint2name[code]};"] if code in codepoint2name else []
        forms += [r"\\b"] if each == "\b" else []
    return rf"\\*(?:{'|'.join(forms)})"


# New ids and names for forgotten messages, if ids and names must be forgotten too.
#
# A call, its result, and every other message with the same id get the same new id, so pairs stay pairs.

Tombstones = Mapping[int, Mapping[str, Any]]
"""The tombstone of every message of a session, by sequence number."""

_PREFIX: Final = re.compile(  # prefixes of providers' ids: some require them, and they tell nothing
    r"(?:call|toolu|srvtoolu|mcptoolu|fc|ctc|rs|msg|ws|fs|ci|ig|mcp|mcpr|mcpl|cu|sh|lsh|apc|tsc|cmp)_"
)


def with_partners(tombstones: Tombstones, chosen: Iterable[int], sought: Sought | None) -> set[int]:
    """*chosen*, and every message that shares an id with them; with *sought*, only ids that contain it."""
    having = defaultdict[str, list[int]](list)
    for seq, raw in tombstones.items():
        for kind, value in identifiers(raw):
            if kind == "id" and _is_meant(value, sought):
                having[value].append(seq)
    found, waiting = set(chosen), list(chosen)
    while waiting:
        for _, value in identifiers(tombstones[waiting.pop()]):
            new = set(having.pop(value, ())) - found
            found |= new
            waiting += new
    return found


def new_names(tombstones: Tombstones, chosen: AbstractSet[int], sought: Sought | None) -> dict[str, str]:
    """A new name for each id and name of the messages *chosen* that must be forgotten.

    A tool name that alone ties a call to its result stays if a message outside *chosen* has it too.
    """
    taken = {value for raw in tombstones.values() for _, value in identifiers(raw)}
    tying = {
        value
        for seq, raw in tombstones.items()
        if seq not in chosen
        for kind, value in identifiers(raw)
        if kind == "tying name"
    }
    numbers, names = count(1), dict[str, str]()
    for seq in sorted(chosen):
        for kind, value in identifiers(tombstones[seq]):
            if value in names or not _is_meant(value, sought) or (kind == "tying name" and value in tying):
                continue
            prefix = _PREFIX.match(value) if kind == "id" else None
            start = "" if prefix is None or (sought and sought.is_in(prefix[0])) else prefix[0]
            names[value] = next(
                new for number in numbers if (new := f"{start}forgotten_{number}") not in taken
            )
    return names


def _is_meant(value: str, sought: Sought | None) -> bool:
    return sought is None or sought.is_in(value)


# Tells which rows of a session may hold a text. The core looks at all of them, so few are read in Python.


class Holding:
    """The rows of an open store that may have a text; :class:`Sought` tells whether a row has it."""

    def __init__(self, native: _native.Store) -> None:
        self._native = native

    def entries(self, session_id: str, sought: Sought) -> Page:
        """The entries that may hold *sought*, in one page, expired ones too; and the ids of damaged ones."""
        found, _, damaged = self._native.entries_holding(session_id, sought.text, sought.spelled)
        return Page(tuple(map(stored_entry, found)), None, tuple(damaged))

    def messages(self, session_id: str, sought: Sought) -> list[int]:
        """The sequence numbers of the messages that may hold *sought*, ascending."""
        return self._native.messages_holding(session_id, sought.text, sought.spelled)

    def labels(self, session_id: str | None, sought: Sought) -> set[str]:
        """The texts beside what was said that hold *sought*: names as they are, of others what they are."""
        found = self._native.labels_holding(session_id, sought.text, sought.spelled)
        return {what or label for what, label in found if sought.is_in(label)}

    def came_from(self, session_id: str, seqs: Sequence[int]) -> list[int]:
        """The ids of the entries that came from one of the messages *seqs*, ascending."""
        return self._native.entries_from(session_id, list(seqs)) if seqs else []


REPLACEMENT = (
    "[Context compacted] A summary of earlier messages stood here. "
    "It was removed, because something that it covered was forgotten."
)  #: the text that replaces a forgotten summary


class Target(NamedTuple):
    """The parts of one session to forget, as the core takes them.

    Attributes:
        session_id: The session.
        messages: Sequence numbers, and the tombstone of each as JSON text.
        entries: Ids of entries.
        derived: Ids of summaries and substitutes that meet the criteria themselves, and the new text of each.
        facts: Ids of facts.
        digests: Sequence numbers of messages, and minus the ids of summaries, each with the digest of its old
            text. The digest recognises the text if a host sends it again.
        title: The first request that is left, if messages are forgotten; empty for none.
    """

    session_id: str
    messages: Sequence[tuple[int, str]] = ()
    entries: Sequence[int] = ()
    derived: Sequence[tuple[int, str]] = ()
    facts: Sequence[int] = ()
    digests: Sequence[tuple[int, bytes]] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of all sessions to forget, and the expected report.

    Attributes:
        targets: One target for each affected session.
        expected: The report of the plan, as of a dry run.
    """

    targets: list[Target]
    expected: ForgetReport

    def report(
        self, sessions: int, messages: int, entries: int, summaries: int, erased: bool
    ) -> ForgetReport:
        """The report after the plan was carried out; *erased*: whether the files could be rewritten."""
        files: tuple[Literal["files"], ...] = () if erased else ("files",)
        return replace(
            self.expected,
            sessions=sessions,
            messages=messages,
            entries=entries,
            summaries=summaries,
            erased=erased and not self.expected.remaining,
            remaining=(*self.expected.remaining, *files),
            dry_run=False,
        )


@dataclass(frozen=True, slots=True)
class Criteria:
    """The criteria of a ``forget``. All given ones must hold; see ``MemoryStore.forget``."""

    entry_ids: frozenset[int] | None = None
    session_id: str | None = None
    span: tuple[int, int] | None = None
    name: str | None = None
    before: int | None = None
    sought: Sought | None = None
    identifiers: bool = False
    fact_ids: Collection[str] | None = None
    wider: Criteria | None = None  #: the same with near spellings, if these are not meant but named

    @classmethod
    def of(cls, given: StoreForgetCriteria) -> Criteria:
        """Checked criteria.

        Raises:
            TypeError: an unknown criterion.
            ConfigError: none at all, an empty one, facts with others, or a range without a session.
            InvalidEntryError: a range that is not ``0 <= start <= end``.
        """
        unknown = given.keys() - StoreForgetCriteria.__annotations__.keys()
        if unknown:
            raise TypeError(f"forget() got an unexpected keyword argument {min(unknown)!r}")
        session_id, start, end = given.get("session_id"), given.get("start"), given.get("end")
        entry_ids, fact_ids, before = given.get("entry_ids"), given.get("fact_ids"), given.get("before")
        name, text, identifiers = given.get("name"), given.get("text"), given.get("identifiers", False)
        near = given.get("near", False)
        for field, ids, kind in (("entry_ids", entry_ids, int), ("fact_ids", fact_ids, str)):
            is_list = isinstance(ids, Collection) and not isinstance(ids, str)
            if ids is not None and not (is_list and all(type(each) is kind for each in ids)):
                refuse(field, f"a list of ids of type {kind.__name__}", ids)
        if fact_ids is not None:
            others = entry_ids, start, end, name, before, text, identifiers or None, near or None
            if any(each is not None for each in others):
                raise ConfigError(
                    "fact_ids goes with session_id alone: forget the rest in a call of its own",
                    "fact_ids",
                    fact_ids,
                )
            return cls(session_id=session_id, fact_ids=fact_ids)
        if all(each is None for each in (entry_ids, session_id, name, before, text)):
            raise ConfigError(
                "forget needs entry_ids, session_id, name, before or text; to forget everything, delete the "
                "directory of the closed store",
                "session_id",
                None,
            )
        for field, value in (("name", name), ("text", text)):
            if value == "":
                raise ConfigError(f"{field} must not be empty, got ''", field=field, value=value)
        if near and text is None:
            raise ConfigError("near needs a text", field="near", value=near)
        ranged = start is not None or end is not None
        if ranged and session_id is None:
            raise ConfigError("start and end need a session_id", field="session_id", value=None)
        asked = cls(
            None if entry_ids is None else frozenset(entry_ids),
            session_id,
            range_of((start or 0, MAX_INTEGER if end is None else end), "start, end") if ranged else None,
            name,
            None if before is None else milliseconds(before),
            None if text is None else Sought(text, near=near),
            identifiers,
        )
        if text is None or near:
            return asked
        return replace(asked, wider=replace(asked, sought=Sought(text, near=True)))

    def entry(self, entry: StoredEntry) -> bool:
        """Whether *entry* meets the criteria."""
        start, end = entry.source_range
        return (
            (self.entry_ids is None or entry.entry_id in self.entry_ids)
            and (self.span is None or max(start, self.span[0]) < min(end, self.span[1]))
            and (self.name is None or entry.name == self.name)
            and (self.before is None or entry.created_at < datetime_from(self.before))
            and (self.sought is None or any(map(self.sought.is_in, _said(entry))))
        )

    def message(self, row: LogRow) -> bool:
        """Whether the message itself meets the criteria. Messages behind a matching entry are added later."""
        return (
            self.entry_ids is None
            and (self.span is None or self.span[0] <= row.seq < self.span[1])
            and (self.before is None or row.created_at < self.before)
            and (self.name is None or self.name in _names(row))
            and (self.sought is None or _says(row, self.sought))
        )

    def summary(self, row: Derived) -> bool:
        """Whether the text of a summary or substitute meets the criteria itself.

        A derived text of a forgotten message is forgotten in any case.
        """
        depth = DEEPEST if row.kind == "summary" else DEEPEST + 1  # a substitute is the JSON of a message
        return (
            (self.entry_ids, self.span, self.name) == (None, None, None)
            and (self.before is None or row.created_at < self.before)
            and (self.sought is not None and self.sought.is_in(row.raw, depth))
        )

    def near(self, *texts: str) -> set[str]:
        """The near spellings in *texts*, which stay."""
        return set[str]().union(*(self.sought.spellings(each) for each in texts)) if self.sought else set()


def plan(store: Store, sessions: Sequence[str], criteria: Criteria, holding: Holding) -> Plan:
    """The plan for *sessions*. *holding* tells what may hold a text."""
    if criteria.session_id is None and criteria.entry_ids is not None:
        sessions = sorted(set(_owners(store, criteria.entry_ids)))
    targets, counts, kept, near = [], [(0, 0, 0)], set[str](), set[str]()
    for session_id in sessions:
        target, expected, has, other = _of_session(store, session_id, criteria, holding)
        kept |= has
        near |= other
        if any(target[1:]):
            targets.append(target)
            counts += [expected] if any(expected) else []
    messages, entries, summaries = (sum(each) for each in zip(*counts, strict=True))
    if criteria.sought is not None:
        kept |= holding.labels(criteria.session_id, criteria.sought)
    return Plan(
        targets,
        ForgetReport(
            len(counts) - 1,
            messages,
            entries,
            summaries,
            erased=False,
            kept=tuple(kept),
            dry_run=True,
            near=tuple(near),
        ),
    )


def _owners(store: Store, entry_ids: Collection[int]) -> Iterator[str]:
    for entry_id in entry_ids:
        try:
            yield store.get(entry_id, expired=True).session_id
        except EntryNotFoundError:
            continue  # already forgotten


def _of_session(
    store: Store, session_id: str, criteria: Criteria, holding: Holding
) -> tuple[Target, tuple[int, int, int], set[str], set[str]]:
    """The target in a session; its numbers of messages, entries and summaries; what is left in it.

    These are identifiers, and near spellings.
    """
    log = store.open_log(session_id)
    length = log.state().next_seq
    entries, unreadable = list[StoredEntry](), set[int]()
    close = list[tuple[int, set[str]]]()  # entries with near spellings
    sought = criteria.sought
    pages = [holding.entries(session_id, sought)] if sought else entry_pages(store, session_id, expired=True)
    for page in pages:
        for entry in page.entries:
            if criteria.entry(entry):
                entries.append(entry)
            elif criteria.wider is not None and criteria.wider.entry(entry):
                close.append((entry.entry_id, criteria.near(*_said(entry))))
        unreadable.update(page.damaged)
    sources: set[int] = set()
    for entry in entries:
        start, end = entry.source_range
        sources.update(range(start, min(end, length)))
    rows = _candidates(log, length, criteria, sources, partial(holding.messages, session_id))
    messages, digests, kept, near = _messages(log, rows, sources, criteria)
    derived = log.derived([each for row in log.compactions() for each in row.derived_ids])
    tombstones = dict(messages)
    meant = {row.derived_id: _replacement(row, tombstones) for row in derived if criteria.summary(row)}
    ids = [entry.entry_id for entry in entries]
    # The text of a damaged entry is unreliable, so every damaged entry counts as matching.
    damaged = {*store.quarantined(session_id), *unreadable}
    ids += sorted(damaged if criteria.entry_ids is None else damaged & criteria.entry_ids)
    seqs = [seq for seq, _ in messages]
    leaving = {*ids, *holding.came_from(session_id, seqs)}
    replaced = [
        row
        for row in derived
        if not row.redacted and (row.derived_id in meant or any(_has(span, seqs) for span in _spans(row)))
    ]
    near |= {each for entry_id, found in close if entry_id not in leaving for each in found}
    if criteria.wider is not None:
        left = [row for row in derived if row not in replaced and criteria.wider.summary(row)]
        near |= criteria.near(*(row.raw for row in left))
    expected = (len(digests), len(leaving), len(replaced))
    known = [(seq, digest) for seq, digest in digests if digest]
    salt = log.salt() if replaced else b""
    known += [_digest_of(row, salt) for row in replaced]
    kept_rows = (
        row for row in rows_of(log, 0, length if seqs else 0) if not _has((row.seq, row.seq + 1), seqs)
    )
    title = request_among(kept_rows)
    target = Target(session_id, messages, ids, list(meant.items()), digests=known, title=title)
    return target, expected, kept, near


def _said(entry: StoredEntry) -> tuple[str, str]:
    return entry.content, entry.name or ""


def _replacement(row: Derived, tombstones: Mapping[int, str]) -> str:
    """The text that replaces a derived text: a sentence for a summary, a tombstone for a substitute."""
    if row.seq is None:
        return REPLACEMENT
    return tombstones.get(row.seq) or chat.encode(chat.tombstone(chat.decode(row.raw), row.dialect))


def _digest_of(row: Derived, salt: bytes) -> tuple[int, bytes]:
    """The digest that recognises a derived text in a host's list, with its key as in ``Target.digests``."""
    if row.seq is not None:
        return row.seq, chat.canonical_digest(chat.decode(row.raw), salt)
    return -row.derived_id, chat.canonical_digest(chat.SummaryMessage(row.raw, row.covers, row.level), salt)


def _spans(row: Derived) -> tuple[tuple[int, int], ...]:
    """The messages that a derived text replaces."""
    return row.covers if row.seq is None else ((row.seq, row.seq + 1),)


def _candidates(
    log: SessionLog,
    length: int,
    criteria: Criteria,
    sources: Collection[int],
    holding: Callable[[Sought], Sequence[int]],
) -> Iterator[LogRow]:
    """The messages of the log that may be meant, in order; *holding* gives those that may hold a text."""
    if criteria.identifiers:  # all of them tell which are tied together
        return rows_of(log, 0, length)
    if criteria.entry_ids is not None:
        return rows_at(log, sorted(sources))
    if criteria.sought is not None:
        return rows_at(log, sorted({*sources, *holding(criteria.sought)}))
    if criteria.span is not None:
        return rows_at(log, sorted({*sources, *range(criteria.span[0], min(criteria.span[1], length))}))
    return rows_of(log, 0, length)


def _messages(
    log: SessionLog, rows: Iterable[LogRow], sources: Collection[int], criteria: Criteria
) -> tuple[list[tuple[int, str]], list[tuple[int, bytes]], set[str], set[str]]:
    """The tombstones of the chosen messages, digests of their old texts, identifiers and near spellings left.

    A message that is a tombstone already has no digest; an unreadable message has an empty one.
    """
    held: dict[int, dict[str, Any]] = {}  # with identifiers: of all messages, since ids tie them together
    chosen, names, near = set[int](), dict[str, str](), dict[int, set[str]]()
    for row in rows:
        is_meant = row.seq in sources or criteria.message(row)
        if not is_meant and criteria.wider is not None and criteria.wider.message(row):
            near[row.seq] = criteria.near(row.raw)
        if is_meant or criteria.identifiers:
            held[row.seq] = _tombstone(row)
        if is_meant:
            chosen.add(row.seq)
    if criteria.identifiers:
        chosen = with_partners(held, chosen, criteria.sought)
        names = new_names(held, chosen, criteria.sought)
        held = {seq: chat.renamed(held[seq], names) for seq in chosen}
    messages = [(seq, chat.encode(held[seq])) for seq in sorted(chosen)]
    kept = {value for seq in chosen for _, value in identifiers(held[seq])} - set(names.values())
    if criteria.sought is not None:
        kept |= {str(held[seq].get(key)) for seq in chosen for key in ("role", "type")}
        kept = set(filter(criteria.sought.is_in, kept))
    salt, digests = log.salt(), list[tuple[int, bytes]]()
    for row, (seq, raw) in zip(rows_at(log, sorted(chosen)), messages, strict=True):
        if row.provenance != "placeholder" or row.raw != raw:
            digests.append((seq, _digest(row, salt)))
    return messages, digests, kept, {each for seq in near.keys() - chosen for each in near[seq]}


def _digest(row: LogRow, salt: bytes) -> bytes:
    """The digest that recognises the message if a host sends it again; empty for an unreadable row."""
    try:
        return chat.canonical_digest(chat.decode(row.raw), salt)
    except InvalidMessageError:
        return b""


def _has(span: tuple[int, int], seqs: Sequence[int]) -> bool:
    """Whether *span* contains one of the ascending *seqs*."""
    at = bisect_left(seqs, span[0])
    return at < len(seqs) and seqs[at] < span[1]


def _tombstone(row: LogRow) -> dict[str, Any]:
    try:
        return chat.tombstone(chat.decode(row.raw), row.dialect)
    except InvalidMessageError:
        return {"role": row.role, "content": chat.FORGOTTEN}


def _says(row: LogRow, sought: Sought) -> bool:
    if sought.is_in(row.raw, DEEPEST + 1):  # the row is JSON itself
        return True
    try:  # a text across two parts is in the entry, which joins them
        message = chat.read_message(chat.decode(row.raw), row.seq, dialect=row.dialect)
        return sought.is_in(chat.indexable_text(message, own=()), 0)
    except InvalidMessageError:
        return False  # a caller may have written its own log, with messages that cannot be read


def _names(row: LogRow) -> set[str | None]:
    try:
        raw = chat.decode(row.raw)
        parts = chat.read_message(raw, row.seq, dialect=row.dialect).parts
    except InvalidMessageError:
        return set()
    return {raw.get("name"), *(part.name for part in parts)} - {None}


# Finds the facts that are forgotten together with messages.

_NOTE, _RULES, _GONE = "note", "rules", "gone"  #: see ``knowledge/stored.py``


def with_facts(chosen: Plan, rows: Store, sessions: Iterable[str], criteria: Criteria) -> Plan:
    """*chosen* with the facts to forget.

    These are facts from a forgotten message, and facts whose own text meets the criteria. The rules of their
    scope are forgotten too, and are made again later from the remaining facts.
    """
    targets = {target.session_id: target for target in chosen.targets}
    if criteria.session_id is None and criteria.entry_ids is not None:
        sessions = list(targets)
    kept, near = set(chosen.expected.kept), set(chosen.expected.near)
    count = new = 0
    for session_id in sessions:
        target = targets.get(session_id) or Target(session_id)
        seqs = {seq for seq, _ in target.messages}
        known = rows.facts(session_id)
        meant = [row for row in known if _goes(row, seqs, criteria)]
        left = [row for row in known if row not in meant] if criteria.sought else []
        for row in left:
            kept |= _kept(row, criteria)
            if criteria.wider is not None and _goes(row, seqs, criteria.wider):
                near |= criteria.near(row[4])
        if meant:
            new += session_id not in targets
            count += sum(row[2] != _NOTE for row in meant)
            targets[session_id] = target._replace(facts=_with_rules(rows, known, meant))
    expected = replace(
        chosen.expected,
        facts=count,
        sessions=chosen.expected.sessions + new,
        kept=tuple(sorted(kept)),
        remaining=("identifiers",) if kept and criteria.sought is not None else (),
        near=tuple(sorted(near)),
    )
    return replace(chosen, targets=list(targets.values()), expected=expected)


def _kept(row: FactRow, criteria: Criteria) -> set[str]:
    """The key of a row that stays, if it holds the text, or if its body does and can never go."""
    _, _, state, key, body, *_ = row
    stays = body if state in (_NOTE, _GONE) and key != _RULES else ""
    return {key} if criteria.sought and any(map(criteria.sought.is_in, (key, stays))) else set()


def facts_alone(rows: Store, sessions: Iterable[str], keys: Collection[str]) -> Plan:
    """The plan to forget the facts with these *keys* alone."""
    wanted, targets, count = frozenset(keys), [], 0
    for session_id in sessions:
        known = rows.facts(session_id)
        meant = [row for row in known if row[3] in wanted and row[2] not in (_NOTE, _GONE)]
        if meant:
            count += len(meant)
            targets.append(Target(session_id, facts=_with_rules(rows, known, meant)))
    report = ForgetReport(len(targets), 0, 0, 0, erased=False, dry_run=True, facts=count)
    return Plan(targets, report)


def _with_rules(rows: Store, known: Sequence[FactRow], meant: Sequence[FactRow]) -> list[int]:
    """The ids of *meant*, and of the rules that may come from them."""
    namespaces = {row[1] for row in meant} - {""}
    notes = [*known, *(row for each in namespaces for row in rows.namespace_facts(each, _NOTE))]
    rules = {row[0] for row in notes if row[2] == _NOTE and row[3] == _RULES}
    return sorted(rules | {row[0] for row in meant})


def _goes(row: FactRow, seqs: Collection[int], criteria: Criteria) -> bool:
    _, _, state, key, body, created_at, _ = row
    if state == _GONE or (state == _NOTE and key != _RULES):
        return False
    fields = _fields(body)
    if any(seq in seqs for start, end in _ranges(fields) for seq in range(start, end)):
        return True
    if criteria.entry_ids is not None or criteria.span is not None:
        return False
    if state == _NOTE and criteria.sought is None:
        return False  # rules are forgotten with their facts, by _with_rules
    source = fields.get("source")
    return (
        (criteria.before is None or created_at < criteria.before)
        and (criteria.name is None or source in (criteria.name, f"tool:{criteria.name}"))
        and (criteria.sought is None or criteria.sought.is_in(body, DEEPEST + 1))
    )


def _fields(body: str) -> dict[str, object]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _ranges(fields: dict[str, object]) -> list[tuple[int, int]]:
    found = fields.get("source_ranges")
    if not isinstance(found, list):
        return []
    return [(span[0], span[1]) for span in found if isinstance(span, list) and len(span) == 2]
