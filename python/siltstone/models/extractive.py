"""A summary without a language model: the most telling lines, word for word, in order.

Deterministic and offline. It only ever quotes, so it cannot invent; it cannot rephrase either, so a
language model's summary of the same length says more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from siltstone import tokens
from siltstone._native import Selection
from siltstone.llm import EXTRACTIVE, Completion, CompletionRequest, UsageRecord
from siltstone.messages import MaterialItem, Role
from siltstone.tokens import TokenRule

LEAST_TOKENS = 32  # of a summary, however little it summarises


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
        self._in_code_points = self._rule.name == "chars/3"
        self._per_token = 3 if self._in_code_points else 4  # the size that is one token at most

    def __repr__(self) -> str:
        return f"ExtractiveModel({self._rule.name!r})"

    def __call__(self, request: CompletionRequest) -> Completion:
        """The selection, within ``request.max_tokens``."""
        messages, instruction, material = request.messages[:-1], request.messages[-1:], request.material
        if material is None:
            material = [MaterialItem("text", _content(each), _role(each)) for each in messages]
        elif request.prefix_preserving or not messages:  # these have more text than the material
            messages, instruction = [{"content": "\n".join(item.line for item in material)}], []
        count = self._rule.count_text
        given = sum(count(_content(each)) for each in messages)
        asked = sum(count(_content(each)) for each in instruction)
        selection = Selection(material, self._in_code_points)
        room = self._per_token * min(request.max_tokens, self._worth(selection.earlier_size, given))
        text = selection.within(room)
        while count(text) > request.max_tokens and room > 1:  # a tokenizer may count more
            room = room * 3 // 4
            text = selection.within(room)
        usage = UsageRecord(EXTRACTIVE, given + asked, count(text), purpose=request.purpose)
        return Completion(text, usage, stop_reason="stop")

    def _worth(self, earlier_size: int, given: int) -> int:
        """The tokens of a summary at most: those of an earlier one, and three fifths of the new messages."""
        earlier = min(given, earlier_size // self._per_token)
        return max(LEAST_TOKENS, earlier + (given - earlier) * 3 // 5)


def _content(message: Mapping[str, Any]) -> str:
    return str(message.get("content", ""))


def _role(message: Mapping[str, Any]) -> Role:
    """The role; a name that is none counts as the user's."""
    return cast("Role", str(message.get("role")))
