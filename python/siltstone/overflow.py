"""Did a provider refuse a request because it was too large for the model's window?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["is_context_overflow"]

# What providers and servers say, each in its own words. Where two facts are needed to tell an overflow
# from a limit of another kind (a rate, an answer's length), the pattern asks for both.
_PHRASES: Final = (
    r"context[_ ]length[_ ]exceeded",  # OpenAI's code, also Azure, Groq, Together
    r"maximum context length is \d",  # OpenAI, vLLM, OpenRouter, DeepSeek
    r"exceeds? the (?:model'?s )?(?:maximum |available )?context (?:length|window|size|limit)",
    r"exceeds? the (?:available )?context size",  # llama.cpp
    r"prompt is too long: \d",  # Anthropic
    r"input length and `?max_tokens`? exceed context limit",  # Anthropic
    r"input is too long for requested model",  # Bedrock
    r"too many (?:input )?tokens: \d+ (?:>|exceeds)",  # Bedrock, Cohere
    r"input token count \(?\d+\)? exceeds the maximum",  # Gemini, Vertex
    r"too many tokens: (?:total )?.{0,80}context",  # Cohere
    r"prompt contains \d+ tokens .{0,60}too large for model",  # Mistral
    r"maximum prompt length is \d",  # xAI
    r"`?inputs`? tokens .{0,40}must be <= \d+",  # text-generation-inference
    r"request (?:too large|exceeds the maximum size)(?! for )",  # Anthropic, request_too_large
    r"request_too_large",
    r"model_context_window_exceeded",
    r"exceeded? max(?:imum)? context (?:length|window)",  # Ollama and others
    r"input is longer than the model'?s? context",
    r"string too long.{0,40}maximum length \d+",  # OpenAI: one content over its cap
)
_SAID: Final = re.compile("|".join(_PHRASES), re.IGNORECASE | re.DOTALL)

# Words of other limits. A message that has them is no overflow, whatever else it says.
_OTHER_LIMIT: Final = re.compile(
    r"rate.?limit|tokens per (?:min|minute|day)|\bTPM\b|\bTPD\b|\bquota\b|requests per |overloaded|billing",
    re.IGNORECASE,
)

_MOST_CAUSES = 8  # links of the chain of causes that are looked at


def is_context_overflow(error: BaseException | str) -> bool:
    """Whether *error* says that a request was larger than the model's window, or than the provider takes.

    Limits of rate, quota and load are none: the same request may be sent again later.

    Args:
        error: What the provider's SDK raised, or its message. Of an exception the chain of causes is
            looked at too, since frameworks wrap what they catch.
    """
    return any(_SAID.search(text) and not _OTHER_LIMIT.search(text) for text in _texts(error))


def _texts(error: BaseException | str) -> Iterator[str]:
    if isinstance(error, str):
        yield error
        return
    link: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if link is None:
            return
        code = getattr(link, "code", None)
        yield f"{link} {code}" if isinstance(code, str) else str(link)
        link = link.__cause__
