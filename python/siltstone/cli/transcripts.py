"""Reads recorded transcripts: JSON lines, Claude Code, and the export of ChatGPT."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siltstone.errors import InvalidMessageError
from siltstone.messages import detect, read_message

# Reads transcripts of other tools as sessions of plain messages: Claude Code, and the export of ChatGPT.

_SAID = ("user", "assistant")


def as_claude_code(records: Sequence[Any]) -> list[dict[str, Any]] | None:
    """The sessions of a file of Claude Code (``~/.claude/projects``); None for any other file.

    The file has several lines for an answer, one for each of its blocks; they become one message again. Side
    conversations of sub-agents are left out, and lines that are not messages.
    """
    if not any(map(_is_claude_line, records)):
        return None
    sessions: dict[str, list[dict[str, Any]]] = {}
    answers: dict[str, dict[str, Any]] = {}
    for record in records:
        if not _is_claude_line(record) or record.get("isSidechain") or record.get("isMeta"):
            continue
        said, name = record["message"], str(record["sessionId"])
        messages = sessions.setdefault(name, [])
        known = answers.get(f"{name} {said.get('id')}") if said.get("id") else None
        if known is not None and isinstance(said.get("content"), list):
            known["content"] = [*known["content"], *said["content"]]
            continue
        message = {"role": said["role"], "content": said["content"]}
        messages.append(message)
        if said.get("id") and isinstance(said["content"], list):
            answers[f"{name} {said['id']}"] = message
    return [{"id": name, "messages": messages} for name, messages in sessions.items()]


def as_chatgpt(records: Sequence[Any]) -> list[dict[str, Any]] | None:
    """The conversations of ``conversations.json``, ChatGPT's export; None for any other file.

    Each conversation has only the branch that was open last.
    """
    if not records or not all(
        isinstance(each, dict) and isinstance(each.get("mapping"), dict) for each in records
    ):
        return None
    sessions = []
    for each in records:
        name = each.get("conversation_id") or each.get("id") or each.get("title")
        sessions.append(
            {"id": str(name), "messages": list(_spoken(each["mapping"], each.get("current_node")))}
        )
    return [session for session in sessions if session["messages"]]


def _is_claude_line(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and record.get("type") in _SAID
        and "sessionId" in record
        and isinstance(record.get("message"), dict)
        and {"role", "content"} <= record["message"].keys()
    )


def _spoken(mapping: dict[str, Any], at: Any) -> Iterable[dict[str, Any]]:
    """The messages on the path to node *at*, in order."""
    found: list[dict[str, Any]] = []
    seen: set[Any] = set()
    while isinstance(node := mapping.get(at), dict) and at not in seen:
        seen.add(at)
        said, at = node.get("message") or {}, node.get("parent")
        role = (said.get("author") or {}).get("role")
        parts = (said.get("content") or {}).get("parts") or ()
        text = "\n".join(part for part in parts if isinstance(part, str))
        if role in _SAID and text.strip():
            found.append({"role": role, "content": text})
    return found[::-1]


# Reads recorded transcripts: JSON lines, each with a message or a whole session.

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
