"""How many tokens a model takes, and which errors of a provider say that a request was too large."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from siltstone.errors import ConfigError
from siltstone.refusals import refusal_of


def is_context_overflow(error: BaseException | str) -> bool:
    """Whether *error* says that a request was larger than the model's window, or than the provider takes.

    Limits of rate, quota and load are no overflow: the same request may be sent again later. Neither are
    limits of the answer, or of one field.

    Args:
        error: The exception of the provider's SDK, or its message. The causes of an exception are checked
            too, since frameworks wrap exceptions.
    """
    return refusal_of(error) is not None


class ProviderLimit(NamedTuple):
    """The window as a provider named it when it refused a request.

    Attributes:
        limit: The maximum tokens of a request, at least 1. Some providers include the room for the answer,
            some do not.
        requested: The tokens that the refused request had by the same count, with the room for its answer,
            always more than ``limit``; None if the provider does not tell.
    """

    limit: int
    requested: int | None


def provider_limit(error: BaseException | str) -> ProviderLimit | None:
    """The window that *error* names; None if it is no overflow, or names no limit in tokens.

    Contradicting numbers (a request that was not larger than the limit) are ignored.

    Args:
        error: As for :func:`is_context_overflow`.
    """
    said = refusal_of(error)
    if said is None or said.kind != "tokens" or said.limit is None:
        return None
    return ProviderLimit(said.limit, said.total)


#: The bytes of a request that a provider takes, by a part of the model's name: the first that fits.
_BYTES: Final = {
    "anthropic.": 25_000_000,  # Bedrock: docs.aws.amazon.com/bedrock, InvokeModel, "body"
    "claude": 32_000_000,  # docs.claude.com/en/api/errors, "Request size limits"
    "gemini": 20_000_000,  # ai.google.dev/gemini-api/docs/image-understanding, with data in the request
    "gpt-": 512_000_000,  # developers.openai.com/api/docs/guides/images-vision, since April 2026
}


def request_bytes_of(model: str) -> int | None:
    """The largest request in bytes that the provider of *model* documents; None if it is not known."""
    return next((most for part, most in _BYTES.items() if part in model.lower()), None)


# How many tokens a model takes, by its name: a table that is a part of the package, and no network.
#
# The table says where it is from and of which day. A provider's own error has the last word: a session
# learns from it (``Session.recover``).

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
        raise ConfigError(f"a model's name must be a text that is not empty, got {model!r}", "model", model)
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
            "agent_model",
            None,
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
