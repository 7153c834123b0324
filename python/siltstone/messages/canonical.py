"""The canonical bytes of a message: equal bytes for all spellings of the same message."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from siltstone._native import begins_alike, json_digests
from siltstone.messages.json_text import decode, encode
from siltstone.messages.message import RawMessage

__all__ = ["DIGEST", "begins_alike", "canonical_bytes", "canonical_digest", "text_digests"]

DIGEST = 16  #: bytes of one digest of :func:`text_digests`

_MARK: Final = "cache_control"  # a key of messages and blocks; hosts move it to another message every turn


def canonical_bytes(raw: RawMessage) -> bytes:
    r"""The JSON of a message in one form: the same bytes whenever the same message is sent again.

    These differences do not count: the order of keys, a key with null or without it, ``1`` or ``1.0``, the
    escapes of JSON, the marks of a provider's cache, a dict or an SDK's object. All other differences count.
    For example, a content that is a text differs from a list of one text block, and arguments that are JSON
    text are compared as text.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    return encode(_plain(_unmarked(decode(encode(raw))))).encode()


def canonical_digest(raw: RawMessage, salt: bytes = b"") -> bytes:
    """The digest of :func:`canonical_bytes`, 16 bytes. It recognises a message that is sent again.

    Args:
        raw: The message.
        salt: At most 64 bytes. Digests with different salts cannot be compared.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    return blake2b(canonical_bytes(raw), digest_size=16, key=salt).digest()


def text_digests(raws: list[RawMessage]) -> bytes | None:
    """The digests of the JSON texts of all messages, ``DIGEST`` bytes each, for ``begins_alike``.

    None if a message cannot be written as JSON.
    """
    try:
        return json_digests(raws)
    except (TypeError, ValueError):
        return None


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != _MARK}
    if isinstance(blocks := kept.get("content"), list):
        kept["content"] = [_unmarked(each) if isinstance(each, dict) else each for each in blocks]
    return kept


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
