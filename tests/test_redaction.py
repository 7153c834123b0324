"""Does redaction find what is a secret, leave what is none, and never change what was signed?"""

import json
import pickle
import sysconfig
from collections import Counter
from pathlib import Path
from random import Random
from textwrap import indent
from typing import Any

import pytest
from hypothesis import given, strategies as st

from secret_forms import FORMS, HEX, LOGINS, Planted, drawn, plant, take
from siltstone import ConfigError
from siltstone.errors import SecretRefusedError
from siltstone.messages import SummaryMessage
from siltstone.redaction import RedactionConfig, Redactor, SecretRule, redact, rule_names

CHECKOUT = Path(__file__).parent.parent
KEY = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"
COMMIT = "d0150b8e3c1f6a7b9d2e4f50617283940a1b2c3d"
UUID = "123e4567-e89b-42d3-a456-426614174000"


def real_texts(*folders: str) -> list[str]:
    """Paragraphs of the project's own files."""
    files = [
        file for folder in folders for kind in ("md", "py") for file in (CHECKOUT / folder).rglob(f"*.{kind}")
    ]
    files = [file for file in files if file.name != "redaction.md"]  # its examples are of secrets
    texts = [text for file in sorted(files) for text in file.read_text("utf-8").split("\n\n")]
    return [text for text in texts if 80 < len(text) < 2000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefghij0123456789", "Authorization: Bearer [REDACTED]"),
        ("Bearer abcdefghij_0123456789-x.y", "Bearer [REDACTED]"),
        ('apiKey: "abcd1234efgh5678"', 'apiKey: "[REDACTED]"'),
        ("api_key=abcd1234efgh5678", "api_key=[REDACTED]"),
        ("api-key: abcd1234efgh5678", "api-key: [REDACTED]"),
        ("token=abcd1234efgh5678ijkl", "token=[REDACTED]"),
        ("id d41d8cd98f00b204e9800998ecf8427e.", "id [REDACTED_HEX]."),
        ("v aGVsbG8gd29ybGQgdGhpcyBpcyBhIHNlY3JldCBrZXk9", "v [REDACTED_B64]"),
        ("plain text, and nothing else", "plain text, and nothing else"),
        (f"first {KEY}, then password='p4ssw0rd-99'", "first [REDACTED], then password='[REDACTED]'"),
    ],
)
def test_oc_58_the_documented_patterns_become_typed_placeholders(text: str, expected: str) -> None:
    assert redact(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abcdefghij012345678",
        "api_key=abcd1234efgh567",
        "token=abcd1234efgh5678ijk",
        "a" * 8 + COMMIT[:23],
    ],
    ids=["bearer", "api key", "token", "hex"],
)
def test_oc_58_one_character_below_the_documented_length_stays(text: str) -> None:
    assert redact(text) == (text, [])


def test_oc_60_a_commit_id_stays_unless_that_is_switched_off() -> None:
    text = f"fixed in {COMMIT}"
    assert redact(text) == (text, [])
    assert redact(text, RedactionConfig(keep_commit_ids=False))[0] == "fixed in [REDACTED_HEX]"


def test_strict_takes_every_run_of_32() -> None:
    run = "theQuickBrownFoxJumpsOverTheLazyDog"
    assert redact(run)[0] == run
    assert redact(run, RedactionConfig(strict=True))[0] == "[REDACTED_B64]"


@pytest.mark.parametrize(
    "text",
    [
        f"session {UUID}",
        f"git show {COMMIT}",
        "image@sha256:" + take(Random(1), HEX, 64),
        '"integrity": "sha512-' + take(Random(2), "ABCDEFabcdef0123456789+/", 86) + '=="',
        "etag: " + take(Random(3), HEX, 32),
        "data:image/png;base64," + take(Random(4), "ABCDEFabcdef0123456789+/", 300),
        "token = settings.get_access_token_value",
        "api_key: ${SERVICE_API_KEY_VALUE}",
        "password: please_enter_your_own",
        "password=<your password here>",
        "max_tokens: 4096, total_tokens=170251",
        "https://example.com:8080/a/b@c",
        "postgres://user:password@localhost/app",
        "class sk-container-id-1 div.sk-toggleable",
        "/usr/lib/python3/dist-packages/Some2/Module3/Deep/tree/of/names",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == (text, [])


def corpus() -> list[Planted]:
    strict = Redactor(RedactionConfig(strict=True))  # a secret may be planted between a hash and its label
    clean = [text for text in real_texts("docs", "python") if not strict.redact(text)[1]]
    return list(plant(clean, 40 * len(FORMS), seed=18))


def test_of_secrets_in_real_text_none_is_left_and_little_else_goes() -> None:
    planted = corpus()
    assert len(planted) >= 2_000
    assert len(FORMS) >= 40
    redactor = Redactor()
    missed: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    for each in planted:
        redacted, found = redactor.redact(each.text)
        if each.secret in redacted or not any(f.start <= each.start and each.end <= f.end for f in found):
            missed[each.form] += 1
        for finding in found:
            if finding.end <= each.start or finding.start >= each.end:
                beside[finding.rule] += 1
    assert dict(missed) == {}
    assert dict(beside) == {}


def in_places(said: str) -> list[dict[str, Any]]:
    """*said* as a text, in a call, in its result, in JSON and in YAML."""
    function = {"name": "run", "arguments": json.dumps({"command": said, "timeout": 5})}
    return [
        {"role": "user", "content": f"Please run this:\n{said}\nand tell me."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": f"$ cat notes\n{said}\n"},
        {"role": "user", "content": json.dumps({"steps": [{"run": said}]})},
        {"role": "user", "content": f"steps:\n  - run: |\n{indent(said, ' ' * 6)}\n    when: always\n"},
    ]


@pytest.mark.parametrize("form", LOGINS)
def test_a_password_beside_the_words_of_its_form_is_found_in_every_place(form: str) -> None:
    redactor, random, missed = Redactor(), Random(f"of {form}"), list[tuple[int, str]]()
    for _ in range(60):
        before, secret, behind = LOGINS[form](random)
        for place, message in enumerate(in_places(f"{before}{secret}{behind}")):
            redacted, found = redactor.redact_message(message)
            if secret in json.dumps(redacted) or not found:
                missed.append((place, secret))
            whole = json.dumps(message).replace(json.dumps(secret)[1:-1], "[REDACTED]")
            assert json.dumps(redacted) in (whole, json.dumps(message)), "nothing else goes"
    # Without quotes, letters alone may be words joined by capitals: of random ones very few look so.
    assert all(secret.isalpha() for _, secret in missed), missed
    assert len(missed) <= 10, "of 300"


def test_lines_of_code_and_prose_that_have_no_secret_stay() -> None:
    """The sources of Python itself speak of passwords, tokens and keys on thousands of lines."""
    library = Path(sysconfig.get_path("stdlib"))
    others = {"site-packages", "test", "tests"}  # tests have passwords
    files = [file for file in library.rglob("*.py") if not others & {*file.parts}]
    files += [*CHECKOUT.glob("python/**/*.py"), *CHECKOUT.glob("docs/**/*.md"), CHECKOUT / "CHANGELOG.md"]
    words = ("passw", "pwd", "secret", "token", "curl ", "netrc", "auth", "pass", "login", "key")
    texts = [file.read_text("utf-8", "replace") for file in files if file.name != "redaction.md"]
    lines = {
        line for text in texts for line in text.split("\n") if any(word in line.lower() for word in words)
    }
    redactor = Redactor()
    found = [line for line in sorted(lines) if len(line) < 400 and redactor.redact(line)[1]]
    assert len(lines) > 5_000
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        'password: "must be at least 8 characters long"',
        '{"password": "The two password fields do not match"}',
        'label(password="Enter your password", token="is required for login")',
        'password = "settings.auth.primary"',
        "password: Optional[str] = None",
        "password=userPassword, secret=getAccessKey, pwd=HTTPServerName",
        "if password == other.password: pass",
        "the machine asks for a login and a password twice",
        "curl -u $USER:$PASSWORD https://x && curl -u ann https://x",
        "curl -U agent:8080 works; use -u name:password",
        "--password <password> and --password=$PASSWORD",
        "12 passed, 3 failed; pass: 12 fail: 3",
        "2026-05-07 12:01:03 INFO auth: login ok user=ann password=****** ip=10.0.0.1",
        "<password>${DB_PASSWORD}</password>",
        "GET /reset?password=${new} HTTP/1.1",
    ],
)
def test_talk_of_passwords_stays(text: str) -> None:
    assert redact(text) == (text, [])


def test_a_finding_names_the_rule_and_the_place_and_never_the_secret() -> None:
    for form in FORMS:
        before, secret, behind = drawn(form, Random(5))
        text = f"é {before}{secret}{behind}"
        redacted, found = redact(text)
        assert secret not in redacted
        assert secret not in repr(found)
        assert {each.rule for each in found} <= set(rule_names())
        assert secret in text[found[0].start : found[-1].end] or form == "braintree"


pieces = st.one_of(
    st.text(max_size=12),
    st.sampled_from([
        *"=:;,.\"'`@/-_ \n", "[REDACTED]", "[REDACTED_HEX]",
        "token", "password", "api_key", "Bearer ", "://", "eyJ",
        "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Authorization: ", "curl -u ", "machine ",
    ]),
    st.builds(
        lambda form, seed: "".join(drawn(form, Random(seed))),
        st.sampled_from(list(FORMS)),
        st.integers(0, 50),
    ),
)  # fmt: skip


@given(st.lists(pieces, max_size=12).map("".join), st.booleans())
def test_what_was_redacted_is_not_changed_by_being_redacted_again(text: str, strict: bool) -> None:
    redactor = Redactor(RedactionConfig(strict=strict))
    once, found = redactor.redact(text)
    assert redactor.redact(once) == (once, [])
    if not found:
        assert once is text


@given(st.lists(pieces, max_size=12).map("".join))
def test_placeholders_stand_exactly_where_the_findings_say(text: str) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    redacted, found = redact(text)
    at, expected = 0, ""
    for each in found:
        assert at <= each.start < each.end <= len(text)
        expected += text[at : each.start] + each.placeholder
        at = each.end
    assert redacted == expected + text[at:]


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ", "-----BEGIN PRIVATE KEY-----", "token=", "https://a:", "postgres://a:", "sk-", "ghp_",
        "curl -u a", "password: ", "Bearer ", "aws_secret_access_key", "a:b@", "AAAAAAAAAAAAAAAAAAAA",
        "xoxb-",
        "machine a login ",
    ],
)  # fmt: skip
def test_a_megabyte_of_beginnings_is_read_in_one_line(unit: str) -> None:
    """Whatever is slower than linear does not come back from this within the suite's limit."""
    text = unit * (1_000_000 // len(unit))
    redacted, _ = redact(text)
    assert redacted


def test_a_rule_allows_redacts_or_blocks() -> None:
    text = f"mail {KEY} now"
    assert redact(text, RedactionConfig(actions={"github-token": "allow"}))[0] == text
    with pytest.raises(SecretRefusedError, match="'github-token'") as refused:
        redact(text, RedactionConfig(actions={"github-token": "block"}))
    assert (refused.value.rule, refused.value.reason) == ("github-token", "blocked")
    assert KEY not in str(refused.value)
    assert pickle.loads(pickle.dumps(refused.value)).rule == "github-token"


def test_a_rule_of_one_s_own() -> None:
    badge = SecretRule("badge", r"badge (?P<s>\d{6})", ("badge",), "[BADGE]")
    redactor = Redactor(RedactionConfig(rules=(badge,)))
    assert redactor.redact("my badge 123456\nroom 123456")[0] == "my badge [BADGE]\nroom 123456"
    without_keyword = SecretRule("number", r"№\s*\d+", placeholder="[NO]")
    assert redact("№ 7", RedactionConfig(rules=(without_keyword,)))[0] == "[NO]"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"actions": {"githab": "allow"}}, "githab"),
        ({"actions": {"hex": "drop"}}, "drop"),
        ({"rules": (SecretRule("a", "("),)}, "rule \"a\""),
        ({"rules": (SecretRule("a", r"(a)\1"),)}, "rule \"a\""),
        ({"rules": (SecretRule("a", "a*"),)}, "empty text"),
        ({"rules": (SecretRule("hex", "a"),)}, "two rules"),
        ({"signed": "change"}, "'change'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_when_it_is_built(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RedactionConfig(**config)


NESTED = json.dumps({"env": {"a": KEY, "password": "hunter22hunter"}, "n": [1, "é\n" + KEY]})

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": f"my key is {KEY}"},
    {"role": "user", "content": [{"type": "text", "text": f"my key is {KEY}"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": UUID, "type": "function", "function": {"name": "f", "arguments": NESTED}}],
    },
    {"role": "tool", "tool_call_id": UUID, "content": NESTED},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": UUID, "name": "f", "input": {"id": KEY, "deep": {KEY: [KEY]}}}
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": UUID, "content": [{"type": "text", "text": f"x {KEY}"}]}
        ],
    },
    {"type": "function_call", "call_id": UUID, "name": "f", "arguments": NESTED},
    {"type": "function_call_output", "call_id": UUID, "output": f"found {KEY}"},
    {"role": "assistant", "content": "x", "reasoning_content": f"the key {KEY}"},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_text_of_a_message_of_any_dialect_is_read(message: dict[str, Any]) -> None:
    before = json.dumps(message)
    redacted, found = Redactor().redact_message(message)
    written = json.dumps(redacted)
    assert KEY not in written
    assert "hunter22" not in written
    assert written.count(UUID) == before.count(UUID)
    assert json.dumps(message) == before
    assert all(each.path for each in found)
    again, nothing = Redactor().redact_message(redacted)
    assert again is redacted
    assert nothing == []


@pytest.mark.parametrize("place", [2, 3, 6])
def test_json_inside_a_text_stays_json(place: int) -> None:
    redacted, _ = Redactor().redact_message(MESSAGES[place])
    assert isinstance(redacted, dict)
    calls = redacted.get("tool_calls")
    text = calls[0]["function"]["arguments"] if calls else redacted.get("content") or redacted["arguments"]
    assert json.loads(text)["n"][0] == 1


def test_a_secret_that_is_escaped_inside_json_is_found() -> None:
    hidden = '{"a": "\\u0067' + KEY[1:] + '"}'
    redacted, found = Redactor().redact_message({"role": "tool", "tool_call_id": "c", "content": hidden})
    assert isinstance(redacted, dict)
    assert KEY[8:] not in redacted["content"]
    assert [each.path for each in found] == ["content.$.a"]


def test_media_and_ids_stay_as_they_are() -> None:
    data = take(Random(6), "ABCDEFabcdef0123456789+/", 400)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    address = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    call = {
        "id": "call_" + take(Random(7), HEX, 32),
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    }
    message = {"role": "assistant", "content": [image, address], "tool_calls": [call]}
    assert Redactor().redact_message(message) == (message, [])
    assert Redactor().redact_message(message)[0] is message


SIGNED: list[dict[str, Any]] = [
    {"role": "assistant", "content": [{"type": "thinking", "thinking": f"use {KEY}", "signature": "sig"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": f"use {KEY}"}]},
    {
        "role": "assistant",
        "content": "x",
        "reasoning_details": [{"type": "reasoning.text", "text": KEY, "signature": "sig"}],
    },
]


@pytest.mark.parametrize("message", SIGNED)
def test_signed_reasoning_with_a_secret_is_left_out_or_refused_and_never_changed(message: dict[str, Any]):
    redacted, found = Redactor().redact_message(message)
    written = json.dumps(redacted)
    assert KEY not in written
    assert "signature" not in written
    assert [each.rule for each in found] == ["github-token"]
    with pytest.raises(SecretRefusedError) as refused:
        Redactor(RedactionConfig(signed="refuse")).redact_message(message)
    assert refused.value.reason == "signed"


def test_signed_reasoning_without_a_secret_is_the_same_object() -> None:
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "so", "signature": take(Random(8), "ABCDabcd0123+/", 200)},
            {"type": "redacted_thinking", "data": take(Random(9), "ABCDabcd0123+/", 200)},
            {"type": "text", "text": "done"},
        ],
    }
    assert Redactor().redact_message(message)[0] is message


def test_a_summary_stays_a_summary() -> None:
    summary = SummaryMessage(f"they used {KEY}", ((0, 4),), 2)
    redacted, _ = Redactor().redact_message(summary)
    assert isinstance(redacted, SummaryMessage)
    assert (redacted.covers, redacted.level) == (((0, 4),), 2)
    assert KEY not in redacted["content"]
    assert KEY in summary["content"]


def test_any_value_is_read_keys_included() -> None:
    value, found = Redactor().redact_value({"list": [KEY, 1, None], KEY: True})
    assert value == {"list": ["[REDACTED]", 1, None], "[REDACTED]": True}
    assert len(found) == 2


def test_a_lone_surrogate_beside_a_secret_raises_nothing() -> None:
    assert redact(f"\ud800 {KEY}")[0] == "\ufffd [REDACTED]"
    assert redact("\ud800")[0] == "\ud800"


def test_what_is_left_of_a_secret_that_was_cut_is_taken_out() -> None:
    key = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"
    redactor = Redactor().knowing([key, "short"])
    for text, expected in (
        (f"the key {key[:20]}\n[… cut …]\nand so on", "the key [REDACTED]\n[… cut …]\nand so on"),
        (f"[… cut …]\n{key[20:]} is it", "[… cut …]\n[REDACTED] is it"),
        (f"{key[5:]} {key[:-5]}", "[REDACTED] [REDACTED]"),
        (f"{key[:7]} and short stay", f"{key[:7]} and short stay"),
        (f"{key[:12]}other", f"{key[:12]}other"),
        (key, "[REDACTED]"),
    ):
        assert redactor.redact(text)[0] == expected
        assert redactor.redact_message({"role": "user", "content": text})[0]["content"] == expected
    assert Redactor().redact(key[:20])[0] == key[:20], "by the rules alone it is none"


@given(st.text("ab1 \n", max_size=60), st.text("ab1", min_size=8, max_size=20))
def test_no_beginning_or_end_of_a_known_secret_is_left(text: str, secret: str) -> None:
    redacted = Redactor().knowing([secret]).redact(text)[0]
    words = redacted.replace("[REDACTED]", " ").split()
    for word in words:
        for size in range(8, len(secret) + 1):
            assert word != secret[:size]
            assert word != secret[-size:]
