"""The store, as the compiled core has it.

The other names of the compiled module are in ``_native.pyi``, which has these as well.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, final

from siltstone._native_rows import (
    Compaction,
    Derived,
    LogRow,
    LogState,
    NewCompaction,
    NewMessage,
    NewRecall,
    SessionRow,
    Version,
    Write,
)
from siltstone._native_search import Found, SearchOptions

__all__ = [
    "Finding",
    "Forgotten",
    "Page",
    "Stage",
    "Store",
    "StoredEntry",
    "mirror_ids_above",
    "mirror_tables",
    "mirror_take",
    "open_mirror",
]

_Fact: TypeAlias = tuple[int, str, str, str, str, int, int]

class _NewEntry(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def created_at(self) -> int: ...
    @property
    def expires_at(self) -> int | None: ...

class _Target(Protocol):
    @property
    def session_id(self) -> str: ...
    @property
    def messages(self) -> Sequence[tuple[int, str]]: ...
    @property
    def entries(self) -> Sequence[int]: ...
    @property
    def derived(self) -> Sequence[tuple[int, str]]: ...
    @property
    def staged(self) -> Sequence[int]: ...
    @property
    def facts(self) -> Sequence[int]: ...
    @property
    def digests(self) -> Sequence[tuple[int, bytes]]: ...
    @property
    def title(self) -> str: ...

@final
class StoredEntry:
    """An entry as the store holds it."""

    entry_id: Final[int]
    session_id: Final[str]
    content: Final[str]
    start: Final[int]
    end: Final[int]
    role: Final[str]
    name: Final[str | None]
    kind: Final[str]
    created_at: Final[int]
    repaired: Final[bool]
    expires_at: Final[int | None]
    compaction: Final[int | None]

@final
class Page:
    """A page of entries, where the next one begins, and the ids of rows that are damaged."""

    entries: Final[list[StoredEntry]]
    next_offset: Final[int | None]
    damaged: Final[list[int]]

@final
class Stage:
    """A batch that waits."""

    token: Final[str]
    session_id: Final[str]
    fingerprint: Final[str]
    entries: Final[int]
    created_at: Final[int]

@final
class Finding:
    """Something that is not what it should be."""

    code: Final[str]
    table: Final[str]
    id: Final[int | None]
    message: Final[str]
    repaired: Final[bool]

@final
class Forgotten:
    """How much was changed of what, and whether the bytes are gone from the files."""

    sessions: Final[int]
    messages: Final[int]
    entries: Final[int]
    derived: Final[int]
    facts: Final[int]
    erased: Final[bool]

@final
class Store:
    """The durable store. Users have ``siltstone.MemoryStore``, which is built on it.

    What goes in is read by its attributes: ``NewEntry`` of ``siltstone.memory.convert``, ``Target`` of
    ``siltstone.memory.forgetting``. What comes out is of the classes above.

    Safe to use from many threads; every method lets others run meanwhile. Times are milliseconds since
    1970, UTC. Session ids are 1 to 1,024 bytes of UTF-8, without lone surrogates; in all other texts these
    are replaced, and entries say so. What is out of bounds raises ``InvalidEntryError``, and everything
    raises ``StoreClosedError`` once the store is closed.
    """

    @staticmethod
    def open_memory(hash_rule: str | None = None) -> Store:
        """A store in memory, which ends with this object: it has no file, and is of no use in a fork."""

    @staticmethod
    def open(path: str, read_only: bool, hash_rule: str | None, mode: int | None = None) -> Store:
        """Opens the store in the directory *path*, ``path/memory/memory.sqlite3``, or makes one.

        Stores of one process on one file share their indexes and their connections.

        Args:
            path: The directory.
            read_only: Open an existing store for reading. One that cannot be written is opened like that
                by itself.
            hash_rule: That of a new store, ``"xxh3"`` for None. A store that exists must have this one.
            mode: Who may read files that are made new, as ``os.chmod`` takes it; None is the owner alone.

        Raises:
            StoreOpenError: not a directory, not a store, no permission; nothing was changed.
            StoreVersionError: written by a newer version; nothing was changed.
            ConfigError: *hash_rule* is unknown, or not the store's.
        """

    @property
    def path(self) -> str:
        """The directory it was opened by."""

    @property
    def hash_rule(self) -> str:
        """The rule of the cosine embedding."""

    @property
    def language(self) -> str:
        """The languages that texts are read in: ``auto``, or codes with commas between them."""

    def settle_language(self, language: str, anew: bool) -> None:
        """Reads texts in these languages from now on, and keeps that in the store.

        Args:
            language: ``auto``, or codes with commas between them, the usual one first.
            anew: Whether they may take the place of others: every text is analysed anew then.

        Raises:
            ConfigError: an unknown code, or others were settled and not *anew*.
            ReadOnlyStoreError: others were settled, and the store is open for reading. Where none were, it
                takes these for itself.
        """

    @property
    def read_only(self) -> bool:
        """Whether writes raise ``ReadOnlyStoreError``."""

    def append_messages(
        self,
        session: str,
        write: Write,
        rows: Sequence[NewMessage],
        clock: str,
        title: str,
        recalls: Sequence[NewRecall],
    ) -> Version | None:
        """Appends *rows*, writes *recalls* and sets the clock. One transaction, durable when it returns.

        Args:
            session: The session.
            write: The version that the writer read, and the writer's own id of this write.
            rows: The messages.
            clock: The caller's own state.
            title: The text of the first request among them, for a session without a title; it is cut.
            recalls: What was recalled since the last write.

        Returns:
            The session's version now; None for a session that was deleted.

        Raises:
            StoreConflictError: the session has another version.
        """

    def log_state(self, session: str) -> LogState:
        """Where the log of the session stands."""

    def open_session(self, session: str, namespace: str | None) -> LogState:
        """As :meth:`log_state`, if the session is of that namespace; a new one with a namespace is begun.

        Raises:
            ConfigError: the session is of another namespace.
        """

    def version(self, session: str) -> Version | None:
        """The session's version, at the cost of one row; None for a session that was deleted."""

    def read_messages(self, session: str, start: int, end: int) -> list[LogRow]:
        """Messages ``start`` to ``end``, half-open, in order."""

    def recalls(self, session: str, limit: int) -> list[tuple[int, int, str]]:
        """The newest recalls, the newest first: how many messages there were, when, and what, as JSON."""

    def commit_compaction(
        self,
        session: str,
        write: Write,
        row: NewCompaction,
        entries: Sequence[_NewEntry],
        clock: str,
        said: tuple[Sequence[NewMessage], str, Sequence[NewRecall]],
    ) -> tuple[int, list[int], list[int | None], Version | None]:
        """Writes messages, entries, compaction, derived texts, head and clock in one transaction.

        Args:
            session: The session.
            write: As for :meth:`append_messages`.
            row: The compaction, and the texts that it brings. Its view has ``[start, end]`` for messages, the
                ids of derived texts, and -1, -2 … for the texts that it brings.
            entries: As for :meth:`insert_entries`.
            clock: The caller's own state.
            said: Messages that go to the end of the log before it, the title for a session without one, and
                what was recalled since the last write.

        Returns:
            The ids of the compaction, of its texts and of the entries, and the version.

        Raises:
            StoreConflictError: the session has another version.
            ConfigError: the view is no view.
        """

    def rewrite(
        self,
        session: str,
        write: Write,
        row: NewCompaction,
        changes: tuple[list[int], list[int], int | None, Sequence[NewMessage], Sequence[_NewEntry]],
        clock: str,
    ) -> tuple[int, list[int], list[int | None], Version | None]:
        """Makes *row* the current view, whatever was said after it, in one transaction.

        Counts as a time that messages were forgotten: who has read the session before is behind.

        Args:
            session: The session.
            write: As for :meth:`append_messages`.
            row: As for :meth:`commit_compaction`.
            changes: The compactions whose entries leave; messages, ascending, whose entries leave; the
                compaction that *row* follows; messages to append, as for :meth:`append_messages`; entries,
                as for :meth:`insert_entries`.
            clock: The caller's own state.

        Returns:
            As :meth:`commit_compaction`.

        Raises:
            StoreConflictError: the session has another version.
            StoreCorruptError: the session has no compaction of the id that *row* should follow.
        """

    def undo_compaction(
        self, session: str, write: Write, clock: str
    ) -> tuple[int | None, int, Version | None]:
        """Makes the parent of the head current, deletes the entries it brought, sets the clock.

        Returns:
            The new current compaction, how many entries left, and the version; None for a session that was
            deleted. Where there is no compaction nothing is written.

        Raises:
            StoreConflictError: the session has another version.
        """

    def save_clock(self, session: str, write: Write, clock: str) -> Version | None: ...
    def save_settings(self, session: str, write: Write, settings: str) -> Version | None:
        """Sets the settings, as :meth:`save_clock` sets the clock: as of :meth:`append_messages`."""

    def renew(self, session: str, write: Write, derived_id: int, raw: str) -> Version | None:
        """Gives a derived text that was forgotten a new one; None where it is no such text.

        A session of another version is a ``StoreConflictError``.
        """

    def compactions(self, session: str) -> list[Compaction]:
        """The compactions of the session, in order."""

    def compaction(self, session: str, compaction_id: int) -> Compaction | None: ...
    def derived(self, session: str, ids: list[int]) -> list[Derived]:
        """The derived texts of those ids, in the order of *ids*."""

    def derived_after(self, session: str, after: int) -> list[Derived]:
        """All derived texts of the session with ids above *after*, ascending."""

    def derived_like(self, session: str, texts: list[str]) -> list[list[Derived]]: ...
    def put_facts(
        self, session: str, facts: list[tuple[int | None, str, str, str, str | None]], now: int
    ) -> list[int]:
        """Writes facts (id, key, state, body as JSON, body before) in one transaction; their ids.

        One with an id takes the place of that one, which must be the session's or its namespace's, or it is
        an ``InvalidEntryError``. Where a body before is named, that one must have it still, or it is a
        ``StoreConflictError``. A session that was deleted takes none.
        """

    def facts(self, session: str, state: str | None) -> list[_Fact]:
        """Facts of the session: id, namespace, state, key, body, created_at, changed_at."""

    def namespace_facts(self, namespace: str, state: str | None) -> list[_Fact]:
        """Facts of every session of the namespace, as :meth:`facts` gives those of one."""

    def salt(self, session: str) -> bytes:
        """What digests of its messages are made with: 128 random bits, in hexadecimal.

        Those of this store, or of the store that the session was copied from.
        """
    def forgotten(self, session: str) -> list[tuple[int, bytes]]:
        """Digests of what was forgotten: of a message with its place, of a summary with minus its id."""
    def restore_marks(
        self, session: str, salt: bytes, digests: list[tuple[int, bytes]], redacted: list[int]
    ) -> None:
        """Gives a session the marks of what was forgotten of it in the store it was copied from.

        Args:
            session: The session.
            salt: What the digests were made with; the session's from now on.
            digests: As :meth:`forgotten` gives them, with the ids of this store.
            redacted: Ids of derived texts that stand in the place of others.

        Raises:
            ConfigError: the session has digests of another salt.
        """

    def insert_entries(self, session: str, entries: Sequence[_NewEntry], now: int) -> list[int | None]:
        """Stores and indexes *entries*, all or none.

        Returns:
            The id of each, None for a blank text, which is not stored. One that the session has already,
            the same text of the same range, keeps its id.
        """

    def search(
        self, session: str, query: str, options: SearchOptions, vector: tuple[int, bytes] | None
    ) -> Found:
        """The best entries.

        Args:
            session: The session.
            query: Natural language.
            options: What is asked for.
            vector: The key of an embedder and the query's vector, float32, little-endian; for the rankers
                ``dense`` and ``fused``, which without it rank as ``lexical``.

        Raises:
            InvalidEntryError: a vector of another length than those of the store.
        """

    def use_embedder(self, name: str, dimension: int, replace: bool) -> int:
        """Makes that the embedder of the store; the key that its vectors are stored under.

        Args:
            name: The embedder's own id.
            dimension: Numbers of its vectors.
            replace: Whether vectors of another one are deleted; else they refuse it.

        Returns:
            The key; 0 for a store without vectors that is only to be read.

        Raises:
            ConfigError: the store has vectors of another embedder.
        """

    def embedded(self) -> tuple[int, int]:
        """How many entries of the store have vectors, and how many have none."""

    def missing_vectors(self, after: int, limit: int) -> tuple[list[tuple[int, str, str, str | None]], int]:
        """Entries above the id *after* that have no vectors (id, text, role, name), in order of id.

        Returns:
            At most *limit* of them, and the id up to which was looked: *after* at the end.
        """

    def store_vectors(self, embedder: int, rows: list[tuple[int, bytes]]) -> int:
        """Stores vectors of entries: one or more each, float32, little-endian, one after another.

        Returns:
            How many entries took them; those that left meanwhile, or have vectors, do not.

        Raises:
            StoreConflictError: the store has another embedder by now.
            InvalidEntryError: not finite, or no whole number of vectors.
        """

    def get(self, entry_id: int) -> StoredEntry:
        """The entry of that id, whether it has expired or not.

        Raises:
            EntryNotFoundError: there is none.
        """

    def entries(
        self,
        session: str,
        overlaps: tuple[int, int] | None,
        since: int | None,
        rows: tuple[int, int],
        now: int | None,
    ) -> Page:
        """A page of entries, by offset and limit; where *now* is given, without those that have expired."""

    def stage(self, session: str, entries: Sequence[_NewEntry], fingerprint: str, now: int) -> str:
        """Keeps a batch of *entries*, unseen; its token.

        Raises:
            StoreConflictError: the session has another batch of that fingerprint.
        """

    def finalize(self, token: str) -> list[int | None]:
        """Makes the entries of a batch findable: the id of each, None for one that was not stored.

        Raises:
            StageNotFoundError: there is no batch of that token.
        """

    def abort(self, token: str) -> bool:
        """Deletes a batch that waits; whether there was one.

        Raises:
            StoreConflictError: it was finalized.
        """

    def reconcile(
        self, committed: list[str], session: str | None, before: int | None
    ) -> tuple[list[str], list[str], list[str]]:
        """Finalizes what was committed and aborts what was not: finalized, aborted, lost."""

    def stages(self, session: str | None) -> list[Stage]:
        """The batches that wait."""

    def staged_entries(self, session: str) -> list[StoredEntry]:
        """The entries that wait, under the ids they have there."""

    def sessions(self, namespace: str | None, offset: int, limit: int) -> tuple[list[SessionRow], int | None]:
        """A page of the sessions in the order of their first writes, and where the next one begins."""

    def session_with_settings(self, has: str, lacks: str) -> tuple[str, str] | None:
        """The first session whose settings have the text *has*, and not *lacks* where that is not empty.

        Returns:
            Its id, and its settings.
        """

    def forget(self, targets: Sequence[_Target], replacement: str) -> Forgotten:
        """Forgets in one transaction, and then erases the bytes from the files.

        Args:
            targets: Of each session: messages by sequence number with the text that takes their place,
                entries, derived texts by id with the text that takes their place, entries that wait, facts,
                and digests by which the messages are known when they are sent again. Entries that came from
                one of the messages go as well, and derived texts that stand for one.
            replacement: What takes the place of a summary that stands for one.
        """

    def check(self) -> list[Finding]:
        """What is not as it should be."""

    def backup(self, path: str) -> None:
        """Makes a store at *path* of what is committed now, and looks at everything in it.

        Raises:
            StoreOpenError: there is a store at *path* already, or it cannot be written.
            StoreCorruptError: something is damaged; no copy was kept.
        """

    def repair(self, now: int) -> list[Finding]:
        """Repairs what can be: what was found, as of :meth:`check`, and whether it is well now.

        Raises:
            StoreBusyError: another process is at such work.
        """

    def quarantined(self, session: str) -> list[int]:
        """The ids of entries that are damaged, or were and are set aside."""

    def revive(self, session: str) -> bool:
        """Begins a session that was dropped anew, empty; whether it was dropped."""

    def expire(self, session: str, keep: int | None, before: int | None, now: int) -> tuple[int, int, int]:
        """Deletes entries from before *before*, the oldest but *keep*, and those that have expired at *now*.

        How many for each reason. Without a bound, and where nothing has expired, it only reads.
        """

    def delete_session(self, session: str) -> int:
        """Deletes the session and leaves a tombstone. The number of entries it had."""

    def stats(self, session: str | None) -> dict[str, Any]:
        """The fields of ``StoreStats``."""

    def close(self) -> None:
        """Lets go of the store. The last one to do so leaves the file complete by itself."""

def open_mirror(hash_rule: str, keep: Callable[[list[Any], int, list[tuple[str, int]], str], None]) -> Store:
    """A store in memory that mirrors rows which *keep* keeps.

    *keep* is called before each write is committed: with ``(table, rows, keys of rows that left)`` of each
    table that changes, the highest id of an entry, the highest key that each table ever gave, and the salt of
    digests. What it raises takes the write back, and comes out of the call that wrote.
    """

def mirror_take(store: Store, tables: list[Any], sequences: list[tuple[str, int]], salt: str) -> None:
    """Takes what others wrote into a mirror, as ``keep`` got it elsewhere; ``keep`` is not called."""

def mirror_ids_above(store: Store, high_water: int) -> None:
    """Entries of a mirror get ids above *high_water* from now on."""

def mirror_tables(store: Store) -> list[tuple[str, list[tuple[str, bool]]]]:
    """The tables that are mirrored, and of each the names of its columns, and whether they hold text."""
