"""Reads recorded transcripts: JSON lines, each with a message or a whole session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siltstone.cli.foreign import as_chatgpt, as_claude_code
from siltstone.errors import InvalidMessageError
from siltstone.messages import detect, read_message

__all__ = ["Transcript", "read_transcripts"]

# The keys of a message. A recorded line may also have times, ids and costs, which do not belong to it. The
# keys of an item of the Responses API depend on its type, so all of them are kept.
MESSAGE_KEYS = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "audio",
    "reasoning_content",
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A recorded session."""

    name: str
    messages: list[dict[str, Any]]


def read_transcripts(path: Path, *, whole: bool = False) -> list[Transcript]:
    """The sessions of *path*, at least one.

    A line is one of these: a message (``role``, ``content`` as text or blocks, or OpenAI chat form); an item
    of the Responses API; an object with a list ``messages``, which is a session of its own. Other keys of a
    message are ignored, unless *whole* is True. Consecutive lines with messages form one session. A JSON
    array of messages is read too, and so are transcripts of Claude Code and the export of ChatGPT.

    Raises:
        InvalidMessageError: a line is none of these, and the error has its number; or the file has no
            message, or is not UTF-8 text. The error names the file.
        OSError: the file cannot be read.
    """
    transcripts: list[Transcript] = []
    loose: list[dict[str, Any]] = []
    for where, record in _records(path):
        if isinstance(record, dict) and isinstance(record.get("messages"), list):
            _close(transcripts, loose, path)
            messages = [
                _message(item, f"{where}, message {i}", whole) for i, item in enumerate(record["messages"])
            ]
            transcripts.append(Transcript(str(record.get("id", _name(path, transcripts))), messages))
        else:
            loose.append(_message(record, where, whole))
    _close(transcripts, loose, path)
    if not any(transcript.messages for transcript in transcripts):
        raise InvalidMessageError(f"{path}: there is no message in it", where=str(path))
    return transcripts


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidMessageError(f"{path}: not UTF-8 text: {error}", where=str(path)) from error
    found = list(_written(text, path))
    records = [record for _, record in found]
    sessions = as_claude_code(records) or as_chatgpt(records)
    yield from found if sessions is None else ((f"{path}, {each['id']}", each) for each in sessions)


def _written(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    """The records of a file: an array, one object over several lines, or one record in each line."""
    if text.lstrip().startswith("["):
        for index, record in enumerate(_parsed(text, str(path))):
            yield f"{path}, message {index}", record
        return
    if (whole := _object(text)) is not None:
        yield str(path), whole
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _parsed(line, where)


def _object(text: str) -> dict[str, Any] | None:
    """The single object in *text*, if it is written over several lines; else None."""
    if not text.lstrip().startswith("{") or "\n" not in text.strip():
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"{where}: not JSON: {error}", where=where) from error


def _message(record: Any, where: str, whole: bool) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise InvalidMessageError(f"{where}: not a message but {type(record).__name__}", where=where)
    message = dict(record)
    try:
        if not whole and detect(record) != "openai.responses":
            message = {key: record[key] for key in MESSAGE_KEYS if key in record}
        read_message(message, 0)
    except InvalidMessageError as error:
        reason = str(error).removeprefix("message 0: ")  # the error names the line instead
        raise InvalidMessageError(f"{where}: {reason}", where=where) from error
    return message


def _close(transcripts: list[Transcript], loose: list[dict[str, Any]], path: Path) -> None:
    if loose:
        transcripts.append(Transcript(_name(path, transcripts), loose.copy()))
        loose.clear()


def _name(path: Path, transcripts: list[Transcript]) -> str:
    return f"{path.stem}-{len(transcripts) + 1}"
