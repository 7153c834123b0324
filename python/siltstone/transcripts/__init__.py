"""Reads transcripts that other programs wrote, as records of one kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from siltstone.errors import InvalidMessageError
from siltstone.messages import read_message
from siltstone.transcripts import chatgpt, claude_ai, claude_code, codex, lists
from siltstone.transcripts.base import Format, Record, seen, worded
from siltstone.transcripts.files import Source, Told, sources, values

__all__ = ["Record", "Told", "Transcripts", "read"]

FORMATS = (claude_code.FORMAT, codex.FORMAT, chatgpt.FORMAT, claude_ai.FORMAT, lists.FORMAT)
_SAMPLE = 200  #: values of a file by which its format is known
_SMALL = 8 << 20  #: bytes of a file whose values are kept for a second reading


class Transcripts:
    """The records of some files, read when they are iterated.

    Attributes:
        told: What was left out or broken, complete after an iteration.
        formats: The names of the formats that were found.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], *, strict: bool = False) -> None:
        self.paths = [os.fspath(path) for path in paths]
        self.told, self.formats, self._unknown = Told(strict=strict), list[str](), ""
        self.sources = sources(self.paths)

    def __iter__(self) -> Iterator[Record]:
        self.told, self.formats = Told(strict=self.told.strict), []
        for source in self.sources:
            yield from (record for record in self.records(source) if not record.is_left)
        self.check()

    def records(self, source: Source, told: Told | None = None) -> Iterator[Record]:
        """The records of one of the files, and those of branches that were left."""
        told = told or self.told
        known, found = self._format(source, told)
        if known is None:
            return
        for record in known.read(_Values(source, told, found), told, source.stem):
            content = record.message.get("content")
            if isinstance(content, list) and not record.pieces:
                record = replace(record, message={**record.message, "content": worded(content)})
            try:
                parts = read_message(record.message, 0).parts
            except InvalidMessageError as error:
                told.bad(record.where, "not a message", str(error).removeprefix("message 0: "))
                continue
            if record.is_left or any(part.kind != "text" or part.text.strip() for part in parts):
                yield record
            else:
                told.left_out["empty messages"] += 1

    def has_ids(self, source: Source) -> bool:
        """Whether the records of the file have ids."""
        known = self._format(source, Told())[0]
        return known is None or known.has_ids

    def _format(self, source: Source, told: Told) -> tuple[Format | None, Iterator[tuple[str, Any]]]:
        """The format of a file, None where nobody knows it; and its values."""
        found, broken = values(source, told), told.broken.total()
        sample = list(islice(found, _SAMPLE))
        known = next((each for each in FORMATS if any(each.knows(value) for _, value in sample)), None)
        if known is not None:
            self.formats += [known.name] if known.name not in self.formats else []
        elif sample or told.broken.total() > broken:
            said = f"none of the formats that are known ({', '.join(each.name for each in FORMATS)})"
            detail = f"it has {seen(sample)}" if sample else told.places[-1]
            self._unknown = self._unknown or f"{source.name}: {said}: {detail}"
            if source.path in self.paths and not source.member:
                told.bad(source.name, said, detail)
            else:  # folders and zip files have other files, too
                told.left_out["files of no known format"] += 1
        return known, chain(sample, found)

    def check_formats(self) -> None:
        """Refuses files of which none has a format that is known. Little of them is read."""
        if not any(self._format(source, self.told)[0] for source in self.sources):
            self.check()

    def check(self) -> None:
        """Refuses files of which none has a format that is known, or none has a message."""
        if self.formats:
            return
        what = (
            "Is a directory without a transcript, and "
            if any(Path(path).is_dir() for path in self.paths)
            else ""
        )
        first = self._unknown or next(iter(self.told.places), "")
        raise InvalidMessageError(
            first or f"{', '.join(self.paths)}: {what}there is no message in it", where=self.paths[0]
        )


class _Values:
    """The values of a file, for a reader that may go over them twice. Those of a small file are kept."""

    def __init__(self, source: Source, told: Told, found: Iterable[tuple[str, Any]]) -> None:
        self._source, self._told, self._found = source, told, found
        self._kept: list[tuple[str, Any]] | None = None
        self._is_read = False

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if self._is_read:
            return iter(values(self._source, Told()) if self._kept is None else self._kept)
        self._is_read = True
        if (self._source.state() or [_SMALL])[0] < _SMALL and not self._source.member:
            self._found = self._kept = list(self._found)
        return iter(self._found)


def read(*paths: str | os.PathLike[str], strict: bool = False) -> Transcripts:
    """The records of transcripts in *paths*.

    A path is a file, a directory, a zip file, or ``-`` for standard input. The format of each file is known
    by its content: Claude Code, Codex, the exports of ChatGPT and claude.ai, ShareGPT, LangChain, lists and
    JSON lines of messages of OpenAI and Anthropic.

    Args:
        paths: The files.
        strict: Whether the first broken line is an error. It is else skipped and counted.

    Raises:
        InvalidMessageError: while reading: no file has a known format; or with *strict*, a line is broken.
        OSError: a file cannot be read.
    """
    return Transcripts(paths, strict=strict)
