"""Values that a message type of ours carries beside its dict survive the JSON text of the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.messages import (
    HostedMessage,
    InjectedMessage,
    KeyedSystemMessage,
    RepairedMessage,
    SummaryMessage,
    canonical_bytes,
    decode,
    encode,
    logged,
    read_mark,
    read_message,
    without_own_key,
)
from siltstone.messages.json_text import OWN_KEY
from strategies import json_objects, texts

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
    assert mark is not None
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
