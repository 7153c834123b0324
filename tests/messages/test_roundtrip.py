"""The law of losslessness: what was read is the caller's own object, and its bytes come back."""

import copy
import json
import pickle
import random
from collections import UserDict
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

import strategies
from shapes import ask, blocks, call, fc, out, result, results, rs, say, thought, use
from siltstone.errors import ConversionLossError, InvalidMessageError
from siltstone.messages import (
    Dialect,
    HostedMessage,
    InjectedMessage,
    KeyedSystemMessage,
    Message,
    Part,
    RepairedMessage,
    SummaryMessage,
    broken_tool_groups,
    canonical_bytes,
    canonical_digest,
    decode,
    encode,
    logged,
    message_size,
    read_history,
    read_mark,
    read_message,
    validate_history,
    without_own_key,
)
from siltstone.messages.conversion import convert
from siltstone.messages.json_text import OWN_KEY
from strategies import HISTORIES, PIXEL, histories, json_objects, texts

BY_DIALECT = {
    "any": strategies.plain_messages(),
    "openai.chat": strategies.openai_messages(),
    "openai.responses": strategies.responses_items(),
    "anthropic": strategies.anthropic_messages(),
}


def assert_is_kept(raw: dict[str, Any], dialect: Any) -> None:
    before = copy.deepcopy(raw)
    message = read_message(raw, 7, dialect=dialect)
    text = encode(raw)
    assert message.raw is raw
    assert raw == before
    assert decode(text) == raw
    assert encode(decode(text)) == text
    text.encode("utf-8")  # raises where a lone surrogate was not escaped


@pytest.mark.parametrize("dialect", BY_DIALECT)
@given(data=st.data())
def test_decoding_an_encoding_gives_back_the_input_byte_for_byte(dialect: str, data: st.DataObject) -> None:
    raw = data.draw(BY_DIALECT[dialect])
    assert_is_kept(raw, dialect)
    assert_is_kept(raw, None)  # the dialect is found out


@given(extra=strategies.json_objects(), message=strategies.plain_messages())
def test_keys_that_nobody_knows_are_kept(extra: dict[str, Any], message: dict[str, Any]) -> None:
    assert_is_kept({**extra, **message}, "any")


@given(message=strategies.plain_messages())
def test_a_plain_message_reads_alike_in_every_dialect(message: dict[str, Any]) -> None:
    expected = read_message(message, 0, dialect="any")
    for dialect in ("openai.chat", "openai.responses", "anthropic"):
        if message["role"] == "developer" and dialect == "anthropic":
            continue  # a role that Anthropic does not have
        assert read_message(message, 0, dialect=dialect).parts == expected.parts


@given(
    raw=st.one_of(strategies.openai_messages(), strategies.responses_items(), strategies.anthropic_messages())
)
def test_the_size_is_that_of_the_json_text(raw: dict[str, Any]) -> None:
    text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
    assert message_size(raw) == (len(text.encode("utf-8", "surrogatepass")), len(text))


def test_adjacent_halves_come_back_as_the_code_point_they_stand_for() -> None:
    """JSON cannot tell the two forms apart, so this is the one text that changes."""
    assert decode(encode({"role": "user", "content": "\ud83d\ude00"}))["content"] == "😀"


def test_a_summary_keeps_its_ranges_through_copies() -> None:
    summary = SummaryMessage("[Context compacted] …", ((1, 4), (5, 9)))
    for twin in (copy.copy(summary), copy.deepcopy(summary), pickle.loads(pickle.dumps(summary))):
        assert twin == summary
        assert twin.covers == summary.covers
        assert isinstance(twin, SummaryMessage)


def test_a_role_and_a_text_are_written_in_their_order_as_an_encoder_writes_them():
    for text in ("plain", 'a "quote"\n\x00', "é 漢 \U0001f600", "half \ud83d", ""):
        for raw in ({"role": "user", "content": text}, {"content": text, "role": "user"}):
            slow = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
            assert encode(raw) == slow.replace("\ud83d", "\\ud83d")


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


def called(arguments: dict[str, Any]) -> dict[str, Any]:
    return blocks("assistant", {"type": "tool_use", "id": "t", "name": "f", "input": arguments})


class Dumped:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self.fields


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_keys_and_the_form_of_json_do_not_count(raws: list[Any], order: random.Random) -> None:
    for raw in raws:
        fields = decode(encode(raw))
        known = canonical_bytes(raw)
        assert canonical_bytes(shuffled(fields, order)) == known
        assert canonical_bytes(json.loads(json.dumps(fields, indent=2))) == known
        assert canonical_bytes(Dumped(fields)) == known
        assert canonical_bytes({**fields, "refusal": None} if "refusal" not in fields else fields) == known


@given(histories())
def test_other_messages_have_other_bytes(raws: list[Any]) -> None:
    by_bytes: dict[bytes, Any] = {}
    for raw in raws:
        fields = decode(encode(raw))
        other = by_bytes.setdefault(canonical_bytes(raw), fields)
        assert _bare(other) == _bare(fields)
        assert canonical_bytes({**fields, "more": "said"}) != canonical_bytes(raw)


def _bare(value: Any) -> Any:
    """Without what does not count; Python takes 1 for equal to 1.0 by itself."""
    if isinstance(value, dict):
        kept = {key: _bare(each) for key, each in value.items() if each is not None}
        return {key: each for key, each in kept.items() if key != "cache_control"}
    return [_bare(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            blocks("user", {"type": "text", "text": "a"}),
            blocks("user", {"text": "a", "type": "text", "cache_control": {"type": "ephemeral"}}),
        ),
        (called({"n": 1}), called({"n": 1.0})),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": None},
            {"arguments": "{}", "name": "f", "call_id": "c", "type": "function_call"},
        ),
        ({"role": "user", "content": "\ud83d\ude00"}, {"role": "user", "content": "\U0001f600"}),
    ],
)
def test_the_same_message_in_two_forms(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical_bytes(one) == canonical_bytes(other)


def test_a_mark_of_the_cache_inside_of_arguments_is_what_was_said() -> None:
    assert canonical_bytes(called({"cache_control": "on"})) != canonical_bytes(called({}))


def test_a_digest_is_the_same_in_every_process_and_of_one_length() -> None:
    said = {"role": "user", "content": "yes"}
    assert canonical_digest(said).hex() == "fbe185aa62a477df5133aefd8b23c4a6"
    assert canonical_digest({"content": "yes", "role": "user", "name": None}) == canonical_digest(said)
    assert canonical_digest({"role": "user", "content": "no"}) != canonical_digest(said)
    assert len(canonical_digest(said)) == 16


def test_a_message_of_one_text_is_the_one_that_was_made_from_its_part():
    raw = {"role": "user", "content": "one text"}
    made = read_message(raw, 7)
    other = Message(7, "user", (Part("text", "one text"),), raw)
    assert made.said == made.text == "one text"
    assert other.said is None
    for like in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert like == other
        assert repr(like) == repr(other)
        assert like.parts == other.parts
    assert made.numbered(8) == other.numbered(8) == replace(made, seq=8)
    assert made.parts is made.parts
    with pytest.raises(AttributeError, match="no 'content'"):
        made.content  # noqa: B018
    raw["content"] = "changed"
    assert read_message({"role": "user", "content": ""}, 0).parts == (Part("text", ""),)
    late = read_message({"role": "user", "content": "said"}, 0)
    late.raw["content"] = "changed"
    assert (late.text, late.parts[0].text) == ("said", "said")


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


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (Block(type="human", content="hi"), "its type 'human': give a dict such as"),
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
    ids=range(12),
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


DIALECTS = [cast("Dialect", name) for name in HISTORIES]
PAIRS = [(one, other) for one in DIALECTS for other in DIALECTS if one != other]


def said(raws: list[Any]) -> list[tuple[Any, ...]]:
    """The parts of a history, in order and without their carriers: texts, calls, results, media."""
    found: list[tuple[Any, ...]] = []
    for message in read_history(raws):
        role = "rules" if message.role in ("system", "developer") else message.role
        for part in message.parts:
            if part.kind == "text":
                found.append((role, part.text))
            elif part.kind == "tool_call":
                found.append(("call", part.call_id, part.name, _object(part.arguments)))
            elif part.kind == "tool_result":
                found.append(("result", part.call_id, part.text))
            elif part.kind == "blob":
                found.append(("blob", part.text, part.size))
    return found


def _object(arguments: str | None) -> Any:
    try:
        return json.loads(arguments or "")
    except ValueError:
        return arguments


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_a_legal_history_becomes_a_legal_one_and_every_loss_is_told(
    source: Dialect, target: Dialect, data: st.DataObject
) -> None:
    raws = data.draw(HISTORIES[source](min_turns=1, legal=True))
    before = copy.deepcopy(raws)
    converted = convert(raws, target)
    assert raws == before
    assert validate_history(converted.messages, target) == []
    assert broken_tool_groups(converted.messages) == 0
    lossy = {loss.position for loss in converted.losses}
    assert all(loss.part and loss.why for loss in converted.losses)
    there = said(converted.messages)
    for position, raw in enumerate(raws):
        if position not in lossy:
            for each in said([raw]):
                assert each in there, "what is gone is told"


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_a_round_trip_without_a_loss_says_the_same(source: Dialect, target: Dialect, data: st.DataObject):
    raws = data.draw(HISTORIES[source](min_turns=1, legal=True))
    there = convert(raws, target)
    back = convert(there.messages, source)
    if not there.losses and not back.losses:
        assert said(back.messages) == said(raws)
    again = convert(back.messages, target)
    if not there.losses and not back.losses:
        assert again.losses == ()
        assert said(again.messages) == said(there.messages)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_no_history_is_too_odd_to_be_converted(source: Dialect, target: Dialect, data: st.DataObject) -> None:
    raws = data.draw(HISTORIES[source]())
    converted = convert(raws, target)
    assert [finding.rule for finding in validate_history(converted.messages, target)].count("malformed") == 0
    read_history(converted.messages)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_is_of_the_dialect_already_is_the_same_object(dialect: Dialect, data: st.DataObject) -> None:
    raws = [raw for raw in data.draw(HISTORIES[dialect](legal=True)) if raw.get("role") != "developer"]
    converted = convert(raws, dialect, dialect=dialect)
    assert converted.losses == ()
    assert [id(raw) for raw in converted.messages] == [id(raw) for raw in raws]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_plain_messages_and_summaries_stay_the_objects_they_are(source: Dialect, target: Dialect) -> None:
    summary = SummaryMessage("[Context compacted] so", ((0, 3),))
    exchange: dict[str, list[Any]] = {
        "openai.chat": [call("a"), result("a")],
        "openai.responses": [fc("a"), out("a")],
        "anthropic": [use("a"), results("a")],
    }
    raws = [summary, ask(), *exchange[source], say()]
    converted = convert(raws, target)
    assert converted.losses == ()
    assert converted.messages[0] is summary
    assert converted.messages[1] is raws[1]
    assert converted.messages[-1] is raws[-1]
    assert converted.messages[2:-1] == exchange[target]


def lost(raws: list[Any], target: Dialect) -> list[tuple[int, str]]:
    return [(loss.position, loss.part) for loss in convert(raws, target).losses]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


GREP = {"type": "custom_tool_call", "call_id": "a", "name": "grep", "input": "x y"}
FAILED = {"type": "tool_result", "tool_use_id": "a", "content": [IMAGE], "is_error": True}
CACHED = {"type": "text", "text": "a", "cache_control": {"type": "x"}}
FILED = {"type": "input_image", "file_id": "file_1", "detail": "auto"}


@pytest.mark.parametrize(
    ("raws", "target", "losses"),
    [
        ([ask(), thought(), say()], "openai.chat", [(1, "content[0] (thinking)")]),
        ([ask(), {**say(), "reasoning_content": "hm"}], "anthropic", [(1, "reasoning_content")]),
        ([ask(), rs(), say()], "anthropic", [(1, "reasoning")]),
        ([{"type": "web_search_call", "id": "w"}], "openai.chat", [(0, "web_search_call")]),
        (
            [ask(), call("a"), result("a"), {"role": "developer", "content": "x"}],
            "anthropic",
            [(3, "role"), (3, "place")],
        ),
        ([{**ask(), "name": "ann"}, call("a"), result("a")], "anthropic", [(0, "name")]),
        ([ask(), use("a"), blocks("user", FAILED)], "openai.chat", [(2, "is_error"), (2, "image")]),
        ([ask(), GREP, out("a", type="custom_tool_call_output")], "anthropic", [(1, "arguments of grep")]),
        ([blocks("user", CACHED, IMAGE)], "openai.chat", [(0, "content[0].cache_control")]),
        ([ask(), fc("a"), say("wait"), out("a", output="late")], "openai.chat", [(3, "place")]),
        ([blocks("user", FILED)], "anthropic", [(0, "image")]),
    ],
)
def test_what_has_no_place_there_is_named(raws: list[Any], target: Dialect, losses: list[Any]) -> None:
    assert lost(raws, target) == losses
    with pytest.raises(ConversionLossError) as caught:
        convert(raws, target, on_loss="error")
    assert (caught.value.loss.position, caught.value.loss.part) == losses[0]


def test_media_keep_their_data_in_every_dialect() -> None:
    png = f"data:image/png;base64,{PIXEL}"
    pdf = f"data:application/pdf;base64,{PIXEL}"
    chat = [
        blocks(
            "user",
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": png}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "file", "file": {"file_data": pdf, "filename": "a.pdf"}},
        )
    ]
    items = convert(chat, "openai.responses")
    claude = convert(items.messages, "anthropic")
    assert items.losses == claude.losses == ()
    source = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
    assert claude.messages[0]["content"] == [  # type: ignore[index]
        {"type": "text", "text": "look"},
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": source, "title": "a.pdf"},
    ]
    assert convert(claude.messages, "openai.chat").messages == chat


def test_an_id_that_is_used_again_becomes_one_of_its_own() -> None:
    chat = [ask(), call("a"), result("a", "one"), call("a"), result("a", "two"), ask()]
    converted = convert(chat, "anthropic")
    assert [loss.position for loss in converted.losses] == [3, 4]
    assert converted.messages[3:5] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a-2", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a-2", "content": "two"}]},
    ]
