"""Checks texts from users."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.errors import ConfigError

__all__ = ["check_text", "check_texts"]


def check_texts(texts: Sequence[str], field: str) -> list[str]:
    """*texts* as a list; a single str is refused, since it would be a list of its letters."""
    if isinstance(texts, str):
        raise ConfigError(f"{field} must be a list of str, got one str", field=field, value=texts)
    return list(texts)


def check_text(text: str, field: str) -> str:
    """*text*, if it is a str."""
    if not isinstance(text, str):
        message = f"{field} must be a str, got {type(text).__name__}"
        raise ConfigError(message, field=field, value=text)
    return text
