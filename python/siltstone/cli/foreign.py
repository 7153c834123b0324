"""Reads transcripts of other tools as sessions of plain messages: Claude Code, and the export of ChatGPT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["as_chatgpt", "as_claude_code"]

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
