"""Presets, and their making: in code, or from the configuration of the system that they stand for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from siltstone.archive import ContextArchive
from siltstone.compaction import checks
from siltstone.compaction.base import Compactor
from siltstone.compaction.registry import nearest
from siltstone.errors import ConfigError
from siltstone.memory.base import Store
from siltstone.memory.log import SessionLog
from siltstone.memory.opening import open_documented_store, open_store
from siltstone.messages import RawMessage
from siltstone.presets.reading import Table, read_text
from siltstone.values import dataclass, field, fields

__all__ = ["Live", "Preset", "System", "check_known", "chosen"]


class Live(Protocol):
    """Files beside a store, which are brought in step with it after each commit."""

    def found(self) -> Sequence[RawMessage]:
        """The texts in the files, as messages: the beginning of a new session."""

    def begun(self) -> Compactor | None:
        """The policy that puts the files' summaries in the place of those messages; None without such."""

    def catch_up(self) -> None:
        """Writes what the store has and the files lack, and takes out what was forgotten."""


@dataclass(frozen=True)
class Preset:
    """One of the documented systems, ready for ``Session.open(..., preset=...)``.

    Attributes:
        name: The system's.
        documented: It has the documented numbers and forms; else ours on the same plan.
        options: What ``Session.open`` is called with.
        settings: What was set beside the defaults.
        shared: Options in the place of those, for a session that has a namespace.
        most_hits: The most hits of a search, where the system bounds them.
        most_entries: The most entries that a search can find, the newest; None for all.
        open_store: Opens the store that the system's searches need, in a directory.
        archive: Opens the documented archive of a store, where the system has one.
        live: Its files beside the store, where it has some: of the directory, the session's id and its log.
    """

    name: str
    documented: bool
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    most_hits: int | None = None
    most_entries: int | None = None
    open_store: Callable[[str | os.PathLike[str]], Store] = open_store
    archive: Callable[[str | os.PathLike[str]], ContextArchive] | None = None
    live: Callable[[Path, str, SessionLog], Live] | None = None

    def __post_init__(self) -> None:
        for name in ("options", "settings", "shared"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        said = [f"{name}={value!r}" for name, value in self.settings.items()]
        said += [] if self.documented else ["documented=False"]
        return f"presets.{self.name}({', '.join(said)})"

    @property
    def policy(self) -> Compactor:
        """When and what it gives up."""
        policy: Compactor = self.options["policy"]
        return policy

    @property
    def needs_directory(self) -> str:
        """What it keeps in a directory beside its store, in words; empty where the store has everything."""
        if self.open_store is open_documented_store:
            return "its graphs"
        return "its archive" if self.archive is not None else "its vault" if self.live is not None else ""

    @property
    def label(self) -> str:
        """Its name, and whether it is ours."""
        return self.name if self.documented else f"{self.name} (ours)"


class System(ABC):
    """A documented system: call it for its preset, or read the text that configures it."""

    name: ClassVar[str]
    #: What its configuration may say: by table, "" being the top, the key there and the setting that it is.
    tables: ClassVar[Mapping[str, Mapping[str, str]]]

    def __call__(self, *, documented: bool = True, **settings: Any) -> Preset:
        """The preset.

        Args:
            documented: The documented numbers and forms; False gives ours on the same plan.
            settings: Those of :attr:`settings` that differ from the defaults.

        Raises:
            ConfigError: an unknown setting, with the nearest known one; a wrong type, or a value out of its
                bounds. Carries ``field`` and ``value``.
        """
        checks.boolean("documented", documented)
        check_known(settings, self.settings, self.name)
        return self._made(settings, documented=documented)

    def __repr__(self) -> str:
        return f"<presets.{self.name}>"

    def from_config(self, source: str | os.PathLike[str], *, documented: bool = True) -> Preset:
        """The preset that a configuration of the system itself describes.

        What it leaves out has its default. Texts of other parts of the system are no settings of ours: the
        page of the system says which tables are read.

        Args:
            source: The text, or the path of a file.
            documented: As for a call.

        Raises:
            ConfigError: the file cannot be read, or is not what the system reads; an unknown key, with the
                nearest known one; a wrong type, or a value out of its bounds. Names the key, the bound and
                the value.
        """
        read = self._read(read_text(source))
        given: dict[str, Any] = {}
        written: dict[str, str] = {}  # by the setting, the key that says it
        for table, values in read.items():
            known = self.tables[table]
            where = f"[{table}] of {self.name}" if table else self.name
            check_known(values, list(known), where)
            for key, value in values.items():
                if known[key] in given:
                    raise ConfigError(
                        f"{written[known[key]]} and {key} are the same setting: say one",
                        field=key,
                        value=value,
                    )
                given[known[key]], written[known[key]] = value, key
        try:
            return self(documented=documented, **given)
        except ConfigError as error:
            told = vars(error)
            setting = str(told.get("field", ""))
            key = written.get(setting, setting)
            if key == setting:
                raise
            message = str(error).replace(setting, key, 1)
            raise ConfigError(message, field=key, value=told.get("value")) from error

    @property
    def settings(self) -> list[str]:
        """The settings that it has."""
        return list(dict.fromkeys(name for known in self.tables.values() for name in known.values()))

    @abstractmethod
    def _read(self, text: str) -> Mapping[str, Table]:
        """The tables that *text* has, of those that are known."""

    @abstractmethod
    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        """The preset of *settings*, whose names are known."""


def check_known(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuses a key that is not known, and names the nearest one.

    Raises:
        ConfigError: there is one.
    """
    for key, value in given.items():
        if key not in known:
            alike = [each for each in known if each.islower() == key.islower()]  # keys in their own spelling
            hint = nearest(key, alike or known)
            raise ConfigError(f"{where} has no setting {key!r}{hint}", field=key, value=value)


def chosen(settings: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Those of *settings* that are fields of *kind*, as code would give them: ``"none"`` is None."""
    declared = {each.name: str(each.type) for each in fields(kind)}
    return {
        name: None if value == "none" and "None" in declared[name] else value
        for name, value in settings.items()
        if name in declared
    }
