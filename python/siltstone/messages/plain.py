"""Turns an SDK's own object, or a mapping that is not a dict, into a plain dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_fields", "as_json_value"]


def as_fields(value: object) -> Mapping[str, Any] | None:
    """*value* as a mapping: a mapping itself, or the dump of an SDK's object; None for any other value.

    Raises:
        TypeError: it is an object that should dump itself, and cannot.
    """
    if isinstance(value, Mapping):
        return value
    return _dumped(value)


def as_json_value(value: object) -> Any:
    """The ``default`` hook of the JSON encoder: mappings become dicts, SDK objects become their dumps.

    Raises:
        TypeError: *value* is neither, or cannot dump itself.
    """
    if isinstance(value, Mapping):
        return dict(value)
    fields = _dumped(value)
    if fields is None:
        raise TypeError(f"{type(value).__name__} is not JSON serializable")
    return fields


def _dumped(value: object) -> dict[str, Any] | None:
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        return None
    try:
        # The SDKs themselves send back only the fields that were set. An object that was built by hand may
        # have its type or its role from a default; then the defaults are dumped too.
        fields = dump(mode="json", exclude_unset=True)
        if isinstance(fields, dict) and "type" not in fields and "role" not in fields:
            fields = dump(mode="json", exclude_none=True)
    except Exception as error:
        raise TypeError(f"{type(value).__name__} cannot dump itself: {error}") from error
    return fields if isinstance(fields, dict) else None
