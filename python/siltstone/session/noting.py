"""The shares of the window (``warn_at``) at which the model is told how full the window is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siltstone.errors import ConfigError

__all__ = ["band_at", "check_warn_at"]


def check_warn_at(shares: Any) -> None:
    """Checks ``warn_at``.

    Raises:
        ConfigError: *shares* is no sequence of ascending floats between 0 and 1, both excluded.
    """
    is_list = isinstance(shares, Sequence) and not isinstance(shares, str)
    numbers = list(shares) if is_list else []
    right = all(isinstance(share, float) and 0 < share < 1 for share in numbers)
    if not is_list or not right or numbers != sorted(set(numbers)):
        raise ConfigError(
            f"warn_at must be shares of the window between 0 and 1 that ascend, got {shares!r}",
            field="warn_at",
            value=shares,
        )


def band_at(shares: Sequence[float], tokens: int, window: int) -> int:
    """The number of *shares* of the window that *tokens* have reached."""
    # Divided, since ``share * window`` may be a little more than the exact product: 0.07 * 100 is above 7.
    return sum(tokens / window >= share for share in shares)
