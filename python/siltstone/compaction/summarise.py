"""Makes one summary of all discarded messages: in one request, in a few, or in pieces that are merged.

If the messages do not fit the summariser's window, the number of calls that may be made decides. Without a
limit the summariser reads all of them: in pieces, in order, whose summaries are merged until one is left. A
finished piece is never requested again, even if a later piece fails. With a limit, the last request has the
newest messages and a summary of the older ones. Of messages that are too many for that, the extractive model
selects lines. If the provider finds a request too large, smaller requests follow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

from siltstone.compaction import material as materials, prompts
from siltstone.compaction.base import CompactionError, Range, summaries
from siltstone.compaction.prompts import instruction
from siltstone.compaction.rewrite import joined
from siltstone.errors import ModelError
from siltstone.limits import is_context_overflow, provider_limit
from siltstone.llm import LAST_RESORT, CompletionRequest, Flow, ToolCall, UsageRecord
from siltstone.messages import MaterialItem, Message, as_history
from siltstone.messages.text import without_control
from siltstone.tokens import TokenRule

_log = logging.getLogger("siltstone")

# The calls for one summary: several attempts, then the next model, at last the extractive model.

MOST_DELAY = 8.0  # seconds between two calls of one model for one answer

# Of requests for a summary:
LEAST_SUMMARY = 64  # tokens: the minimum of a cap, so that very few words still get a sentence
LEAST_PIECE = 256  # tokens: smaller pieces would make hundreds of calls with empty summaries
MOST_HALVINGS = 6  # the maximum number of times that a piece is halved after an overflow
MARGIN = 20  # a twentieth of the window stays free, because token counts are estimates


class SummarizerOverflow(Exception):  # noqa: N818 - control flow inside the family, never a caller's
    """A request was too large for the summariser. Its cause is the exception that the model raised."""


class Calls:
    """The model calls of one compaction.

    A call that raises is repeated, up to *attempts* calls in all. An answer that is no summary is not asked
    for again, because the same question gives the same answer. After that the next model of the caller is
    asked, for this answer and for all later ones. If all models have failed, *model_calls* are made, or the
    time is over, the extractive model answers, if it is allowed. The last of *model_calls* goes to the next
    model, if there is one.

    Args:
        settings: The settings of a policy, with ``attempts``, ``retry_delay`` and ``summary_timeout``, which
            all calls and pauses have together, from the first on.
        model_calls: The maximum calls of the caller's models. None: no limit. 0: the extractive model answers
            at once.
        last_resort: Whether the extractive model answers if all other models have failed.
        temperature: The sampling temperature of the answers; None for the model's own.

    Attributes:
        left: The calls that may still be made; None for no limit.
        usage: The cost of all answers, refusals included.
        tool_calls: The tools that the answers called, in order.
        degraded: Whether the extractive model had to answer.
        last_resort: Whether it may.
    """

    def __init__(
        self,
        settings: Any,
        model_calls: int | None = None,
        *,
        last_resort: bool = False,
        temperature: float | None = None,
    ) -> None:
        self._settings, self.last_resort, self._temperature = settings, last_resort, temperature
        self._rank = LAST_RESORT if model_calls == 0 else 0
        self._models: int | None = None  # the number of the caller's models, once it is known
        self._end: float | None = None  # the time at which no model is asked any more
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
            seconds = self._seconds()
            if rank != LAST_RESORT and (self.left == 0 or seconds == 0):
                over = "no model call is left, or no time"
                self._give_up(failure or CompactionError(over, reason="llm_failed", usage=tuple(self.usage)))
                rank = self._rank
            before = made.get(rank, 0)
            delay = min(self._settings.retry_delay * 2 ** (before - 1), MOST_DELAY) if before else 0.0
            if rank == LAST_RESORT:
                seconds = None
            elif seconds is not None:
                delay = min(delay, seconds / 2)
                seconds -= delay
            try:
                completion = yield replace(
                    request, rank=rank, deadline=seconds, delay=delay, temperature=self._temperature
                )
            except ModelError as error:
                if self._temperature is not None and "temperature" in str(error):
                    self._temperature = None  # some models refuse one, whatever it is
                    continue
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
                found = prompts.judged(completion, request)
                if not found.reason:
                    self.tool_calls += completion.tool_calls if request.tools else ()
                    return without_control(found.text)
                made[rank] = self._settings.attempts
                failure = CompactionError(found.fault, reason=found.reason, usage=tuple(self.usage))
            if rank == LAST_RESORT:
                raise failure
            self._rank = rank + 1

    def _seconds(self) -> float | None:
        """The seconds that are left for models; None for no limit."""
        if self._settings.summary_timeout is None:
            return None
        if self._end is None:
            self._end = monotonic() + self._settings.summary_timeout
        return max(0.0, self._end - monotonic())

    def _spend(self, rank: int) -> None:
        if self.left is not None and rank != LAST_RESORT:
            self.left -= 1

    def _may_repeat(self, rank: int, made: int) -> bool:
        """Whether a model that raised is called again at once. The last call is kept for the next model."""
        if rank == LAST_RESORT or made >= self._settings.attempts or self.left == 0:
            return False
        return self.left != 1 or self._models == rank + 1

    def _turn_back(self, made: Mapping[int, int], failure: CompactionError) -> None:
        """Chooses who answers after all models of the caller failed.

        A model whose second call was kept for a next model is called again. Else the extractive model
        answers.

        Raises:
            CompactionError: *failure*, if nobody is left.
        """
        again = [rank for rank, count in made.items() if rank >= 0 and count < self._settings.attempts]
        if again and self.left != 0:
            self._rank = again[-1]
            return
        self._give_up(failure)

    def _give_up(self, failure: CompactionError) -> None:
        """Turns to the extractive model, or raises *failure* if that may not answer."""
        if self._rank == LAST_RESORT or not self.last_resort:
            raise failure
        said = str(failure).encode(errors="backslashreplace").decode()  # a log may be written as UTF-8
        _log.warning("the extractive model writes a summary: %s", said)
        self._rank, self.degraded = LAST_RESORT, True


def _model_failure(error: ModelError, usage: Sequence[UsageRecord]) -> CompactionError:
    name = getattr(error, "error_class", type(error).__name__)
    failure = CompactionError(str(error), reason="llm_failed", error_class=name, usage=tuple(usage))
    failure.__cause__ = error
    return failure


HEAD = 32  # tokens: the first words of a line that shows an earlier summary, with its ranges


@dataclass(frozen=True, slots=True)
class Brief:
    """The bounds of a summary, and of the requests to its summariser.

    Attributes:
        prompt: The instruction.
        focus: The subject that the summary should keep in particular; None for no such subject.
        more: Further instructions of the host, for this compaction only.
        is_ours: Whether the prompt is siltstone's own; then it names the language and the length.
        cap: The maximum tokens of an answer.
        window: The summariser's window in tokens. None if unknown; then there is one request.
        summary_prefix: The frame of earlier summaries.
        token_rule: The token rule.
        live: The whole history, for a request that begins like the live request; None for a rendering.
        tools: The tool definitions of the live request.
        offered: The tools that the summarising model may call; its calls are in ``Calls.tool_calls``.
    """

    prompt: str
    focus: str | None
    cap: int
    window: int | None
    summary_prefix: str
    token_rule: TokenRule
    live: Sequence[Message] | None = None
    tools: tuple[Any, ...] = ()
    offered: tuple[Any, ...] = ()
    more: str = ""
    is_ours: bool = False

    def instruction(self, note: str = "") -> str:
        """The last message of a request."""
        prompt = self.prompt
        if self.is_ours:
            prompt += f"\n\n{prompts.CLOSING.format(words=max(10, self.cap * 2 // 3))}"
        return instruction(prompt, self.focus, note, self.more)

    def piece(self) -> int | None:
        """Tokens of material in one request: the window minus the prompt, the answer and the margin.

        At least ``LEAST_PIECE``; None for an unknown window.
        """
        if self.window is None:
            return None
        notes = prompts.MERGE_NOTE, _notes(prompts.PART_NOTE, prompts.UPDATE_NOTE)
        plain = replace(self, is_ours=False)  # the sentence that closes our prompts is within the margin
        prompt = max(self.token_rule.count_text(plain.instruction(note)) for note in notes)
        return max(LEAST_PIECE, self.window - prompt - self.cap - self.window // MARGIN)


def summarise(discarded: Sequence[Message], brief: Brief, calls: Calls) -> Flow[str]:
    """A single summary of all *discarded* messages, of at most ``brief.cap`` tokens.

    Raises:
        CompactionError: no model gave a summary.
        SummarizerOverflow: even small requests were too large for the provider.
    """
    piece = brief.piece()
    update = prompts.UPDATE_NOTE if summaries(discarded) else ""
    if brief.live is not None and _can_go_on(brief.live, piece, brief.token_rule):
        try:
            return _clipped(
                (yield from calls.ask(_live_request(discarded, brief.live, brief, update))), brief
            )
        except SummarizerOverflow:
            pass  # the rendering of the discarded messages is smaller, and can be split
    if piece is None or calls.left == 0 or materials.at_most(discarded, brief.token_rule) <= piece:
        shown = discarded, brief.summary_prefix
        messages = materials.RequestMessages(
            len(discarded), partial(materials.render, *shown), brief.instruction(update)
        )
        items = materials.Lazy(partial(materials.items_of, *shown))
        request = CompletionRequest(messages, brief.cap, tools=brief.offered, material=items)
        try:
            return _clipped((yield from calls.ask(request)), brief)
        except SummarizerOverflow as error:
            tokens = brief.token_rule.count_text(materials.render(discarded, brief.summary_prefix))
            piece = tokens // 2 if calls.left is None else _allowed(error, tokens)
            if piece < LEAST_PIECE or calls.left == 0:
                raise error from error.__cause__
    if calls.left is not None:
        return (
            yield from _within_calls(materials.items_of(discarded, brief.summary_prefix), piece, brief, calls)
        )
    texts = yield from _in_pieces(discarded, piece, brief, calls)
    return (yield from _merged(texts, piece, brief, calls))


def _within_calls(items: list[MaterialItem], piece: int, brief: Brief, calls: Calls) -> Flow[str]:
    """A summary of *items* in the calls that are left, in requests of at most *piece* tokens."""
    while True:
        try:
            return (yield from _in_two(items, piece, brief, calls))
        except SummarizerOverflow as error:
            piece = _allowed(error, piece)
            if piece < LEAST_PIECE or not calls.left:
                raise error from error.__cause__


def _in_two(items: list[MaterialItem], piece: int, brief: Brief, calls: Calls) -> Flow[str]:
    """A summary of *items*. If they are too many for one request, two calls are made, if two are left.

    The first summarises the older items, and the second brings that summary up to date by the newest ones.
    """
    sizes = sizes_of(items, brief.token_rule)
    newest = _newest(sizes, piece - brief.cap - HEAD)
    if calls.left != 1 and newest and _newest(sizes, piece) < len(items):
        end = len(items) - newest
        older = yield from fitted(items[:end], sizes[:end], piece)
        text = yield from calls.ask(_listed(older, brief.cap, brief, prompts.PART_NOTE))
        summary = materials.earlier_summary(_covers(older), prompts.clip(text, brief.cap, brief.token_rule))
        items, sizes = [summary, *items[end:]], [*sizes_of([summary], brief.token_rule), *sizes[end:]]
    shown = yield from fitted(items, sizes, piece)
    return _clipped((yield from calls.ask(_listed(shown, brief.cap, brief, ""))), brief)


def fitted(items: list[MaterialItem], sizes: list[int], tokens: int) -> Flow[list[MaterialItem]]:
    """*items* in about *tokens* at most: the newest, and lines that the extractive model selects of the rest.

    *sizes* are the tokens of their lines.

    Raises:
        CompactionError: the flow is driven without the extractive model.
    """
    if _newest(sizes, tokens) == len(items):
        return items
    end = len(items) - _newest(sizes, tokens // 2)
    older, newest = items[:end], items[end:]
    request = CompletionRequest(
        materials.RequestMessages(len(older), partial(materials.lines, older), ""),
        max(1, tokens - sum(sizes[end:]) - HEAD),
        "selection",
        rank=LAST_RESORT,
        material=older,
    )
    try:
        completion = yield request
    except ModelError as error:
        raise CompactionError(str(error), reason="llm_failed") from error
    return [materials.earlier_summary(_covers(older), completion.text), *newest]


def sizes_of(items: Iterable[MaterialItem], token_rule: TokenRule) -> list[int]:
    """The tokens of the line of each item, with its line break."""
    return [token_rule.count_text(item.line) + 1 for item in items]


def _newest(sizes: Sequence[int], tokens: int) -> int:
    """The number of the newest items whose lines, of these *sizes*, fit *tokens*."""
    for count, size in enumerate(reversed(sizes)):
        tokens -= size
        if tokens < 0:
            return count
    return len(sizes)


def _covers(items: Iterable[MaterialItem]) -> tuple[Range, ...]:
    """The sequence numbers of the messages of *items*."""
    return joined(
        span for item in items for span in (item.covers if item.seq is None else ((item.seq, item.seq + 1),))
    )


def _listed(items: list[MaterialItem], cap: int, brief: Brief, note: str) -> CompletionRequest:
    """The request for a summary of *items*."""
    update = prompts.UPDATE_NOTE if any(item.kind == "summary" for item in items) else ""
    said = brief.instruction(_notes(note, update))
    messages = materials.RequestMessages(len(items), partial(materials.lines, items), said)
    return CompletionRequest(messages, cap, tools=brief.offered, material=items)


def _allowed(error: SummarizerOverflow, tokens: int) -> int:
    """The tokens of material that a model allows which refused *tokens*: by its own words, else a quarter."""
    named = provider_limit(error.__cause__ or error)
    if named is None or named.requested is None:
        return tokens // 4
    return tokens * named.limit // named.requested * (MARGIN - 1) // MARGIN


def _in_pieces(
    discarded: Sequence[Message], tokens: int, brief: Brief, calls: Calls
) -> Flow[list[tuple[tuple[Range, ...], str]]]:
    """A summary of each piece with the ranges that it covers, in order."""
    material = materials.Material(discarded, brief.summary_prefix, brief.token_rule)
    written: list[tuple[tuple[Range, ...], str]] = []
    halvings = 0
    while material:
        piece = material.take(tokens)
        is_all = not written and not material
        note = _notes("" if is_all else prompts.PART_NOTE, prompts.UPDATE_NOTE if piece.has_summary else "")
        cap = brief.cap if halvings == 0 else max(1, min(brief.cap, tokens // 4))
        try:
            messages = materials.RequestMessages(
                len(piece), partial(getattr, piece, "text"), brief.instruction(note)
            )
            items = materials.Lazy(partial(getattr, piece, "items"))
            request = CompletionRequest(messages, cap, tools=brief.offered, material=items)
            answer = yield from calls.ask(request)
        except SummarizerOverflow as error:
            material.give_back(piece)
            tokens, halvings = tokens // 2, halvings + 1
            if tokens < LEAST_PIECE or halvings > MOST_HALVINGS:
                raise error from error.__cause__
        else:
            written.append((piece.covers, prompts.clip(answer, cap, brief.token_rule)))
    if not written:
        raise CompactionError("the discarded messages hold no text to summarise", reason="empty_summary")
    return written


def _merged(
    written: list[tuple[tuple[Range, ...], str]], tokens: int, brief: Brief, calls: Calls
) -> Flow[str]:
    """Merges neighbouring summaries until one is left: as many as fit a request, and at least two."""
    most = len(written)
    while len(written) > 1:
        waiting, merged = deque(written), list[tuple[tuple[Range, ...], str]]()
        while waiting:
            batch = _batch(waiting, min(most, len(waiting)), tokens, brief)
            if len(batch) == 1:
                merged += batch
                continue
            items, note = (
                [materials.earlier_summary(*summary) for summary in batch],
                brief.instruction(prompts.MERGE_NOTE),
            )
            messages = [{"role": "user", "content": text} for text in (materials.lines(items), note)]
            try:
                answer = yield from calls.ask(CompletionRequest(messages, brief.cap, "merge", material=items))
            except SummarizerOverflow as error:
                if len(batch) == 2:
                    raise error from error.__cause__
                waiting.extendleft(reversed(batch))
                most = max(2, len(batch) // 2)
            else:
                covers = joined(span for ranges, _ in batch for span in ranges)
                merged.append((covers, _clipped(answer, brief)))
        written = merged
    return written[0][1]


def _batch(
    waiting: deque[tuple[tuple[Range, ...], str]], most: int, tokens: int, brief: Brief
) -> list[tuple[tuple[Range, ...], str]]:
    batch = [waiting.popleft()]
    used = brief.token_rule.count_text(materials.earlier_summary(*batch[0]).line) + 1
    while waiting and len(batch) < most:
        used += brief.token_rule.count_text(materials.earlier_summary(*waiting[0]).line) + 1
        if used > tokens and len(batch) >= 2:
            break
        batch.append(waiting.popleft())
    return batch


def _can_go_on(live: Sequence[Message], piece: int | None, token_rule: TokenRule) -> bool:
    """Whether *live* can be sent with an instruction at its end: it fits, and no call is pending."""
    return not as_history(live).outline.pending and (piece is None or token_rule.count(live) <= piece)


def _live_request(
    discarded: Sequence[Message], live: Sequence[Message], brief: Brief, update: str
) -> CompletionRequest:
    messages: list[Any] = [message.raw for message in live]
    messages.append({"role": "user", "content": brief.instruction(_notes(update, prompts.PREFIX_NOTE))})
    material = materials.Lazy(partial(materials.items_of, discarded, brief.summary_prefix))
    return CompletionRequest(
        messages, brief.cap, tools=brief.tools, prefix_preserving=True, material=material
    )


def _notes(*notes: str) -> str:
    return "\n\n".join(filter(None, notes))


def _clipped(text: str, brief: Brief) -> str:
    return prompts.clip(text, brief.cap, brief.token_rule)
