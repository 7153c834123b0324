"""The store in a SQLite database: the whole contract, except opening and ranking."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from siltstone import _native
from siltstone.errors import EntryNotFoundError, explains, refuse
from siltstone.hooks import watch_operation
from siltstone.memory import convert
from siltstone.memory.base import Store
from siltstone.memory.database_log import DatabaseLog, Sayings
from siltstone.memory.entry import (
    Entry,
    ExpireReport,
    Finding,
    ForgetReport,
    Page,
    Receipt,
    SessionPage,
    StoredEntry,
    StoreForgetCriteria,
    StoreStats,
)
from siltstone.memory.limits import Limits, language_name
from siltstone.memory.log import SessionLog
from siltstone.session import Session, StoreOptions

if TYPE_CHECKING:
    from siltstone.memory.base import FactRow
    from siltstone.memory.forgetting import Criteria, Target
    from siltstone.memory.vectors import Vectors


@explains
class DatabaseStore(Store):
    """Entries and logs in one database of the core."""

    def __init__(self, native: _native.Store, limits: Limits, vectors: Vectors | None = None) -> None:
        self._native = native
        self._limits = limits
        self._vectors = vectors
        self._read_sayings: Sayings | None = None

    @property
    def _sayings(self) -> Sayings:
        """The reader that makes entries of messages in context. Made on demand: few stores need it."""
        if self._read_sayings is None:
            self._read_sayings = Sayings()
        return self._read_sayings

    @property
    def limits(self) -> Limits:
        """The bounds of one call."""
        return self._limits

    @property
    def _directory(self) -> str | None:
        """The directory of the store, where preset files may be; None if it has none."""
        return None

    @property
    def hash_rule(self) -> str:
        """The rule that hashes words for ``cosine``."""
        return self._native.hash_rule

    @property
    def language(self) -> str | tuple[str, ...]:
        """The languages of texts: ``"auto"``, a code, or codes, the most usual one first."""
        codes = tuple(self._native.language.split(","))
        return codes if len(codes) > 1 else codes[0]

    def settle_language(self, language: str | Sequence[str], *, anew: bool = False) -> None:
        """Settles the languages of texts in Latin letters. The store keeps the setting.

        Args:
            language: As for ``MemoryStore.open``.
            anew: Whether it may replace an earlier setting. Every text is then analysed again at its next
                search. Other processes follow when they next open the store.

        Raises:
            ConfigError: an unknown language, or another one was settled and *anew* is False.
            ReadOnlyStoreError: another one was settled, and the store is open read-only. If none was settled,
                a read-only store uses *language* in this process.
        """
        self._native.settle_language(language_name(language), anew)

    @property
    def read_only(self) -> bool:
        """Whether the store refuses writes."""
        return self._native.read_only

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        now = convert.milliseconds(None)
        with watch_operation("create_memory", self, session_id) as watched:
            receipt = Receipt(tuple(self._native.insert_entries(session_id, self._batch(entries), now)))
            watched.records(entries)
        self._wake()
        return receipt

    def get(self, entry_id: int, *, expired: bool = False) -> StoredEntry:
        if type(entry_id) is not int:
            refuse("entry_id", "the number that a hit has, such as hit.entry_id", entry_id)
        found = None if abs(entry_id) > convert.MAX_INTEGER else self._native.get(entry_id)
        ends = None if found is None or expired else found.expires_at
        if found is None or (ends is not None and ends <= convert.milliseconds(None)):
            raise EntryNotFoundError(f"the store has no entry {entry_id}", entry_id=entry_id)
        return convert.stored_entry(found)

    def entries(
        self,
        session_id: str,
        overlaps: tuple[int, int] | None = None,
        since: datetime | float | None = None,
        offset: int = 0,
        limit: int = 100,
        *,
        expired: bool = False,
    ) -> Page:
        found, next_offset, damaged = self._native.entries(
            session_id,
            None if overlaps is None else convert.range_of(overlaps, "overlaps"),
            None if since is None else convert.milliseconds(since),
            (max(-1, min(offset, convert.MAX_INTEGER)), max(-1, min(limit, convert.MAX_INTEGER))),
            None if expired else convert.milliseconds(None),
        )
        return Page(tuple(map(convert.stored_entry, found)), next_offset, tuple(damaged))

    def forget(self, **criteria: Unpack[StoreForgetCriteria]) -> ForgetReport:
        from siltstone.memory import forgetting  # few sessions forget

        asked = forgetting.Criteria.of(criteria)
        sessions = self._names() if asked.session_id is None else [asked.session_id]
        if asked.fact_ids is not None:
            chosen = forgetting.facts_alone(self, sessions, asked.fact_ids)
        else:
            found = forgetting.plan(self, sessions, asked, forgetting.Holding(self._native))
            chosen = forgetting.with_facts(found, self, sessions, asked)
        if criteria.get("dry_run"):
            return chosen.expected
        with watch_operation("delete_memory", self, asked.session_id or "") as watched:
            done = self._native.forget(chosen.targets, forgetting.REPLACEMENT)
            watched.count(done.entries if asked.fact_ids is None else len(asked.fact_ids))
        report = chosen.report(done.sessions, done.messages, done.entries, done.derived, done.erased)
        return self._with_files(report, chosen.targets, asked)

    def _names(self) -> list[str]:
        """The ids of all sessions."""
        listed, _ = self._native.sessions(None, 0, convert.MAX_INTEGER)
        return [row.name for row in listed]

    def _with_files(self, report: ForgetReport, targets: Sequence[Target], asked: Criteria) -> ForgetReport:
        """*report*, after the files of presets were updated too."""
        names = [target.session_id for target in targets]
        # By other criteria as well, other messages with the text stay, and their files.
        others = asked.entry_ids, asked.span, asked.name, asked.before
        sought = asked.sought if others == (None,) * 4 else None
        if self._directory is None or not (names or sought):
            return report
        from siltstone.stores.preset_files import after_forget  # a store that forgets nothing does without it

        if after_forget(self, self._directory, names, self._names(), sought, asked.session_id):
            return report
        remaining = tuple(dict.fromkeys((*report.remaining, "files")))
        return replace(report, erased=False, remaining=remaining)

    def put_facts(
        self,
        session_id: str,
        facts: Sequence[tuple[int | None, str, str, str]],
        was: Mapping[int, str] | None = None,
    ) -> list[int]:
        """Writes facts ``(id, key, state, body)`` of the session in one transaction. Returns their ids.

        A fact with an id replaces the fact with that id, of the session or its namespace. The store does not
        read key, state and body (JSON); ``siltstone.knowledge.StoredFacts`` defines them. A deleted session
        accepts no fact.

        Args:
            session_id: The session.
            facts: The facts to write.
            was: For each replaced id, the body that the caller has read; a changed body is a conflict. Left
                out: no check.

        Raises:
            InvalidEntryError: neither the session nor its namespace has a fact with that id.
            StoreConflictError: another worker has changed or forgotten a fact of *was*. Nothing was written.
        """
        known = was or {}
        rows = [(*fact, None if fact[0] is None else known.get(fact[0])) for fact in facts]
        return self._native.put_facts(session_id, rows, convert.milliseconds(None))

    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]:
        """The facts of the session, in the order of their first writes; only those with *state*, if given.

        A fact is: id, namespace, state, key, body, time of creation, time of the last change (ms since 1970).
        """
        return self._native.facts(session_id, state)

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        """The facts of all sessions of the namespace, in the form of :meth:`facts`."""
        return self._native.namespace_facts(namespace, state)

    def facts_revision(self, session_id: str = "", namespace: str = "") -> str | None:  # noqa: ARG002
        """A text that changes whenever any process changes any fact of the store.

        None if the store cannot tell: the caller must then read the facts.
        """
        return _native.facts_revision(self._native)

    def sessions(self, namespace: str | None = None, offset: int = 0, limit: int = 100) -> SessionPage:
        rows, next_offset = self._native.sessions(
            namespace, max(-1, min(offset, convert.MAX_INTEGER)), max(-1, min(limit, convert.MAX_INTEGER))
        )

        return SessionPage(tuple(map(convert.session_info, rows)), next_offset)

    def restore_marks(
        self, session_id: str, salt: bytes, digests: Sequence[tuple[int, bytes]], redacted: Sequence[int]
    ) -> None:
        """Gives a copied session the marks of forgotten texts from its first store.

        Args:
            session_id: The session.
            salt: The salt of the digests, from ``SessionLog.salt``. The session keeps it from now on.
            digests: As from ``SessionLog.forgotten``, with the ids of this store.
            redacted: Ids of derived texts that were forgotten, and have another text now.

        Raises:
            ConfigError: the session has digests with another salt, which cannot be compared with these.
        """
        self._native.restore_marks(session_id, salt, list(digests), list(redacted))

    def session_with_settings(self, has: str, lacks: str = "") -> tuple[str, str] | None:
        """The id and settings of the first session whose settings contain *has* and not *lacks*."""
        return self._native.session_with_settings(has, lacks)

    def delete_session(self, session_id: str) -> int:
        entries = self._native.delete_session(session_id)
        if self._directory is not None:
            from siltstone.stores.preset_files import after_delete

            after_delete(self._directory, session_id)
        return entries

    def revive(self, session_id: str) -> bool:
        return self._native.revive(session_id)

    def take_back(self, session_id: str, writes: Collection[int], entries: int) -> bool:
        """Empties a session that one writer alone has written, in one transaction. Returns whether it did.

        Args:
            session_id: The session.
            writes: The ids of that writer's writes. If the last write has another id, the session stays.
            entries: The most entries that the writer may have indexed. If there are more, the session stays.
        """
        return self._native.take_back(session_id, list(writes), entries)

    def expire(
        self,
        session_id: str,
        *,
        keep: int | None = None,
        before: datetime | float | None = None,
        asked: bool = True,
    ) -> ExpireReport:
        stamp = None if before is None else convert.milliseconds(before)
        kept = None if keep is None else max(-1, min(keep, convert.MAX_INTEGER))
        return ExpireReport(*self._native.expire(session_id, kept, stamp, convert.milliseconds(None), asked))

    def stats(self, session_id: str | None = None) -> StoreStats:

        return StoreStats(**self._native.stats(session_id))

    def check(self, *, repair: bool = False) -> list[Finding]:
        found = self._native.repair(convert.milliseconds(None)) if repair else self._native.check()
        if repair:
            self._wake(anew=True)

        return [Finding(each.code, each.table, each.id, each.message, each.repaired) for each in found]

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        return tuple(self._native.quarantined(session_id))

    def session(self, session_id: str, **options: Unpack[StoreOptions]) -> Session:
        """Opens the session *session_id* in this store. You close the store yourself.

        Options and errors are those of ``Session.open``, without *memory*. For asyncio use
        ``AsyncSession.open(None, session_id, memory=store)``.
        """
        return Session.open(None, session_id, memory=self, **options)

    def open_log(self, session_id: str) -> SessionLog:
        return DatabaseLog(self._native, session_id, self._limits, self._wake)

    def close(self) -> None:
        if self._vectors is not None:
            self._vectors.close()
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied: open it again, or hand it on")

    def _batch(self, entries: Sequence[Entry]) -> list[convert.NewEntry]:
        """*entries* as the core takes them, if they are within the limits."""
        self._limits.check_batch(entries)

        return [convert.new_entry(entry) for entry in entries]

    def _wake(self, *, anew: bool = False) -> None:
        """Tells the worker that entries may lack vectors; with *anew*, also entries that had some."""
        if self._vectors is not None and not self.read_only:
            self._vectors.wake(anew=anew)
