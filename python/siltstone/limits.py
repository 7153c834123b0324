"""How many tokens a model takes, and which errors of a provider say that a request was too large."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from siltstone.errors import ConfigError

# Recognises provider errors for requests larger than the model's window, and reads the window there.

# The error texts of providers and servers. If two facts are needed to distinguish an overflow from another
# limit (a rate, the length of an answer), the pattern requires both.
_PHRASES: Final = (
    r"context[_ ]length[_ ]exceeded",  # OpenAI's code, also Azure, Groq, Together
    r"maximum context length is \d",  # OpenAI, vLLM, OpenRouter, DeepSeek
    r"exceeds? the (?:model'?s )?(?:maximum |available )?context (?:length|window|size|limit)",
    r"exceeds? the (?:available )?context size",  # llama.cpp
    r"exceed context window of \d",  # llama-cpp-python
    r"tokens exceed the configured limit of \d",  # OpenAI, Azure
    r"reduce the length of the messages",  # Groq, and others after a sentence of their own
    r"prompt is too long: \d",  # Anthropic
    r"input length and `?max_tokens`? exceed context limit",  # Anthropic
    r"input is too long for requested model",  # Bedrock
    r"too many (?:input )?tokens: \d+ (?:>|exceeds)",  # Bedrock, Cohere
    r"input token count \(?\d+\)? exceeds the maximum",  # Gemini, Vertex
    r"too many tokens: (?:total )?.{0,80}(?:context|cannot exceed \d)",  # Cohere
    r"too many input tokens\. max input tokens: \d",  # Bedrock
    r"input token count is \d+ but model only supports up to \d",  # Vertex
    r"prompt contains \d+ tokens .{0,60}too large for model",  # Mistral
    r"maximum prompt length is \d",  # xAI
    r"`?inputs`? tokens .{0,40}must be <= \d+",  # text-generation-inference
    r"`inputs` must have less than \d+ tokens",  # the same
    r"is longer than the model'?s? context",  # SGLang, Together
    r"exceeds the maximum allowed input length of \d",  # Poolside
    r"prompt token count of \d+ exceeds the limit of \d",  # GitHub Copilot
    r"exceeded model token limit: \d",  # Moonshot
    r"range of input length should be \[",  # DashScope
    r"n_keep \(\d+\) >= n_ctx \(\d+\)",  # LM Studio
    r"tokens to keep from the initial prompt is greater than the context length",  # LM Studio
    r"loaded with context length of only \d",  # LM Studio
    r"request (?:too large|exceeds the maximum size)(?! for )",  # Anthropic, request_too_large
    r"request_too_large",
    r"model_context_window_exceeded",
    r"exceeded? max(?:imum)? context (?:length|window)",  # Ollama and others
    r"string too long.{0,40}maximum length \d+",  # OpenAI: one content over its cap
)
_SAID: Final = re.compile("|".join(_PHRASES), re.IGNORECASE | re.DOTALL)

# Words of other limits. A message that has them is never an overflow.
_OTHER_LIMIT: Final = re.compile(
    r"rate.?limit|(?:tokens|token limit) per (?:min|minute|day)|output token limit|"
    r"\bTPM\b|\bTPD\b|\bquota\b|requests per |overloaded|billing",
    re.IGNORECASE,
)

# Messages of servers that are not known, or are behind somebody's proxy.
_COMMON: Final = (
    "context length",
    "maximum context",
    "token limit",
    "too many tokens",
    "request too large",
    "content_too_large",
)
# Of a number of tokens it is said only beside one of these, and not where the length of the answer is meant.
_EXCESS: Final = re.compile(r"exceed|too long|too large|\bover\b")
_OF_ANSWER: Final = re.compile(r"output|completion")

# Where they say how many tokens a request may have, and how many this one had. `more` belongs to the request:
# what it wanted for its answer. A pattern stands before those that would find less in the same text.
_NUMBER: Final = r"\d[\d,]{0,11}"
_LIMITS: Final = (
    r"maximum context length is LIMIT tokens.{0,120}\(REQUESTED > (?P=limit) - MORE\)",  # vLLM
    r"maximum context length is LIMIT tokens.{0,200}for a total of (?:at least )?REQUESTED tokens",  # vLLM
    # OpenAI, Azure, vLLM, DeepSeek, OpenRouter
    r"context length is LIMIT tokens.{0,60}? (?:requested|in|has|contains|about) REQUESTED (?:input )?tokens",
    r"maximum context length of LIMIT tokens.{0,60}?a total of REQUESTED tokens",  # SGLang
    r"maximum context length (?:is|of) LIMIT tokens",
    r"configured limit of LIMIT tokens.{0,60}?resulted in REQUESTED tokens",  # OpenAI, Azure
    r"configured limit of LIMIT tokens",
    r"too long: REQUESTED tokens > LIMIT maximum",  # Anthropic, also by Bedrock and Vertex
    r"exceed context limit: REQUESTED \+ MORE > LIMIT",  # Anthropic
    r"max input tokens: LIMIT, request input token count: REQUESTED",  # Bedrock
    r"input token count \(?REQUESTED\)? exceeds the maximum number of tokens allowed \(?LIMIT",  # Gemini
    r"input token count is REQUESTED but model only supports up to LIMIT",  # Vertex
    r"prompt contains REQUESTED tokens.{0,60}with LIMIT maximum context length",  # Mistral
    r"maximum prompt length is LIMIT but the request contains REQUESTED tokens",  # xAI
    r"must be <= LIMIT\. Given: REQUESTED `inputs` tokens and MORE",  # text-generation-inference
    r"must be <= LIMIT\. Given: REQUESTED",
    r"must have less than LIMIT tokens\. Given: REQUESTED",
    r"cannot exceed LIMIT - received REQUESTED",  # Cohere
    r"\(REQUESTED tokens\) exceeds the available context size \(LIMIT tokens\)",  # llama.cpp
    r"n_prompt_tokens['\"]?: ?REQUESTED.{0,20}?n_ctx['\"]?: ?LIMIT",  # llama.cpp
    r"requested tokens \(REQUESTED\) exceed context window of LIMIT",  # llama-cpp-python
    r"n_keep \(REQUESTED\) >= n_ctx \(LIMIT\)",  # LM Studio
    r"keep the first REQUESTED tokens.{0,80}context length of only LIMIT tokens",  # LM Studio
    r"\(REQUESTED tokens\) is longer than the model'?s? context length \(LIMIT",  # SGLang, Together
    r"\(REQUESTED tokens\) exceeds the maximum allowed input length of LIMIT",  # Poolside
    r"token count of REQUESTED exceeds the limit of LIMIT",  # GitHub Copilot
    r"exceeded model token limit: LIMIT",  # Moonshot
    r"range of input length should be \[1, ?LIMIT\]",  # DashScope
)


@cache
def _limit_patterns() -> tuple[re.Pattern[str], ...]:
    """The expressions of ``_LIMITS``, compiled when the first error is read."""
    return tuple(
        re.compile(
            pattern.replace("LIMIT", f"(?P<limit>{_NUMBER})")
            .replace("REQUESTED", f"(?P<requested>{_NUMBER})")
            .replace("MORE", f"(?P<more>{_NUMBER})"),
            re.IGNORECASE | re.DOTALL,
        )
        for pattern in _LIMITS
    )


_MOST_CAUSES = 8  # links of the chain of causes that are looked at


def is_context_overflow(error: BaseException | str) -> bool:
    """Whether *error* says that a request was larger than the model's window, or than the provider takes.

    Limits of rate, quota and load are no overflow: the same request may be sent again later.

    Args:
        error: The exception of the provider's SDK, or its message. The causes of an exception are checked
            too, since frameworks wrap exceptions.
    """
    return any(map(_is_overflow, _texts(error)))


class ProviderLimit(NamedTuple):
    """The window as a provider named it when it refused a request.

    Attributes:
        limit: The maximum tokens of a request, at least 1. Some providers include the room for the answer,
            some do not.
        requested: The tokens that the refused request had by the same count, always more than ``limit``;
            None if the provider does not tell.
    """

    limit: int
    requested: int | None


def provider_limit(error: BaseException | str) -> ProviderLimit | None:
    """The window that *error* names; None if it is no overflow, or names no limit in tokens.

    Contradicting numbers (a request that was not larger than the limit) are ignored.

    Args:
        error: As for :func:`is_context_overflow`.
    """
    for text in _texts(error):
        if _is_overflow(text):
            for match in filter(None, (pattern.search(text) for pattern in _limit_patterns())):
                return _said(match)
    return None


def _said(match: re.Match[str]) -> ProviderLimit | None:
    found = {name: int(number.replace(",", "")) for name, number in match.groupdict().items() if number}
    limit, requested = found["limit"], found.get("requested")
    if requested is None:
        return ProviderLimit(limit, None) if limit else None
    requested += found.get("more", 0)
    return ProviderLimit(limit, requested) if 0 < limit < requested else None


def _is_overflow(text: str) -> bool:
    if _OTHER_LIMIT.search(text):
        return False
    return bool(_SAID.search(text)) or _complains(text.lower())


def _complains(text: str) -> bool:
    """Whether *text* has the words that servers without words of their own have in common."""
    if any(phrase in text for phrase in _COMMON):
        return True
    counts = "max_tokens" in text or ("maximum" in text and "tokens" in text)
    return counts and bool(_EXCESS.search(text)) and not _OF_ANSWER.search(text)


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


# How many tokens a model takes, by its name: a table that is a part of the package, and no network.
#
# The table says where it is from and of which day. A provider's own error has the last word: a session
# learns from it (``Session.recover``).

_log = logging.getLogger("siltstone")

UNKNOWN_WINDOW: Final = 200_000  #: tokens that are taken for a model that the table does not have

_TABLE: Final = "windows.tsv"
_DATED: Final = re.compile(r"-(?:latest|\d{4}-\d{2}-\d{2}|\d{8})$")  # of one version of a model


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a model.

    Attributes:
        model: Its name, as it was asked for.
        tokens: The maximum tokens of a request and its answer together.
        resolved: Whether the table has it. False: ``tokens`` is a guess.
    """

    model: str
    tokens: int
    resolved: bool


def window_of(model: str) -> Window:
    """The window of *model*.

    A prefix before the name (``openai/gpt-5``, ``anthropic:claude-sonnet-5``) is left out, and so is the
    date of a version that the table does not have by itself. An unknown model is taken for one of 200,000
    tokens, and ``resolved`` is False; of the known one that its name begins with, a smaller window is taken.

    Raises:
        ConfigError: *model* is no text, or empty.
    """
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(
            f"a model's name must be a text that is not empty, got {model!r}", field="model", value=model
        )
    name = re.split(r"[/:]", model.strip().lower())[-1]
    table = _table()
    for each in (name, _DATED.sub("", name), f"{_DATED.sub('', name)}-latest"):
        if each in table:
            return Window(model, table[each], True)
    kin = [known for known in table if name.startswith(f"{known}-")]
    tokens = min(UNKNOWN_WINDOW, table[max(kin, key=len)]) if kin else UNKNOWN_WINDOW
    return Window(model, tokens, False)


def auto_window(model: str | None) -> int:
    """The window of *model* for ``context_window="auto"``; where it is a guess, a warning is logged.

    Raises:
        ConfigError: no model is named.
    """
    if model is None:
        raise ConfigError(
            'context_window="auto" needs the name of the agent\'s model: agent_model="..."',
            field="agent_model",
            value=None,
        )
    found = window_of(model)
    if not found.resolved:
        _log.warning(
            "the window of model %r is not known, and taken for %d tokens; give context_window a number",
            model,
            found.tokens,
            extra={"model": model, "context_window": found.tokens, "resolved": False},
        )
    return found.tokens


@cache
def _table() -> dict[str, int]:
    from pathlib import Path  # with urllib: only who asks for a window needs it

    table = Path(__file__).with_name(_TABLE).read_text("utf-8")
    lines = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return {name.lower(): int(tokens) for name, tokens, _ in lines}
