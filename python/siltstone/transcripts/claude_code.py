"""Claude Code: a file for each session, lines that know the line before them, answers in several lines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from siltstone.messages import well_formed
from siltstone.transcripts.base import (
    Format,
    Record,
    Values,
    as_dict,
    as_list,
    as_text,
    name_of,
    when,
    worded,
)
from siltstone.transcripts.files import Told

_SUMMARIES: Final = "summaries of compactions"
_LEFT: Final = "messages of left branches"

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


def _knows(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("user", "assistant")
        and isinstance(value.get("sessionId"), str)
        and isinstance(value.get("message"), dict)
        and {"role", "content"} <= value["message"].keys()
    )


def _line(value: Any) -> dict[str, Any]:
    """A line; a message that waited in a queue until the model read it, as one of the user."""
    fields, queued = as_dict(value), as_dict(as_dict(value).get("attachment"))
    if queued.get("type") != "queued_command" or queued.get("commandMode", "prompt") != "prompt":
        return fields
    return {**fields, "type": "user", "message": {"role": "user", "content": queued.get("prompt")}}


def _answered(content: Any) -> frozenset[str]:
    """The ids of the calls that *content* answers, if it has only results."""
    blocks = [as_dict(each) for each in as_list(content)]
    is_result = blocks and all(each.get("type") == "tool_result" for each in blocks)
    return frozenset(str(each.get("tool_use_id")) for each in blocks) if is_result else frozenset()


def _fingerprint(value: dict[str, Any]) -> int:
    content = as_dict(value.get("message")).get("content")
    blocks = [
        (each.get("id"), str(each)[:500]) if isinstance(each, dict) else each for each in as_list(content)
    ]
    return hash((str(value.get("type")), str(value.get("timestamp")), as_text(content), str(blocks)))


def _lines_of(values: Values, stem: str) -> sqlite3.Connection:
    """The lines of a file, in a temporary database that keeps little of them in memory."""
    lines = sqlite3.connect("", isolation_level=None)
    lines.executescript(_TABLE)
    newest, linked, boundary = dict[str, int](), set[str](), set[str]()
    same = "SELECT 1 FROM line WHERE id = ? AND print = ?"
    last = "SELECT place, session FROM line WHERE id = ? ORDER BY place DESC LIMIT 1"
    for place, (_, value) in enumerate(values):
        fields = _line(value)
        said = _knows(fields)
        uuid, session = as_text(fields.get("uuid")), name_of(fields.get("sessionId"), stem)
        print_ = _fingerprint(fields)
        if not uuid and not said:
            continue
        if uuid and lines.execute(same, (hash(uuid), print_)).fetchone():
            continue
        before = as_text(fields.get("parentUuid")) or as_text(fields.get("logicalParentUuid"))
        parent, group_before = (before and lines.execute(last, (hash(before),)).fetchone()) or (None, "")
        group = session
        if fields.get("isSidechain"):
            of_file = stem.removeprefix("agent-") if stem.startswith("agent-") else ""
            agent = as_text(fields.get("agentId")) or of_file
            if not agent and group_before.startswith(f"{session}/"):
                agent = group_before.removeprefix(f"{session}/")
            group = well_formed(f"{session}/{agent or uuid[:8]}")
        message = as_dict(fields.get("message"))
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
        answer = hash(message["id"]) if is_part and as_text(message.get("id")) else None
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


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    with closing(_lines_of(values, stem)) as lines:
        rows = lines.execute("SELECT place, session, answer, calls, is_kept FROM line ORDER BY place")
        row = rows.fetchone()
        waiting = dict[
            str, tuple[int | None, list[Record]]
        ]()  # an answer that may go on, and what came after
        begun = set[str]()
        for place, (where, value) in enumerate(values):
            fields, line = _line(value), None
            if row is not None and row[0] == place:
                line, row = row, rows.fetchone()
            kind = _kind_left(fields, is_known=line is not None, is_kept=line is not None and line[4])
            is_left = kind == _LEFT
            if line is None or (kind and (kind != _SUMMARIES or line[1] in begun)):
                told.left_out[kind] += 1
                if line is None or not is_left:
                    continue
            _, name, part, calls, _ = line
            said, uuid = fields["message"], as_text(fields.get("uuid"))
            role, content = said["role"], worded(said["content"])
            record = Record(
                name,
                {"role": "assistant" if fields.get("isCompactSummary") else role, "content": content},
                uuid or None,
                as_text(fields.get("parentUuid")) or None,
                when(fields.get("timestamp")),
                where,
                as_text(fields.get("cwd")),
                ((uuid, len(as_list(content))),),
                is_left,
            )
            if is_left:
                yield record
                continue
            begun.add(name)
            answer, group = waiting.get(name, (None, []))
            if answer is not None and answer == part:
                content = [*group[0].message["content"], *record.message["content"]]
                pieces = group[0].pieces + record.pieces
                group[0] = replace(group[0], message={**group[0].message, "content": content}, pieces=pieces)
            elif answer is not None and calls:
                group.append(record)
            else:
                yield from group
                waiting[name] = part, [record]
        for _, group in waiting.values():
            yield from group


def _kind_left(fields: dict[str, Any], *, is_known: bool, is_kept: bool) -> str:
    """The kind of a line that is left out; empty for a message of the conversation."""
    if not _knows(fields):
        kind = as_text(fields.get("type")) or "without a type"
        return f"lines {' '.join(filter(None, (kind, as_text(fields.get('subtype')))))}"
    if fields.get("isApiErrorMessage"):
        return "errors of the API"
    if fields.get("isMeta"):
        return "notes of the program"
    if not is_known:
        return "repeated messages"
    if fields.get("isCompactSummary"):
        return _SUMMARIES
    if not is_kept:
        return _LEFT
    return ""


FORMAT: Final = Format("Claude Code", _knows, _read)
