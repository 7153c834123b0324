"""The canonical bytes of a message, which are equal for all spellings of the same message."""

from __future__ import annotations

from _blake2 import blake2b  # that of hashlib, which loads OpenSSL as well
from collections.abc import Mapping
from typing import Any, Final

from siltstone._native import begins_alike, json_digests
from siltstone.messages.json_text import decode, encode
from siltstone.messages.kinds import RawMessage

__all__ = ["DIGEST", "begins_alike", "canonical_bytes", "canonical_digest", "text_digests"]

DIGEST = 16  #: bytes of one of the digests of :func:`text_digests`

_MARK: Final = "cache_control"  # of a message, a block, or a block in a tool's result: it moves every turn


def canonical_bytes(raw: RawMessage) -> bytes:
    r"""The JSON of a message in one form: the same bytes whenever the same message is sent again.

    The order of keys does not count, nor whether a key is there with null or is not there, nor whether a
    number that is whole is written ``1`` or ``1.0``, nor how JSON escapes a text, nor the marks of a
    provider's cache, nor whether the message is a dict or an SDK's object. Everything else does: an
    argument that is text, and a text beside a list of one text block.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    return encode(_plain(_unmarked(decode(encode(raw))))).encode()


def canonical_digest(raw: RawMessage, salt: bytes = b"") -> bytes:
    """A digest of :func:`canonical_bytes`, 16 bytes, which recognises the message if it is sent again.

    Args:
        raw: The message.
        salt: At most 64 bytes. Digests with different salts cannot be compared.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    return blake2b(canonical_bytes(raw), digest_size=16, key=salt).digest()


def text_digests(raws: list[RawMessage]) -> bytes | None:
    """For each message a digest of its JSON text, one after the other: ``begins_alike`` compares by it.

    None where one cannot be written as JSON.
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
