"""Reads the configurations of other systems: TOML, JSON, and Markdown with settings in bold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from siltstone.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Table: TypeAlias = dict[str, Any]

#: A setting in a Markdown file: its key is a word in lower case. ``**Notes**:`` is prose, not a setting.
_SETTING: Final = re.compile(r"^\*\*([a-z][a-z0-9_]*)\*\*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FENCED: Final = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
_SUFFIXES: Final = (".toml", ".json", ".md", ".markdown", ".txt")
_LONGEST_PATH: Final = 4_096


def read_text(source: str | os.PathLike[str]) -> str:
    """The text of a configuration: *source* itself, or the content of the file that it names.

    A text of one line is a path, if a file of that name exists, or if it ends with a known suffix.

    Raises:
        ConfigError: the file cannot be read, or is not UTF-8; or *source* is neither text nor path.
    """
    from pathlib import Path  # most sessions read none

    if isinstance(source, str):
        line = source.strip()
        if "\n" in line or not line or len(line) > _LONGEST_PATH:
            return source
        if not line.lower().endswith(_SUFFIXES) and not _is_file(Path(line)):
            return source
        source = line
    elif not isinstance(source, os.PathLike):
        raise ConfigError(
            f"a configuration must be a text or a path, got {source!r}", field="config", value=source
        )
    path = Path(source)
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", field="config", value=str(path)) from error


def toml(text: str) -> Table:
    """The content of *text* as TOML.

    Raises:
        ConfigError: it is not TOML.
    """
    import tomllib  # most sessions read none

    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"the configuration is not TOML: {error}", field="config", value=text) from error


def known_tables(read: Table, known: Sequence[str]) -> dict[str, Table]:
    """The tables of *read* whose names are *known*. Tables of other parts of a system are left aside.

    Raises:
        ConfigError: a value at the top is not a table, or an unknown table has nearly a known name.
    """
    from difflib import get_close_matches  # only a configuration needs it

    found: dict[str, Table] = {}
    for name, value in read.items():
        if name in known:
            found[name] = table(value, name)
        elif not isinstance(value, Mapping) or (close := get_close_matches(name, known, 1)):
            hint = (
                f"; did you mean {close[0]!r}?"
                if isinstance(value, Mapping)
                else f"; known are {', '.join(known)}"
            )
            raise ConfigError(f"there is no table {name!r}{hint}", field=name, value=value)
    return found


def json_object(text: str) -> Table:
    """The object in the JSON *text*. A repeated key is an error, because it is unclear which value counts.

    Raises:
        ConfigError: it is not a JSON object, or it has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> Table:
        found: Table = {}
        for key, value in pairs:
            if key in found:
                raise ConfigError(f"{key} must be said once", field=key, value=value)
            found[key] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except RecursionError as error:
        raise ConfigError("the configuration is nested too deep", field="config", value="") from error
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"the configuration is not JSON: {error}", field="config", value=text) from error
    return table(value, "config")


def markdown_settings(text: str) -> Table:
    """The lines ``**key**: value`` of *text*: numbers, ``true``, ``false``, ``none`` and words.

    Raises:
        ConfigError: a key occurs twice.
    """
    found: Table = {}
    for key, value in _SETTING.findall(_FENCED.sub("", text)):
        if key in found:
            raise ConfigError(f"{key} must be said once", field=key, value=value)
        found[key] = _value(value)
    return found


def table(value: Any, name: str) -> Table:
    """*value* as a new dict. *name* is for the error.

    Raises:
        ConfigError: it is not a table.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a table, got {value!r}", field=name, value=value)
    return dict(value)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _value(text: str) -> Any:
    """The value of a Markdown line as a bool, an int, a float or a str."""
    plain = text.strip("`\"'")
    words = {"true": True, "false": False}
    if plain.lower() in words:
        return words[plain.lower()]
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return plain
