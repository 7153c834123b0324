"""Fixtures that all measurements of `pytest benches/python` share."""

from __future__ import annotations

import pytest

from siltstone import _native


def pytest_configure() -> None:
    """Refuses a debug build, which is not worth measuring."""
    if _native.build_profile != "release":
        raise pytest.UsageError("a debug build is not worth measuring: make install")
