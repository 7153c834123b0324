"""Live objects of an SDK, and values of our own types: read by what they dump, and given back as they are."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.errors import InvalidMessageError
from siltstone.messages import (
    HostedMessage,
    InjectedMessage,
    KeyedSystemMessage,
    Part,
    RepairedMessage,
    SummaryMessage,
    canonical_bytes,
    decode,
    encode,
    logged,
    message_size,
    read_mark,
    read_message,
    without_own_key,
)
from siltstone.messages.json_text import OWN_KEY
from strategies import json_objects, texts


class Block:
    """As the models of the SDKs: attributes, of which some were set and some are defaults."""

    def __init__(self, defaults: dict[str, Any] | None = None, **fields: Any) -> None:
        self.fields, self.defaults = fields, defaults or {}

    def model_dump(
        self, *, mode: str = "python", exclude_unset: bool = False, exclude_none: bool = False
    ) -> dict[str, Any]:
        assert mode == "json"
        dumped = {key: _dumped(value) for key, value in self.fields.items()}
        if not exclude_unset:
            dumped = {**self.defaults, **dumped}
        return {key: value for key, value in dumped.items() if value is not None or not exclude_none}


def _dumped(value: Any) -> Any:
    if isinstance(value, list):
        return [_dumped(item) for item in value]
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, Block) else value


def test_blocks_of_an_answer_may_be_appended_as_they_came() -> None:
    text = Block({"citations": None}, type="text", text="I look")
    use = Block(type="tool_use", id="a", name="ls", input={"path": "."})
    raw = {"role": "assistant", "content": [text, use]}
    message = read_message(raw, 0)
    assert message.raw is raw
    assert raw["content"][0] is text
    assert message.dialect == "anthropic"
    assert message.parts == (Part("text", "I look"), Part("tool_call", "", "a", "ls", '{"path":"."}'))


def test_a_whole_message_may_be_an_object() -> None:
    call = Block(id="a", type="function", function=Block(name="ls", arguments="{}"))
    live = Block({"audio": None}, role="assistant", content=None, tool_calls=[call])
    message = read_message(live, 0)
    assert message.raw is live
    assert message.parts == (Part("tool_call", "", "a", "ls", "{}"),)


def test_an_object_is_written_as_what_the_sdk_would_send() -> None:
    raw = {"role": "assistant", "content": [Block({"citations": None}, type="text", text="é")]}
    text = '{"role":"assistant","content":[{"type":"text","text":"é"}]}'
    assert encode(raw) == text
    assert decode(encode(raw)) == {"role": "assistant", "content": [{"type": "text", "text": "é"}]}
    assert message_size(raw) == (len(text.encode()), len(text))


def test_an_object_built_by_hand_owes_its_type_to_a_default() -> None:
    block = Block({"type": "text", "citations": None}, text="hi")
    assert read_message({"role": "user", "content": [block]}, 0).parts == (Part("text", "hi"),)
    live = Block({"role": "assistant", "refusal": None}, content="hi")
    assert read_message(live, 0).role == "assistant"


@pytest.mark.parametrize("kind", [UserDict, MappingProxyType])
def test_any_mapping_is_a_message(kind: Any) -> None:
    raw = kind({"role": "user", "content": [kind({"type": "text", "text": "hi"})]})
    message = read_message(raw, 0)
    assert message.raw is raw
    assert message.parts == (Part("text", "hi"),)
    assert encode(raw) == '{"role":"user","content":[{"type":"text","text":"hi"}]}'
    assert message_size(raw) == (len(encode(raw)), len(encode(raw)))


def test_an_object_that_cannot_dump_itself_is_refused() -> None:
    class Broken:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            raise ValueError("a field that no JSON has")

    with pytest.raises(InvalidMessageError, match="Broken cannot dump itself: a field"):
        read_message(Broken(), 4)


def test_pydantic_models_are_read() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    block = pydantic.create_model("TextBlock", type=(str, ...), text=(str, ...), citations=(Any, None))
    raw = {"role": "assistant", "content": [block(type="text", text="hi")]}
    assert read_message(raw, 0).parts == (Part("text", "hi"),)
    assert encode(raw) == '{"role":"assistant","content":[{"type":"text","text":"hi"}]}'


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (Block(type="human", content="hi"), "its type 'human': give a dict such as"),
        (Block(type="new_item", content="hi"), "its type 'new_item'"),
        (Block({"type": "ai"}, content="hi"), "its type 'ai'"),
        ({"type": "human", "content": "hi"}, "convert_to_openai_messages"),
        ({"type": "ai", "data": {"content": "hi"}}, "convert_to_openai_messages"),
        (
            {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"]},
            "siltstone.adapters.langchain",
        ),
        ({"type": "AIMessageChunk", "content": "hi"}, "siltstone.adapters.langchain"),
        ({"kind": "request", "parts": [{"content": "hi"}]}, "siltstone.adapters.pydantic_ai"),
        ({"role": "user", "content": [{"text": "hi"}]}, "'content[0]' has no type"),
        ({"role": "user", "content": [{"toolResult": {"toolUseId": "1"}}]}, "siltstone.adapters.strands"),
        (Block(type="text", text="hi"), "its type 'text'"),
        (Block(index=0, message=Block(role="assistant", content="hi")), "it has no role"),
        ("hi", '{"role": "user", "content": "..."}'),
        ([{"role": "user", "content": "hi"}], "as in append(*messages)"),
    ],
    ids=range(14),
)
def test_a_message_of_a_framework_is_refused_with_what_to_give_instead(raw: Any, words: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        read_message(raw, 7)
    assert "message 7" in str(caught.value)
    assert words in str(caught.value)


def test_an_item_that_only_a_newer_api_has_is_read_from_a_dict() -> None:
    raw = {"type": "dream_call", "id": "dr_1", "call_id": "a"}
    assert read_message(raw, 0).dialect == "openai.responses"


keyed = st.builds(KeyedSystemMessage, texts(), texts().filter(bool), st.integers(1, 10**9))
roles = st.sampled_from(["user", "system"])
plain = st.builds(lambda role, text: {"role": role, "content": text}, roles, texts())


@given(raw=keyed)
def test_a_keyed_system_message_keeps_key_and_version(raw: KeyedSystemMessage) -> None:
    again = decode(encode(raw))
    assert isinstance(again, KeyedSystemMessage)
    expected = json.loads(json.dumps([dict(raw), raw.key, raw.version]))
    assert [dict(again), again.key, again.version] == expected
    assert encode(decode(encode(raw))) == encode(again)
    assert without_own_key(encode(raw)) == encode(dict(raw))


@given(fields=plain, host=json_objects().filter(bool))
def test_the_log_keeps_a_host_s_form_and_nothing_else_of_a_message_has_it(
    fields: dict[str, Any], host: dict[str, Any]
) -> None:
    raw = HostedMessage(fields, host)
    again = decode(logged(raw))
    assert isinstance(again, HostedMessage)
    assert [dict(again), again.host] == json.loads(json.dumps([fields, host]))
    assert encode(raw) == encode(again) == without_own_key(logged(raw)) == encode(fields)
    assert canonical_bytes(raw) == canonical_bytes(fields)
    assert logged(HostedMessage(fields, {})) == encode(fields)


@given(fields=plain, kind=st.sampled_from([RepairedMessage, InjectedMessage]))
def test_the_provenance_of_a_message_is_a_column_of_its_row(fields: dict[str, Any], kind: Any) -> None:
    message = read_message(kind(fields), 0)
    again = read_message(decode(encode(message.raw)), 0, provenance=message.provenance)
    assert message.provenance != "original"
    assert (again.provenance, again.role) == (message.provenance, message.role)
    assert dict(again.raw) == json.loads(json.dumps(fields))  # type: ignore[arg-type]


@given(text=texts(), level=st.integers(1, 9))
def test_a_summary_keeps_what_it_stands_for_in_its_text(text: str, level: int) -> None:
    again = decode(encode(SummaryMessage(text, ((1, 4), (6, 9)), level)))
    mark = read_mark(again["content"])
    assert (mark.level, mark.covers) == (level, ((1, 4), (6, 9)))


@given(raw=json_objects(), own=st.sampled_from([{}, {"key": "k", "version": 1}, {"key": 7}, None, "x"]))
def test_a_caller_s_own_key_of_our_name_is_kept(raw: dict[str, Any], own: Any) -> None:
    raw = {**raw, OWN_KEY: own}
    again = decode(encode(raw))
    assert type(again) is dict
    assert encode(again) == encode(raw)
    assert canonical_bytes(again) == canonical_bytes(raw)


def test_mk_21_after_restarts_only_the_newest_version_is_sent(tmp_path: Path) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=2_000))
    for version in (1, 2, 3):
        with Session.open(tmp_path, "s", policy=policy, model=lambda request: "What was said.") as session:
            session.append(KeyedSystemMessage(f"Rules {version}.", "rules", version))
            for number in range(4):
                session.append({"role": "user", "content": f"Question {number}. " + "word " * 200})
                prepared = session.prepare()
                session.append({"role": "assistant", "content": "Answer. " * 100})
    assert [raw["content"] for raw in prepared.messages if raw["role"] == "system"] == ["Rules 3."]
