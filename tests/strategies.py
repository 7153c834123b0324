"""Generates texts, JSON values, messages, items and histories for the property tests."""

import json
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

Raw: TypeAlias = dict[str, Any]

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


@cache
def openai_parts() -> st.SearchStrategy[Raw]:
    media = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    return st.one_of(_text_blocks(), st.sampled_from(media).map(dict), _unknown_blocks())


def openai_call(call_id: str, name: str, arguments: str, custom: bool = False) -> Raw:
    if custom:
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@cache
def openai_messages() -> st.SearchStrategy[Raw]:
    """Single OpenAI chat messages of every shape; they need not make a history."""
    names = texts(max_size=8)
    content = st.one_of(texts(), st.lists(openai_parts(), max_size=3))
    call = st.builds(openai_call, texts(min_size=1), names, texts(), st.booleans())
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


def _source(media_type: str, data: str, kind: str = "base64") -> Raw:
    return {"type": kind, "media_type": media_type, "data": data}


def _image() -> Raw:
    return {"type": "image", "source": _source("image/png", PIXEL)}


@cache
def anthropic_user_blocks() -> st.SearchStrategy[Raw]:
    image = st.builds(_image)
    paper = st.builds(lambda: {"type": "document", "source": _source("application/pdf", PIXEL)})
    note = texts().map(lambda text: {"type": "document", "source": _source("text/plain", text, "text")})
    return st.one_of(_text_blocks(), image, paper, note, _unknown_blocks())


@cache
def thinking() -> st.SearchStrategy[Raw]:
    plain = texts().map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
    return plain | st.builds(lambda: {"type": "redacted_thinking", "data": "b3BhcXVl"})


def anthropic_use(call_id: str, name: str, arguments: Raw, kind: str = "tool_use") -> Raw:
    return {"type": kind, "id": call_id, "name": name, "input": arguments}


def anthropic_result(call_id: str, content: Any, is_error: bool | None) -> Raw:
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
def result_contents() -> st.SearchStrategy[Any]:
    blocks = st.lists(st.one_of(_text_blocks(), st.builds(_image), _unknown_blocks()), max_size=3)
    return st.one_of(st.none(), texts(), blocks)


@cache
def anthropic_messages() -> st.SearchStrategy[Raw]:
    """Single Anthropic messages of every shape; they need not make a history."""
    ids = texts(min_size=1, max_size=8)
    use = st.builds(anthropic_use, ids, texts(max_size=8), json_objects())
    server = st.builds(anthropic_use, ids, st.just("web_search"), json_objects(), st.just("server_tool_use"))
    found = st.builds(_found, ids, texts())
    result = st.builds(anthropic_result, ids, result_contents(), st.none() | st.booleans())
    compacted = st.builds(
        lambda text: {
            "type": "compaction",
            "content": text,
            "signature": "c2ln",
            "encrypted_content": "eA==",
        },
        st.none() | texts(min_size=1),
    )
    said = st.one_of(_text_blocks(), thinking(), use, server, found, compacted, _unknown_blocks())
    upload = st.builds(lambda: {"type": "container_upload", "file_id": "file_1"})
    asked = st.one_of(anthropic_user_blocks(), upload, result)
    return st.one_of(
        (texts() | st.lists(said, max_size=4)).map(lambda content: {"role": "assistant", "content": content}),
        (texts() | st.lists(asked, max_size=4)).map(lambda content: {"role": "user", "content": content}),
    )


PICTURE = f"data:image/png;base64,{PIXEL}"
KINDS = ["function_call"] * 4 + ["custom_tool_call", "shell_call", "apply_patch_call", "computer_call"]


@cache
def user_blocks() -> st.SearchStrategy[Raw]:
    media = [
        {"type": "input_image", "detail": "auto", "image_url": PICTURE},
        {"type": "input_image", "detail": "low", "file_id": "file_1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"},
    ]
    said = texts().map(lambda text: {"type": "input_text", "text": text})
    unknown = json_objects().map(lambda extra: {**extra, "type": "block_of_tomorrow"})
    return st.one_of(said, st.sampled_from(media).map(dict), unknown)


def call_item(call_id: str, item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """A call that the host answers, with *text* among its arguments."""
    return st.sampled_from(KINDS).map(lambda kind: _call(kind, call_id, item_id, text))


def _call(kind: str, call_id: str, item_id: str, text: str) -> Raw:
    item: Raw = {"type": kind, "id": item_id, "call_id": call_id}
    match kind:
        case "function_call":
            return {**item, "name": "read_file", "arguments": text}
        case "custom_tool_call":
            return {**item, "name": "grep", "input": text}
        case "shell_call":
            return {**item, "action": {"commands": [text]}, "status": "completed"}
        case "apply_patch_call":
            create = {"type": "create_file", "path": "a.py", "diff": text}
            return {**item, "operation": create, "status": "completed"}
        case _:
            click = {"type": "click", "button": "left", "x": 1, "y": 2}
            return {**item, "action": click, "pending_safety_checks": [], "status": "completed"}


def output_item(kind: str, call_id: str, item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """What answers a call of type *kind*, in one of the forms it may have."""
    item: Raw = {"type": f"{kind}_output", "call_id": call_id, "id": item_id}
    said = {"type": "input_text", "text": text}
    picture = {"type": "input_image", "detail": "auto", "image_url": PICTURE}
    chunk = {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    forms: dict[str, list[Any]] = {
        "shell_call": [[chunk], [chunk, chunk]],
        "apply_patch_call": [text],
        "computer_call": [{"type": "computer_screenshot", "image_url": PICTURE}],
    }
    outputs = st.sampled_from(forms.get(kind, [text, [said], [said, picture]]))
    more = {"status": "completed"} if kind == "apply_patch_call" else {}
    return outputs.map(lambda output: {**item, "output": output, **more})


def hosted_items(item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """Calls that the provider ran itself."""
    done: Raw = {"id": item_id, "status": "completed"}
    logs = [{"type": "logs", "logs": text}]
    return st.sampled_from([
        {**done, "type": "web_search_call", "action": {"type": "search", "query": text}},
        {**done, "type": "file_search_call", "queries": [text], "results": [{"text": text}]},
        {**done, "type": "code_interpreter_call", "code": text, "container_id": "c", "outputs": logs},
        {**done, "type": "image_generation_call", "result": PIXEL},
        {
            **done, "type": "mcp_call", "name": "ls", "server_label": "files", "arguments": text,
            "output": text, "approval_request_id": None, "error": None,
        },
    ])  # fmt: skip


@cache
def responses_items() -> st.SearchStrategy[Raw]:
    """Single items of every type; they need not make a history."""
    ids = texts(min_size=1, max_size=8)
    calls = st.tuples(ids, ids, texts()).flatmap(lambda drawn: call_item(*drawn))
    kinds = st.sampled_from(KINDS)
    outputs = st.tuples(kinds, ids, ids, texts()).flatmap(lambda drawn: output_item(*drawn))
    hosted = st.tuples(ids, texts()).flatmap(lambda drawn: hosted_items(*drawn))
    contents = st.one_of(texts(), st.lists(user_blocks(), max_size=3))
    roles = st.sampled_from(["system", "developer", "user", "assistant"])
    messages = st.fixed_dictionaries({"type": st.just("message"), "role": roles, "content": contents})
    unknown = st.fixed_dictionaries(
        {"type": st.just("item_of_tomorrow")}, optional={"call_id": ids, "extra": json_values()}
    )
    others: list[Raw] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z3VhcmRlZA=="},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z3VhcmRlZA=="},
        {"type": "item_reference", "id": "msg_1"},
        {"id": "rs_1"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []},
        {"type": "mcp_approval_request", "id": "r", "name": "ls", "server_label": "f", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
        {
            "type": "local_shell_call",
            "id": "l",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "local_shell_call_output", "id": "c", "output": "{}"},
        {"type": "tool_search_call", "arguments": {"query": "x"}, "execution": "server"},
        {"type": "tool_search_output", "call_id": None, "tools": []},
        {"type": "program", "id": "p", "call_id": "c", "code": "ls()", "fingerprint": "f"},
        {"type": "program_output", "id": "q", "call_id": "c", "result": "ok", "status": "completed"},
    ]
    return st.one_of(calls, outputs, hosted, messages, unknown, st.sampled_from(others).map(dict))


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
