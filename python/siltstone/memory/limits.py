"""Limits of one call of a store, and the languages that a caller may choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from siltstone import _native
from siltstone.errors import ConfigError, InvalidEntryError, MessageRefusedError
from siltstone.memory.convert import NewEntry
from siltstone.memory.entry import Entry
from siltstone.memory.log import NewMessage
from siltstone.messages import MAX_MESSAGE_BYTES

MAX_TEXT_BYTES = 16 * 1024 * 1024  #: bytes of one entry's text, as UTF-8
MAX_QUERY_BYTES = 64 * 1024  #: bytes of a query, as UTF-8
MAX_LIMIT = 1_000  #: the maximum number of hits of a search, for any requested limit
MAX_BATCH = 100_000  #: entries of one call

# The core's own limits, for any settings. Messages have one limit, since they are read before the store.
_MOST = {
    "message_bytes": MAX_MESSAGE_BYTES,
    "text_bytes": 256 * 1024 * 1024,
    "query_bytes": 16 * 1024 * 1024,
    "hits": 1_000_000,
    "batch": 10_000_000,
}
_LEAST = {"text_bytes": 4}  # the longest character in UTF-8, so every text can be cut
_BYTES_PER_CODE_POINT = 4  # the maximum in UTF-8
_AT_A_WORD = 256  # code points that a cut may move back, to fall between two words


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call of a store: ``MemoryStore.open(path, limits=Limits(hits=5_000))``.

    A call over a limit raises an error that names the field, the limit and the value, before anything is
    written. The limits belong to the caller, not to the file: another caller may open the same store with
    other limits, and stored data stays readable.

    Attributes:
        message_bytes: Bytes of an appended message as JSON, 1 byte to 32 MiB.
        text_bytes: Bytes of the text, role, name or kind of an entry, as UTF-8, 4 bytes to 256 MiB. A longer
            text that a compaction discards is not refused, but cut into several entries.
        query_bytes: Bytes of a query, as UTF-8, 1 byte to 16 MiB.
        hits: The maximum number of hits of a search, 1..1,000,000. A larger request gets this number.
        batch: Entries of one ``index``, 1..10,000,000. A compaction indexes its discarded
            messages in one step, also above this number.

    Raises:
        ConfigError: a limit is out of its bounds.
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
                    f"{name} of Limits must be an integer in {least}..{most}, got {value!r}", name, value
                )

    def check_batch(self, entries: Sequence[Entry]) -> None:
        """Checks the number of entries, and the size of each.

        Raises:
            InvalidEntryError: too many entries, or one is too long. Carries ``field``, ``size`` and
                ``limit``.
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
            if not hasattr(entry, "content"):
                raise InvalidEntryError(f"entries[{place}] must be a siltstone.Entry, got {entry!r}")
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
        """Checks the type and the size of a query.

        Raises:
            InvalidEntryError: it is no text, or too long. Carries ``field``, and ``size`` and ``limit``.
        """
        if not isinstance(query, str):
            raise InvalidEntryError(f"a query must be a text, got {query!r}", field="query")
        if size := _over(query, self.query_bytes):
            raise InvalidEntryError(
                f"a query must be at most {self.query_bytes} bytes, got {size} bytes",
                field="query",
                size=size,
                limit=self.query_bytes,
            )

    def check_messages(self, messages: Iterable[NewMessage], first: int) -> None:
        """Checks the size of each message; *first* is the sequence number of the first.

        Raises:
            MessageRefusedError: one is too large. Carries ``index``, ``size`` and ``limit``.
        """
        for seq, message in enumerate(messages, first):
            if len(message.raw) * _BYTES_PER_CODE_POINT <= self.message_bytes:
                continue
            if size := _over(message.raw, self.message_bytes):
                raise MessageRefusedError(
                    f"message {seq} is {size} bytes of JSON; the limit of the store is {self.message_bytes}",
                    index=seq,
                    size=size,
                    limit=self.message_bytes,
                )

    def cut(self, entries: Iterable[NewEntry]) -> Iterator[NewEntry]:
        """*entries*, one after another, with each too long entry cut into pieces of the same range.

        A compaction's entries are not refused for their length, because a compaction that cannot be committed
        would be tried for ever. A piece ends after a space, if there is one nearby.
        """
        for entry in entries:
            text = entry.content
            if len(text) * _BYTES_PER_CODE_POINT > self.text_bytes and _over(text, self.text_bytes):
                yield from (entry._replace(content=piece) for piece in self._pieces(text))
            else:
                yield entry

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
        return 0  # the core refuses a value that is no text
    size, _ = _native.text_size(text)
    return size if size > most else 0


def checked_limit(limit: int) -> int:
    """*limit*, the most hits that a caller wants.

    Raises:
        InvalidEntryError: it is no integer, or below 0. Carries ``field`` and ``value``.
    """
    if not hasattr(limit, "__index__") or limit < 0:
        raise InvalidEntryError(f"limit must be an integer >= 0, got {limit!r}", field="limit", value=limit)
    return limit


# The languages of texts that a caller may choose.

AUTO: Final = "auto"

#: The supported languages in Latin letters, by ISO 639-1 code. Other scripts are recognised by their letters.
LANGUAGES: Final = {
    "da": "Danish",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hu": "Hungarian",
    "it": "Italian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pt": "Portuguese",
    "ro": "Romanian",
    "sv": "Swedish",
    "tr": "Turkish",
    "vi": "Vietnamese",
}


def language_name(given: str | Sequence[str]) -> str:
    """*given* as the core takes it: ``auto``, or codes with commas between them.

    Args:
        given: ``"auto"``, a code, or a sequence of codes, the most usual one first.

    Raises:
        ConfigError: an unknown code, or no code.
    """
    if given == AUTO:
        return AUTO
    codes: list[Any] = [given] if isinstance(given, str) else list(_sequence(given))
    for code in codes:
        if not isinstance(code, str) or code not in LANGUAGES:
            raise _unknown(code, given)
    if not codes:
        raise _wrong("'auto', a code, or a list of codes with at least one", given)
    return ",".join(codes)


def _sequence(given: object) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return given
    raise _wrong("'auto', a code, or a list of codes", given)


def _unknown(code: object, given: object) -> ConfigError:
    """The error for an unknown code. It suggests the code of a language name, or of a longer code."""
    if code == AUTO:
        return _wrong("'auto' alone, or codes without it", given)
    near = _nearest(code.lower()) if isinstance(code, str) else None
    hint = f"; did you mean {near!r} ({LANGUAGES[near]})?" if near else ""
    known = ", ".join(LANGUAGES)
    return _wrong(
        f"'auto' or codes of {known} (other scripts tell their languages by themselves)", given, hint
    )


def _nearest(word: str) -> str | None:
    from difflib import get_close_matches  # only errors need it

    if word[:2] in LANGUAGES and (len(word) < 4 or word[2] in "-_"):
        return word[:2]
    by_name = {name.lower(): code for code, name in LANGUAGES.items()}
    close = get_close_matches(word, by_name, 1)
    return by_name[close[0]] if close else None


def _wrong(bound: str, given: object, hint: str = "") -> ConfigError:
    return ConfigError(f"language must be {bound}, got {given!r}{hint}", field="language", value=given)
