"""What generated texts, JSON values and histories do the property tests run on?"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "PIXEL",
    "Ending",
    "anthropic_histories",
    "anthropic_messages",
    "histories",
    "json_objects",
    "json_values",
    "openai_histories",
    "openai_messages",
    "plain_messages",
    "texts",
]

Raw: TypeAlias = dict[str, Any]

Ending: TypeAlias = Literal["any", "answered", "asked", "pending"]
"""How a history ends: with an assistant's last word, with a request or results that wait for the
assistant, or with a call that waits for its result. ``any`` draws one of the three."""

#: A picture of one pixel, as base64.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

WORDS = ["the", "file", "error", "Zürich", "記憶", "naïve", "😀", "x_1", "\n", '"', "\\"]
CORNERS = ["\x00", "\ud800", "a\udfffb", " ", "\u2028", "[Context compacted] no", "\x7f"]


def _pair_up(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@cache
def texts(*, min_size: int = 0, max_size: int = 40) -> st.SearchStrategy[str]:
    """Texts of any code points: empty, NUL, lone surrogates, CJK, emoji and plain words.

    Adjacent halves of a surrogate pair are combined, because JSON cannot tell the two forms apart.
    """
    wild = st.text(st.characters(exclude_categories=()), min_size=min_size, max_size=max_size).map(_pair_up)
    words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=max(1, max_size // 6)).map(" ".join)
    corners = st.sampled_from(CORNERS if min_size else ["", *CORNERS])
    return st.one_of(words, corners, wild)


@cache
def json_values(*, max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Nested values that JSON can carry."""
    numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    leaves = st.none() | st.booleans() | numbers | texts(max_size=12)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=6), inner, max_size=3),
        max_leaves=max_leaves,
    )


@cache
def json_objects() -> st.SearchStrategy[Raw]:
    """Nested JSON objects, as a tool's arguments are."""
    return st.dictionaries(texts(max_size=6), json_values(max_leaves=4), max_size=3)


@cache
def plain_messages() -> st.SearchStrategy[Raw]:
    """``{"role", "content": str}``, which reads alike in every dialect."""
    roles = st.sampled_from(["system", "developer", "user", "assistant"])
    return st.builds(lambda role, text: {"role": role, "content": text}, roles, texts())


@cache
def _text_blocks() -> st.SearchStrategy[Raw]:
    return texts().map(lambda text: {"type": "text", "text": text})


@cache
def _unknown_blocks() -> st.SearchStrategy[Raw]:
    return json_objects().map(lambda extra: {**extra, "type": "block_of_tomorrow"})


# -- OpenAI chat --------------------------------------------------------------------------------


@cache
def _openai_parts() -> st.SearchStrategy[Raw]:
    media = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    return st.one_of(_text_blocks(), st.sampled_from(media).map(dict), _unknown_blocks())


def _openai_call(call_id: str, name: str, arguments: str, custom: bool = False) -> Raw:
    if custom:
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@cache
def openai_messages() -> st.SearchStrategy[Raw]:
    """Single OpenAI chat messages of every shape; they need not make a history."""
    names = texts(max_size=8)
    content = st.one_of(texts(), st.lists(_openai_parts(), max_size=3))
    call = st.builds(_openai_call, texts(min_size=1), names, texts(), st.booleans())
    refusal = texts().map(lambda text: [{"type": "refusal", "refusal": text}])
    legacy = st.fixed_dictionaries({"name": names, "arguments": texts()})
    audio = texts().map(lambda text: {"id": "audio_1", "transcript": text, "data": PIXEL, "expires_at": 1})
    assistant = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.one_of(st.none(), content, refusal)},
        optional={
            "tool_calls": st.none() | st.lists(call, max_size=3),
            "reasoning_content": st.none() | texts(),
            "refusal": st.none() | texts(),
            "function_call": st.none() | legacy,
            "audio": st.none() | audio,
            "annotations": json_values(),
        },
    )
    tool = st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": texts(min_size=1), "content": content},
        optional={"name": names},
    )
    function = st.fixed_dictionaries(
        {"role": st.just("function"), "name": texts(min_size=1), "content": st.none() | texts()}
    )
    speaker = st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user"]), "content": content},
        optional={"name": names, "metadata": json_values()},
    )
    return st.one_of(speaker, assistant, tool, function)


# -- Anthropic ----------------------------------------------------------------------------------


def _source(media_type: str, data: str, kind: str = "base64") -> Raw:
    return {"type": kind, "media_type": media_type, "data": data}


def _image() -> Raw:
    return {"type": "image", "source": _source("image/png", PIXEL)}


@cache
def _anthropic_user_blocks() -> st.SearchStrategy[Raw]:
    image = st.builds(_image)
    paper = st.builds(lambda: {"type": "document", "source": _source("application/pdf", PIXEL)})
    note = texts().map(lambda text: {"type": "document", "source": _source("text/plain", text, "text")})
    return st.one_of(_text_blocks(), image, paper, note, _unknown_blocks())


@cache
def _thinking() -> st.SearchStrategy[Raw]:
    plain = texts().map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
    return plain | st.builds(lambda: {"type": "redacted_thinking", "data": "b3BhcXVl"})


def _anthropic_use(call_id: str, name: str, arguments: Raw, kind: str = "tool_use") -> Raw:
    return {"type": kind, "id": call_id, "name": name, "input": arguments}


def _anthropic_result(call_id: str, content: Any, is_error: bool | None) -> Raw:
    block: Raw = {"type": "tool_result", "tool_use_id": call_id}
    if content is not None:
        block["content"] = content
    if is_error is not None:
        block["is_error"] = is_error
    return block


def _found(call_id: str, title: str) -> Raw:
    page = {
        "type": "web_search_result",
        "title": title,
        "url": "https://example.org",
        "encrypted_content": "x",
    }
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [page]}


@cache
def _result_contents() -> st.SearchStrategy[Any]:
    blocks = st.lists(st.one_of(_text_blocks(), st.builds(_image), _unknown_blocks()), max_size=3)
    return st.one_of(st.none(), texts(), blocks)


@cache
def anthropic_messages() -> st.SearchStrategy[Raw]:
    """Single Anthropic messages of every shape; they need not make a history."""
    ids = texts(min_size=1, max_size=8)
    use = st.builds(_anthropic_use, ids, texts(max_size=8), json_objects())
    server = st.builds(_anthropic_use, ids, st.just("web_search"), json_objects(), st.just("server_tool_use"))
    found = st.builds(_found, ids, texts())
    result = st.builds(_anthropic_result, ids, _result_contents(), st.none() | st.booleans())
    said = st.one_of(_text_blocks(), _thinking(), use, server, found, _unknown_blocks())
    asked = st.one_of(_anthropic_user_blocks(), result)
    return st.one_of(
        (texts() | st.lists(said, max_size=4)).map(lambda content: {"role": "assistant", "content": content}),
        (texts() | st.lists(asked, max_size=4)).map(lambda content: {"role": "user", "content": content}),
    )


# -- Histories ----------------------------------------------------------------------------------


class _Writer:
    """Writes the messages of one history, in the words of one dialect."""

    def __init__(self, draw: Callable[..., Any], dialect: str) -> None:
        self.draw = draw
        self.openai = dialect == "openai.chat"
        self.messages: list[Raw] = []
        self.reuse_ids = draw(st.booleans())
        self.calls = 0

    def add(self, role: str, content: Any, **more: Any) -> None:
        self.messages.append({"role": role, "content": content, **more})

    def up_to(self, most: int) -> int:
        return int(self.draw(st.integers(0, most)))

    def text(self) -> str:
        return str(self.draw(texts(max_size=24)))

    def systems(self) -> None:
        for _ in range(self.up_to(2)):
            self.add("developer" if self.openai and self.up_to(1) else "system", self.text())

    def request(self) -> None:
        if self.up_to(3):
            self.add("user", self.text())
            return
        blocks = _openai_parts() if self.openai else _anthropic_user_blocks()
        self.add("user", self.draw(st.lists(blocks, min_size=1, max_size=3)))

    def reasoning_only(self) -> None:
        if self.openai:
            self.add("assistant", None, reasoning_content="so " + self.text())
        else:
            self.add("assistant", [self.draw(_thinking())])

    def call(self) -> list[str]:
        """One assistant message with 1 to 3 calls, now and then after its reasoning; their ids."""
        shape = self.up_to(15)
        if shape == 0:
            self.reasoning_only()
        if self.reuse_ids:
            self.calls = 0
        ids = [f"call_{self.calls + n}" for n in range(1 + shape % 3)]
        self.calls += len(ids)
        arguments = [self.draw(json_objects()) if shape % 5 == 0 else {"path": self.text()} for _ in ids]
        if self.openai:
            calls = [_openai_call(i, "read_file", json.dumps(a)) for i, a in zip(ids, arguments, strict=True)]
            more = {"reasoning_content": self.text()} if shape % 4 == 1 else {}
            self.add("assistant", self.text() if shape % 2 else None, tool_calls=calls, **more)
            return ids
        blocks = [self.draw(_thinking())] if shape % 4 == 1 else []
        blocks += [{"type": "text", "text": self.text()}] if shape % 2 else []
        blocks += [_anthropic_use(i, "read_file", a) for i, a in zip(ids, arguments, strict=True)]
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
        contents = [self.draw(_result_contents()) if shape > 4 else self.text() for _ in ids]
        errors = (None, True, False)[shape % 3]
        blocks = [_anthropic_result(i, content, errors) for i, content in zip(ids, contents, strict=True)]
        if shape == 3:
            for block in blocks:
                self.add("user", [block])
        elif blocks:
            beside = [{"type": "text", "text": self.text()}] if shape == 4 else []
            self.add("user", blocks + beside)

    def answer(self) -> None:
        text = self.text()
        as_block = not self.openai and self.up_to(1)
        self.add("assistant", [{"type": "text", "text": text}] if as_block else text)

    def exchange(self, delayed: bool) -> None:
        ids = self.call()
        late = [ids.pop()] if delayed and self.up_to(5) == 5 else []
        self.results(ids)
        if late:
            self.answer()
            self.results(late)


@st.composite
def _history(
    draw: Callable[..., Any], dialect: str, min_turns: int, max_turns: int, ending: Ending, delayed: bool
) -> list[Raw]:
    writer = _Writer(draw, dialect)
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


def openai_histories(
    *, min_turns: int = 0, max_turns: int = 4, ending: Ending = "any", delayed: bool = True
) -> st.SearchStrategy[list[Raw]]:
    """Well-formed OpenAI chat histories: every result after its call, and every call answered but for
    those of the last group of one that ends ``pending``.

    Args:
        min_turns: A history of no turns has nothing but system messages, if any.
        max_turns: At most this many turns.
        ending: How the last turn ends.
        delayed: Some results come only after the assistant has spoken again.
    """
    return _history("openai.chat", min_turns, max_turns, ending, delayed)


def anthropic_histories(
    *, min_turns: int = 0, max_turns: int = 4, ending: Ending = "any", delayed: bool = True
) -> st.SearchStrategy[list[Raw]]:
    """Like :func:`openai_histories`, as Anthropic messages; system texts are plain messages."""
    return _history("anthropic", min_turns, max_turns, ending, delayed)


def histories(
    *, min_turns: int = 0, max_turns: int = 4, ending: Ending = "any", delayed: bool = True
) -> st.SearchStrategy[list[Raw]]:
    """Histories of either dialect."""
    return openai_histories(
        min_turns=min_turns, max_turns=max_turns, ending=ending, delayed=delayed
    ) | anthropic_histories(min_turns=min_turns, max_turns=max_turns, ending=ending, delayed=delayed)
