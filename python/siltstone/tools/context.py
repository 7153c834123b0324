"""The tools ``chronicle`` and ``context_compact``, and a text that tells a model when to call which tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from siltstone.compaction.base import Checkpoint
from siltstone.tools import base
from siltstone.tools.memory import MOST, handle_of

# The tool ``chronicle``: a model lists the checkpoints of its session, and reads one.

CHRONICLE_NAME = "chronicle"

CHRONICLE_DESCRIPTION, CHRONICLE_PARAMETERS = base.described(CHRONICLE_NAME)

Said = tuple[int, str, str]
"""A message of the log: its number, its role and its text."""

_NUMBER: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def chronicle(
    checkpoints: Callable[[], Sequence[Checkpoint]],
    expand: Callable[[int, int, int], Sequence[Said]],
    *,
    limit: int = 100,
    budget: int | None = None,
    count: base.Count = base.COUNT,
) -> base.Tool:
    """The tool over the *checkpoints* of one session.

    Its answer is a JSON object: ``checkpoints`` for ``list``, the fields of one for ``open``, ``messages``
    for ``expand``; and ``next`` where more follows.

    Args:
        checkpoints: All of them, in order.
        expand: The messages of a half-open range of the log, at most so many: ``(start, end, limit)``.
        limit: The most messages of an answer, 1 or more.
        budget: Tokens of an answer at most, 100 or more; None for :func:`answer_budget` of an unknown window.
        count: How they are counted.

    Raises:
        ConfigError: *budget* is too small for an answer.
    """
    most = base.answer_budget(None) if budget is None else base.check_budget(budget)

    def run(arguments: Mapping[str, Any]) -> str:
        base.check_names(CHRONICLE_NAME, arguments, CHRONICLE_PARAMETERS["properties"])
        action, after = arguments.get("action"), _after(arguments)
        found = list(checkpoints())
        if action == "list":
            return _list(found, after, most, count)
        if action not in ("open", "expand"):
            raise base.refusal(
                CHRONICLE_NAME, f"'action' must be 'list', 'open' or 'expand', got {base.shown(action)}"
            )
        one = _chosen(found, arguments)
        if action == "open":
            return _open(one, most, count)
        start = one.start if after is None else max(after, one.start)
        return _expand(one, expand(start, one.end, limit + 1), limit, most, count)

    return base.Tool(CHRONICLE_NAME, CHRONICLE_DESCRIPTION, CHRONICLE_PARAMETERS, run)


def _list(found: Sequence[Checkpoint], after: int | None, most: int, count: base.Count) -> str:
    rows: list[dict[str, Any]] = []
    start = 0 if after is None else after
    for place, each in enumerate(found[start:], start):
        rows.append(_row(each))
        answer = {"checkpoints": rows, "total": len(found), "next": str(place)}
        if len(rows) > 1 and count(base.as_json(answer)) > most:
            return base.as_json({**answer, "checkpoints": rows[:-1]})
    return base.as_json({"checkpoints": rows, "total": len(found)})


def _open(one: Checkpoint, most: int, count: base.Count) -> str:
    told = _row(one)
    if not one.title and not one.summary:
        return base.as_json({**told, "forgotten": True})
    return _fitting(lambda text: {**told, "summary": text}, one.summary, most, count)


def _expand(one: Checkpoint, said: Sequence[Said], limit: int, most: int, count: base.Count) -> str:
    """As many messages as fit; if the first one is too long, its beginning."""
    told: dict[str, Any] = {"checkpoint": _number(one)}
    rows: list[dict[str, str]] = []
    for seq, role, text in said[:limit]:
        row = {"handle": handle_of(seq), "role": role, "text": text}
        answer = {**told, "messages": [*rows, row], "next": str(one.end)}
        if count(base.as_json(answer)) <= most:
            rows.append(row)
            continue
        if rows:
            return base.as_json({**told, "messages": rows, "next": str(seq)})
        following = {"next": str(seq + 1)} if len(said) > 1 else {}
        head = {key: value for key, value in row.items() if key != "text"}
        return _fitting(
            lambda part, head=head, following=following: {  # type: ignore[misc]
                **told,
                "messages": [{**head, "text": part}],
                **following,
            },
            text,
            most,
            count,
        )
    more = {"next": str(said[limit][0])} if len(said) > limit else {}
    return base.as_json({**told, "messages": rows, **more})


def _fitting(answer: Callable[[str], dict[str, Any]], text: str, most: int, count: base.Count) -> str:
    """*answer* with *text*, or with as much of its beginning as there is room for."""
    whole = base.as_json(answer(text))
    if count(whole) <= most:
        return whole
    return base.as_json(answer(base.beginning(text, lambda part: count(base.as_json(answer(part))) <= most)))


def _row(each: Checkpoint) -> dict[str, Any]:
    told: dict[str, Any] = {
        "checkpoint": _number(each),
        "title": each.title,
        "kind": each.kind,
        "messages": f"{each.start}-{each.end - 1}",
    }
    if each.said_from is not None:
        told["from"] = datetime.fromtimestamp(each.said_from, UTC).isoformat(timespec="minutes")
    if each.is_rolled_up:
        told["rolled_up"] = True
    return told


def _number(each: Checkpoint) -> str:
    return f"{each.first}-{each.last}" if each.level else str(each.first)


def _chosen(found: Sequence[Checkpoint], arguments: Mapping[str, Any]) -> Checkpoint:
    """The requested checkpoint; of several roll-ups of the same range, the highest."""
    asked = arguments.get("checkpoint")
    text = str(asked) if type(asked) is int and 0 <= asked < MOST else asked
    number = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    if number is None:
        raise base.refusal(
            CHRONICLE_NAME, f"'checkpoint' must be a number such as '3' or '1-8', got {base.shown(asked)}"
        )
    first, last, is_rollup = int(number[1]), int(number[2] or number[1]), number[2] is not None
    numbered = [each for each in found if (each.first, each.last) == (first, last)]
    among = [each for each in numbered if is_rollup == (each.level > 0)]
    if not among:
        raise base.refusal(CHRONICLE_NAME, f"this conversation has no checkpoint {text!r}")
    return among[-1]


def _after(arguments: Mapping[str, Any]) -> int | None:
    after = arguments.get("after")
    if after is None or after == "":
        return None
    if type(after) is int and after >= 0:
        return after
    if isinstance(after, str) and after.isascii() and after.isdigit() and len(after) <= 15:
        return int(after)
    raise base.refusal(
        CHRONICLE_NAME, f"'after' must be what an answer gave as 'next', got {base.shown(after)}"
    )


# The tool ``context_compact``: a model asks for a compaction, for example at the end of a task.

COMPACT_NAME = "context_compact"
MAX_FOCUS = 2_000  #: characters: a focus is a few words, and goes into the request for the summary

COMPACT_DESCRIPTION, COMPACT_PARAMETERS = base.described(COMPACT_NAME)


def context_compact(ask: Callable[[str | None], Mapping[str, Any]]) -> base.Tool:
    """The tool over *ask*, which takes the focus, notes the request, and returns its status.

    The result of the tool is this status as JSON.
    """

    def run(arguments: Mapping[str, Any]) -> str:
        base.check_names(COMPACT_NAME, arguments, COMPACT_PARAMETERS["properties"])
        return json.dumps(ask(_focus(arguments)), ensure_ascii=False)

    return base.Tool(COMPACT_NAME, COMPACT_DESCRIPTION, COMPACT_PARAMETERS, run)


def _focus(arguments: Mapping[str, Any]) -> str | None:
    focus = arguments.get("focus")
    if focus is not None and not isinstance(focus, str):
        raise base.refusal(COMPACT_NAME, f"'focus' must be a string, got {type(focus).__name__}")
    focus = focus.strip() if focus else ""
    if len(focus) > MAX_FOCUS:
        raise base.refusal(
            COMPACT_NAME, f"'focus' must have at most {MAX_FOCUS} characters, got {len(focus)}"
        )
    return focus or None


# A text about siltstone's tools for a system prompt: it tells a model when to call which tool.


def skill(tools: Iterable[base.Tool]) -> str:
    """A short text about *tools* for the system prompt; empty if none of them is a tool of siltstone."""
    offered, told = {tool.name for tool in tools}, base.texts()["skill"]
    lines = [f"- {line}" for name, line in told["lines"].items() if name in offered]
    return "\n".join([told["heading"], told["before"], *lines, f"- {told['data']}"]) if lines else ""
