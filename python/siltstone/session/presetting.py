"""Opens a session with a preset: the preset's options, and the preset that the store keeps for a session."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from siltstone.compaction.base import Trigger
from siltstone.errors import ConfigError, ReadOnlyStoreError
from siltstone.memory.base import Store
from siltstone.session.core import SessionCore
from siltstone.session.retention import Retention

if TYPE_CHECKING:
    from siltstone.presets import Preset


__all__ = [
    "check_free",
    "check_without_directory",
    "kept_preset",
    "preset_of_store",
    "preset_options",
    "settle",
]

KEY: Final = "preset"
DOCUMENTED: Final = "documented"
SETTINGS: Final = "preset_settings"
IN_CODE: Final = "preset_code"  #: names of settings that JSON cannot hold: only the host's code has them


@runtime_checkable
class SettingsFinder(Protocol):
    """A store that finds a session by its stored settings, without listing all sessions."""

    def session_with_settings(self, has: str, lacks: str = "") -> tuple[str, str] | None:
        """The id and settings of the first session whose settings contain *has* and not *lacks*, or None."""


def preset_options(options: Any, path: str | os.PathLike[str] | None) -> tuple[Preset | None, Any]:
    """The preset that *options* names, and *options* together with the preset's own.

    Raises:
        ConfigError: there is no such preset, or *options* has an option that the preset sets.
    """
    asked = options.get(KEY)
    if asked is None:
        return None, options
    from siltstone.presets import preset

    chosen = preset(asked)
    own: dict[str, Any] = {**chosen.options, **(chosen.shared if options.get("namespace") else {})}
    if chosen.most_entries is not None:
        own["retention"] = Retention(max_entries=chosen.most_entries)
    if chosen.archive is not None and path is not None:
        own["archive"] = chosen.archive(path)
    if options.get("context_window") is not None:
        own.pop("context_window", None)  # a policy takes the smaller one
    for name in own:
        if name in options:
            raise ConfigError(
                f"{name} is part of the preset {chosen.name!r}: make it with siltstone.presets."
                f"{chosen.name}(...), or open the session with preset=None, as one without a preset",
                field=name,
                value=options[name],
            )
    return chosen, {**options, **own}


def check_without_directory(chosen: Preset) -> None:
    """Checks a preset for the address of a database, which has no directory.

    Raises:
        ConfigError: the preset needs a directory. The message says for what.
    """
    if chosen.needs_directory:
        raise ConfigError(
            f"preset {chosen.name!r} needs a directory for {chosen.needs_directory}, and a database has none",
            field=KEY,
            value=chosen.name,
        )


def kept_preset(store: Store, session_id: str) -> Preset | None:
    """The preset that the store keeps for the session, with its settings; None if it has none.

    Raises:
        ConfigError: the preset was made with settings that JSON cannot hold; or the session is new, and other
            sessions of the store have a preset, so the caller must choose one. Nothing was written.
    """
    state = store.open_log(session_id).state()
    said = _read(state.settings)
    name = said.get(KEY)
    if not isinstance(name, str):
        if not state.next_seq and not said:
            _check_plain(store, session_id)
        return None
    if said.get(IN_CODE):
        raise ConfigError(
            f"session {session_id!r} is of the preset {name!r}, made with {', '.join(said[IN_CODE])}, "
            f"which no store can keep: {_how(name)}",
            field=KEY,
            value=None,
        )
    from siltstone.presets import preset

    return preset(name, documented=said.get(DOCUMENTED, True) is True, **said.get(SETTINGS, {}))


def preset_of_store(store: Store) -> Preset | None:
    """The preset of the store's sessions, which a new session must have too; None if they have none.

    Raises:
        ConfigError: the preset was made with settings that JSON cannot hold.
    """
    found = _first(store)
    return kept_preset(store, found[0]) if found else None


def check_free(store: Store, session_id: str, chosen: Preset) -> None:
    """Checks that no session of the store has another preset than *chosen*.

    Raises:
        ConfigError: one has. The message names both presets. Nothing was written.
    """
    own = _name(store, session_id)
    if own is not None:
        _check(own, session_id, chosen)
        return
    found = _first(store, but=chosen.name)
    if found:
        _check(found[1], found[0], chosen)


def settle(core: SessionCore, chosen: Preset, path: str | os.PathLike[str] | None) -> None:
    """Stores the preset *chosen* and its settings with the session, and connects the preset's files.

    A new session begins with the messages that the files hold.
    """
    from siltstone.llm import run
    from siltstone.session.boundary import compaction

    settings = _read(core.rows.state().settings)
    said = {KEY: chosen.name, DOCUMENTED: chosen.documented, **_made(chosen)}
    try:
        if chosen.live is not None and path is not None:
            from pathlib import Path  # only a preset with files needs it

            live = chosen.live(Path(path), core.session_id, core.rows)
            if core.next_seq == 0 and (found := live.found()):
                core.locked(lambda: core.append_now(found, None))
                core.tell_secrets()
                begin = live.begun()
                if begin is not None:
                    trigger = Trigger("manual", context_window=core.context_window)
                    run(compaction(core, begin, trigger, 0, is_emergency=True), None)
            core.live = live
            core.catch_up()
        if not said.items() <= settings.items():
            core.save_settings(json.dumps({**settings, **said}, ensure_ascii=False))
    except ReadOnlyStoreError:
        pass  # the store was opened read-only


def _check(other: str, session_id: str, chosen: Preset) -> None:
    if other != chosen.name:
        raise ConfigError(
            f"preset {chosen.name!r} cannot go on with what preset {other!r} filled: session {session_id!r} "
            f"is of {other!r}; nothing was changed; use another directory",
            field=KEY,
            value=chosen.name,
        )


def _check_plain(store: Store, session_id: str) -> None:
    """Raises ConfigError if the store's sessions have a preset, which a new session must name."""
    found = _first(store)
    if found:
        raise ConfigError(
            f"session {session_id!r} is new, and session {found[0]!r} of the same store is of the preset "
            f"{found[1]!r}: {_how(found[1])}",
            field=KEY,
            value=None,
        )


def _first(store: Store, but: str = "") -> tuple[str, str] | None:
    """The id and preset name of the first session with a preset other than *but*; None if there is none."""
    if isinstance(store, SettingsFinder):
        lacks = _written(but) if but else ""
        found = store.session_with_settings(_written(""), lacks)
        name = None if found is None else _read(found[1]).get(KEY)
        return None if found is None or not isinstance(name, str) else (found[0], name)
    from siltstone.memory.paging import sessions_of  # the package's own stores find it themselves

    for each in sessions_of(store):
        name = _name(store, each.session_id)
        if name is not None and name != but:
            return each.session_id, name
    return None


def _written(name: str) -> str:
    """The text by which stored settings name the preset *name*; any preset, if *name* is empty."""
    return json.dumps({KEY: name})[1:-1] if name else f'"{KEY}": "'


def _how(name: str) -> str:
    """The advice at the end of an error: the ways to open the session."""
    return (
        f"open it with preset={name!r} or one made by siltstone.presets.{name}(...), or with preset=None, as "
        "one without a preset"
    )


def _made(chosen: Preset) -> dict[str, Any]:
    """The settings of *chosen* as JSON, and the names of settings that JSON cannot hold."""
    kept: dict[str, Any] = {}
    for name, value in chosen.settings.items():
        try:
            kept[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            continue
    return {SETTINGS: kept, IN_CODE: sorted(chosen.settings.keys() - kept.keys())}


def _name(store: Store, session_id: str) -> str | None:
    """The name of the session's preset; None if it has none."""
    name = _read(store.open_log(session_id).state().settings).get(KEY)
    return name if isinstance(name, str) else None


def _read(settings: str) -> dict[str, Any]:
    if not settings:
        return {}
    try:
        value = json.loads(settings)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
