"""The store, as the compiled core has it.

The other names of the compiled module are in ``_native.pyi``, which has these as well.
"""

from collections.abc import Sequence
from typing import Any, Protocol, final

from siltstone.memory.entry import Fusion, Ranker, SearchIndex

__all__ = ["Finding", "Forgotten", "Found", "Hit", "Page", "SearchOptions", "Stage", "Store", "StoredEntry"]

class _Decay(Protocol):
    @property
    def per_day(self) -> float: ...
    @property
    def floor(self) -> float: ...

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

class _Target(Protocol):
    @property
    def session_id(self) -> str: ...
    @property
    def messages(self) -> list[tuple[int, str]]: ...
    @property
    def entries(self) -> list[int]: ...
    @property
    def summaries(self) -> list[int]: ...
    @property
    def staged(self) -> list[int]: ...

@final
class StoredEntry:
    """An entry as the store holds it."""

    @property
    def entry_id(self) -> int: ...
    @property
    def session_id(self) -> str: ...
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
    def repaired(self) -> bool: ...

@final
class Page:
    """A page of entries, where the next one begins, and the ids of rows that are damaged."""

    @property
    def entries(self) -> list[StoredEntry]: ...
    @property
    def next_offset(self) -> int | None: ...
    @property
    def damaged(self) -> list[int]: ...

@final
class SearchOptions:
    """What may be asked of a search: what *base* says, and what is given besides.

    Args:
        base: What holds where nothing is given; None is ``lexical``, 5 hits, of every score.
        limit: At most so many hits.
        ranker: How to score.
        index: What the ranker ``cosine`` looks into.
        min_score: 0..1.
        explain: Whether to say how scores came about.
        decay: What a day leaves of a score, and what is left at least. Without one it is the ranker's own.
        now: From when days are counted.
        fusion: How the ranker ``fused`` makes one score of two.

    Raises:
        ConfigError: an unknown ranker, index or fusion, or a decay out of 0..1.
    """

    def __new__(
        cls,
        base: SearchOptions | None = None,
        *,
        limit: int | None = None,
        ranker: Ranker | None = None,
        index: SearchIndex | None = None,
        min_score: float | None = None,
        explain: bool | None = None,
        decay: _Decay | None = None,
        now: int | None = None,
        fusion: Fusion | None = None,
    ) -> SearchOptions: ...
    @property
    def ranker(self) -> Ranker: ...
    @property
    def wants_vector(self) -> bool:
        """Whether the query's vector makes a difference."""

@final
class Hit:
    """An entry that a search found."""

    @property
    def entry_id(self) -> int: ...
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
    def score(self) -> float: ...
    @property
    def explain(self) -> dict[str, Any] | None: ...

@final
class Found:
    """The hits, who ranked them, and how many entries lack vectors, where that was looked at."""

    @property
    def hits(self) -> list[Hit]: ...
    @property
    def ranker(self) -> Ranker: ...
    @property
    def lacking(self) -> int: ...

@final
class Stage:
    """A batch that waits."""

    @property
    def token(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def entries(self) -> int: ...
    @property
    def created_at(self) -> int: ...

@final
class Finding:
    """Something that is not what it should be."""

    @property
    def code(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def id(self) -> int | None: ...
    @property
    def message(self) -> str: ...
    @property
    def repaired(self) -> bool: ...

@final
class Forgotten:
    """How many sessions, messages, entries and summaries were changed, and whether the bytes are gone."""

    @property
    def sessions(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def summaries(self) -> int: ...
    @property
    def erased(self) -> bool: ...

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
    def open(path: str, read_only: bool, hash_rule: str | None) -> Store:
        """Opens the store in the directory *path*, ``path/memory/memory.sqlite3``, or makes one.

        Stores of one process on one file share their indexes and their connections.

        Args:
            path: The directory.
            read_only: Open an existing store for reading. One that cannot be written is opened like that
                by itself.
            hash_rule: That of a new store, ``"xxh3"`` for None. A store that exists must have this one.

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
    def read_only(self) -> bool:
        """Whether writes raise ``ReadOnlyStoreError``."""

    def append_messages(
        self,
        session: str,
        expected_next: int,
        rows: list[tuple[str, str, str, str, int, int]],
        cadence: str,
    ) -> None:
        """Appends *rows* (raw, role, dialect, provenance, tokens, created_at) and sets the cadence.

        One transaction, durable when it returns.

        Raises:
            StoreConflictError: the log does not end at *expected_next*.
        """

    def log_state(self, session: str) -> tuple[int, int | None, str, int, bool]:
        """Next sequence number, current compaction, cadence, times that messages were forgotten, dropped."""

    def read_messages(
        self, session: str, start: int, end: int
    ) -> list[tuple[int, str, str, str, str, int, int]]:
        """Messages ``start`` to ``end`` in order: seq, raw, role, dialect, provenance, tokens, created_at."""

    def commit_compaction(
        self,
        session: str,
        expected: tuple[int | None, int | None],
        row: tuple[Any, ...],
        entries: Sequence[_NewEntry],
        cadence: str,
    ) -> tuple[int, list[int | None]]:
        """Writes entries, compaction, head and cadence in one transaction, then indexes the entries.

        Args:
            session: The session.
            expected: The compaction that *row* follows, None for the first; and how often messages had been
                forgotten when the view was read, None for a writer that read none.
            row: policy, reason, level, degraded, summary, covers (JSON), view (JSON), next_seq, model,
                usage (JSON), tokens_before, tokens_after, messages_before, messages_after, created_at.
            entries: As for :meth:`insert_entries`.
            cadence: The caller's own state.

        Returns:
            The compaction's id, and those of the entries; 0 and None for a session that was dropped.

        Raises:
            StoreConflictError: the current compaction is another one, or something was forgotten.
        """

    def rewrite(
        self,
        session: str,
        expected: tuple[int | None, int | None],
        row: tuple[Any, ...],
        changes: tuple[
            int,
            list[int],
            int | None,
            list[tuple[str, str, str, str, int, int]],
            Sequence[_NewEntry],
        ],
        cadence: str,
    ) -> tuple[int, list[int | None]]:
        """Makes *row* the current view, whatever was said after it, in one transaction.

        Counts as a time that messages were forgotten: who has read the session before is behind.

        Args:
            session: The session.
            expected: As for :meth:`commit_compaction`: the current compaction.
            row: As for :meth:`commit_compaction`.
            changes: Where the log ends; the compactions whose entries leave; the one that *row* follows;
                messages to append, as for :meth:`append_messages`; entries, as for :meth:`insert_entries`.
            cadence: The caller's own state.

        Returns:
            The row's id, and those of the entries; 0 and None for a session that was dropped.

        Raises:
            StoreConflictError: the session or its log stands elsewhere, or something was forgotten.
            StoreCorruptError: the session has no compaction of the id that *row* should follow.
        """

    def undo_compaction(self, session: str, expected_head: int, cadence: str) -> tuple[int | None, int]:
        """Makes the parent of *expected_head* current, deletes the entries it brought, sets the cadence.

        Returns:
            The new current compaction, and how many entries left.

        Raises:
            StoreConflictError: the current compaction is another one.
        """

    def save_cadence(self, session: str, cadence: str) -> None:
        """Sets the cadence alone."""

    def compactions(self, session: str) -> list[tuple[Any, ...]]:
        """The compactions of the session in order: id, parent, as for :meth:`commit_compaction`, redacted."""

    def compaction(self, compaction_id: int) -> tuple[Any, ...] | None:
        """The compaction of that id."""

    def insert_entries(self, session: str, entries: Sequence[_NewEntry]) -> list[int | None]:
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
        """The entry of that id.

        Raises:
            EntryNotFoundError: there is none.
        """

    def entries(
        self, session: str, overlaps: tuple[int, int] | None, since: int | None, offset: int, limit: int
    ) -> Page:
        """A page of entries."""

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

    def sessions(self) -> list[str]:
        """The names of all sessions that were not dropped, in the order of their first writes."""

    def forget(self, targets: Sequence[_Target], replacement: str) -> Forgotten:
        """Forgets in one transaction, and then erases the bytes from the files.

        Args:
            targets: Of each session: messages by sequence number with the text that takes their place,
                entries, compactions whose summary goes, and entries that wait. Entries that came from one
                of the messages go as well, and summaries that stand for one.
            replacement: What takes the place of a summary.
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

    def renew_summary(self, session: str, compaction_id: int, summary: str, redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one; whether it is such a one.

        Raises:
            StoreConflictError: something was forgotten since *redactions*.
        """

    def revive(self, session: str) -> bool:
        """Begins a session that was dropped anew, empty; whether it was dropped."""

    def expire(self, session: str, keep: int | None, before: int | None) -> tuple[int, int]:
        """Deletes entries from before *before*, and the oldest but *keep*; how many for either reason."""

    def delete_session(self, session: str) -> int:
        """Deletes the session and leaves a tombstone. The number of entries it had."""

    def stats(self, session: str | None) -> dict[str, Any]:
        """The fields of ``StoreStats``."""

    def close(self) -> None:
        """Lets go of the store. The last one to do so leaves the file complete by itself."""
