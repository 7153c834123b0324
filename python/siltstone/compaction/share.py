"""Computes a share of a whole as a whole number; exact for shares that are written as decimals."""

from __future__ import annotations

__all__ = ["reached_at", "share_of"]


def share_of(whole: int, share: float) -> int:
    """The largest number that is at most *share* of *whole*."""
    from fractions import Fraction  # with decimal: a session without shares does without

    return int(Fraction(str(share)) * whole)


def reached_at(whole: int, share: float) -> int:
    """The least number that is at least *share* of *whole*."""
    from fractions import Fraction

    return -int(-Fraction(str(share)) * whole // 1)
