"""Which errors of providers say that a request was too large for the window?"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, ContextOverflowError, ModelError
from siltstone.limits import ProviderLimit, is_context_overflow, provider_limit, request_bytes_of
from siltstone.refusals import Row, add_row, refusal_of, rows

# Answers of providers and servers, each with the window that it tells.
DATA = Path(__file__).parent / "data"
REFUSALS = json.loads((DATA / "overflows.json").read_text("utf-8"))

# Refusals of all kinds, each with its source.
COLLECTED = json.loads((DATA / "refusals.json").read_text("utf-8"))
KINDS = {"overflow": "tokens", "bytes": "bytes", "other": None}

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


@pytest.mark.parametrize("message", OTHERS)
def test_another_error_is_none(message: str) -> None:
    assert not is_context_overflow(message)
    assert not is_context_overflow(RuntimeError(message))
    assert provider_limit(message) is None


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal["who"])
def test_the_window_that_a_provider_names_is_read(refusal: dict[str, Any]) -> None:
    message, limit, requested = refusal["message"], refusal["limit"], refusal["requested"]
    said = None if limit is None else (limit, requested)
    assert is_context_overflow(message)
    assert provider_limit(message) == said
    assert provider_limit(RuntimeError(message)) == said


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
    assert provider_limit(error) == ProviderLimit(limit=4, requested=5)


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert not is_context_overflow(one)


def as_error(refusal: dict[str, Any]) -> Exception:
    """The exception of an SDK, as far as *refusal* tells of it."""
    error = type(refusal.get("class") or "APIError", (Exception,), {})(refusal["text"])
    told = {"status_code": refusal.get("status"), "code": refusal.get("code"), "type": refusal.get("type")}
    error.__dict__.update({key: value for key, value in told.items() if value is not None})
    return error


@pytest.mark.parametrize("refusal", COLLECTED, ids=lambda refusal: refusal["id"])
def test_what_was_collected_is_read_by_what_it_is(refusal: dict[str, Any]) -> None:
    for error in (as_error(refusal), refusal["text"]):
        said = refusal_of(error)
        assert (said and said.kind) == KINDS[refusal["kind"]], refusal["source"]
        if said is not None and said.kind == "tokens":
            named = (refusal.get("limit"), refusal.get("count"), refusal.get("answer"))
            assert (said.limit, said.sent, said.answer) == named


def test_each_row_has_a_source_and_something_to_compare() -> None:
    assert len(rows()) > 40
    for row in rows():
        assert row.kind in ("tokens", "bytes", "other")
        assert len(row.source) > 8
        assert row.text or row.names or row.status
        assert not {"CONTEXT", "EXCESS", "ASKED", "CAP"} & set(row.text.split()), "a word without a meaning"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (429, None),
        (402, None),
        (529, None),
        (413, "bytes"),
        ("RateLimitError", None),
        ("ContentTooLargeError", None),  # its status says it
        ("ContextWindowExceededError", "tokens"),
        ("ContextWindowOverflowException", "tokens"),
        ("PayloadTooLargeError", "bytes"),
    ],
)
def test_status_and_class_stand_before_words(error: int | str, kind: str | None) -> None:
    """The words of the first are those of an overflow: its status, or its class, says that it is none."""
    made = type(error if isinstance(error, str) else "APIStatusError", (Exception,), {})
    said = made(
        "the prompt is over the context window" if kind is None and error != "ContentTooLargeError" else "x"
    )
    if isinstance(error, int):
        said.status_code = error
    found = refusal_of(said)
    assert (found and found.kind) == kind


def test_the_body_and_the_response_of_an_sdk_are_read() -> None:
    error = RuntimeError("Bad request")
    error.body = {"error": {"code": "context_length_exceeded", "message": "at most 8,192 tokens"}}  # type: ignore[attr-defined]
    assert refusal_of(error)
    aws = RuntimeError("An error occurred")
    aws.response = {"Error": {"Code": "ThrottlingException", "Message": "Too many tokens"}}  # type: ignore[attr-defined]
    assert refusal_of(aws) is None


@pytest.mark.parametrize(
    ("text", "limit", "sent"),
    [
        ("Your prompt of 140,321 tokens exceeds the 128k context window", 128_000, 140_321),
        (
            "the maximum context length is 1.048.576 tokens, at least 1.200.000 tokens were in the prompt",
            1_048_576,
            1_200_000,
        ),
        (
            "the prompt has 1 200 000 tokens, which exceeds the limit of 1 048 576 tokens",
            1_048_576,
            1_200_000,
        ),
        ("the request of 30 MB exceeds the limit of 20 MB", 20_000_000, 30_000_000),
        ("Error code: 400 - the prompt is too long for gpt-4-32k", None, None),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, limit: int | None, sent: int | None) -> None:
    said = refusal_of(text)
    assert (said.limit, said.sent) == (limit, sent)


def test_a_row_of_one_s_own_goes_first() -> None:
    words = "Alles voll: 9000 von 8192 Wörtern"
    assert refusal_of(words) is None
    add_row(Row("tokens", "a gateway", r"Alles voll: COUNT von LIMIT"))
    try:
        said = refusal_of(words)
        assert (said.source, said.limit, said.sent) == ("a gateway", 8_192, 9_000)
    finally:
        rows().pop(0)


@pytest.mark.parametrize("row", ["context", Row("tokens", "nobody")])
def test_a_row_without_columns_is_refused(row: Any) -> None:
    with pytest.raises(ConfigError, match="row must be"):
        add_row(row)


def test_our_own_error_is_no_refusal_of_a_provider() -> None:
    assert not is_context_overflow(ContextOverflowError("the request has 9 tokens, the window 8"))


def test_what_a_provider_takes_in_bytes_is_known_by_the_model() -> None:
    assert request_bytes_of("claude-sonnet-5") == 32_000_000
    assert request_bytes_of("us.anthropic.claude-sonnet-5-v1:0") == 25_000_000
    assert request_bytes_of("mine") is None
