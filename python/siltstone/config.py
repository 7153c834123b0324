"""Policies from a file or by name: ``siltstone.toml``, or ``[tool.siltstone]`` in ``pyproject.toml``.

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
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from siltstone import checks
from siltstone.checks import nearest
from siltstone.compaction import results
from siltstone.compaction.base import Compactor
from siltstone.compaction.chain import Chain
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.prompts import PROMPT
from siltstone.errors import ConfigError, refuse
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.systems.openclaw import SmartTrim, SmartTrimConfig
from siltstone.systems.rustant import PROMPT as WINDOW_PROMPT, WindowCompactor, WindowConfig
from siltstone.systems.spacebot.config import SUMMARY_PROMPT, ChronicleConfig, TieredConfig
from siltstone.systems.spacebot.tiered import TieredCompactor
from siltstone.systems.spacebot.worker import WorkerCompactor
from siltstone.systems.waterfall.config import WaterfallConfig
from siltstone.systems.waterfall.policy import WaterfallCompactor

# The policies by name, for files and the command line, and how each is made from its settings.

IN_CODE: Final = frozenset({"curator", "in_use", "is_summary", "request_rule"})
"""Settings that are functions: a file cannot give them."""

TABLES: Final[dict[str, type[Any]]] = {"chronicle": ChronicleConfig}
"""Settings that are tables of their own, such as ``[tiered.chronicle]``."""

DOCUMENTED: Final = "documented"
"""The setting that chooses the documented numbers, for policies with a documented form."""


@dataclass(frozen=True, slots=True)
class _EmergencySettings:
    context_window: int | None = None
    estimator: str = "blocks"


@dataclass(frozen=True, slots=True)
class _ChainSettings:
    steps: tuple[str, ...] = ("smart-trim", "threshold")
    target: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """The way to make a policy of one name.

    Attributes:
        settings: The class whose fields a file may set.
        make: The class of the policy, or a function: from the settings, and from ``more`` by name.
            A chain is made by :func:`make_policy`, which knows the policies that it names.
        more: Settings beside those fields, with their defaults.
        documented: A function that gives the documented settings; None if the policy has no such form.
    """

    settings: type[Any]
    make: Callable[..., Compactor]
    more: Mapping[str, Any]
    documented: Callable[[], Any] | None = None


def _chain(settings: _ChainSettings, named: Callable[[str], Compactor]) -> Compactor:
    steps = settings.steps
    if isinstance(steps, str) or not steps or not all(isinstance(each, str) for each in steps):
        raise ConfigError(f"steps must be names of policies, got {steps!r}", field="steps", value=steps)
    if "chain" in steps:
        raise ConfigError("steps must not name a chain", field="steps", value=steps)
    return Chain(*(named(step) for step in steps), target=settings.target)


POLICIES: Final[dict[str, PolicyKind]] = {
    "threshold": PolicyKind(CompactionConfig, ThresholdCompactor, {"prompt": PROMPT}),
    "tiered": PolicyKind(TieredConfig, TieredCompactor, {"prompt": SUMMARY_PROMPT}, TieredConfig.documented),
    "worker": PolicyKind(TieredConfig, WorkerCompactor, {}, TieredConfig.documented),
    "window": PolicyKind(WindowConfig, WindowCompactor, {"prompt": WINDOW_PROMPT}, WindowConfig.documented),
    "waterfall": PolicyKind(WaterfallConfig, WaterfallCompactor, {}, WaterfallConfig.documented),
    "smart-trim": PolicyKind(SmartTrimConfig, SmartTrim, {}, lambda: SmartTrim.documented().config),
    "compress-tool-output": PolicyKind(results.CompressConfig, results.CompressToolOutput, {}),
    "clear-tool-results": PolicyKind(results.ClearConfig, results.ClearToolResults, {}),
    "drop-duplicate-reads": PolicyKind(results.InPlaceConfig, results.DropDuplicateReads, {}),
    "emergency": PolicyKind(_EmergencySettings, lambda given: Emergency(**asdict(given)), {}),
    "chain": PolicyKind(_ChainSettings, _chain, {}),
}
"""All policies that a file or the command line may name."""


def policy_names() -> list[str]:
    """The names of all policies."""
    return list(POLICIES)


def settings_of(name: str) -> list[str]:
    """The settings of a policy that a file may give.

    Raises:
        ConfigError: there is no such policy.
    """
    kind = _kind(name)
    own = [each.name for each in fields(kind.settings) if each.name not in IN_CODE]
    if kind.documented is not None and DOCUMENTED not in own:
        own.append(DOCUMENTED)
    return [*own, *kind.more]


def make_policy(
    name: str,
    settings: Mapping[str, Any] | None = None,
    *,
    others: Mapping[str, Mapping[str, Any]] | None = None,
) -> Compactor:
    """The policy of that name.

    Args:
        name: One of :func:`policy_names`.
        settings: Its settings. A missing setting has its default, or with ``documented = true`` its
            documented number.
        others: The settings of the policies that a chain names, by name.

    Raises:
        ConfigError: an unknown name or setting, with the nearest known word; or a value out of its bounds.
    """
    kind, given = _kind(name), dict(settings or {})
    known = settings_of(name)
    for key in given:
        if key in known:
            continue
        if key in IN_CODE and key in (each.name for each in fields(kind.settings)):
            raise ConfigError(f"{key} is a function and is given in code", field=key, value=given[key])
        raise ConfigError(f"{name} has no setting {key!r}{checks.nearest(key, known)}", key, given[key])
    more = {key: given.pop(key, default) for key, default in kind.more.items()}
    for key, value in more.items():
        if not isinstance(value, str) or not value.strip():
            refuse(key, "a text that is not blank", value)
    base: dict[str, Any] = {}
    if kind.documented is not None and given.get(DOCUMENTED) is True:
        form = kind.documented()
        base = {each.name: getattr(form, each.name) for each in fields(kind.settings)}
    if kind.documented is not None and DOCUMENTED not in (each.name for each in fields(kind.settings)):
        said = given.pop(DOCUMENTED, False)
        checks.boolean(DOCUMENTED, said)
    values = {key: _value(kind.settings, key, value, base.get(key)) for key, value in given.items()}
    made, others = kind.settings(**{**base, **values}), others or {}
    if isinstance(made, _ChainSettings):
        return _chain(made, lambda step: make_policy(step, others.get(step)))
    return kind.make(made, **more)


def _kind(name: str) -> PolicyKind:
    kind = POLICIES.get(name)
    if kind is None:
        raise ConfigError(
            f"there is no policy {name!r}{checks.nearest(name, policy_names())}", "policy", name
        )
    return kind


def _value(settings: type[Any], key: str, value: Any, form: Any) -> Any:
    """*value* of a file as a value of Python: a list becomes a tuple, ``"none"`` None where None is allowed.

    A table becomes a settings object; its missing keys are taken from *form*.
    """
    if key in TABLES and isinstance(value, Mapping):
        return checks.settings_table(TABLES[key], key, value, form)
    if isinstance(value, list):
        return tuple(value)
    declared = next(str(each.type) for each in fields(settings) if each.name == key)
    if value == "none" and "None" in declared:
        return None
    return value


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
            CHOICE,
            choice,
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
