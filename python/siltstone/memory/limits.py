"""Bounds of one call of a store: of entries, messages and queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from siltstone import _native
from siltstone.errors import ConfigError, InvalidEntryError, MessageRefusedError
from siltstone.memory.entry import Entry
from siltstone.memory.log import NewMessage
from siltstone.messages import MAX_MESSAGE_BYTES
from siltstone.values import dataclass, replace

__all__ = [
    "DEFAULTS",
    "MAX_BATCH",
    "MAX_LIMIT",
    "MAX_QUERY_BYTES",
    "MAX_TEXT_BYTES",
    "Limits",
]

MAX_TEXT_BYTES = 16 * 1024 * 1024  #: bytes of one entry's text, as UTF-8
MAX_QUERY_BYTES = 64 * 1024  #: bytes of a query, as UTF-8
MAX_LIMIT = 1_000  #: hits a search returns at most, whatever the caller asks for
MAX_BATCH = 100_000  #: entries of one call

# What the core takes, whatever a store is told. A message is read before a store sees it, by one rule.
_MOST = {
    "message_bytes": MAX_MESSAGE_BYTES,
    "text_bytes": 256 * 1024 * 1024,
    "query_bytes": 16 * 1024 * 1024,
    "hits": 1_000_000,
    "batch": 10_000_000,
}
_LEAST = {"text_bytes": 4}  # no character of UTF-8 is longer, so every text can be cut
_BYTES_PER_CODE_POINT = 4  # at most, in UTF-8
_AT_A_WORD = 256  # code points that a cut goes back for, to fall between two words


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a store takes in one call: ``MemoryStore.open(path, limits=Limits(hits=5_000))``.

    A call over a limit raises an error that names what, the limit and the value, before anything is
    written. They are the caller's, not the file's: another one may open the same store with others, and
    what was stored stays readable.

    Attributes:
        message_bytes: JSON of a message that is appended to a log, 1..32 MiB.
        text_bytes: Text, role, name or kind of an entry, as UTF-8, 4..256 MiB. What a compaction discards
            is not refused for it, but cut into several entries.
        query_bytes: A query, as UTF-8, 1..16 MiB.
        hits: Hits of a search, 1..1,000,000. Who asks for more gets as many.
        batch: Entries of one ``index`` or ``stage``, 1..10,000,000. What a compaction discards goes in one
            step, however many entries that are.

    Raises:
        ConfigError: one of them is not in those bounds.
    """

    message_bytes: int = MAX_MESSAGE_BYTES
    text_bytes: int = MAX_TEXT_BYTES
    query_bytes: int = MAX_QUERY_BYTES
    hits: int = MAX_LIMIT
    batch: int = MAX_BATCH

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            value, least = getattr(self, name), _LEAST.get(name, 1)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ConfigError(
                    f"{name} of Limits must be an int in {least}..{most}, got {value!r}",
                    field=name,
                    value=value,
                )

    def check_batch(self, entries: Sequence[Entry]) -> None:
        """Refuses entries that are too many, or of which one is too long.

        Raises:
            InvalidEntryError: carries ``field``, ``size`` and ``limit``.
        """
        if len(entries) > self.batch:
            raise InvalidEntryError(
                f"a batch must be at most {self.batch} entries, got {len(entries)} entries: hand them over "
                "in several calls",
                field="entries",
                size=len(entries),
                limit=self.batch,
            )
        for place, entry in enumerate(entries):
            for field, text in (
                ("content", entry.content),
                ("role", entry.role),
                ("name", entry.name),
                ("kind", entry.kind),
            ):
                if size := _over(text, self.text_bytes):
                    raise InvalidEntryError(
                        f"entries[{place}].{field} must be at most {self.text_bytes} bytes, got {size} bytes",
                        field=f"entries[{place}].{field}",
                        size=size,
                        limit=self.text_bytes,
                    )

    def check_query(self, query: str) -> None:
        """Refuses a query that is too long.

        Raises:
            InvalidEntryError: carries ``field``, ``size`` and ``limit``.
        """
        if size := _over(query, self.query_bytes):
            raise InvalidEntryError(
                f"a query must be at most {self.query_bytes} bytes, got {size} bytes",
                field="query",
                size=size,
                limit=self.query_bytes,
            )

    def check_messages(self, messages: Iterable[NewMessage], first: int) -> None:
        """Refuses messages of which one is too large; *first* is the sequence number of the first of them.

        Raises:
            MessageRefusedError: carries ``index``, ``size`` and ``limit``.
        """
        for seq, message in enumerate(messages, first):
            if size := _over(message.raw, self.message_bytes):
                raise MessageRefusedError(
                    f"message {seq} is {size} bytes of JSON; the limit of the store is {self.message_bytes}",
                    index=seq,
                    size=size,
                    limit=self.message_bytes,
                )

    def cut(self, entries: Iterable[Entry]) -> list[Entry]:
        """*entries*, those that are too long in several pieces of the same range.

        What leaves a context is not refused for its length: a compaction that cannot be committed would be
        tried for ever. A piece ends after a word, where there is one nearby.
        """
        whole: list[Entry] = []
        for entry in entries:
            if _over(entry.content, self.text_bytes):
                whole += (replace(entry, content=piece) for piece in self._pieces(entry.content))
            else:
                whole.append(entry)
        return whole

    def _pieces(self, text: str) -> Iterator[str]:
        start, most = 0, self.text_bytes // _BYTES_PER_CODE_POINT
        while start < len(text):
            end = start + most
            if end < len(text):
                space = text.rfind(" ", max(start, end - _AT_A_WORD), end)
                end = end if space <= start else space + 1
            yield text[start:end]
            start = end


DEFAULTS = Limits()


def _over(text: str | None, most: int) -> int:
    """The bytes of *text*, if they are more than *most*, and 0 otherwise."""
    if not isinstance(text, str) or len(text) * _BYTES_PER_CODE_POINT <= most:
        return 0  # what is no text is the core's to refuse
    size, _ = _native.text_size(text)
    return size if size > most else 0
