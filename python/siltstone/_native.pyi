"""The compiled core: text, numbers and the store behind siltstone.

Everything here is thin and typed; what users call is built on it in Python. Texts may hold lone
surrogates and never raise for it: a high one that is followed by a low one stands for their code
point, any other counts as U+FFFD. Sizes are those of the text as it is. A panic of the core is raised
as ``siltstone.errors.InternalError``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from siltstone._native_indexes import Bm25Index, DocumentedBm25, Flat, HashedTfIndex, Hnsw
from siltstone._native_recall import BlockOptions, BlockWriter, RecallContext, Recalled, RecallQuery
from siltstone._native_rows import Compaction, Derived, LogRow, LogState, SessionRow
from siltstone._native_search import Asked, Found, Hit, SearchOptions
from siltstone._native_store import (
    Finding,
    Forgotten,
    Page,
    Stage,
    Store,
    StoredEntry,
    _NewEntry,
    mirror_ids_above,
    mirror_tables,
    mirror_take,
    open_mirror,
)

__all__ = [
    "Asked",
    "BlockOptions",
    "BlockWriter",
    "Bm25Index",
    "Compaction",
    "Derived",
    "DocumentedBm25",
    "Finding",
    "Flat",
    "Forgotten",
    "Found",
    "HashedTfIndex",
    "Hit",
    "Hnsw",
    "KnownMessages",
    "Leaving",
    "LogRow",
    "LogState",
    "Loose",
    "Outline",
    "Page",
    "RecallContext",
    "RecallQuery",
    "Recalled",
    "Redactor",
    "SearchOptions",
    "SessionRow",
    "Stage",
    "Store",
    "StoredEntry",
    "Unread",
    "__version__",
    "_panic",
    "begins_alike",
    "best_window",
    "bm25_scores",
    "bucket",
    "build_profile",
    "condense",
    "embed_batch",
    "embed_sparse",
    "facts_revision",
    "json_digests",
    "json_size",
    "language",
    "matching_lines",
    "mirror_ids_above",
    "mirror_tables",
    "mirror_take",
    "open_mirror",
    "parted",
    "redaction_rules",
    "render_messages",
    "rendered_tokens",
    "search_across",
    "take_said",
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

def terms(text: str, *, own_language: bool = False, among: str | None = None) -> list[str]:
    """The terms of *text* by the analyser ``lexical-4``, in order: what the ranker ``lexical`` counts.

    Words without accents, stop words left out where anything else remains, in their English stems;
    identifiers in their parts and whole: ``"Ann painted file_path"`` is ``["ann", "paint", "file",
    "path", "filepath"]``. The rules are in docs/how-search-ranks.md.

    Args:
        text: A query or a name; or a text, with *own_language*.
        own_language: Read it in the language that it is of, as texts of entries are.
        among: The languages that it may be of, as for :func:`language`.
    """

def language(text: str, among: str | None = None) -> str:
    """The ISO 639-1 code of the language that *text* is read in: ``en`` where it is of no other known one.

    That of a text in Latin letters alone. Other scripts tell theirs word by word.
    """

def best_window(text: str, query: str, size: int) -> tuple[int, int]:
    """Where the stretch of *text* that says most of what *query* asks begins and ends, in code points.

    It has at most *size* bytes of UTF-8. Terms are those of :func:`terms`; each counts once, and those that
    are rare in *text* more; of equal stretches it is the first. Without a term in common it is the beginning.
    """

def condense(text: str, earlier: list[tuple[str, str]]) -> str:
    """*text* with fewer bytes where its structure allows, the same text where it does not.

    *earlier* are handles and texts of what the reader has before them: lines of these are named. Time is
    linear in all of it.
    """

@final
class KnownMessages:
    """What was read of the messages of the last list, 32 MB of terms at most. Safe to use from many threads.

    A message is known by the texts and numbers that it is made of, which are held: one that was changed in
    its place is another one.
    """

    def __new__(cls) -> KnownMessages: ...

@final
class Loose:
    """The groups of a history that may leave it.

    Args:
        outline: The history.
        raws: Its messages.
        fixed: Positions of messages that stay, each with its group.
        shown: Called with the position of a message that the core does not read: what it says.
        held: A text, and what is called with the position of each request that may begin with it, space
            before it apart: whether its group stays.

    Raises:
        ValueError: *raws* has another length than the history.
    """

    def __new__(
        cls,
        outline: Outline,
        raws: list[Any],
        fixed: list[int],
        shown: Callable[[int], str],
        held: tuple[str, Callable[[int], bool]],
    ) -> Loose: ...
    def __len__(self) -> int: ...
    def texts(self) -> list[str]:
        """What each group says that says anything, the one that begins first before the others."""

    def by_relevance(self, query: str, k1: float, b: float) -> Leaving:
        """Ordered by BM25 of their texts, as those of :func:`bm25_scores`: the lowest score leaves first.

        The oldest of equal scores is the first; those without a text come last, by time.

        Args:
            query: What they are measured by.
            k1: As in :func:`bm25_scores`.
            b: As in :func:`bm25_scores`.

        Raises:
            ConfigError: *k1* or *b* is out of its bounds.
        """

    def by_scores(self, scores: list[float]) -> Leaving:
        """Ordered by a score of each of :meth:`texts`.

        Raises:
            ValueError: there are more or fewer *scores*.
        """

@final
class Leaving:
    """Groups in the order in which they leave."""

    @staticmethod
    def of_known(
        known: KnownMessages,
        outline: Outline,
        raws: list[Any],
        fixed: list[int],
        shown: Callable[[int], str],
        held: tuple[str, Callable[[int], bool]],
        query: str,
        k1: float,
        b: float,
    ) -> Leaving:
        """As :meth:`Loose.by_relevance` of a :class:`Loose` of the same; nothing known is read again."""

    def until(
        self, units: tuple[str, list[int]] | list[int], most: int, spared: int | None
    ) -> tuple[list[int], int]:
        """The positions that leave until *most* units are left, ascending, and the units that are left.

        Args:
            units: The units of the first 0, 1, 2 … messages; or what :meth:`Outline.sums` is asked for them.
            most: The most units that may be left; below 0 all leave.
            spared: The position of a message whose group stays.

        Raises:
            ValueError: *units* are not of this history.
        """

def parted(raws: list[Any], gone: list[int]) -> tuple[list[Any], list[Any]]:
    """The items of *raws* that are not at one of *gone*, which ascend, and those that are."""

def bm25_scores(texts: list[str], query: str, k1: float, b: float) -> list[float]:
    """The scores of *texts* for one query: those of a ``Bm25Index`` of the same texts, which is not made.

    0 where a text shares no term with *query*.

    Raises:
        ConfigError: *k1* or *b* is out of its bounds.
    """

def matching_lines(text: str, pattern: str) -> list[int]:
    """The numbers of the lines of *text* in which the regular expression *pattern* matches, from 0.

    Lines end at line feeds. The syntax is that of the Rust crate ``regex``, without back references and
    looking around: time is linear in *text*, whatever the pattern.

    Raises:
        ConfigError: *pattern* is no such expression, or a compiled one would take more than a megabyte.
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
            reasoning, whether it opens a turn, its number of parts, and for each part that ties it to
            others the kind (``tool_call``, ``tool_result``, ``other``, ``reference``), the call's id and
            the tool's name.
        opens_turn: Called with the position of each message that the core reads and in which a user's
            words stand beside results: whether they open a turn.
        known: What was read of another list, and will be of this one; nothing known is read again. The two
            functions have to answer as they did.
    """

    def __new__(
        cls,
        raws: list[Any],
        describe: Callable[
            [int], tuple[str, str, bool, bool, bool, int, list[tuple[str, str | None, str | None]]]
        ],
        opens_turn: Callable[[int], bool],
        known: KnownMessages | None = None,
    ) -> Outline: ...
    def __len__(self) -> int: ...
    # Positions, ascending: of the messages that were left to Python, that carry rules, that are summaries,
    # that nobody said, that open turns; and of the groups that have a call without a result.
    odd: Final[list[int]]
    rules: Final[list[int]]
    summaries: Final[list[int]]
    unoriginal: Final[list[int]]
    requests: Final[list[int]]
    pending: Final[list[int]]
    turn_count: Final[int]
    in_flight: Final[bool]
    def turn(self, number: int) -> tuple[int, int, int]:
        """Start, end and request of a turn, as in ``siltstone.messages.Turn``.

        Raises:
            ValueError: there are not so many.
        """

    def group_ending_at(self, position: int) -> list[int] | None:
        """The positions of the group whose last message stands at *position*; None where none ends."""

    def last_bound(self) -> list[int]:
        """The positions of the group of several messages that ends last; empty where there is none."""

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

    def total(self, measure: str, odd: list[int]) -> int:
        """The last of :meth:`sums`.

        Raises:
            ValueError: as there.
        """

def begins_alike(values: list[Any], objects: list[Any], digests: bytes | None = None) -> bool:
    """Whether *values* begins with *objects*: with the same objects, or with values of the same digests.

    A value that cannot be written as JSON is like none but itself.

    Args:
        values: What to look at.
        objects: What it should begin with. None of them is read.
        digests: The answer of :func:`json_digests` for *objects*; None: only the same objects count.
    """

def json_digests(values: list[Any]) -> bytes:
    """Of each value 16 bytes: a digest of its JSON text, the one that :func:`json_size` measures.

    Two values have the same digest if and only if they have the same text, but for a chance of 1 in 2**128.
    Texts that hold halves of a surrogate pair apart differ from texts that hold the whole pair. Digests are
    for comparisons within one process: another version may make others.

    Raises:
        TypeError, ValueError: those of :func:`json_size`.
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

def _panic(message: str, detached: bool) -> None:
    """Panics, while the interpreter is held or after it was let go: for the test of the wall.

    Raises:
        InternalError: always, with *message*.
    """

@final
class Redactor:
    """Rules that find secrets in texts, each linear in the text. Any number of threads may use one.

    Args:
        strict: Every run of 32 or more characters of hex or base64 is a secret.
        keep_commit_ids: Hex of 40 digits is none.
        actions: ``(rule, "allow" | "redact" | "block")`` for built-in rules.
        custom: ``(rule, pattern, keywords, placeholder, action)``. A pattern is a regular expression without
            look-around and back references; its group ``s``, or all of it, is the secret.

    Raises:
        ConfigError: no rule of that name, two of one name, an unknown action, or a pattern that is none, is
            too large or matches the empty text.
    """

    def __new__(
        cls,
        strict: bool,
        keep_commit_ids: bool,
        actions: list[tuple[str, str]],
        custom: list[tuple[str, str, list[str], str, str]],
    ) -> Redactor: ...
    def redact(self, text: str) -> tuple[str | None, list[tuple[str, int, int, str, bool]]]:
        """The text with placeholders, or None where there is no secret; and where they stood.

        Each is ``(rule, start, end, placeholder, blocks)``, in code points of *text*, in order and apart.
        """

def redaction_rules() -> list[str]:
    """The names of the built-in rules, in the order in which they name a place."""

@final
class Unread:
    """Messages of a session that a search of its namespace has to have read."""

    session_id: Final[str]
    rows: Final[list[LogRow]]

def facts_revision(store: Store) -> str | None:
    """A text that changes with every change of a fact of the store; None where its row is damaged."""

def search_across(
    store: Store, session: str, query: str, options: SearchOptions, vector: tuple[int, bytes] | None
) -> tuple[Found | None, list[Unread]]:
    """The best of all sessions of the namespace; or None, and messages that have to be read first."""

def take_said(store: Store, session: str, said: Sequence[tuple[Unread, Sequence[_NewEntry | None]]]) -> None:
    """Takes in what there is to find of those messages: of each one entry or none."""
