"""Reads recorded transcripts: JSON lines, a message or a whole session each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from siltstone.cli.foreign import as_chatgpt, as_claude_code
from siltstone.errors import InvalidMessageError
from siltstone.messages import detect, read_message
from siltstone.values import dataclass

__all__ = ["Transcript", "read_transcripts"]

# A recorded line may carry times, ids and costs beside a message; only these belong to it. An item of the
# Responses API has keys by its type, so all of them belong to it.
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
    """One recorded session."""

    name: str
    messages: list[dict[str, Any]]


def read_transcripts(path: Path, *, whole: bool = False) -> list[Transcript]:
    """The sessions of *path*, at least one.

    A line is a message (``role``, ``content`` as text or blocks, or OpenAI chat form; other keys are
    ignored, but with *whole*), an item of the Responses API, or an object with ``messages``, the list of
    them: a session of its own. Lines that are messages form sessions with their neighbours. A JSON array of
    messages is read too, and so are transcripts of Claude Code and the export of ChatGPT.

    Raises:
        InvalidMessageError: a line is neither, and its number is in the error; or there is no message in the
            file, or it is not text. Names the file.
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
    """The records of a file: an array, one object over several lines, or lines."""
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
    """The one object that *text* is, where it is written over several lines."""
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
        reason = str(error).removeprefix("message 0: ")  # the place is the line's
        raise InvalidMessageError(f"{where}: {reason}", where=where) from error
    return message


def _close(transcripts: list[Transcript], loose: list[dict[str, Any]], path: Path) -> None:
    if loose:
        transcripts.append(Transcript(_name(path, transcripts), loose.copy()))
        loose.clear()


def _name(path: Path, transcripts: list[Transcript]) -> str:
    return f"{path.stem}-{len(transcripts) + 1}"
