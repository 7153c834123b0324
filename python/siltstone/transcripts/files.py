"""The files that a transcript comes in, and the JSON values in them, read one by one."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final
from weakref import finalize

from siltstone.errors import InvalidMessageError
from siltstone.messages import well_formed
from siltstone.redaction import redact

LONGEST: Final = 32 << 20  #: bytes of a line; a longer one is skipped
LARGEST: Final = 64 << 20  #: bytes of an element of a list, or of an object over several lines
MOST_TOLD: Final = 20  #: places that a report names
_CHUNK: Final = 1 << 20
_BLANK: Final = b" \t\r\n\0"
_MAGIC: Final = b"PK\x03\x04"
_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_BROKEN: Final = (ValueError, RecursionError)


@dataclass(slots=True)
class Told:
    """What a reader did not take.

    Attributes:
        left_out: Numbers of records that are no messages of the conversation, by their kind.
        broken: Numbers of lines, elements and files that cannot be read, by the reason.
        places: The first of them: file, line, reason.
        strict: Whether the first broken one is an error.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)
    strict: bool = False

    def bad(self, where: str, what: str, more: object = "") -> None:
        """Counts something broken at *where*."""
        said = f"{where}: {what}{f': {more}' if str(more) else ''}"
        if self.strict:
            raise InvalidMessageError(said, where=where)
        self.broken[what] += 1
        if len(self.places) < MOST_TOLD:
            self.places.append(said)


@dataclass(slots=True, weakref_slot=True)
class Source:
    """A file with transcripts, or a member of a zip file.

    Attributes:
        path: The file as it was given; ``-`` for standard input.
        member: The name inside of the zip file, or empty.
        held: The bytes of standard input, in a temporary file.
        stem: The name of its sessions that have none.
        done: Bytes read so far.
    """

    path: str
    member: str = ""
    held: IO[bytes] | None = None
    stem: str = ""
    done: int = 0

    def __post_init__(self) -> None:
        if self.held is not None:
            finalize(self, self.held.close)

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.path}, {self.member}" if self.member else self.path

    @property
    def place(self) -> str:
        """The absolute path, by which a store remembers the file."""
        if self.path == "-":
            return "-"
        whole = os.fsencode(Path(self.path).absolute()).decode(errors="backslashreplace")
        return str(Path(*map(without_secrets, Path(whole).parts)))

    @property
    def size(self) -> int:
        """The number of its bytes; of a member of a zip file, unpacked."""
        if self.held is not None:
            return self.held.seek(0, os.SEEK_END)
        if self.member:
            with zipfile.ZipFile(self.path) as archive:
                return archive.getinfo(self.member).file_size
        return Path(self.path).stat().st_size

    def state(self) -> list[int]:
        """The size and the time of the last change, in nanoseconds; nothing for standard input."""
        if self.held is not None:
            return []
        found = Path(self.path).stat()
        return [found.st_size, found.st_mtime_ns]

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The bytes as UTF-8, from the beginning."""
        self.done = 0
        if self.held is not None:
            self.held.seek(0)
            yield self.held
        elif self.member:
            with (
                zipfile.ZipFile(self.path) as archive,
                archive.open(self.member) as packed,
                _utf8(packed) as stream,
            ):
                yield stream
        else:
            with Path(self.path).open("rb") as file, _utf8(file) as stream:
                yield stream


def without_secrets(name: str) -> str:
    """*name* without secrets. A digest keeps apart what had different ones."""
    clean, found = redact(name)
    return f"{clean}-{blake2b(name.encode(), digest_size=4).hexdigest()}" if found else name


def sources(paths: Iterable[str | os.PathLike[str]]) -> list[Source]:
    """The files that *paths* name: files, all files below directories, members of zip files, ``-``."""
    found, taken = [each for path in paths for each in _sources(os.fspath(path))], set[str]()
    for source in found:
        parts = Path(source.member or source.path).with_suffix("").parts[::-1]
        names = ("-".join(parts[:most][::-1]) for most in range(1, len(parts) + 1))
        source.stem = next((name for name in names if name not in taken), f"{len(taken)}")
        source.stem = "input" if source.path == "-" else well_formed(source.stem)
        taken.add(source.stem)
    return found


def _sources(path: str) -> Iterator[Source]:
    place = Path(path)
    if path == "-":
        yield Source("-", held=_held(sys.stdin.buffer))
    elif place.is_dir():
        for each in sorted(place.rglob("*")):
            if each.suffix.lower() in (*_SUFFIXES, ".zip") and each.is_file():
                yield from _sources(str(each))
    elif not stat.S_ISREG(place.stat().st_mode):
        with place.open("rb") as pipe:
            yield Source(path, held=_held(pipe))
    else:
        members = [""]
        with place.open("rb") as file, suppress(zipfile.BadZipFile, *_BROKEN):
            if file.read(len(_MAGIC)) == _MAGIC:
                members = zipfile.ZipFile(file).namelist()
        named = [each for each in members if Path(each).suffix.lower() in _SUFFIXES]
        yield from (Source(path, each) for each in named or [""])


def _held(stream: IO[bytes]) -> IO[bytes]:
    """A copy of *stream* in a temporary file, which can be read twice."""
    held = tempfile.TemporaryFile()  # noqa: SIM115 - the source has it as long as it lives
    shutil.copyfileobj(stream, held)
    held.seek(0)
    return _utf8(held)


def _utf8(stream: IO[bytes]) -> IO[bytes]:
    """*stream* in UTF-8 without its mark, if a mark or its first bytes tell another form of Unicode."""
    head = stream.read(4)
    if head.startswith(codecs.BOM_UTF8):
        stream.seek(len(codecs.BOM_UTF8))
        return stream
    stream.seek(0)
    is_marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not is_marked and (head[1:2], head[3:4], head[:1] in (b"[", b"{")) != (b"\0", b"\0", True):
        return stream
    recoded = tempfile.TemporaryFile()  # noqa: SIM115 - the caller reads it
    decoder = codecs.getincrementaldecoder("utf-16" if is_marked else "utf-16-le")("replace")
    while chunk := stream.read(_CHUNK):
        recoded.write(decoder.decode(chunk).encode(errors="replace"))
    recoded.seek(0)
    return recoded


def values(source: Source, told: Told) -> Iterator[tuple[str, Any]]:
    """The values of a file, each with its place: of one list, one object, or one value in each line.

    A line, an element and an object are read whole, the file is not.
    """
    try:
        with source.opened() as stream:
            start = stream.tell()
            head = stream.readline(_CHUNK)
            while head and not head.strip(_BLANK) and len(head) < _CHUNK:
                head = stream.readline(_CHUNK)
            first, is_last = head.lstrip(_BLANK)[:1], not stream.read(_CHUNK).strip(_BLANK)
            stream.seek(start)
            if first == b"[" and (is_last or not _is_json(head)):
                yield from _elements(source, stream, told)
                return
            if first == b"{" and not is_last and not _is_json(head):
                whole = stream.read(LARGEST + 1)
                if len(whole) <= LARGEST and _is_json(whole):
                    source.done += len(whole)
                    yield source.name, json.loads(whole)
                    return
                del whole
                stream.seek(start)
            yield from _lines(source, stream, told)
    except (zipfile.BadZipFile, zipfile.zlib.error, EOFError, NotImplementedError) as error:  # type: ignore[attr-defined]
        told.bad(source.name, "a damaged zip file", error)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except _BROKEN:
        return False
    return True


def _lines(source: Source, stream: IO[bytes], told: Told) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        where = f"{source.name}, line {number}"
        source.done += len(line)
        if len(line) > LONGEST and not line.endswith(b"\n"):
            while (rest := stream.readline(LONGEST)) and not rest.endswith(b"\n"):
                source.done += len(rest)
            told.bad(where, f"a line over {LONGEST:,} bytes")
            continue
        said = line.strip(_BLANK)
        if not said:
            if b"\0" in line:
                told.bad(where, "NUL bytes")
            continue
        try:
            value = json.loads(said.decode())
        except UnicodeDecodeError as error:
            told.bad(where, "not UTF-8 text", error)
        except _BROKEN as error:
            cut = " (the file ends in it)" if not line.endswith(b"\n") else ""
            told.bad(where, f"not JSON{cut}", error)
        else:
            yield where, value


def _elements(source: Source, stream: IO[bytes], told: Told) -> Iterator[tuple[str, Any]]:
    """The elements of one JSON list. Behind a broken one it goes on where the next one seems to begin."""
    bytes_in, decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape"), json.JSONDecoder()
    text, at, is_all, index = "", 0, False, 0
    begins: re.Pattern[str] | None = None
    is_lost, is_open = False, False

    def more() -> None:
        nonlocal text, at, is_all
        chunk = stream.read(max(_CHUNK, len(text) - at))
        source.done += len(chunk)
        text, at, is_all = text[at:] + bytes_in.decode(chunk, final=not chunk), 0, not chunk

    while True:
        if is_lost and begins is not None:
            found = begins.search(text, at)
            at = found.start(1) if found else max(at, len(text) - 200)
            is_lost = not found
        space = re.compile(r"[\s,\0]*" if is_open else r"[\s\0]*").match(text, at)
        at = space.end() if space else at
        if is_lost or at >= len(text):
            if is_all or (is_lost and begins is None):
                if is_open and not is_lost:
                    told.bad(f"{source.name}, message {index}", "not JSON (the file ends in it)")
                return
            more()
            continue
        where = f"{source.name}, message {index}"
        if not is_open or text[at] == "]":
            if is_open:
                if re.compile(r"[\s\0]*\Z").match(text, at + 1) is None:
                    told.bad(source.name, "text behind the list")
                return
            is_open, at = True, at + 1
            continue
        try:
            value, end = decoder.raw_decode(text, at)
        except _BROKEN as error:
            if not is_all and len(text) - at < LARGEST and _is_unfinished(error, text):
                more()
                continue
            what = "not JSON (the file ends in it)" if is_all and _is_unfinished(error, text) else "not JSON"
            told.bad(where, what if len(text) - at < LARGEST else f"an element over {LARGEST:,} bytes", error)
            begins = begins or _beginning(text, at)
            is_lost, at, index = True, at + 1, index + 1
            continue
        begins = begins or _beginning(text, at)
        if not text.isascii() and re.search("[\udc80-\udcff]", text[at:end]):
            told.bad(where, "not UTF-8 text")
        else:
            yield where, value
        at, index = end, index + 1


def _is_unfinished(error: Exception, text: str) -> bool:
    """Whether the text may only lack its end."""
    return isinstance(error, json.JSONDecodeError) and (
        error.msg.startswith("Unterminated string") or error.pos >= len(text) - 12
    )


def _beginning(text: str, at: int) -> re.Pattern[str] | None:
    """What an element begins with if it begins as the one at *at* does."""
    key = re.compile(r'\{\s*("[^"\\]{1,100}")\s*:').match(text, at)
    return None if key is None else re.compile(rf"[,\[\s](\{{\s*{re.escape(key[1])}\s*:)")
