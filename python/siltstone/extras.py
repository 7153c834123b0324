"""Extras of the package, and the error where one is absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["requires"]


@contextmanager
def requires(extra: str, by: str) -> Iterator[None]:
    """Around imports that *by* makes: where a package is absent, the error names the *extra* that brings it.

    Raises:
        ImportError: it is not installed; carries ``name``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "siltstone":
            raise
        raise ImportError(
            f"{by} needs {error.name}, which is not installed; pip install 'siltstone[{extra}]'",
            name=error.name,
        ) from error
