"""The compiled core: text, numbers and the store behind siltstone.

Everything here is thin and typed; what users call is built on it in Python. Texts may hold lone
surrogates and never raise for it: a high one that is followed by a low one stands for their code
point, any other counts as U+FFFD. Sizes are those of the text as it is. A panic of the core is raised
as ``siltstone.errors.InternalError``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

__all__ = [
    "Bm25Index",
    "ExactIndex",
    "Flat",
    "Hnsw",
    "Outline",
    "Store",
    "__version__",
    "_panic",
    "bucket",
    "build_profile",
    "embed_batch",
    "embed_sparse",
    "json_size",
    "render_messages",
    "rendered_tokens",
    "terms",
    "text_size",
    "text_sizes",
    "whitespace_words",
    "word_hash",
    "words",
]

__version__: Final[str]
"""The version of the package."""

build_profile: Final[str]
"""``"release"``, or ``"debug"``: an unoptimised build, which no bench accepts."""

def words(text: str) -> list[str]:
    """The words of *text* by the rule ``words-1``, in order.

    A word is a run of alphanumeric code points and combining marks that begins with an alphanumeric
    code point which is no mark, in lower case. A run of Han, kana or Hangul becomes its overlapping
    pairs of code points, a single one stays as it is, and a run is split where CJK and other letters
    meet: ``"abc漢字仮"`` is ``["abc", "漢字", "字仮"]``.

    Lower case is one code point for one: the first of the lower-case mapping, final sigma as sigma.
    The rule is frozen, since stored data depends on it (``tests/vectors/words.json``).
    """

def whitespace_words(text: str) -> list[str]:
    """What stands between white space (Unicode's ``White_Space``), its ASCII letters in lower case.

    The words of hash rule ``poly31``.
    """

def render_messages(raws: list[Any], start: int, end: int) -> tuple[str, int]:
    """The lines that a summariser reads of the messages from *start* up to *end*, without earlier summaries.

    With them the position of the first message that is left to Python; *end* where there is none.
    """

def rendered_tokens(raws: list[Any], start: int, end: int, measure: str) -> tuple[list[int], int]:
    """What the lines of each message from *start* up to *end* count together, each with its line break.

    By *measure* ``bytes`` a line is a quarter of its bytes, rounded down; by ``code_points`` a third of
    its code points, rounded up; by ``blocks`` as by ``bytes``, and at least 1. With the numbers comes the
    position of the first message that is left to Python.

    Raises:
        ValueError: *measure* is none of these.
    """

def terms(text: str) -> list[str]:
    """The terms of *text* by the analyser ``lexical-1``, in order: what the ranker ``lexical`` counts.

    Words without accents, stop words left out where anything else remains, in their English stems;
    identifiers in their parts and whole: ``"Ann painted file_path"`` is ``["ann", "paint", "file",
    "path", "filepath"]``. The rules are in docs/how-search-ranks.md.
    """

def word_hash(word: str) -> int:
    """XXH3-64, seed 0, of the UTF-8 of *word*: 0 to 2**64 - 1. Equal to ``xxhash.xxh3_64_intdigest``."""

def bucket(word: str, hash_rule: str) -> int:
    """The bucket that *word* falls into, 0 to 4095.

    Args:
        word: A word as the rule's own tokeniser gives it; it is not cut or lower-cased here, but for
            ``poly31``, whose hash folds ASCII letters itself.
        hash_rule: ``"xxh3"``: :func:`word_hash` modulo 4,096; or ``"poly31"``: ``h = 31 * h + byte`` over
            the UTF-8, from 0, modulo 2**64, then modulo 4,096.

    Raises:
        ConfigError: *hash_rule* is neither.
    """

def embed_batch(texts: list[str], hash_rule: str) -> bytearray:
    """Hashed term frequencies of *texts* as dense rows; other threads run meanwhile.

    ``value(b) = count(b) / sqrt(sum of count(x)**2)``, computed in float64 and rounded to float32 once.

    Args:
        texts: Any texts. One without words is a row of zeros.
        hash_rule: ``"xxh3"``, over :func:`words`; or ``"poly31"``, over :func:`whitespace_words`.

    Returns:
        ``len(texts) * 4096`` float32 in the machine's byte order, row after row.

    Raises:
        ConfigError: *hash_rule* is neither.
        TypeError: an item is no str; the message says which.
    """

def embed_sparse(texts: list[str], hash_rule: str) -> tuple[bytearray, bytearray, bytearray]:
    """The rows of :func:`embed_batch` without their zeros; other threads run meanwhile.

    Returns:
        ``indptr`` (int64, ``len(texts) + 1``), ``indices`` (int32, ascending within a row) and ``values``
        (float32), in the machine's byte order: row ``i`` has the values ``indptr[i]`` to ``indptr[i + 1]``.

    Raises:
        ConfigError: *hash_rule* is unknown.
        TypeError: an item is no str; the message says which.
    """

def text_size(text: str) -> tuple[int, int]:
    """Bytes of UTF-8, a lone surrogate counting three, and code points of *text*."""

def text_sizes(texts: list[str]) -> list[tuple[int, int]]:
    """:func:`text_size` of each of *texts*.

    Raises:
        TypeError: an item is no str; the message says which.
    """

@final
class Outline:
    """What a policy asks of a history before a message of it is made. Time is linear.

    The core reads plain messages of every dialect: dicts, lists, str, int, float, bool and None, none of a
    subclass, with texts, calls, results and reasoning in them. Media, unknown blocks and everything that
    may be an error are left to Python, and the answer is the same as if Python had read them all.

    Args:
        raws: The messages.
        describe: Called with the position of each message that is left to Python, in order: its role,
            its provenance, whether it is an item of the Responses API, whether it is nothing but
            reasoning, its number of parts, and for each part that ties it to others the kind
            (``tool_call``, ``tool_result``, ``other``, ``reference``), the call's id and the tool's name.
    """

    def __new__(
        cls,
        raws: list[Any],
        describe: Callable[[int], tuple[str, str, bool, bool, int, list[tuple[str, str | None, str | None]]]],
    ) -> Outline: ...
    def __len__(self) -> int: ...
    # Positions, ascending: of the messages that were left to Python, that carry rules, that are summaries,
    # that nobody said, that open turns; and of the groups that have a call without a result.
    @property
    def odd(self) -> list[int]: ...
    @property
    def rules(self) -> list[int]: ...
    @property
    def summaries(self) -> list[int]: ...
    @property
    def unoriginal(self) -> list[int]: ...
    @property
    def requests(self) -> list[int]: ...
    @property
    def pending(self) -> list[int]: ...
    @property
    def turn_count(self) -> int: ...
    @property
    def in_flight(self) -> bool: ...
    def turn(self, number: int) -> tuple[int, int, int]:
        """Start, end and request of a turn, as in ``siltstone.messages.Turn``.

        Raises:
            ValueError: there are not so many.
        """

    def group_ending_at(self, position: int) -> list[int] | None:
        """The positions of the group whose last message stands at *position*; None where none ends."""

    def closed(self, kept: list[int]) -> list[tuple[int, int]]:
        """*kept*, and every group that has one of them: ascending half-open ranges that do not touch."""

    def breaks(self, spans: list[tuple[int, int]]) -> list[int]:
        """How many messages of *spans* lie before each place where no group is parted, their end last."""

    def parts(self, start: int, end: int) -> int:
        """How many parts the messages from *start* up to *end* have together."""

    def sums(self, measure: str, odd: list[int]) -> list[int]:
        """The units of the first 0, 1, 2 … messages.

        Args:
            measure: ``bytes``, ``code_points`` or ``blocks``, as the rules of ``siltstone.tokens`` count.
            odd: The units of each message in :attr:`odd`.

        Raises:
            ValueError: *measure* is none of these, or *odd* has another length.
        """

def json_size(value: object) -> tuple[int, int]:
    """Bytes of UTF-8 and code points of *value* as compact JSON, without writing it.

    Exactly ``text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))``:
    ``len(text.encode("utf-8", "surrogatepass"))`` and ``len(text)``.

    Args:
        value: dict, list, tuple, str, int, float, bool, None and their subclasses. Keys are str, int,
            float, bool or None. Subclasses of dict, list and tuple are read by their own methods.

    Raises:
        TypeError: *value* holds something else; the message names its type.
        ValueError: *value* is nested more than 1,000 deep, or contains itself; or an int has more
            digits than ``sys.set_int_max_str_digits`` allows.
    """

@final
class Flat:
    """Exact search over rows of floats. Users have ``siltstone.FlatIndex``, which is built on it.

    Safe to use from many threads; every method lets others run meanwhile. Arrays come as C-contiguous
    buffers of float32. What is out of bounds raises ``ConfigError``.
    """

    def __new__(cls, dim: int) -> Flat: ...
    @staticmethod
    def load(path: str) -> Flat:
        """Reads the file *path*; ``StoreIoError``, ``StoreVersionError``, ``StoreCorruptError``."""

    def save(self, path: str) -> None:
        """Writes the file *path*, whole or not at all."""

    def add(self, vectors: Any) -> tuple[int, int]:
        """Adds rows of float32, all finite; their ids, from the first to below the second."""

    def remove(self, ids: Sequence[int]) -> None:
        """Removes rows, all or none; ``EntryNotFoundError`` for an id that is not there."""

    def search(self, queries: Any, k: int) -> tuple[bytearray, bytearray]:
        """The nearest rows of each query: ids (uint64) and distances (float32), in the machine's byte order.

        ``min(k, len(self))`` places a query; what is left has the id 2**64 - 1 and is infinitely far.
        """

    def __len__(self) -> int: ...
    @property
    def dim(self) -> int:
        """Numbers of a row."""

    @property
    def rows(self) -> int:
        """How many rows were ever added."""

@final
class Hnsw:
    """A graph over rows. Users have ``siltstone.HnswIndex``, which is built on it.

    What is said of :class:`Flat` holds here too.
    """

    def __new__(cls, dim: int, storage: str, params: tuple[int, int, int, int, int]) -> Hnsw: ...
    @staticmethod
    def load(path: str) -> Hnsw:
        """Reads the file *path*. Raises as :meth:`Flat.load`."""

    def save(self, path: str) -> None:
        """Writes the file *path*, whole or not at all."""

    def add(self, vectors: Any) -> tuple[int, int]:
        """Adds rows of float32, all finite; their ids, from the first to below the second."""

    def add_sparse(self, indptr: Any, indices: Any, values: Any) -> tuple[int, int]:
        """Adds rows of counts in CSR form (int64, int32, float32): counts, or counts in proportion."""

    def remove(self, ids: Sequence[int]) -> None:
        """Removes rows, all or none. Raises as :meth:`Flat.remove`."""

    def search(self, queries: Any, k: int, ef: int | None, plan: str | None) -> tuple[bytearray, bytearray]:
        """As :meth:`Flat.search`. *plan* is ``"scan"``, ``"graph"``, or None for what is quicker."""

    def search_sparse(
        self, indptr: Any, indices: Any, values: Any, k: int, ef: int | None, plan: str | None
    ) -> tuple[bytearray, bytearray]:
        """The same for queries in CSR form."""

    def __len__(self) -> int: ...
    @property
    def dim(self) -> int:
        """Numbers of a row."""

    @property
    def storage(self) -> str:
        """``"i8"``, ``"f16"``, ``"f32"`` or ``"sparse"``."""

    @property
    def params(self) -> tuple[int, int, int, int, int]:
        """``m``, ``ef_construction``, ``ef_search``, ``max_layer`` and ``seed``."""

    def figures(self) -> tuple[int, int, int, str]:
        """Rows ever added, removed rows that are still linked, layers, and the plan."""

@final
class ExactIndex:
    """Texts by cosine. Users have ``siltstone.ExactIndex``, which is built on it.

    Raises:
        ConfigError: *hash_rule* is unknown.
    """

    def __new__(cls, hash_rule: str) -> ExactIndex: ...
    @staticmethod
    def load(path: str) -> ExactIndex:
        """The index of a file that :meth:`save` wrote."""

    def save(self, path: str) -> None:
        """Writes all of it, or nothing."""

    @property
    def hash_rule(self) -> str:
        """How a text becomes buckets."""

    def add(self, texts: list[str]) -> int:
        """Adds *texts*; the id of the first, which the others follow."""

    def search(self, queries: list[str], k: int) -> tuple[bytearray, bytearray]:
        """Ids (uint64) and distances (float64) of the nearest to each query, ``min(k, len)`` a row.

        A row is filled up with the id ``2**64 - 1`` and the distance infinity.
        """

    def len(self) -> int:
        """Texts that were not removed."""

    def remove(self, ids: list[int]) -> None:
        """Removes all of *ids*, or raises ``EntryNotFoundError`` and removes none."""

    def stats(self) -> tuple[int, int, int, int, str]:
        """Texts added, texts removed, postings, bytes, and the path that the kernels take."""

@final
class Bm25Index:
    """Texts by BM25. Users have ``siltstone.Bm25Index``, which is built on it.

    Raises:
        ConfigError: *k1* or *b* is out of its bounds.
    """

    def __new__(cls, k1: float, b: float) -> Bm25Index: ...
    @staticmethod
    def load(path: str) -> Bm25Index:
        """The index of a file that :meth:`save` wrote."""

    def save(self, path: str) -> None:
        """Writes all of it, or nothing."""

    def params(self) -> tuple[float, float]:
        """``k1`` and ``b``."""

    def add(self, texts: list[str]) -> int:
        """Adds *texts*; the id of the first, which the others follow."""

    def search(self, queries: list[str], k: int) -> tuple[bytearray, bytearray]:
        """Ids (uint64) and scores (float64) of the best for each query, ``min(k, len)`` a row.

        A row is filled up with the id ``2**64 - 1`` and the score 0.
        """

    def len(self) -> int:
        """Texts that were not removed."""

    def remove(self, ids: list[int]) -> None:
        """Removes all of *ids*, or raises ``EntryNotFoundError`` and removes none."""

    def stats(self) -> tuple[int, int, int, int, int]:
        """Texts added, texts removed, different terms, postings, and bytes."""

@final
class Store:
    """The durable store, as tuples. Users have ``siltstone.MemoryStore``, which is built on it.

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
        entries: list[tuple[str, int, int, str, str | None, str, int]],
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

    def insert_entries(
        self, session: str, entries: list[tuple[str, int, int, str, str | None, str, int]]
    ) -> list[int | None]:
        """Stores and indexes *entries* (text, start, end, role, name, kind, created_at), all or none.

        Returns:
            The id of each, None for a blank text, which is not stored. One that the session has already,
            the same text of the same range, keeps its id.
        """

    def search(
        self,
        session: str,
        query: str,
        limit: int,
        ranker: str,
        min_score: float,
        explain: bool,
        decay: tuple[float, float] | None,
        now: int,
    ) -> list[tuple[int, str, int, int, str, str | None, str, int, bool, float, dict[str, Any] | None]]:
        """The best entries (id, text, start, end, role, name, kind, created_at, repaired, score, explain).

        Args:
            session: The session.
            query: Natural language.
            limit: At most so many.
            ranker: How to score.
            min_score: 0..1.
            explain: Whether to say how scores came about.
            decay: What a day leaves of a score, and what is left at least; None is the ranker's own habit.
            now: From when days are counted.

        Raises:
            ConfigError: an unknown ranker, or a decay out of 0..1.
        """

    def get(self, entry_id: int) -> tuple[int, str, str, int, int, str, str | None, str, int, bool]:
        """An entry (id, session, text, start, end, role, name, kind, created_at, repaired).

        Raises:
            EntryNotFoundError: there is none of that id.
        """

    def enumerate(
        self, session: str, overlaps: tuple[int, int] | None, since: int | None, offset: int, limit: int
    ) -> tuple[list[tuple[int, str, str, int, int, str, str | None, str, int, bool]], int | None, list[int]]:
        """A page of entries, as of :meth:`get`; where the next one begins; ids of the page's damaged rows."""

    def stage(
        self,
        session: str,
        entries: list[tuple[str, int, int, str, str | None, str, int]],
        fingerprint: str,
        now: int,
    ) -> str:
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

    def stages(self, session: str | None) -> list[tuple[str, str, str, int, int]]:
        """The batches that wait: token, session, fingerprint, how many entries, created_at."""

    def staged_entries(
        self, session: str
    ) -> list[tuple[int, str, str, int, int, str, str | None, str, int, bool]]:
        """The entries that wait, as of :meth:`get`, under the ids they have there."""

    def sessions(self) -> list[str]:
        """The names of all sessions that were not dropped, in the order of their first writes."""

    def forget(
        self,
        targets: Sequence[tuple[str, list[tuple[int, str]], list[int], list[int], list[int]]],
        replacement: str,
    ) -> tuple[int, int, int, int, bool]:
        """Forgets in one transaction, and then erases the bytes from the files.

        Args:
            targets: Of each session: messages by sequence number with the text that takes their place,
                entries, compactions whose summary goes, and entries that wait. Entries that came from one
                of the messages go as well, and summaries that stand for one.
            replacement: What takes the place of a summary.

        Returns:
            Sessions, messages, entries and summaries that were changed, and whether the bytes are gone.
        """

    def check(self) -> list[tuple[str, str, int | None, str]]:
        """What is not as it should be: code, table, id, message."""

    def repair(self, now: int) -> list[tuple[tuple[str, str, int | None, str], bool]]:
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

    def drop_session(self, session: str) -> int:
        """Deletes the session and leaves a tombstone. The number of entries it had."""

    def stats(self, session: str | None) -> dict[str, Any]:
        """The fields of ``StoreStats``."""

    def close(self) -> None:
        """Lets go of the store. The last one to do so leaves the file complete by itself."""

def _panic(message: str, detached: bool) -> None:
    """Panics, while the interpreter is held or after it was let go: for the test of the wall.

    Raises:
        InternalError: always, with *message*.
    """
