"""Models that write summaries: one that needs no network and no key, and those of providers' SDKs."""

from siltstone.models.anthropic_sdk import anthropic, async_anthropic
from siltstone.models.extractive import ExtractiveModel
from siltstone.models.openai_sdk import async_openai, openai

__all__ = ["ExtractiveModel", "anthropic", "async_anthropic", "async_openai", "openai"]
