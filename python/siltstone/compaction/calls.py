"""The calls for one summary: several attempts, then the next model, at last the extractive model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    asked, for this answer and for all later ones. If all models have failed, or *model_calls* are made, the
    extractive model answers, if it is allowed. The last of *model_calls* goes to the next model, if there is
    one.

    Args:
        attempts: Calls of one model for one answer, at least 1.
        deadline: Seconds that a call may take; None for no limit.
        last_resort: Whether the extractive model answers if all other models have failed.
        retry_delay: Seconds before the second call of one model for one answer; each further call waits
            twice as long, at most ``MOST_DELAY``.
        model_calls: The maximum calls of the caller's models. None: no limit. 0: the extractive model answers
            at once.

    Attributes:
        left: The calls that may still be made; None for no limit.
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
        self._attempts = attempts
        self._deadline = deadline
        self._last_resort = last_resort
        self._retry_delay = retry_delay
        self._rank = LAST_RESORT if model_calls == 0 else 0
        self._models: int | None = None  # the number of the caller's models, once it is known
        self.left = model_calls
        self.usage: list[UsageRecord] = []
        self.tool_calls: list[ToolCall] = []
        self.degraded = model_calls == 0

    def has(self, count: int) -> bool:
        """Whether *count* more calls may be made; always if the extractive model answers."""
        return self.left is None or self._rank == LAST_RESORT or self.left >= count

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
            CompactionError: every model failed, or no call is left; the error is the last model's.
            SummarizerOverflow: the request is too large for the current model.
        """
        failure: CompactionError | None = None
        made: dict[int, int] = {}  # calls of each model for this answer
        while True:
            rank = self._rank
            if rank != LAST_RESORT and self.left == 0:
                if not self._last_resort:
                    raise failure or CompactionError("no model call is left", reason="llm_failed")
                rank = self._rank = LAST_RESORT
                self.degraded = True
            before = made.get(rank, 0)
            delay = min(self._retry_delay * 2 ** (before - 1), MOST_DELAY) if before else 0.0
            try:
                completion = yield replace(request, rank=rank, deadline=self._deadline, delay=delay)
            except ModelError as error:
                if getattr(error, "exhausted", False):
                    failure = failure or _model_failure(error, self.usage)
                    self._models = rank
                    self._turn_back(made, failure)
                    continue
                made[rank] = before + 1
                self._spend(rank)
                if is_context_overflow(error):
                    raise SummarizerOverflow(str(error)) from error
                failure = _model_failure(error, self.usage)
                if self._may_repeat(rank, made[rank]):
                    continue
            else:
                self._spend(rank)
                if completion.usage:
                    self.usage.append(completion.usage)
                try:
                    summary = _summary_in(completion, self.usage)
                except CompactionError as error:
                    made[rank], failure = self._attempts, error
                else:
                    self.tool_calls += completion.tool_calls if request.tools else ()
                    return summary
            if rank == LAST_RESORT:
                raise failure
            self._rank = rank + 1

    def _spend(self, rank: int) -> None:
        if self.left is not None and rank != LAST_RESORT:
            self.left -= 1

    def _may_repeat(self, rank: int, made: int) -> bool:
        """Whether a model that raised is called again at once. The last call is kept for the next model."""
        if rank == LAST_RESORT or made >= self._attempts or self.left == 0:
            return False
        return self.left != 1 or self._models == rank + 1

    def _turn_back(self, made: Mapping[int, int], failure: CompactionError) -> None:
        """Chooses who answers after all models of the caller failed.

        A model whose second call was kept for a next model is called again. Else the extractive model
        answers.

        Raises:
            CompactionError: *failure*, if nobody is left.
        """
        again = [rank for rank, count in made.items() if rank >= 0 and count < self._attempts]
        if again and self.left != 0:
            self._rank = again[-1]
            return
        if self._rank == LAST_RESORT or not self._last_resort:
            raise failure
        self._rank, self.degraded = LAST_RESORT, True


def _model_failure(error: ModelError, usage: Sequence[UsageRecord]) -> CompactionError:
    name = getattr(error, "error_class", type(error).__name__)
    failure = CompactionError(str(error), reason="llm_failed", error_class=name, usage=tuple(usage))
    failure.__cause__ = error
    return failure


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
