"""Reads the configurations of other systems: TOML, JSON, and Markdown with settings in bold."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from siltstone.errors import ConfigError

Table: TypeAlias = dict[str, Any]

#: A setting in a Markdown file: its key is a word in lower case. ``**Notes**:`` is prose, not a setting.
_SETTING: Final = re.compile(r"^\*\*([a-z][a-z0-9_]*)\*\*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FENCED: Final = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
_SUFFIXES: Final = (".toml", ".json", ".md", ".markdown", ".txt")
_LONGEST_PATH: Final = 4_096
_NEARLY: Final = 0.8  #: how alike an unknown name and a known one are, if the unknown one is a mistake

_QUOTED: Final = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
#: Texts, and the comments of JSON5; texts, and what JSON5 writes in another way than JSON.
_COMMENTS: Final = re.compile(rf"({_QUOTED})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_JSON5: Final = re.compile(
    rf"({_QUOTED})|,(?=\s*[}}\]])|([A-Za-z_$][\w$]*)(?=\s*:)|(?<![eE])\+(?=[\d.])|(?<=\d)\.(?!\d)|(?<!\d)(\.)",
    re.DOTALL,
)

_log = logging.getLogger("siltstone")


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
        if not line.lower().endswith(_SUFFIXES) and not os.path.isfile(line):  # noqa: PTH113 - no error
            return source
        source = line
    elif not isinstance(source, os.PathLike):
        raise ConfigError(f"a configuration must be a text or a path, got {source!r}", "config", source)
    path = Path(source)
    try:
        return path.read_text("utf-8-sig")  # editors of Windows write a mark of the encoding
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
    """The tables of *read* whose names are *known*. Other parts of the system's file are left aside.

    A warning names these parts, because a user has to know what is not read. A name may have the name of its
    own table before it, with a point between them.

    Raises:
        ConfigError: a known name has no table, or an unknown name is nearly a known one.
    """
    from difflib import get_close_matches  # only a configuration needs it

    found: dict[str, Table] = {}
    aside: list[str] = []
    for path, value in read.items():
        inside, _, name = path.rpartition(".")
        beside = [each.rpartition(".")[2] for each in known if each.rpartition(".")[0] == inside]
        if path in known:
            found[path] = table(value, name)
        elif close := get_close_matches(name, beside, 1, _NEARLY):
            said = f"there is no table {name!r}; did you mean {close[0]!r}?"
            raise ConfigError(said, field=name, value=value)
        else:
            aside.append(path)
    if aside:
        _log.warning("these parts of the configuration are not read: %s", ", ".join(aside))
    return found


def json_object(text: str) -> Table:
    """The object in the JSON *text*. A repeated key is an error, because it is unclear which value counts.

    The text may be JSON5: with comments, bare names, single quotes, numbers such as ``+.5``, and a comma
    after the last value.

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
        value = json.loads(_as_json(text), object_pairs_hook=unique)
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


def _as_json(text: str) -> str:
    """*text* of JSON5 as JSON; a text that is JSON stays as it is."""

    def written(found: re.Match[str]) -> str:
        text, name, point = found.groups()
        if text and text[0] == "'":
            text = re.sub(r"\\'|\"", lambda quote: quote[0][-1] if len(quote[0]) > 1 else '\\"', text[1:-1])
            return f'"{text}"'
        return text or (f'"{name}"' if name else "0." if point else "")

    return _JSON5.sub(written, _COMMENTS.sub(lambda found: found[1] or " ", text))


def _value(text: str) -> Any:
    """The value of a Markdown line: a number, a text or a list as in JSON, else a word."""
    plain = text.strip("`")
    for read in (json.loads, float):
        try:
            return read(plain)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(plain.lower(), plain.strip("\"'"))
