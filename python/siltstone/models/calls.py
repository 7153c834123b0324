"""The calls that a model asks for, read from its answer."""

from __future__ import annotations

import json
from typing import Any

from siltstone.errors import ModelError

__all__ = ["arguments_of"]


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of a call, which models write as JSON text.

    Raises:
        ModelError: they are not a JSON object.
    """
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the model called a tool with arguments that are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ModelError(f"the model called a tool with {type(arguments).__name__}, not with an object")
    return arguments
