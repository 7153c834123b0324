"""Opens a session with a preset: its options, and which preset a session is of."""

from __future__ import annotations

import json
import os
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from siltstone.errors import ConfigError, ReadOnlyStoreError
from siltstone.memory.base import Store
from siltstone.session.core import SessionCore
from siltstone.session.retention import Retention

if TYPE_CHECKING:
    from siltstone.presets import Preset

__all__ = ["check_free", "preset_of", "preset_options", "settle"]

KEY: Final = "preset"
DOCUMENTED: Final = "documented"
MOST: Final = 100  #: sessions of a store that are asked which preset they are of


def preset_options(options: Any, path: str | os.PathLike[str] | None) -> tuple[Preset | None, Any]:
    """The preset that *options* names, and all of them with its own.

    Raises:
        ConfigError: there is no such preset, or *options* say otherwise what it says.
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
                f"{chosen.name}(...), or open the session without preset=",
                field=name,
                value=options[name],
            )
    return chosen, {**options, **own}


def preset_of(settings: str) -> str | None:
    """The name of the preset that a session's settings tell of."""
    name = _read(settings).get(KEY)
    return name if isinstance(name, str) else None


def check_free(store: Store, session_id: str, chosen: Preset) -> None:
    """Refuses a store that another preset filled: its session, or another one of the newest.

    Raises:
        ConfigError: names both. Nothing was written.
    """
    own = preset_of(store.open_log(session_id).state().settings)
    if own is not None:
        _check(own, session_id, chosen)
        return
    for each in store.sessions(limit=MOST).sessions:
        other = preset_of(store.open_log(each.session_id).state().settings)
        if other is not None:
            _check(other, each.session_id, chosen)
            return


def settle(core: SessionCore, chosen: Preset, path: str | os.PathLike[str] | None) -> None:
    """Notes with the session that it is of the preset *chosen*, and takes its files up.

    A session that is new begins with what the files hold.
    """
    settings = _read(core.rows.state().settings)
    said = {KEY: chosen.name, DOCUMENTED: chosen.documented}
    try:
        if chosen.live is not None and path is not None:
            live = chosen.live(FilePath(path), core.session_id, core.rows)
            if core.next_seq == 0 and (found := live.found()):
                core.append(found)
            core.live = live
            core.catch_up()
        if not said.items() <= settings.items():
            core.save_settings(json.dumps({**settings, **said}, ensure_ascii=False))
    except ReadOnlyStoreError:
        pass  # opened to look


def _check(other: str, session_id: str, chosen: Preset) -> None:
    if other != chosen.name:
        raise ConfigError(
            f"preset {chosen.name!r} cannot go on with what preset {other!r} filled: session {session_id!r} "
            f"is of {other!r}; nothing was changed; use another directory",
            field=KEY,
            value=chosen.name,
        )


def _read(settings: str) -> dict[str, Any]:
    try:
        value = json.loads(settings or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
