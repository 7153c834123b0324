"""Classes that a lower room needs and a higher room defines.

``Session.open(path)`` makes a store, and ``store.session(id)`` makes a session: one of them has to find the
other late. A session knows the contract of a store alone, so the stores are what is found late. The package
says where, before any of its rooms is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False  # this is read by ``import siltstone``, which does without typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["STORES"]

STORES: dict[str, Callable[[], Any]] = {}  #: by the name of its class, how a store's class is imported
