"""A vault: memories and summaries as Markdown files with front matter, kept equal to a session's log.

::

    <root>/<name>/memories/20260215-184902-memory.md
    <root>/<name>/summaries/recent.md
    <root>/<name>/summaries/longterm.md
    <root>/<name>/summaries/recent-20260215-184902.md      a copy of each recent summary

A file is there whole or not at all. Two of one second get ``-2``, ``-3`` and so on.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from siltstone.archive.records import locked
from siltstone.compaction.base import Compactor
from siltstone.compaction.prompts import unframed
from siltstone.errors import ConfigError, StoreIoError
from siltstone.memory.base import rows_of
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow, Derived, LogRow, SessionLog
from siltstone.messages import RawMessage, decode, indexable_text, read_message
from siltstone.messages.message import RULE_ROLES
from siltstone.systems.waterfall.config import LONGTERM_PREFIX, RECENT_PREFIX, WaterfallConfig
from siltstone.systems.waterfall.policy import Memory, WaterfallRestored, WaterfallState

T = TypeVar("T")

SummaryType: TypeAlias = Literal["recent", "longterm"]

HEADINGS: Final = {"recent": "# Recent Memory Summary", "longterm": "# Long-term Memory Summary"}
_KINDS: Final[dict[str, SummaryType]] = {"recent": "recent", "longterm": "longterm"}
MEMORY_HEADING: Final = "# Memory"
OWN_FIELDS: Final = frozenset({"timestamp", "type", "seq"})  # of the front matter of a memory
AMBIENT: Final = "ambient"  # the type of event that is no memory
NAME_FILE: Final = ".name"  # whose folder it is
END_FILE: Final = ".end"  # how far its writers are
_UNFINISHED: Final = ".writing-"  # begins the name of a file that is not complete
_WRITING_SECONDS: Final = 60.0
_LONGEST: Final = 200  # bytes of a folder's name: file systems take 255, and encryption lowers that
STAMP: Final = "%Y%m%d-%H%M%S"


@dataclass(frozen=True, slots=True)
class VaultMemory:
    """A memory.

    Attributes:
        content: Its text.
        at: Its time, in UTC.
        seq: Its number in the session; None in a vault without numbers.
        metadata: ``location``, ``location_id``, ``occupants``, ``event_type`` and any other fields, each a
            line of the front matter; a name has no colon and is not ``timestamp``, ``type`` or ``seq``.
    """

    content: str
    at: datetime
    seq: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VaultSummary:
    """A summary.

    Attributes:
        text: Its text.
        kind: ``recent`` or ``longterm``.
        updated: The time of writing, in UTC.
        covers: The half-open range of memories that it replaces.
        last: The number of memories when the run began.
        level: 1 for a summary of memories, else one more than the summaries of which it was made.
    """

    text: str
    kind: SummaryType
    updated: datetime
    covers: tuple[int, int]
    last: int = 0
    level: int = 1


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a vault.

    Attributes:
        memories: The memories by number, else by file name.
        recent: The recent summary; None if there is none.
        longterm: The long-term summary; None if there is none.
        copies: The kept copies of recent summaries, oldest first.
        unreadable: The files that cannot be read as a memory or a summary, with the reason.
    """

    memories: tuple[VaultMemory, ...]
    recent: VaultSummary | None
    longterm: VaultSummary | None
    copies: tuple[VaultSummary, ...]
    unreadable: tuple[tuple[Path, str], ...]


class Vault:
    """The folder of one session.

    Args:
        root: The folder of all vaults.
        name: The session's name, in any script.
        durable: Whether each file is synced to the disk. False is for hosts that can write the vault again:
            after a power cut files may be empty, and :meth:`remove` deletes them.

    Raises:
        ConfigError: *name* is blank.
        StoreIoError: the folder cannot be made.
    """

    def __init__(self, root: str | os.PathLike[str], name: str, *, durable: bool = True) -> None:
        self.path, self._durable = _claimed(Path(root), name), durable
        self._second: tuple[Path, str, int] = self.path, "", 0  # of the last new file, and its number in it

    @classmethod
    def existing(cls, root: str | os.PathLike[str], name: str) -> Vault | None:
        """The folder of the session *name*; None if there is none. It creates none."""
        folders = _folders(Path(root), name) if name.strip() else ()
        return cls(root, name) if any(_is_of(folder, name) for folder in folders) else None

    def clear(self) -> None:
        """Deletes all memories and summaries, and the folder if it is then empty.

        Raises:
            StoreIoError: one cannot be deleted; those before it are.
        """
        self.remove(lambda _: True)
        self.remove_summaries(lambda _: True)
        for folder in (self.path / "memories", self.path / "summaries"):
            _remove_empty(folder)
        _delete(self.path / END_FILE)
        if {path.name for path in self.path.iterdir()} <= {NAME_FILE}:
            _delete(self.path / NAME_FILE)
            _remove_empty(self.path)

    def add(self, memory: VaultMemory) -> Path | None:
        """Writes a memory. Returns its file; None for a blank or ambient text, which is no memory.

        Raises:
            ConfigError: a field of the metadata has a name that no line of the front matter can have.
            StoreIoError: it cannot be written.
        """
        _check_fields(memory.metadata)
        if not memory.content.strip() or memory.metadata.get("event_type") == AMBIENT:
            return None
        head = {"timestamp": _iso(memory.at), "type": "memory"}
        if memory.seq is not None:
            head["seq"] = str(memory.seq)
        text = _document({**head, **memory.metadata}, MEMORY_HEADING, memory.content)
        return self._write_new(self.path / "memories", f"{memory.at.astimezone(UTC):{STAMP}}-memory", text)

    def save(self, *summaries: VaultSummary) -> None:
        """Makes *summaries* the current ones, and keeps a copy of a recent one.

        Raises:
            StoreIoError: one cannot be written; those before it are.
        """
        folder = self.path / "summaries"
        for summary in summaries:
            text = _summary(summary)
            if summary.kind == "recent":
                self._write_new(folder, f"recent-{summary.updated.astimezone(UTC):{STAMP}}", text)
            _write(folder / f"{summary.kind}.md", text, durable=self._durable)

    @property
    def end(self) -> str:
        """How far the writers of the vault are, in their own words; empty before the first."""
        with _usable(self.path / END_FILE), suppress(FileNotFoundError):
            return (self.path / END_FILE).read_text("utf-8", "replace")
        return ""

    @end.setter
    def end(self, text: str) -> None:
        _write(self.path / END_FILE, text, durable=self._durable)

    def remove(self, unwanted: Callable[[VaultMemory], bool]) -> int:
        """Deletes the memories that *unwanted* selects, and empty files. Returns the number of deleted files.

        Any other unreadable file stays.

        Raises:
            StoreIoError: one cannot be deleted; those before it are.
        """
        return _remove_files(self.path / "memories", _read_memory, unwanted)

    def remove_summaries(self, unwanted: Callable[[VaultSummary], bool]) -> int:
        """Deletes the summaries that *unwanted* selects, current ones and copies, and empty files.

        Any other unreadable file stays. Returns the number of deleted files.

        Raises:
            StoreIoError: one cannot be deleted; those before it are.
        """
        return _remove_files(self.path / "summaries", _read_summary, unwanted)

    def _write_new(self, folder: Path, stem: str, text: str) -> Path:
        """Writes a file of that name, or with ``-2``, ``-3`` and so on behind it: none is written over."""
        number = self._second[2] if self._second[:2] == (folder, stem) else 0
        with _usable(folder / stem), _beside(folder, text, durable=self._durable) as written:
            while True:
                number += 1
                path = folder / (f"{stem}.md" if number == 1 else f"{stem}-{number}.md")
                with suppress(FileExistsError):
                    os.link(written, path)  # fails where there is one, in one step
                    self._second = folder, stem, number
                    return path

    def current(self) -> dict[SummaryType, VaultSummary]:
        """The current summaries that exist and can be read."""
        found: dict[SummaryType, VaultSummary] = {}
        for kind in _KINDS.values():
            path = self.path / "summaries" / f"{kind}.md"
            for _, summary in _each_of([path] if path.exists() else [], _read_summary, []):
                found[kind] = summary
        return found

    def read(self) -> Contents:
        """The whole content. Unreadable files are listed.

        Raises:
            StoreIoError: a folder cannot be listed.
        """
        unreadable: list[tuple[Path, str]] = []
        memories = [
            (memory.seq if memory.seq is not None else -1, path.name, memory)
            for path, memory in _each(self.path / "memories", _read_memory, unreadable)
        ]
        memories.sort(key=lambda each: each[:2])
        current: dict[str, VaultSummary] = {}
        copies: list[tuple[datetime, str, VaultSummary]] = []
        for path, summary in _each(self.path / "summaries", _read_summary, unreadable):
            if path.stem in HEADINGS:
                current[path.stem] = summary
            else:
                copies.append((summary.updated, path.name, summary))
        copies.sort(key=lambda each: each[:2])
        return Contents(
            tuple(memory for *_, memory in memories),
            current.get("recent"),
            current.get("longterm"),
            tuple(summary for *_, summary in copies),
            tuple(unreadable),
        )


def folder_name(name: str) -> str:
    """*name* as a folder: letters and digits of every script, ``_`` and ``-`` stay, a space is ``_``."""
    quoted = partial(quote, safe="", errors="surrogatepass")
    kept = (char if char.isalnum() or char in "_-" else "_" if char == " " else quoted(char) for char in name)
    return "".join(each if each != "." else "%2E" for each in kept)


def _claimed(root: Path, name: str) -> Path:
    """The folder of *name*: its own, with a short hash where another name has taken it."""
    if not name.strip():
        raise ConfigError(f"name must be a text that is not blank, got {name!r}", field="name", value=name)
    folders = _folders(root, name)
    for folder in folders:
        with _usable(folder):
            if not folder.exists() or _is_new(folder):
                folder.mkdir(parents=True, exist_ok=True)  # another process may make it, too
                with _beside(folder, name, durable=True) as written, suppress(FileExistsError):
                    os.link(written, folder / NAME_FILE)  # unless another process has been faster
            if _is_of(folder, name):
                return folder
    raise ConfigError(f"two names have the folder {folders[-1].name!r}", field="name", value=name)


def _is_new(folder: Path) -> bool:
    """Whether another process has just made *folder*, and is about to write its name."""
    return all(path.name.startswith(_UNFINISHED) for path in folder.iterdir())


def _folders(root: Path, name: str) -> tuple[Path, Path]:
    """Where the folder of *name* may be: the second one, where another name has taken the first.

    A long name is cut, and two names may begin alike.
    """
    plain = folder_name(name)
    said = name.encode("utf-8", "surrogatepass")
    if len(plain.encode()) > _LONGEST:
        begins = plain.encode()[:_LONGEST].decode("utf-8", "ignore")
        plain = f"{begins}-{blake2b(said, digest_size=8).hexdigest()}"
    return root / plain, root / f"{plain}-{blake2b(said, digest_size=4).hexdigest()}"


def _is_of(folder: Path, name: str) -> bool:
    """Whether *folder* is there and is that of *name*: one that says no name is of whoever comes."""
    owner = folder / NAME_FILE
    if not owner.exists():
        return folder.is_dir()
    return owner.read_text("utf-8", "surrogatepass") == name


def _summary(summary: VaultSummary) -> str:
    start, end = summary.covers
    head = {
        "type": "memory_summary",
        "summary_type": summary.kind,
        "updated": _iso(summary.updated),
        "memory_count": str(end - start),
        "covers_start": str(start),
        "covers_end": str(end),
        "level": str(summary.level),
        "last": str(summary.last),
    }
    return _document(head, HEADINGS[summary.kind], summary.text)


def _document(head: Mapping[str, str], heading: str, text: str) -> str:
    lines = (f"{key}: {' '.join(str(value).splitlines())}\n" for key, value in head.items())
    return f"---\n{''.join(lines)}---\n\n{heading}\n\n{text}\n"


def _parsed(text: str, heading: str) -> tuple[dict[str, str], str]:
    """The front matter and the text under the first heading."""
    if not text.startswith("---\n"):
        raise ValueError("it does not begin with front matter")
    head, end, body = text[4:].partition("\n---\n")
    if not end:
        raise ValueError("its front matter has no end")
    lines = (line.partition(":") for line in head.split("\n"))
    values = {key.strip(): value.strip() for key, _, value in lines if key.strip()}
    return values, body.lstrip("\n").removeprefix(heading).removeprefix("\n\n").removesuffix("\n")


def _read_memory(text: str) -> VaultMemory:
    head, content = _parsed(text, MEMORY_HEADING)
    if head.pop("type", None) != "memory":
        raise ValueError("its type is not memory")
    at, seq = _when(head.pop("timestamp", "")), head.pop("seq", None)
    return VaultMemory(content, at, None if seq is None else int(seq), head)


def _read_summary(text: str) -> VaultSummary:
    head, _ = _parsed(text, "")
    kind = _KINDS.get(head.get("summary_type", ""))
    if head.get("type") != "memory_summary" or kind is None:
        raise ValueError("its type is not that of a summary")
    _, content = _parsed(text, HEADINGS[kind])
    covers = int(head["covers_start"]), int(head["covers_end"])
    return VaultSummary(
        content, kind, _when(head["updated"]), covers, int(head.get("last", 0)), int(head.get("level", 1))
    )


def _each(
    folder: Path, read: Callable[[str], T], unreadable: list[tuple[Path, str]]
) -> Iterator[tuple[Path, T]]:
    """The result of *read* for each Markdown file of *folder*; the others are added to *unreadable*."""
    with _usable(folder):
        files = sorted(folder.glob("*.md")) if folder.is_dir() else []
    yield from _each_of(files, read, unreadable)


def _remove_files(folder: Path, read: Callable[[str], T], unwanted: Callable[[T], bool]) -> int:
    """Deletes the Markdown files of *folder* that *unwanted* selects, and empty ones. Returns their number.

    A power cut may leave empty files.
    """
    found = [path for path, each in _each(folder, read, []) if unwanted(each)]
    found += [path for path in folder.glob("*.md") if not path.stat().st_size]
    _remove_leftovers(folder)
    for path in found:
        _delete(path)
    return len(found)


def _remove_leftovers(folder: Path) -> None:
    """Deletes what processes that were killed have left of new files: it may be forgotten text.

    A file of less than a minute may be another process's, which is about to name it.
    """
    for path in folder.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _WRITING_SECONDS:
                _delete(path)


def _each_of(
    files: Iterable[Path], read: Callable[[str], T], unreadable: list[tuple[Path, str]]
) -> Iterator[tuple[Path, T]]:
    for path in files:
        try:
            yield path, read(path.read_bytes().decode("utf-8", "surrogatepass"))
        except KeyError as error:
            unreadable.append((path, f"it has no {error}"))
        except (OSError, ValueError) as error:
            unreadable.append((path, str(error)))


def _check_fields(metadata: Mapping[str, str]) -> None:
    """Refuses names that would not come back: those of our own fields, and what a line cannot begin with."""
    for name in metadata:
        if not name or name in OWN_FIELDS or ":" in name or "\n" in name or name.strip() != name:
            own = ", ".join(sorted(OWN_FIELDS))
            raise ConfigError(
                f"a name in metadata must be a line without a colon that is none of {own}, got {name!r}",
                "metadata",
                name,
            )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _when(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _write(path: Path, text: str, *, durable: bool = True) -> None:
    """Writes *path* whole, by a file beside it."""
    with _usable(path), _beside(path.parent, text, durable=durable) as written:
        written.replace(path)


@contextmanager
def _beside(folder: Path, text: str, *, durable: bool) -> Iterator[Path]:
    """A file of *text* in *folder* under a name of its own, for as long as it takes to give it another."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=_UNFINISHED, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    """Removes a folder that has nothing in it."""
    with suppress(OSError):  # missing, or not empty
        folder.rmdir()


def _delete(path: Path) -> None:
    with _usable(path):
        path.unlink(missing_ok=True)


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    """Tells of a fault of the disk at *path* as an error of the store."""
    try:
        yield
    except StoreIoError:
        raise
    except OSError as error:
        raise StoreIoError(f"the vault at {path} cannot be used: {error}", path=str(path)) from error


# Keeps the vault of a session equal to its log: a file for each message, and the two summaries.

FOLDER: Final = "vault"
"""The folder of the vaults, inside the directory of the store."""

POLICY: Final = "waterfall"


class VaultFiles:
    """Writes the messages and summaries of a session's log to its vault.

    The log is the truth: after a crash the vault is completed from it, and forgotten messages leave it. Other
    files in the folder are left alone.

    Args:
        path: The directory of the store.
        session_id: The session of the vault.
        log: The log of that session.
        config: The settings of its summaries.
    """

    def __init__(self, path: Path, session_id: str, log: SessionLog, *, config: WaterfallConfig) -> None:
        self._vault = Vault(path / FOLDER, session_id, durable=False)
        self._log, self._config = log, config
        self._found: Contents | None = None  # the content of the vault before the session
        self._end = 0  # all messages before this number have their file
        self._redactions: int | None = None  # the redactions of the log at the last update of the files
        self._row: int | None = None  # the compaction whose summaries are written

    @property
    def path(self) -> Path:
        """The folder of the vault."""
        return self._vault.path

    def found(self) -> Sequence[RawMessage]:
        """The memories in the vault, in their order, as messages with their roles."""
        self._found = self._vault.read()
        return [
            {"role": role if role in ("user", "assistant") else "user", "content": memory.content}
            for memory in self._found.memories
            for role in (memory.metadata.get("role", "user"),)
        ]

    def begun(self) -> Compactor | None:
        """Gives the memories their numbers in the log, and returns their summaries as a policy.

        None if there are no summaries, or if they do not fit the memories or one another; then the session
        makes new ones.
        """
        found, self._found = self._found, None
        if found is None:
            return None
        for number, memory in enumerate(found.memories):
            if memory.seq != number:  # `_reconcile` removes the file with the old number
                self._vault.add(replace(memory, seq=number))
        return _restored(found, self._config)

    def catch_up(self) -> None:
        """Updates the files from the log. One process at a time does so, and goes on where another one was.

        Raises:
            StoreIoError: a file cannot be written. The next call continues from there.
        """
        if self._log.state().deleted:
            return
        with _usable(self._vault.path), locked(self._vault.path):
            self._catch_up()

    def _catch_up(self) -> None:
        state = self._log.state()
        if state.deleted:
            return
        kept: set[int] = set()
        if self._redactions != state.redactions:  # just opened, or something was forgotten
            kept = self._reconcile(state.next_seq)
            self._end, self._row = 0, None
        else:
            self._end = max(self._end, self._end_of_others(state.redactions, state.next_seq))
        if self._end == state.next_seq and not kept:
            self._write_summaries(state.head)
            return
        for row in rows_of(self._log, self._end, state.next_seq):
            if row.seq not in kept:
                self._add(row)
        self._end, self._redactions = state.next_seq, state.redactions
        self._vault.end = f"{state.redactions} {state.next_seq}"
        self._write_summaries(state.head)

    def _end_of_others(self, redactions: int, most: int) -> int:
        """All messages before this number have their file, by another process; 0 if that is not known."""
        before, _, end = self._vault.end.partition(" ")
        if before != str(redactions) or not end.isdecimal():
            return 0
        return min(int(end), most)

    def _reconcile(self, end: int) -> set[int]:
        """Removes memories that differ from the log or occur twice. Returns the numbers of the others."""
        truth = {row.seq: _content(row) for row in rows_of(self._log, 0, end)}
        kept: set[int] = set()

        def wrong(memory: VaultMemory) -> bool:
            seq = memory.seq
            if seq is None or seq in kept or truth.get(seq) != memory.content:
                return True
            kept.add(seq)
            return False

        self._vault.remove(wrong)
        known = {_text(each) for each in _summaries(self._log)}
        self._vault.remove_summaries(lambda summary: summary.text not in known)
        return kept

    def _add(self, row: LogRow) -> None:
        content = _content(row)
        if content.strip() and row.role not in RULE_ROLES:
            at = datetime_from(row.created_at)
            self._vault.add(VaultMemory(content, at, row.seq, {"event_type": "message", "role": row.role}))

    def _write_summaries(self, head: CompactionRow | None) -> None:
        """Writes the summaries of the newest run, if they are not written yet."""
        row = head
        while row is not None and not (row.compaction.policy == POLICY and row.compaction.state):
            row = None if row.parent is None else self._log.compaction(row.parent)
        if row is None or row.compaction_id == self._row:
            return
        state = WaterfallState.read(json.loads(row.compaction.state))
        ids = [piece for piece in row.compaction.view if isinstance(piece, int)]
        shown = [each for each in self._log.derived(ids) if each.kind == "summary"]
        if state is not None and shown:
            at = datetime_from(row.compaction.created_at)
            self._save(shown, state, at)
        self._row = row.compaction_id

    def _save(self, shown: Sequence[Derived], state: WaterfallState, at: datetime) -> None:
        there = {kind: (each.text, each.covers) for kind, each in self._vault.current().items()}
        *older, recent = shown
        if state.longterm_end and older:
            text, covers = "\n\n".join(_text(each) for each in older), (0, state.longterm_end)
            if there.get("longterm") != (text, covers):
                level = max(each.level for each in older)
                self._vault.save(VaultSummary(text, "longterm", at, covers, state.last, level))
        text, covers = _text(recent), (state.longterm_end, state.covered)
        if there.get("recent") != (text, covers):
            self._vault.save(VaultSummary(text, "recent", at, covers, state.last, recent.level))


def _restored(found: Contents, config: WaterfallConfig) -> Compactor | None:
    """A policy that begins with the summaries of *found*; None if they do not cover its oldest memories."""
    known = [memory.seq for memory in found.memories]
    numbers = range(len(known)) if None in known else [seq for seq in known if seq is not None]

    def at(seq: int) -> int:
        return bisect_left(numbers, seq)

    recent, longterm = found.recent, found.longterm
    if recent is None or (longterm is None) != (recent.covers[0] == 0):
        return None
    if longterm is not None and (longterm.covers[0], longterm.covers[1]) != (0, recent.covers[0]):
        return None
    border, covered = at(recent.covers[0]), at(recent.covers[1])
    if not border < covered <= len(known) or (longterm is not None and not border):
        return None
    copies = [
        ((at(each.covers[0]), at(each.covers[1])), each.text)
        for each in found.copies
        if each.text != recent.text and at(each.covers[0]) < at(each.covers[1])
    ]
    last = max(at(recent.last), covered)
    state = WaterfallState(last, covered, border, max(1, len(found.copies)))
    older = ("", 0) if longterm is None else (longterm.text, longterm.level)
    return WaterfallRestored(config, Memory(state, older[0], recent.text, older[1]), copies)


def _summaries(log: SessionLog) -> list[Derived]:
    return [each for each in log.derived_after(0) if each.kind == "summary"]


def _text(derived: Derived) -> str:
    for prefix in (LONGTERM_PREFIX, RECENT_PREFIX):
        text = unframed(derived.raw, prefix)
        if text != derived.raw:
            break
    return text.strip()


def _content(row: LogRow) -> str:
    message = read_message(decode(row.raw), row.seq, dialect=row.dialect, provenance=row.provenance)
    return indexable_text(message)
