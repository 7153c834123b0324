"""Names of the standard library without what it takes to import their modules.

Much of the library is a file in Python around a module in C, and the file takes most of the time:
``datetime`` makes twins of all its classes first, ``threading`` and ``functools`` bring others along. Here
the names are taken from the module in C, and ``json`` is imported when something of it is first asked for.
Type checkers see the documented modules, and objects pickle by the names of those.
"""

from __future__ import annotations

__all__ = ["UTC", "Lock", "RLock", "datetime", "get_ident", "json", "partial", "timedelta", "tzinfo"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import json
    from datetime import UTC, datetime, timedelta, tzinfo
    from functools import partial
    from threading import Lock, RLock, get_ident
    from typing import Any
else:
    from _datetime import datetime, timedelta, timezone, tzinfo
    from _functools import partial
    from _thread import RLock, allocate_lock, get_ident

    Lock = allocate_lock
    UTC = timezone.utc

    class _Json:
        """``json``, imported when something of it is first asked for."""

        def __getattr__(self, name: str) -> Any:
            import json

            value = getattr(json, name)
            setattr(self, name, value)  # who asks again does not come by
            return value

    json = _Json()
