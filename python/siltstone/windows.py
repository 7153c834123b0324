"""How many tokens a model takes, by its name: a table that is a part of the package, and no network.

The table says where it is from and of which day. A provider's own error has the last word: a session learns
from it (``Session.recover``).
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from siltstone.errors import ConfigError

__all__ = ["UNKNOWN_WINDOW", "Window", "auto_window", "window_of"]

_log = logging.getLogger("siltstone")

UNKNOWN_WINDOW: Final = 200_000  #: tokens that are taken for a model that the table does not have

_TABLE: Final = "windows.tsv"
_DATED: Final = re.compile(r"-(?:latest|\d{4}-\d{2}-\d{2}|\d{8})$")  # of one version of a model


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a model.

    Attributes:
        model: Its name, as it was asked for.
        tokens: The maximum tokens of a request and its answer together.
        resolved: Whether the table has it. False: ``tokens`` is a guess.
    """

    model: str
    tokens: int
    resolved: bool


def window_of(model: str) -> Window:
    """The window of *model*.

    A prefix before the name (``openai/gpt-5``, ``anthropic:claude-sonnet-5``) is left out, and so is the
    date of a version that the table does not have by itself. An unknown model is taken for one of 200,000
    tokens, and ``resolved`` is False; of the known one that its name begins with, a smaller window is taken.

    Raises:
        ConfigError: *model* is no text, or empty.
    """
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(
            f"a model's name must be a text that is not empty, got {model!r}", field="model", value=model
        )
    name = re.split(r"[/:]", model.strip().lower())[-1]
    table = _table()
    for each in (name, _DATED.sub("", name), f"{_DATED.sub('', name)}-latest"):
        if each in table:
            return Window(model, table[each], True)
    kin = [known for known in table if name.startswith(f"{known}-")]
    tokens = min(UNKNOWN_WINDOW, table[max(kin, key=len)]) if kin else UNKNOWN_WINDOW
    return Window(model, tokens, False)


def auto_window(model: str | None) -> int:
    """The window of *model* for ``context_window="auto"``; where it is a guess, a warning is logged.

    Raises:
        ConfigError: no model is named.
    """
    if model is None:
        raise ConfigError(
            'context_window="auto" needs the name of the agent\'s model: agent_model="..."',
            field="agent_model",
            value=None,
        )
    found = window_of(model)
    if not found.resolved:
        _log.warning(
            "the window of model %r is not known, and taken for %d tokens; give context_window a number",
            model,
            found.tokens,
            extra={"model": model, "context_window": found.tokens, "resolved": False},
        )
    return found.tokens


@cache
def _table() -> dict[str, int]:
    from pathlib import Path  # with urllib: only who asks for a window needs it

    table = Path(__file__).with_name(_TABLE).read_text("utf-8")
    lines = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return {name.lower(): int(tokens) for name, tokens, _ in lines}
