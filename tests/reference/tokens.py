"""Sizes of a text, and the estimates of tokens that are made from them."""

from __future__ import annotations

import math

__all__ = ["at_least_one", "bytes_over_four", "chars_over_three", "text_size"]


def text_size(text: str) -> tuple[int, int]:
    """Bytes of UTF-8, a lone surrogate counting three, and code points."""
    return len(text.encode("utf-8", "surrogatepass")), len(text)


def bytes_over_four(size: tuple[int, int]) -> int:
    """Rule ``bytes/4``: a quarter of the bytes, rounded down."""
    return math.floor(size[0] / 4)


def chars_over_three(size: tuple[int, int]) -> int:
    """Rule ``chars/3``: a third of the code points, rounded up."""
    return math.ceil(size[1] / 3)


def at_least_one(size: tuple[int, int]) -> int:
    """The tokens of a block by rule ``blocks``: a quarter of its bytes, rounded down, but at least one."""
    return max(1, bytes_over_four(size))
