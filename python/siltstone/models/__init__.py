"""Models that write summaries: one without a network, those of providers' SDKs, and base models."""

from siltstone.models.extractive import ExtractiveModel
from siltstone.models.sdk import CompletionModel, anthropic, async_anthropic, async_openai, openai

__all__ = ["CompletionModel", "ExtractiveModel", "anthropic", "async_anthropic", "async_openai", "openai"]
