"""Presets of documented systems, made in code or from a configuration of the system itself."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from siltstone import checks
from siltstone.checks import check_known
from siltstone.compaction.base import Compactor
from siltstone.errors import ConfigError
from siltstone.llm import Model
from siltstone.memory.base import Store
from siltstone.memory.log import SessionLog
from siltstone.memory.opening import open_documented_store, open_store
from siltstone.messages import RawMessage
from siltstone.models import ExtractiveModel
from siltstone.systems.reading import Table, read_text
from siltstone.tokens import TokenRule

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.archive.live import ContextArchive


class Live(Protocol):
    """Files beside a store, which are updated after each commit."""

    def found(self) -> Sequence[RawMessage]:
        """The texts in the files, as messages: the beginning of a new session."""

    def begun(self) -> Compactor | None:
        """The policy that replaces those messages by the summaries of the files; None without summaries."""

    def catch_up(self) -> None:
        """Writes the messages that the files lack, and removes the messages that were forgotten."""


@dataclass(frozen=True)
class Preset:
    """One of the documented systems, ready for ``Session.open(..., preset=...)``.

    Attributes:
        name: The name of the system.
        documented: Whether it has the documented numbers and forms; else it has siltstone's own.
        options: The arguments for ``Session.open``.
        settings: The settings that were given.
        most_hits: The maximum hits of a search, 0 if a search finds nothing; None if the system has no bound.
        most_entries: The number of newest entries that a search can find; None for all.
        is_plain: Whether the model's search is the documented one: a query and a limit, and whole contents as
            far as half of the window holds them.
        instructs: The text that each request has in its system prompt: how to ``search``, or the ``rules``.
        open_store: A function that opens the store for the system's searches, in a directory.
        archive: A function that opens the documented archive of a store; None if the system has none.
        live: A function of the directory, the session's id and its log, which gives the files beside the
            store; None if the system has none.
    """

    name: str
    documented: bool
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    most_hits: int | None = None
    most_entries: int | None = None
    is_plain: bool = False
    instructs: Literal["", "search", "rules"] = ""
    open_store: Callable[[str | os.PathLike[str]], Store] = open_store
    archive: Callable[[str | os.PathLike[str]], ContextArchive] | None = None
    live: Callable[[Path, str, SessionLog], Live] | None = None

    def __post_init__(self) -> None:
        for name in ("options", "settings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        said = [f"{name}={value!r}" for name, value in self.settings.items()]
        said += [] if self.documented else ["documented=False"]
        return f"presets.{self.name}({', '.join(said)})"

    @property
    def policy(self) -> Compactor:
        """The policy of compaction."""
        policy: Compactor = self.options["policy"]
        return policy

    @property
    def needs_directory(self) -> str:
        """The data that it keeps in a directory beside its store, in words; empty if there are none."""
        if self.open_store is open_documented_store:
            return "its graphs"
        return "its archive" if self.archive is not None else "its vault" if self.live is not None else ""

    @property
    def label(self) -> str:
        """Its name, with a note if it does not have the documented form."""
        return self.name if self.documented else f"{self.name} (ours)"


class System(ABC):
    """A documented system. Call it for its preset, or read a configuration with ``from_config``."""

    name: ClassVar[str]
    #: The keys of its configuration, by table (``""`` is the top), each with the name of its setting.
    tables: ClassVar[Mapping[str, Mapping[str, str]]]

    def __call__(self, *, documented: bool = True, **settings: Any) -> Preset:
        """The preset.

        Args:
            documented: Whether to use the documented numbers and forms; False gives siltstone's own.
            settings: Settings that differ from the defaults; their names are in :attr:`settings`.

        Raises:
            ConfigError: an unknown setting, with the nearest known name; a wrong type, or a value out of its
                bounds. Carries ``field`` and ``value``.
        """
        checks.boolean("documented", documented)
        check_known(settings, self.settings, self.name)
        return self._made(settings, documented=documented)

    def __repr__(self) -> str:
        return f"<presets.{self.name}>"

    def from_config(
        self, source: str | os.PathLike[str], *, documented: bool = True, **settings: Any
    ) -> Preset:
        """The preset from a configuration of the system itself.

        A missing key has its default. Parts of the configuration about other things are left aside, and a
        warning names them: the page of the system says which tables are read.

        Args:
            source: The text, or the path of a file.
            documented: As for a call.
            settings: As for a call, in place of what the configuration says: ``profiles`` of ``waterfall``,
                for example, which are objects of Python.

        Raises:
            ConfigError: the file cannot be read, or has the wrong format; an unknown key, with the nearest
                known key; a wrong type, or a value out of its bounds. Names the key, the bound and the value.
        """
        read = self._read(read_text(source))
        given: dict[str, Any] = {}
        written: dict[str, str] = {}  # by setting: the key that gave it
        for table, values in read.items():
            known = self.tables[table]
            where = f"[{table}] of {self.name}" if table else self.name
            check_known(values, list(known), where)
            for key, value in values.items():
                if known[key] in given:
                    raise ConfigError(
                        f"{written[known[key]]} and {key} are the same setting: say one", key, value
                    )
                given[known[key]], written[known[key]] = value, key
        try:
            return self(documented=documented, **{**given, **settings})
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
        """The names of its settings."""
        return list(dict.fromkeys(name for known in self.tables.values() for name in known.values()))

    @abstractmethod
    def _read(self, text: str) -> Mapping[str, Table]:
        """The known tables in *text*."""

    @abstractmethod
    def _made(self, settings: Mapping[str, Any], *, documented: bool) -> Preset:
        """The preset for *settings*, whose names are already checked."""


def chosen(settings: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """The *settings* that are fields of *kind*. ``"none"`` becomes None where None is allowed."""
    declared = {each.name: str(each.type) for each in fields(kind)}
    return {
        name: None if value == "none" and "None" in declared[name] else value
        for name, value in settings.items()
        if name in declared
    }


def default_policy(rule: TokenRule | None = None) -> Compactor:
    """The policy of a session that has a window and names none. *rule* counts its tokens."""
    from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor

    return ThresholdCompactor(CompactionConfig(estimator=rule) if rule else None)


def default_model() -> Model:
    """The model of a session that has a policy and names none."""
    return ExtractiveModel()


def can_extract(model: object) -> bool:
    """Whether *model*, or one of several, can extract facts. The extractive model only selects lines."""
    models = model if isinstance(model, Sequence) else () if model is None else (model,)
    return bool(models) and not isinstance(models[0], ExtractiveModel)
