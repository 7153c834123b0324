"""The store, as the compiled core provides it.

The other names of the compiled module are in ``_native.pyi``, which exports these as well.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, final

from siltstone._native_rows import (
    Compaction,
    Derived,
    LogRow,
    LogState,
    NewCompaction,
    SessionRow,
    Version,
    Write,
)
from siltstone._native_search import Found, SearchOptions
from siltstone.memory.convert import NewEntry
from siltstone.memory.forgetting import Target
from siltstone.memory.log import NewMessage, NewRecall
from siltstone.messages import Role

_Fact: TypeAlias = tuple[int, str, str, str, str, int, int]

@final
class StoredEntry:
    """An entry in the store."""

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

# A page of entries, the offset of the next page (None at the end), and the ids of damaged rows.
Page: TypeAlias = tuple[list[StoredEntry], int | None, list[int]]

@final
class Finding:
    """A problem that a check has found."""

    code: Final[str]
    table: Final[str]
    id: Final[int | None]
    message: Final[str]
    repaired: Final[bool]

@final
class Forgotten:
    """How many rows of each kind were changed, and whether the bytes were erased from the files."""

    sessions: Final[int]
    messages: Final[int]
    entries: Final[int]
    derived: Final[int]
    facts: Final[int]
    erased: Final[bool]

@final
class Store:
    """The durable store. The public class is ``siltstone.MemoryStore``, which is built on it.

    Arguments are read by their attributes: ``NewEntry`` of ``siltstone.memory.convert``, ``Target`` of
    ``siltstone.memory.forgetting``. Results are of the classes above.

    Safe to use from many threads; every method lets other threads run. Times are milliseconds since 1970,
    UTC. Session ids are 1 to 1,024 bytes of UTF-8, without lone surrogates; in all other texts these are
    replaced, and entries are marked as repaired. Values out of bounds raise ``InvalidEntryError``, and
    every method raises ``StoreClosedError`` once the store is closed.
    """

    @staticmethod
    def open_memory(hash_rule: str | None = None) -> Store:
        """A store in memory, which ends with this object. It has no file, and cannot be used in a fork."""

    @staticmethod
    def open(path: str, read_only: bool, hash_rule: str | None, mode: int | None = None) -> Store:
        """Opens the store in the directory *path* (``path/memory/memory.sqlite3``), or creates one.

        Stores of one process on one file share their indexes and their connections.

        Args:
            path: The directory.
            read_only: Open an existing store for reading. A store that cannot be written is opened so in
                any case.
            hash_rule: The hash rule of a new store, ``"xxh3"`` for None. An existing store must have this
                rule.
            mode: The permissions of new files, as for ``os.chmod``; None is the owner alone.

        Raises:
            StoreOpenError: not a directory, not a store, no permission; nothing was changed.
            StoreVersionError: another version wrote it; nothing was changed.
            ConfigError: *hash_rule* is unknown, or not the store's.
        """

    @property
    def path(self) -> str:
        """The directory that it was opened with."""

    @property
    def hash_rule(self) -> str:
        """The rule of the cosine embedding."""

    @property
    def language(self) -> str:
        """The languages that texts are read in: ``auto``, or codes with commas between them."""

    def settle_language(self, language: str, anew: bool) -> None:
        """Reads texts in these languages from now on, and stores that.

        Args:
            language: ``auto``, or language codes with commas between them, the default first.
            anew: Whether they may replace other languages; every text is then analysed anew.

        Raises:
            ConfigError: an unknown code, or other languages were set before and *anew* is False.
            ReadOnlyStoreError: other languages were set before, and the store is open for reading. If none
                were set, the store uses these without storing them.
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
        """Appends *rows*, writes *recalls* and sets the clock, in one transaction, durable on return.

        Args:
            session: The session.
            write: The version that the writer read, and the writer's own id of this write.
            rows: The messages.
            clock: The caller's own state.
            title: The text of the first request among them, for a session without a title; the store cuts it.
            recalls: The recalls since the last write.

        Returns:
            The new version of the session; None for a session that was deleted.

        Raises:
            StoreConflictError: the session has another version.
        """

    def log_state(self, session: str) -> LogState:
        """The state of the session's log."""

    def open_session(self, session: str, namespace: str | None) -> LogState:
        """The same as :meth:`log_state`, if the session is of that namespace; a new session is begun in it.

        Raises:
            ConfigError: the session is of another namespace.
        """

    def version(self, session: str) -> Version | None:
        """The session's version, which reads one row; None for a session that was deleted."""

    def read_messages(self, session: str, start: int, end: int) -> list[LogRow]:
        """Messages ``start`` up to ``end``, in order."""

    def shown_messages(
        self, session: str, start: int, end: int
    ) -> list[tuple[int, Role, str, dict[str, Any], int] | LogRow]:
        """The same, as a session shows them.

        Of a message that is a role and a text: its number, role, text, the message and its time.
        """

    def recalls(self, session: str, limit: int) -> list[tuple[int, int, str]]:
        """The newest recalls, newest first: the number of messages then, the time, and the recall as JSON."""

    def commit_compaction(
        self,
        session: str,
        write: Write,
        row: NewCompaction,
        entries: Iterable[NewEntry],
        clock: str,
        said: tuple[Sequence[NewMessage], str, Sequence[NewRecall]],
    ) -> tuple[int, list[int], list[int | None], Version | None]:
        """Writes messages, entries, the compaction, derived texts, head and clock in one transaction.

        Args:
            session: The session.
            write: As for :meth:`append_messages`.
            row: The compaction, and its new texts. In its view, ``[start, end]`` are messages, other
                numbers the ids of derived texts, and -1, -2 … its new texts.
            entries: As for :meth:`insert_entries`.
            clock: The caller's own state.
            said: Messages to append to the log before it, the title for a session without one, and the
                recalls since the last write.

        Returns:
            The ids of the compaction, of its texts and of the entries, and the new version.

        Raises:
            StoreConflictError: the session has another version.
            ConfigError: the view is invalid.
        """

    def rewrite(
        self,
        session: str,
        write: Write,
        row: NewCompaction,
        changes: tuple[list[int], list[int], int | None, Sequence[NewMessage], Iterable[NewEntry]],
        clock: str,
    ) -> tuple[int, list[int], list[int | None], Version | None]:
        """Makes *row* the current view, whatever was appended after it, in one transaction.

        It counts as forgetting messages: readers that have read the session before are out of date.

        Args:
            session: The session.
            write: As for :meth:`append_messages`.
            row: As for :meth:`commit_compaction`.
            changes: The compactions whose entries leave; the messages, ascending, whose entries leave; the
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
        """Makes the parent of the head current, deletes the entries that the head brought, sets the clock.

        Returns:
            The new current compaction, the number of deleted entries, and the version; the version is None
            for a session that was deleted. Without a compaction nothing is written.

        Raises:
            StoreConflictError: the session has another version.
        """

    def save_clock(self, session: str, write: Write, clock: str) -> Version | None: ...
    def save_settings(self, session: str, write: Write, settings: str) -> Version | None:
        """Sets the settings; arguments, result and errors are as for :meth:`append_messages`."""

    def renew(self, session: str, write: Write, derived_id: int, raw: str) -> Version | None:
        """Gives a forgotten derived text a new text; None if there is no such text.

        A session of another version raises ``StoreConflictError``.
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
        """Writes facts (id, key, state, body as JSON, old body) in one transaction; returns their ids.

        A fact with an id replaces that fact, which must be of the session or its namespace, or
        ``InvalidEntryError`` is raised. If an old body is given, the stored fact must still have it, or
        ``StoreConflictError`` is raised. A deleted session takes no facts.
        """

    def facts(self, session: str, state: str | None) -> list[_Fact]:
        """Facts of the session: id, namespace, state, key, body, created_at, changed_at."""

    def namespace_facts(self, namespace: str, state: str | None) -> list[_Fact]:
        """Facts of every session of the namespace, in the form of :meth:`facts`."""

    def salt(self, session: str) -> bytes:
        """The salt of the digests of its messages: 128 random bits, in hexadecimal.

        It is the salt of this store, or of the store that the session was copied from.
        """
    def forgotten(self, session: str) -> list[tuple[int, bytes]]:
        """Digests of forgotten texts: of a message with its place, of a summary with its negative id."""
    def restore_marks(
        self, session: str, salt: bytes, digests: list[tuple[int, bytes]], redacted: list[int]
    ) -> None:
        """Restores the marks of forgotten texts in a session that was copied from another store.

        Args:
            session: The session.
            salt: The salt of the digests; from now on the session's own.
            digests: Digests as :meth:`forgotten` gives them, with the ids of this store.
            redacted: Ids of derived texts that replace forgotten ones.

        Raises:
            ConfigError: the session has digests of another salt.
        """

    def insert_entries(self, session: str, entries: Iterable[NewEntry], now: int) -> list[int | None]:
        """Stores and indexes all of *entries*, or none.

        Returns:
            The id of each; None for a blank text, which is not stored. An entry that the session has
            already (the same text of the same range) keeps its id.
        """

    def search(
        self, session: str, query: str, options: SearchOptions, vector: tuple[int, bytes] | None
    ) -> Found:
        """The best entries.

        Args:
            session: The session.
            query: Natural language.
            options: The options of the search.
            vector: The key of an embedder and the query's vector (float32, little-endian), for the rankers
                ``dense`` and ``fused``; without it these rank as ``lexical``.

        Raises:
            InvalidEntryError: a vector of another length than those of the store.
        """

    def use_embedder(self, name: str, dimension: int, replace: bool) -> int:
        """Sets the embedder of the store; returns the key that its vectors are stored under.

        Args:
            name: The embedder's own id.
            dimension: The length of its vectors.
            replace: Whether vectors of another embedder are deleted; otherwise they are an error.

        Returns:
            The key; 0 for a read-only store without vectors.

        Raises:
            ConfigError: the store has vectors of another embedder.
        """

    def embedded(self) -> tuple[int, int]:
        """How many entries of the store have vectors, and how many have none."""

    def missing_vectors(self, after: int, limit: int) -> tuple[list[tuple[int, str, str, str | None]], int]:
        """Entries with ids above *after* that have no vectors (id, text, role, name), in order of id.

        Returns:
            At most *limit* entries, and the last id that was checked; at the end it is *after*.
        """

    def store_vectors(self, embedder: int, rows: list[tuple[int, bytes]]) -> int:
        """Stores one or more vectors for each entry: float32, little-endian, one after another.

        Returns:
            How many entries got vectors; entries that were deleted meanwhile, or have vectors already, do
            not count.

        Raises:
            StoreConflictError: the store has another embedder by now.
            InvalidEntryError: a number is not finite, or the bytes are not a whole number of vectors.
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
        """A page of entries, by offset and limit; if *now* is given, without expired ones."""

    def entries_holding(self, session: str, text: str, spelled: str) -> Page:
        """The entries that may hold a spelling of *text*, and all damaged ones, in one page.

        *spelled* is an expression for all spellings; escapes of JSON may hold any.
        """

    def messages_holding(self, session: str, text: str, spelled: str) -> list[int]:
        """The messages that may hold a spelling of *text*, ascending."""

    def labels_holding(self, session: str | None, text: str, spelled: str) -> list[tuple[str, str]]:
        """What else may hold one, of a session or all: what it is (empty for names), and its text."""

    def entries_from(self, session: str, messages: list[int]) -> list[int]:
        """The ids of the entries that came from one of *messages*, ascending."""

    def sessions(self, namespace: str | None, offset: int, limit: int) -> tuple[list[SessionRow], int | None]:
        """A page of the sessions in the order of their first writes, and the offset of the next page."""

    def session_with_settings(self, has: str, lacks: str) -> tuple[str, str] | None:
        """The first session whose settings contain *has*, and not *lacks* unless that is empty.

        Returns:
            Its id, and its settings.
        """

    def forget(self, targets: Sequence[Target], replacement: str) -> Forgotten:
        """Forgets in one transaction, and then erases the bytes from the files.

        Args:
            targets: For each session: messages by sequence number with their replacement text, entries,
                derived texts by id with their replacement text, facts, and digests that
                recognize the messages if they are sent again. Entries that came from one of the messages
                are deleted too, and derived texts that cover one.
            replacement: The text that replaces a summary that covers one.
        """

    def check(self) -> list[Finding]:
        """The problems of the store."""

    def shrink(self) -> None:
        """Writes the file anew, without the pages of deleted rows.

        Raises:
            StoreBusyError: another process works on the store for too long.
        """

    def backup(self, path: str) -> None:
        """Copies the committed state to a new store at *path*, and checks everything in the copy.

        Raises:
            StoreOpenError: there is a store at *path* already, or it cannot be written.
            StoreCorruptError: something is damaged; no copy was kept.
        """

    def repair(self, now: int) -> list[Finding]:
        """Repairs as much as possible; the problems as of :meth:`check`, and whether each is solved.

        Raises:
            StoreBusyError: another process is repairing.
        """

    def quarantined(self, session: str) -> list[int]:
        """The ids of entries that are damaged, or were damaged and are set aside."""

    def revive(self, session: str) -> bool:
        """Begins a deleted session anew, empty; returns whether it was deleted."""

    def expire(
        self, session: str, keep: int | None, before: int | None, now: int, asked: bool
    ) -> tuple[int, int, int]:
        """Deletes entries from before *before*, the oldest above *keep*, and those expired at *now*.

        Returns the number for each reason. Without a bound, and if nothing has expired, it only reads.
        """

    def delete_session(self, session: str) -> int:
        """Deletes the session and leaves a tombstone. Returns the number of entries it had."""

    def take_back(self, session: str, writes: list[int], entries: int) -> bool:
        """Empties the session, if its last write is one of *writes* and it has at most *entries*.

        Returns whether it did. All of it is one transaction.
        """

    def stats(self, session: str | None) -> dict[str, Any]:
        """The fields of ``StoreStats``."""

    def close(self) -> None:
        """Closes the store. The last close leaves a complete database file."""

def open_mirror(hash_rule: str, keep: Callable[[list[Any], int, list[tuple[str, int]], str], None]) -> Store:
    """A store in memory that mirrors rows which *keep* stores elsewhere.

    *keep* is called before each write is committed, with ``(table, rows, keys of deleted rows)`` for each
    table that changes, the highest id of an entry, the highest key that each table ever gave, and the salt
    of digests. An exception of *keep* rolls the write back, and is raised by the call that wrote.
    """

def mirror_take(store: Store, tables: list[Any], sequences: list[tuple[str, int]], salt: str) -> None:
    """Applies rows that others wrote to a mirror, in the form that ``keep`` gets; ``keep`` is not called."""

def mirror_ids_above(store: Store, high_water: int) -> None:
    """New entries of a mirror get ids above *high_water* from now on."""

def mirror_schema() -> tuple[str, list[tuple[str, list[tuple[str, str, bool, bool]]]]]:
    """The version of the schema, and the tables of a mirror. Tables that others refer to come first.

    Each table has its columns in order: the name, the type (``INTEGER``, ``TEXT`` or ``BLOB``), whether it
    may be NULL, and whether it is a part of the key.
    """
