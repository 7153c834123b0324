"""Shares of a whole in whole numbers, exact for shares that are written as decimals."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["reached_at", "share_of"]


def share_of(whole: int, share: float) -> int:
    """The largest number that is at most *share* of *whole*."""
    return int(Fraction(str(share)) * whole)


def reached_at(whole: int, share: float) -> int:
    """The least number that is at least *share* of *whole*."""
    return -int(-Fraction(str(share)) * whole // 1)
