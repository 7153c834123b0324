"""A summary without a language model: the most telling lines, word for word, in order.

Deterministic and offline. It only ever quotes, so it cannot invent; it cannot rephrase either, so a
language model's summary of the same length says more.
"""

from __future__ import annotations

from siltstone import tokens
from siltstone.llm import Completion, CompletionRequest
from siltstone.models.material import read_material
from siltstone.models.salience import score
from siltstone.models.selection import Measure, Picks
from siltstone.tokens import TokenRule
from siltstone.usage import UsageRecord

__all__ = ["ExtractiveModel"]

HEADER = "Lines selected from those messages, oldest first:"
NOTHING_SAID = "The messages held no text."

MATERIAL_SHARE = 3  # a summary is at most a third of what it summarises
LEAST_TOKENS = 32  # of a summary, however little it summarises
REQUEST_SHARE = 3  # of the room, at most a third goes to the user's requests as such
EARLIER_SHARE = 2  # of the room, at most a half goes to an earlier summary before new lines are chosen


class ExtractiveModel:
    """A model for ``model=``: selects the most telling lines of what it is given.

    The user's requests come first, at least in short form while there is room; an earlier summary keeps
    up to half of the room; the rest goes to the most salient new lines, none of them twice.

    Args:
        rule: The token rule by which the answer stays within ``max_tokens``: ``"blocks"``,
            ``"bytes/4"`` or ``"chars/3"``, or a rule of one's own.
    """

    def __init__(self, rule: str | TokenRule = "blocks") -> None:
        self._rule = tokens.rule(rule)
        self._measure = Measure(self._rule.name)

    def __repr__(self) -> str:
        return f"ExtractiveModel({self._rule.name!r})"

    def __call__(self, request: CompletionRequest) -> Completion:
        """The selection, within ``request.max_tokens``."""
        contents = [str(message.get("content", "")) for message in request.messages]
        counts = [self._rule.count_text(content) for content in contents]
        share = max(LEAST_TOKENS, sum(counts[:-1]) // MATERIAL_SHARE)
        room = self._measure.room(min(request.max_tokens, share))
        text = self._selected(request, room) or self._measure.short(NOTHING_SAID, room)
        while self._rule.count_text(text) > request.max_tokens and room > 1:  # a tokenizer may count more
            room = room * 3 // 4
            text = self._selected(request, room) or self._measure.short(NOTHING_SAID, room)
        usage = UsageRecord("extractive", sum(counts), self._rule.count_text(text), purpose=request.purpose)
        return Completion(text, usage, stop_reason="stop")

    def _selected(self, request: CompletionRequest, room: int) -> str:
        lines = score(read_material(request.messages[:-1], leave_out=HEADER))
        picks = Picks(self._measure, room - self._measure(HEADER) - 1)
        requests = [line for line in lines if line.unit.speaker == "User" and line.unit.is_first]
        picks.take_short(requests, room // REQUEST_SHARE)
        best = sorted(lines, key=lambda line: (-line.salience, line.at))
        earlier = [line for line in best if line.unit.is_earlier]
        picks.take(earlier, room // EARLIER_SHARE - picks.used)
        picks.take([line for line in best if not line.unit.is_earlier])
        picks.take(earlier)
        if picks.text:
            return f"{HEADER}\n{picks.text}"
        return self._measure.short(best[0].unit.text, room) if best else ""
