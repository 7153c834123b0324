"""Which errors of providers say that a request was too large for the window?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ModelError
from siltstone.limits import ProviderLimit, is_context_overflow, provider_limit

OVERFLOWS = [
    # OpenAI and those who speak like it
    "400 - {'error': {'message': \"This model's maximum context length is 128000 tokens\"}}",
    "Error code: 400 - {'error': {'message': 'Please shorten it.', 'code': 'context_length_exceeded'}}",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens",
    "Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576",
    # Anthropic
    "Error code: 400 - {'error': {'message': 'prompt is too long: 215341 tokens > 200000 maximum'}}",
    "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input length",
    "413 - {'error': {'type': 'request_too_large', 'message': 'Request exceeds the maximum size'}}",
    # Bedrock, Gemini, Mistral, xAI
    "ValidationException: Input is too long for requested model.",
    "400 The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    # servers of one's own
    "the request exceeds the available context size, try increasing it",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "Requested token count exceeds the model's maximum context length of 32768 tokens.",
]

# Answers of providers and servers, each with the window that it tells.
REFUSALS = json.loads((Path(__file__).parent / "data" / "overflows.json").read_text("utf-8"))

OTHERS = [
    "",
    "Error code: 429 - Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000.",
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000.",
    "Error code: 529 - {'type': 'overloaded_error', 'message': 'Overloaded'}",
    "You exceeded your current quota, please check your plan and billing details.",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "Connection error.",
    "Request timed out.",
    "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after",
    "The context of this discussion is long.",
    "Invalid API key provided",
    "messages: text content blocks must be non-empty",
]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Context Length exceeded", True),
        ("the maximum context is 8,192", True),
        ("Token limit reached by the prompt", True),
        ("TOO MANY TOKENS", True),
        ("request too large", True),
        ("error: content_too_large", True),
        ("max_tokens exceeds what is left", True),
        ("max_tokens must be >= 1", False),
        ("max_tokens must be \u2265 1", False),
        ("a maximum of 5 tools may be given", False),
        ("the input is over the maximum of 4096 tokens", True),
        ("the maximum number of output tokens is 4096", False),
        ("invalid api key", False),
    ],
)
def test_sb_34_what_is_an_overflow_and_what_is_none(message: str, expected: bool) -> None:
    assert is_context_overflow(message) is expected


@pytest.mark.parametrize("message", OVERFLOWS)
def test_an_overflow_is_recognised(message: str) -> None:
    assert is_context_overflow(message)
    assert is_context_overflow(RuntimeError(message))


@pytest.mark.parametrize("message", OTHERS)
def test_another_error_is_none(message: str) -> None:
    assert not is_context_overflow(message)
    assert not is_context_overflow(RuntimeError(message))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal["who"])
def test_the_window_that_a_provider_names_is_read(refusal: dict[str, Any]) -> None:
    message, limit, requested = refusal["message"], refusal["limit"], refusal["requested"]
    said = None if limit is None else (limit, requested)
    assert is_context_overflow(message)
    assert provider_limit(message) == said
    assert provider_limit(RuntimeError(message)) == said


@pytest.mark.parametrize("message", OTHERS)
def test_another_error_names_no_window(message: str) -> None:
    assert provider_limit(message) is None


def test_the_window_is_read_from_what_a_framework_wrapped() -> None:
    error = ModelError("the model raised BadRequestError")
    error.__cause__ = ValueError("prompt is too long: 5 tokens > 4 maximum")
    assert provider_limit(error) == ProviderLimit(limit=4, requested=5)


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 5 tokens > 5 maximum",
        "prompt is too long: 5 tokens > 0 maximum",
        "This model's maximum context length is 0 tokens",
        "prompt is too long: 1" + "0" * 40 + " tokens > 4 maximum",
    ],
)
def test_numbers_that_cannot_be_are_none(message: str) -> None:
    assert provider_limit(message) is None


@given(st.text(max_size=300))
def test_any_text_at_all_is_read(message: str) -> None:
    said = provider_limit(message)
    assert said is None or said.limit > 0


def test_the_code_of_an_sdk_s_error_counts() -> None:
    error = RuntimeError("Bad request")
    error.code = "context_length_exceeded"  # type: ignore[attr-defined]
    assert is_context_overflow(error)


def test_what_a_framework_wrapped_is_recognised() -> None:
    error = ModelError("the model raised BadRequestError")
    error.__cause__ = ValueError("prompt is too long: 5 tokens > 4 maximum")
    assert is_context_overflow(error)


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert not is_context_overflow(one)
