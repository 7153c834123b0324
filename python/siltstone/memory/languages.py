"""The languages of texts that a caller may choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from siltstone.errors import ConfigError

__all__ = ["LANGUAGES", "language_name"]

AUTO: Final = "auto"

#: The supported languages in Latin letters, by ISO 639-1 code. Other scripts are recognised by their letters.
LANGUAGES: Final = {
    "da": "Danish",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hu": "Hungarian",
    "it": "Italian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pt": "Portuguese",
    "ro": "Romanian",
    "sv": "Swedish",
    "tr": "Turkish",
    "vi": "Vietnamese",
}


def language_name(given: str | Sequence[str]) -> str:
    """*given* as the core takes it: ``auto``, or codes with commas between them.

    Args:
        given: ``"auto"``, a code, or a sequence of codes, the most usual one first.

    Raises:
        ConfigError: an unknown code, or no code.
    """
    if given == AUTO:
        return AUTO
    codes: list[Any] = [given] if isinstance(given, str) else list(_sequence(given))
    for code in codes:
        if not isinstance(code, str) or code not in LANGUAGES:
            raise _unknown(code, given)
    if not codes:
        raise _wrong("'auto', a code, or a list of codes with at least one", given)
    return ",".join(codes)


def _sequence(given: object) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return given
    raise _wrong("'auto', a code, or a list of codes", given)


def _unknown(code: object, given: object) -> ConfigError:
    """The error for an unknown code. It suggests the code of a language name, or of a longer code."""
    if code == AUTO:
        return _wrong("'auto' alone, or codes without it", given)
    near = _nearest(code.lower()) if isinstance(code, str) else None
    hint = f"; did you mean {near!r} ({LANGUAGES[near]})?" if near else ""
    known = ", ".join(LANGUAGES)
    return _wrong(
        f"'auto' or codes of {known} (other scripts tell their languages by themselves)", given, hint
    )


def _nearest(word: str) -> str | None:
    from difflib import get_close_matches  # only errors need it

    if word[:2] in LANGUAGES and (len(word) < 4 or word[2] in "-_"):
        return word[:2]
    by_name = {name.lower(): code for code, name in LANGUAGES.items()}
    close = get_close_matches(word, by_name, 1)
    return by_name[close[0]] if close else None


def _wrong(bound: str, given: object, hint: str = "") -> ConfigError:
    return ConfigError(f"language must be {bound}, got {given!r}{hint}", field="language", value=given)
