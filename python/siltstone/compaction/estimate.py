"""The estimated cost of a model call, for models that report none."""

from __future__ import annotations

from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest
from siltstone.messages import MAX_MESSAGE_BYTES, History
from siltstone.tokens import TokenRule

__all__ = ["estimated_usage"]


def estimated_usage(rule: TokenRule, request: CompletionRequest, completion: Completion) -> UsageRecord:
    """The tokens of *request* and of *completion*, by *rule*."""
    return UsageRecord(
        input_tokens=_request_tokens(rule, request),
        output_tokens=rule.count_text(completion.text),
        purpose=request.purpose,
    )


def _request_tokens(rule: TokenRule, request: CompletionRequest) -> int:
    """The tokens of the request. Very long texts are counted by themselves: no message may be that large."""
    texts = [message.get("content") for message in request.messages if not request.prefix_preserving]
    if sum(len(text) for text in texts if isinstance(text, str)) > MAX_MESSAGE_BYTES // 8:
        return sum(rule.count_text(text) for text in texts if isinstance(text, str))
    return rule.count(History(request.messages))
