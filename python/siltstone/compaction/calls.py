"""The calls for one summary: several attempts, then the next model, at last the extractive model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from siltstone.compaction.base import CompactionError
from siltstone.compaction.refusal import is_refusal
from siltstone.errors import ModelError
from siltstone.events import UsageRecord
from siltstone.llm import LAST_RESORT, Completion, CompletionRequest, Flow, ToolCall
from siltstone.overflow import is_context_overflow

__all__ = ["Calls", "SummarizerOverflow"]

MOST_DELAY = 8.0  # seconds between two calls of one model for one answer

# Of requests for a summary:
LEAST_SUMMARY = 64  # tokens: the minimum of a cap, so that very few words still get a sentence
LEAST_PIECE = 256  # tokens: smaller pieces would make hundreds of calls with empty summaries
MOST_HALVINGS = 6  # the maximum number of times that a piece is halved after an overflow
MARGIN = 20  # a twentieth of the window stays free, because token counts are estimates

_SUMMARY_HEADING = re.compile(r"^##[ \t]+Summary[ \t]*:?[ \t]*$", re.MULTILINE | re.IGNORECASE)


class SummarizerOverflow(Exception):  # noqa: N818 - control flow inside the family, never a caller's
    """A request was too large for the summariser. Its cause is the exception that the model raised."""


class Calls:
    """The model calls of one compaction.

    A call that raises is repeated, up to *attempts* calls in all. An empty answer or a refusal is not asked
    for again, because the same question gives the same answer. After that the next model of the caller is
    asked, for this answer and for all later ones. If all models have failed, the extractive model answers,
    if it is allowed.

    Args:
        attempts: Calls of one model for one answer, at least 1.
        deadline: Seconds that a call may take; None for no limit.
        last_resort: Whether the extractive model answers if all other models have failed.
        retry_delay: Seconds before the second call of one model for one answer; each further call waits
            twice as long, at most ``MOST_DELAY``.
        model_calls: The maximum calls of the caller's models for one answer; only the first of the models is
            asked then. None: no limit. 0: the extractive model answers at once.

    Attributes:
        usage: The cost of all answers, refusals included.
        tool_calls: The tools that the answers called, in order.
        degraded: Whether the extractive model had to answer.
    """

    def __init__(
        self,
        attempts: int,
        deadline: float | None,
        last_resort: bool,
        retry_delay: float = 0.0,
        model_calls: int | None = None,
    ) -> None:
        self._attempts = attempts if model_calls is None else min(attempts, max(1, model_calls))
        self._one_model = model_calls is not None
        self._deadline = deadline
        self._last_resort = last_resort
        self._retry_delay = retry_delay
        self._rank = LAST_RESORT if model_calls == 0 else 0
        self.usage: list[UsageRecord] = []
        self.tool_calls: list[ToolCall] = []
        self.degraded = model_calls == 0

    def too_large(self, error: SummarizerOverflow) -> CompactionError:
        """The error of a compaction whose smallest requests the model finds too large, with what it cost."""
        refused = CompactionError(
            f"the summariser finds even small requests too large: {error}",
            reason="summarizer_overflow",
            usage=tuple(self.usage),
        )
        refused.__cause__ = error.__cause__
        return refused

    def ask(self, request: CompletionRequest) -> Flow[str]:
        """The summary in an answer to *request*.

        Raises:
            CompactionError: every model failed; the error is the last model's.
            SummarizerOverflow: the request is too large for the current model.
        """
        failure: CompactionError | None = None
        while True:
            try:
                return (yield from self._ask_one(request))
            except _NoSuchModelError as end:
                if self._rank == LAST_RESORT or not self._last_resort:
                    if failure is None:
                        raise _model_failure(end.error, self.usage) from end.error
                    raise failure from failure.__cause__
                self._rank, self.degraded = LAST_RESORT, True
            except CompactionError as error:
                failure = error
                if self._rank == LAST_RESORT or (self._one_model and not self._last_resort):
                    raise
                self._rank = LAST_RESORT if self._one_model else self._rank + 1
                self.degraded = self.degraded or self._one_model

    def _ask_one(self, request: CompletionRequest) -> Flow[str]:
        """The answer of the current model, after at most *attempts* calls."""
        request = replace(request, rank=self._rank, deadline=self._deadline)
        attempt = 1
        while True:
            try:
                completion = yield request
            except ModelError as error:
                if getattr(error, "exhausted", False):
                    raise _NoSuchModelError(error) from error
                if is_context_overflow(error):
                    raise SummarizerOverflow(str(error)) from error
                if attempt >= self._attempts:
                    raise _model_failure(error, self.usage) from error
                delay = min(self._retry_delay * 2 ** (attempt - 1), MOST_DELAY)
                request, attempt = replace(request, delay=delay), attempt + 1
            else:
                if completion.usage:
                    self.usage.append(completion.usage)
                summary = _summary_in(completion, self.usage)
                self.tool_calls += completion.tool_calls if request.tools else ()
                return summary


class _NoSuchModelError(Exception):
    """There is no model of the requested rank."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(str(error))
        self.error = error


def _model_failure(error: ModelError, usage: Sequence[UsageRecord]) -> CompactionError:
    error_class = getattr(error, "error_class", type(error).__name__)
    return CompactionError(str(error), reason="llm_failed", error_class=error_class, usage=tuple(usage))


def _summary_in(completion: Completion, usage: Sequence[UsageRecord]) -> str:
    """The summary in an answer: the text after a heading ``## Summary``, else the whole answer."""
    heading = _SUMMARY_HEADING.search(completion.text)
    text = completion.text[heading.end() if heading else 0 :].strip()
    if is_refusal(text, completion.stop_reason):
        raise CompactionError(
            f"the model refused to summarise: {text[:200]!r}", reason="refused_summary", usage=tuple(usage)
        )
    if not text:
        raise CompactionError("the model's summary is empty", reason="empty_summary", usage=tuple(usage))
    return text
