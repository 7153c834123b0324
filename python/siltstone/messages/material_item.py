"""A part of a message as a summariser gets it, and the line that shows it in a text.

One item for each part of a message, in order, an earlier summary first::

    [Earlier summary of messages 1-40: …]
    User: …
    Assistant: …
    [Tool call <id>: name(arguments)]
    [Tool result <id>: …]
    [Tool result <id>, error: …]
    [Injected context: …]

An item begins at the start of a line, and its further lines are indented by two spaces. So no text can pass
for an item of its own. A line ends where any reader may see an end: at each of the line ends that
``str.splitlines`` knows, from a carriage return to U+2029.

Media stand as their placeholders; reasoning is left out. Nothing else is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from siltstone.messages.message import Role
from siltstone.messages.summary_mark import ranges_in_words

__all__ = ["INDENT", "SPEAKERS", "ItemKind", "MaterialItem", "indented", "spoken"]

ItemKind: TypeAlias = Literal["text", "tool_call", "tool_result", "context", "summary"]

INDENT: Final = "  "

SPEAKERS: Final[dict[Role, str]] = {
    "system": "System",
    "developer": "System",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}

_INDENTED = re.compile("(\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029])" + INDENT)


@dataclass(frozen=True, slots=True)
class MaterialItem:
    """A part of a message that is to be summarised.

    Attributes:
        kind: ``text`` is said by the role; ``context`` is a text that siltstone has added; ``summary`` stands
            for messages of before.
        text: The whole text; of a call its arguments.
        role: The role of the message.
        name: The name of the tool; "" where the part does not have it.
        call_id: The id of a call, or of the call that a result answers; "" if it has none.
        is_error: Whether the result is of a call that failed.
        seq: The sequence number of the message; None for a summary.
        covers: The numbers that a summary stands for, as half-open ranges; () if they are not known.
        shown: The line, where this is one piece of an item that was cut in two; None for a whole item.
    """

    kind: ItemKind
    text: str
    role: Role = "user"
    name: str = ""
    call_id: str = ""
    is_error: bool = False
    seq: int | None = None
    covers: tuple[tuple[int, int], ...] = ()
    shown: str | None = None

    @property
    def line(self) -> str:
        """The item as a text shows it: on a line of its own, its further lines indented."""
        if self.shown is not None:
            return self.shown
        return indented(f"{self._head}{self.text}{self._tail}")

    @property
    def continues(self) -> bool:
        """Whether it is the rest of an item whose beginning is elsewhere."""
        return self.shown is not None and self.shown.startswith(INDENT)

    def cut(self, end: int) -> tuple[MaterialItem, MaterialItem]:
        """The item in two: the first *end* characters of its line, more than an indent has, and the rest."""
        line = self.line
        head = len(INDENT) if self.continues else len(indented(f"{self._head}.")) - 1
        said = len(_INDENTED.sub(r"\1", line[head:end])) if end > head else 0
        first = replace(self, text=self.text[:said], shown=line[:end])
        return first, replace(self, text=self.text[said:], shown=f"{INDENT}{line[end:]}")

    def cut_text(self, end: int) -> tuple[MaterialItem, MaterialItem]:
        """The same after the first *end* characters of its text."""
        head = INDENT if self.continues else self._head
        return self.cut(len(indented(f"{head}{self.text[:end]}.")) - 1)

    @property
    def _head(self) -> str:
        match self.kind:
            case "tool_call":
                return f"[Tool call {self.call_id or '-'}: {self.name or '-'}("
            case "tool_result":
                return f"[Tool result {self.call_id or '-'}{', error' if self.is_error else ''}: "
            case "context":
                return "[Injected context: "
            case "summary":
                return f"[Earlier summary of messages {ranges_in_words(self.covers) or 'so far'}: "
            case "text":
                return _spoken_by(self.role)

    @property
    def _tail(self) -> str:
        return ")]" if self.kind == "tool_call" else "" if self.kind == "text" else "]"


def spoken(role: Role, text: str) -> str:
    """The line of an item of the kind ``text``."""
    return indented(f"{_spoken_by(role)}{text}")


def _spoken_by(role: Role) -> str:
    return f"{SPEAKERS[role]}: "


def indented(item: str) -> str:
    """*item* with every line after its first indented, whichever character ends a line."""
    lines = f"{item}.".splitlines(keepends=True)  # so the text behind a line end is a line, at the end too
    return item if len(lines) == 1 else INDENT.join(lines)[:-1]
