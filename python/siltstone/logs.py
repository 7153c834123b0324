"""The logger of siltstone. ``logging`` is imported with the first record: it takes a tenth of a start."""

from __future__ import annotations

__all__ = ["log"]


class _Late:
    """Stands in the place of the logger, and keeps each method of it that was asked for."""

    def __getattr__(self, name: str) -> Any:
        import logging

        method = getattr(logging.getLogger("siltstone"), name)
        if callable(method):  # a level or a list of handlers may change
            self.__dict__[name] = method
        return method


TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    log: logging.Logger
else:
    log = _Late()
