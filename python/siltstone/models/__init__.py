"""Models that write summaries: one that needs no network and no key, and those of providers' SDKs."""

from siltstone.models.extractive import ExtractiveModel
from siltstone.models.sdk import anthropic, async_anthropic, async_openai, openai

__all__ = ["ExtractiveModel", "anthropic", "async_anthropic", "async_openai", "openai"]
