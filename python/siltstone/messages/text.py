"""The text of a message: as lines for people and models, for an index, and as text inside other text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from siltstone._native import condense
from siltstone.messages.json_text import encode
from siltstone.messages.message import RULE_ROLES, Message, Part
from siltstone.messages.results import OWN_TOOLS, OwnTools

# Writes control tokens so that no tokenizer reads them as such.


@cache
def _control_token() -> re.Pattern[str]:
    """The first character of a token that chat templates write around turns, reasoning and calls."""
    return re.compile(
        r"<(?=\|[\w:./-]{1,64}\|?>|[\w:./-]{1,64}\|>|\uff5c[^\uff5c<>\n]{1,64}\uff5c>|<?/?SYS>|/?seed:\w+>|SPECIAL_\d+>"
        r"|/?(?:s|[bep]os|eo[dpst]|sop|pad|unk|mask|sep|cls|think|thinking|tools?|tool_(?:call|response|result)s?)>"
        r"|/?(?:start|end|begin|beginning)[_\u2581]of[_\u2581]\w{1,32}>|/?(?:unused|extra_id_|reserved_)\w{1,8}>)"
        r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w{1,16}|ARGS|CALL_ID|IMG\w{0,8}|THINK|MODEL_SETTINGS"
        r"|PREFIX|MIDDLE|SUFFIX|[gs]MASK)\]|e~\[)|\](?=~!?b[\[\]])",
        re.IGNORECASE,
    )


def without_control(text: str) -> str:
    """*text*, in which the first character of each control token of a chat template is an entity.

    So a tokenizer reads it as text, and a model still sees its name.
    """
    if not any(each in text for each in "<[]"):
        return text
    return _control_token().sub(lambda found: f"&#{ord(found[0])};" if found[0] != "<" else "&lt;", text)


# Writes a message as lines for people and models.


def in_words(message: Message) -> str:
    """The lines of *message*, one for each part, with names of calls; its JSON if there is no line."""
    return "\n".join(filter(None, map(_part, message.parts))) or encode(message.raw)


def is_hidden(char: str) -> bool:
    """Whether *char* shows as nothing, steers a terminal, or turns the direction of the text after it.

    Tabs and breaks of lines do not count.
    """
    code = ord(char)
    return (
        (code < 32 and char not in "\t\n\r")
        or 0x7F <= code < 0xA0
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
    )


def _part(part: Part) -> str:
    match part.kind:
        case "tool_call":
            return f"[call {part.call_id or '-'}: {part.name or '-'}({part.arguments or ''})]"
        case "tool_result":
            return f"[result {part.call_id or '-'}: {part.text}]"
        case "reasoning":
            return f"[reasoning: {part.text}]" if part.text else "[reasoning]"
        case _:
            return part.text or f"[{part.modality or part.kind}]"


# Shortens a text by its structure alone, without a model.


def condensed(text: str, earlier: Sequence[tuple[str, str]] = ()) -> str:
    """*text* with fewer bytes, if its structure allows that; else the same text.

    Args:
        text: The result of a tool.
        earlier: Handles and texts that the reader already sees. Lines that are in one of these texts are
            replaced by its handle and their line numbers there.
    """
    return condense(text, list(earlier))


# The text of a message that is indexed for search.


def indexable_text(
    message: Message, *, index_tools: bool = True, own: Collection[int] | None = None, whole: bool = False
) -> str:
    """The text of a message that is indexed: its texts, and the names, arguments and results of tools.

    Reasoning and media are not indexed. System messages and messages that are not original (summaries,
    injected and recalled text) give ``""``. Calls and results of siltstone's own tools are left out.

    Args:
        message: The message.
        index_tools: Whether calls and results are indexed.
        own: The places of its parts that belong to siltstone's own tools. None: they are found by the names
            in this message only. Most dialects name a tool in the call and not in the result, so use
            :func:`indexable_texts` for a whole history.
        whole: Whether system messages and readable reasoning are indexed, too.
    """
    if message.provenance != "original" or (message.role in RULE_ROLES and not whole):
        return ""
    if message.said is not None:
        return message.said
    if own is None:
        own = OwnTools().parts_of(message)
    said = (part for place, part in enumerate(message.parts) if place not in own)
    return "\n".join(filter(None, (_passage(part, index_tools, whole) for part in said)))


def indexable_texts(
    messages: Iterable[Message], *, index_tools: bool = True, own_tools: Iterable[str] = OWN_TOOLS
) -> Iterator[str]:
    """:func:`indexable_text` of each message. A result of siltstone's own tools is known by its call.

    Args:
        messages: Messages in their order; calls stand before their results.
        index_tools: As for :func:`indexable_text`.
        own_tools: The names of siltstone's own tools. Hosts may put a prefix before them.
    """
    tools = OwnTools(own_tools)
    for message in messages:
        yield indexable_text(message, index_tools=index_tools, own=tools.parts_of(message))


def _passage(part: Part, index_tools: bool, whole: bool) -> str:
    is_text = part.kind == "text" or (part.kind == "other" and part.call_id is None)
    if is_text or (whole and part.kind == "reasoning"):
        return part.text
    if not index_tools or part.kind not in ("tool_call", "tool_result", "other"):
        return ""
    body = part.arguments if part.kind == "tool_call" else part.text
    return " ".join(filter(None, (part.name, body)))


# Leaves out what a host wrote before a user's words.

# `[2026-02-15 18:49:02 GMT+8]` or `[Sun 2026-02-15 18:49]`, and before it perhaps `System:`.
_DATED: Final = re.compile(r"\s*(?P<host>System:\s*)?\[(?:[A-Z][a-z]{2} )?\d{4}-\d{2}-\d{2}[^\]\n]*\][ \t]*")


def without_prefixes(text: str) -> str:
    """*text* without the leading run of a host's own lines: a dated ``System:`` line goes whole.

    Of any other line that begins with a bracketed date the date goes and the words stay, since they may be
    the user's, or a log that was pasted. Where nothing would be left, *text* stays as it is.
    """
    if "[" not in text:
        return text  # the usual case
    rest = text
    while match := _DATED.match(rest):
        line_end = rest.find("\n", match.end())
        if match["host"]:
            rest = rest[line_end + 1 :] if line_end >= 0 else ""
        elif rest[match.end() : line_end if line_end >= 0 else None].strip():
            rest = rest[match.end() :]
            break
        else:
            rest = rest[line_end + 1 :] if line_end >= 0 else ""
    return rest if rest.strip() else text
