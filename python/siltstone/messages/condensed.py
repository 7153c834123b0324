"""Shortens a text by its structure alone, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone._native import condense

__all__ = ["condensed"]


def condensed(text: str, earlier: Sequence[tuple[str, str]] = ()) -> str:
    """*text* with fewer bytes, if its structure allows that; else the same text.

    Args:
        text: The result of a tool.
        earlier: Handles and texts that the reader already sees. Lines that are in one of these texts are
            replaced by its handle and their line numbers there.
    """
    return condense(text, list(earlier))
