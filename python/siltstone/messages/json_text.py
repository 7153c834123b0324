"""Writes a message as JSON text, and reads it back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NoReturn

from siltstone._native import begins_alike as begins_alike, json_digests, json_size, json_tokens
from siltstone.errors import ConfigError, InvalidMessageError, MessageTooLargeError
from siltstone.messages.message import HostedMessage, KeyedSystemMessage, RawMessage, as_fields, as_json_value

OWN_KEY = "siltstone:message"  #: the key for data that a message type has beside its dict
_HOST_HEAD = f'{{"{OWN_KEY}":{{"host":'  # how the text of a message begins that has a host's form beside it
_OWN_AT = len(_HOST_HEAD) - len('{"host":')  # where the value of the own key begins there

MAX_DEPTH = 200  #: the maximum levels of nesting in a message; some readers of JSON stop at 1,000 or earlier

_SURROGATE = re.compile("[\ud800-\udfff]")


def encode(raw: RawMessage) -> str:
    r"""The JSON text of a message: compact, without ASCII escapes, always valid UTF-8.

    A lone surrogate is written as ``\udXXX``. Two adjacent surrogates in a str that form a pair come back
    from :func:`decode` as one code point, because JSON cannot distinguish the two forms. The key and the
    version of a :class:`KeyedSystemMessage` are written beside its fields.

    Raises:
        InvalidMessageError: it holds a value that JSON cannot carry; carries ``path``.
    """
    try:
        if type(raw) is dict and len(raw) == 2 and type(raw.get("role")) is type(raw.get("content")) is str:
            # The most frequent message, in a fifth of the time that an encoder takes to be made.
            quoted = _CODER.quoted
            role, content = f'"role":{quoted(raw["role"])}', f'"content":{quoted(raw["content"])}'
            text = f"{{{role},{content}}}" if next(iter(raw)) == "role" else f"{{{content},{role}}}"
            return text if text.isascii() else _clean(text)
        return dump(_with_own_key(raw))
    except (TypeError, ValueError, RecursionError) as error:
        raise unwritable(raw) from error


def logged(raw: RawMessage) -> str:
    """The text of :func:`encode`, and of a :class:`HostedMessage` the host's own form too.

    Only the log has that form: it is no part of what is sent, counted, compared or searched.

    Raises:
        InvalidMessageError: *raw* holds a value that JSON cannot carry; carries ``path``.
    """
    text = encode(raw)
    if not isinstance(raw, HostedMessage) or OWN_KEY in raw or not (host := raw.host):
        return text
    try:
        return f"{_HOST_HEAD}{dump(host)}}},{text[1:]}"
    except (TypeError, ValueError, RecursionError) as error:
        raise unwritable(host, name="the host's form of the message") from error


def well_formed(text: str) -> str:
    """*text* with pairs of surrogates joined, and U+FFFD for each lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def dump(value: object) -> str:
    """Like :func:`encode`, for any value; raises the errors of the standard library."""
    text = _CODER.encode(value)
    return text if text.isascii() else _clean(text)


def _clean(text: str) -> str:
    """*text* with each lone surrogate written as an escape."""
    if text.isascii():
        return text
    try:
        text.encode()  # faster than a search for surrogates, which are very rare
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return text


def decode(text: str) -> dict[str, Any]:
    """The message that :func:`encode` wrote.

    Raises:
        InvalidMessageError: *text* is not JSON, or not the JSON of an object.
    """
    try:
        value, end = _CODER.read(text)
        if end != len(text):
            value = _decoded(text)
    except (ValueError, RecursionError):
        value = _decoded(text)  # there may be white space before it
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise InvalidMessageError(f"the text of a message must be a JSON object, got {kind}", value_type=kind)
    return _restored(value) if OWN_KEY in value else value


def _decoded(text: str) -> object:
    """The value of *text*, with any white space around it."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the text of a message must be JSON: {error}") from error


def without_own_key(text: str) -> str:
    """The JSON text of the message as a plain dict, without siltstone's own key."""
    if text.startswith(_HOST_HEAD):  # the rest is the text of ``encode``
        return "{" + text[_CODER.read(text, _OWN_AT)[1] + 1 :]
    return dump(dict(decode(text))) if f'"{OWN_KEY}":' in text else text


def _with_own_key(raw: RawMessage) -> object:
    if type(raw) is dict and OWN_KEY not in raw:
        return raw
    if isinstance(raw, KeyedSystemMessage):
        return {OWN_KEY: {"key": raw.key, "version": raw.version}, **raw}
    if isinstance(raw, Mapping) and OWN_KEY in raw:  # the caller has a key of the same name
        return {OWN_KEY: {}, "raw": dict(raw)}
    return raw


def _restored(value: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`_with_own_key`."""
    own = value.pop(OWN_KEY)
    if own == {} and isinstance(value.get("raw"), dict):
        raw: dict[str, Any] = value["raw"]
        return raw
    if isinstance(own, dict) and own.keys() == {"host"} and isinstance(own["host"], dict):
        return HostedMessage(value, own["host"])
    try:
        keyed = KeyedSystemMessage("", own["key"], own["version"])
    except (KeyError, TypeError, ConfigError):  # the key was written by another program
        return {OWN_KEY: own, **value}
    keyed.clear()
    keyed.update(value)
    return keyed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Coder:
    """Writes and reads the JSON of messages. Its functions are made when the first of them is called."""

    encode: Callable[[object], str]
    quoted: Callable[[str], str]
    read: Callable[..., tuple[object, int]]

    def __getattr__(self, name: str) -> Any:
        self.encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json_value
        ).encode
        self.quoted = json.encoder.encode_basestring
        self.read = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
        return object.__getattribute__(self, name)


_CODER = _Coder()


def unwritable(raw: object, *, name: str = "the message", **fields: Any) -> InvalidMessageError:
    """The error for a message with a value that JSON cannot carry. It names the place."""
    path, reason = _first_unwritable(raw, "", 0) or ("", "it cannot be written as JSON")
    where = f" at {path}" if path else ""
    return InvalidMessageError(f"{name} holds what JSON cannot carry{where}: {reason}", path=path, **fields)


def _first_unwritable(value: object, path: str, depth: int) -> tuple[str, str] | None:
    """The place of the first such value, and the reason. The search is slow, and used only for errors."""
    if depth > MAX_DEPTH:
        return path[:80] + "…", f"nested more than {MAX_DEPTH} deep, or containing itself"
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else (path, repr(value))
    if isinstance(value, (list, tuple)):
        items = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    else:
        try:
            fields = as_fields(value)
        except TypeError as error:
            return path, str(error)
        if fields is None:
            return _unwritable_scalar(value, path)
        for key in fields:
            if not isinstance(key, (str, int, float, type(None))):
                return path, f"a key of type {type(key).__name__}"
        items = [(f"{path}.{key}" if path else str(key), item) for key, item in fields.items()]
    for place, item in items:
        if found := _first_unwritable(item, place, depth + 1):
            return found
    return None


def _unwritable_scalar(value: object, path: str) -> tuple[str, str] | None:
    if not isinstance(value, int):
        return path, f"a value of type {type(value).__name__}"
    try:
        int.__repr__(value)
    except ValueError as error:
        return path, str(error)
    return None


# The canonical bytes of a message: equal bytes for all spellings of the same message.

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
    from hashlib import blake2b  # it loads OpenSSL

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


# Checks that a message is within the size limit, and has only values that JSON can carry.

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


def message_json_tokens(raw: RawMessage, rule: str) -> int:
    """The tokens of a message's JSON text by *rule*, ``weights`` or that of a family.

    Raises:
        InvalidMessageError: that of :func:`message_size`.
    """
    try:
        return json_tokens(raw, rule)
    except (TypeError, ValueError):
        return json_tokens(json.loads(encode(raw)), rule)


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
