"""A summary without a language model: the most telling lines, word for word, in order.

Deterministic and offline. It only ever quotes, so it cannot invent; it cannot rephrase either, so a
language model's summary of the same length says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from siltstone import tokens
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest
from siltstone.models.selection import Measure, Picks
from siltstone.tokens import TokenRule

if TYPE_CHECKING:
    from siltstone.models.salience import Scored


__all__ = ["ExtractiveModel"]

HEADER = "Lines selected from those messages, oldest first:"
NOTHING_SAID = "The messages held no text."

MATERIAL_SHARE = 0.6  # the most that a summary has of the new messages, beside the size of an earlier one
LEAST_TOKENS = 32  # of a summary, however little it summarises
REQUEST_SHARE = 3  # of the room, at most a third goes to the user's requests as such
# Of the room, what an earlier summary may take before new lines are chosen. It stands for everything that was
# ever discarded, and is handed on many times. More than that would leave new lines too little.
EARLIER_SHARE = 0.85


class ExtractiveModel:
    """A model for ``model=``: selects the most telling lines of what it is given.

    The user's requests come first, at least in short form while there is room; an earlier summary keeps
    up to 85 % of the room; the rest goes to the most salient new lines, none of them twice.

    Args:
        rule: The token rule by which the answer stays within ``max_tokens``: ``"blocks"``,
            ``"bytes/4"`` or ``"chars/3"``, or a rule of one's own.
    """

    provider = None  #: for traces: none, since nobody is asked

    def __init__(self, rule: str | TokenRule = "blocks") -> None:
        self._rule = tokens.rule(rule)
        self._measure = Measure(self._rule.name)

    def __repr__(self) -> str:
        return f"ExtractiveModel({self._rule.name!r})"

    def __call__(self, request: CompletionRequest) -> Completion:
        """The selection, within ``request.max_tokens``."""
        from siltstone.llm import Completion
        from siltstone.models.salience import score
        from siltstone.models.units import read_items, read_texts

        messages, instruction = request.messages[:-1], request.messages[-1:]
        if request.material is None:
            lines = score(read_texts(messages, leave_out=HEADER))
        else:
            lines = score(read_items(request.material, leave_out=HEADER))
            if request.prefix_preserving or not messages:  # these have more text than the material
                text = "\n".join(item.line for item in request.material)
                messages, instruction = [{"role": "user", "content": text}], []
        contents = [str(message.get("content", "")) for message in (*messages, *instruction)]
        counts = [self._rule.count_text(content) for content in contents]
        room = self._measure.room(min(request.max_tokens, self._worth(lines, sum(counts[: len(messages)]))))
        text = self._selected(lines, room)
        while self._rule.count_text(text) > request.max_tokens and room > 1:  # a tokenizer may count more
            room = room * 3 // 4
            text = self._selected(lines, room)
        usage = UsageRecord("extractive", sum(counts), self._rule.count_text(text), purpose=request.purpose)
        return Completion(text, usage, stop_reason="stop")

    def _worth(self, lines: Sequence[Scored], tokens: int) -> int:
        """How many tokens a summary may have: those of an earlier one, and a share of the new messages."""
        size = sum(self._measure.line(line.unit, line.unit.text) for line in lines if line.unit.is_earlier)
        earlier = min(tokens, size // self._measure.room(1))
        return max(LEAST_TOKENS, earlier + int((tokens - earlier) * MATERIAL_SHARE))

    def _selected(self, lines: Sequence[Scored], room: int) -> str:
        picks = Picks(self._measure, room - self._measure(HEADER) - 1)
        requests = [line for line in lines if line.unit.speaker == "User" and line.unit.is_first]
        picks.take_short(requests, room // REQUEST_SHARE)
        best = sorted(lines, key=lambda line: (-line.salience, line.at))
        earlier = [line for line in best if line.unit.is_earlier]
        picks.take(earlier, int(room * EARLIER_SHARE) - picks.used)
        picks.take([line for line in best if not line.unit.is_earlier])
        picks.take(earlier)
        if picks.text:
            return f"{HEADER}\n{picks.text}"
        if best:
            unit = best[0].unit
            return self._measure.short(f"{unit.speaker}: {unit.text}", room)
        return self._measure.short(NOTHING_SAID, room)
