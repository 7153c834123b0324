"""Policies from a file: ``siltstone.toml``, or ``[tool.siltstone]`` in ``pyproject.toml``.

::

    policy = "waterfall"            # which one, where nothing else names one

    [waterfall]                     # a table for each policy; a missing setting has its default
    immediate_window = 24
    longterm_budget_tokens = "none"

    [chain]
    steps = ["smart-trim", "threshold"]

A setting that may be None in code is ``"none"`` here, and a tuple is a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from siltstone.compaction.base import Compactor
from siltstone.compaction.checks import nearest
from siltstone.compaction.registry import POLICIES, make_policy, policy_names
from siltstone.errors import ConfigError

__all__ = ["FILE", "Settings", "find_settings", "read_settings"]

FILE: Final = "siltstone.toml"
PROJECT: Final = "pyproject.toml"
CHOICE: Final = "policy"
DEFAULT: Final = "threshold"


@dataclass(frozen=True, slots=True)
class Settings:
    """The policies in a file. Every table was checked when it was read.

    Attributes:
        path: The file; None for the defaults.
        choice: The policy that it names; None if it names none.
        tables: The settings of each policy.
    """

    path: Path | None = None
    choice: str | None = None
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def policy(self, name: str | None = None, **defaults: Any) -> Compactor:
        """The policy *name*; without a name, the policy that the file names, or ``threshold``.

        Args:
            name: One of the names of policies.
            defaults: Settings of that policy, where the file has no such setting.

        Raises:
            ConfigError: an unknown name or setting, or a value out of its bounds; the file and the table
                are named.
        """
        chosen = name or self.choice or DEFAULT
        given = {**defaults, **self.tables.get(chosen, {})}
        try:
            return make_policy(chosen, given, others=self.tables)
        except ConfigError as error:
            raise self._located(error, chosen) from None

    def _located(self, error: ConfigError, table: str) -> ConfigError:
        if self.path is None:
            return error
        fields = {name: value for name, value in vars(error).items() if name != "message"}
        return ConfigError(f"{self.path}: [{table}]: {error}", **fields)


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """Reads the policies in the file at *path*.

    In a ``pyproject.toml`` only the table ``[tool.siltstone]`` is read; without it there are no settings.

    Raises:
        ConfigError: the file cannot be read or is not TOML; an unknown key, with the nearest known one; or a
            value out of its bounds. Carries ``field`` and ``value``.
    """
    file = Path(path)
    said = _parsed(file)
    if file.name == PROJECT:
        said = _table(said.get("tool", {}), "tool", file)
        said = _table(said.get("siltstone", {}), "tool.siltstone", file)
    choice = said.get(CHOICE)
    known = [CHOICE, *policy_names()]
    for key in said:
        if key not in known:
            raise ConfigError(f"{file}: unknown key {key!r}{nearest(key, known)}", field=key, value=said[key])
    if choice is not None and (not isinstance(choice, str) or choice not in POLICIES):
        raise ConfigError(
            f"{file}: {CHOICE} must be the name of a policy, got {choice!r}"
            f"{nearest(str(choice), policy_names())}",
            field=CHOICE,
            value=choice,
        )
    tables = {name: _table(said[name], name, file) for name in policy_names() if name in said}
    settings = Settings(file, choice, tables)
    for name in tables:
        settings.policy(name)
    return settings


def find_settings(start: str | os.PathLike[str] = ".") -> Settings:
    """The settings of the nearest ``siltstone.toml``, or ``pyproject.toml`` with our table, from *start* up.

    Without one they are the defaults.

    Raises:
        ConfigError: as :func:`read_settings`.
    """
    here = Path(start).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return read_settings(folder / FILE)
        project = folder / PROJECT
        if project.is_file() and "siltstone" in _parsed(project).get("tool", {}):
            return read_settings(project)
    return Settings()


def _parsed(file: Path) -> dict[str, Any]:
    import tomllib  # whoever configures in code never needs it

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error}", field="path", value=str(file)) from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{file} is not TOML: {error}", field="path", value=str(file)) from error


def _table(value: Any, name: str, file: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: [{name}] must be a table, got {value!r}", field=name, value=value)
    return value
