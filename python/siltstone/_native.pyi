"""The compiled core: text, numbers and the store behind siltstone.

Everything here is thin and typed; the public Python names are built on it. Texts may have lone surrogates,
which never raise: a high one followed by a low one is their code point, and any other one counts as U+FFFD.
Sizes are those of the text as it is. A panic of the core is raised as ``siltstone.errors.InternalError``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from siltstone._native_indexes import Bm25Index, DocumentedBm25, HashedTfIndex, Hnsw
from siltstone._native_recall import BlockWriter, RecallContext, Recalled
from siltstone._native_rows import Compaction, Derived, LogRow, LogState, SessionRow
from siltstone._native_search import Asked, Found, SearchOptions, answer
from siltstone._native_store import (
    Finding,
    Forgotten,
    Store,
    StoredEntry,
    mirror_ids_above,
    mirror_schema,
    mirror_take,
    open_mirror,
)
from siltstone.memory.convert import NewEntry
from siltstone.messages import MaterialItem

__all__ = [
    "Asked",
    "BlockWriter",
    "Bm25Index",
    "Compaction",
    "Derived",
    "DocumentedBm25",
    "Finding",
    "Forgotten",
    "Found",
    "HashedTfIndex",
    "Hnsw",
    "LogRow",
    "LogState",
    "Loose",
    "Outline",
    "RecallContext",
    "Recalled",
    "Redactor",
    "SearchOptions",
    "Selection",
    "SessionRow",
    "Store",
    "StoredEntry",
    "Unread",
    "__version__",
    "_panic",
    "answer",
    "begins_alike",
    "best_window",
    "bucket",
    "build_profile",
    "condense",
    "embed_batch",
    "embed_sparse",
    "facts_revision",
    "json_digests",
    "json_size",
    "json_tokens",
    "language",
    "matching_lines",
    "message_items",
    "message_tokens",
    "mirror_ids_above",
    "mirror_schema",
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
    "text_tokens",
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

    A word is a run of alphanumeric code points and combining marks, in lower case, that begins with an
    alphanumeric code point which is not a mark. A run of Han, kana or Hangul becomes its overlapping pairs
    of code points; a single one stays as it is. A run is split where CJK and other letters meet:
    ``"abc漢字仮"`` is ``["abc", "漢字", "字仮"]``.

    Lower case maps one code point to one: the first of its lower-case mapping, with final sigma as sigma.
    The rule is frozen, since stored data depends on it (``tests/vectors/words.json``).
    """

def whitespace_words(text: str) -> list[str]:
    """The stretches of *text* between white space (Unicode's), with ASCII letters in lower case.

    These are the words of the hash rule ``poly31``.
    """

# Position, kind, role, id of the call, name of the tool, text, whether the call failed.
_ItemRow: TypeAlias = tuple[
    int, Literal["text", "tool_call", "tool_result"], str | None, str | None, str | None, str, bool
]

def message_items(raws: list[Any], start: int, end: int) -> tuple[list[_ItemRow], int]:
    """The items of the messages from *start* up to *end*, without earlier summaries.

    Each is the position of its message, its kind, the message's role, the call's id, the tool's name, the
    text, and whether the call failed. The second value is as for :func:`render_messages`.
    """

def render_messages(raws: list[Any], start: int, end: int) -> tuple[str, int]:
    """The lines for a summariser of the messages from *start* up to *end*, without earlier summaries.

    The second value is the position of the first message that Python has to read; *end* if there is none.
    """

def rendered_tokens(raws: list[Any], start: int, end: int, measure: str) -> tuple[list[int], int]:
    """The units of each message's lines, from *start* up to *end*, each line with its line break.

    By *measure* ``bytes`` a line counts a quarter of its bytes, rounded down; by ``code_points`` a third of
    its code points, rounded up; by ``blocks`` as by ``bytes``, and at least 1. The second value is the
    position of the first message that Python has to read.

    Raises:
        ValueError: *measure* is none of these.
    """

def terms(text: str, *, own_language: bool = False, among: str | None = None) -> list[str]:
    """The terms of *text* by the analyser ``lexical-6``, in order, as the ranker ``lexical`` counts them.

    Terms are English stems without accents; stop words are left out unless the text has nothing else.
    Identifiers give their parts and the whole: ``"Ann painted file_path"`` is ``["ann", "paint", "file",
    "path", "filepath"]``. The rules are in docs/how-search-ranks.md.

    Args:
        text: A query or a name; or a text, with *own_language*.
        own_language: Read the text in its own language, as texts of entries are.
        among: The languages that the text may be in, as for :func:`language`.
    """

def language(text: str, among: str | None = None) -> str:
    """The ISO 639-1 code of the language that *text* is read in: ``en`` if no other language is detected.

    Only languages in Latin letters are detected. Other scripts show their language word by word. *among* is
    ``auto``, or language codes with commas between them, the default first.
    """

def best_window(text: str, query: str, size: int) -> tuple[int, int]:
    """The stretch of *text* that best matches *query*: its beginning and end, in code points.

    It has at most *size* bytes of UTF-8. Terms are those of :func:`terms`; each counts once, and terms that
    are rare in *text* count more. Of equal stretches the first is taken. Without a common term it is the
    beginning.
    """

def condense(text: str, earlier: list[tuple[str, str]]) -> str:
    """*text*, shortened where its structure allows; otherwise unchanged.

    *earlier* has handles and texts that the reader has seen: lines of these become references. Time is
    linear in all texts.
    """

@final
class Selection:
    """The lines of a summary request's material, each text once, in the order of how telling they are.

    Sizes are in code points, or else in bytes. Safe to use from many threads.
    """

    def __new__(cls, items: Iterable[MaterialItem], code_points: bool) -> Selection: ...
    @property
    def earlier_size(self) -> int:
        """The size of all lines of earlier summaries."""

    def within(self, room: int) -> str:
        """A summary of the best lines, in order and with their speakers, at most *room* in size.

        A line that mostly says again what better lines say is left out. The text is empty only if there is
        no room for a character.
        """

@final
class Loose:
    """The groups of a history that may leave it.

    Args:
        outline: The history.
        raws: Its messages.
        fixed: Positions of messages that stay, each with its group.
        shown: Called with the position of a message that the core cannot read; returns its text.
        held: A text and a function. The function is called with the position of each request that begins
            with this text (after leading white space); it returns whether the group stays.
        before: The groups of a shorter history: those of the same objects are not read again.

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
        before: Loose | None = None,
    ) -> Loose: ...
    def __len__(self) -> int: ...
    def texts(self) -> list[str]:
        """The texts of the groups that have one, in the order of their first messages."""

    def relevance(self, query: str, k1: float, b: float) -> list[float]:
        """The scores that a ``Bm25Index`` of :meth:`texts` gives them.

        Args:
            query: The query that they are scored for.
            k1: As in ``Bm25Params``.
            b: As in ``Bm25Params``.

        Raises:
            ConfigError: *k1* or *b* is out of its bounds.
        """

    def until(
        self, scores: list[float], units: tuple[str, list[int]] | list[int], most: int, spared: int | None
    ) -> tuple[list[int], int]:
        """The positions that leave until at most *most* units are left, ascending, and the units left.

        The group of the lowest score leaves first, of equal scores the oldest; groups without a text leave
        last, the oldest first.

        Args:
            scores: A score for each of :meth:`texts`.
            units: The running sums of the messages' units; or the arguments of :meth:`Outline.sums` for
                them.
            most: The most units that may be left; below 0, all leave.
            spared: The position of a message whose group stays.

        Raises:
            ValueError: *units* are not of this history, or there are more or fewer *scores*.
        """

def parted(raws: list[Any], gone: list[int]) -> tuple[list[Any], list[Any]]:
    """The items of *raws* that are not at the positions *gone* (ascending), and those that are."""

def matching_lines(text: str, pattern: str) -> list[int]:
    """The numbers of the lines of *text* in which the regular expression *pattern* matches, from 0.

    Lines end at line feeds. The syntax is that of the Rust crate ``regex``, without back references and
    look-around: time is linear in *text* for every pattern.

    Raises:
        ConfigError: *pattern* is no such expression, or a compiled one would take more than a megabyte.
    """

def word_hash(word: str) -> int:
    """XXH3-64, seed 0, of the UTF-8 of *word*: 0 to 2**64 - 1. Equal to ``xxhash.xxh3_64_intdigest``."""

def bucket(word: str, hash_rule: str) -> int:
    """The bucket that *word* falls into, 0 to 4095.

    Args:
        word: A word as the rule's own tokeniser gives it; it is neither cut nor lower-cased here, except
            that ``poly31`` itself folds ASCII letters.
        hash_rule: ``"xxh3"``: :func:`word_hash` modulo 4,096; or ``"poly31"``: ``h = 31 * h + byte`` over
            the UTF-8, from 0, modulo 2**64, then modulo 4,096.

    Raises:
        ConfigError: *hash_rule* is neither.
    """

def embed_batch(texts: list[str], hash_rule: str) -> bytearray:
    """Hashed term frequencies of *texts* as dense rows; other threads run meanwhile.

    ``value(b) = count(b) / sqrt(sum of count(x)**2)``, computed in float64 and rounded to float32 once.

    Args:
        texts: Any texts. The row of a text without words is all zeros.
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
    """The size of *text* in bytes of UTF-8 (three for a lone surrogate), and in code points."""

def text_tokens(text: str, rule: str = "weights") -> int:
    """The tokens of *text* by the weights of its characters, rounded up; 0 for an empty text.

    Args:
        text: A text.
        rule: ``weights``, or that of a family of tokenizers, such as ``weights/qwen``.

    Raises:
        ValueError: *rule* is none of these.
    """

@final
class Outline:
    """The outline of a history, which a policy reads before any message is parsed. Time is linear.

    The core reads plain messages of every dialect: dicts, lists, str, int, float, bool and None (not their
    subclasses), with texts, calls, results and reasoning. Media, unknown blocks and everything that may be
    an error are left to Python; the result is the same as if Python had read all messages.

    Args:
        raws: The messages.
        describe: Called with the position of each message that is left to Python, in order. Returns its
            role, its provenance, whether it is an item of the Responses API, whether it has only reasoning,
            whether it begins a turn, its number of parts, and for each part that ties it to others the kind
            (``tool_call``, ``tool_result``, ``other``, ``reference``), the call's id and the tool's name.
        is_request: Called with each text of a user beside results, of messages that the core reads, until it
            returns True; the text then begins a turn.
        before: The outline of the messages before *raws*, whose positions come first.
    """

    def __new__(
        cls,
        raws: list[Any],
        describe: Callable[
            [int], tuple[str, str, bool, bool, bool, int, list[tuple[str, str | None, str | None]]]
        ],
        is_request: Callable[[str], bool],
        before: Outline | None = None,
    ) -> Outline: ...
    def __len__(self) -> int: ...
    # Positions, ascending: of the messages that were left to Python, of rules, of summaries, of messages
    # that nobody said, of requests that begin turns; and of all messages in groups with a call without a
    # result.
    others: Final[list[int]]
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
        """The positions of the group whose last message is at *position*; None if no group ends there."""

    def last_bound(self) -> list[int]:
        """The positions of the group of several messages that ends last; empty where there is none."""

    def closed(self, kept: list[int]) -> list[tuple[int, int]]:
        """*kept* and every group with one of them, as ascending half-open ranges that do not touch."""

    def breaks(self, spans: list[tuple[int, int]]) -> list[int]:
        """How many messages of *spans* lie before each place that cuts no group; the end last."""

    def parts(self, start: int, end: int) -> int:
        """How many parts the messages from *start* up to *end* have together."""

    def sums(self, measure: str, others: list[int]) -> list[int]:
        """The running sums of the messages' units: of the first 0, 1, 2 … messages.

        Args:
            measure: ``bytes``, ``code_points`` or ``blocks``, as the rules of ``siltstone.tokens`` count.
            others: The units of each message in :attr:`others`.

        Raises:
            ValueError: *measure* is none of these, or *others* has another length.
        """

    def total(self, measure: str, others: list[int]) -> int:
        """The last of :meth:`sums`.

        Raises:
            ValueError: as there.
        """

    def largest(self, measure: str, others: list[int]) -> int:
        """The units of the largest message, with the arguments of :meth:`sums`; 0 if there is none.

        Raises:
            ValueError: as there.
        """

def begins_alike(values: list[Any], objects: list[Any], digests: bytes | None = None) -> bool:
    """Whether *values* begins with *objects*: with the same objects, or with values of equal digests.

    A value that cannot be written as JSON is equal only to itself.

    Args:
        values: The values to check.
        objects: The expected beginning. These objects are not read.
        digests: The result of :func:`json_digests` for *objects*; None: only identical objects count.
    """

def json_digests(values: list[Any]) -> bytes:
    """A digest of 16 bytes of each value, joined: of the JSON text that :func:`json_size` measures.

    Two values have the same digest if and only if they have the same text, except by a chance of 1 in
    2**128. A text with the two halves of a surrogate pair as lone surrogates differs from a text with the
    whole pair. Digests are for comparisons within one process: another version may compute others.

    Raises:
        TypeError, ValueError: those of :func:`json_size`.
    """

def message_tokens(messages: Sequence[object], rule: str = "weights") -> list[int | None]:
    """The tokens of each of *messages* by the weights of its characters; None where the core cannot read it.

    Raises:
        ValueError: that of :func:`text_tokens`.
    """

def json_tokens(value: object, rule: str = "weights") -> int:
    """The tokens of *value* as compact JSON: texts, keys and numbers as in :func:`text_tokens`, together.

    Each mark and each quote around a text counts a quarter.

    Raises:
        TypeError, ValueError: those of :func:`json_size`, and of :func:`text_tokens`.
    """

def json_size(value: object) -> tuple[int, int]:
    """Bytes of UTF-8 and code points of *value* as compact JSON, without writing it.

    Exactly ``text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))``:
    ``len(text.encode("utf-8", "surrogatepass"))`` and ``len(text)``.

    Args:
        value: A dict, list, tuple, str, int, float, bool, None, or a subclass of these. Keys are str, int,
            float, bool or None. Subclasses of dict, list and tuple are read by their own methods.

    Raises:
        TypeError: *value* contains another type; the message names it.
        ValueError: *value* is nested more than 1,000 deep, or contains itself; or an int has more digits
            than ``sys.set_int_max_str_digits`` allows.
    """

def _panic(message: str, detached: bool) -> None:
    """Panics, with the interpreter attached or *detached*: for the test that panics become errors.

    Raises:
        InternalError: always, with *message*.
    """

@final
class Redactor:
    """Rules that find secrets in texts, in time linear in the text. Safe to use from many threads.

    Args:
        strict: Every run of 32 or more characters of hex or base64 is a secret.
        keep_commit_ids: A run of 40 hex digits is not a secret.
        actions: ``(rule, "allow" | "redact" | "block")`` for built-in rules.
        custom: ``(rule, pattern, keywords, placeholder, action)``. A pattern is a regular expression
            without look-around and back references; its group ``s``, or else the whole match, is the
            secret.

    Raises:
        ConfigError: an unknown rule, two rules of one name, an unknown action, or a pattern that is
            invalid, too large, or matches the empty text.
    """

    def __new__(
        cls,
        strict: bool,
        keep_commit_ids: bool,
        actions: list[tuple[str, str]],
        custom: list[tuple[str, str, list[str], str, str]],
    ) -> Redactor: ...
    def redact(self, text: str) -> tuple[str | None, list[tuple[str, int, int, str, bool]]]:
        """The text with placeholders, or None if it has no secret; and the findings.

        Each finding is ``(rule, start, end, placeholder, blocks)``, in code points of *text*, in order and
        without overlap.
        """

def redaction_rules() -> list[str]:
    """The names of the built-in rules. If several match one place, the first of these names the finding."""

@final
class Unread:
    """Messages of a session that have to be read before a search of its namespace."""

    session_id: Final[str]
    rows: Final[list[LogRow]]

def facts_revision(store: Store) -> str | None:
    """A text that changes with every change of a fact in the store; None if its row is damaged."""

def search_across(
    store: Store, session: str, query: str, options: SearchOptions, vector: tuple[int, bytes] | None
) -> tuple[Found | None, list[Unread]]:
    """The best hits of the namespace; or None, with the messages that have to be read first."""

def take_said(store: Store, session: str, said: Sequence[tuple[Unread, Sequence[NewEntry | None]]]) -> None:
    """Indexes those messages: each has one entry or none."""
