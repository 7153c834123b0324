"""The policies by name, for files and the command line, and how each is made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from siltstone.compaction import checks
from siltstone.compaction.base import Compactor
from siltstone.compaction.chain import Chain
from siltstone.compaction.cheap_config import ClearConfig, DuplicatesConfig
from siltstone.compaction.chronicle_config import ChronicleConfig
from siltstone.compaction.clear_results import ClearToolResults
from siltstone.compaction.compress import CompressConfig, CompressToolOutput
from siltstone.compaction.config import CompactionConfig
from siltstone.compaction.duplicate_reads import DropDuplicateReads
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.prompts import PROMPT, SUMMARY_PREFIX
from siltstone.compaction.smart_trim import SmartTrim
from siltstone.compaction.smart_trim_config import SmartTrimConfig
from siltstone.compaction.threshold import ThresholdCompactor
from siltstone.compaction.tiered import TieredCompactor
from siltstone.compaction.tiered_config import TieredConfig
from siltstone.compaction.tiered_prompts import SUMMARY_PROMPT
from siltstone.compaction.waterfall import WaterfallCompactor
from siltstone.compaction.waterfall_config import WaterfallConfig
from siltstone.compaction.window import PROMPT as WINDOW_PROMPT, WindowCompactor
from siltstone.compaction.window_config import WindowConfig
from siltstone.compaction.worker import WorkerCompactor
from siltstone.errors import ConfigError

__all__ = ["POLICIES", "make_policy", "policy_names", "settings_of", "settings_table"]

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
    summary_prefix: str = SUMMARY_PREFIX


@dataclass(frozen=True, slots=True)
class _ChainSettings:
    steps: tuple[str, ...] = ("smart-trim", "threshold")
    target: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """The way to make a policy of one name.

    Attributes:
        settings: The class whose fields a file may set.
        make: A function that makes the policy from the settings, from ``more``, and from a function that
            makes another policy by name, for a chain.
        more: Settings beside those fields, with their defaults.
        documented: A function that gives the documented settings; None if the policy has no such form.
    """

    settings: type[Any]
    make: Callable[[Any, Mapping[str, Any], Callable[[str], Compactor]], Compactor]
    more: Mapping[str, Any]
    documented: Callable[[], Any] | None = None


def _threshold(settings: CompactionConfig, more: Mapping[str, Any], _: object) -> Compactor:
    return ThresholdCompactor(settings, prompt=more["prompt"])


def _window(settings: WindowConfig, more: Mapping[str, Any], _: object) -> Compactor:
    return WindowCompactor(settings, prompt=more["prompt"])


def _waterfall(settings: WaterfallConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return WaterfallCompactor(settings)


def _tiered(settings: TieredConfig, more: Mapping[str, Any], _: object) -> Compactor:
    return TieredCompactor(settings, prompt=more["prompt"])


def _worker(settings: TieredConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return WorkerCompactor(settings)


def _smart_trim(settings: SmartTrimConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return SmartTrim(settings)


def _clear(settings: ClearConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return ClearToolResults(settings)


def _duplicates(settings: DuplicatesConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return DropDuplicateReads(settings)


def _compress(settings: CompressConfig, _more: Mapping[str, Any], _: object) -> Compactor:
    return CompressToolOutput(settings)


def _emergency(settings: _EmergencySettings, _more: Mapping[str, Any], _: object) -> Compactor:
    return Emergency(
        settings.context_window, estimator=settings.estimator, summary_prefix=settings.summary_prefix
    )


def _chain(
    settings: _ChainSettings, _more: Mapping[str, Any], named: Callable[[str], Compactor]
) -> Compactor:
    steps = settings.steps
    if isinstance(steps, str) or not steps or not all(isinstance(each, str) for each in steps):
        raise ConfigError(f"steps must be names of policies, got {steps!r}", field="steps", value=steps)
    if "chain" in steps:
        raise ConfigError("steps must not name a chain", field="steps", value=steps)
    return Chain(*(named(step) for step in steps), target=settings.target)


POLICIES: Final[dict[str, PolicyKind]] = {
    "threshold": PolicyKind(CompactionConfig, _threshold, {"prompt": PROMPT}),
    "tiered": PolicyKind(TieredConfig, _tiered, {"prompt": SUMMARY_PROMPT}, TieredConfig.documented),
    "worker": PolicyKind(TieredConfig, _worker, {}, TieredConfig.documented),
    "window": PolicyKind(WindowConfig, _window, {"prompt": WINDOW_PROMPT}, WindowConfig.documented),
    "waterfall": PolicyKind(WaterfallConfig, _waterfall, {}, WaterfallConfig.documented),
    "smart-trim": PolicyKind(SmartTrimConfig, _smart_trim, {}, lambda: SmartTrim.documented().config),
    "compress-tool-output": PolicyKind(CompressConfig, _compress, {}),
    "clear-tool-results": PolicyKind(ClearConfig, _clear, {}),
    "drop-duplicate-reads": PolicyKind(DuplicatesConfig, _duplicates, {}),
    "emergency": PolicyKind(_EmergencySettings, _emergency, {}),
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
        raise ConfigError(
            f"{name} has no setting {key!r}{checks.nearest(key, known)}", field=key, value=given[key]
        )
    more = {key: given.pop(key, default) for key, default in kind.more.items()}
    for key, value in more.items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(
                f"{key} must be a text that is not blank, got {value!r}", field=key, value=value
            )
    base: dict[str, Any] = {}
    if kind.documented is not None and given.get(DOCUMENTED) is True:
        form = kind.documented()
        base = {each.name: getattr(form, each.name) for each in fields(kind.settings)}
    if kind.documented is not None and DOCUMENTED not in (each.name for each in fields(kind.settings)):
        said = given.pop(DOCUMENTED, False)
        checks.boolean(DOCUMENTED, said)
    values = {key: _value(kind.settings, key, value, base.get(key)) for key, value in given.items()}
    others = others or {}
    return kind.make(
        kind.settings(**{**base, **values}), more, lambda step: make_policy(step, others.get(step))
    )


def _kind(name: str) -> PolicyKind:
    kind = POLICIES.get(name)
    if kind is None:
        raise ConfigError(
            f"there is no policy {name!r}{checks.nearest(name, policy_names())}", field="policy", value=name
        )
    return kind


def settings_table(name: str, given: Mapping[str, Any], form: Any = None) -> Any:
    """The settings of the table *name*, such as ``[tiered.chronicle]``; missing keys are taken from *form*.

    Raises:
        ConfigError: an unknown key, with the nearest known key; or a value out of its bounds.
    """
    kind = TABLES[name]
    known = [each.name for each in fields(kind)]
    for key, value in given.items():
        if key not in known:
            raise ConfigError(
                f"{name} has no setting {key!r}{checks.nearest(key, known)}", field=key, value=value
            )
    return replace(kind() if form is None else form, **given)


def _value(settings: type[Any], key: str, value: Any, form: Any) -> Any:
    """*value* of a file as a value of Python: a list becomes a tuple, ``"none"`` None where None is allowed.

    A table becomes a settings object; its missing keys are taken from *form*.
    """
    if key in TABLES and isinstance(value, Mapping):
        return settings_table(key, value, form)
    if isinstance(value, list):
        return tuple(value)
    declared = next(str(each.type) for each in fields(settings) if each.name == key)
    if value == "none" and "None" in declared:
        return None
    return value
