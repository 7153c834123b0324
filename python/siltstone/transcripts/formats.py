"""The formats of transcripts: how each is known by its content, and read."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone.errors import InvalidMessageError
from siltstone.messages import Part, read_message, well_formed
from siltstone.messages.dialects import openai_chat, openai_responses
from siltstone.transcripts.files import Told

Values: TypeAlias = Iterable[tuple[str, Any]]

_LONGEST_NAME: Final = 200  #: characters of a session's name


@dataclass(frozen=True, slots=True)
class Record:
    """A message of a transcript.

    Attributes:
        session: The name of its session.
        message: The message, in the dialect of its file or the nearest one.
        id: Its id; None where the file has none.
        parent: The id of the record before it; None where the file has none.
        time: When it was said; None where the file has no time. A time without a zone is one of UTC.
        where: The file, and the place in it.
        project: The folder of the project; empty if unknown.
        pieces: For an answer of several lines, the id of each line and the number of its blocks.
    """

    session: str
    message: dict[str, Any]
    id: str | None = None
    parent: str | None = None
    time: datetime | None = None
    where: str = ""
    project: str = ""
    pieces: tuple[tuple[str, int], ...] = ()

    @property
    def role(self) -> str:
        """Who said it: ``user``, ``assistant``, ``tool``, ``system`` or ``developer``."""
        return read_message(self.message, 0).role

    @property
    def blocks(self) -> tuple[Part, ...]:
        """Its parts: texts, calls, results and so on, alike for every dialect."""
        return read_message(self.message, 0).parts


class Format(NamedTuple):
    """A format: its name, whether a value of a file is of it, and its reader."""

    name: str
    knows: Callable[[Any], bool]
    read: Callable[[Values, Told, str], Iterator[Record]]


def seen(sample: list[tuple[str, Any]]) -> str:
    """What a file begins with, in words."""
    where, first = sample[0]
    if isinstance(first, dict):
        keys = ", ".join(
            f"{key}={value!r}" if key in ("type", "role") else str(key) for key, value in first.items()
        )
        return f"at {where} an object with {keys[:200] or 'nothing'}"
    return f"at {where} not a message but {type(first).__name__}"


def when(*given: Any) -> datetime | None:
    """The first of *given* that is a time: ISO 8601, or seconds or milliseconds since 1970, also as text."""
    for value in given:
        try:
            if isinstance(value, str) and re.fullmatch(r"[0-9]{9,13}(\.[0-9]*)?", value):
                value = float(value)
            if isinstance(value, str):
                said = datetime.fromisoformat(value)
                said = said if said.tzinfo else said.replace(tzinfo=UTC)
                said.astimezone(UTC)  # refuses what is in no year from 1 to 9999
            elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                said = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
            else:
                continue
        except (ValueError, OverflowError, OSError):
            continue
        return said
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(value: Any, other: str) -> str:
    """A name that a session may have."""
    said = well_formed(str(value)) if isinstance(value, str | int) and str(value).strip() else other
    return said[:_LONGEST_NAME]


def _checked(record: Record, told: Told) -> Iterator[Record]:
    """The record, if its message can be read."""
    try:
        read_message(record.message, 0)
    except InvalidMessageError as error:
        told.bad(record.where, "not a message", str(error).removeprefix("message 0: "))
    else:
        yield record


# Messages of OpenAI, Anthropic, LangChain and ShareGPT: alone, in lists, in objects with a list.

_TIMES: Final = ("timestamp", "created_at", "createdAt", "create_time", "created", "time", "date", "at", "ts")
_LISTS: Final = ("messages", "conversations", "conversation", "input", "output", "items")
_NAMES: Final = ("id", "session_id", "sessionId", "conversation_id", "thread_id")
_SPEAKERS: Final = {
    "human": "user", "user": "user", "gpt": "assistant", "ai": "assistant", "assistant": "assistant",
    "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "claude": "assistant",
    "model": "assistant", "system": "system", "tool": "tool", "function": "tool", "observation": "tool",
    "function_call": "assistant", "function_response": "tool", "developer": "developer",
}  # fmt: skip


def _called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _of_langchain(value: dict[str, Any]) -> dict[str, Any] | None:
    """A message that LangChain has dumped in one of its three forms, as one of OpenAI chat."""
    path = value.get("id")
    if (
        value.get("type") == "constructor"
        and isinstance(path, list)
        and path
        and isinstance(value.get("kwargs"), dict)
    ):
        kind = str(path[-1]).lower().partition("message")[0]
        data = value["kwargs"]
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        kind, data = _text(value.get("type")), value["data"]
    elif (
        "content" in value
        and "role" not in value
        and ("additional_kwargs" in value or "response_metadata" in value)
    ):
        kind, data = _text(value.get("type")), value
    else:
        return None
    role = (
        _text(data.get("role"))
        if kind == "chat"
        else _SPEAKERS.get(kind.lower().removesuffix("messagechunk"))
    )
    if role is None:
        return None
    message = {"role": role, "content": data.get("content")}
    calls = [
        _called(_text(each.get("id")), _text(each.get("name")), each.get("args", {}))
        for each in map(_dict, _list(data.get("tool_calls")))
    ] or _list(_dict(data.get("additional_kwargs")).get("tool_calls"))
    if role == "assistant" and calls:
        message["tool_calls"] = calls
        if isinstance(message["content"], list):
            message["content"] = [
                each for each in message["content"] if _dict(each).get("type") != "tool_use"
            ]
        message["content"] = message["content"] or None
    if role == "tool":
        message["tool_call_id"] = _text(data.get("tool_call_id")) or _text(data.get("name"))
    stamped = _dict(data.get("response_metadata")) | _dict(data.get("additional_kwargs"))
    return message | {key: stamped[key] for key in _TIMES if key in stamped}


def _of_sharegpt(value: dict[str, Any]) -> dict[str, Any] | None:
    """A message of ShareGPT as one of OpenAI chat. Its calls have no ids: the name is the id."""
    said, role = value.get("value"), _SPEAKERS.get(_text(value.get("from")))
    if role is None or not isinstance(said, str):
        return None
    if value["from"] == "function_call":
        try:
            called = _dict(json.loads(said))
        except (ValueError, RecursionError):
            called = {}
        name = _text(called.get("name")) or "function"
        return {
            "role": role,
            "content": None,
            "tool_calls": [_called("call", name, called.get("arguments", said))],
        }
    return {"role": role, "content": said, **({"tool_call_id": "call"} if role == "tool" else {})}


def _is_said(value: Any) -> bool:
    """Whether *value* is a message by its role and content, or an item by its type and its id."""
    if not isinstance(value, dict):
        return False
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str):
        return role in openai_chat.ROLES and not {"content", "tool_calls", "function_call"}.isdisjoint(value)
    if role is None and isinstance(kind, str) and kind in openai_responses.ITEMS:
        if kind == "reasoning":
            return isinstance(value.get("summary"), list) or "encrypted_content" in value
        return isinstance(value.get("call_id", value.get("id")), str) and len(value) > 2
    return False


def _said(value: Any) -> dict[str, Any] | None:
    """*value* as a message, if it is one."""
    if _is_said(value):
        return dict(value)
    return (_of_langchain(value) or _of_sharegpt(value)) if isinstance(value, dict) else None


def _held(value: Any) -> list[Any] | None:
    """The messages of a list, or of an object with a list of messages or with choices."""
    if isinstance(value, list):
        return value if any(_said(each) is not None for each in value) else None
    if not isinstance(value, dict) or _said(value) is not None:
        return None
    for key in _LISTS:
        if isinstance(value.get(key), list):
            found: list[Any] = value[key]
            if any(_said(each) is not None for each in found) or (not found and key == "messages"):
                rules = value.get("system", value.get("instructions"))
                return (
                    [{"role": "system", "content": rules}] if isinstance(rules, str | list) and rules else []
                ) + found
    chosen = [_dict(each).get("message") for each in _list(value.get("choices"))[:1]]
    return chosen if any(map(_is_said, chosen)) else None


def _read_messages(values: Values, told: Told, stem: str) -> Iterator[Record]:
    sessions, loose, counts = 0, "", Counter[str]()
    for where, value in values:
        held = _held(value)
        outer = _dict(value)
        if held is None:
            if not loose:
                sessions, loose = sessions + 1, f"{stem}-{sessions + 1}"
            found, name = [(where, value)], loose
            outer = {}
        else:
            sessions, loose = sessions + 1, ""
            name = next((_name(outer[key], "") for key in _NAMES if key in outer), "") or f"{stem}-{sessions}"
            found = [(f"{where}, message {place}", each) for place, each in enumerate(held)]
        for at, each in found:
            message = _said(each)
            if message is None:
                fields = _dict(each)
                role = (
                    f"unknown role {fields['role']!r}"
                    if "role" in fields
                    else f"unknown type {fields.get('type')!r}"
                )
                told.bad(at, role if fields else f"not a message but {type(each).__name__}")
                continue
            counts[name] += 1
            own = each if isinstance(each, dict) else {}
            time = when(*(own.get(key) for key in _TIMES), *(message.get(key) for key in _TIMES))
            time = time or when(*(outer.get(key) for key in _TIMES))
            if message is not each and not _is_said(each):
                message = {key: part for key, part in message.items() if key not in _TIMES}
            yield from _checked(Record(name, message, time=time, where=at), told)


# Claude Code: a file for each session, lines that know the line before them, answers in several lines.


_SUMMARIES: Final = "summaries of compactions"


# The lines of a file, for a session may have millions. A line that stands there before is left out.
_TABLE: Final = """
    CREATE TABLE line(
        place INTEGER PRIMARY KEY, id INTEGER, print INTEGER, parent INTEGER, session TEXT,
        answer INTEGER,  -- the hash of the id of the answer that it is a part of
        calls TEXT,  -- the ids of the calls that it answers, as JSON
        is_said INTEGER, is_kept INTEGER DEFAULT 0
    );
    CREATE INDEX line_by_id ON line(id, place);
    BEGIN
"""
# The branch that ends in the last message of each session, and the blocks of one answer beside it.
_BRANCHES: Final = """
    UPDATE line SET is_kept = 1 WHERE place IN (
        WITH RECURSIVE branch(place) AS (
            SELECT max(place) FROM line WHERE is_said GROUP BY session
            UNION SELECT parent FROM line JOIN branch USING (place) WHERE parent IS NOT NULL
        ) SELECT place FROM branch
    );
    CREATE INDEX line_by_answer ON line(answer, session) WHERE answer IS NOT NULL;
    UPDATE line SET is_kept = 1 WHERE NOT is_kept AND (answer, session) IN (
        SELECT answer, session FROM line WHERE is_kept AND answer IS NOT NULL
    )
"""


def _is_claude(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("user", "assistant")
        and isinstance(value.get("sessionId"), str)
        and isinstance(value.get("message"), dict)
        and {"role", "content"} <= value["message"].keys()
    )


def _answered(content: Any) -> frozenset[str]:
    """The ids of the calls that *content* answers, if it has only results."""
    blocks = [_dict(each) for each in _list(content)]
    is_result = blocks and all(each.get("type") == "tool_result" for each in blocks)
    return frozenset(str(each.get("tool_use_id")) for each in blocks) if is_result else frozenset()


def _fingerprint(value: dict[str, Any]) -> int:
    content = _dict(value.get("message")).get("content")
    blocks = [
        (each.get("id"), str(each)[:500]) if isinstance(each, dict) else each for each in _list(content)
    ]
    return hash((str(value.get("type")), str(value.get("timestamp")), _text(content), str(blocks)))


def _lines_of_claude(values: Values, stem: str) -> sqlite3.Connection:
    """The lines of a file, in a temporary database that keeps little of them in memory."""
    lines = sqlite3.connect("", isolation_level=None)
    lines.executescript(_TABLE)
    newest, linked, boundary = dict[str, int](), set[str](), set[str]()
    same = "SELECT 1 FROM line WHERE id = ? AND print = ?"
    last = "SELECT place, session FROM line WHERE id = ? ORDER BY place DESC LIMIT 1"
    for place, (_, value) in enumerate(values):
        fields, said = _dict(value), _is_claude(value)
        uuid, session = _text(fields.get("uuid")), _name(fields.get("sessionId"), stem)
        print_ = _fingerprint(fields)
        if not uuid and not said:
            continue
        if uuid and lines.execute(same, (hash(uuid), print_)).fetchone():
            continue
        before = _text(fields.get("parentUuid")) or _text(fields.get("logicalParentUuid"))
        parent, group_before = (before and lines.execute(last, (hash(before),)).fetchone()) or (None, "")
        group = session
        if fields.get("isSidechain"):
            of_file = stem.removeprefix("agent-") if stem.startswith("agent-") else ""
            agent = _text(fields.get("agentId")) or of_file
            if not agent and group_before.startswith(f"{session}/"):
                agent = group_before.removeprefix(f"{session}/")
            group = well_formed(f"{session}/{agent or uuid[:8]}")
        message = _dict(fields.get("message"))
        calls = _answered(message.get("content"))
        is_root = (
            fields.get("parentUuid", 0) is None and group in linked and group not in boundary
            and said and fields["type"] == "user" and not calls and not fields.get("isCompactSummary")
        )  # fmt: skip
        if parent is None and not is_root:
            parent = newest.get(group)
        linked |= {group} if isinstance(fields.get("parentUuid"), str) else set()
        boundary = boundary | {group} if fields.get("subtype") == "compact_boundary" else boundary - {group}
        is_said = said and not fields.get("isMeta") and not fields.get("isApiErrorMessage")
        newest[group] = place
        is_part = said and isinstance(message.get("content"), list)
        answer = hash(message["id"]) if is_part and _text(message.get("id")) else None
        row = (place, hash(uuid) if uuid else None, print_, parent, group, answer)
        own = json.dumps(sorted(calls)) if calls else None
        lines.execute("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)", (*row, own, is_said))
    lines.executescript(_BRANCHES)
    _keep_results(lines)
    return lines


def _keep_results(lines: sqlite3.Connection) -> None:
    """Keeps the results of parallel calls that stand beside the branch."""
    beside = lines.execute(
        "SELECT place, session, calls, parent FROM line WHERE NOT is_kept AND calls NOT NULL"
    )
    waiting = [(*row, {(row[1], call) for call in json.loads(row[2])}) for row in beside.fetchall()]
    wanted = {call for *_, calls in waiting for call in calls}
    done = set[tuple[str, str]]()
    for session, calls in lines.execute("SELECT session, calls FROM line WHERE is_kept AND calls NOT NULL"):
        done |= wanted & {(session, call) for call in json.loads(calls)} if wanted else set()
    for place, _, _, parent, calls in waiting:
        kept = lines.execute("SELECT is_kept FROM line WHERE place = ?", (parent,)).fetchone()
        if kept and kept[0] and not done & calls:
            lines.execute("UPDATE line SET is_kept = 1 WHERE place = ?", (place,))
            done |= calls


def _read_claude(values: Values, told: Told, stem: str) -> Iterator[Record]:
    with closing(_lines_of_claude(values, stem)) as lines:
        rows = lines.execute("SELECT place, session, answer, calls, is_kept FROM line ORDER BY place")
        row = rows.fetchone()
        waiting = dict[
            str, tuple[int | None, list[Record]]
        ]()  # an answer that may go on, and what came after
        begun = set[str]()
        for place, (where, value) in enumerate(values):
            fields, line = _dict(value), None
            if row is not None and row[0] == place:
                line, row = row, rows.fetchone()
            kind = _left_by_claude(value, is_known=line is not None, is_kept=line is not None and line[4])
            if line is None or (kind and (kind != _SUMMARIES or line[1] in begun)):
                told.left_out[kind] += 1
                continue
            _, name, part, calls, _ = line
            begun.add(name)
            said = fields["message"]
            role = "assistant" if fields.get("isCompactSummary") else said["role"]
            record = Record(
                name,
                {"role": role, "content": said["content"]},
                _text(fields.get("uuid")) or None,
                _text(fields.get("parentUuid")) or None,
                when(fields.get("timestamp")),
                where,
                _text(fields.get("cwd")),
                ((_text(fields.get("uuid")), len(_list(said["content"]))),),
            )
            answer, group = waiting.get(name, (None, []))
            if answer is not None and answer == part:
                content = [*group[0].message["content"], *said["content"]]
                pieces = group[0].pieces + record.pieces
                group[0] = replace(group[0], message={**group[0].message, "content": content}, pieces=pieces)
            elif answer is not None and calls:
                group.append(record)
            else:
                yield from _all_checked(group, told)
                waiting[name] = part, [record]
        for _, group in waiting.values():
            yield from _all_checked(group, told)


def _all_checked(group: list[Record], told: Told) -> Iterator[Record]:
    for record in group:
        yield from _checked(record, told)


def _left_by_claude(value: Any, *, is_known: bool, is_kept: bool) -> str:
    """The kind of a line that is left out; empty for a message of the conversation."""
    fields = _dict(value)
    if not _is_claude(value):
        kind = _text(fields.get("type")) or "without a type"
        return f"lines {' '.join(filter(None, (kind, _text(fields.get('subtype')))))}"
    if fields.get("isApiErrorMessage"):
        return "errors of the API"
    if fields.get("isMeta"):
        return "notes of the program"
    if not is_known:
        return "repeated messages"
    if fields.get("isCompactSummary"):
        return _SUMMARIES
    if not is_kept:
        return "messages of left branches"
    return "" if fields["message"]["content"] not in ("", [], None) else "empty messages"


# Codex: lines with an envelope, or bare items behind a line about the session.

_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_INJECTED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
)


def _is_codex(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("payload"), dict):
        return str(value.get("type")) in _ENVELOPES and isinstance(value.get("timestamp"), str)
    return {"id", "timestamp", "instructions"} <= value.keys() and not {"role", "type"} & value.keys()


def _read_codex(values: Values, told: Told, stem: str) -> Iterator[Record]:
    name, project, begun = "", "", None
    for where, value in values:
        fields = _dict(value)
        kind, item = _text(fields.get("type")), fields
        if isinstance(fields.get("payload"), dict) and kind:
            item = fields["payload"]
        is_meta = kind == "session_meta" or (_is_codex(value) and "payload" not in fields)
        if is_meta and not name:
            name, project = _name(item.get("id"), stem), _text(item.get("cwd"))
            begun = when(fields.get("timestamp"))  # lines of old rollouts have no time of their own
        if is_meta or (item is not fields and kind != "response_item") or "record_type" in fields:
            told.left_out[f"lines {kind or fields.get('record_type') or 'session_meta'}"] += 1
            continue
        if isinstance(item.get("output"), dict):
            item = {**item, "output": _text(item["output"].get("content"))}
        is_message = item.get("type") == "message" and isinstance(item.get("role"), str)
        if not is_message and not _is_said(item):
            if fields:
                told.left_out[f"items {_text(item.get('type')) or 'without a type'}"] += 1
            else:
                told.bad(where, f"not a message but {type(value).__name__}")
            continue
        texts = [_text(_dict(each).get("text")) for each in _list(item.get("content"))]
        if item.get("role") == "user" and texts and all(each.startswith(_INJECTED) for each in texts):
            told.left_out["texts that the program put in"] += 1
            continue
        time = when(fields.get("timestamp")) or begun
        record = Record(name or stem, item, time=time, where=where, project=project)
        yield from _checked(record, told)


# The exports of ChatGPT and of claude.ai.

_THOUGHTS: Final = frozenset({"thoughts", "reasoning_recap"})
_PROFILES: Final = frozenset({"user_editable_context", "model_editable_context"})


def _conversations(values: Values) -> Iterator[tuple[str, Any]]:
    """The conversations of a file; an object may hold a list of them."""
    for where, value in values:
        inner = _dict(value).get("conversations")
        if isinstance(inner, list):
            yield from ((f"{where}, conversation {place}", each) for place, each in enumerate(inner))
        else:
            yield where, value


def _is_chatgpt(value: Any) -> bool:
    fields = _dict(value)
    if isinstance(fields.get("conversations"), list):
        return any(map(_is_chatgpt, fields["conversations"]))
    nodes = _dict(fields.get("mapping")).values()
    return any(isinstance(node, dict) and {"message", "parent"} <= node.keys() for node in nodes)


def _read_chatgpt(values: Values, told: Told, stem: str) -> Iterator[Record]:
    for number, (where, value) in enumerate(_conversations(values), 1):
        fields = _dict(value)
        nodes = {key: node for key, node in _dict(fields.get("mapping")).items() if isinstance(node, dict)}
        if not nodes:
            told.bad(where, "no conversation of ChatGPT")
            continue
        names = (fields.get("conversation_id"), fields.get("id"), fields.get("title"))
        name = _name(next((each for each in names if each), None), f"{stem}-{number}")
        path = _path(nodes, fields.get("current_node"))
        beside = nodes.keys() - set(path)
        told.left_out["messages of left branches"] += sum(bool(nodes[key].get("message")) for key in beside)
        call = ""
        for key in path:
            said = _dict(nodes[key].get("message"))
            if not said:
                continue
            message = _of_chatgpt(said, key, call, told)
            if message is None:
                continue
            if "tool_calls" in message:
                call = key
            time = when(said.get("create_time"), said.get("update_time"), fields.get("create_time"))
            parent = nodes[key].get("parent")
            record = Record(name, message, key, parent if isinstance(parent, str) else None, time, where)
            yield from _checked(record, told)
        told.left_out += Counter()


def _path(nodes: Mapping[str, dict[str, Any]], current: Any) -> list[str]:
    """The keys from the first node to the node *current*; without one, to the newest leaf."""
    if not isinstance(current, str) or current not in nodes:
        inner = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
        leaves = [key for key in nodes if key not in inner] or list(nodes)
        said = {key: when(_dict(nodes[key].get("message")).get("create_time")) for key in leaves}
        first = datetime.min.replace(tzinfo=UTC)
        current = max(reversed(leaves), key=lambda key: said[key] or first)
    found: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in found:
        found[current] = None
        current = nodes[current].get("parent")
    return list(found)[::-1]


def _of_chatgpt(said: dict[str, Any], key: str, call: str, told: Told) -> dict[str, Any] | None:
    author = said.get("author")
    role = author if isinstance(author, str) else _dict(author).get("role")
    content = said.get("content")
    kind = _text(_dict(content).get("content_type"))
    left = (
        "hidden messages" if _dict(said.get("metadata")).get("is_visually_hidden_from_conversation")
        else "profiles of the user" if kind in _PROFILES
        else "thoughts of the model" if kind in _THOUGHTS
        else f"messages of the role {role!r}" if role not in ("user", "assistant", "system", "tool")
        else ""
    )  # fmt: skip
    texts = [content] if isinstance(content, str) else list(_texts_of_chatgpt(_dict(content), told))
    text = "\n".join(each for each in texts if each.strip())
    if left or not text:
        told.left_out[left or "empty messages"] += 1
        return None
    recipient = _text(said.get("recipient"))
    if role == "assistant" and recipient not in ("", "all"):
        return {"role": role, "content": None, "tool_calls": [_called(key, recipient, {"input": text})]}
    return {"role": role, "content": text, **({"tool_call_id": call or key} if role == "tool" else {})}


def _texts_of_chatgpt(content: dict[str, Any], told: Told) -> Iterator[str]:
    for part in _list(content.get("parts")):
        text = part if isinstance(part, str) else _text(_dict(part).get("text"))
        if text or part in ("", None):
            yield text
        else:
            told.left_out[f"parts {_text(_dict(part).get('content_type')) or type(part).__name__}"] += 1
    for key in ("title", "url", "text", "result", "summary"):
        yield _text(content.get(key))


def _is_claude_ai(value: Any) -> bool:
    fields = _dict(value)
    if isinstance(fields.get("conversations"), list):
        return any(map(_is_claude_ai, fields["conversations"]))
    said = fields.get("chat_messages")
    return isinstance(said, list) and isinstance(fields.get("uuid"), str) and (
        not said or any("sender" in _dict(each) for each in said)
    )  # fmt: skip


def _read_claude_ai(values: Values, told: Told, stem: str) -> Iterator[Record]:
    for number, (where, value) in enumerate(_conversations(values), 1):
        fields = _dict(value)
        found = fields.get("chat_messages")
        if not isinstance(found, list):
            told.bad(where, "no conversation of claude.ai")
            continue
        name = _name(fields.get("uuid"), f"{stem}-{number}")
        nodes = {
            _text(each.get("uuid")) or str(place): each
            | {"parent": _text(each.get("parent_message_uuid")) or None}
            for place, each in enumerate(map(_dict, found))
        }
        path = list(nodes)
        if any(node["parent"] in nodes for node in nodes.values()):
            path = _path(nodes, fields.get("current_leaf_message_uuid") or path[-1])
            told.left_out["messages of left branches"] += len(nodes) - len(path)
        for key in path:
            said = nodes[key]
            time = when(said.get("created_at"), fields.get("created_at"))
            role = {"human": "user", "assistant": "assistant"}.get(_text(said.get("sender")))
            at = f"{where}, message {key}"
            if role is None:
                told.bad(at, f"unknown sender {said.get('sender')!r}")
                continue
            for place, message in enumerate(_of_claude_ai(said, role, told)):
                each_id = f"{key}#{place}" if place else key
                yield from _checked(Record(name, message, each_id, said["parent"], time, at), told)
        told.left_out += Counter()


def _of_claude_ai(said: dict[str, Any], role: str, told: Told) -> Iterator[dict[str, Any]]:
    """The messages of one: results stand inside of an answer, and are of the user in every dialect."""
    blocks, whose = list[dict[str, Any]](), role
    given = _list(said.get("content")) or [{"type": "text", "text": _text(said.get("text"))}]
    for each in map(_dict, _list(said.get("attachments"))):
        if text := _text(each.get("extracted_content")):
            given = [*given, {"type": "text", "text": f"{_text(each.get('file_name'))}\n{text}".strip()}]
    told.left_out["files"] += len(_list(said.get("files")))
    for block in map(_dict, given):
        kind = _text(block.get("type"))
        if kind == "text" and not _text(block.get("text")).strip():
            continue
        if kind not in ("text", "tool_use", "tool_result"):
            told.left_out[f"blocks {kind or 'without a type'}"] += 1
            continue
        speaker = "user" if kind == "tool_result" else role
        if speaker != whose and blocks:
            yield {"role": whose, "content": blocks}
            blocks = []
        whose = speaker
        name = _text(block.get("name"))
        made: dict[str, Any] = {"type": kind}
        if kind == "text":
            made["text"] = block["text"]
        elif kind == "tool_use":
            made |= {"id": _text(block.get("id")) or name, "name": name, "input": _dict(block.get("input"))}
        else:
            made |= {"tool_use_id": _text(block.get("tool_use_id")) or name, "content": _results(block)}
        blocks.append(made)
    if blocks:
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
        yield {"role": whose, "content": blocks[0]["text"] if is_text else blocks}
    else:
        told.left_out["empty messages"] += 1


def _results(block: dict[str, Any]) -> str:
    content = block.get("content")
    return (
        content
        if isinstance(content, str)
        else "\n".join(_text(_dict(each).get("text")) for each in _list(content))
    )


FORMATS: Final = (
    Format("Claude Code", _is_claude, _read_claude),
    Format("Codex", _is_codex, _read_codex),
    Format("ChatGPT", _is_chatgpt, _read_chatgpt),
    Format("claude.ai", _is_claude_ai, _read_claude_ai),
    Format(
        "messages of OpenAI, Anthropic, LangChain or ShareGPT",
        lambda value: _said(value) is not None or _held(value) is not None,
        _read_messages,
    ),
)
