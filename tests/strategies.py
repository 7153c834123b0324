"""Generates histories for the property tests."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hypothesis import strategies as st

from strategies_messages import (
    anthropic_messages,
    anthropic_result,
    anthropic_use,
    anthropic_user_blocks,
    openai_call,
    openai_messages,
    openai_parts,
    plain_messages,
    result_contents,
    thinking,
)
from strategies_responses import call_item, hosted_items, output_item, responses_items, user_blocks
from strategies_values import PIXEL, WORDS, Raw, json_objects, json_values, texts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HISTORIES", "PIXEL", "Ending", "anthropic_histories", "anthropic_messages", "histories",
    "json_objects", "json_values", "openai_histories", "openai_messages", "plain_messages",
    "responses_histories", "responses_items", "texts",
]  # fmt: skip

Ending: TypeAlias = Literal["any", "answered", "asked", "pending"]
"""How a history ends: with an assistant's last word, with a request or results that wait for the
assistant, or with a call that waits for its result. ``any`` draws one of the three."""


_said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


class _Writer:
    """Writes the messages of one history, in the words of one dialect."""

    def __init__(self, draw: Callable[..., Any], dialect: str, legal: bool) -> None:
        self.draw = draw
        self.openai = dialect == "openai.chat"
        self.legal = legal
        self.messages: list[Raw] = []
        self.reuse_ids = draw(st.booleans()) and (self.openai or not legal)
        self.calls = 0

    def add(self, role: str, content: Any, **more: Any) -> None:
        self.messages.append({"role": role, "content": content, **more})

    def up_to(self, most: int) -> int:
        return int(self.draw(st.integers(0, most)))

    def text(self) -> str:
        return "so " + self.draw(_said) if self.legal else str(self.draw(texts(max_size=24)))

    def systems(self) -> None:
        for _ in range(self.up_to(2)):
            self.add("developer" if self.openai and self.up_to(1) else "system", self.text())

    def request(self) -> None:
        if self.up_to(3) or self.legal:
            self.add("user", self.text())
            return
        blocks = openai_parts() if self.openai else anthropic_user_blocks()
        self.add("user", self.draw(st.lists(blocks, min_size=1, max_size=3)))

    def reasoning_only(self) -> None:
        if self.openai:
            self.add("assistant", None, reasoning_content="so " + self.text())
        else:
            self.add("assistant", [self.draw(thinking())])

    def call(self) -> list[str]:
        """One assistant message with 1 to 3 calls, now and then after its reasoning; their ids."""
        shape = self.up_to(15)
        if shape == 0:
            self.reasoning_only()
        if self.reuse_ids:
            self.calls = 0
        ids = [f"call_{self.calls + n}" for n in range(1 + shape % 3)]
        self.calls += len(ids)
        odd = shape % 5 == 0 and not self.legal
        arguments = [self.draw(json_objects()) if odd else {"path": self.text()} for _ in ids]
        if self.openai:
            calls = [openai_call(i, "read_file", json.dumps(a)) for i, a in zip(ids, arguments, strict=True)]
            more = {"reasoning_content": self.text()} if shape % 4 == 1 else {}
            self.add("assistant", self.text() if shape % 2 else None, tool_calls=calls, **more)
            return ids
        blocks = [self.draw(thinking())] if shape % 4 == 1 else []
        blocks += [{"type": "text", "text": self.text()}] if shape % 2 else []
        blocks += [anthropic_use(i, "read_file", a) for i, a in zip(ids, arguments, strict=True)]
        self.add("assistant", blocks)
        return ids

    def results(self, ids: list[str]) -> None:
        """The results of *ids*, in any order, in one message or several."""
        shape = self.up_to(7)
        ids = ids[::-1] if shape % 2 else ids
        if self.openai:
            for call_id in ids:
                self.add("tool", self.text(), tool_call_id=call_id)
            return
        contents = [
            self.draw(result_contents()) if shape > 4 and not self.legal else self.text() for _ in ids
        ]
        errors = (None, True, False)[shape % 3]
        blocks = [anthropic_result(i, content, errors) for i, content in zip(ids, contents, strict=True)]
        if shape == 3:
            for block in blocks:
                self.add("user", [block])
        elif blocks:
            speaks = shape == 4 and not self.legal  # text beside the results of a pending group is refused
            beside = [{"type": "text", "text": self.text()}] if speaks else []
            self.add("user", blocks + beside)

    def answer(self) -> None:
        text = self.text()
        as_block = not self.openai and self.up_to(1)
        self.add("assistant", [{"type": "text", "text": text}] if as_block else text)

    def exchange(self, delayed: bool) -> None:
        ids = self.call()
        late = [ids.pop()] if delayed and not self.legal and self.up_to(5) == 5 else []
        self.results(ids)
        if late:
            self.answer()
            self.results(late)


class _ItemWriter(_Writer):
    """Writes items of the Responses API: each call and each output is one of its own."""

    def __init__(self, draw: Callable[..., Any], dialect: str, legal: bool) -> None:
        super().__init__(draw, dialect, legal)
        self.kinds: dict[str, str] = {}

    def new_id(self, prefix: str) -> str:
        """An item's own id: unique, as the provider demands."""
        return f"{prefix}_{len(self.messages)}"

    def request(self) -> None:
        if self.up_to(3):
            self.add("user", self.text())
        elif self.legal:
            self.add("user", [{"type": "input_text", "text": self.text()}], type="message")
        else:
            self.add("user", self.draw(st.lists(user_blocks(), min_size=1, max_size=3)), type="message")

    def reasoning_only(self) -> None:
        summary = [{"type": "summary_text", "text": self.text()}] if self.up_to(1) else []
        item = {"type": "reasoning", "id": self.new_id("rs"), "summary": summary}
        self.messages.append({**item, "encrypted_content": "Z3VhcmRlZA=="} if self.up_to(1) else item)

    def call(self) -> list[str]:
        shape = self.up_to(15)
        if shape % 3 == 0:
            self.reasoning_only()
        if self.reuse_ids and not self.legal:
            self.calls = 0
        ids = [f"call_{self.calls + n}" for n in range(1 + shape % 3)]
        self.calls += len(ids)
        if shape % 4 == 0:
            self.answer()
        for call_id in ids:
            item = self.draw(call_item(call_id, self.new_id("fc"), self.text()))
            self.kinds[call_id] = item["type"]
            self.messages.append(item)
        return ids

    def results(self, ids: list[str]) -> None:
        for call_id in ids[::-1] if self.up_to(1) else ids:
            output = output_item(self.kinds[call_id], call_id, self.new_id("out"), self.text())
            self.messages.append(self.draw(output))

    def answer(self) -> None:
        shape = self.up_to(5)
        if shape > 3:
            self.messages.append(self.draw(hosted_items(self.new_id("ws"), self.text())))
        if shape % 2:
            self.add("assistant", self.text())
            return
        said = [{"type": "output_text", "text": self.text(), "annotations": []}]
        self.add("assistant", said, type="message", id=self.new_id("msg"), status="completed")


@st.composite
def _history(
    draw: Callable[..., Any],
    dialect: str,
    min_turns: int,
    max_turns: int,
    ending: Ending,
    delayed: bool,
    legal: bool,
) -> list[Raw]:
    writer = (_ItemWriter if dialect == "openai.responses" else _Writer)(draw, dialect, legal)
    writer.systems()
    turns = draw(st.integers(min_turns, max_turns))
    last: str = ending if ending != "any" else draw(st.sampled_from(["answered", "asked", "pending"]))
    for turn in range(turns):
        writer.request()
        for _ in range(writer.up_to(3)):
            writer.exchange(delayed)
        if turn < turns - 1:
            if writer.up_to(5):
                writer.answer()
        elif last == "answered":
            writer.answer()
        elif last == "pending":
            writer.results(writer.call()[1:])
    return writer.messages


def histories_of(
    dialect: str,
    *,
    min_turns: int = 0,
    max_turns: int = 4,
    ending: Ending = "any",
    delayed: bool = True,
    legal: bool = False,
) -> st.SearchStrategy[list[Raw]]:
    """Well-formed histories of a dialect: every result after its call, and every call answered but for
    those of the last group of one that ends ``pending``. System texts are plain messages.

    Args:
        dialect: ``openai.chat``, ``openai.responses`` or ``anthropic``.
        min_turns: A history of no turns has nothing but system messages, if any.
        max_turns: At most this many turns.
        ending: How the last turn ends.
        delayed: Some results come only after the assistant has spoken again.
        legal: Nothing but what the provider itself takes: no delays, no blank text, no unknown block.
    """
    return _history(dialect, min_turns, max_turns, ending, delayed, legal)


openai_histories = partial(histories_of, "openai.chat")
anthropic_histories = partial(histories_of, "anthropic")
responses_histories = partial(histories_of, "openai.responses")


def histories(**options: Any) -> st.SearchStrategy[list[Raw]]:
    dialects = st.sampled_from(["openai.chat", "openai.responses", "anthropic"])
    return dialects.flatmap(lambda dialect: histories_of(dialect, **options))


HISTORIES: dict[str, Callable[..., st.SearchStrategy[list[Any]]]] = {
    "openai.chat": openai_histories,
    "openai.responses": responses_histories,
    "anthropic": anthropic_histories,
}
"""The strategies of each dialect, by its name."""
