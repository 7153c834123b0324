"""Models that come with the package: no network, no key."""

from siltstone.models.extractive import ExtractiveModel

__all__ = ["ExtractiveModel"]
