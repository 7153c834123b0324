"""Makes entries of messages that are still in context, so that other sessions of a namespace find them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, TypeAlias

from siltstone.errors import InvalidMessageError
from siltstone.memory.entry import Entry
from siltstone.memory.log import LogRow, SessionLog
from siltstone.messages import Message, OwnTools, decode, indexable_text, read_message

__all__ = ["Findable", "Sayings", "entry_of", "entry_with", "findable", "with_findable"]

Findable: TypeAlias = Literal["all", "words", "nothing"]
"""The part of a session that other sessions of its namespace may find: all, all but its tools, or nothing."""

_KEY: Final = "findable"
_LOOK_BACK: Final = 64  # messages read before the wanted ones, to find the tool calls of their results
_SESSIONS: Final = 1_024  # sessions whose tool calls are remembered


def findable(settings: str) -> Findable:
    """The part of a session that others may find, from its settings."""
    value = json.loads(settings).get(_KEY) if settings else None
    return value if value in ("words", "nothing") else "all"


def with_findable(settings: str, value: Findable) -> str:
    """*settings* with *value* as the findable part."""
    known = json.loads(settings) if settings else {}
    changed = {key: each for key, each in known.items() if key != _KEY}
    if value != "all":
        changed[_KEY] = value
    return json.dumps(changed) if changed else ""


def entry_of(
    message: Message, created_at: int, *, index_tools: bool = True, own: Collection[int] | None = None
) -> Entry | None:
    """The entry of a message; None if it has no text to index.

    Args:
        message: The message.
        created_at: The time of the message, in milliseconds since 1970.
        index_tools: False leaves calls and results out.
        own: The places of its parts that belong to siltstone's own tools.
    """
    text = indexable_text(message, index_tools=index_tools, own=own)
    return entry_with(text, message, created_at) if text and not text.isspace() else None


def entry_with(text: str, message: Message, created_at: int) -> Entry:
    """The entry of a message whose text to index is *text*, said at *created_at*, in ms since 1970."""
    name = None
    if message.said is None:  # no single text has a name
        name = next((part.name for part in message.parts if part.name), None)
    return Entry(text, (message.seq, message.seq + 1), message.role, name, created_at=created_at / 1000)


class Sayings:
    """Reads messages of logs as entries."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, OwnTools] = OrderedDict()  # least recently used first

    def of(self, session_id: str, log: SessionLog, rows: Sequence[LogRow]) -> list[Entry | None]:
        """An entry or None for each of *rows*, which are messages of the session's *log* in order."""
        may = findable(log.state().settings)
        if may == "nothing":
            return [None] * len(rows)
        tools = self._tools.pop(session_id, None)
        if tools is None:
            tools = OwnTools()
            if rows:
                first = rows[0].seq
                _walk(tools, log.read(max(0, first - _LOOK_BACK), first))
        self._tools[session_id] = tools
        while len(self._tools) > _SESSIONS:
            self._tools.popitem(last=False)
        found: list[Entry | None] = []
        for row in rows:
            message = _message(row)
            if message is None:
                found.append(None)
                continue
            own = tools.parts_of(message)
            found.append(entry_of(message, row.created_at, index_tools=may == "all", own=own))
        return found

    def in_context(self, session_id: str, log: SessionLog) -> list[Entry]:
        """The entries of the messages in the context of the session, in their order."""
        state = log.state()
        spans = [(0 if state.head is None else state.head.compaction.next_seq, state.next_seq)]
        if state.head is not None:
            spans += [item for item in state.head.compaction.view if isinstance(item, tuple)]
        rows = [row for start, end in sorted(spans) for row in log.read(start, end)]
        return [entry for entry in self.of(session_id, log, rows) if entry is not None]


def _walk(tools: OwnTools, rows: Iterable[LogRow]) -> None:
    for row in rows:
        if (message := _message(row)) is not None:
            tools.parts_of(message)


def _message(row: LogRow) -> Message | None:
    """The message of a row; None if a caller wrote the row without a session, and it is no message."""
    try:
        return read_message(decode(row.raw), row.seq, dialect=row.dialect, provenance=row.provenance)
    except InvalidMessageError:
        return None
