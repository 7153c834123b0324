"""Checks that a message is within the size limit, and has only values that JSON can carry."""

from __future__ import annotations

import json
from math import isfinite

from siltstone._native import json_size
from siltstone.errors import MessageTooLargeError
from siltstone.messages.json_text import MAX_DEPTH, dump, encode
from siltstone.messages.message import RawMessage

__all__ = ["MAX_MESSAGE_BYTES", "check_carried", "message_size"]

#: The maximum bytes of JSON in one message: as many as the largest provider accepts in a whole request.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024

_MOST_BYTES_PER_CODE_POINT = 6  # a control character is written as \u0001


def message_size(raw: RawMessage) -> tuple[int, int]:
    """The bytes and the code points of a message's JSON text. A lone surrogate counts as three bytes.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    try:
        return json_size(raw)
    except (TypeError, ValueError):
        # An SDK's own object, or a mapping that is not a dict: its dump is measured.
        return json_size(json.loads(encode(raw)))


def check_carried(raw: RawMessage, index: int) -> None:
    """Checks the size of a message; *index* is its place, for errors.

    Raises:
        MessageTooLargeError: more than ``MAX_MESSAGE_BYTES``; carries ``size`` and ``limit``.
        TypeError, ValueError, RecursionError: it has a value that JSON cannot carry.
    """
    weight = _weight(raw, 0)
    if weight is not None and weight * _MOST_BYTES_PER_CODE_POINT <= MAX_MESSAGE_BYTES:
        return
    text = dump(raw)
    size = len(text.encode())
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"message {index} is {size} bytes of JSON; the limit is {MAX_MESSAGE_BYTES}",
            index=index,
            size=size,
            limit=MAX_MESSAGE_BYTES,
        )


def _weight(value: object, depth: int) -> int | None:
    """An upper bound of the code points of *value* as JSON before escapes; None if a dump is necessary.

    This walk is cheaper than a dump, and nearly all messages are far below the limit.
    """
    kind = type(value)
    if kind is str:
        return len(value) + 3  # type: ignore[arg-type]
    if value is None or kind is bool:
        return 6
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if kind is dict:
        total = 3
        for key, item in value.items():  # type: ignore[attr-defined]
            inner = _weight(item, depth + 1)
            if inner is None or type(key) is not str:
                return None
            total += len(key) + 3 + inner
        return total
    if kind is list:
        total = 3
        for item in value:  # type: ignore[attr-defined]
            inner = _weight(item, depth + 1)
            if inner is None:
                return None
            total += inner
        return total
    if kind is int:
        bits = value.bit_length()  # type: ignore[attr-defined]
        return bits // 3 + 4 if bits < 10_000 else None
    if kind is float:
        return 27 if isfinite(value) else None  # type: ignore[arg-type]
    return None
